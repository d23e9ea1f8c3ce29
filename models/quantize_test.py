#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of models/quantize.py on networks and pictures made here: `python models/quantize_test.py` (needs requirements-test.txt
and the jetwatch binary: JETWATCH, PATH or target/).

The network finds bright cells of 8x8 pixels: a convolution sums each cell's colors, two others make scores and boxes of
layout fcos. In `ruined` ones a channel a thousand times as large as the others lies in the tensor that the two others read,
so that no 8-bit scale serves the score layer, or both: what the quantizer has to find. There these are transposed convolutions,
whose inputs are not equalized."""
import contextlib
import io
import json
import os
import struct
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy as np
    import onnx
    import onnxruntime
    import yaml
    from onnx import TensorProto, helper, numpy_helper
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error}: pip install -r models/requirements-test.txt")
    sys.exit(0)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import quantize  # noqa: E402
from quantization import accuracy, calibration, daemon, equalize, errors, graph, network, pictures, qdq, report, rounding, search  # noqa: E402
from quantization import spec as specs  # noqa: E402

try:
    BINARY = daemon.find()
except specs.Mistake as mistake:
    print(f"skipped: {mistake}")
    sys.exit(0)

SIDE, CELL = 64, 8
COUNT = 24


def network_file(path, ruined="", opset=11, layout="fcos"):
    """Pixels (0..255) -> cell sums with BatchNorm, Identity, ReLU -> scores [2, 8, 8] and distances [4, 8, 8].

    Layout fastestdet: one tensor [7, 8, 8] of objectness, four numbers of the box, and the classes. Layout softmax: the
    classes of the whole picture, [2]."""
    rng = np.random.default_rng(3)
    channels = 6
    cell = np.zeros((channels, 3, CELL, CELL), np.float32)
    cell[0, 0] = cell[1, 1] = 1 / 64 / 255
    cell[2:5] = rng.normal(0, 1e-6, (3, 3, CELL, CELL))
    bias = np.zeros(channels, np.float32)
    if ruined:
        cell[5], bias[5] = 1.0 / 255, 2000
    distance = np.full((8 if layout == "detectnet_v2" else 4, channels, 1, 1), 1e-8, np.float32)
    if ruined == "both":
        distance[:, :2] = 0.5
    score = np.zeros((2, channels, 1, 1), np.float32)
    score[0, 0] = score[1, 1] = 20
    weights = {
        "cell": cell, "cell_bias": bias, "score": score, "score_bias": np.full(2, -10, np.float32),
        "distance": distance, "distance_bias": np.full(len(distance), 0.0 if ruined == "both" else 0.5, np.float32),
        "gain": np.ones(channels, np.float32), "shift": np.zeros(channels, np.float32),
        "mean": np.zeros(channels, np.float32), "variance": np.ones(channels, np.float32) - np.float32(1e-5),
    }
    nodes = [
        helper.make_node("Conv", ["images", "cell", "cell_bias"], ["sums"], "cells", strides=[CELL, CELL]),
        helper.make_node("BatchNormalization", ["sums", "gain", "shift", "mean", "variance"], ["normal"], "norm"),
        helper.make_node("Identity", ["normal"], ["same"], "identity"),
        helper.make_node("Relu", ["same"], ["bright"], "relu"),
        helper.make_node("Conv", ["bright", "score", "score_bias"], ["logits"], "score"),
        helper.make_node("Sigmoid", ["logits"], ["scores"], "sigmoid"),
        helper.make_node("Conv", ["bright", "distance", "distance_bias"], ["boxes"], "distance"),
    ]
    if ruined:
        for name in ("score", "distance"):
            weights[name] = weights[name].transpose(1, 0, 2, 3)
        nodes[4].op_type = nodes[6].op_type = "ConvTranspose"
    value = helper.make_tensor_value_info
    grid = SIDE // CELL
    if layout == "softmax":
        nodes[5:] = [
            helper.make_node("GlobalAveragePool", ["logits"], ["means"], "pool"),
            helper.make_node("Flatten", ["means"], ["flat"], "flatten"),
            helper.make_node("Softmax", ["flat"], ["scores"], "softmax"),
        ]
    inputs = [value("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])]
    # As exporters of IR 3 did: the weights are inputs too.
    inputs += [value(name, TensorProto.FLOAT, list(array.shape)) for name, array in weights.items()]
    outputs = [value("scores", TensorProto.FLOAT, [1, 2, grid, grid]), value("boxes", TensorProto.FLOAT, [1, 4, grid, grid])]
    if layout == "softmax":
        outputs = [value("scores", TensorProto.FLOAT, [1, 2])]
    if layout == "detectnet_v2":
        outputs[1] = value("boxes", TensorProto.FLOAT, [1, 8, grid, grid])
    made = helper.make_graph(nodes, "cells", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
    onnx.save(model, path)


class Folder:
    """A model folder, pictures and annotations in a temporary folder."""

    def __init__(self, ruined="", scale=1.0, layout="fcos", element="float32", covers=""):
        self.handle = tempfile.TemporaryDirectory()
        self.path = self.handle.name
        self.model = os.path.join(self.path, "model")
        os.mkdir(self.model)
        network_file(os.path.join(self.model, "net.onnx"), ruined, layout=layout)
        with open(os.path.join(self.model, "net.onnx"), "rb") as file:
            digest = report.sha256(file.read())
        output = {
            "fcos": "tensors: {scores: [scores], boxes: [boxes]}",
            "detectnet_v2": "tensors: {scores: scores, boxes: boxes}, box_norm: 8, offset: 4",
            "softmax": "name: scores",
        }[layout]
        normalization = "" if element == "uint8" else f" scale: {scale},"
        text = (
            "# A comment that stays.\nname: cells\n"
            f"input: {{name: images, type: {element}, width: {SIDE}, height: {SIDE}, color: rgb,{normalization}"
            " letterbox: {value: 0, placement: top_left}}\n"
            f"output: {{layout: {layout}, {output}}}\n"
            "license: {spdx: CC0-1.0, source: made by a test}\n"
            "files:\n  fp32: {file: net.onnx, sha256: " + digest + "}\n"
            "labels: [red, green]\n" + covers
        )
        with open(os.path.join(self.model, "model.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        rng = np.random.default_rng(7)
        images, boxes = [], []
        for index in range(COUNT):
            pixels = rng.integers(0, 40, (SIDE, SIDE, 3)).astype(np.uint8)
            for place in rng.permutation(64)[:4]:
                x, y, color = int(place) % 8 * CELL, int(place) // 8 * CELL, int(rng.integers(0, 2))
                pixels[y : y + CELL, x : x + CELL, color] = rng.integers(220, 256, (CELL, CELL))
                boxes.append(
                    {"id": len(boxes) + 1, "image_id": index, "category_id": color + 5, "bbox": [x, y, CELL, CELL], "area": 64, "iscrowd": 0}
                )
            Image.fromarray(pixels).save(os.path.join(self.path, f"{index:02}.png"))
            images.append({"id": index, "file_name": f"{index:02}.png", "width": SIDE, "height": SIDE})
        categories = [{"id": 5, "name": "red"}, {"id": 6, "name": "green"}]
        self.annotations = os.path.join(self.path, "truth.json")
        with open(self.annotations, "w", encoding="utf-8") as file:
            json.dump({"images": images, "annotations": boxes, "categories": categories}, file)

    def run(self, *more, labelled=True):
        """(exit code, stdout, stderr) of the tool."""
        out, err = io.StringIO(), io.StringIO()
        given = ["--model", self.model, "--threads", "2"]
        given += ["--images", self.path, "--annotations", self.annotations] if labelled else ["--pictures", self.path]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = quantize.main([*given, *more])
        return code, out.getvalue(), err.getvalue()


class WithFolders(unittest.TestCase):
    def folder(self, **kinds):
        folder = Folder(**kinds)
        self.addCleanup(folder.handle.cleanup)
        return folder


class TheTool(WithFolders):
    def test_a_layer_that_ruins_all_is_found_and_left_in_float(self):
        folder = self.folder(ruined="score")
        out = os.path.join(folder.model, "int8.onnx")
        cache = os.path.join(folder.path, "cache")
        code, said, err = folder.run("--out", out, "--cache", cache, "--update-model-yaml")
        self.assertEqual(code, 0, err)
        with open(os.path.join(folder.model, "int8.report.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertAlmostEqual(result["naive"]["float_ap"], 1.0, places=3)
        self.assertLess(result["naive"]["int8_ap"], 0.5, "the network was to collapse")
        self.assertEqual(result["layers_in_float"], ["score"])
        self.assertGreater(result["held_out"]["int8_ap"], 0.99)
        self.assertGreater(result["share_by_others"]["int8_ap"], 0.99)
        self.assertTrue(result["bound_kept"])
        self.assertEqual(len(result["warnings"]), 1)
        self.assertIn("24 pictures are few", result["warnings"][0])
        self.assertGreater(result["all"]["int8_ap"], 0.99)
        self.assertEqual(result["sensitivity"][0]["layer"], "score")
        self.assertIn("unseen pictures (all folds as one set)", said)
        self.assertIn("Promise: at most ", said)
        self.assertIn("is not the mean of the folds", said)
        self.assertNotIn("Speed: ", said, "only the CPU's kernels are measured here")
        written = onnx.load(out)
        onnx.checker.check_model(written)
        self.assertEqual(qdq.faults(written, "tensorrt"), [])
        self.assertEqual((graph.opset_of(written), len(written.graph.input)), (13, 1))
        # Q and DQ: of the picture, of the tensor that `distance` reads, of two weights. The weights are still FP32.
        kinds = [node.op_type for node in written.graph.node]
        self.assertEqual((kinds.count("QuantizeLinear"), kinds.count("DequantizeLinear")), (4, 4))
        self.assertNotIn("BatchNormalization", kinds)
        arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in written.graph.initializer}
        cells = next(node for node in written.graph.node if node.name == "cells")
        dequantize = next(node for node in written.graph.node if cells.input[1] in node.output)
        self.assertEqual(arrays[dequantize.input[1]].shape, (6,), "a scale for each output channel")
        self.assertEqual(arrays[cells.input[2]].dtype, np.float32)
        with open(os.path.join(folder.model, "model.yaml"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("# A comment that stays.", text)
        files = yaml.safe_load(text)["files"]
        with open(out, "rb") as file:
            self.assertEqual(files["int8"], {"file": "int8.onnx", "sha256": report.sha256(file.read())})
        self.assertEqual(list(files), ["fp32", "int8"])
        with open(cache, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], "TRT-8502-EntropyCalibration2")
        scales = {name: struct.unpack(">f", bytes.fromhex(bits))[0] for name, bits in (line.split(": ") for line in lines[1:])}
        self.assertAlmostEqual(scales["scores"], 1 / 127, delta=2e-4)
        self.assertIn("sums", scales, "tensors of the float file, which folding takes away")

    def test_eight_bits_for_the_cpu_keep_the_accuracy(self):
        folder = self.folder()
        out = os.path.join(folder.path, "cpu.onnx")
        code, said, err = folder.run("--out", out, "--target", "cpu", "--opset", "15", "--method", "minmax", "--quiet")
        self.assertEqual(code, 0, err)
        self.assertRegex(said, r"Speed: (float|INT8) is faster on this machine \(one thread: [0-9.]+ ms in float, [0-9.]+ ms in INT8")
        written = onnx.load(out)
        self.assertEqual(qdq.faults(written, "cpu"), [])
        arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in written.graph.initializer}
        self.assertTrue(any(array.dtype == np.uint8 for array in arrays.values()))
        self.assertTrue(any(array.dtype == np.int32 for array in arrays.values()))
        names = {entry.name for entry in written.graph.output}
        self.assertEqual(names, {"scores", "boxes"})

    def test_a_budget_that_cannot_be_kept_writes_nothing_and_names_the_culprits(self):
        folder = self.folder(ruined="both", scale="[1, 1, 100000.0]")
        out = os.path.join(folder.path, "int8.onnx")
        code, said, err = folder.run("--out", out, "--quiet")
        self.assertEqual(code, 1, err)
        self.assertIn("no choice loses at most 1 points", err)
        self.assertIn("cells", said)
        self.assertFalse(os.path.exists(out))

    def test_layouts_are_those_of_the_daemon(self):
        folder = self.folder(layout="detectnet_v2", ruined="score")
        code, _, err = folder.run("--out", os.path.join(folder.path, "int8.onnx"), "--method", "minmax", "--quiet")
        self.assertEqual(code, 0, err)
        with open(os.path.join(folder.path, "int8.report.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertAlmostEqual(result["naive"]["float_ap"], 1.0, places=3)
        self.assertEqual(result["layers_in_float"], ["score"])

    def test_without_annotations_the_float_network_is_the_teacher(self):
        for layout in ("fcos", "softmax"):
            folder = self.folder(layout=layout)
            code, said, err = folder.run("--out", os.path.join(folder.path, "int8.onnx"), "--method", "minmax", labelled=False)
            self.assertEqual(code, 0, err)
            self.assertIn("Agreement: the AP of the INT8 network when the float network's boxes", said)
            with open(os.path.join(folder.path, "int8.report.json"), encoding="utf-8") as file:
                result = json.load(file)
            self.assertAlmostEqual(result["held_out"]["float_ap"], 1.0)
            self.assertGreater(result["held_out"]["int8_ap"], 0.95)
            self.assertEqual(result["settings"]["budget"], quantize.AGREEMENT_BUDGET)

    def test_pictures_that_cannot_be_read_are_left_out_without_annotations_only(self):
        folder = self.folder()
        with open(os.path.join(folder.path, "00.png"), "w", encoding="utf-8") as file:
            file.write("no picture")
        out = os.path.join(folder.path, "int8.onnx")
        code, _, err = folder.run("--out", out)
        self.assertEqual(code, 2)
        self.assertIn("00.png, which", err)
        code, _, err = folder.run("--out", out, "--method", "minmax", labelled=False)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, "left out .*00.png: ")

    def test_what_is_wrong_is_said(self):
        folder = self.folder()
        out = os.path.join(folder.path, "int8.onnx")
        of_bytes = self.folder(element="uint8")
        classifier = self.folder(layout="softmax")
        empty = tempfile.TemporaryDirectory()
        self.addCleanup(empty.cleanup)
        broken = self.folder()
        with open(os.path.join(broken.model, "model.yaml"), "a", encoding="utf-8") as file:
            file.write("color: blue\n")
        nothing = ["--out", out, "--images", folder.path]
        cases = [
            (folder.run("--out", out, "--method", "guess"), "--method is guess, expected minmax"),
            (folder.run("--out", out, "--folds", "1"), "--folds is 1, expected 2 or more"),
            (folder.run("--out", out, "--budget", "0"), "--budget is 0.0, expected points above 0"),
            (folder.run("--out", out, "--precision", "int4"), "has no precision `int4` (it has fp32)"),
            (folder.run("--out", out, "--limit", "3"), "has 3 pictures, expected at least 4"),
            (folder.run("--out", out, "--update-model-yaml"), "--update-model-yaml names files of"),
            (folder.run("--out", out, "--pictures", folder.path), "--pictures is given with --images or --annotations"),
            (folder.run(*nothing, labelled=False), "--pictures is given with --images or --annotations"),
            (folder.run("--out", out, "--jetwatch", "/nowhere/jetwatch"), "--jetwatch is /nowhere/jetwatch, which is no program"),
            (folder.run("--out", out, "--pictures", empty.name, labelled=False), "`jetwatch calibrate --source URI --out"),
            (of_bytes.run("--out", out), "input.type is uint8, but the network takes tensor(float)"),
            (classifier.run("--out", out), "is a classifier, of which no boxes are known: use --pictures"),
            (broken.run("--out", out), "color"),
        ]
        for (code, _, err), text in cases:
            self.assertEqual(code, 2, err)
            self.assertIn(text, err)


class Parts(WithFolders):
    def judge(self, folder, target="tensorrt"):
        served = daemon.Daemon(folder.model)
        self.addCleanup(served.__exit__)
        folded, _, _ = graph.prepare(served.spec.file("fp32"), 13, served.spec)
        settings = search.Settings(("minmax",), target, 1.0, 0.01, 0.45, True, 8, 1, 2)
        quiet = lambda *_: None  # noqa: E731
        judge = search.Judge(folded, graph.layers(folded), served, settings, quiet, quiet)
        return judge, pictures.load(served, folder.path, folder.annotations, folder.path)

    def test_extremes_are_those_of_onnxruntime(self):
        from onnxruntime.quantization.calibrate import CalibrationDataReader, MinMaxCalibrater

        folder = self.folder()
        judge, some = self.judge(folder)
        names = ["images", "bright", "logits"]
        own = calibration.Histograms.collect(judge.float_network, names, some[:8], lambda *_: None)

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.rest = iter(some[:8])

            def get_next(self):
                picture = next(self.rest, None)
                return None if picture is None else pictures.feed(picture, judge.spec)

        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "net.onnx")
            onnx.save(judge.float_network.model, path)
            peer = MinMaxCalibrater(path, augmented_model_path=os.path.join(work, "augmented.onnx"))
            peer.augment_graph()
            peer.create_inference_session()
            peer.collect_data(Reader())
            theirs = peer.compute_data()
        for name in names:
            low, high = (float(np.asarray(v).ravel()[0]) for v in theirs[name].range_value)
            ours = own.range_of(name, "minmax", False)
            np.testing.assert_allclose(ours, (min(low, 0.0), max(high, 0.0)), rtol=1e-5, atol=1e-6)

    def test_zeros_in_front_of_a_max_pool_count(self):
        """YOLOv3-tiny of ultralytics (microsoft/onnxruntime#18136)."""
        nodes = [
            helper.make_node("Neg", ["images"], ["negative"]),
            helper.make_node("Pad", ["negative", "pads"], ["padded"]),
            helper.make_node("MaxPool", ["padded"], ["pooled"], kernel_shape=[1, 2]),
        ]
        pads = numpy_helper.from_array(np.array([0, 0, 0, 0, 0, 0, 0, 1]), "pads")
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 1, 3]) for name in ("images", "pooled")]
        model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], [pads]), opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        for made in (model, graph._fold(model, "net.onnx")):
            (found,) = network.session(made, 1).run(None, {"images": np.array([[[[3, 2, 1]]]], np.float32)})
            self.assertEqual(found.ravel().tolist(), [-2, -1, 0])

    def test_cuts_leave_rare_outliers_out(self):
        rng = np.random.default_rng(1)
        values = np.append(rng.normal(0, 1, 200_000), [60.0, -60.0])
        counts, _ = np.histogram(values, calibration.BINS, (-60, 60))
        histograms = calibration.Histograms({"x": values.min()}, {"x": values.max()}, {"x": counts.astype(float)})
        cuts = {method: histograms.range_of("x", method, True)[1] for method in calibration.METHODS}
        self.assertEqual(cuts["minmax"], 60.0)
        for method in ("percentile", "entropy"):
            self.assertTrue(2.5 < cuts[method] < 7.0, (method, cuts[method]))

        def error(cut):
            scale = cut / 127
            return np.sum((values - np.clip(np.rint(values / scale), -128, 127) * scale) ** 2)

        # No cut on a grid of its own errs less by more than the histogram's bins explain.
        least = min(error(cut) for cut in np.linspace(3, 60, 58))
        self.assertLess(error(cuts["mse"]), 1.02 * least)
        self.assertLess(error(cuts["mse"]), 0.8 * error(cuts["minmax"]))

    def test_what_a_function_hides_costs_no_range(self):
        values = np.append(np.linspace(-50, -10, 10_000), np.linspace(-3, 8, 10_000))
        counts, _ = np.histogram(values, calibration.BINS, (-50, 50))
        histograms = calibration.Histograms({"x": -50.0}, {"x": 8.0}, {"x": counts.astype(float)})
        self.assertLess(histograms.range_of("x", "mse", False)[0], -40)
        low, high = histograms.range_of("x", "mse", False, calibration.silu)
        self.assertTrue(-25 < low < -3 and 7.5 < high <= 8.0, (low, high))

    def test_a_bias_takes_back_the_mean_error(self):
        folder = self.folder()
        judge, some = self.judge(folder)
        ranges = {"images": (-255.0, 255.0), "bright": (-0.6, 0.6)}  # Clips what is bright: the mean is off.
        own = errors.measure(judge.float_network, judge.writer, ranges, some[:8], lambda *_: None)
        self.assertLess(own["score"][0].min(), -0.01)
        corrected = judge.writer.write(["score"], ranges, {"score": own["score"][0]})
        plain = judge.writer.write(["score"], ranges)
        means = {}
        for name, model in (("float", judge.float_network.model), ("plain", plain), ("corrected", corrected)):
            probe = network.Network(model, judge.daemon, 1).probe(["logits"])
            means[name] = np.mean([probe(picture)["logits"].mean((0, 2, 3)) for picture in some[:8]], 0)
        self.assertGreater(np.abs(means["plain"] - means["float"]).max(), 0.01)
        np.testing.assert_allclose(means["corrected"], means["float"], atol=1e-4)

    def test_a_loud_channel_spoils_its_maker_where_outputs_are_rounded(self):
        folder = self.folder(ruined="score")
        squares = {}
        for target in ("tensorrt", "cpu"):
            judge, some = self.judge(folder, target)
            names = judge.writer.tensors()
            histograms = calibration.Histograms.collect(judge.float_network, names, some[:8], lambda *_: None)
            ranges = histograms.ranges("minmax", judge.writer.symmetric)
            squares[target] = errors.measure(judge.float_network, judge.writer, ranges, some[:8], lambda *_: None)["cells"][1]
        self.assertLess(squares["tensorrt"][:2].max(), 0.01)
        self.assertGreater(squares["cpu"][:2].min(), 0.5)

    def test_faults_are_seen(self):
        folder = self.folder()
        judge, _ = self.judge(folder)
        ranges = {"images": (-255.0, 255.0), "bright": (-1.0, 1.0)}
        names = [layer.name for layer in judge.writer.layers]
        model = judge.writer.write(names, ranges)
        self.assertEqual(qdq.faults(model, "tensorrt"), [])
        cpu = qdq.Writer(judge.float_network.model, judge.writer.layers, "cpu")
        every = {name: (-1.0, 1.0) for name in cpu.tensors()}
        said = " ".join(qdq.faults(cpu.write(names, every), "tensorrt"))
        self.assertIn("zero point other than int8 0", said)
        self.assertIn("the bias of score is computed", said)
        for tensor in model.graph.initializer:
            if tensor.name == "bright_scale":
                tensor.CopyFrom(numpy_helper.from_array(np.float32(0), "bright_scale"))
        self.assertIn("bright_scale is not a positive number", qdq.faults(model, "tensorrt"))

    def test_tensors_and_boxes_are_those_of_the_daemon(self):
        folder = self.folder()
        judge, some = self.judge(folder)
        for picture in some[:4]:
            with Image.open(os.path.join(folder.path, picture.name)) as opened:
                np.testing.assert_array_equal(picture.tensor[0], np.asarray(opened.convert("RGB")).transpose(2, 0, 1))
        found = judge.found_by_float(some[:4])
        for picture, (boxes, scores, classes) in zip(some[:4], found):
            self.assertGreaterEqual(len(boxes), 4)
            best = {tuple(np.rint(box).astype(int)) + (int(name),) for box, name in zip(boxes[:4], classes[:4])}
            truth = {tuple(box.astype(int)) + (int(name),) for box, name in zip(picture.boxes, picture.classes)}
            self.assertEqual(best, truth)
            self.assertTrue((np.diff(scores) <= 0).all())

    def test_drift_compares_places_or_the_nearest_of_a_list(self):
        def records(*rows):
            made = np.zeros(len(rows), daemon.RECORD)
            for place, (cell, name, score, box) in enumerate(rows):
                made[place] = (cell, name, score, box)
            return made

        cells, objects = {"cells": True, "invalid": None}, {"cells": False, "invalid": None}
        box, half = [0, 0, 10, 10], [0, 0, 10, 5]
        float_ones = records((3, 0, 0.9, box), (7, 1, 0.05, box))
        self.assertEqual(network.drift((float_ones, cells), (float_ones, cells)), 0.0)
        moved = records((9, 0, 0.02, half), (3, 0, 0.7, half))
        self.assertAlmostEqual(network.drift((float_ones, cells), (moved, cells)), 0.2 + 0.5, places=6)
        gone = records((7, 1, 0.05, box))
        self.assertAlmostEqual(network.drift((float_ones, cells), (gone, cells)), 0.9 + 1.0, places=6)
        # In a list the row says nothing; a class of its own has no neighbor.
        self.assertAlmostEqual(network.drift((float_ones, objects), (moved, objects)), 0.7, places=6)
        other = records((3, 1, 0.9, box))
        self.assertAlmostEqual(network.drift((float_ones, objects), (other, objects)), (1.9 + 0.85) / 2, places=6)
        self.assertEqual(network.drift((float_ones, cells), (moved, {"cells": True, "invalid": "a number"})), network.BROKEN)

    def test_categories_go_by_name_or_by_order_but_not_by_both(self):
        spec = self.judge(self.folder())[0].spec
        by_name = pictures.classes_of([{"id": 9, "name": "green"}, {"id": 4, "name": "red"}, {"id": 1, "name": "blue"}], spec, "x")
        self.assertEqual(by_name, {4: 0, 9: 1})
        by_order = pictures.classes_of([{"id": 9, "name": "lime"}, {"id": 4, "name": "red"}], spec, "x")
        self.assertEqual(by_order, {4: 0, 9: 1})
        covering = self.judge(self.folder(covers="covers: {green: [lime, olive]}\n"))[0].spec
        categories = [{"id": number, "name": name} for number, name in enumerate(["olive", "blue", "red", "lime", "green"])]
        self.assertEqual(pictures.classes_of(categories, covering, "x"), {0: 1, 2: 0, 3: 1, 4: 1})
        for categories, text in [
            ([{"id": 1, "name": "green"}, {"id": 2, "name": "rouge"}], "category green comes as number 0"),
            ([{"id": 1, "name": "blue"}], "has 1 categories and cells 2 labels"),
        ]:
            with self.assertRaisesRegex(specs.Mistake, text):
                pictures.classes_of(categories, spec, "x")


