"""Dense models, for tables and small images."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

from torch import nn

from noniid.models.base import Model, flat_size
from noniid.models.fused import Network, Parts


class DenseNet(Network):
    """Linear layers with ReLU between them."""

    def __init__(self, widths: tuple[int, ...]):
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairs])

    def parts(self) -> Parts:
        return Parts((), [*self.layers])


@dataclass(frozen=True)
class MLP(Model):
    """d-32-16-8-classes, as NIID-Bench uses on tables."""

    # NIID-Bench draws weights from N(0, 0.1^2) and sets biases to 0.1; `torch` is PyTorch's own initialisation.
    start: Literal["niid-bench", "torch"] = "niid-bench"

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        net = DenseNet((flat_size(input_shape), 32, 16, 8, num_classes))
        if self.start == "niid-bench":
            for name, parameter in net.named_parameters():
                nn.init.normal_(parameter, 0.0, 0.1) if name.endswith("weight") else nn.init.constant_(parameter, 0.1)
        return net


@dataclass(frozen=True)
class TwoNN(Model):
    """d-200-200-classes, as in McMahan et al. (2017)."""

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        return DenseNet((flat_size(input_shape), 200, 200, num_classes))


@dataclass(frozen=True)
class Linear(Model):
    """One layer; its features are its inputs."""

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        return DenseNet((flat_size(input_shape), num_classes))
