#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a network of PaddlePaddle 2 into ONNX: a detector with convolutions, such as those of PaddleDetection.

    python3 -m venv venv && venv/bin/pip install -r models/requirements-import.txt
    venv/bin/python models/import_paddle.py picodet_s_lcnet -o models/picodet_s_lcnet
    venv/bin/python models/import_paddle.py FOLDER --input image --size 416x416 --output scores_8=sqrt_0.tmp_0 … -o models/NAME

The first form makes a model folder of a network that is known here: picodet_s_lcnet or picodet_s_lcnet_416x256. pip fetches its
wheel of 67 MB, once, with pip's own settings, such as PIP_INDEX_URL for a mirror. The second one converts the files .pdmodel
and .pdiparams of a folder. What follows the outputs, such as NMS, is left out: jetwatch does that itself.
"""
import argparse
import collections
import glob
import hashlib
import io
import math
import os
import re
import struct
import subprocess
import sys
import zipfile

from importing import Mistake, Network, Unavailable, np, read, run, write_folder

LONGEST = 1 << 16  # of axes; no network comes near it
LONGEST_SIDE = 8192  # of the input, in pixels, as model.yaml takes it
LAYOUTS = "NCHW", "AnyLayout"

PACKAGE, VERSION, WHEEL = "paddlelabel-ml", "1.0.0", "paddlelabel_ml-1.0.0-py3-none-any.whl"
WHEEL_SHA256 = "d3590ed527f3130536ec8cf2d1223f8cca18a320c9f98a109f2f93d9afd131bd"
PROGRAM, PARAMETERS = (f"paddlelabel_ml/model/PicoDet/ckpt/model.{ending}" for ending in ("pdmodel", "pdiparams"))
LICENSE_FILE, LICENSE = "paddlelabel_ml-1.0.0.dist-info/LICENSE", "Apache-2.0"
AUTHORS = "the PaddlePaddle authors (PaddleDetection, PaddleLabel)"
INPUT = "image"
# Class scores, and the distributions of the sides of the boxes, of each stride.
OUTPUTS = {
    "scores_8": "sqrt_0.tmp_0", "scores_16": "sqrt_1.tmp_0", "scores_32": "sqrt_2.tmp_0", "scores_64": "sqrt_3.tmp_0",
    "boxes_8": "conv2d_138.tmp_1", "boxes_16": "conv2d_146.tmp_1", "boxes_32": "conv2d_154.tmp_1", "boxes_64": "conv2d_162.tmp_1",
}
# Width, height and title.
NETWORKS = {
    "picodet_s_lcnet": (416, 416, "PicoDet s with LCNet, 80 COCO classes, 416x416, 1.18 M parameters"),
    "picodet_s_lcnet_416x256": (416, 256, "PicoDet s with LCNet, 80 COCO classes, 416x256 for video of 16:9, 1.18 M parameters"),
}
LABELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalogue", "coco80.txt")
MODEL_YAML = """\
# Written by models/import_paddle.py; the network comes from PyPI {package} {version}.
# PicoDet s with LCNet, 80 COCO classes, without its post-processing. Normalized and stretched as in its training.
name: {name}
input:
  name: image
  width: {width}
  height: {height}
  color: rgb
  mean: [123.675, 116.28, 103.53]
  scale: [0.0171248, 0.017507, 0.0174292]   # 1 / [58.395, 57.12, 57.375]
  letterbox: {{value: 0, placement: stretch}}
output:
  layout: picodet
  tensors:
    scores: [scores_8, scores_16, scores_32, scores_64]
    boxes: [boxes_8, boxes_16, boxes_32, boxes_64]
score_threshold: 0.35
nms_iou: 0.45
license: {{spdx: {license}, source: "https://github.com/PaddlePaddle/PaddleDetection"}}
files:
  fp32: {{file: {name}.onnx, sha256: {sha256}}}
