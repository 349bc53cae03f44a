"""Recurrent models: an input is read step by step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from noniid.errors import BadInput
from noniid.models.base import Model


class Reader(nn.Module):
    """An LSTM over the rows of an image, or a table's columns one by one; its last hidden state is the features."""

    def __init__(self, width: int, hidden: int, layers: int, num_classes: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.last = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps = x.transpose(1, 2).flatten(2) if x.dim() == 4 else x.unsqueeze(-1)  # [B, rows, channels x columns]
        hidden, _ = self.lstm(steps)
        features = hidden[:, -1]
        return self.last(features), features


@dataclass(frozen=True)
class LSTM(Model):
    """An LSTM that reads an image row by row, or a table column by column, and a linear layer."""

    hidden: int = 64
    layers: int = 1

    def module(self, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if self.hidden < 1 or self.layers < 1:
            raise BadInput(f"lstm takes hidden and layers of 1 or more, not {self.hidden} and {self.layers}.")
        if len(input_shape) not in (1, 3):
            raise BadInput(f"lstm reads images and tables, and these inputs are {'x'.join(map(str, input_shape))}.")
        width = input_shape[0] * input_shape[2] if len(input_shape) == 3 else 1
        return Reader(width, self.hidden, self.layers, num_classes)
