#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of models/import_darknet.py and models/import_paddle.py on networks made here: `python models/import_test.py` (needs
requirements-test.txt; with the jetwatch binary, which JETWATCH or PATH names, it checks the model folders, too).

What a network computes is compared with an independent computation in numpy, which for Darknet is tests/reference/darknet.py."""
import contextlib
import hashlib
import io
import os
import re
import struct
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

try:
    import numpy as np
    import onnx
    import onnxruntime
    import yaml
except ImportError as error:
    print(f"skipped: {error}: pip install -r models/requirements-test.txt")
    sys.exit(0)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "reference")]
import darknet as reference  # noqa: E402
import import_darknet  # noqa: E402
import import_paddle  # noqa: E402
from importing import Mistake, Unavailable, run, write_folder  # noqa: E402
from quantization import daemon  # noqa: E402

try:
    BINARY = daemon.find()
except Mistake:
    BINARY = None

DARKNET = """[net]
width=32
height=16
channels=3
learning_rate=0.001 # of training

[convolutional]
batch_normalize=1
filters=4
size=3
stride=2
pad=1
activation=leaky

[convolutional]
filters=18
size=1
stride=1
pad=1
activation=linear

[yolo]
mask=0,1,2
anchors=1,2, 3,4, 5,6
classes=1
num=3
"""
# Its numbers of weights.
NUMBERS = 4 * 4 + 4 * 3 * 9 + 18 + 18 * 4

EACH_LAYER = (
    reference.net(64, 32).replace("[net]", "[net]\nletter_box=1")
    + reference.conv(4, 3, 1, "mish") + reference.conv(8, 3, 2) + reference.route("-1", "groups=2\ngroup_id=1\n")
    + reference.conv(4, 3, 1, "swish") + reference.conv(4, 1, 1, "logistic", 0) + "[shortcut]\nfrom=-2\nactivation=relu\n"
    + reference.route("-1,1") + reference.maxpool(2, 1) + reference.maxpool(2, 2) + "[dropout]\nprobability=.5\n"
    + reference.conv(14, 1, 1, "linear", 0) + reference.yolo("2,3", "1,2, 3,4, 5.5,6, 7,8,", 2, 1.05)
    + reference.route("-4") + reference.conv(6, 3, 1, "leaky", 1, "groups=2\ndilation=2\n") + reference.UPSAMPLE
    + reference.route("-1, 1") + reference.maxpool(5, 1) + reference.conv(14, 1, 1, "linear", 0)
    + reference.yolo("0,1", "1,2, 3,4, 5.5,6, 7,8", 2, 1) + reference.route("17") + reference.yolo("0,1", "1,2, 3,4", 2, 1)
)


def runtime(path):
    """The network's outputs for images, with one thread."""
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda images: dict(zip(names, session.run(None, {session.get_inputs()[0].name: images})))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="import-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def main(self, module, *arguments):
        """What it prints."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            module.main([self.path(argument) if argument.startswith("x.") else argument for argument in arguments])
        return printed.getvalue()

    def refused(self, expected, module, *arguments):
        with self.assertRaises(Mistake) as raised:
            self.main(module, *arguments)
        self.assertIn(expected, str(raised.exception))

    def load(self, folder, found=None):
        """The daemon reads the description, and the outputs of a network, in which it finds something."""
        if BINARY:
            with daemon.Daemon(folder, BINARY) as judge:
                self.assertEqual(judge.spec.name, os.path.basename(folder))
                if found:
                    values = [found[name][:1] for name in judge.spec.outputs]
                    boxes, _ = judge.decode(values, (judge.spec.width, judge.spec.height), 0.001, 0.9, 10, False)
                    self.assertEqual(len(boxes), 10)


class Scripts(Case):
    def test_mistakes_end_a_script_without_a_trace(self):
        for mistake, code in ((Mistake, 2), (Unavailable, 3)):
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
                run(mock.Mock(side_effect=mistake("x.cfg:1: wrong")))
            self.assertEqual((ended.exception.code, said.getvalue()), (code, "import_test.py: x.cfg:1: wrong\n"))

    def test_a_file_that_cannot_be_written_is_a_mistake_and_leaves_nothing(self):
        self.write("file", "")
        with self.assertRaisesRegex(Mistake, "cannot write .*file"):
            write_folder(self.path("file"), {"a": b"1"}, False)
        os.makedirs(self.path("model", "b"))
        with self.assertRaisesRegex(Mistake, "cannot write"):
            write_folder(self.path("model"), {"a": b"1", "b": "2"}, True)
        self.assertEqual(sorted(os.listdir(self.path("model"))), ["a", "b"])


class Darknet(Case):
    arguments = "x.cfg", "x.weights", "-o"

    def make(self, cfg=DARKNET, numbers=NUMBERS):
        self.write("x.cfg", cfg)
        return self.write("x.weights", struct.pack("<5i", 0, 2, 5, 0, 0) + struct.pack("<f", 0.5) * numbers)

    def computed(self, name, text, seed=1):
        """Compares all grids for two images; the description."""
        settings = reference.sections(text)[0][1]
        images = np.random.default_rng(seed).uniform(0, 1, (2, 3, int(settings["height"]), int(settings["width"]))).astype(np.float32)
        wanted = []
        for image in images:
            weights = reference.Weights(seed)
            wanted.append(reference.forward(text, image.astype(np.float64), weights))
        cfg, file = self.write(f"{name}.cfg", text), self.write(f"{name}.weights", weights.file())
        if name in reference.PUBLISHED_BYTES:
            self.assertEqual(os.path.getsize(file), reference.PUBLISHED_BYTES[name])
        self.main(import_darknet, cfg, file, "-o", self.path(name))
        found = runtime(self.path(name, f"{name}.onnx"))(images)
        self.assertEqual(len(found), len(wanted[0]))
        for grid, numbers in enumerate(found.values()):
            for image, expected in zip(numbers, wanted):
                self.assertTrue(0.1 < expected[grid].std() < 10, f"{expected[grid].std()} says little")
                np.testing.assert_allclose(image, expected[grid], atol=1e-5)
        self.load(self.path(name), found)
        return yaml.safe_load(self.read(name, "model.yaml"))

    def test_each_layer_is_computed_and_described(self):
        described = self.computed("each", EACH_LAYER)
        self.assertEqual(described["output"], {
            "layout": "yolov4", "tensors": {"grids": ["grid_4", "grid_2", "grid_2_2"]},
            "anchors": [[5.5, 6, 7, 8], [1, 2, 3, 4], [1, 2, 3, 4]], "scale_x_y": [1.05, 1, 1],
        })
        self.assertEqual(described["input"]["letterbox"], {"value": 127, "placement": "center"})
        self.assertEqual(described["labels"], ["class 0", "class 1"])
        digest = hashlib.sha256(self.read("each", "each.onnx")).hexdigest()
        self.assertEqual(described["files"], {"fp32": {"file": "each.onnx", "sha256": digest}})

    def test_published_structures_are_computed(self):
        layouts = {name: self.computed(name, text())["output"]["layout"] for name, text in reference.NETWORKS.items()}
        self.assertEqual(layouts, {"yolov4-tiny": "yolov4", "yolov3-tiny": "yolov3", "yolov4-blocks": "yolov4"})

    def test_names_and_existing_files(self):
        self.make()
        for text, expected in [("", "found 0 names, expected 1"), ("a\n\nb\n", "found 2 names"), (b"\xff\n", "byte at 0 that is not UTF-8")]:
            self.refused(expected, import_darknet, *self.arguments, self.path("model"), "--names", self.write("x.names", text))
        self.refused("cannot read", import_darknet, *self.arguments, self.path("model"), "--names", "missing")
        self.assertFalse(os.path.exists(self.path("model")))
        self.write("x.names", " no\r\n")
        printed = self.main(import_darknet, *self.arguments, self.path("model"), "--names", self.path("x.names"))
        self.assertIn("layout yolov3, input 32×16, 1 classes, 3 anchors at stride 2", printed)
        self.assertEqual(yaml.safe_load(self.read("model", "model.yaml"))["labels"], ["no"])
        before = self.read("model", "x.onnx")
        self.refused("exists already", import_darknet, *self.arguments, self.path("model"))
        self.assertIn("do not name the classes", self.main(import_darknet, *self.arguments, self.path("model"), "--force"))
        self.assertEqual(self.read("model", "x.onnx"), before)
        self.assertEqual(sorted(os.listdir(self.path("model"))), ["model.yaml", "x.onnx"])
        two = DARKNET.replace("classes=1", "classes=2").replace("filters=18", "filters=21")
        self.make(two, NUMBERS + 3 + 3 * 4)
        self.refused("found `a` twice", import_darknet, *self.arguments, self.path("two"), "--names", self.write("x.names", "a\na\n"))

    def test_weights_of_another_length_are_refused(self):
        self.make()
        whole = self.read("x.weights")
        for length in range(0, len(whole)):
            self.write("x.weights", whole[:length])
            with self.assertRaisesRegex(Mistake, "x.weights: (found|it ends after)"):
                import_darknet.Importer(self.path("x.cfg"), self.path("x.weights"))
        for content, expected in [
            (whole[:-4], "layer 1, [convolutional] in line 15 (18 filters of 1×1 on 4 channels): 4 bytes are missing for 72 numbers"),
            (whole + bytes(8), "8 bytes are left"),
            (whole[:24] + struct.pack("<f", float("nan")) + whole[28:], "found nan at byte 24"),
            (whole[:68] + struct.pack("<f", -1) + whole[72:], "found a variance of -1 in layer 0"),
            (b"\x89PNG\r\n\x1a\n" + whole, "found version 1196314761."),
        ]:
            self.write("x.weights", content)
            self.refused(expected, import_darknet, *self.arguments, self.path("model"))
        # Versions before 0.2 have a shorter header.
        self.write("x.weights", struct.pack("<4i", 0, 1, 0, 0) + whole[20:])
        self.main(import_darknet, *self.arguments, self.path("model"))

    def test_wrong_configurations_are_refused_with_their_line(self):
        for old, new, expected in [
            ("[net]", "[network", "1: found `[network`"),
            ("[net]\n", "", "1: found `width=32` before the first section"),
            ("[net]", "[yolo]", "1: found [yolo] as the first section"),
            (DARKNET, "# nothing", "1: found no section"),
            (DARKNET, "[net]\nwidth=32", "1: found no [yolo] layer"),
            ("width=32", "width=3x", "2: width of [net]: found `3x`, expected a whole number"),
            ("width=32", "width=0", "2: width of [net]: found 0, expected 1 to 8192"),
            ("width=32", "width=33", "22: [yolo] has 17×8 cells"),
            ("channels=3", "channels=1", "4: found channels=1"),
            ("[convolutional]\nfilters", "[region]\nfilters", "15: section [region] is not supported; known are [convolutional]"),
            ("activation=linear", "activation=gelu", "20: activation=gelu is not supported"),
            ("size=1", "xnor=1", "17: unknown key xnor in [convolutional]"),
            ("size=1", "size", "17: found `size`, expected key=value"),
            ("filters=4", "filters=65537", "9: filters of [convolutional]: found 65537, expected 1 to 65536"),
            ("filters=18", "filters=20", "22: [yolo] with 3 anchors and 1 classes needs 18 channels"),
            ("size=3\nstride=2\npad=1", "size=99\nstride=2\npad=0", "7: [convolutional] with size=99 does not fit"),
            ("filters=4", "filters=4\ngroups=2", "10: found groups=2 with 4 filters on 3 channels"),
            ("mask=0,1,2", "mask=0,1,3", "23: mask of [yolo]: found [0, 1, 3]"),
            ("mask=0,1,2", "mask=0,a,2", "23: mask of [yolo]: found `a`"),
            ("mask=0,1,2", "mask=", "23: mask of [yolo]: found []"),
            ("anchors=1,2, 3,4, 5,6", "anchors=1,2,3", "24: anchors of [yolo]: found 3 numbers"),
            ("anchors=1,2", "anchors=0.5,2", "24: anchors of [yolo]: found 6 numbers"),
            ("num=3", "new_coords=1", "26: new_coords=1 of [yolo] is not supported, expected 0"),
            ("num=3", "scale_x_y=3", "26: scale_x_y of [yolo]: found 3, expected 1 to 2"),
            ("num=3", "num=3\n[convolutional]", "27: [convolutional] reads the result of the [yolo] layer 2"),
            ("num=3", "num=3\n[route]\nlayers=2", "28: [route] reads the result of the [yolo] layer 2"),
            ("num=3", "num=3\n[route]\nlayers=1\n[yolo]\nclasses=2", "30: found classes=2, and 1 in the [yolo] layer before it"),
            ("[yolo]", "[route]\nlayers=-1,-1\n" * 20 + "[yolo]", "52: [route] gives 1179648 channels, expected at most 1048576"),
            ("[yolo]", "[route]\nlayers=-3\n[yolo]", "23: layers of [route]: found -3 in layer 2"),
            ("[yolo]", "[route]\n[yolo]", "22: [route] has no layers"),
            ("[yolo]", "[route]\nlayers=0,-1\n[yolo]", "24: [yolo] with 3 anchors"),
            ("[yolo]", "[upsample]\n[route]\nlayers=0,-1\n[yolo]", "24: [route] joins results of 16×8 and 32×16 cells"),
            ("[yolo]", "[upsample]\nstride=17\n[yolo]", "23: stride of [upsample]: found 17, expected 1 to 16"),
            ("[yolo]", "[shortcut]\nfrom=0\n[yolo]", "23: [shortcut] adds 4 channels of 16×8 cells to 18 channels"),
            ("[yolo]", "[shortcut]\nfrom=-1\nweights_type=per_feature\n[yolo]", "24: weights_type=per_feature of [shortcut] is not supported"),
            ("[yolo]", "[route]\nlayers=-1\ngroups=4\n[yolo]", "24: found groups=4 for 18 channels"),
            ("[yolo]", "[route]\nlayers=-1\ngroup_id=1\n[yolo]", "24: found group_id=1, expected 0 to 0"),
            ("[yolo]", "[maxpool]\nsize=2\npadding=4\n[yolo]", "24: found padding=4"),
            ("[yolo]", "[maxpool]\nsize=40\npadding=0\n[yolo]", "22: [maxpool] with size=40 does not fit"),
        ]:
            with self.subTest(new):
                self.assertIn(old, DARKNET)
                # More numbers than any of the networks needs: it is refused before its end.
                self.make(DARKNET.replace(old, new, 1), 4 * NUMBERS if new != "[net]\nwidth=32" else 0)
                self.refused(f"x.cfg:{expected}", import_darknet, *self.arguments, self.path("model"))
                self.assertFalse(os.path.exists(self.path("model")))


def field(number, value):
    """A field of a protobuf message: a whole number, a float, or text, bytes or a message."""
    def varint(value):
        value &= (1 << 64) - 1
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    """The field of the value depends on its type; lists of whole numbers are 6, of floats 7."""
    number = {bool: 10, int: 3, float: 4, str: 5, list: 6}[type(value)]
    values = value if isinstance(value, list) else [int(value) if isinstance(value, bool) else value]
    number = 7 if isinstance(value, list) and isinstance(values[0], float) else number
    return field(4, field(1, name) + b"".join(field(number, one) for one in values))


def operator(kind, inputs, output, **attributes):
    """Inputs are variables by parameter: one, or a list. The result's parameter is as Paddle names it."""
    result = {"conv2d": "Output", "depthwise_conv2d": "Output", "batch_norm": "Y"}.get(kind, "Out")
    fields = [field(3, kind), field(2, field(1, result) + field(2, output))]
    for name, variables in inputs.items():
        variables = variables if isinstance(variables, list) else [variables]
        fields.append(field(1, field(1, name) + b"".join(field(2, variable) for variable in variables)))
    return b"".join(fields + [attribute(*one) for one in attributes.items()])