labels_file: labels.txt
"""
NOTICE = """\
{name}.onnx: {title}
Made by {authors}. Licence: {license}.
Source: {program} of {package} {version} (PyPI), {wheel}, SHA-256 {wheel_sha256}.
Changed by jetwatch: converted from PaddlePaddle to ONNX for an input of {width}x{height}; the steps after the outputs {outputs} \
(decoding of boxes and NMS) were removed; batch normalization was folded into the convolutions. The weights are otherwise unchanged.
"""

# The messages of Paddle's framework.proto: name and kind of the fields that are read, by their numbers.
DENSE_TENSOR, FLOAT = 7, 5
ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 8, 4: 2, FLOAT: 4, 6: 8, 20: 1}  # of VarType.Type
TENSOR = {1: ("type", int), 2: ("axes", int)}
VARIABLE = {1: ("name", str), 2: ("type", {1: ("type", int)}), 3: ("persistable", int)}
PARAMETER = {1: ("name", str), 2: ("variables", str)}
ATTRIBUTE = {
    1: ("name", str), 3: ("whole", int), 10: ("whole", int), 13: ("whole", int), 4: ("float", float), 5: ("text", str),
    6: ("wholes", int), 15: ("wholes", int), 7: ("floats", float),
}
OPERATOR = {1: ("inputs", PARAMETER), 2: ("outputs", PARAMETER), 3: ("kind", str), 4: ("attributes", ATTRIBUTE)}
PROGRAM_DESC = {1: ("blocks", {3: ("variables", VARIABLE), 4: ("operators", OPERATOR)})}


class Damage(Exception):
    """What is wrong, and at which byte."""


def varint(data, at, end):
    """A whole number, signed as a 64-bit two's complement, and where it ends."""
    value = shift = 0
    while at < end and shift < 64:
        value |= (data[at] & 127) << shift
        if data[at] < 128:
            value &= (1 << 64) - 1
            return value - (value >> 63 << 64), at + 1
        at, shift = at + 1, shift + 7
    raise Damage("a number without an end", at)


def message(data, at, end, schema):
    """The fields of a protobuf message that `schema` names: a list for each name."""
    found = collections.defaultdict(list)
    while at < end:
        start = at
        key, at = varint(data, at, end)
        length, wire = 0, key & 7
        if wire == 0:
            value, at = varint(data, at, end)
        elif wire == 2:
            length, at = varint(data, at, end)
        else:
            length = {1: 8, 5: 4}.get(wire, -1)
        if key >> 3 <= 0 or not 0 <= length <= end - at:
            raise Damage("a length beyond the end of its message, or an unknown kind of field", start)
        name, kind = schema.get(key >> 3, (None, None))
        part, at = data[at : at + length], at + length
        if kind is int and wire == 0:
            found[name].append(value)
        elif kind is int and wire == 2:
            place = 0
            while place < length:
                value, place = varint(part, place, length)
                found[name].append(value)
        elif kind is float and wire in (2, 5) and length % 4 == 0:
            found[name].extend(struct.unpack(f"<{length // 4}f", part))
        elif kind is str and wire == 2:
            try:
                found[name].append(part.decode())
            except UnicodeDecodeError:
                raise Damage("text that is not UTF-8", start) from None
        elif isinstance(kind, dict) and wire == 2:
            found[name].append(message(data, at - length, at, kind))
        elif kind is not None:
            raise Damage(f"another kind of value than {name} has", start)
    return found


def last(values, default):
    return values[-1] if values else default


class Operator:
    """One step of the program, such as conv2d."""

    def __init__(self, read):
        self.kind = last(read["kind"], "")
        self.inputs, outputs = ({last(pair["name"], ""): pair["variables"] for pair in read[side]} for side in ("inputs", "outputs"))
        # Others, such as the statistics of a batch normalization, are not read in inference.
        self.output = next((outputs[name][0] for name in ("Out", "Output", "Y") if outputs.get(name)), "")
        self.attributes = {last(one["name"], ""): one for one in read["attributes"]}

    def mistake(self, reason):
        return Mistake(f"the network cannot be converted: operator `{self.kind}` with the output `{self.output}`: {reason}")

    def variables(self):
        return [variable for variables in self.inputs.values() for variable in variables]

    def input(self, name):
        variables = self.inputs.get(name, [])
        if len(variables) != 1:
            raise self.mistake(f"found {len(variables)} variables as {name}, expected one")
        return variables[0]

    def one(self, name, kind, default):
        return last(self.attributes.get(name, {}).get(kind), default)

    def all(self, name, kind):
        return self.attributes.get(name, {}).get(kind, [])

    def pair(self, name, lowest, lengths=(2,)):
        """Whole numbers for height and width."""
        values = self.all(name, "wholes") or [lowest] * 2
        if len(values) not in lengths or not all(lowest <= value <= LONGEST for value in values):
            raise self.mistake(f"found {name} {values}, expected {' or '.join(map(str, lengths))} numbers from {lowest} on")
        return values

    def pads(self):
        """At the top, left, bottom and right."""
        values = self.pair("paddings", 0, (2, 4))
        values = [values[0], values[2], values[1], values[3]] if len(values) == 4 else values * 2
        return [0] * 4 if self.one("padding_algorithm", "text", "") == "VALID" else values

    def check(self, name, *supported):
        """Fails where a text is given that is none of these."""
        text = self.one(name, "text", "")
        if text and text not in supported:
            raise self.mistake(f"found {name} {text}, expected {' or '.join(supported)}")


