#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
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


def listed(kind, count):
    """Names of one tensor of this kind for each grid, as `model.yaml` lists them."""
    return f"{kind}: [" + ", ".join(f"{kind}_{level}" for level in range(count)) + "]"


def case(output, width, height, classes, threshold, tensors, boxes):
    """One case. `output` is the key of this name in `model.yaml`. `boxes` holds (cell, class, score, second score, x1, y1, x2, y2) of every box that the output describes,
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
        "output": output, "width": width, "height": height, "classes": classes, "threshold": threshold,
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
    kinds = ["scores", "boxes"] + ["centerness"] * centerness
    output = "{layout: fcos, tensors: {" + ", ".join(listed(kind, len(strides)) for kind in kinds) + "}}"
    return case(output, width, height, classes, threshold, scores + boxes + centers, out)


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
        output = "{layout: detr, name: rows}"
    else:
        tensors = [scores, boxes]
        output = f"{{layout: detr, tensors: {{scores: scores, boxes: boxes}}, activation: {kind}}}"
    return case(output, width, height, classes, threshold, tensors, out)


def detr_ranked(seed, width, height, queries, classes, threshold):
    """The authors' export: every pair of query and class was ranked in the network, boxes are in pixels."""
    rng = np.random.default_rng(seed)
    labels = tensor(rng.integers(0, classes, queries), "i64")
    corners = rng.uniform(0, 0.5, (queries, 2)), rng.uniform(0.5, 1.1, (queries, 2))
    boxes = tensor(np.concatenate(corners, 1) * [width, height, width, height])
    scores = tensor(np.sort(rng.beta(0.6, 1.5, queries))[::-1])
    out = [(q, labels["values"][q], read(scores)[q], -1.0, *read(boxes)[q]) for q in range(queries)]
    output = "{layout: detr, tensors: {labels: labels, boxes: boxes, scores: scores}}"
    return case(output, width, height, classes, threshold, [labels, boxes, scores], out)


def parts_with_count(seed, width, height, most, count, classes, threshold, plugin, unit):
    """TensorRT's plug-ins. What lies behind the count is what an earlier picture left there."""
    rng = np.random.default_rng(seed)
    labels = tensor(rng.integers(0, classes, most), "i32" if plugin == "efficient" else "f32")
    scale = np.array([width, height, width, height]) if unit == "normalized" else np.ones(4)
    corners = rng.uniform(0, 0.5, (most, 2)), rng.uniform(0.5, 1.1, (most, 2))
    boxes = tensor(np.concatenate(corners, 1) * np.array([width, height, width, height]) / scale)
    scores = tensor(np.sort(rng.uniform(0.05, 1.0, most))[::-1])
    rows = zip(read(labels), read(scores), read(boxes) * scale)
    out = [(index, label, score, -1.0, *box) for index, (label, score, box) in enumerate(rows)][:count]
    names = "{boxes: boxes, scores: scores, classes: classes, count: count}"
    output = f"{{layout: finished, tensors: {names}, boxes_are: {unit}}}"
    return case(output, width, height, classes, threshold, [boxes, scores, labels, tensor([count], "i32")], out)


def side_distance(logits):
    """What a distribution over the distances 0, 1, 2, … leads to expect."""
    return float((softmax(logits) * np.arange(len(logits))).sum())


def gfl(seed, width, height, strides, classes, reg_max, threshold, joined, offset):
    """NanoDet-Plus (joined, offset 0), NanoDet and PicoDet (separate, offset a half)."""
    rng = np.random.default_rng(seed)
    bins = reg_max + 1
    places = [(s, x, y) for s in strides for x, y in cells_of(width, height, s)]
    scores = tensor(background(rng, (len(places), classes)))
    sides = tensor(rng.normal(0.0, 1.5, (len(places), 4 * bins)))
    out = []
    for row, (stride, x, y) in enumerate(places):
        distances = [stride * side_distance(read(sides)[row, k * bins : (k + 1) * bins]) for k in range(4)]
        cx, cy = (x + offset) * stride, (y + offset) * stride
        box = cx - distances[0], cy - distances[1], cx + distances[2], cy + distances[3]
        out.append((row, *best_two(read(scores)[row]), *box))
    if joined:
        tensors = [tensor(np.concatenate([scores["values"], sides["values"]], 1))]
        names = "name: rows"
    else:
        names = "tensors: {" + listed("scores", len(strides)) + ", " + listed("boxes", len(strides)) + "}"
        ends = np.cumsum([len(cells_of(width, height, s)) for s in strides])[:-1]
        tensors = [tensor(part) for whole in (scores, sides) for part in np.split(whole["values"], ends)]
    return case(f"{{layout: nanodet, {names}, reg_max: {reg_max}}}", width, height, classes, threshold, tensors, out)


