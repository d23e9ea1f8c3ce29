#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Independent reference of YOLOX decoding and class-aware suppression, in numpy; writes the golden files of the tests.

    yolox.py decode tests/golden/yolox_decode.json
    yolox.py network YOLOX_NANO.onnx tests/golden/yolox_nano_picture.json

`decode` needs numpy only: random raw outputs with what comes out of them. `network` needs onnxruntime too: it draws the
picture that tests/detection/detect_onnx.rs draws, runs the network on it and keeps the detections. Both refuse to write cases in
which rounding could turn a decision over.
"""
import json
import sys

import numpy as np

STRIDES = (8, 16, 32)


def decode(output, width, height):
    """Raw [cells, 5 + classes] as boxes (xyxy, input pixels), scores and classes, in float64."""
    output = output.astype(np.float64)
    boxes = np.zeros((len(output), 4))
    start = 0
    for stride in STRIDES:
        columns, lines = width // stride, height // stride
        gx, gy = np.meshgrid(np.arange(columns), np.arange(lines))
        part = output[start : start + columns * lines]
        cx, cy = (part[:, 0] + gx.ravel()) * stride, (part[:, 1] + gy.ravel()) * stride
        w, h = np.exp(part[:, 2]) * stride, np.exp(part[:, 3]) * stride
        boxes[start : start + len(part)] = np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)
        start += len(part)
    assert start == len(output), f"{start} cells, {len(output)} rows"
    classes = output[:, 5:].argmax(1)
    scores = output[:, 4] * output[np.arange(len(output)), 5 + classes]
    return boxes, scores, classes


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def suppress(boxes, scores, classes, cells, iou, most):
    """Cells that stay, best first. Fails when an overlap is too near to the limit to be a test of anything."""
    kept = []
    for index in sorted(cells, key=lambda cell: (-scores[cell], cell)):
        overlaps = [overlap(boxes[index], boxes[k]) for k in kept if classes[k] == classes[index]]
        assert all(abs(o - iou) > 1e-5 for o in overlaps), "an overlap at the limit: take another seed"
        if all(o <= iou for o in overlaps):
            kept.append(index)
    return kept[:most]


def decode_case(seed, width, height, class_count, threshold, iou, most):
    rng = np.random.default_rng(seed)
    cells = sum((width // s) * (height // s) for s in STRIDES)
    output = np.zeros((cells, 5 + class_count))
    output[:, :2] = rng.normal(0.5, 0.6, (cells, 2))
    output[:, 2:4] = rng.normal(2.0, 0.3, (cells, 2))
    output[:, 4] = rng.beta(0.6, 1.2, cells)
    output[:, 5:] = rng.beta(0.4, 1.5, (cells, class_count))
    if class_count > 10:
        output[:, 7:] *= 0.2  # So that the first two classes win often enough to lie over each other.
    output = np.round(output, 4).astype(np.float32)
    boxes, scores, classes = decode(output, width, height)
    found = np.flatnonzero(scores >= threshold)
    assert np.abs(scores - threshold).min() > 1e-6, "a score at the threshold: take another seed"
    ranked = np.sort(output[:, 5:], 1)
    assert class_count == 1 or (ranked[found, -1] > ranked[found, -2]).all(), "two best classes: take another seed"
    kept = suppress(boxes, scores, classes, found.tolist(), iou, most)
    assert 5 <= len(kept) < len(found), (len(kept), len(found))
    rows = [[int(c), int(classes[c]), round(float(scores[c]), 6)] + [round(float(v), 4) for v in boxes[c]] for c in found]
    return {
        "width": width, "height": height, "classes": class_count, "threshold": threshold, "iou": iou, "most": most,
        "output": [float(f"{v:.4f}") for v in output.ravel()], "candidates": rows, "kept": [int(k) for k in kept],
    }


def picture(width, height):
    """The image of tests/detection/detect_onnx.rs, [height, width, 3] in BGR: a clock, a traffic light and a stop sign."""
    image = np.zeros((height, width, 3), np.uint8)
    y, x = np.mgrid[0:height, 0:width]
    image[..., 0] = 230 - y // 4
    image[..., 1] = 200 - y // 4
    image[..., 2] = 160 - y // 8

    def block(left, top, right, bottom, bgr):
        image[top:bottom, left:right] = bgr

    def disc(cx, cy, radius, bgr):
        image[(x - cx) ** 2 + (y - cy) ** 2 <= radius**2] = bgr

    def octagon(cx, cy, radius, bgr):
        dx, dy = abs(x - cx), abs(y - cy)
        image[(dx <= radius) & (dy <= radius) & (5 * (dx + dy) <= 7 * radius)] = bgr

    disc(90, 90, 62, (40, 40, 40))
    disc(90, 90, 55, (245, 245, 245))
    block(87, 45, 93, 92, (20, 20, 20))
    block(90, 87, 125, 93, (20, 20, 20))
    hours = [(90, 42), (90, 138), (42, 90), (138, 90)]
    hours += [(90 + sx * dx, 90 + sy * dy) for dx, dy in ((24, 42), (42, 24)) for sx in (-1, 1) for sy in (-1, 1)]
    for cx, cy in hours:
        disc(cx, cy, 4, (20, 20, 20))
    block(230, 40, 280, 170, (25, 25, 25))
    disc(255, 63, 16, (30, 30, 230))
    disc(255, 105, 16, (20, 90, 110))
    disc(255, 147, 16, (30, 60, 30))
    block(250, 170, 260, 312, (60, 60, 60))
    octagon(350, 90, 50, (240, 240, 240))
    octagon(350, 90, 45, (30, 30, 200))
    block(320, 82, 380, 98, (240, 240, 240))
    block(346, 140, 354, 312, (120, 120, 120))
    return image


def network_case(model, threshold, iou):
    import onnxruntime

    net = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    tensor = np.full((416, 416, 3), 114, np.uint8)
    tensor[:312] = picture(416, 312)
    raw = net.run(None, {"images": tensor.transpose(2, 0, 1)[None].astype(np.float32)})[0][0]
    boxes, scores, classes = decode(raw, 416, 416)
    found = np.flatnonzero(scores >= threshold)
    assert np.abs(scores - threshold).min() > 1e-4, "a score at the threshold: take another one"
    kept = suppress(boxes, scores, classes, found.tolist(), iou, 300)
    gaps = -np.diff([scores[k] for k in kept])
    assert len(kept) >= 3 and (gaps > 1e-4).all(), (len(kept), gaps)
    # The source has 480x360 pixels; boxes are clipped to it.
    clipped = np.clip(boxes * np.array([480 / 416, 360 / 312] * 2), 0, [480, 360] * 2)
    rows = [[int(classes[k]), round(float(scores[k]), 4)] + [round(float(v), 2) for v in clipped[k]] for k in kept]
    return {"threshold": threshold, "iou": iou, "detections": rows}


def write(path, value):
    with open(path, "w") as file:
        json.dump(value, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["decode"]:
        cases = [
            decode_case(1, 96, 64, 5, 0.25, 0.45, 300),
            decode_case(2, 64, 96, 80, 0.2, 0.5, 300),
            decode_case(3, 128, 32, 1, 0.1, 0.3, 5),
        ]
        write(sys.argv[2], {"cases": cases})
    elif sys.argv[1:2] == ["network"]:
        write(sys.argv[3], network_case(sys.argv[2], 0.05, 0.45))
    else:
        sys.exit(__doc__)