def read_program(path, data):
    """The operators of the main block, and the sorted names of the weights."""
    try:
        block = (message(data, 0, len(data), PROGRAM_DESC)["blocks"] or [{}])[0]
        if not block.get("operators"):
            raise Damage("no operator up to the end", len(data))
    except Damage as damage:
        raise Mistake(f"{path}: {damage.args[0]} at byte {damage.args[1]}: the file is damaged, or not a program of PaddlePaddle 2") from None
    weights = [
        last(variable["name"], "") for variable in block["variables"]
        if last(variable["persistable"], 0) and last(last(variable["type"], {"type": []})["type"], 0) == DENSE_TENSOR
    ]
    return [Operator(one) for one in block["operators"]], sorted(weights, key=str.encode)


def read_weights(path, data, names):
    """The weights, which stand one after the other in the order of their sorted names:

    u32 version 0, u64 levels, levels × (u64 bytes, bytes), u32 version 0, i32 length, TensorDesc, values

    Those of other types than 32-bit floats are left out: no supported operator uses them."""
    at, weights = 0, {}

    def number(form):
        nonlocal at
        at += struct.calcsize(form)
        return struct.unpack_from(form, data, at - struct.calcsize(form))[0]

    for name in names:
        start = at
        try:
            version = number("<I")
            for _ in range(number("<Q")):
                length = number("<Q")
                at += length
            version |= number("<I")
            length = number("<I")
            if version or length > len(data) - at:
                raise ValueError
            tensor = message(data, at, at + length, TENSOR)
            kind, axes = last(tensor["type"], None), tensor["axes"]
            at += length
            end = at + math.prod(axes) * ELEMENT_BYTES[kind]
            if end > len(data) or min(axes, default=0) < 0:
                raise ValueError
        except (struct.error, IndexError, KeyError, OverflowError, ValueError, Damage):
            reason = "the file is cut off or damaged, or belongs to another .pdmodel"
            raise Mistake(f"{path}: found no weight `{name}` of PaddlePaddle 2 at byte {start} of {len(data)}: {reason}") from None
        if kind == FLOAT:
            weights[name] = np.frombuffer(data[at:end], "<f4").reshape(axes)
        at = end
    if at != len(data):
        raise Mistake(f"{path}: found {len(data) - at} bytes after the last of {len(names)} weights: the file belongs to another .pdmodel")
    return weights


# What a Converter has a method for.
KNOWN = (
    "conv2d", "depthwise_conv2d", "batch_norm", "elementwise_add", "elementwise_mul", "concat", "nearest_interp_v2", "pool2d", "relu",
    "sigmoid", "sqrt", "hard_sigmoid", "hard_swish", "scale",
)


class Convolution:
    """Into it a bias and a batch normalization may still be folded: in 64 bits, so that each product is rounded once."""

    def __init__(self, node, kernel):
        self.node, self.kernel = node, kernel
        self.factors, self.bias = np.ones(len(kernel)), None  # of each output channel; the bias is added after the factor


