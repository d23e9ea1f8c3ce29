# SPDX-License-Identifier: Apache-2.0
"""Each layer's own error in 8 bits: beside every layer of the float network runs a copy of it that reads rounded numbers.

Both read the float network's activations, so what is measured is made by this layer and no other. Two things follow:
the best cut for each tensor, by what its readers make of it (weights and all, channel by channel), and the mean by which
each output channel is off, which the float bias takes back (bias correction: Nagel et al., "Data-Free Quantization
Through Weight Equalization and Bias Correction", 2019). Correcting layers by their own errors leaves nothing to
propagate, so that all can be corrected at once.

Where outputs are rounded too (target cpu) the squared error has that in it, behind the activation function that reads the
output: a tensor with one loud channel spoils its maker as it spoils its reader. The mean has not: what a range cuts
off on purpose is not to be taken back."""
import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import calibration

# Share of the mean power below which a channel counts as nearly dead and does not decide. Where outputs are rounded, channels
# that are quiet beside a loud one are what is looked for; elsewhere they only read rounded numbers.
NEARLY_DEAD = {"tensorrt": 1e-3, "cpu": 1e-8}


def measure(network, writer, ranges, pictures, progress):
    """Layer name -> (mean error of each output channel, squared error of each relative to the channel's variance).

    `ranges`: tensor -> (low, high)."""
    model, names = _beside(network.model, writer, ranges)
    probe = network.probe_of(model, names)
    sums = {}
    for index, picture in enumerate(pictures):
        for name, value in probe(picture).items():
            sums[name] = sums.get(name, 0.0) + value.astype(np.float64).ravel() / len(pictures)
        progress("errors of single layers", index + 1, len(pictures))
    result = {}
    for layer in writer.layers:
        if f"{layer.name}:error" not in sums:
            continue
        mean, square, seen, power = (sums[f"{layer.name}:{what}"] for what in ("error", "square", "mean", "power"))
        variance = np.maximum(power - seen**2, NEARLY_DEAD[writer.target] * max(power.mean(), 1e-12))
        result[layer.name] = (mean, square / variance)
    return result


def _beside(model, writer, ranges):
    """(`model` with a rounded copy of each layer beside it, names of the means it gives)."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = {node.name: node for node in model.graph.node}
    rounded, names = {}, []

    def constant(name, array):
        copy.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def add(kind, inputs, output, **attributes):
        copy.graph.node.append(helper.make_node(kind, inputs, [output], f"beside:{output}", **attributes))
        return output

    def reduce(value, output, axes):
        add("ReduceMean", [value], output, axes=axes, keepdims=0)
        names.append(output)

    def round_trip(name, value):
        """`value` through Q and DQ with the range of the tensor `name`."""
        symmetric = writer.symmetric(name)
        scale, zero = calibration.parameters(*ranges[name], symmetric)
        given = [
            constant(f"beside:{value}:scale", np.float32(scale)),
            constant(f"beside:{value}:zero", (np.int8 if symmetric else np.uint8)(zero)),
        ]
        add("QuantizeLinear", [value, *given], f"beside:{value}:q")
        return add("DequantizeLinear", [f"beside:{value}:q", *given], f"beside:{value}:dq")

    def behind(function, value):
        if function is None:
            return value
        if function is calibration.silu:
            return add("Mul", [value, add("Sigmoid", [value], f"beside:{value}:sigmoid")], f"beside:{value}:silu")
        return add("Relu", [value], f"beside:{value}:relu")

    for layer in writer.layers:
        source = layer.inputs[0]
        shape = writer.shapes.get(layer.output)
        if shape is None:
            continue
        if source not in rounded:
            rounded[source] = round_trip(source, source)
        if layer.weight:
            inputs = [rounded[source], constant(f"beside:{layer.name}:weight", writer.rounded_weight(layer))]
            inputs += list(nodes[layer.name].input)[2:]
            beside = add(layer.kind, inputs, f"beside:{layer.name}:output")
            copy.graph.node[-1].attribute.extend(nodes[layer.name].attribute)
            exact = layer.output
        else:
            beside, exact = rounded[source], source
        # Channels: the second axis of pictures, the last of everything else.
        channel = 1 if len(shape) == 4 else len(shape) - 1
        axes = [axis for axis in range(len(shape)) if axis != channel]
        difference = add("Sub", [beside, exact], f"beside:{layer.name}:difference")
        reduce(difference, f"{layer.name}:error", axes)
        if writer.target == "cpu" and layer.weight:
            function = writer.through.get(layer.output)
            exact, beside = behind(function, exact), behind(function, round_trip(layer.output, beside))
            difference = add("Sub", [beside, exact], f"beside:{layer.name}:difference:behind")
        reduce(add("Mul", [difference] * 2, f"beside:{layer.name}:squares"), f"{layer.name}:square", axes)
        reduce(exact, f"{layer.name}:mean", axes)
        reduce(add("Mul", [exact] * 2, f"beside:{layer.name}:powers"), f"{layer.name}:power", axes)
    return copy, names


def best_ranges(writer, ranges_of, errors_of):
    """For each tensor the range, of those of all methods, with which its readers err least; and the methods' names.

    `ranges_of`: method -> tensor -> range; `errors_of`: method -> layer -> (mean, relative squares). A tensor that
    no layer reads takes the method that most others take."""
    methods = list(ranges_of)
    costs = {}
    for method in methods:
        for layer in writer.layers:
            if layer.name in errors_of[method]:
                # A channel that is all noise is lost; it cannot get more lost.
                cost = np.minimum(errors_of[method][layer.name][1], 1.0).mean()
                tensor = costs.setdefault(layer.inputs[0], dict.fromkeys(methods, 0.0))
                tensor[method] += float(cost)
    taken = {name: min(methods, key=tensor.get) for name, tensor in costs.items()}
    votes = list(taken.values())
    usual = max(methods, key=votes.count)
    taken = {name: taken.get(name, usual) for name in ranges_of[usual]}
    return {name: ranges_of[method][name] for name, method in taken.items()}, taken
