# SPDX-License-Identifier: Apache-2.0
"""Channels of one tensor brought to like ranges, so that one scale serves them all: each channel is multiplied by a factor where it
is made and divided by it in the weights that read it (cross-layer equalization: Nagel et al., "Data-Free Quantization Through
Weight Equalization and Bias Correction", 2019). The float network computes the same as before.

Where a convolution makes a tensor and only functions lie between that let a positive factor through (ReLU, LeakyReLU, pooling), the
factors go into its weights. Elsewhere (SiLU, h-swish, concatenation) a product with a constant is put before the readers, where it
takes away most of their error: it costs less than they would in float. How far a tensor is equalized (a power between 0 and 1, as in Xiao et al., "SmoothQuant", 2023) decides the error that
its readers are expected to have."""
import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import graph

# f(s x) = s f(x) for every s > 0, channel by channel.
HOMOGENEOUS = {"Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "Identity"}
POWERS = (0.25, 0.5, 0.75, 1.0)
# Share of the expected squared error of the readers that may remain for a product with a constant to be worth its place.
WORTH = 0.25
# A channel is multiplied by at most this number more than the loudest one: quiet channels are loud in other pictures.
MOST = 4.0


class Tensor:
    """One tensor that can be equalized."""

    def __init__(self, name, maker, readers):
        self.name, self.maker, self.readers = name, maker, readers  # nodes: a convolution or None, and some

    def factors(self, weights, largest, power):
        """(a factor for each channel, the share of the expected squared error that remains). `weights`: by name; `largest`,
        `power` [channels]: the largest magnitude and the mean square of the tensor."""
        kernels = [_by_channel(weights[node.input[1]], node) for node in self.readers]
        # A channel that is always 0 has no range to be matched.
        largest = np.maximum(largest, max(largest.max() / MOST, 1e-12))
        loudest = np.max([np.abs(kernel).max((0, 2)) for kernel in kernels], 0)
        loudest = np.maximum(loudest, max(loudest.max() / MOST, 1e-12))
        tried = [np.ones_like(largest)] + [loudest ** (1 - share) / largest**share for share in POWERS]
        tried = [factors * (largest.max() / (largest * factors).max()) for factors in tried]
        errors = [sum(_error(kernel, factors, largest, power) for kernel in kernels) for factors in tried]
        return tried[int(np.argmin(errors))].astype(np.float32), min(errors) / max(errors[0], 1e-30)


def _by_channel(weight, node):
    """The weight as [outputs, input channels, taps]; [1, channels, taps] of a depthwise convolution."""
    if graph.attribute(node, "group", 1) > 1:
        return weight.reshape(1, weight.shape[0], -1)
    return weight.reshape(*weight.shape[:2], -1)


def _error(kernel, factors, largest, power):
    """Expected squared error of a layer's outputs in 8 bits, relative to their power."""
    squares = np.square(kernel).sum(2)  # [outputs, channels]
    step = (largest * factors).max()
    peaks = np.abs(kernel).max(2) / factors
    if len(kernel) == 1:  # Each channel is an output of its own.
        activations, rounding, signal = step**2 * squares / factors**2, kernel.shape[2] * (peaks * factors) ** 2 * power, squares * power
        return float(np.mean((activations + rounding) / np.maximum(signal, 1e-12 * signal.max() + 1e-30)))
    activations = step**2 * (squares / factors**2).sum(1)
    rounding = kernel.shape[2] * np.square(peaks.max(1)) * (power * factors**2).sum()
    signal = (squares * power).sum(1)
    return float(np.mean((activations + rounding) / np.maximum(signal, 1e-12 * signal.max() + 1e-30)))


def tensors(model, layers, constants=True):
    """The tensors of `model` that can be equalized: those that convolutions read whose constant weights nothing else reads. Without
    `constants`, only those whose factors a convolution takes."""
    shapes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    outputs = {entry.name for entry in model.graph.output}
    convolutions = {layer.name for layer in layers if layer.kind == "Conv"}
    makers = {name: node for node in model.graph.node for name in node.output}
    readers = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)

    def own(node):
        return node.name in convolutions and all(name in shapes and len(readers[name]) == 1 for name in node.input[1:])

    def by_channel(node):
        shape, groups = shapes[node.input[1]], graph.attribute(node, "group", 1)
        return len(shape) == 4 and (groups == 1 or groups == shape[0] and shape[1] == 1)

    def maker_of(name):
        """The convolution that can take the factors, None where something else makes the tensor or reads what lies between."""
        while name not in outputs and name in makers:
            maker = makers[name]
            if maker.op_type not in HOMOGENEOUS:
                return maker if own(maker) else None
            name = maker.input[0]
            if len(readers[name]) > 1:
                return None
        return None

    found = []
    for name in dict.fromkeys(layer.inputs[0] for layer in layers):
        nodes = [node for node in readers[name] if own(node) and by_channel(node)]
        if nodes and name in makers:
            maker = maker_of(name) if len(nodes) == len(readers[name]) else None
            if maker is not None or constants:
                found.append(Tensor(name, maker, nodes))
    return found


def statistics(network, tensors, pictures, progress):
    """Name -> (largest magnitude, mean square), each for every channel."""
    probe = network.probe([tensor.name for tensor in tensors])
    found = {}
    for index, picture in enumerate(pictures):
        for name, value in probe(picture).items():
            largest, power = np.abs(value).max((0, 2, 3)), np.square(value).mean((0, 2, 3))
            known = found.get(name, (0.0, 0.0))
            found[name] = np.maximum(known[0], largest), known[1] + power / len(pictures)
        progress("ranges of channels", index + 1, len(pictures))
    return found


def equalized(model, tensors, statistics):
    """A copy of `model` that computes the same with equalized tensors."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = {tensor.name: numpy_helper.to_array(tensor).copy() for tensor in copy.graph.initializer}
    nodes, products = {node.name: node for node in copy.graph.node}, {}
    for tensor in tensors:
        factors, remains = tensor.factors(weights, *statistics[tensor.name])
        if tensor.maker is None and remains > WORTH:
            continue
        for node in tensor.readers:
            apart = graph.attribute(node, "group", 1) > 1
            weights[node.input[1]] /= factors.reshape((-1, 1, 1, 1) if apart else (1, -1, 1, 1))
        if tensor.maker is not None:
            for name in tensor.maker.input[1:]:
                weights[name] *= factors.reshape([-1] + [1] * (weights[name].ndim - 1))
            continue
        even, constant = f"{tensor.name}_even", f"{tensor.name}_factors"
        weights[constant] = factors.reshape(1, -1, 1, 1)
        products[tensor.name] = helper.make_node("Mul", [tensor.name, constant], [even], f"{tensor.name}_Even")
        for node in tensor.readers:
            nodes[node.name].input[0] = even
    ordered = [[node, *(products[name] for name in node.output if name in products)] for node in copy.graph.node]
    del copy.graph.node[:]
    copy.graph.node.extend(sum(ordered, []))
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return onnx.shape_inference.infer_shapes(copy)
