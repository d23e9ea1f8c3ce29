# SPDX-License-Identifier: Apache-2.0
"""A float network made ready: opset 13 to 17, IR version, weights that are no inputs, BatchNorm and Identity folded; and
the list of layers that can be quantized.

TensorRT 8.5's parser knows opsets to 17 and per-channel QuantizeLinear begins with 13, hence the range."""
import os
import tempfile
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, version_converter

from .spec import Mistake

OPSETS = range(13, 18)
# The IR versions that belong to them; newer ones are refused by parsers of that time.
IR_VERSIONS = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8}
# Operators with weights: kind -> axis of the output channels of the weight, as TensorRT wants per-channel scales.
WEIGHTED = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0, "MatMul": 1}


@dataclass
class Layer:
    """What is quantized or left in float as one."""

    name: str  # the node's name, unique
    kind: str  # operator
    inputs: tuple  # activations that are quantized where the layer reads them
    output: str
    weight: str  # name of the initializer, empty for operators without one
    axis: int  # channel axis of the weight
    macs: int  # multiplications for one picture


def attribute(node, name, default):
    for entry in node.attribute:
        if entry.name == name:
            return onnx.helper.get_attribute_value(entry)
    return default


def opset_of(model):
    return max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _drop_weight_inputs(model):
    """Exporters of IR 3 list weights among the inputs; then runtimes must not fold them, nor take them as constant."""
    weights = {tensor.name for tensor in model.graph.initializer}
    kept = [entry for entry in model.graph.input if entry.name not in weights]
    dropped = len(model.graph.input) - len(kept)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return dropped


def _convert(model, opset, path):
    if opset_of(model) == opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except Exception as error:  # The converter raises RuntimeError and its own kinds, with C++ text.
        raise Mistake(
            f"{path} has opset {opset_of(model)}, which onnx's converter cannot bring to {opset}: {error}: "
            "export the network again with opset 13 to 17"
        ) from error


def session_options():
    """Without an optimization of ONNX Runtime up to 1.31: it makes zeros in front of a MaxPool its padding, which it ignores."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("optimization.disable_specified_optimizers", "Pad_Fusion")
    return options


def _fold(model, path):
    """ONNX Runtime's basic optimizations: constants, Identity, BatchNorm and scalings into convolutions. Only operators
    of ONNX itself come out."""
    with tempfile.TemporaryDirectory() as folder:
        folded_path = os.path.join(folder, "folded.onnx")
        options = session_options()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = folded_path
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Mistake(f"ONNX Runtime cannot load {path}: {error}: is it a whole, float ONNX network?") from error
        return onnx.load(folded_path)


def _clean(model, opset, path):
    foreign = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
    if foreign:
        raise Mistake(f"{path} has operators of {', '.join(sorted(foreign))}, expected ONNX's own: export it without them")
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", opset))
    model.ir_version = IR_VERSIONS[opset]
    model.producer_name = "jetwatch quantize"
    del model.metadata_props[:]
    names = set()
    for index, node in enumerate(model.graph.node):
        if not node.name or node.name in names:
            node.name = f"{node.op_type}_{index}"
        names.add(node.name)
    onnx.checker.check_model(model)
    return onnx.shape_inference.infer_shapes(model)


def _set_sides(model, spec):
    """Gives the picture's input its width and height where the network leaves them open: layers are counted and calibrated
    for them. The batch axis stays as it is."""
    for entry in model.graph.input:
        dims = entry.type.tensor_type.shape.dim
        if entry.name == spec.input_name and len(dims) == 4:
            for dim, side in zip(list(dims)[1:], (3, spec.height, spec.width)):
                if not dim.dim_value:
                    dim.dim_value = side


def prepare(path, opset, spec):
    """(folded model, model before folding, sentences that say what was changed). Both have `opset`; with None their own one,
    or the nearest of OPSETS."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:
        raise Mistake(f"{path} is not a valid ONNX network: {error}") from error
    before = (model.ir_version, opset_of(model), len(model.graph.node))
    opset = opset or min(max(before[1], OPSETS[0]), OPSETS[-1])
    already = {"QuantizeLinear", "QLinearConv", "ConvInteger", "DynamicQuantizeLinear"}
    already &= {node.op_type for node in model.graph.node}
    if already:
        raise Mistake(f"{path} is quantized already ({', '.join(sorted(already))}): give the float network")
    dropped = _drop_weight_inputs(model)
    _set_sides(model, spec)
    model.ir_version = max(model.ir_version, 4)  # From 4 on, weights need not be inputs.
    unfolded = _convert(model, opset, path)
    unfolded = _clean(unfolded, opset, path)
    folded = _clean(_fold(unfolded, path), opset, path)
    said = [
        f"opset {before[1]} -> {opset}, IR {before[0]} -> {folded.ir_version}",
        f"{before[2]} nodes -> {len(folded.graph.node)} after folding",
    ]
    if dropped:
        said.append(f"{dropped} weights taken off the list of inputs")
    return folded, unfolded, said


def shapes_of(model):
    """Name -> dimensions of every tensor that shape inference knows; unknown ones are 1 (the batch)."""
    entries = list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output)
    return {
        entry.name: [dim.dim_value or 1 for dim in entry.type.tensor_type.shape.dim]
        for entry in entries
        if entry.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    }


def _macs(node, weight, shape):
    if shape is None:
        return 0
    if node.op_type == "Conv":
        return int(np.prod(shape) * np.prod(weight.shape[1:]))
    if node.op_type == "ConvTranspose":
        # Each number of the input goes through all taps; its size is that of the output over the strides.
        strides = attribute(node, "strides", [1, 1])
        return int(np.prod(shape) / np.prod(strides) * np.prod(weight.shape[2:]) * weight.shape[0])
    return int(np.prod(shape) * (weight.shape[0] if node.op_type == "MatMul" else weight.size // shape[-1]))


def layers(model):
    """The layers that can be quantized, in the order of the network.

    Those with constant weights, and additions of two activations (shortcuts): TensorRT runs these in INT8 only when the
    branch that is no convolution's own output is quantized too. Pooling, resizing and concatenation follow their
    neighbors and need no scales of their own there."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    shapes = shapes_of(model)
    readers = {}
    for node in model.graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    maker = {name: node for node in model.graph.node for name in node.output}
    found = []
    for node in model.graph.node:
        if node.op_type in WEIGHTED and len(node.input) > 1 and node.input[1] in weights and node.input[0] not in weights:
            weight = weights[node.input[1]]
            axis = WEIGHTED[node.op_type]
            if node.op_type == "Gemm" and not attribute(node, "transB", 0):
                axis = 1
            grouped = node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1
            if weight.dtype != np.float32 or weight.ndim <= axis or grouped:
                continue  # Stays in float: grouped transposed convolutions have no one axis of output channels.
            macs = _macs(node, weight, shapes.get(node.output[0]))
            found.append(Layer(node.name, node.op_type, (node.input[0],), node.output[0], node.input[1], axis, macs))
        elif node.op_type == "Add" and all(name in shapes and name not in weights for name in node.input):
            fused = [
                name
                for name in node.input
                if name in maker and maker[name].op_type in WEIGHTED and readers[name] == 1
            ]
            inputs = [name for name in node.input if name not in fused[:1]]
            if all(len(shapes[name]) == 4 for name in node.input):
                found.append(Layer(node.name, "Add", tuple(dict.fromkeys(inputs)), node.output[0], "", 0, 0))
    return found
