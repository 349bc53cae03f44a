"""Convolutional models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from noniid.models.base import Model, need_image
from noniid.models.fused import Network, Parts

Layer = Literal["fc2", "fc1", "conv"]


class LeNet(Network):
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

    def parts(self) -> Parts:
        shown = ("conv", "fc1", "fc2").index(self._shown)  # what goes into the first linear layer, the second, ...
        return Parts((self.conv1, self.conv2), (self.fc1, self.fc2, self.fc3), shown)


@dataclass(frozen=True)
class SimpleCNN(Model):
    """NIID-Bench's CNN: 44,426 parameters on 1x28x28, 62,006 on 3x32x32."""

    # What algorithms that compare features are shown: the last layer's inputs, or those of a layer before.
    features: Layer = "fc2"

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        need_image("simple-cnn", input_shape, smallest=16)
        channels, height, width = input_shape
        return LeNet(channels, height, width, num_classes, self.features)


class WideCNN(Network):
    """Two padded 5x5 convolutions with pooling, two dense layers."""

    def __init__(self, channels: int, height: int, width: int, num_classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.fc2 = nn.Linear(512, num_classes)

    def parts(self) -> Parts:
        return Parts((self.conv1, self.conv2), (self.fc1, self.fc2))


@dataclass(frozen=True)
class McMahanCNN(Model):
    """The CNN of McMahan et al. (2017), which rFedAvg took up: 1,663,370 parameters on 1x28x28."""

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        need_image("mcmahan-cnn", input_shape, smallest=4)
        channels, height, width = input_shape
        return WideCNN(channels, height, width, num_classes)
