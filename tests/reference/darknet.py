# SPDX-License-Identifier: Apache-2.0
"""Networks of Darknet, and an independent computation of them in numpy; models/import_test.py compares the importer with it.

Networks of the published structures of YOLOv4-tiny and YOLOv3-tiny, and one of the blocks of YOLOv4, get random weights. Their files
are read here by code that shares nothing with the importer, and each layer is computed in float64.
"""
import numpy as np

# Bytes of the published files of weights: the structures below must need as many.
PUBLISHED_BYTES = {"yolov4-tiny": 24_251_276, "yolov3-tiny": 35_434_956}

TINY_ANCHORS = "10,14,  23,27,  37,58,  81,82,  135,169,  344,319"


def net(width, height):
    return f"[net]\nbatch=1\nwidth={width}\nheight={height}\nchannels=3\nlearning_rate=0.001\n"


def conv(filters, size=3, stride=1, activation="leaky", normalize=1, more=""):
    normalize = f"batch_normalize={normalize}\n" if normalize else ""
    return f"[convolutional]\n{normalize}filters={filters}\nsize={size}\nstride={stride}\npad=1\nactivation={activation}\n{more}"


def route(layers, more=""):
    return f"[route]\nlayers = {layers}\n{more}"


def maxpool(size, stride):
    return f"[maxpool]\nsize={size}\nstride={stride}\n"


def shortcut(back):
    return f"[shortcut]\nfrom={back}\nactivation=linear\n"


def yolo(mask, anchors, classes, scale):
    return (
        f"[yolo]\nmask = {mask}\nanchors = {anchors}\nclasses={classes}\nnum=6\njitter=.3\n"
        f"scale_x_y = {scale}\nignore_thresh = .7\n"
    )


UPSAMPLE = "[upsample]\nstride=2\n"


def yolov4_tiny():
    text = net(416, 416) + conv(32, 3, 2) + conv(64, 3, 2)
    for filters in (64, 128, 256):
        text += conv(filters) + route("-1", "groups=2\ngroup_id=1\n") + conv(filters // 2) + conv(filters // 2)
        text += route("-1,-2") + conv(filters, 1) + route("-6,-1") + maxpool(2, 2)
    text += conv(512) + conv(256, 1) + conv(512) + conv(255, 1, 1, "linear", 0)
    text += yolo("3,4,5", TINY_ANCHORS, 80, 1.05)
    text += route("-4") + conv(128, 1) + UPSAMPLE + route("-1, 23") + conv(256) + conv(255, 1, 1, "linear", 0)
    return text + yolo("1,2,3", TINY_ANCHORS, 80, 1.05)


def yolov3_tiny():
    text = net(416, 416)
    for filters in (16, 32, 64, 128, 256):
        text += conv(filters) + maxpool(2, 2)
    text += conv(512) + maxpool(2, 1) + conv(1024) + conv(256, 1) + conv(512) + conv(255, 1, 1, "linear", 0)
    text += yolo("3,4,5", TINY_ANCHORS, 80, 1)
    text += route("-4") + conv(128, 1) + UPSAMPLE + route("-1, 8") + conv(256) + conv(255, 1, 1, "linear", 0)
    return text + yolo("0,1,2", TINY_ANCHORS, 80, 1)


def yolov4_blocks():
    """Mish, residual blocks, partial stages, pooling of several sizes side by side, grouped and dilated convolutions."""
    planes = 2 * (5 + 3)
    anchors = "12,16, 19,36, 40,28, 36,75, 76,55, 72,146"
    text = net(160, 96) + conv(8, 3, 1, "mish")
    for filters in (16, 24, 32, 48, 64):
        half = filters // 2
        text += conv(filters, 3, 2, "mish") + conv(half, 1, 1, "mish") + route("-2") + conv(half, 1, 1, "mish")
        text += conv(half, 1, 1, "mish") + conv(half, 3, 1, "mish") + shortcut(-3)
        text += conv(half, 1, 1, "mish") + route("-1,-6") + conv(filters, 1, 1, "mish")
    text += conv(32, 1) + maxpool(5, 1) + route("-2") + maxpool(9, 1) + route("-4") + maxpool(13, 1)
    text += route("-1,-3,-5,-6") + conv(48, 1, 1, "swish") + conv(48, 3, 1, "leaky", 1, "groups=4\n")
    text += conv(planes, 1, 1, "linear", 0) + yolo("4,5", anchors, 3, 1.05)
    text += route("-3") + conv(32, 3, 1, "leaky", 1, "dilation=2\n") + UPSAMPLE + route("-1,40")
    text += conv(32, 3, 1, "logistic") + conv(planes, 1, 1, "linear", 0) + yolo("2,3", anchors, 3, 1.1)
    text += route("-3") + conv(24, 1, 1, "relu") + UPSAMPLE + route("-1,30") + conv(24)
    return text + conv(planes, 1, 1, "linear", 0) + yolo("0,1", anchors, 3, 1.2)


NETWORKS = {"yolov4-tiny": yolov4_tiny, "yolov3-tiny": yolov3_tiny, "yolov4-blocks": yolov4_blocks}


def sections(text):
    found = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif line:
            key, value = line.split("=")
            found[-1][1][key.strip()] = value.strip()
    return found


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "linear": lambda x: x,
    "leaky": lambda x: np.where(x > 0, x, 0.1 * x),
    "relu": lambda x: np.maximum(x, 0),
    "logistic": sigmoid,
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
}