class Converter:
    """The part of a program between an input and some variables, as ONNX. A shape is (channels, height, width)."""

    def __init__(self, operators, weights, source, size, outputs):
        self.weights, self.network = weights, Network(source, *size)
        self.shapes = {source: (3, size[1], size[0])}
        self.convolutions, self.all_convolutions = {}, []  # those of a variable, and all
        operators = self.needed(operators, source, outputs.values())
        self.uses = collections.Counter([*outputs.values(), *(variable for one in operators for variable in one.variables())])
        for operator in operators:
            if operator.kind not in KNOWN:
                raise operator.mistake(f"it is not supported; known are {', '.join(KNOWN)}")
            if not operator.output:
                raise operator.mistake("it has no output")
            getattr(self, operator.kind)(operator)
        for name, variable in outputs.items():
            if variable not in self.shapes:
                raise missing(variable, "the result of an operator that is not folded into another")
            channels, height, width = self.shapes[variable]
            rows = self.network.node("Transpose", [variable], f"{name}.rows", perm=[0, 2, 3, 1])
            # 0: the length of the input's axis, which is the batch.
            shape = self.network.constant(f"{name}.shape", [0, height * width, channels], np.int64)
            self.network.node("Reshape", [rows, shape], name)
            self.network.outputs.append((name, (height * width, channels)))
        for one in self.all_convolutions:
            output = one.node[2]
            one.node[1].append(self.network.constant(f"{output}.weight", one.kernel * one.factors[:, None, None, None]))
            if one.bias is not None:
                one.node[1].append(self.network.constant(f"{output}.bias", one.bias))

    def needed(self, operators, source, outputs):
        """The operators that the outputs need, in the order of the program."""
        writers = collections.defaultdict(list)
        for index, operator in enumerate(operators):
            writers[operator.output].append(index)
        needed, wanted, has_source = set(), list(outputs), False
        while wanted:
            variable = wanted.pop()
            has_source |= variable == source
            if variable == source or variable in self.weights:
                continue
            indices = writers[variable]
            if not indices:
                raise missing(variable, "an operator that writes it")
            if len(indices) > 1:
                raise operators[indices[0]].mistake("its output is written by two operators, expected a program without reuse")
            if indices[0] not in needed:
                needed.add(indices[0])
                wanted += operators[indices[0]].variables()
        if not has_source:
            raise missing(source, "an input that the outputs depend on")
        return [operators[index] for index in sorted(needed)]

    def shape(self, operator, variable):
        if variable not in self.shapes:
            raise operator.mistake(f"found the weight `{variable}`, expected the result of an operator")
        return self.shapes[variable]

    def weight(self, operator, name):
        variable = operator.input(name)
        if variable not in self.weights:
            raise operator.mistake(f"found the variable `{variable}` as {name}, expected a weight of 32-bit floats")
        return self.weights[variable]

    def push(self, operator, name, inputs, shape, **attributes):
        """Adds a node whose output is that of the operator."""
        if max(shape) > LONGEST:
            raise operator.mistake(f"its result has the shape {list(shape)}, expected axes of at most {LONGEST}")
        self.shapes[operator.output] = shape
        self.network.node(name, inputs, operator.output, **attributes)

    def fold(self, operator, what):
        """The convolution whose result only this operator reads; from now on its result is that of the operator."""
        variable = operator.input("X")
        if self.uses[variable] != 1 or variable not in self.convolutions:
            raise operator.mistake(f"{what}expected a convolution before it whose result only it reads")
        self.shapes[operator.output] = self.shapes.pop(variable)
        found = self.convolutions[operator.output] = self.convolutions.pop(variable)
        found.node[2] = operator.output
        return found

    def conv2d(self, operator):
        source, kernel = operator.input("Input"), self.weight(operator, "Filter")
        channels, height, width = self.shape(operator, source)
        groups, described = operator.one("groups", "whole", 1), f"found weights of the shape {list(kernel.shape)}"
        if kernel.ndim != 4 or not kernel.size:
            raise operator.mistake(f"{described}, expected 4 axes and at least one value")
        if groups < 1 or kernel.shape[1] * groups != channels or kernel.shape[0] % groups:
            raise operator.mistake(f"{described} in {groups} groups on {channels} channels")
        operator.check("data_format", *LAYOUTS)
        operator.check("padding_algorithm", "EXPLICIT", "VALID")
        if operator.inputs.get("Bias"):
            raise operator.mistake("it has a fused bias, expected a separate elementwise_add")
        strides, dilations, pads = operator.pair("strides", 1), operator.pair("dilations", 1), operator.pads()
        sides = [
            (side + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel.shape[2 + axis] - 1) - 1) // strides[axis] + 1
            for axis, side in enumerate((height, width))
        ]
        if min(sides) < 1:
            raise operator.mistake(f"its input of {width}×{height} is too small for it")
        self.push(
            operator, "Conv", [source], (kernel.shape[0], *sides),
            dilations=dilations, group=groups, kernel_shape=kernel.shape[2:], pads=pads, strides=strides,
        )
        found = self.convolutions[operator.output] = Convolution(self.network.nodes[-1], kernel)
        self.all_convolutions.append(found)

    depthwise_conv2d = conv2d

    def batch_norm(self, operator):
        """(x - mean) · scale / √(variance + epsilon) + bias, folded into the convolution before it."""
        operator.check("data_layout", *LAYOUTS)
        scale, bias, mean, variance = values = [self.weight(operator, name).astype(float) for name in ("Scale", "Bias", "Mean", "Variance")]
        found = self.fold(operator, "")
        if any(one.shape != found.factors.shape for one in values):
            raise operator.mistake(f"expected {len(found.factors)} values each for its channels")
        factors = scale / np.sqrt(variance + operator.one("epsilon", "float", 1e-5))
        found.factors = found.factors * factors
        found.bias = ((0 if found.bias is None else found.bias) - mean) * factors + bias

    def elementwise_add(self, operator):
        """A sum of two results, or a bias, which is folded into the convolution before it."""
        bias, axis = self.weights.get(operator.input("Y")), operator.one("axis", "whole", -1)
        if bias is None:
            self.both(operator, "Add")
            return
        found = self.fold(operator, "a weight is added, ")
        channels = len(found.factors)
        if not (bias.shape == (channels,) and axis == 1 or bias.shape in ((1, channels, 1, 1), (channels, 1, 1))):
            shape = list(bias.shape)
            raise operator.mistake(f"found a weight of the shape {shape} at axis {axis}, expected one value for each of {channels} channels")
        found.bias = (0 if found.bias is None else found.bias) + bias.reshape(-1).astype(float)

    def elementwise_mul(self, operator):
        self.both(operator, "Mul")

    def both(self, operator, name):
        """An operator on two results, which repeats axes of length 1."""
        inputs = operator.input("X"), operator.input("Y")
        shapes = [self.shape(operator, one) for one in inputs]
        if any(a != b and 1 not in (a, b) for a, b in zip(*shapes)):
            left, right = map(list, shapes)
            raise operator.mistake(f"its inputs have the shapes {left} and {right}; is the size a multiple of the greatest stride?")
        self.push(operator, name, inputs, tuple(map(max, *shapes)))

    def concat(self, operator):
        inputs = operator.inputs.get("X", [])
        shapes = [self.shape(operator, one) for one in inputs]
        if operator.one("axis", "whole", 0) != 1 or not shapes:
            raise operator.mistake("expected one input or more, and axis 1, the channels")
        sides = sorted({shape[1:] for shape in shapes})
        if len(sides) > 1:
            cells = " and ".join(f"{width}×{height}" for height, width in sides)
            raise operator.mistake(f"its inputs have {cells} cells; is the size a multiple of the greatest stride?")
        self.push(operator, "Concat", inputs, (sum(shape[0] for shape in shapes), *sides[0]), axis=1)

    def nearest_interp_v2(self, operator):
        """Repeats each cell a whole number of times."""
        operator.check("data_layout", *LAYOUTS)
        factors, source = operator.all("scale", "floats"), operator.input("X")
        if len(factors) != 2:
            raise operator.mistake("expected the factors of height and width in `scale`")
        sized = max(operator.one(name, "whole", 0) for name in ("out_h", "out_w")) > 0
        if not all(factor in range(1, 17) for factor in factors) or operator.one("align_corners", "whole", 0) or sized:
            raise operator.mistake("expected whole factors, without aligned corners")
        channels, height, width = self.shape(operator, source)
        constant = self.network.constant(f"{operator.output}.factors", [1, 1, *factors])
        self.push(
            operator, "Resize", [source, "", constant], (channels, height * int(factors[0]), width * int(factors[1])),
            coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor",
        )

    def pool2d(self, operator):
        """The mean of each channel, which is the one kind of pooling that is known."""
        adaptive = operator.one("adaptive", "whole", 0) and operator.all("ksize", "wholes") == [1, 1]
        if not (operator.one("global_pooling", "whole", 0) or adaptive) or operator.one("pooling_type", "text", "") != "avg":
            raise operator.mistake("expected the mean of each channel (adaptive, 1×1, avg)")
        source = operator.input("X")
        self.push(operator, "GlobalAveragePool", [source], (self.shape(operator, source)[0], 1, 1))

    def unary(self, operator, name, **attributes):
        source = operator.input("X")
        self.push(operator, name, [source], self.shape(operator, source), **attributes)

    def relu(self, operator):
        self.unary(operator, "Relu")

    def sigmoid(self, operator):
        self.unary(operator, "Sigmoid")

    def sqrt(self, operator):
        self.unary(operator, "Sqrt")

    def hard_sigmoid(self, operator):
        self.unary(operator, "HardSigmoid", alpha=operator.one("slope", "float", 0.2), beta=operator.one("offset", "float", 0.5))

    def hard_swish(self, operator):
        """x · min(max(x + offset, 0), threshold) / scale. ONNX has an operator for it in a later set only."""
        threshold, scale, source = operator.one("threshold", "float", 6.0), operator.one("scale", "float", 6.0), operator.input("X")
        if threshold != scale or scale <= 0:
            raise operator.mistake(f"found a threshold of {threshold:g} and a scale of {scale:g}, expected the same")
        offset = operator.one("offset", "float", 3.0)
        gate = self.network.node("HardSigmoid", [source], f"{operator.output}.gate", alpha=1 / scale, beta=offset / scale)
        self.push(operator, "Mul", [source, gate], self.shape(operator, source))

    def scale(self, operator):
        """scale · x + bias."""
        scale, bias, source = operator.one("scale", "float", 1.0), operator.one("bias", "float", 0.0), operator.input("X")
        if bias and not operator.one("bias_after_scale", "whole", 1):
            raise operator.mistake("expected the bias after the scale")
        shape, name = self.shape(operator, source), operator.output
        if scale != 1:
            source = self.network.node("Mul", [source, self.network.constant(f"{name}.scale", scale)], f"{name}.scaled")
        self.push(operator, "Add", [source, self.network.constant(f"{name}.bias", bias)], shape)


