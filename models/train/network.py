# SPDX-License-Identifier: Apache-2.0
"""The network street-nano: a plain convolutional, anchor-free detector.

Only convolution, batch normalization (folded at export), ReLU, addition, concatenation, nearest-neighbor upsampling by 2 and the final
sigmoid: TensorRT 8.5 fuses all of these in INT8, and the DLA runs them. No depthwise convolution and no SiLU: both cost accuracy in INT8.

Outputs, one pair per stride of 8, 16 and 32 pixels (the layout `fcos` of jetwatch):
    scores  [batch, classes, height / stride, width / stride]   0 to 1 after the sigmoid
    boxes   [batch, 4, height / stride, width / stride]          distances left, top, right, bottom from the cell's center, in strides, >= 0
"""
import math

import torch
from torch import nn
from torch.nn import functional

CLASSES = ["person", "vehicle", "two-wheeler"]
STRIDES = [8, 16, 32]
# Width and height in pixels: 16:9 without padding, both multiples of 32.
INPUT = (512, 288)


class ConvNormReLU(nn.Sequential):
    """Convolution without bias, batch normalization, ReLU."""

    def __init__(self, channels_in, channels_out, kernel=3, stride=1, relu=True):
        layers = [
            nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(channels_out, eps=1e-3, momentum=0.03),
        ]
        if relu:
            layers.append(nn.ReLU(inplace=True))
        super().__init__(*layers)


class Residual(nn.Module):
    """relu(x + conv(conv(x))): convolution, addition and ReLU become one INT8 kernel."""

    def __init__(self, channels, inner):
        super().__init__()
        self.reduce = ConvNormReLU(channels, inner)
        self.expand = ConvNormReLU(inner, channels, relu=False)

    def forward(self, x):
        return functional.relu(x + self.expand(self.reduce(x)))


class Level(nn.Module):
    """The two outputs of one stride."""

    def __init__(self, channels, hidden, classes):
        super().__init__()
        self.score = nn.Sequential(ConvNormReLU(channels, hidden), nn.Conv2d(hidden, classes, 1))
        self.box = nn.Sequential(ConvNormReLU(channels, hidden), nn.Conv2d(hidden, 4, 1))
        # One cell in a hundred holds an object at first; boxes begin at four strides across, where ReLU lets gradients through.
        nn.init.constant_(self.score[-1].bias, -math.log(99.0))
        nn.init.normal_(self.score[-1].weight, std=0.01)
        nn.init.constant_(self.box[-1].bias, 2.0)
        nn.init.normal_(self.box[-1].weight, std=0.01)

    def forward(self, x):
        return self.score(x), functional.relu(self.box(x))


class StreetNano(nn.Module):
    """Input `[batch, 3, height, width]`, red green blue, 0 to 1. In training mode scores are logits."""

    def __init__(self, classes=len(CLASSES)):
        super().__init__()
        self.stem = nn.Sequential(ConvNormReLU(3, 16, stride=2), ConvNormReLU(16, 24, stride=2), ConvNormReLU(24, 24))
        self.stage8 = nn.Sequential(ConvNormReLU(24, 48, stride=2), Residual(48, 32), Residual(48, 32))
        self.stage16 = nn.Sequential(ConvNormReLU(48, 96, stride=2), Residual(96, 48), Residual(96, 48))
        self.stage32 = nn.Sequential(ConvNormReLU(96, 128, stride=2), Residual(128, 64), Residual(128, 48))
        self.narrow32 = ConvNormReLU(128, 64, kernel=1)
        self.merge16 = nn.Sequential(ConvNormReLU(96 + 64, 64, kernel=1), Residual(64, 32))
        self.narrow16 = ConvNormReLU(64, 48, kernel=1)
        self.merge8 = nn.Sequential(ConvNormReLU(48 + 48, 48, kernel=1), Residual(48, 32))
        self.down16 = ConvNormReLU(48, 48, stride=2)
        self.again16 = nn.Sequential(ConvNormReLU(48 + 64, 64, kernel=1), Residual(64, 32))
        self.down32 = ConvNormReLU(64, 48, stride=2)
        self.again32 = nn.Sequential(ConvNormReLU(48 + 64, 64, kernel=1), Residual(64, 32))
        self.levels = nn.ModuleList([Level(48, 48, classes), Level(64, 48, classes), Level(64, 48, classes)])

    def forward(self, x):
        fine = self.stage8(self.stem(x))
        middle = self.stage16(fine)
        coarse = self.narrow32(self.stage32(middle))
        middle = self.merge16(torch.cat([middle, twice(coarse)], 1))
        fine = self.merge8(torch.cat([fine, twice(self.narrow16(middle))], 1))
        middle = self.again16(torch.cat([self.down16(fine), middle], 1))
        coarse = self.again32(torch.cat([self.down32(middle), coarse], 1))
        pairs = [level(features) for level, features in zip(self.levels, (fine, middle, coarse))]
        scores = [pair[0] if self.training else pair[0].sigmoid() for pair in pairs]
        return scores, [pair[1] for pair in pairs]


def twice(x):
    """Nearest-neighbor upsampling by 2."""
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def centers(width, height, device):
    """Centers of all cells in input pixels `[cells, 2]` and their strides `[cells, 1]`, in the order of the outputs."""
    points, strides = [], []
    for stride in STRIDES:
        y, x = torch.meshgrid(
            torch.arange(height // stride, device=device), torch.arange(width // stride, device=device), indexing="ij"
        )
        points.append((torch.stack([x, y], -1).reshape(-1, 2).float() + 0.5) * stride)
        strides.append(torch.full((points[-1].shape[0], 1), float(stride), device=device))
    return torch.cat(points), torch.cat(strides)


def flatten(scores, boxes, points, strides):
    """The outputs as scores `[batch, cells, classes]` and boxes `[batch, cells, 4]` as xyxy in input pixels."""
    scores = torch.cat([level.flatten(2) for level in scores], 2).transpose(1, 2)
    distances = torch.cat([level.flatten(2) for level in boxes], 2).transpose(1, 2) * strides
    return scores, torch.cat([points - distances[..., :2], points + distances[..., 2:]], -1)