def rows_of_six(seed, width, height, count, filled, classes, threshold):
    """Networks of PaddleDetection with their post-processing; behind the boxes are rows that only fill the tensor up."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 0.5, (count, 2)), rng.uniform(0.5, 1.1, (count, 2))
    boxes = np.concatenate(corners, 1) * [width, height, width, height]
    labels = rng.integers(0, classes, (count, 1)).astype(float)
    scores = np.sort(rng.uniform(0.05, 1.0, (count, 1)), 0)[::-1]
    rows = np.concatenate([labels, scores, boxes], 1)
    rows = tensor(np.concatenate([rows, np.tile([-1.0, 0, 0, 0, 0, 0], (filled, 1))]))
    out = [(i, row[0], row[1], -1.0, *row[2:]) for i, row in enumerate(read(rows)[:count])]
    return case("{layout: finished, name: rows, columns: [class, score, left, top, right, bottom]}", width, height, classes, threshold, [rows], out)


def detectnet_v2(seed, width, height, classes, threshold, box_norm, offset):
    """The coverage of a class decides on its own box; half a pixel, not half a cell, into the cell."""
    rng = np.random.default_rng(seed)
    stride = 16
    rows, columns = math.ceil(height / stride), math.ceil(width / stride)
    scores = tensor(background(rng, (classes, rows, columns)))
    boxes = tensor(rng.uniform(0.1, 2.0, (classes * 4, rows, columns)))
    out = []
    for label in range(classes):
        for y in range(rows):
            for x in range(columns):
                left, top, right, bottom = read(boxes)[label * 4 : label * 4 + 4, y, x] * box_norm
                px, py = x * stride + offset, y * stride + offset
                score = read(scores)[label, y, x]
                out.append((len(out), label, score, -1.0, px - left, py - top, px + right, py + bottom))
    names = "{scores: scores, boxes: boxes}"
    output = f"{{layout: detectnet_v2, tensors: {names}, box_norm: {box_norm}, offset: {offset}}}"
    return case(output, width, height, classes, threshold, [scores, boxes], out)


def fastestdet(seed, width, height, classes, threshold):
    rng = np.random.default_rng(seed)
    rows, columns = height // 16, width // 16
    planes = np.zeros((5 + classes, rows, columns))
    planes[0] = rng.beta(0.5, 1.5, (rows, columns))
    planes[1:5] = rng.normal(0.0, 1.0, (4, rows, columns))
    planes[5:] = np.apply_along_axis(softmax, 0, rng.normal(0.0, 2.5, (classes, rows, columns)))
    planes = tensor(planes)
    out = []
    for y in range(rows):
        for x in range(columns):
            objectness, tx, ty, tw, th, *chances = read(planes)[:, y, x]
            label, best, second = best_two(np.array(chances))
            score, other = (objectness**0.6 * max(c, 0.0) ** 0.4 for c in (best, second))
            cx, cy = (x + math.tanh(tx)) / columns * width, (y + math.tanh(ty)) / rows * height
            w, h = sigmoid(tw) * width, sigmoid(th) * height
            out.append((len(out), label, score, other, cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2))
    return case("{layout: fastestdet, name: planes}", width, height, classes, threshold, [planes], out)


def anchors_of(grids, cut):
    """The default boxes of the SSD paper with Caffe's order in a cell, as centers and sizes."""
    anchors = []
    for grid in grids:
        for j in range(grid["rows"]):
            for i in range(grid["columns"]):
                step = grid["step"] or [1 / grid["columns"], 1 / grid["rows"]]
                center = [(i + 0.5) * step[0], (j + 0.5) * step[1]]
                shapes = [(grid["scale"], 1.0), (math.sqrt(grid["scale"] * grid["next_scale"]), 1.0)]
                for ratio in grid["ratios"]:
                    shapes += [(grid["scale"], ratio), (grid["scale"], 1 / ratio)]
                anchors += [center + [s * math.sqrt(r), s / math.sqrt(r)] for s, r in shapes]
    return np.clip(anchors, 0, 1) if cut else np.array(anchors)