def missing(name, expected):
    return Mistake(f"the .pdmodel file has no variable `{name}`, expected {expected}")


def convert(program, parameters, source, size, outputs, metadata):
    """The bytes of an ONNX file. Program and parameters are pairs of a path and bytes; outputs are variables by name."""
    operators, names = read_program(*program)
    weights = read_weights(*parameters, names)
    return Converter(operators, weights, source, size, outputs).network.file("PaddlePaddle", metadata)


def fetch_wheel(path):
    """The verified bytes of the wheel. Without a path it is kept in $XDG_CACHE_HOME/jetwatch, or .cache/jetwatch of the home folder."""
    def sha256(data):
        return hashlib.sha256(data).hexdigest()

    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "jetwatch")
    if path is None:
        path = os.path.join(cache, WHEEL)
        if not os.path.exists(path) or sha256(read(path)) != WHEEL_SHA256:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"]
            command += ["--require-hashes", "--only-binary=:all:", "-d", cache, "-r", "/dev/stdin"]
            wanted = f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n"
            done = subprocess.run(command, input=wanted, capture_output=True, text=True)
            if done.returncode:
                said = (done.stderr.strip() or "it says nothing").splitlines()[-1]
                raise Unavailable(f"pip cannot fetch {PACKAGE} {VERSION}: {said}; name a mirror with PIP_INDEX_URL, or the wheel with --wheel FILE")
    data = read(path)
    if sha256(data) != WHEEL_SHA256:
        raise Mistake(f"{path}: found SHA-256 {sha256(data)}, expected {WHEEL_SHA256}, that of {WHEEL}; fetch it again")
    return data


