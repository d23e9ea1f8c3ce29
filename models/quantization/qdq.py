# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear written into a float graph, for one of two readers.

tensorrt  Symmetric int8. A chosen layer reads its activations through Q and DQ; its weight stays FP32 and goes through Q
          and DQ, one scale for each output channel; bias and output stay float, so that TensorRT fuses activation
          functions and shortcuts into the layer. No zero point differs from 0, no bias is quantized: its parser refuses both.
          What follows a ReLU, SiLU or h-swish is (nearly) never negative, so that half of the levels would stay unused: a
          constant is taken off before Q, and the bias of a layer without padding gives it back.
cpu       Asymmetric uint8 activations, int8 weights, int32 biases: what ONNX Runtime's CPU kernels for x86-64 run. Outputs
          are quantized too, and so is what lies between chosen layers (activation functions, pooling, concatenation), or
          every step would go back to float. What follows the last weighted layer stays float: boxes and scores in
          one tensor have no scale in common.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import calibration, graph

TARGETS = ("tensorrt", "cpu")
# What the CPU's 8-bit kernels take between chosen layers.
BETWEEN_LAYERS = {
    "Sigmoid", "Mul", "LeakyRelu", "Relu", "Clip", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool", "Resize",
    "Slice", "Split", "Reshape", "Transpose",
}
# A tensor whose lowest number is nearer to 0 than this share of its highest one leaves many levels below 0 unused.
ONE_SIDED = 0.5
# Of these, what changes no number: it keeps its input's scale, and the runtime drops the Q and DQ around it.
UNCHANGED = {"MaxPool", "Resize", "Slice", "Split", "Reshape", "Transpose"}


