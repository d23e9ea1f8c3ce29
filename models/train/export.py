#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weights.pt → ONNX: batch normalization folded into the convolutions, the input scaled by jetwatch, opset 13, any batch size.

    export.py --weights DIR/weights.pt --out street-nano_fp32.onnx [--batch N]

The graph is written node by node, so that the file is the same whatever the version of PyTorch, and is compared with PyTorch's own result before it is
kept. --batch fixes the batch axis.
"""
import argparse

import numpy
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

from network import INPUT, STRIDES, ConvNormReLU, Residual, StreetNano

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--weights", required=True)
arguments.add_argument("--out", required=True)
arguments.add_argument("--batch", type=int, help="a fixed batch size; by default any")
a = arguments.parse_args()

network = StreetNano().eval()
network.load_state_dict(torch.load(a.weights, map_location="cpu", weights_only=True))
nodes, constants = [], []


def constant(name, values):
    constants.append(numpy_helper.from_array(numpy.ascontiguousarray(values), name))
    return name


def node(kind, inputs, output, **attributes):
    nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
    return output


def convolve(name, x, layer, norm=None):
    weight, bias = layer.weight.detach().numpy(), layer.bias
    bias = numpy.zeros(len(weight), numpy.float32) if bias is None else bias.detach().numpy()
    if norm is not None:
        gain = (norm.weight / torch.sqrt(norm.running_var + norm.eps)).detach().numpy()
        weight = weight * gain[:, None, None, None]
        bias = (bias - norm.running_mean.numpy()) * gain + norm.bias.detach().numpy()
    kernel, pad, stride = layer.kernel_size[0], layer.padding[0], layer.stride[0]
    return node(
        "Conv", [x, constant(f"{name}.weight", weight), constant(f"{name}.bias", bias)], f"{name}.conv",
        kernel_shape=[kernel, kernel], pads=[pad] * 4, strides=[stride, stride],
    )


def block(name, x, module):
    """Any of the network's own blocks."""
    if isinstance(module, ConvNormReLU):
        x = convolve(name, x, module[0], module[1])
        return node("Relu", [x], f"{name}.relu") if len(module) == 3 else x
    if isinstance(module, Residual):
        inner = block(f"{name}.expand", block(f"{name}.reduce", x, module.reduce), module.expand)
        return node("Relu", [node("Add", [x, inner], f"{name}.add")], f"{name}.relu")
    if isinstance(module, torch.nn.Sequential):
        for index, part in enumerate(module):
            x = block(f"{name}.{index}", x, part)
        return x
    if isinstance(module, torch.nn.Conv2d):
        return convolve(name, x, module)
    raise SystemExit(f"{name}: {type(module).__name__} is not known here; add it to export.py")


def part(name, x):
    return block(name, x, getattr(network, name))


def join(name, *inputs):
    return node("Concat", list(inputs), name, axis=1)


def twice(name, x):
    scales = constant(f"{name}.scales", numpy.array([1, 1, 2, 2], numpy.float32))
    return node("Resize", [x, "", scales], name, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


fine = part("stage8", part("stem", "images"))
middle = part("stage16", fine)
coarse = part("narrow32", part("stage32", middle))
middle = part("merge16", join("join16", middle, twice("twice32", coarse)))
fine = part("merge8", join("join8", fine, twice("twice16", part("narrow16", middle))))
middle = part("again16", join("join16again", part("down16", fine), middle))
coarse = part("again32", join("join32again", part("down32", middle), coarse))
outputs = {}
for stride, level, features in zip(STRIDES, network.levels, (fine, middle, coarse)):
    nodes.append(helper.make_node("Sigmoid", [block(f"score{stride}", features, level.score)], [f"scores_{stride}"], name=f"scores_{stride}"))
    nodes.append(helper.make_node("Relu", [block(f"box{stride}", features, level.box)], [f"boxes_{stride}"], name=f"boxes_{stride}"))
batch = a.batch or "batch"
width, height = INPUT
classes = network.levels[0].score[-1].out_channels
outputs = [
    helper.make_tensor_value_info(f"{kind}_{stride}", TensorProto.FLOAT, [batch, channels, height // stride, width // stride])
    for kind, channels in (("scores", classes), ("boxes", 4))
    for stride in STRIDES
]
graph = helper.make_graph(
    nodes, "street-nano", [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, height, width])], outputs, constants
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="jetwatch models/train")
model.ir_version = 7
onnx.checker.check_model(model, full_check=True)

pictures = torch.rand((a.batch or 2, 3, height, width), generator=torch.Generator().manual_seed(1))
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
found = session.run(None, {"images": pictures.numpy()})
with torch.no_grad():
    scores, boxes = network(pictures)
worst = max(float(numpy.abs(mine - theirs.numpy()).max()) for mine, theirs in zip(found, scores + boxes))
if not worst < 1e-3:
    raise SystemExit(f"the ONNX graph differs from PyTorch's by {worst}; expected less than 0.001: export.py does not know the network any more")
onnx.save(model, a.out)
print(f"{a.out}: {sum(p.numel() for p in network.parameters())} parameters, differs from PyTorch by at most {worst:.1e}")