def import_known(given):
    """Makes the model folder of a network that is known here."""
    name = given.network
    width, height, title = NETWORKS[name]
    network, description = (os.path.join(given.out, file) for file in (f"{name}.onnx", "model.yaml"))
    if os.path.exists(network) and os.path.exists(description) and not given.force:
        if hashlib.sha256(read(network)).hexdigest().encode() in read(description):
            print(f"{given.out}: exists already")
            return
    with zipfile.ZipFile(io.BytesIO(fetch_wheel(given.wheel))) as wheel:
        program, parameters = ((f"{WHEEL}: {member}", wheel.read(member)) for member in (PROGRAM, PARAMETERS))
        license_text = wheel.read(LICENSE_FILE)
    metadata = {"title": title, "author": AUTHORS, "license": LICENSE, "source": f"PyPI {PACKAGE} {VERSION}, {PROGRAM}"}
    data = convert(program, parameters, INPUT, (width, height), OUTPUTS, metadata)
    values = {
        "name": name, "title": title, "width": width, "height": height, "sha256": hashlib.sha256(data).hexdigest(), "license": LICENSE,
        "authors": AUTHORS, "package": PACKAGE, "version": VERSION, "wheel": WHEEL, "wheel_sha256": WHEEL_SHA256, "program": PROGRAM,
        "outputs": ", ".join(OUTPUTS),
    }
    write_folder(given.out, {
        "LICENSE": license_text,
        "NOTICE": NOTICE.format(**values),
        f"{name}.onnx": data,
        "labels.txt": read(LABELS),
        "model.yaml": MODEL_YAML.format(**values),
    }, given.force)
    print(f"{given.out}: {name}, input {width}×{height}, SHA-256 {values['sha256']}; licence {LICENSE}, see LICENSE and NOTICE there")