class Writer:
    """Writes quantized copies of one float graph."""

    def __init__(self, model, layers, target, reduce_range=False):
        """`reduce_range`: weights in 7 bits, for x86 processors without VNNI, whose 16-bit sums saturate."""
        self.model, self.layers, self.target = model, layers, target
        self.highest = 63 if reduce_range else 127
        self.weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.shapes = graph.shapes_of(model)
        self.inputs = {entry.name for entry in model.graph.input}
        self.outputs = {entry.name for entry in model.graph.output}
        self.original_inputs = {node.name: list(node.input) for node in model.graph.node}
        self.tail = self._tail()
        self.through = self._through() if target == "cpu" else {}
        self.shifted = frozenset()

    def symmetric(self, name):
        """Whether the range of the activation `name` lies around 0."""
        return self.target == "tensorrt" and name not in self.shifted

    def shift(self, low, high):
        """From now on takes a constant off the activations that are worth it: those whose numbers, from `low[name]` to `high[name]`,
        are mostly positive, and whose readers are all convolutions without padding, so that their constant biases can give it
        back."""
        if self.target != "tensorrt":
            return
        nodes = {node.name: node for node in self.model.graph.node}

        def gives_back(layer):
            node = nodes[layer.name]
            padded = any(graph.attribute(node, "pads", [0])) or graph.attribute(node, "auto_pad", b"NOTSET") != b"NOTSET"
            return layer.kind == "Conv" and not padded and all(name in self.weights for name in node.input[2:])

        readers = {}
        for layer in self.layers:
            for name in layer.inputs:
                readers.setdefault(name, []).append(layer)
        self.shifted = {
            name
            for name, layers in readers.items()
            if name not in self.inputs and -low[name] < ONE_SIDED * high[name] and all(map(gives_back, layers))
        }

    def tensors(self):
        """Names of the activations whose ranges may be needed."""
        if self.target == "tensorrt":
            return list(dict.fromkeys(name for layer in self.layers for name in layer.inputs))
        return calibration.tensors_to_watch(self.model)

    def _tail(self):
        """Names of the nodes from which no weighted layer is reached."""
        reaching, tail = set(), set()
        weighted = {layer.name for layer in self.layers if layer.weight}
        for node in reversed(self.model.graph.node):
            if node.name in weighted or any(name in reaching for name in node.output):
                reaching.update(node.input)
            else:
                tail.add(node.name)
        return tail

    def _through(self):
        """Tensor -> activation function, where all that reads it is x * sigmoid(x) or a ReLU: far below zero only the sign
        matters, so that a range is better spent elsewhere."""
        readers = {}
        for node in self.model.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        found = {}
        for name, nodes in readers.items():
            kinds = sorted(node.op_type for node in nodes)
            if kinds == ["Relu"]:
                found[name] = calibration.relu
            elif kinds == ["Mul", "Sigmoid"]:
                product, sigmoid = sorted(nodes, key=lambda node: node.op_type)
                if sigmoid.output[0] in product.input:
                    found[name] = calibration.silu
        return found

    def chosen_nodes(self, chosen):
        """Names of all nodes in 8 bits when the layers `chosen` (names) are: on the CPU what lies between them too."""
        nodes = set(chosen)
        if self.target == "tensorrt":
            return nodes
        quantized = set()
        for node in self.model.graph.node:
            activations = [name for name in node.input if name in self.shapes and name not in self.weights]
            follows = (
                node.op_type in BETWEEN_LAYERS
                and node.name not in self.tail
                and activations
                and all(name in quantized for name in activations)
                # A product with a constant has no kernel of its own.
                and (node.op_type != "Mul" or len(activations) == 2)
            )
            if follows:
                nodes.add(node.name)
            if node.name in nodes:
                quantized.update(node.output)
        return nodes

    def write(self, chosen, ranges, corrections=None, weights=None):
        """A copy of the model with the layers `chosen` (names) in 8 bits; `ranges`: tensor -> (low, high);
        `corrections`: layer -> what its bias takes back, for each output channel; `weights`: layer -> its weight in 8 bits,
        where it is not the nearest one."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        layers = {layer.name: layer for layer in self.layers}
        nodes = self.chosen_nodes(chosen)
        build = _Build(self, ranges, corrections or {}, weights or {})
        for node in copy.graph.node:
            if node.name not in nodes:
                continue
            layer = layers.get(node.name)
            for place, name in enumerate(node.input):
                read = name in layer.inputs if self.target == "tensorrt" else self._is_activation(name)
                if read:
                    node.input[place] = build.activation(name)
            if layer and layer.weight:
                node.input[1] = build.weight(layer)
                bias = build.bias(layer, node.input[2] if len(node.input) > 2 else "")
                node.input[:] = list(node.input[:2]) + ([bias] if bias else [])
            if self.target == "cpu":
                if node.op_type in UNCHANGED:
                    source = next(name for name in self.original_inputs[node.name] if self._is_activation(name))
                    for name in node.output:
                        build.shared[name] = build.parameters(source)
                for name in node.output:
                    if name in self.shapes:
                        build.activation(name)
        self._assemble(copy, build, nodes)
        return copy

    def weight_scales(self, layer):
        """One scale for each output channel. A channel of zeros has scale 1: any does, but 0 is none."""
        weight = self.weights[layer.weight]
        others = tuple(axis for axis in range(weight.ndim) if axis != layer.axis)
        largest = np.abs(weight).max(axis=others)
        return np.where(largest > 0, largest / self.highest, 1.0).astype(np.float32)

    def whole_weight(self, layer):
        """The weight in 8 bits, int8."""
        weight = self.weights[layer.weight]
        along = [-1 if axis == layer.axis else 1 for axis in range(weight.ndim)]
        # TensorRT's Q clips at -128; the largest weight of a channel gives 127, so nothing is clipped in either.
        rounded = np.rint(weight / self.weight_scales(layer).reshape(along))
        return np.clip(rounded, -self.highest, self.highest).astype(np.int8)

    def rounded_weight(self, layer, whole=None):
        """The weight as the layer sees it after Q and DQ, float. `whole`: in 8 bits, where it is not the nearest one."""
        whole = self.whole_weight(layer) if whole is None else whole
        along = [-1 if axis == layer.axis else 1 for axis in range(whole.ndim)]
        return whole.astype(np.float32) * self.weight_scales(layer).reshape(along)

    def _is_activation(self, name):
        return name in self.shapes and name not in self.weights

    def _assemble(self, copy, build, nodes):
        """Puts each Q and DQ behind the node that makes its tensor, and drops weights that nothing reads any more."""
        if self.target == "cpu":
            # All readers of a tensor that is made in 8 bits see its 8-bit numbers: the runtime fuses the maker with its Q.
            made = {name for node in self.model.graph.node if node.name in nodes for name in node.output}
            for node in copy.graph.node:
                for place, name in enumerate(node.input):
                    if name in made and name in build.dequantized:
                        node.input[place] = build.dequantized[name]
        result = [node for node in build.constant_nodes]
        for name in self.inputs:
            result.extend(build.pairs.get(name, []))
        for node in copy.graph.node:
            result.append(node)
            for place, name in enumerate(node.output):
                pair = build.pairs.get(name)
                if pair is None:
                    continue
                if name in self.outputs and self.target == "cpu":
                    # The output keeps its name and becomes what DQ gives.
                    inner, dequantized = f"{name}_before_q", build.dequantized[name]
                    node.output[place] = pair[0].input[0] = inner
                    pair[1].output[0] = name
                    for reader in copy.graph.node:
                        reader.input[:] = [name if given == dequantized else given for given in reader.input]
                result.extend(pair)
        del copy.graph.node[:]
        copy.graph.node.extend(result)
        copy.graph.initializer.extend(build.initializers)
        read = {name for node in copy.graph.node for name in node.input}
        kept = [tensor for tensor in copy.graph.initializer if tensor.name in read]
        del copy.graph.initializer[:]
        copy.graph.initializer.extend(kept)


class _Build:
    """What one written copy adds to the graph."""

    def __init__(self, writer, ranges, corrections, weights):
        self.writer, self.ranges, self.corrections, self.weights = writer, ranges, corrections, weights
        self.initializers, self.constant_nodes = [], []
        self.pairs, self.dequantized, self.shared, self.done = {}, {}, {}, {}

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def parameters(self, name):
        """(scale, zero point) of an activation."""
        if name in self.shared:
            return self.shared[name]
        return calibration.parameters(*self.ranges[name], self.writer.symmetric(name))

    def taken_off(self, name):
        """The constant that is taken off the activation `name` before Q."""
        scale, zero = self.parameters(name)
        return np.float32(scale * (128 - zero)) if name in self.writer.shifted else np.float32(0)

    def activation(self, name):
        """Name under which 8-bit readers see the activation `name`."""
        if name not in self.dequantized:
            scale, zero = self.parameters(name)
            of_target, source, shift = np.int8(0), name, self.taken_off(name)
            if self.writer.target == "cpu":
                of_target = np.uint8(zero)
            given = [self.constant(f"{name}_scale", np.float32(scale)), self.constant(f"{name}_zero", of_target)]
            self.pairs[name] = []
            if shift:
                source = f"{name}_shifted"
                self.pairs[name].append(helper.make_node("Sub", [name, self.constant(f"{name}_shift", shift)], [source], f"{name}_Shift"))
            self.pairs[name] += [
                helper.make_node("QuantizeLinear", [source, *given], [f"{name}_q"], f"{name}_Quantize"),
                helper.make_node("DequantizeLinear", [f"{name}_q", *given], [f"{name}_dq"], f"{name}_Dequantize"),
            ]
            self.dequantized[name] = f"{name}_dq"
        return self.dequantized[name]

    def weight(self, layer):
        """Name under which an 8-bit layer reads its weight."""
        name = layer.weight
        if name in self.done:
            return self.done[name]
        scales = self.writer.weight_scales(layer)
        zeros = np.zeros(len(scales), np.int8)
        given = [self.constant(f"{name}_scale", scales), self.constant(f"{name}_zero", zeros)]
        source, whole = f"{name}_q", self.weights.get(layer.name)
        if self.writer.target == "tensorrt":
            exact = name if whole is None else self.constant(f"{name}_rounded", self.writer.rounded_weight(layer, whole))
            self.constant_nodes.append(
                helper.make_node("QuantizeLinear", [exact, *given], [source], f"{name}_Quantize", axis=layer.axis)
            )
        else:
            self.constant(source, self.writer.whole_weight(layer) if whole is None else whole)
        self.constant_nodes.append(
            helper.make_node("DequantizeLinear", [source, *given], [f"{name}_dq"], f"{name}_Dequantize", axis=layer.axis)
        )
        self.done[name] = f"{name}_dq"
        return self.done[name]

    def bias(self, layer, name):
        """Name of the layer's bias, corrected; empty for none. `name`: the float network's, empty for none.

        For the CPU an int32 in units of input scale times weight scale, the sum that the kernel starts from, unless
        it would not fit (a channel with almost no weight)."""
        correction, shift = self.corrections.get(layer.name), self.taken_off(layer.inputs[0])
        if shift:
            rounded = self.writer.rounded_weight(layer, self.weights.get(layer.name))
            correction = (0 if correction is None else correction) - shift * rounded.sum(tuple(range(1, rounded.ndim)), dtype=np.float64)
        if name and name not in self.writer.weights:
            return name  # Computed in the network: not ours to change.
        if layer.kind == "MatMul" or (not name and correction is None):
            return name
        scales = self.writer.weight_scales(layer)
        value = self.writer.weights[name] if name else np.zeros(len(correction), np.float32)
        if correction is not None:
            value = (value - correction.reshape(value.shape)).astype(np.float32)
        elif self.writer.target == "tensorrt":
            return name
        unique = f"{layer.name}_corrected_bias"
        if self.writer.target == "tensorrt" or value.shape != scales.shape:
            return self.constant(unique, value)
        units = scales * np.float32(self.parameters(layer.inputs[0])[0])
        rounded = np.rint(value.astype(np.float64) / units)
        if np.abs(rounded).max(initial=0) >= 2**30:
            return self.constant(unique, value)
        given = [self.constant(f"{unique}_q", rounded.astype(np.int32)), self.constant(f"{unique}_scale", units)]
        self.constant_nodes.append(
            helper.make_node("DequantizeLinear", given, [f"{unique}_dq"], f"{unique}_Dequantize", axis=0)
        )
        return f"{unique}_dq"


def faults(model, target):
    """What in a quantized model its reader would refuse; empty when nothing."""
    said = []
    opset = graph.opset_of(model)
    if opset not in graph.OPSETS:
        said.append(f"opset {opset}, expected 13 to 17")
    elif model.ir_version != graph.IR_VERSIONS[opset]:
        said.append(f"IR version {model.ir_version}, expected {graph.IR_VERSIONS[opset]} for opset {opset}")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    maker = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and target == "tensorrt":
            source = maker.get(node.input[0])
            if source is None or source.op_type != "QuantizeLinear":
                said.append(f"{node.name} reads {node.input[0]}, expected the output of a QuantizeLinear")
            # Without a zero point the type of the source decides, as for an int32 bias.
            zero = arrays[node.input[2]] if len(node.input) > 2 else np.zeros(1, np.int32)
            if zero.dtype != np.int8 or zero.any():
                said.append(f"{node.name} has a zero point other than int8 0")
        if node.op_type in graph.WEIGHTED and target == "tensorrt" and len(node.input) > 2 and node.input[2] in maker:
            said.append(f"the bias of {node.name} is computed, expected a float constant")
    for name, array in arrays.items():
        if name.endswith("_scale") and not (np.isfinite(array).all() and (array > 0).all()):
            said.append(f"{name} is not a positive number")
    inputs = {entry.name for entry in model.graph.input}
    said.extend(f"weight {name} is listed as an input" for name in inputs & set(arrays))
    for entry in model.graph.input:
        if entry.type.tensor_type.elem_type not in (TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT64):
            said.append(f"input {entry.name} is of a type that the daemon does not give")
    return said
