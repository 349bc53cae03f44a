"""torch's own optimisers, for the reference engine to judge ours by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from noniid.errors import BadInput
from noniid.optim import SGD, Adam, Optimiser, RMSProp

# what torch calls the entries of our states
_NAMES = {
    SGD: {"momentum": "momentum_buffer"},
    RMSProp: {"square": "square_avg"},
    Adam: {"mean": "exp_avg", "square": "exp_avg_sq", "count": "step"},
}


class Stepper:
    """One torch optimiser on one flat parameter, its state translated to and from ours."""

    def __init__(self, optim: Optimiser, weights: torch.nn.Parameter, state: dict[str, Tensor]):
        self._weights = weights
        self._torch = _torch(optim, weights)
        self._fresh = optim.init(weights.detach())
        self._names = _NAMES[type(optim)]
        if state:
            self._torch.state[weights].update({self._names[name]: value.clone() for name, value in state.items()})
            if "count" in state:
                self._torch.state[weights]["step"] = state["count"].reshape(()).clone()
            if isinstance(self._torch, torch.optim.RMSprop):
                self._torch.state[weights]["step"] = torch.zeros(())

    def step(self, g: Tensor) -> None:
        self._weights.grad = g
        self._torch.step()

    def state(self) -> dict[str, Tensor]:
        """Shaped as ours; what torch has not made yet is as at the start."""
        made: dict[str, Any] = self._torch.state[self._weights]
        return {
            name: made[self._names[name]].clone().reshape(first.shape) if self._names[name] in made else first
            for name, first in self._fresh.items()
        }


def _torch(optim: Optimiser, weights: torch.nn.Parameter) -> torch.optim.Optimizer:
    if isinstance(optim, SGD):
        return torch.optim.SGD(
            [weights], optim.lr, optim.momentum, weight_decay=optim.weight_decay, nesterov=optim.nesterov
        )
    if isinstance(optim, RMSProp):
        return torch.optim.RMSprop(
            [weights], optim.lr, alpha=optim.alpha, eps=optim.eps, weight_decay=optim.weight_decay
        )
    if isinstance(optim, Adam):
        betas = (optim.beta1, optim.beta2)
        return torch.optim.Adam([weights], optim.lr, betas, eps=optim.eps, weight_decay=optim.weight_decay)
    raise BadInput(f"the reference engine has no twin for {type(optim).__name__}: use the threads engine.")
