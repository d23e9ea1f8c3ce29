#!/usr/bin/env python3
"""Independent reference of the output layouts that are not of the YOLO family; needs numpy only.

    python3 tests/reference/layouts_others.py

writes tests/golden/layouts/NAME.json: random outputs of networks with the candidates that come out of them. Each decoder
is written from the description of its family, box by box in float64, without a look at the speed. Cases in which rounding
could turn a decision over are refused.
"""
import json
import math
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden" / "layouts"


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-np.asarray(x, np.float64)))


def softmax(x):
    e = np.exp(np.asarray(x, np.float64) - np.max(x))
    return e / e.sum()


def cells_of(width, height, stride):
    """Column and row of each cell, row by row; a cell that is only begun counts."""
    return [(x, y) for y in range(math.ceil(height / stride)) for x in range(math.ceil(width / stride))]


def tensor(values, kind="f32"):
    """What a network would give: rounded, so that the file stays small and both sides read the same numbers."""
    values = np.asarray(values)
    if kind == "f32":
        values = np.round(values.astype(np.float64), 3)
    return {"type": kind, "axes": list(values.shape), "values": values}


def read(one):
    return one["values"].astype(np.float32).astype(np.float64) if one["type"] == "f32" else one["values"]


def case(parameters, width, height, classes, threshold, tensors, boxes):
    """One case. `boxes` holds (cell, class, score, second score, x1, y1, x2, y2) of every box that the output describes,
    whatever its score."""
    numbers = [
        [float(f"{v:.3f}") if one["type"] == "f32" else int(v) for v in one["values"].ravel()] for one in tensors
    ]
    found = [box for box in boxes if box[2] >= threshold]
    assert min(abs(box[2] - threshold) for box in boxes) > 1e-5, "a score at the threshold: take another seed"
    assert all(box[2] - box[3] > 1e-7 for box in found), "two best classes: take another seed"
    assert 5 <= len(found) <= 0.7 * len(boxes), f"{len(found)} of {len(boxes)} boxes pass: no test of the threshold"
    assert classes < 3 or len({box[1] for box in found}) > 1, "all boxes have one class"
    rows = [[int(b[0]), int(b[1]), round(float(b[2]), 6)] + [round(float(v), 4) for v in b[4:]] for b in found]
    return {
        "parameters": parameters, "input": [width, height], "classes": classes, "threshold": threshold,
        "tensors": [{"type": t["type"], "axes": t["axes"], "numbers": n} for t, n in zip(tensors, numbers)],
        "candidates": rows,
    }


def best_two(scores):
    """Best class, its score and the score of the second, which is minus one where there is none."""
    order = np.argsort(-scores, kind="stable")
    return order[0], scores[order[0]], scores[order[1]] if len(scores) > 1 else -1.0


def background(rng, shape):
    """Scores of which few are high, as networks give them."""
    return rng.beta(0.35, 2.5, shape)


def fcos(seed, width, height, strides, classes, threshold, centerness):
    rng = np.random.default_rng(seed)
    grids = [cells_of(width, height, s) for s in strides]
    sizes = [(math.ceil(height / s), math.ceil(width / s)) for s in strides]
    scores = [tensor(background(rng, (classes, *size))) for size in sizes]
    boxes = [tensor(rng.gamma(2.0, 1.0, (4, *size))) for size in sizes]
    centers = [tensor(rng.beta(2.0, 1.0, (1, *size))) for size in sizes] if centerness else []
    out = []
    for level, (stride, cells) in enumerate(zip(strides, grids)):
        for x, y in cells:
            label, best, second = best_two(read(scores[level])[:, y, x])
            if centerness:
                center = read(centers[level])[0, y, x]
                best, second = math.sqrt(best * center), math.sqrt(max(second, 0.0) * center)
            left, top, right, bottom = read(boxes[level])[:, y, x] * stride
            cx, cy = x * stride + stride / 2, y * stride + stride / 2
            out.append((len(out), label, best, second, cx - left, cy - top, cx + right, cy + bottom))
    parameters = {"grids": len(strides), "centerness": centerness}
    return case(parameters, width, height, classes, threshold, scores + boxes + centers, out)


LAYOUTS = {
    "fcos": lambda: [
        fcos(1, 96, 64, (8, 16, 32), 5, 0.3, False),
        fcos(2, 72, 40, (8, 16, 32, 64), 3, 0.4, True),
        fcos(3, 128, 96, (8,), 1, 0.25, False),
    ],
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, cases in LAYOUTS.items():
        text = json.dumps({"cases": cases()}, separators=(",", ":")) + "\n"
        assert len(text) <= 60_000, f"{name}: {len(text)} bytes"
        (FOLDER / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()
