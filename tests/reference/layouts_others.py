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


def detr(seed, width, height, queries, classes, threshold, kind):
    """RT-DETR and D-FINE. One object for each query, of its best class; boxes as parts of the input."""
    rng = np.random.default_rng(seed)
    if kind == "sigmoid":
        scores = tensor(rng.normal(-2.0, 1.5, (queries, classes)))
        chances = sigmoid(read(scores))
    else:
        scores = tensor(background(rng, (queries, classes)))
        chances = read(scores)
    boxes = tensor(rng.uniform(0.05, 0.95, (queries, 4)))
    out = []
    for query in range(queries):
        cx, cy, w, h = read(boxes)[query] * [width, height, width, height]
        out.append((query, *best_two(chances[query]), cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2))
    if kind == "joined":
        tensors = [tensor(np.concatenate([boxes["values"], scores["values"]], 1))]
    else:
        tensors = [scores, boxes]
    return case({"kind": kind}, width, height, classes, threshold, tensors, out)


def detr_ranked(seed, width, height, queries, classes, threshold):
    """The authors' export: every pair of query and class was ranked in the network, boxes are in pixels."""
    rng = np.random.default_rng(seed)
    labels = tensor(rng.integers(0, classes, queries), "i64")
    corners = rng.uniform(0, 0.5, (queries, 2)), rng.uniform(0.5, 1.1, (queries, 2))
    boxes = tensor(np.concatenate(corners, 1) * [width, height, width, height])
    scores = tensor(np.sort(rng.beta(0.6, 1.5, queries))[::-1])
    out = [(q, labels["values"][q], read(scores)[q], -1.0, *read(boxes)[q]) for q in range(queries)]
    return case({"kind": "ranked"}, width, height, classes, threshold, [labels, boxes, scores], out)


def nms_plugin(seed, width, height, most, count, classes, threshold, plugin, unit):
    """TensorRT's plug-ins. What lies behind the count is what an earlier picture left there."""
    rng = np.random.default_rng(seed)
    labels = tensor(rng.integers(0, classes, most), "i32" if plugin == "efficient" else "f32")
    scale = np.array([width, height, width, height]) if unit == "normalized" else np.ones(4)
    corners = rng.uniform(0, 0.5, (most, 2)), rng.uniform(0.5, 1.1, (most, 2))
    boxes = tensor(np.concatenate(corners, 1) * np.array([width, height, width, height]) / scale)
    scores = tensor(np.sort(rng.uniform(0.05, 1.0, most))[::-1])
    rows = zip(read(labels), read(scores), read(boxes) * scale)
    out = [(index, label, score, -1.0, *box) for index, (label, score, box) in enumerate(rows)][:count]
    parameters = {"plugin": plugin, "boxes_are": unit}
    return case(parameters, width, height, classes, threshold, [tensor([count], "i32"), boxes, scores, labels], out)


LAYOUTS = {
    "detr": lambda: [
        detr(11, 96, 64, 60, 7, 0.4, "sigmoid"),
        detr(12, 64, 96, 40, 4, 0.3, "none"),
        detr(13, 128, 80, 40, 3, 0.35, "joined"),
        detr_ranked(14, 640, 384, 50, 80, 0.25),
    ],
    "fcos": lambda: [
        fcos(1, 96, 64, (8, 16, 32), 5, 0.3, False),
        fcos(2, 72, 40, (8, 16, 32, 64), 3, 0.4, True),
        fcos(3, 128, 96, (8,), 1, 0.25, False),
    ],
    "nms_plugin": lambda: [
        nms_plugin(21, 320, 192, 50, 30, 6, 0.6, "efficient", "pixels"),
        nms_plugin(22, 320, 192, 40, 40, 3, 0.5, "batched", "normalized"),
        nms_plugin(23, 96, 64, 40, 25, 80, 0.7, "batched", "pixels"),
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
