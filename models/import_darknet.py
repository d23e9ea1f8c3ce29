#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a detector of Darknet into a model folder: YOLOv3, YOLOv3-tiny, YOLOv4, YOLOv4-tiny and networks built like them.

    python3 -m venv venv && venv/bin/pip install -r models/requirements-import.txt
    venv/bin/python models/import_darknet.py yolov4-tiny.cfg yolov4-tiny.weights --names coco.names -o models/yolov4-tiny

Batch normalization is folded into the convolutions; each [yolo] layer becomes an output. Sections and keys that change what a
network computes and that are not known here are errors.
"""
import argparse
import hashlib
import os
import re
import struct

from importing import Mistake, Network, np, quoted, read, run, write_folder

INPUT = "images"
LONGEST = 65_536  # of lengths in the .cfg file
MOST_CHANNELS = 1 << 20
LONGEST_SIDE = 8192  # of the input and of anchors, in pixels, as model.yaml takes them
STRIDES = (2, 4, 8, 16, 32, 64, 128, 256)
EPSILON = 1e-5  # added to the variance in batch normalization

# The keys of each section; no others may be given.
KEYS = {
    "convolutional": "batch_normalize filters size stride stride_x stride_y pad padding groups dilation activation stopbackward "
                     "dont_update burnin_update train_only_bn",
    "maxpool": "size stride stride_x stride_y padding maxpool_depth out_channels antialiasing",
    "route": "layers groups group_id stopbackward",
    "shortcut": "from activation weights_type weights_normalization",
    "upsample": "stride scale",
}
# Keys of which one value is supported.
FIXED = {
    "maxpool": {"maxpool_depth": "0", "antialiasing": "0"},
    "shortcut": {"weights_type": "none", "weights_normalization": "none"},
    "upsample": {"scale": "1"},
    "yolo": {"new_coords": "0"},
}
OTHER_NAMES = {"conv": "convolutional", "max": "maxpool", "network": "net"}
SUPPORTED = "[convolutional], [maxpool], [route], [shortcut], [upsample], [dropout], [yolo]"
# Mish is x · tanh(ln(1 + eˣ)): an operator of its own comes with a later operator set only.
ACTIVATIONS = {
    "linear": (), "leaky": ("LeakyRelu",), "relu": ("Relu",), "logistic": ("Sigmoid",), "swish": ("Sigmoid", "Mul"),
    "mish": ("Softplus", "Tanh", "Mul"),
}
FORMS = {"a whole number": (r"[+-]?\d{1,18}", int), "a number": (r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", float)}


class Section:
    """The settings of the network, or a layer."""

    def __init__(self, path, line, name):
        self.path, self.line, self.name = path, line, OTHER_NAMES.get(name, name)
        self.options = {}  # key: (text, line)

    def mistake(self, reason, key=None):
        """An error at the line of a key, or of the section where it is missing."""
        line = self.options[key][1] if key in self.options else self.line
        return Mistake(f"{self.path}:{line}: {reason}")

    def parsed(self, key, text, form):
        pattern, kind = FORMS[form]
        if not re.fullmatch(pattern, text, re.ASCII):
            raise self.mistake(f"{key} of [{self.name}]: found `{text}`, expected {form}", key)
        return kind(text)

    def number(self, key, default, low, high, form="a number"):
        if key not in self.options:
            return default
        value = self.parsed(key, self.options[key][0], form)
        if not low <= value <= high:
            raise self.mistake(f"{key} of [{self.name}]: found {value:g}, expected {low} to {high}", key)
        return value

    def whole(self, key, default, low=0, high=LONGEST):
        return self.number(key, default, low, high, "a whole number")

    def items(self, key, form):
        """What commas separate. The published files end some lists with a comma."""
        items = (item.strip() for item in self.options.get(key, ("",))[0].split(","))
        return [self.parsed(key, item, form) for item in items if item]

    def check(self):
        """Fails where a key might change what the layer computes."""
        known = KEYS.get(self.name, " ".join(self.options)).split()
        for key, (text, _) in self.options.items():
            if key not in known:
                raise self.mistake(f"unknown key {key} in [{self.name}]; known here: {', '.join(known)}", key)
            expected = FIXED.get(self.name, {}).get(key, text)
            if text != expected:
                raise self.mistake(f"{key}={text} of [{self.name}] is not supported, expected {expected}", key)


def sections(path, text):
    """The sections in their order. What follows `#` or `;` is a comment."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        line = re.split("[#;]", line)[0].strip()
        key, equals, value = (part.strip() for part in line.partition("="))
        if line.startswith("[") and line.endswith("]"):
            found.append(Section(path, number, line[1:-1].strip()))
        elif line and (line.startswith("[") or not equals):
            raise Mistake(f"{path}:{number}: found `{line}`, expected key=value or a section such as [net]")
        elif line and not found:
            raise Mistake(f"{path}:{number}: found `{line}` before the first section, expected [net]")
        elif line:
            found[-1].options.setdefault(key, (value, number))
    if not found or found[0].name != "net":
        what = f"{found[0].line}: found [{found[0].name}] as the first section" if found else "1: found no section"
        raise Mistake(f"{path}:{what}, expected [net]")
    return found


class Weights:
    """A .weights file: a header, then the numbers of the layers one after the other."""

    def __init__(self, path):
        self.path, self.data = path, read(path)
        major, minor = struct.unpack_from("<2i", self.data) if len(self.data) >= 8 else (0, 0)
        if not (0 <= major < 1000 and 0 <= minor < 1000):
            raise Mistake(f"{path}: found version {major}.{minor} in its first 8 bytes, expected a .weights file of Darknet, such as version 0.2")
        # Behind three numbers for the version, the number of images seen in training: 64 bits from version 0.2 on.
        self.at = 20 if major * 10 + minor >= 2 else 16
        if len(self.data) < self.at:
            raise Mistake(f"{path}: found {len(self.data)} bytes, expected a file of Darknet, which begins with a header of 16 or 20 bytes")

    def take(self, count, layer):
        """The next numbers, of a layer."""
        missing = 4 * count - (len(self.data) - self.at)
        if missing > 0:
            raise Mistake(
                f"{self.path}: it ends after {len(self.data)} bytes, in {layer}: {missing} bytes are missing for {count} numbers; "
                "the file is cut off, or belongs to another .cfg"
            )
        numbers = np.frombuffer(self.data, "<f4", count, self.at)
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if len(wrong):
            raise Mistake(
                f"{self.path}: found {numbers[wrong[0]]} at byte {self.at + 4 * wrong[0]}, in {layer}, expected finite numbers; "
                "the file is damaged, or belongs to another .cfg"
            )
        self.at += 4 * count
        return numbers

    def finish(self):
        left = len(self.data) - self.at
        if left:
            raise Mistake(f"{self.path}: {left} bytes are left after the last layer, of {len(self.data)}; the file belongs to another .cfg")


class Importer:
    """Adds the layers to a network. A shape is (channels, height, width)."""

    def __init__(self, cfg, weights):
        net, *layers = sections(cfg, read(cfg).decode(errors="replace"))
        self.width, self.height = (net.whole(key, 416, 1, LONGEST_SIDE) for key in ("width", "height"))
        channels = net.whole("channels", 3)
        if channels != 3:
            raise net.mistake(f"found channels={channels}, expected 3: images have three planes", "channels")
        self.letter_box = net.whole("letter_box", 0) != 0
        self.weights = Weights(weights)
        self.network = Network(INPUT, self.width, self.height)
        self.results = []  # (name, shape) of each layer; no name of [yolo], whose result no other layer may read
        self.grids = []  # (name, stride, anchors, scale_x_y)
        self.classes = None
        for section in layers:
            if section.name not in KEYS and section.name not in ("dropout", "yolo"):
                raise section.mistake(f"section [{section.name}] is not supported; known are {SUPPORTED}")
            section.check()
            before = () if section.name == "route" else self.previous(section)
            name, shape = getattr(self, section.name)(section, *before)
            if shape[0] > MOST_CHANNELS:
                raise section.mistake(f"[{section.name}] gives {shape[0]} channels, expected at most {MOST_CHANNELS}")
            self.results.append((name, shape))
        self.weights.finish()
        if not self.grids:
            raise net.mistake("found no [yolo] layer, expected a detector of the kind of YOLOv3 or YOLOv4")

    def tensor(self, part):
        """Name of a tensor of the next layer."""
        return f"layer_{len(self.results)}.{part}"

    def previous(self, section):
        return self.result(section, len(self.results) - 1) if self.results else (INPUT, self.network.input_shape)

    def result(self, section, index, key=None):
        name, shape = self.results[index]
        if name is None:
            reason = f"[{section.name}] reads the result of the [yolo] layer {index}, expected a [route] to a layer before it"
            raise section.mistake(reason, key)
        return name, shape

    def listed(self, section, key):
        """The results of the layers that a key lists: numbers from 0 on, or negative ones, which count from this layer."""
        numbers, here = section.items(key, "a whole number"), len(self.results)
        if not numbers:
            raise section.mistake(f"[{section.name}] has no {key}, expected numbers of layers", key)
        for number in numbers:
            if not -here <= number < here:
                raise section.mistake(f"{key} of [{section.name}]: found {number} in layer {here}, expected a layer before it", key)
        return [self.result(section, number % here, key) for number in numbers]

    def strides(self, section):
        both = section.whole("stride", 1, 1)
        return [section.whole("stride_y", both, 1), section.whole("stride_x", both, 1)]

    def sides(self, section, shape, padding, reach, strides):
        """Height and width of what windows give that reach over so many cells."""
        sides = [(side + padding - reach) // stride + 1 for side, stride in zip(shape[1:], strides)]
        if min(sides) < 1:
            size = section.options.get("size", ("1",))[0]
            raise section.mistake(f"[{section.name}] with size={size} does not fit its input of {shape[2]}×{shape[1]} cells")
        return sides

    def convolutional(self, section, source, shape):
        filters, size, groups, dilation = (section.whole(key, 1, 1) for key in ("filters", "size", "groups", "dilation"))
        strides = self.strides(section)
        pads = dilation * (size // 2 if section.whole("pad", 0) else section.whole("padding", 0))
        if shape[0] % groups or filters % groups:
            reason = f"found groups={groups} with {filters} filters on {shape[0]} channels, expected a divisor of both"
            raise section.mistake(reason, "groups")
        sides = self.sides(section, shape, 2 * pads, (size - 1) * dilation + 1, strides)
        channels = shape[0] // groups
        layer = f"layer {len(self.results)}, [convolutional] in line {section.line} ({filters} filters of {size}×{size} on {channels} channels)"
        bias = self.weights.take(filters, layer)
        normalization = [self.weights.take(filters, layer) for _ in range(3 if section.whole("batch_normalize", 0) else 0)]
        kernel = self.weights.take(filters * channels * size * size, layer).reshape(filters, channels, size, size)
        if normalization:
            # In 64 bits, so that each product is rounded once.
            scales, means, variances = (numbers.astype(np.float64) for numbers in normalization)
            if variances.min() < 0:
                raise Mistake(f"{self.weights.path}: found a variance of {variances.min():g} in {layer}; the file belongs to another .cfg")
            factors = scales / np.sqrt(variances + EPSILON)
            kernel, bias = kernel * factors[:, None, None, None], bias - means * factors
        inputs = [source, self.network.constant(self.tensor("weight"), kernel), self.network.constant(self.tensor("bias"), bias)]
        self.network.node(
            "Conv", inputs, self.tensor("sum"),
            dilations=[dilation] * 2, group=groups, kernel_shape=[size] * 2, pads=[pads] * 4, strides=strides,
        )
        return self.activate(section, self.tensor("sum"), "logistic"), (filters, *sides)

    def activate(self, section, source, default):
        activation = section.options.get("activation", (default,))[0]
        if activation not in ACTIVATIONS:
            raise section.mistake(f"activation={activation} is not supported; known are {', '.join(ACTIVATIONS)}", "activation")
        operators, name = ACTIVATIONS[activation], source
        for operator in operators:
            part = "result" if operator == operators[-1] else "softplus" if operator == "Softplus" else "gate"
            inputs = [source, name] if operator == "Mul" else [name]
            name = self.network.node(operator, inputs, self.tensor(part), **({"alpha": 0.1} if operator == "LeakyRelu" else {}))
        return name

    def maxpool(self, section, source, shape):
        """Windows begin half of `padding`, rounded down, before the image; by default that is one less than the size."""
        strides = self.strides(section)
        size = section.whole("size", strides[1], 1)
        padding = section.whole("padding", size - 1)
        before, after = padding // 2, (padding + 1) // 2
        if after >= size:
            raise section.mistake(f"found padding={padding}, expected less than twice the size, {size}", "padding")
        sides = self.sides(section, shape, padding, size, strides)
        pads = [before, before, after, after]
        name = self.network.node("MaxPool", [source], self.tensor("result"), kernel_shape=[size] * 2, pads=pads, strides=strides)
        return name, (shape[0], *sides)

    def route(self, section):
        """The channels of several layers one behind the other, or of each one group only."""
        inputs = self.listed(section, "layers")
        groups, group = section.whole("groups", 1, 1), section.whole("group_id", 0)
        if group >= groups:
            raise section.mistake(f"found group_id={group}, expected 0 to {groups - 1}", "group_id")
        names, channels, (_, height, width) = [], 0, inputs[0][1]
        for place, (name, shape) in enumerate(inputs):
            if shape[1:] != (height, width):
                raise section.mistake(
                    f"[route] joins results of {width}×{height} and {shape[2]}×{shape[1]} cells, expected equal sizes; width and height of "
                    "[net] must be multiples of the greatest stride, mostly 32", "layers"
                )
            if shape[0] % groups:
                raise section.mistake(f"found groups={groups} for {shape[0]} channels, expected a divisor", "groups")
            count = shape[0] // groups
            channels += count
            if groups > 1:
                part = self.tensor(f"part_{place}")
                bounds = {"from": group * count, "to": (group + 1) * count, "axis": 1}
                bounds = [self.network.constant(f"{part}.{word}", [value], np.int64) for word, value in bounds.items()]
                name = self.network.node("Slice", [name, *bounds], part)
            names.append(name)
        name = names[0] if len(names) == 1 else self.network.node("Concat", names, self.tensor("result"), axis=1)
        return name, (channels, height, width)

    def shortcut(self, section, source, shape):
        """The sum of the layer before and others."""
        for place, (name, other) in enumerate(self.listed(section, "from")):
            if other != shape:
                found, wanted = (f"{channels} channels of {width}×{height} cells" for channels, height, width in (other, shape))
                raise section.mistake(f"[shortcut] adds {found} to {wanted}, expected equal shapes", "from")
            source = self.network.node("Add", [source, name], self.tensor(f"sum_{place}"))
        return self.activate(section, source, "linear"), shape

    def upsample(self, section, source, shape):
        """Repeats each cell."""
        factor = section.whole("stride", 2, 1, 16)
        factors = self.network.constant(self.tensor("factors"), [1, 1, factor, factor])
        name = self.network.node(
            "Resize", [source, "", factors], self.tensor("result"),
            coordinate_transformation_mode="asymmetric", mode="nearest", nearest_mode="floor",
        )
        return name, (shape[0], shape[1] * factor, shape[2] * factor)

    def dropout(self, _, source, shape):
        """Only in training."""
        return source, shape

    def yolo(self, section, source, shape):
        """The result of the layer before becomes an output."""
        classes = section.whole("classes", 20, 1)
        if self.classes not in (None, classes):
            raise section.mistake(f"found classes={classes}, and {self.classes} in the [yolo] layer before it", "classes")
        numbers = section.items("anchors", "a number")
        if not numbers or len(numbers) % 2 or not all(1 <= side <= LONGEST_SIDE for side in numbers):
            raise section.mistake(
                f"anchors of [yolo]: found {len(numbers)} numbers, expected width and height for each anchor, 1 to {LONGEST_SIDE} pixels", "anchors"
            )
        anchors = list(zip(numbers[::2], numbers[1::2]))
        mask = section.items("mask", "a whole number") if "mask" in section.options else list(range(len(anchors)))
        if not mask or not all(0 <= index < len(anchors) for index in mask):
            raise section.mistake(
                f"mask of [yolo]: found {mask}, expected numbers from 0 to {len(anchors) - 1}, one for each anchor of the grid", "mask"
            )
        planes = len(mask) * (5 + classes)
        if shape[0] != planes:
            raise section.mistake(
                f"[yolo] with {len(mask)} anchors and {classes} classes needs {planes} channels, and the layer before it has {shape[0]}: "
                f"its filters must be {planes}"
            )
        stride = self.width // shape[2]
        if stride not in STRIDES or (stride * shape[2], stride * shape[1]) != (self.width, self.height):
            raise section.mistake(
                f"[yolo] has {shape[2]}×{shape[1]} cells over an input of {self.width}×{self.height}, expected a stride that is a power of "
                "two; width and height of [net] must be multiples of the greatest stride, mostly 32"
            )
        name = f"grid_{stride}"
        if name in (grid[0] for grid in self.grids):
            name += f"_{len(self.grids)}"
        self.rename(source, name)
        self.network.outputs.append((name, shape))
        self.grids.append((name, stride, [anchors[index] for index in mask], section.number("scale_x_y", 1.0, 1, 2)))
        self.classes = classes
        return None, shape

    def rename(self, old, new):
        """Gives a tensor the name of an output; one that is an output already, or the input, is copied."""
        if old == INPUT or old in (grid[0] for grid in self.grids):
            self.network.node("Identity", [old], new)
            return
        for node in self.network.nodes:
            node[1] = [new if name == old else name for name in node[1]]
            node[2] = new if node[2] == old else node[2]
        self.results = [(new if name == old else name, shape) for name, shape in self.results]


def class_names(path, classes, cfg):
    """One per line; without a file `class 0` and so on."""
    if path is None:
        return [f"class {number}" for number in range(classes)]
    try:
        names = [line.strip() for line in read(path).decode().split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise Mistake(f"{path}: found a byte at {error.start} that is not UTF-8, expected one name per line in UTF-8") from error
    if len(names) != classes:
        raise Mistake(f"{path}: found {len(names)} names, expected {classes}, the classes of [yolo] in {cfg}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Mistake(f"{path}: found `{twice}` twice, expected names that differ")
    return names


def describe(given, importer, name, onnx_file, digest, labels):
    """The text of model.yaml."""
    def plain(number):
        return np.format_float_positional(np.float32(number), trim="-")

    sources = " and ".join(os.path.basename(path) for path in (given.cfg, given.weights))
    anchors = [f"[{', '.join(plain(side) for pair in pairs for side in pair)}]" for _, _, pairs, _ in importer.grids]
    factors = [plain(factor) for *_, factor in importer.grids]
    # The layouts decode alike, but for the factor of centers beyond their cells, which YOLOv3 has not.
    layout = "yolov3" if set(factors) == {"1"} else "yolov4"
    placement, why = "stretch", "without letter_box=1 in the .cfg file; center keeps the shape of images"
    if importer.letter_box:
        placement, why = "center", "letter_box=1 in the .cfg file"
    quoted_labels = [quoted(label) for label in labels]
    lines = [", ".join(quoted_labels[at : at + 8]) for at in range(0, len(labels), 8)]
    return layout, "\n".join([
        f"# Converted by jetwatch from {''.join(c if c.isprintable() else ' ' for c in sources)}.",
        f"name: {quoted(name)}",
        "input:",
        f"  name: {INPUT}",
        f"  width: {importer.width}",
        f"  height: {importer.height}",
        "  color: rgb",
        "  scale: 0.00392156862745098   # 0..255 becomes 0..1",
        f"  letterbox: {{value: 127, placement: {placement}}}   # {why}",
        "output:",
        f"  layout: {layout}",
        f"  tensors: {{grids: [{', '.join(grid[0] for grid in importer.grids)}]}}",
        f"  anchors: [{', '.join(anchors)}]",
        *([f"  scale_x_y: [{', '.join(factors)}]"] if layout == "yolov4" else []),
        "score_threshold: 0.25",
        "nms_iou: 0.45",
        "# The terms of the weights: an SPDX identifier, and where the file came from. NOASSERTION: not checked.",
        f"license: {{spdx: NOASSERTION, source: {quoted(f'local files {sources}')}}}",
        "files:",
        f"  fp32: {{file: {quoted(onnx_file)}, sha256: {digest}}}",
        *([] if given.names else ["# GUESS: neither file has the names of the classes."]),
        "labels: [\n  " + ",\n  ".join(lines) + "\n  ]\n",
    ])


def main(given):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cfg", metavar="CFG", help="the layers, such as yolov4-tiny.cfg")
    parser.add_argument("weights", metavar="WEIGHTS", help="their numbers, such as yolov4-tiny.weights")
    parser.add_argument("--names", metavar="FILE", help="file with the class names, one per line (default: class 0 and so on)")
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER", help="the model folder")
    parser.add_argument("--force", action="store_true", help="replace files that exist already")
    given = parser.parse_args(given)
    importer = Importer(given.cfg, given.weights)
    labels = class_names(given.names, importer.classes, given.cfg)
    name = os.path.splitext(os.path.basename(given.cfg))[0]
    data = importer.network.file("Darknet", {"converted_from": "Darknet"})
    layout, text = describe(given, importer, name, f"{name}.onnx", hashlib.sha256(data).hexdigest(), labels)
    write_folder(given.out, {f"{name}.onnx": data, "model.yaml": text}, given.force)
    grids = ", ".join(f"{len(anchors)} anchors at stride {stride}" for _, stride, anchors, _ in importer.grids)
    print(f"{given.out}: layout {layout}, input {importer.width}×{importer.height}, {len(labels)} classes, {grids}")
    if not given.names:
        print(f"The files do not name the classes: write labels in {os.path.join(given.out, 'model.yaml')}, or use --names FILE --force.")


if __name__ == "__main__":
    run(main)
