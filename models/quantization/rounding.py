# SPDX-License-Identifier: Apache-2.0
"""Weights rounded for what they read: of each convolution the 8-bit weights with which it gives, from rounded inputs, most nearly
what the float weights give.

They are rounded one input at a time; what a weight loses, the weights of the inputs still to come take over, as far as these are
correlated (Frantar et al., "Optimal Brain Compression", 2022, in the order and with the Cholesky factor of "GPTQ", 2022). The
bias takes the mean that remains, of the inputs' rounding too. Only the layer's own error counts, so that all layers are done at
once and each may go back to float."""
import numpy as np

from . import calibration, graph

# Share of the mean power of the inputs by which the second moments are widened: as much is not known of pictures to come.
UNKNOWN = 0.1
# Places of a tensor that are read in each picture: neighbors are alike.
PLACES = 512


class _Moments:
    """Sums over places of one layer's inputs, exact (x) and rounded (r): [groups, k], and [groups, k, k]."""

    def __init__(self):
        self.count, self.x, self.r, self.rr = 0, np.float64(0), np.float64(0), np.float64(0)

    def add(self, exact, rounded):
        """Both [groups, k, places]."""
        self.count += exact.shape[2]
        self.x = self.x + exact.sum(2, dtype=np.float64)
        self.r = self.r + rounded.sum(2, dtype=np.float64)
        self.rr = self.rr + rounded @ rounded.transpose(0, 2, 1)

    def centered(self):
        """(mean of x, mean of r, covariance of r)."""
        x, r = self.x / self.count, self.r / self.count
        return x, r, self.rr / self.count - r[:, :, None] * r[:, None]


def columns(value, node, kernel):
    """The inputs of a convolution for some places of its output, at most about PLACES: `value` [1, channels, height, width] as
    [groups, channels of a group * kernel, places]."""
    height, width = kernel
    groups = graph.attribute(node, "group", 1)
    top, left, bottom, right = graph.attribute(node, "pads", [0, 0, 0, 0])
    down, across = graph.attribute(node, "strides", [1, 1])
    apart_down, apart_across = graph.attribute(node, "dilations", [1, 1])
    padded = np.pad(value[0], ((0, 0), (top, bottom), (left, right)))
    rows, places = (height - 1) * apart_down + 1, (width - 1) * apart_across + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (rows, places), (1, 2))
    windows = windows[:, ::down, ::across, ::apart_down, ::apart_across]
    apart = int(np.ceil(np.sqrt(windows.shape[1] * windows.shape[2] / PLACES)))
    windows = windows[:, ::apart, ::apart]
    channels, y, x = windows.shape[:3]
    return windows.transpose(0, 3, 4, 1, 2).reshape(groups, channels // groups * height * width, y * x)


def layers_of(writer):
    """The layers that this rounds: convolutions on pictures, whose bias is constant and whose weight no other layer reads."""
    nodes = {node.name: node for node in writer.model.graph.node}
    read = [layer.weight for layer in writer.layers]
    return [
        layer
        for layer in writer.layers
        if layer.kind == "Conv"
        and read.count(layer.weight) == 1
        and len(writer.shapes.get(layer.inputs[0], ())) == 4
        and graph.attribute(nodes[layer.name], "auto_pad", b"NOTSET") == b"NOTSET"
        and all(name in writer.weights for name in nodes[layer.name].input[2:])
    ]


def measure(network, writer, ranges, pictures, progress):
    """Layer name -> _Moments of its inputs over `pictures`; `ranges`: tensor -> (low, high)."""
    nodes = {node.name: node for node in writer.model.graph.node}
    layers = layers_of(writer)
    probe = network.probe(list(dict.fromkeys(layer.inputs[0] for layer in layers)))
    found = {layer.name: _Moments() for layer in layers}
    for index, picture in enumerate(pictures):
        values = probe(picture)
        for layer in layers:
            exact = np.asarray(values[layer.inputs[0]], np.float32)
            rounded = calibration.round_trip(exact, *ranges[layer.inputs[0]], writer.symmetric(layer.inputs[0]))
            kernel = writer.weights[layer.weight].shape[2:]
            found[layer.name].add(*(columns(value, nodes[layer.name], kernel) for value in (exact, rounded)))
        progress("inputs of single layers", index + 1, len(pictures))
    return found


def rounded(writer, layer, moments):
    """(weight in 8 bits, int8; what the bias takes back for each output channel)."""
    weight = writer.weights[layer.weight]
    x, r, rr = moments.centered()
    groups, size = r.shape
    exact = weight.reshape(groups, -1, size).astype(np.float64)
    power = np.maximum(np.trace(rr, axis1=1, axis2=2) / size, 1e-12)
    rr = rr + (UNKNOWN * power)[:, None, None] * np.eye(size)
    scales = writer.weight_scales(layer).astype(np.float64).reshape(groups, -1)
    levels = _levels(exact / scales[:, :, None], rr, writer.highest)
    value = levels * scales[:, :, None]
    off = (value @ r[:, :, None] - exact @ x[:, :, None]).reshape(-1)
    return levels.reshape(weight.shape).astype(np.int8), off


def _levels(weight, moments, highest):
    """`weight` [groups, outputs, k] in whole numbers. Inputs with much power come first: the others take over what is lost."""
    order = np.argsort(-np.diagonal(moments, axis1=1, axis2=2), axis=1, kind="stable")
    weight = np.take_along_axis(weight, order[:, None], 2)
    moments = np.take_along_axis(np.take_along_axis(moments, order[:, None], 2), order[:, :, None], 1)
    # Row i of the upper factor says how the rest makes up for an error of input i.
    factor = np.linalg.cholesky(np.linalg.inv(moments)).transpose(0, 2, 1)
    whole = np.empty_like(weight)
    for place in range(weight.shape[2]):
        whole[:, :, place] = np.clip(np.rint(weight[:, :, place]), -highest, highest)
        error = (weight[:, :, place] - whole[:, :, place]) / factor[:, place, place, None]
        weight[:, :, place + 1 :] -= error[:, :, None] * factor[:, place, None, place + 1 :]
    return np.take_along_axis(whole, np.argsort(order, axis=1)[:, None], 2)