def ssd(seed, width, height, classes, threshold, background, activation, grids=(), cut=False, count=0, unit=None):
    """With `grids` boxes are deltas against their anchors, else `count` corners in `unit`."""
    rng = np.random.default_rng(seed)
    size = np.array([width, height, width, height])
    variances = [0.1, 0.1, 0.2, 0.2]
    if grids:
        anchors = anchors_of(grids, cut)
        count = len(anchors)
        boxes = tensor(rng.normal(0.0, 1.5, (count, 4)))
    else:
        corners = np.concatenate([rng.uniform(0, 0.5, (count, 2)), rng.uniform(0.5, 1.0, (count, 2))], 1)
        boxes = tensor(corners * size if unit == "pixels" else corners)
    row_len = classes + (background != "none")
    if activation == "none":
        scores = tensor(background_scores(rng, count, row_len))
    else:
        scores = tensor(rng.normal(-1.0, 1.6, (count, row_len)))
    first = 1 if background == "first" else 0
    out = []
    for row in range(count):
        values = read(scores)[row]
        chances = {"none": lambda v: v, "softmax": softmax, "sigmoid": sigmoid}[activation](values)
        raw = read(boxes)[row]
        if grids:
            ax, ay, aw, ah = anchors[row]
            cx, cy = ax + raw[0] * variances[0] * aw, ay + raw[1] * variances[1] * ah
            w, h = aw * math.exp(raw[2] * variances[2]), ah * math.exp(raw[3] * variances[3])
            box = np.array([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]) * size
        else:
            box = raw if unit == "pixels" else raw * size
        out.append((row, *best_two(chances[first : first + classes]), *box))
    keys = f"boxes_are: {unit}"
    if grids:
        steps = [grid["step"][0] if grid["step"] else 1 / grid["columns"] for grid in grids]
        keys = f"feature_maps: {[[grid['columns'], grid['rows']] for grid in grids]}"
        keys += f", scales: {[grid['scale'] for grid in grids] + [grids[-1]['next_scale']]}"
        keys += f", aspect_ratios: {[grid['ratios'] for grid in grids]}, variances: {variances}"
        keys += f", steps: {steps}, clip_anchors: true" if cut else ""
    output = f"{{layout: ssd, tensors: {{boxes: boxes, scores: scores}}, background: {background}, activation: {activation}, {keys}}}"
    return case(output, width, height, classes, threshold, [boxes, scores], out)


def background_scores(rng, count, row_len):
    """Rows that add up to one, as after a softmax in the network."""
    return np.apply_along_axis(softmax, 1, rng.normal(0.0, 2.0, (count, row_len)))


def grid(columns, rows, scale, next_scale, ratios, step=None):
    return {
        "columns": columns, "rows": rows, "step": step, "scale": scale, "next_scale": next_scale, "ratios": ratios,
    }


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
    "gfl": lambda: [
        gfl(31, 64, 40, (8, 16, 32, 64), 4, 7, 0.3, True, 0.0),
        gfl(32, 72, 40, (8, 16, 32, 64), 5, 7, 0.4, False, 0.5),
        gfl(33, 64, 64, (8, 16, 32), 1, 5, 0.15, True, 0.0),
    ],
    "ssd": lambda: [
        ssd(71, 300, 300, 4, 0.6, "first", "softmax", [
            grid(5, 5, 0.2, 0.35, [2.0, 3.0], [64 / 300, 64 / 300]), grid(2, 2, 0.35, 1.1, [2.0]),
        ], cut=True),
        ssd(72, 320, 192, 3, 0.4, "none", "sigmoid", [grid(5, 3, 0.3, 0.6, [1.7])]),
        ssd(73, 320, 192, 3, 0.6, "last", "softmax", [grid(6, 4, 0.25, 0.4, [])]),
        ssd(74, 300, 300, 5, 0.6, "first", "none", count=60, unit="normalized"),
        ssd(75, 128, 96, 3, 0.75, "none", "softmax", count=60, unit="pixels"),
    ],
    "rows_of_six": lambda: [rows_of_six(41, 320, 320, 40, 10, 80, 0.5)],
    "detectnet_v2": lambda: [
        detectnet_v2(51, 160, 96, 3, 0.4, 35.0, 0.5),
        detectnet_v2(52, 160, 96, 1, 0.15, 20.0, 8.0),
    ],
    "fastestdet": lambda: [fastestdet(61, 352, 352, 3, 0.5), fastestdet(62, 96, 64, 6, 0.45)],
    "parts_with_count": lambda: [
        parts_with_count(21, 320, 192, 50, 30, 6, 0.6, "efficient", "pixels"),
        parts_with_count(22, 320, 192, 40, 40, 3, 0.5, "batched", "normalized"),
        parts_with_count(23, 96, 64, 40, 25, 80, 0.7, "batched", "pixels"),
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
