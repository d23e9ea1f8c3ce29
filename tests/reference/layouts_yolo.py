#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Independent reference of the output layouts of the YOLO families, in numpy; writes tests/golden/layouts.

    python3 tests/reference/layouts_yolo.py

Needs numpy. Each case is what a network would give for one picture, with random numbers, and the candidates that come out
of it: `[place, class, score, left, top, right, bottom]`. Formulas are those of the papers, written over whole arrays in
float64. Cases in which rounding could turn a decision over are refused: take another seed then.
"""
import json
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden" / "layouts"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def grid(width, height, stride):
    """Column and row of each cell, row by row."""
    gx, gy = np.meshgrid(np.arange(width // stride), np.arange(height // stride))
    return gx.ravel(), gy.ravel()


def corners(cx, cy, w, h):
    return np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)


def candidates(boxes, scores, threshold):
    """Rows of the boxes whose best class reaches the threshold; `scores` is [boxes, classes]."""
    best, classes = scores.max(1), scores.argmax(1)
    assert np.abs(best - threshold).min() > 1e-5, "a score at the threshold: take another seed"
    found = np.flatnonzero(best >= threshold)
    ranked = np.sort(scores[found], 1)
    gaps = ranked[:, -1] - ranked[:, -2]
    # Of exactly equal classes the first counts, here and there.
    assert ((gaps > 1e-6) | (gaps == 0)).all(), "two best classes: take another seed"
    assert 8 <= len(found) < len(boxes) * 0.8, f"{len(found)} of {len(boxes)}"
    return [
        [int(i), int(classes[i]), round(float(best[i]), 6)] + [round(float(edge), 4) for edge in boxes[i]] for i in found
    ]


def decode_yolox_grids(grids, width, height):
    boxes, scores = [], []
    for planes, stride in zip(grids, (8, 16, 32)):
        flat = planes.reshape(len(planes), -1)
        gx, gy = grid(width, height, stride)
        boxes.append(corners((flat[0] + gx) * stride, (flat[1] + gy) * stride, np.exp(flat[2]) * stride, np.exp(flat[3]) * stride))
        scores.append((flat[4] * flat[5:]).T)
    return np.concatenate(boxes), np.concatenate(scores)


def decode_yolov5(rows):
    return corners(*rows[:, :4].T), rows[:, 4:5] * rows[:, 5:]


def decode_yolov8(planes):
    return corners(*planes[:4]), planes[4:].T


def decode_darknet(boxes, scores, width, height):
    return boxes.reshape(-1, 4) * [width, height, width, height], scores


def decode_darknet_grids(grids, width, height, anchors, scale_x_y):
    boxes, scores = [], []
    for planes, pairs, scale in zip(grids, anchors, scale_x_y):
        stride = height // planes.shape[1]
        gx, gy = grid(width, height, stride)
        for part, (aw, ah) in zip(np.split(planes, len(pairs)), pairs):
            flat = part.reshape(len(part), -1)
            cx = (sigmoid(flat[0]) * scale - 0.5 * (scale - 1) + gx) * stride
            cy = (sigmoid(flat[1]) * scale - 0.5 * (scale - 1) + gy) * stride
            boxes.append(corners(cx, cy, np.exp(flat[2]) * aw, np.exp(flat[3]) * ah))
            scores.append((sigmoid(flat[4]) * sigmoid(flat[5:])).T)
    return np.concatenate(boxes), np.concatenate(scores)


def numbers(array):
    """Rounded to what the file holds, as the 32-bit floats that the test reads."""
    return np.round(array, 3).astype(np.float32).astype(np.float64)


def write(name, output, size, classes, threshold, tensors, decoded):
    case = {
        "output": output, "width": size[0], "height": size[1], "classes": classes, "threshold": threshold,
        "tensors": [{"axes": list(t.shape), "numbers": [float(f"{v:.3f}") for v in t.ravel()]} for t in tensors],
        "candidates": candidates(*decoded, threshold),
    }
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(case, separators=(",", ":")) + "\n")
    print(f"{path.name}: {len(case['candidates'])} candidates, {path.stat().st_size} bytes")


def main():
    FOLDER.mkdir(exist_ok=True)

    size, rng = (96, 64), np.random.default_rng(11)
    grids = [rng.normal(0.5, 0.5, (9, size[1] // s, size[0] // s)) for s in (8, 16, 32)]
    for planes in grids:
        planes[4:] = rng.beta(0.8, 1.0, planes[4:].shape)
    grids = [numbers(planes) for planes in grids]
    write("yolox_grids", "{layout: yolox, tensors: {grids: [a, b, c]}}", size, 4, 0.35, grids, decode_yolox_grids(grids, *size))

    rng = np.random.default_rng(12)
    rows = np.concatenate([rng.uniform(0, 96, (150, 2)), rng.uniform(1, 60, (150, 2)), rng.beta(0.8, 1.0, (150, 6))], 1)
    rows = numbers(rows)
    write("yolov5", "{layout: yolov5, name: output0}", size, 5, 0.4, [rows], decode_yolov5(rows))

    size, rng = (160, 96), np.random.default_rng(13)
    count = sum((size[0] // s) * (size[1] // s) for s in (8, 16, 32))
    planes = np.concatenate([rng.uniform(0, 160, (2, count)), rng.uniform(1, 90, (2, count)), rng.beta(0.3, 1.5, (7, count))])
    planes = numbers(planes)
    write("yolov8", "{layout: yolov8, name: output0}", size, 7, 0.5505, [planes], decode_yolov8(planes))

    size, rng = (416, 256), np.random.default_rng(14)
    boxes = np.sort(rng.uniform(-0.05, 1.05, (170, 1, 2, 2)), 2).reshape(170, 1, 4)
    boxes, scores = numbers(boxes), numbers(rng.beta(0.3, 1.5, (170, 6)))
    output = "{layout: yolov4, tensors: {boxes: boxes, scores: confs}}"
    write("darknet", output, size, 6, 0.5005, [boxes, scores], decode_darknet(boxes, scores, *size))

    size = (128, 96)
    coarse = [(81, 82), (135, 169), (344, 319)]
    for name, seed, second, scale in [
        ("yolov3_grids", 15, [(10, 14), (23, 27), (37, 58)], 1.0),
        ("yolov4_grids", 16, [(23, 27), (37, 58), (81, 82)], 1.05),
    ]:
        rng = np.random.default_rng(seed)
        grids = [numbers(rng.normal(0, 1.2, (3 * 8, size[1] // s, size[0] // s))) for s in (32, 16)]
        output = f"{{layout: {name[:6]}, tensors: {{grids: [a, b]}}}}"
        decoded = decode_darknet_grids(grids, *size, [coarse, second], [scale, scale])
        write(name, output, size, 3, 0.45, grids, decoded)

    # Three grids with anchors and factors of their own, the finest first.
    rng, anchors = np.random.default_rng(17), [[(10, 13), (16, 30)], [(30, 61), (62, 45)], [(116, 90)]]
    shapes = [(len(a) * 7, size[1] // s, size[0] // s) for a, s in zip(anchors, (8, 16, 32))]
    grids = [numbers(rng.normal(0, 1.2, shape)) for shape in shapes]
    flat = [[side for pair in pairs for side in pair] for pairs in anchors]
    output = f"{{layout: yolov4, tensors: {{grids: [a, b, c]}}, anchors: {flat}, scale_x_y: [1.2, 1.1, 1.05]}}"
    decoded = decode_darknet_grids(grids, *size, anchors, [1.2, 1.1, 1.05])
    write("yolov4_anchors", output, size, 2, 0.5, grids, decoded)


if __name__ == "__main__":
    main()
