"""Plain-loop twins of the algorithms without a common round: RADFed's travelling models, FedAsync's arrivals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from noniid import seeds
from noniid.engine import Task
from tests.reference.local import (
    Outcome,
    Values,
    drawn,
    everything,
    mean,
    minus,
    near,
    net_with,
    plus,
    stepped,
    values,
    visit,
)
from tests.reference.loops import AdaptiveServer

Aggregate = Callable[[Values, Values], Values]  # (w_t, the mean of the m models) -> w_t+1


def _plain(w: Values, average: Values) -> Values:
    return average


class Importance:
    """RADFed-IS: who is drawn, by a score that visits renew."""

    def __init__(self, task: Task, gamma: float | None):
        self.task, self.gamma = task, gamma
        first = values(task.model)
        self.seen = [[self._score(i, first)] for i in range(task.num_clients)]
        self.score = [seen[0] for seen in self.seen]

    def draw(self, cohort: int, t: int) -> list[int]:
        p = np.array(self.score) / sum(self.score)
        chosen = seeds.stream(self.task.seed, "pick", t).choice(len(p), cohort, replace=False, p=p)
        return sorted(int(i) for i in chosen)

    def visited(self, client: int, end: Values) -> None:
        new = self._score(client, end)
        self.seen[client].append(new)
        if self.gamma is None:
            self.score[client] = sum(self.seen[client]) / len(self.seen[client])
        else:
            self.score[client] = (1 - self.gamma) * self.score[client] + self.gamma * new

    def _score(self, client: int, w: Values) -> float:
        """The mean over the client's batches of the squared norm of the batch's gradient."""
        net = net_with(self.task, w).eval()
        batches = [part.split(self.task.work.batch_size) for part in everything(self.task, client)]
        norms = []
        for x, y in zip(*batches, strict=True):
            loss = F.cross_entropy(net(x)[0], y)
            norms.append(float(sum(g.square().sum() for g in torch.autograd.grad(loss, list(net.parameters())))))
        return sum(norms) / len(norms)


def _travel(
    task: Task, cohort: int, rounds: int, redistributions: int, *,
    aggregate: Aggregate = _plain, mu: float = 0.0, importance: Importance | None = None,
) -> Outcome:  # fmt: skip
    """Algorithm 1: its two loops in one, for a round of the package is one redistribution."""
    w = values(task.model)
    models, equal = [w] * cohort, [1 / cohort] * cohort
    for t in range(1, rounds + 1):
        members = importance.draw(cohort, t) if importance else drawn(task, cohort, t)
        order = seeds.stream(task.seed, "update", t, 0).permutation(cohort)
        received = [models[k] for k in order]
        models = [
            visit(task, model, i, t, extra=near(model, mu))[0] for i, model in zip(members, received, strict=True)
        ]
        if importance:
            for i, model in zip(members, models, strict=True):
                importance.visited(i, model)
        if t % redistributions == 0:
            w = aggregate(w, mean(models, equal))
            models = [w] * cohort
    return Outcome(w, [mean(models, equal)], {"score": importance.score} if importance else None)


def radfed(task: Task, cohort: int, rounds: int, *, redistributions: int) -> Outcome:
    return _travel(task, cohort, rounds, redistributions)


def radfed_p(task: Task, cohort: int, rounds: int, *, redistributions: int, mu: float) -> Outcome:
    return _travel(task, cohort, rounds, redistributions, mu=mu)


def radfed_m(task: Task, cohort: int, rounds: int, *, redistributions: int, alpha: float) -> Outcome:
    def mixed(w: Values, average: Values) -> Values:
        return {name: alpha * average[name] + (1 - alpha) * w[name] for name in w}

    return _travel(task, cohort, rounds, redistributions, aggregate=mixed)


def radfed_a(task: Task, cohort: int, rounds: int, *, redistributions: int, server: str, **hyper: float) -> Outcome:
    adaptive = AdaptiveServer(server, values(task.model), **hyper)

    def along(w: Values, average: Values) -> Values:
        return stepped(task, adaptive.step(w, minus(average, w)), average)

    return _travel(task, cohort, rounds, redistributions, aggregate=along)


def radfed_is(task: Task, cohort: int, rounds: int, *, redistributions: int, gamma: float | None) -> Outcome:
    return _travel(task, cohort, rounds, redistributions, importance=Importance(task, gamma))


def fedasync(
    task: Task, cohort: int, rounds: int, *, alpha: float | None, decay: str, a: float | None, b: float, rho: float,
    max_staleness: int,
) -> Outcome:  # fmt: skip
    """One arrival at a time, and a list of all global models there ever were."""
    if a is None:  # the authors' values
        a = {"constant": 0.0, "poly": 0.5, "hinge": 10.0}[decay]
    trust: dict[str, Callable[[int], float]] = {
        "constant": lambda d: 1.0,
        "poly": lambda d: (d + 1) ** -a,
        "hinge": lambda d: 1.0 if d <= b else 1 / (a * (d - b) + 1),
    }
    versions = [values(task.model)]
    for t in range(1, rounds + 1):
        rng = seeds.stream(task.seed, "pick", t)
        clients = rng.integers(task.num_clients, size=cohort)
        exist = len(versions) + np.arange(cohort)  # when each arrives
        staleness = rng.integers(np.minimum(exist, max_staleness + 1))
        for client, old in zip(clients.tolist(), staleness.tolist(), strict=True):
            start, arrival = versions[-1 - old], len(versions)
            end, _ = visit(task, start, client, arrival, extra=near(start, rho))
            mix = alpha * trust[decay](old)
            versions.append(plus({name: (1 - mix) * x for name, x in versions[-1].items()}, end, mix))
    return Outcome(versions[-1])
