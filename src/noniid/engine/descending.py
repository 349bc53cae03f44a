"""Small networks under the plain loss, one compiled call for a step of several clients (models/fused.py)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from noniid.algorithms import Algorithm
from noniid.engine.bundle import Backward, Bundle, Program, Step
from noniid.engine.replica import Replica


@dataclass(frozen=True)
class Descending:
    """Client after client, but without a word of Python between them; another program where that cannot be."""

    replica: Replica
    otherwise: Program

    @staticmethod
    def fits(replica: Replica, algorithm: Algorithm) -> bool:
        return type(algorithm).loss is Algorithm.loss and replica.row.device.type == "cpu"

    def on(self, bundle: Bundle) -> Backward:
        other = self.otherwise.on(bundle)

        def backward(step: Step) -> Tensor:
            descent = self.replica.descent(step.x[0])
            if descent is None:
                return other(step)
            return descent(step.x, step.y, step.lengths, bundle.w, bundle.g)

        return backward