class Chain:
    """Two convolutions with a function between them, `first` -> `function` -> `second`, and what their inputs are like."""

    def __init__(self, function="Relu", groups=1, kernel=3, loud=1.0):
        rng = np.random.default_rng(5)
        self.groups, self.kernel, channels = groups, kernel, 8
        weights = {
            "first_w": rng.normal(0, 1, (channels, 3, 1, 1)), "first_b": rng.normal(0, 1, channels),
            "second_w": rng.normal(0, 1, (channels, channels // groups, kernel, kernel)), "second_b": rng.normal(0, 1, channels),
        }
        weights["first_w"][0] *= loud
        weights["first_b"][0] *= loud
        if groups == 1:
            weights["second_w"][:, 0] /= loud
        nodes = [helper.make_node("Conv", ["image", "first_w", "first_b"], ["before"], "first")]
        if function == "SiLU":
            nodes += [helper.make_node("Sigmoid", ["before"], ["gate"], "gate"), helper.make_node("Mul", ["before", "gate"], ["between"], "silu")]
        else:
            nodes.append(helper.make_node(function, ["before"], ["between"], "function"))
        nodes.append(
            helper.make_node(
                "Conv", ["between", "second_w", "second_b"], ["out"], "second",
                group=groups, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[2, 1], dilations=[1, 1],
            )
        )
        value = helper.make_tensor_value_info
        made = helper.make_graph(
            nodes, "chain", [value("image", TensorProto.FLOAT, [1, 3, 12, 10])], [value("out", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
        )
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        self.model = onnx.shape_inference.infer_shapes(model)
        # Neighboring places and the colors of an image are alike.
        rough = np.cumsum(np.cumsum(rng.normal(0, 0.3, (16, 1, 12, 10)), 2), 3)
        self.images = [(image + rng.normal(0, 0.3, (3, 12, 10)))[None].astype(np.float32) for image in rough]

    def values(self, model, names, images=None):
        """The tensors `names` for each of the images, as lists by name."""
        session = onnxruntime.InferenceSession(calibration.with_outputs(model, names).SerializeToString(), providers=["CPUExecutionProvider"])
        found = [session.run(names, {"image": image}) for image in images or self.images]
        return {name: [one[place] for one in found] for place, name in enumerate(names)}

    def ranges(self, writer):
        values = self.values(writer.model, [name for name in writer.tensors() if name != "image"])
        values["image"] = self.images
        return {name: (-max(np.abs(v).max() for v in of), max(np.abs(v).max() for v in of)) for name, of in values.items()}

    def error(self, model):
        """Mean squared error of the output relative to its power, channel by channel; their mean."""
        exact, found = (np.concatenate(self.values(given, ["out"])["out"]) for given in (self.model, model))
        return float(np.mean(np.mean((exact - found) ** 2, (0, 2, 3)) / np.mean(exact**2, (0, 2, 3))))

    def equalized(self, constants=True):
        tensors = equalize.tensors(self.model, graph.layers(self.model), constants)
        values = np.concatenate(self.values(self.model, ["between"])["between"])
        statistics = {"between": (np.abs(values).max((0, 2, 3)), np.square(values).mean((0, 2, 3)))}
        return equalize.equalized(self.model, tensors, statistics)


class OfChains(unittest.TestCase):
    """What is done to tensors and weights, on two layers."""

    def test_one_loud_channel_spoils_none_of_the_others(self):
        silu = ["Sigmoid", "Mul"]
        for function, groups, between in (("Relu", 1, ["Relu"]), ("LeakyRelu", 8, ["LeakyRelu"]), ("SiLU", 1, [*silu, "Mul"]), ("SiLU", 8, [*silu, "Mul"])):
            with self.subTest(function=function, groups=groups):
                chain = Chain(function, groups, loud=50.0)
                with mock.patch.object(equalize, "MOST", 64.0):
                    even = chain.equalized()
                self.assertEqual([node.op_type for node in even.graph.node], ["Conv", *between, "Conv"])
                self.assertLess(chain.error(even), 1e-10, "the float network is to compute the same")
                left = {}
                for name, model in (("as it is", chain.model), ("even", even), ("less even", chain.equalized())):
                    writer = qdq.Writer(model, graph.layers(model), "tensorrt")
                    left[name] = chain.error(writer.write(["second"], chain.ranges(writer)))
                self.assertLess(left["even"], 0.05 * left["as it is"])
                self.assertLess(left["less even"], 0.5 * left["as it is"], "quiet channels keep room for other pictures")

    def test_a_tensor_that_others_read_is_made_as_before(self):
        chain = Chain("Relu", loud=50.0)
        chain.model.graph.output.append(helper.make_tensor_value_info("between", TensorProto.FLOAT, None))
        even = chain.equalized()
        self.assertEqual([node.op_type for node in even.graph.node], ["Conv", "Relu", "Mul", "Conv"])
        exact, found = (np.stack(chain.values(model, ["between"])["between"]) for model in (chain.model, even))
        np.testing.assert_array_equal(exact, found)

    def test_without_constants_only_weights_take_factors(self):
        for function, operators in (("SiLU", ["Conv", "Sigmoid", "Mul", "Conv"]), ("Relu", ["Conv", "Relu", "Conv"])):
            chain = Chain(function, loud=50.0)
            even = chain.equalized(constants=False)
            self.assertEqual([node.op_type for node in even.graph.node], operators)
            first = [numpy_helper.to_array(model.graph.initializer[0]) for model in (chain.model, even)]
            self.assertEqual(np.array_equal(*first), function == "SiLU")

    def test_a_product_that_gains_little_is_not_put_in(self):
        even = Chain("SiLU", loud=1.0).equalized()
        self.assertEqual([node.op_type for node in even.graph.node], ["Conv", "Sigmoid", "Mul", "Conv"])

    def test_a_tensor_of_positive_numbers_uses_all_levels(self):
        chain = Chain("Relu", kernel=1)
        writer = qdq.Writer(chain.model, graph.layers(chain.model), "tensorrt")
        low, high = {"image": -1.0, "between": 0.0}, {"image": 1.0, "between": 3.0}
        padded = Chain("Relu", kernel=3)
        of_padded = qdq.Writer(padded.model, graph.layers(padded.model), "tensorrt")
        of_padded.shift(low, high)
        self.assertEqual(of_padded.shifted, set(), "what is padded is 0, which the bias would not give back")
        ranges = chain.ranges(writer)
        plain = chain.error(writer.write(["second"], ranges))
        writer.shift(low, high)
        self.assertEqual(writer.shifted, {"between"})
        ranges["between"] = (0.0, ranges["between"][1])
        model = writer.write(["second"], ranges)
        self.assertEqual(qdq.faults(model, "tensorrt"), [])
        self.assertLess(chain.error(model), 0.6 * plain)

    def test_columns_are_what_a_convolution_multiplies(self):
        for groups in (1, 8):
            chain = Chain("Relu", groups)
            values = chain.values(chain.model, ["between", "out"], chain.images[:1])
            node = next(node for node in chain.model.graph.node if node.name == "second")
            weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in chain.model.graph.initializer}
            columns = rounding.columns(values["between"][0], node, (3, 3))
            made = weights["second_w"].reshape(groups, -1, columns.shape[1]) @ columns
            made = made.reshape(values["out"][0].shape) + weights["second_b"].reshape(1, -1, 1, 1)
            np.testing.assert_allclose(made, values["out"][0], rtol=1e-4, atol=1e-4)

    def test_weights_make_up_for_what_rounding_takes(self):
        for groups in (1, 8):
            with self.subTest(groups=groups):
                chain = Chain("Relu", groups)
                writer = qdq.Writer(chain.model, graph.layers(chain.model), "tensorrt", reduce_range=True)
                writer.highest = 7  # Weights in 4 bits: what is measured here is their error.
                ranges = chain.ranges(writer)
                ranges["between"] = (0.7 * ranges["between"][0], 0.7 * ranges["between"][1])
                layer = next(layer for layer in writer.layers if layer.name == "second")
                moments = rounding._Moments()
                node = next(node for node in chain.model.graph.node if node.name == "second")
                for value in chain.values(chain.model, ["between"])["between"]:
                    quantized = calibration.round_trip(value, *ranges["between"], True)
                    moments.add(*(rounding.columns(given, node, (3, 3)) for given in (value, quantized)))
                weight, off = rounding.rounded(writer, layer, moments)
                self.assertEqual((weight.dtype, weight.shape), (np.int8, writer.weights["second_w"].shape))
                self.assertLessEqual(np.abs(weight).max(), 7)
                nearest = writer.write(["second"], ranges)
                rounded = writer.write(["second"], ranges, {"second": off}, {"second": weight})
                self.assertLess(chain.error(rounded), (0.5 if groups == 1 else 0.8) * chain.error(nearest))
                exact, found = (np.stack(chain.values(model, ["out"])["out"]).mean((0, 1, 3, 4)) for model in (chain.model, rounded))
                np.testing.assert_allclose(found, exact, atol=1e-3 * np.abs(exact).max())


class TheShare(unittest.TestCase):
    """Which share of the multiplications is taken, by what was lost at each, and which layers are in float then."""

    @staticmethod
    def rounds(*losses):
        """Rounds of (points lost, half of the interval's width), highest share first."""
        return [
            {
                "held_out": {"difference_points": -lost, "interval_points": [-lost - half, -lost + half]},
                "written": {"difference_points": 0.0, "interval_points": [-half, half]},
            }
            for lost, half in losses
        ]

    def test_the_first_whose_lower_ends_keep_the_budget_is_taken(self):
        rounds = self.rounds((0.5, 0.8), (0.2, 0.7), (0.0, 0.1))
        self.assertIs(search.taken(rounds, 1.0), rounds[1])
        self.assertAlmostEqual(search.lower_end(rounds[1]["held_out"], rounds[1]["written"]), 0.9)

    def test_without_a_bound_the_smallest_promise_is_taken(self):
        rounds = self.rounds((0.8, 2.0), (0.4, 1.5), (0.1, 2.0))
        self.assertIs(search.taken(rounds, 1.0), rounds[1])

    def test_small_layers_go_to_float_before_large_ones_that_drift_more(self):
        macs = {"large": 900, "small": 10, "tiny": 10, "rest": 80}
        drifts = {"large": 0.04, "small": 0.02, "tiny": 0.001, "rest": 0.03}
        self.assertEqual(search.worth_of_float(drifts, macs), ["small", "rest", "large", "tiny"])
        for share, floats in ((0.995, ()), (0.985, ("small",)), (0.89, ("small", "rest", "tiny")), (0.0, ("small", "rest", "large", "tiny"))):
            self.assertEqual(search.floats_for(share, drifts, macs), floats)


class Precision(unittest.TestCase):
    """Average precision against what can be counted by hand, and against COCO's own code where it is installed."""

    def picture(self, name, boxes, classes, crowd=None):
        boxes = np.array(boxes, float).reshape(-1, 4)
        crowd = np.zeros(len(boxes), bool) if crowd is None else np.array(crowd, bool)
        return pictures.Picture(name, 100, 100, boxes, np.array(classes, int), crowd, None)

    def test_by_hand(self):
        truth = self.picture("a", [[0, 0, 10, 10], [50, 50, 60, 60]], [0, 0])
        right = np.array([[0, 0, 10, 10.0]])
        one = accuracy.Matches([(right, np.array([0.9]), np.array([0]))], [truth], 2)
        self.assertAlmostEqual(one.average_precision(), 51 / 101)  # Recall points 0 to 0.50.
        both = np.array([[80, 80, 90, 90.0], [0, 0, 10, 10], [50, 50, 60, 60]])
        wrong_first = accuracy.Matches([(both, np.array([0.9, 0.8, 0.7]), np.zeros(3, int))], [truth], 2)
        self.assertAlmostEqual(wrong_first.average_precision(), 2 / 3)
        half = np.array([[0, 0, 10, 6.6]])  # IOU 0.66: four of ten levels.
        partly = accuracy.Matches([(half, np.array([0.9]), np.array([0]))], [truth], 2)
        self.assertAlmostEqual(partly.average_precision(), 0.4 * 51 / 101)
        low, high = accuracy.interval(one, wrong_first, 50, 1)
        self.assertAlmostEqual(low, high)  # One picture: every draw is the same.

    def test_as_pycocotools(self):
        try:
            from pycocotools.coco import COCO
            from pycocotools.cocoeval import COCOeval
        except ImportError:
            self.skipTest("pycocotools is not installed")
        rng = np.random.default_rng(5)
        some, found, images, truths, results = [], [], [], [], []
        for index in range(30):
            count = int(rng.integers(0, 9))
            corner = rng.uniform(0, 60, (count, 2))
            boxes = np.concatenate([corner, corner + rng.uniform(5, 40, (count, 2))], 1)
            classes, crowd = rng.integers(0, 4, count), rng.random(count) < 0.1
            some.append(self.picture(str(index), boxes, classes, crowd))
            guesses = np.concatenate([boxes + rng.normal(0, 0.8, boxes.shape), rng.uniform(0, 40, (5, 4)) + [0, 0, 45, 45]])
            names = np.concatenate([classes, rng.integers(0, 4, 5)])
            scores = rng.random(len(guesses))
            order = np.argsort(-scores)
            found.append((guesses[order], scores[order], names[order]))
            images.append({"id": index})
            for box, name, many in zip(boxes, classes, crowd):
                xywh = [*box[:2], *(box[2:] - box[:2])]
                truths.append({"id": len(truths) + 1, "image_id": index, "category_id": int(name), "bbox": xywh,
                               "area": xywh[2] * xywh[3], "iscrowd": int(many)})
            for box, score, name in zip(guesses, scores, names):
                results.append({"image_id": index, "category_id": int(name), "score": float(score),
                                "bbox": [*box[:2], *(box[2:] - box[:2])]})
        matches = accuracy.Matches(found, some, 4)
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO()
            coco.dataset = {"images": images, "annotations": truths, "categories": [{"id": n} for n in range(4)], "info": {}}
            coco.createIndex()
            judge = COCOeval(coco, coco.loadRes(results), "bbox")
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
        self.assertTrue(0.1 < judge.stats[0] < 0.95, judge.stats[0])
        self.assertAlmostEqual(matches.average_precision(), judge.stats[0], places=6)
        self.assertAlmostEqual(matches.average_precision(iou=0), judge.stats[1], places=6)


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(3)
    unittest.main(verbosity=2)
