"""Client optimisers as elementwise steps on rows.

Shapes: `...` is nothing for one client or C for a stacked wave; P parameters. The same code steps one flat buffer
`[P]` and a whole wave `[C, P]`, and knows its own effective number of steps (FedNova's ||a||_1).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from noniid.errors import BadInput
from noniid.spec import Registry


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with momentum, as torch.optim.SGD without dampening."""

    lr: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0

    def check(self) -> None:
        if not self.lr >= 0:
            raise BadInput(f"lr is {self.lr:g}: give a learning rate of 0 or more.")
        if not 0 <= self.momentum < 1:
            raise BadInput(f"momentum is {self.momentum:g}: give a value from 0 up to, not including, 1.")
        if not self.weight_decay >= 0:
            raise BadInput(f"weight decay is {self.weight_decay:g}: give 0 or more.")

    def init(self, w: Tensor) -> dict[str, Tensor]:
        """The state a client starts each round with."""
        return {"momentum": torch.zeros_like(w)} if self.momentum else {}

    def step_(self, w: Tensor, g: Tensor, state: dict[str, Tensor]) -> None:
        """One step in place on `w` and `state`; `g` is left as it is, for it may be shared."""
        if self.weight_decay:
            g = torch.add(g, w, alpha=self.weight_decay)
        if self.momentum:
            g = state["momentum"].mul_(self.momentum).add_(g)
        w.add_(g, alpha=-self.lr)

    def effective_steps(self, steps: Tensor) -> Tensor:
        """||a||_1 of FedNova: the sum of the weights with which `steps` gradients enter the final movement.

        With momentum rho a gradient seen k steps before the end counts 1 + rho + ... + rho^(k-1), so
        a = sum_k (1 - rho^k) / (1 - rho).

        >>> SGD(momentum=0.5).effective_steps(torch.tensor([1, 2, 3])).tolist()   # 1; 1+1.5; 1+1.5+1.75
        [1.0, 2.5, 4.25]
        """
        tau = steps.to(torch.float64)
        rho = self.momentum
        a = (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
        return a.to(torch.float32)


OPTIMISERS: Registry[SGD] = Registry("optimiser", {"sgd": SGD})