def program(weights, operators):
    variables = [field(1, name) + field(2, field(1, 7)) + field(3, 1) for name in [*weights]]
    # No weights: one of another type, and one that is computed.
    variables += [field(1, "feed") + field(2, field(1, 9)) + field(3, 1), field(1, "image") + field(2, field(1, 7))]
    return field(1, b"".join([field(3, one) for one in variables] + [field(4, operator(*one[:3], **one[3])) for one in operators]))


def parameters(weights):
    data = b""
    for name in sorted(weights):
        values = np.asarray(weights[name], np.float32)
        described = field(1, 5) + b"".join(field(2, length) for length in values.shape)
        # Some have levels, which say nothing here.
        levels = struct.pack("<Q3xQ3x", 3, 3) if name == "a_gate" else b""
        head = struct.pack("<IQ", 0, 2 * bool(levels)) + levels + struct.pack("<Ii", 0, len(described))
        data += head + described + values.tobytes()
    return data


def detector():
    """Weights and operators of a detector with each operator that is known, as PicoDet has them."""
    rng = np.random.default_rng(5)
    weights = {name: rng.uniform(-0.9, 0.9, shape).astype(np.float32) for name, shape in {
        "z_stem": (4, 3, 3, 3), "bn_shift": 4, "bn_mean": 4, "depth": (4, 1, 5, 5), "depth_bias": (1, 4, 1, 1), "a_gate": (4, 4, 1, 1),
        "gate_bias": 4, "class": (2, 8, 1, 1), "class_bias": 2, "object": (1, 8, 1, 1), "sides": (32, 8, 1, 1), "sides_bias": 32,
    }.items()}
    weights |= {name: rng.uniform(0.3, 2.1, 4).astype(np.float32) for name in ("bn_scale", "bn_variance")}
    one = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1, "data_format": "NCHW", "padding_algorithm": "EXPLICIT"}
    wide = {**one, "strides": [2, 2], "paddings": [5, 3, 4, 4], "dilations": [2, 2], "groups": 4}
    normal = {"X": "stem", "Scale": "bn_scale", "Bias": "bn_shift", "Mean": "bn_mean", "Variance": "bn_variance"}
    return weights, [
        ("conv2d", {"Input": "image", "Filter": "z_stem"}, "stem", {**one, "strides": [8, 8], "paddings": [1, 1]}),
        ("batch_norm", normal, "normal", {"epsilon": 1e-3, "data_layout": "NCHW"}),
        ("hard_swish", {"X": "normal"}, "features", {"offset": 3.0, "threshold": 6.0, "scale": 6.0}),
        ("pool2d", {"X": "features"}, "pooled", {"pooling_type": "avg", "adaptive": True, "ksize": [1, 1]}),
        ("depthwise_conv2d", {"Input": "features", "Filter": "depth"}, "deep_in", wide),
        ("elementwise_add", {"X": "deep_in", "Y": "depth_bias"}, "deep", {"axis": -1}),
        ("conv2d", {"Input": "pooled", "Filter": "a_gate"}, "gate_in", one),
        ("elementwise_add", {"X": "gate_in", "Y": "gate_bias"}, "gate_sum", {"axis": 1}),
        ("relu", {"X": "deep"}, "coarse", {}),
        ("hard_sigmoid", {"X": "gate_sum"}, "gate", {"slope": 0.25, "offset": 0.4}),
        ("elementwise_mul", {"X": "features", "Y": "gate"}, "gated", {}),
        ("nearest_interp_v2", {"X": "coarse"}, "fine", {"scale": [2.0, 2.0]}),
        ("elementwise_add", {"X": "fine", "Y": "gated"}, "sum", {}),
        ("concat", {"X": ["gated", "sum"]}, "joined", {"axis": 1}),
        ("conv2d", {"Input": "joined", "Filter": "class"}, "class_in", one),
        ("elementwise_add", {"X": "class_in", "Y": "class_bias"}, "class_sum", {"axis": 1}),
        ("conv2d", {"Input": "joined", "Filter": "object"}, "object_in", one),
        ("conv2d", {"Input": "joined", "Filter": "sides"}, "sides_in", one),
        ("elementwise_add", {"X": "sides_in", "Y": "sides_bias"}, "box", {"axis": 1}),
        ("sigmoid", {"X": "class_sum"}, "class_p", {}),
        ("sigmoid", {"X": "object_in"}, "object_p", {}),
        ("elementwise_mul", {"X": "class_p", "Y": "object_p"}, "product", {}),
        ("scale", {"X": "product"}, "scaled", {"scale": 0.81, "bias": 1e-3}),
        ("sqrt", {"X": "scaled"}, "score", {}),
        ("erf", {"X": "score"}, "end", {}),  # What comes after is left out.
    ]