def windows(image, size, stride, dilation, rows, columns):
    """[channels, size, size, rows, columns]: what each place of a window sees."""
    parts = [
        [
            image[:, y * dilation :: stride, x * dilation :: stride][:, :rows, :columns]
            for x in range(size)
        ]
        for y in range(size)
    ]
    return np.stack([np.stack(row, 1) for row in parts], 1)


class Weights:
    """Draws the numbers of the layers, and keeps them as the file has them."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.parts = []

    def draw(self, count, low, high):
        numbers = self.random.uniform(low, high, count).astype(np.float32)
        self.parts.append(numbers)
        return numbers.astype(np.float64)

    def file(self):
        header = np.array([0, 2, 5], "<i4").tobytes() + np.array([32013312], "<u8").tobytes()
        return header + b"".join(part.astype("<f4").tobytes() for part in self.parts)


def convolve(section, image, weights):
    get = lambda key, default: int(section.get(key, default))
    filters, size, stride = get("filters", 1), get("size", 1), get("stride", 1)
    groups, dilation = get("groups", 1), get("dilation", 1)
    pad = size // 2 if get("pad", 0) else get("padding", 0)
    channels = image.shape[0] // groups
    biases = weights.draw(filters, -0.2, 0.2)
    normalize = get("batch_normalize", 0)
    if normalize:
        scales, means = weights.draw(filters, 0.8, 1.2), weights.draw(filters, -0.2, 0.2)
        variances = weights.draw(filters, 0.5, 1.5)
    # So that the sums keep a standard deviation of about 1.
    reach = np.sqrt(4.5 / (channels * size * size))
    kernel = weights.draw(filters * channels * size * size, -reach, reach)
    kernel = kernel.reshape(filters, channels * size * size)
    pad *= dilation
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)))
    rows = (padded.shape[1] - dilation * (size - 1) - 1) // stride + 1
    columns = (padded.shape[2] - dilation * (size - 1) - 1) // stride + 1
    seen = windows(padded, size, stride, dilation, rows, columns)
    per_group = filters // groups
    sums = [
        kernel[group * per_group : (group + 1) * per_group]
        @ seen[group * channels : (group + 1) * channels].reshape(-1, rows * columns)
        for group in range(groups)
    ]
    result = np.concatenate(sums).reshape(filters, rows, columns)
    column = lambda numbers: numbers[:, None, None]
    if normalize:
        result = (result - column(means)) / np.sqrt(column(variances) + 1e-5) * column(scales)
    return ACTIVATIONS[section.get("activation", "logistic")](result + column(biases))


def pool(section, image):
    stride = int(section.get("stride", 1))
    size = int(section.get("size", stride))
    padding = int(section.get("padding", size - 1))
    before = padding // 2
    rows = (image.shape[1] + padding - size) // stride + 1
    columns = (image.shape[2] + padding - size) // stride + 1
    wide = ((0, 0), (before, padding - before + size), (before, padding - before + size))
    padded = np.pad(image, wide, constant_values=-np.inf)
    return windows(padded, size, stride, 1, rows, columns).max((1, 2))


def forward(text, image, weights):
    """The grids, in the order of the file."""
    results, grids = [], []
    for name, section in sections(text)[1:]:
        before = results[-1] if results else image
        at = lambda number: results[number if number >= 0 else len(results) + number]
        if name == "convolutional":
            result = convolve(section, before, weights)
        elif name == "maxpool":
            result = pool(section, before)
        elif name == "upsample":
            factor = int(section["stride"])
            result = before.repeat(factor, 1).repeat(factor, 2)
        elif name == "shortcut":
            result = ACTIVATIONS[section["activation"]](before + at(int(section["from"])))
        elif name == "route":
            parts = [at(int(layer)) for layer in section["layers"].split(",")]
            groups, group = int(section.get("groups", 1)), int(section.get("group_id", 0))
            cut = lambda part: part[len(part) // groups * group : len(part) // groups * (group + 1)]
            result = np.concatenate([cut(part) for part in parts])
        elif name == "dropout":
            result = before
        elif name == "yolo":
            grids.append(before)
            result = before
        else:
            raise AssertionError(name)
        results.append(result)
    return grids
