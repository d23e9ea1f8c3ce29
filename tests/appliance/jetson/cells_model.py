#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model folder for the doubles of TensorRT: `cells_model.py FOLDER [WIDTH HEIGHT]`. What they compute is described in
tests/nvidia_doubles/README.md: a box for each 32 by 32 pixels, with their brightness as its score.

The operators here only lead from the input to an output of that shape; nothing else runs them.
"""

import hashlib
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "v4l2"))
from tiny_model import FLOAT, INT, INT64, INTS, data, node, number, tensor, value_info

WIDTH, HEIGHT = (int(size) for size in sys.argv[2:4] or (128, 96))
CELLS = WIDTH // 32 * (HEIGHT // 32)


def network():
    axes = data(5, data(1, "axes") + b"".join(number(8, axis) for axis in (1, 2, 3)) + number(20, INTS))
    keep = data(5, data(1, "keepdims") + number(3, 0) + number(20, INT))
    rows = [0.0] * (5 * CELLS)
    nodes = [
        node("ReduceMean", ["images"], "mean", axes + keep),
        node("Reshape", ["mean", "column"], "mean3"),
        node("Add", ["rows", "mean3"], "output"),
    ]
    constants = [
        tensor("rows", FLOAT, [1, 5, CELLS], struct.pack(f"<{len(rows)}f", *rows)),
        tensor("column", INT64, [3], struct.pack("<3q", -1, 1, 1)),
    ]
    ends = [value_info(11, "images", [1, 3, HEIGHT, WIDTH]), value_info(12, "output", [1, 5, CELLS])]
    graph = b"".join(nodes) + data(2, "cells") + b"".join(constants) + b"".join(ends)
    return number(1, 7) + data(7, graph) + data(8, data(1, "") + number(2, 13))


def main():
    folder = sys.argv[1]
    model = network()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "cells.onnx"), "wb") as file:
        file.write(model)
    with open(os.path.join(folder, "model.yaml"), "w", encoding="ascii") as file:
        file.write(
            "name: cells\n"
            f"input: {{name: images, width: {WIDTH}, height: {HEIGHT}, color: bgr, letterbox: {{value: 0, placement: top_left}}}}\n"
            "output: {layout: yolov8, name: output}\n"
            "score_threshold: 0.4\n"
            "labels: [bright]\n"
            "license: {spdx: Apache-2.0, source: made by the test}\n"
            f"files: {{fp32: {{file: cells.onnx, sha256: '{hashlib.sha256(model).hexdigest()}'}}}}\n"
        )


if __name__ == "__main__":
    main()
