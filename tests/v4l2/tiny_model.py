#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model folder with a tiny ONNX network: `tiny_model.py FOLDER`. Called by tests/v4l2/run.

The network gives one box of class 1 (`car`), 32x16 of 96x64 input pixels. Its left edge stands at 0.4 pixels for each
step of the input's mean, so that the position of the box shows whether the camera's pixels arrived:

    images [1, 3, 64, 96] -- ReduceMean -- Reshape [1, 1, 1] -- Mul mask -- Add rows -- output [1, 126, 7]

Only what this needs of ONNX's protobuf messages is written, by field number, as ONNX's `onnx.proto` defines them.
"""

import hashlib
import math
import os
import struct
import sys

CELLS, ROW, CELL = 126, 7, 13
FLOAT, INT64 = 1, 7
INTS, INT = 7, 2


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def node(operator, inputs, output, attributes=b""):
    return data(1, b"".join(data(1, name) for name in inputs) + data(2, output) + data(4, operator) + attributes)


def tensor(name, element, shape, raw):
    return data(5, b"".join(number(1, axis) for axis in shape) + number(2, element) + data(8, name) + data(9, raw))


def value_info(field, name, shape):
    axes = b"".join(data(1, number(1, axis)) for axis in shape)
    return data(field, data(1, name) + data(2, data(1, number(1, FLOAT) + data(2, axes))))


def network():
    # Cell 13 of stride 8 is column 1, row 1; the box's center moves one cell for every 20 of the mean.
    row = [1.0, 0.5, math.log(4.0), math.log(2.0), 0.9, 0.1, 0.8]
    rows = [0.0] * (CELL * ROW) + row + [0.0] * ((CELLS - CELL - 1) * ROW)
    mask = [0.0] * (CELLS * ROW)
    mask[CELL * ROW] = 0.05
    floats = struct.Struct(f"<{CELLS * ROW}f")
    axes = data(5, data(1, "axes") + b"".join(number(8, axis) for axis in (1, 2, 3)) + number(20, INTS))
    keep = data(5, data(1, "keepdims") + number(3, 0) + number(20, INT))
    graph = b"".join(
        [
            node("ReduceMean", ["images"], "mean", axes + keep),
            node("Reshape", ["mean", "column"], "mean3"),
            node("Mul", ["mean3", "mask"], "shift"),
            node("Add", ["rows", "shift"], "output"),
            data(2, "tiny"),
            tensor("rows", FLOAT, [1, CELLS, ROW], floats.pack(*rows)),
            tensor("mask", FLOAT, [1, CELLS, ROW], floats.pack(*mask)),
            tensor("column", INT64, [3], struct.pack("<3q", -1, 1, 1)),
            value_info(11, "images", [1, 3, 64, 96]),
            value_info(12, "output", [1, CELLS, ROW]),
        ]
    )
    return number(1, 7) + data(7, graph) + data(8, data(1, "") + number(2, 13))


def main():
    folder = sys.argv[1]
    model = network()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tiny.onnx"), "wb") as file:
        file.write(model)
    with open(os.path.join(folder, "model.yaml"), "w", encoding="ascii") as file:
        file.write(
            "name: tiny\n"
            "input: {name: images, width: 96, height: 64, color: bgr, letterbox: {value: 0, placement: top_left}}\n"
            "output: {layout: yolox, name: output}\n"
            "labels: [person, car]\n"
            "license: {spdx: Apache-2.0, source: made by the test}\n"
            f"files: {{fp32: {{file: tiny.onnx, sha256: '{hashlib.sha256(model).hexdigest()}'}}}}\n"
        )


if __name__ == "__main__":
    main()
