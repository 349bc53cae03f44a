"""What the drivers of all rivals share: the job they are given, and the talk with the benchmark.

A driver runs in its rival's own environment, where noniid is not installed. It says "ready" when the data are in
memory and everything is started, and trains a round whenever it is told to. The benchmark keeps the clock.

Shapes: n samples, C clients, P values of a model, B batch.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from nets import NETS

FILES = ("x", "y", "order", "sizes", "w")


class Job:
    """What is trained, read from the folder that the benchmark wrote."""

    def __init__(self, folder: str):
        arrays = [np.load(Path(folder) / f"{name}.npy") for name in FILES]
        self.checksum = checksum(arrays)
        self.x, self.y, order, sizes, self.w = map(torch.from_numpy, arrays)
        self.sizes: list[int] = sizes.tolist()
        self.clients = order.split(self.sizes)  # whose samples are whose
        settings = json.loads((Path(folder) / "settings.json").read_text())
        self.model: str = settings["model"]
        self.num_classes: int = settings["num_classes"]
        self.epochs: int = settings["epochs"]
        self.batch_size: int = settings["batch_size"]
        self.cohort: int = settings["cohort"]  # clients of a round
        self.cores: int = settings["cores"]
        self.optim: dict[str, float] = settings["optim"]

    @property
    def num_clients(self) -> int:
        return len(self.clients)

    def net(self) -> nn.Module:
        """The model, with the weights that all begin with."""
        net = NETS[self.model](self.num_classes)
        put(net, self.w)
        return net

    def batches(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch in fresh order."""
        own = self.clients[client]
        for index in own[torch.randperm(len(own))].split(self.batch_size):
            yield self.x.index_select(0, index), self.y.index_select(0, index)

    def train(self, net: nn.Module, client: int) -> int:
        """A client's local work, written with the hand loop's care, where a rival leaves that to its user.

        Returns the number of steps."""
        optimiser = torch.optim.SGD(net.parameters(), **self.optim, fused=True)
        steps = 0
        for _ in range(self.epochs):
            for x, y in self.batches(client):
                optimiser.zero_grad(set_to_none=True)
                F.cross_entropy(net(x), y).backward()
                optimiser.step()
                steps += 1
        return steps


def checksum(arrays: list[np.ndarray]) -> int:
    """Of the contents: who has this number has the same data, clients and weights."""
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return total


@torch.no_grad()
def put(net: nn.Module, row: Tensor) -> None:
    """Makes the row [P] the net's weights."""
    parameters = list(net.parameters())
    for parameter, part in zip(parameters, row.split([p.numel() for p in parameters])):
        parameter.copy_(part.view_as(parameter))


@torch.no_grad()
def take(net: nn.Module) -> Tensor:
    """The net's weights as a row [P]."""
    return torch.cat([parameter.reshape(-1) for parameter in net.parameters()])


class Talk:
    """Orders come on standard input, answers go to what was standard output; prints of a rival's go to the log."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def ready(self, job: Job, remark: str) -> None:
        self._say(ready=remark, checksum=job.checksum)

    def done(self, steps: int) -> None:
        self._say(steps=steps)

    def wait(self, w: Callable[[], Tensor]) -> bool:
        """Until a round is asked for: True; or the end: False. Gives the weights away in between."""
        for line in iter(sys.stdin.readline, ""):
            order, _, argument = line.strip().partition(" ")
            if order == "weights":
                np.save(argument, w().detach().numpy())
                self._say(saved=argument)
            else:
                return order == "round"
        return False

    def _say(self, **words: Any) -> None:
        self._out.write(json.dumps(words) + "\n")
        self._out.flush()


def versions(*packages: str) -> str:
    from importlib.metadata import version

    return ", ".join(f"{package} {version(package)}" for package in packages)