def computed(weights, operators, image):
    """All variables of a program for one image, in float64."""
    values = {name: value.astype(np.float64) for name, value in weights.items()} | {"image": image.astype(np.float64)}
    column = lambda numbers: numbers.reshape(-1, 1, 1)
    for kind, inputs, output, given in operators[:-1]:
        x, y, *more = [values[name] for names in inputs.values() for name in ([names] if isinstance(names, str) else names)] + [None]
        if kind.endswith("conv2d"):
            pads = given["paddings"] * (4 // len(given["paddings"]))  # Top, bottom, left, right.
            padded = np.pad(x, [(0, 0), pads[:2], pads[2:]])
            size, stride, dilation = y.shape[-1], given["strides"][0], given["dilations"][0]
            side = (padded.shape[1] - dilation * (size - 1) - 1) // stride + 1
            seen = reference.windows(padded, size, stride, dilation, side, side)
            grouped = kind == "depthwise_conv2d"
            result = np.einsum("cyxhw,cyx->chw", seen, y[:, 0]) if grouped else np.einsum("iyxhw,oiyx->ohw", seen, y)
        elif kind == "batch_norm":
            shift, mean, variance = more[:3]
            result = (x - column(mean)) / np.sqrt(column(variance) + given["epsilon"]) * column(y) + column(shift)
        else:
            result = {
                "hard_swish": lambda: x * np.clip(x + 3, 0, 6) / 6,
                "pool2d": lambda: x.mean((1, 2), keepdims=True),
                "elementwise_add": lambda: x + (y if y.ndim == 3 else column(y)),
                "elementwise_mul": lambda: x * y,
                "relu": lambda: np.maximum(x, 0),
                "hard_sigmoid": lambda: np.clip(given["slope"] * x + given["offset"], 0, 1),
                "nearest_interp_v2": lambda: x.repeat(2, 1).repeat(2, 2),
                "concat": lambda: np.concatenate([x, y]),
                "sigmoid": lambda: reference.sigmoid(x),
                "scale": lambda: given["scale"] * x + given["bias"],
                "sqrt": lambda: np.sqrt(x),
            }[kind]()
        values[output] = result
    return values


CONV = ("conv2d", {"Input": "image", "Filter": "w"}, "y", {})


class Paddle(Case):
    def convert(self, weights, operators, outputs={"out": "y"}, size=(6, 4), change=lambda program, parameters: (program, parameters)):
        files = change(program(weights, operators), parameters(weights))
        with_paths = zip(("model.pdmodel", "model.pdiparams"), files)
        return import_paddle.convert(*with_paths, "image", size, outputs, {"license": "none"})

    def test_each_operator_is_computed(self):
        weights, operators = detector()
        self.write("model.pdmodel", program(weights, operators))
        self.write("model.pdiparams", parameters(weights))
        arguments = [self.folder, "--size", "32x32", "--output", "scores_8=score", "--output", "boxes_8=box"]
        self.assertIn("jetwatch model init", self.main(import_paddle, *arguments, "-o", self.path("tiny")))
        images = np.random.default_rng(6).uniform(-2, 2, (2, 3, 32, 32)).astype(np.float32)
        found = runtime(self.path("tiny", "tiny.onnx"))(images)
        for place, image in enumerate(images):
            wanted = computed(weights, operators, image)
            for name, variable in (("scores_8", "score"), ("boxes_8", "box")):
                expected = wanted[variable].reshape(len(wanted[variable]), -1).T
                self.assertGreater(expected.std(), 0.05)
                np.testing.assert_allclose(found[name][place], expected, atol=1e-5)
        self.refused("exists already", import_paddle, *arguments, "-o", self.path("tiny"))
        for wrong, expected in [
            (["--size", "32"], "expected --size WIDTHxHEIGHT"),
            (["--size", "0x32"], "expected sides of 1 to 8192 pixels"),
            (["--output", "score"], "an --output NAME=VARIABLE"),
            (["--input", "gone"], "no variable `image`"),
            (["--size", "40x32"], "is the size a multiple of the greatest stride?"),
        ]:
            self.refused(expected, import_paddle, *arguments, *wrong, "-o", self.path("other"))
        self.refused("found 0 files *.pdmodel", import_paddle, self.path("tiny"), *arguments[1:], "-o", self.path("other"))
        os.remove(self.path("model.pdiparams"))
        self.refused("cannot read", import_paddle, *arguments, "-o", self.path("other"))
        self.assertFalse(os.path.exists(self.path("other")))

    def test_a_known_network_comes_out_of_its_wheel(self):
        weights, operators = detector()
        name = "paddlelabel_ml-1.0.0.dist-info/"
        with zipfile.ZipFile(self.path("x.whl"), "w", zipfile.ZIP_DEFLATED) as wheel:
            for member, content in {
                import_paddle.PROGRAM: program(weights, operators), import_paddle.PARAMETERS: parameters(weights), f"{name}LICENSE": b"the terms\n",
                f"{name}METADATA": "Metadata-Version: 2.1\nName: paddlelabel-ml\nVersion: 1.0.0\n", f"{name}RECORD": "",
                f"{name}WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            }.items():
                wheel.writestr(member, content)
        wheel = self.read("x.whl")
        outputs = {f"{kind}_{stride}": variable for kind, variable in (("scores", "score"), ("boxes", "box")) for stride in (8, 16, 32, 64)}
        arguments = ["picodet_s_lcnet", "-o", self.path("picodet_s_lcnet")]
        self.refused("x.whl: found SHA-256", import_paddle, *arguments, "--wheel", self.path("x.whl"))
        os.makedirs(self.path("index", "paddlelabel-ml"))
        self.write(f"index/paddlelabel-ml/{import_paddle.WHEEL}", wheel)
        self.write("index/paddlelabel-ml/index.html", f"<!DOCTYPE html><a href='{import_paddle.WHEEL}'>{import_paddle.WHEEL}</a>")
        settings = {"XDG_CACHE_HOME": self.path("cache"), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "0", "PIP_RETRIES": "0"}
        with mock.patch.dict(os.environ, settings), mock.patch.multiple(
            import_paddle, WHEEL_SHA256=hashlib.sha256(wheel).hexdigest(), OUTPUTS=outputs
        ):
            with mock.patch.dict(os.environ, {"PIP_INDEX_URL": f"file://{self.path('gone')}"}):
                self.refused("pip cannot fetch paddlelabel-ml 1.0.0: ERROR: No matching distribution", import_paddle, *arguments)
            with mock.patch.dict(os.environ, {"PIP_INDEX_URL": f"file://{self.path('index')}"}):
                self.assertIn("input 416×416", self.main(import_paddle, *arguments))
            # The wheel is kept, and the network is there.
            self.main(import_paddle, "picodet_s_lcnet_416x256", "-o", self.path("picodet_s_lcnet_416x256"))
            self.assertIn("exists already", self.main(import_paddle, *arguments))
        self.assertEqual(self.read("picodet_s_lcnet", "LICENSE"), b"the terms\n")
        self.assertIn(b"Made by the PaddlePaddle authors", self.read("picodet_s_lcnet", "NOTICE"))
        described = yaml.safe_load(self.read("picodet_s_lcnet_416x256", "model.yaml"))
        self.assertEqual((described["input"]["width"], described["input"]["height"]), (416, 256))
        files = ["LICENSE", "NOTICE", "labels.txt", "model.yaml", "picodet_s_lcnet.onnx"]
        self.assertEqual(sorted(os.listdir(self.path("picodet_s_lcnet"))), files)
        self.load(self.path("picodet_s_lcnet"))
        self.load(self.path("picodet_s_lcnet_416x256"))

    def test_published_networks_keep_their_bytes(self):
        """Those whose outputs were compared with Paddle's, and whose accuracy was measured."""
        for name, digest in {
            "picodet_s_lcnet": "ececb1068253b73d49cb1c2c3ef98040d9b053e344f5a17ac47216a86ea9862f",
            "picodet_s_lcnet_416x256": "ab95a96d84893484d9b0e990445bc1fe813ef25f7427bceb42a4665b78864f04",
        }.items():
            try:
                self.main(import_paddle, name, "-o", self.path(name))
            except Unavailable as unavailable:
                self.skipTest(str(unavailable))
            self.assertEqual(hashlib.sha256(self.read(name, f"{name}.onnx")).hexdigest(), digest)
            height, width = import_paddle.NETWORKS[name][1::-1]
            image = np.random.default_rng(7).normal(0, 1, (1, 3, height, width)).astype(np.float32)
            self.load(self.path(name), runtime(self.path(name, f"{name}.onnx"))(image))

    def test_damaged_files_are_refused_at_every_length(self):
        weights = {"w": np.full((2, 3, 1, 1), 0.5)}
        whole = program(weights, [CONV]), parameters(weights)
        self.convert(weights, [CONV])
        for length in range(len(whole[0])):
            with self.assertRaisesRegex(Mistake, "model.pdmodel"):
                self.convert(weights, [CONV], change=lambda program, parameters: (program[:length], parameters))
        for length in range(len(whole[1])):
            with self.assertRaisesRegex(Mistake, "model.pdiparams"):
                self.convert(weights, [CONV], change=lambda program, parameters: (program, parameters[:length]))
        for data, expected in [
            (whole[1] + b"\0", "1 bytes after the last of 1 weights"),
            (b"\1" + whole[1][1:], "found no weight `w` of PaddlePaddle 2 at byte 0 of"),
            (bytes(4) + b"\1" + bytes(7) + b"\xff" * 8 + whole[1][12:], "found no weight `w`"),
            (whole[1].replace(field(1, 5), field(1, 99), 1), "found no weight `w`"),
        ]:
            with self.assertRaisesRegex(Mistake, re.escape(expected)):
                self.convert(weights, [CONV], change=lambda program, _: (program, data))
        for data in (b"\x0b", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", field(1, 7), field(1, field(4, field(3, b"\xff")))):
            with self.assertRaisesRegex(Mistake, "model.pdmodel: .* at byte"):
                self.convert(weights, [CONV], change=lambda _, parameters: (data, parameters))

    def test_unsupported_networks_are_refused_by_name(self):
        doublings = [("concat", {"X": ["image" if place == 0 else f"v{place}"] * 2}, f"v{place + 1}", {"axis": 1}) for place in range(70)]
        x, conv, norm = {"X": "image"}, CONV[1], {"X": "y", "Scale": "b", "Bias": "b", "Mean": "b", "Variance": "b"}
        for operators, expected in [
            ([("erf", x, "y", {})], "`erf` with the output `y`: it is not supported; known are conv2d"),
            ([("relu", {"X": "other"}, "y", {})], "no variable `other`, expected an operator that writes it"),
            ([("relu", {"X": "w"}, "y", {})], "no variable `image`"),
            ([("relu", x, "z", {})], "no variable `y`"),
            ([("relu", x, "y", {})] * 2, "its output is written by two operators"),
            ([CONV, ("relu", {}, "y", {})], "written by two"),
            ([("relu", {"X": ["image", "image"]}, "y", {})], "found 2 variables as X, expected one"),
            ([("concat", x, "y", {})], "axis 1"),
            ([("pool2d", x, "y", {"pooling_type": "max", "adaptive": True, "ksize": [1, 1]})], "expected the mean of each channel"),
            ([("pool2d", x, "y", {"pooling_type": "avg", "ksize": [1, 1]})], "expected the mean of each channel"),
            ([("nearest_interp_v2", x, "y", {})], "expected the factors"),
            ([("nearest_interp_v2", x, "y", {"scale": [1.5, 2.0]})], "expected whole factors"),
            ([("nearest_interp_v2", x, "y", {"scale": [2.0, 2.0], "align_corners": True})], "without aligned corners"),
            ([("nearest_interp_v2", x, "y", {"scale": [2.0, 2.0], "out_h": 9})], "expected whole factors"),
            ([("elementwise_add", {**x, "Y": "b"}, "y", {"axis": 1})], "a weight is added, expected a convolution before it"),
            ([(*CONV[:2], "z", {}), ("elementwise_add", {"X": "z", "Y": "b"}, "y", {"axis": -1})], "a weight of the shape [2] at axis -1"),
            ([("elementwise_mul", {**x, "Y": "b"}, "y", {})], "found the weight `b`, expected the result of an operator"),
            ([(*CONV[:2], "z", {}), ("elementwise_add", {**x, "Y": "z"}, "y", {})], "have the shapes [3, 4, 6] and [2, 4, 6]"),
            ([("conv2d", {**conv, "Filter": "image"}, "y", {})], "found the variable `image` as Filter, expected a weight"),
            ([("conv2d", {**conv, "Filter": "b"}, "y", {})], "found weights of the shape [2], expected 4 axes"),
            ([("conv2d", {**conv, "Filter": "empty"}, "y", {})], "expected 4 axes and at least one value"),
            ([("conv2d", {**conv, "Bias": "b"}, "y", {})], "it has a fused bias"),
            ([("conv2d", conv, "y", {"groups": 3})], "in 3 groups on 3 channels"),
            ([("conv2d", conv, "y", {"groups": 0})], "in 0 groups"),
            ([("conv2d", conv, "y", {"strides": [0, 1]})], "found strides [0, 1]"),
            ([("conv2d", conv, "y", {"paddings": [1]})], "found paddings [1], expected 2 or 4 numbers from 0 on"),
            ([("conv2d", conv, "y", {"paddings": [-1, 0]})], "found paddings [-1, 0]"),
            ([("conv2d", conv, "y", {"padding_algorithm": "SAME"})], "found padding_algorithm SAME, expected EXPLICIT or VALID"),
            ([("conv2d", conv, "y", {"data_format": "NHWC"})], "found data_format NHWC, expected NCHW"),
            ([("conv2d", {**conv, "Filter": "large"}, "y", {})], "its input of 6×4 is too small"),
            ([("batch_norm", {**x, "Scale": "b"}, "y", {})], "found 0 variables as Bias"),
            ([("batch_norm", {**norm, "X": "image"}, "y", {})], "expected a convolution before it whose result only it reads"),
            ([(*CONV[:2], "z", {}), ("batch_norm", {**norm, "X": "z", "Mean": "w"}, "y", {})], "expected 2 values each"),
            ([(*CONV[:2], "z", {}), ("relu", {"X": "z"}, "r", {}), ("batch_norm", {**norm, "X": "z"}, "n", {}),
              ("elementwise_add", {"X": "n", "Y": "r"}, "y", {})], "whose result only it reads"),
            ([("hard_swish", x, "y", {"threshold": 3.0})], "found a threshold of 3 and a scale of 6"),
            ([("scale", x, "y", {"bias": 1.0, "bias_after_scale": False})], "expected the bias after the scale"),
            (doublings + [("relu", {"X": "v70"}, "y", {})], "expected axes of at most 65536"),
        ]:
            with self.subTest(expected), self.assertRaisesRegex(Mistake, re.escape(expected)):
                weights = {"w": np.full((2, 3, 1, 1), 0.5), "b": np.ones(2), "empty": np.ones((0, 3, 1, 1)), "large": np.ones((2, 3, 9, 1))}
                self.convert(weights, operators)


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(3)
    unittest.main(verbosity=2)