def import_folder(given):
    """Converts the network of a folder."""
    size = re.fullmatch(r"(\d{1,4})x(\d{1,4})", given.size or "")
    outputs = [output.partition("=") for output in given.outputs]
    if not size or not outputs or not all(name and variable for name, _, variable in outputs):
        raise Mistake(
            f"found --size {given.size} and --output {given.outputs}, expected --size WIDTHxHEIGHT and an --output NAME=VARIABLE for each tensor "
            f"before the decoding; without them the name of a known network: {' or '.join(NETWORKS)}"
        )
    size = int(size[1]), int(size[2])
    if not 1 <= min(size) <= max(size) <= LONGEST_SIDE:
        raise Mistake(f"--size: found {given.size}, expected sides of 1 to {LONGEST_SIDE} pixels")
    programs = glob.glob(os.path.join(glob.escape(given.network), "*.pdmodel"))
    if len(programs) != 1:
        raise Mistake(f"{given.network}: found {len(programs)} files *.pdmodel, expected one, as PaddlePaddle 2 saves a network for inference")
    parameters = programs[0].removesuffix("pdmodel") + "pdiparams"
    outputs = {name: variable for name, _, variable in outputs}
    data = convert((programs[0], read(programs[0])), (parameters, read(parameters)), given.input, size, outputs, {"converted_from": "PaddlePaddle"})
    file = os.path.basename(os.path.abspath(given.out)) + ".onnx"
    write_folder(given.out, {file: data}, given.force)
    print(f"{os.path.join(given.out, file)}: {len(data)} bytes; draft its model.yaml with `jetwatch model init`")


def main(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", metavar="NAME|FOLDER", help="a network that is known here, or a folder with .pdmodel and .pdiparams")
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER", help="the model folder")
    parser.add_argument("--wheel", metavar="FILE", help="the wheel of a known network (default: pip fetches it)")
    parser.add_argument("--input", default=INPUT, metavar="VARIABLE", help="of a folder: the variable of the image (default: image)")
    parser.add_argument("--size", metavar="WIDTHxHEIGHT", help="of a folder: size of the input in pixels")
    parser.add_argument("--output", dest="outputs", action="append", default=[], metavar="NAME=VARIABLE", help=(
        "of a folder: a variable that becomes the output NAME [batch, height · width, channels]; give one for each tensor"))
    parser.add_argument("--force", action="store_true", help="replace files that exist already")
    given = parser.parse_args(given)
    import_known(given) if given.network in NETWORKS else import_folder(given)


if __name__ == "__main__":
    run(main)
