"""Convolutional models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from noniid.models.base import Model, need_image
from noniid.models.fused import conv_relu_pool

Layer = Literal["fc2", "fc1", "conv"]


class LeNet(nn.Module):
    """Two 5x5 convolutions with pooling, three dense layers."""

    def __init__(self, channels: int, height: int, width: int, num_classes: int, features: Layer = "fc2"):
        super().__init__()
        self._shown = features
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        side = [((extent - 4) // 2 - 4) // 2 for extent in (height, width)]
        self.fc1 = nn.Linear(16 * side[0] * side[1], 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = conv_relu_pool(x, self.conv1)
        x = conv_relu_pool(x, self.conv2)
        conv = x.flatten(1)
        fc1 = F.relu(self.fc1(conv))
        fc2 = F.relu(self.fc2(fc1))
        return self.fc3(fc2), {"conv": conv, "fc1": fc1, "fc2": fc2}[self._shown]


@dataclass(frozen=True)
class SimpleCNN(Model):
    """NIID-Bench's CNN: 44,426 parameters on 1x28x28, 62,006 on 3x32x32."""

    # What algorithms that compare features are shown: the last layer's inputs, or those of a layer before.
    features: Layer = "fc2"

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        need_image("simple-cnn", input_shape, smallest=16)
        channels, height, width = input_shape
        return LeNet(channels, height, width, num_classes, self.features)


class WideCNN(nn.Module):
    """Two padded 5x5 convolutions with pooling, two dense layers."""

    def __init__(self, channels: int, height: int, width: int, num_classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.fc2 = nn.Linear(512, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = conv_relu_pool(x, self.conv1)
        x = conv_relu_pool(x, self.conv2)
        features = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(features), features


@dataclass(frozen=True)
class McMahanCNN(Model):
    """The CNN of McMahan et al. (2017), which rFedAvg took up: 1,663,370 parameters on 1x28x28."""

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        need_image("mcmahan-cnn", input_shape, smallest=4)
        channels, height, width = input_shape
        return WideCNN(channels, height, width, num_classes)
