"""FedAsync: the server mixes in each client's model when it arrives, trained from a version that may be old."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from noniid.algorithms.base import Algorithm, Federation, Local, Paper, Pick, State, Update, Wave
from noniid.errors import BadInput
from noniid.rows import plus


class Arrivals(NamedTuple):
    """Who arrives in a round, in order, and how many versions old what each started from is."""

    clients: np.ndarray
    staleness: np.ndarray


@dataclass(frozen=True)
class FedAsync(Algorithm):
    """w <- (1 - alpha_t) w + alpha_t w_new,  alpha_t = alpha s(staleness).

    A round is as many arrivals as a cohort has clients, so that it costs what a round of FedAvg costs. Staleness is
    uniform over the versions kept, clients are uniform. Arrivals are simulated exactly: those whose start version
    exists already train side by side, and the next wave begins with the first whose does not, or who comes again.
    """

    alpha: float = 0.6
    decay: Literal["constant", "poly", "hinge"] = "constant"
    # poly: (staleness + 1)^-a; hinge: 1 / (a (staleness - b) + 1) above b. none: the authors' 0.5 and 10.
    a: float | None = None
    b: float = 4.0
    rho: float = 0.005  # clients are held near the version they started from
    max_staleness: int = 16  # versions that are kept beside the newest; at least b for a hinge to be heard

    ordered: ClassVar[bool] = True
    paper: ClassVar[Paper] = Paper(
        "Asynchronous Federated Optimization", "Xie, Koyejo, Gupta", 2019, "https://arxiv.org/abs/1903.03934"
    )

    def init(self, w: Tensor, federation: Federation) -> State:
        if not 0 < self.alpha <= 1:
            raise BadInput(f"fedasync's alpha is {self.alpha:g}: give a share above 0, up to 1.")
        if not (self._a() >= 0 and self.b >= 0 and self.rho >= 0):
            raise BadInput(f"fedasync's a, b and rho are 0 or more, not {self._a():g}, {self.b:g}, {self.rho:g}.")
        if self.max_staleness < 0:
            raise BadInput(f"fedasync's max_staleness is {self.max_staleness}: give 0 (nothing is old) or more.")
        versions = w.repeat(self.max_staleness + 1, 1)  # the newest first; those before the start are never asked for
        return State(w, server={"versions": versions, "arrived": torch.zeros(1, dtype=torch.int64)})

    def pick(self, state: State, federation: Federation, rng: np.random.Generator) -> Pick:
        arrived = int(state.server["arrived"])
        first = state.round * federation.cohort  # of this round's arrivals; all of them are drawn alike in each wave
        due = _draw(rng, federation, self.max_staleness, first)
        done = arrived - first
        clients, staleness = due.clients[done:], due.staleness[done:]
        # The k-th of a wave needs a version k older than its own, and a client what its own last visit left behind.
        first_visit = np.isin(np.arange(len(clients)), np.unique(clients, return_index=True)[1])
        ready = (staleness >= np.arange(len(clients))) & first_visit
        together = len(clients) if ready.all() else int(np.argmin(ready))
        return Pick(
            ids=torch.as_tensor(clients[:together]),
            staleness=torch.as_tensor(staleness[:together]),
            clock=arrived + 1 + torch.arange(together),
            last=together == len(clients),
        )

    def start(self, state: State, wave: Wave) -> Wave:
        age = wave.staleness - torch.arange(len(wave.ids))  # the k-th arrival finds k newer versions than exist now
        return wave._replace(start=state.server["versions"][age])

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return plus(g, self.rho, local.w - local.start)

    def update(self, state: State, wave: Wave) -> Update:
        versions, w = list(state.server["versions"]), state.w
        for end, staleness in zip(wave.end, wave.staleness, strict=True):
            mix = self.alpha * self._trust(int(staleness))
            w = (1 - mix) * w + mix * end
            versions = [w, *versions][: self.max_staleness + 1]
        arrived = state.server["arrived"] + len(wave.ids)
        return Update(w, server={"versions": torch.stack(versions), "arrived": arrived})

    def _trust(self, staleness: int) -> float:
        """s of the paper: 1 for what is fresh, less for what is old."""
        if self.decay == "poly":
            return (staleness + 1) ** -self._a()
        if self.decay == "hinge" and staleness > self.b:
            return 1 / (self._a() * (staleness - self.b) + 1)
        return 1.0

    def _a(self) -> float:
        usual = 10.0 if self.decay == "hinge" else 0.5
        return usual if self.a is None else self.a


def _draw(rng: np.random.Generator, federation: Federation, max_staleness: int, first: int) -> Arrivals:
    clients = rng.integers(federation.num_clients, size=federation.cohort)
    oldest = np.minimum(max_staleness, first + np.arange(federation.cohort))  # no version is older than the start
    return Arrivals(clients, rng.integers(oldest + 1))
