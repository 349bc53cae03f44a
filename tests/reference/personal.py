"""Plain-loop twins of FedAvg where a client keeps something for itself: BatchNorm's values, an optimiser's state."""

from __future__ import annotations

from torch import nn

from noniid.engine import Task
from tests.reference.local import (
    Outcome,
    cut_by_hand,
    drawn,
    load,
    mean,
    net_with,
    shares,
    torch_optimiser,
    train,
    values,
    visit,
)


def fedbn(task: Task, cohort: int, rounds: int, *, statistics_only: bool = False) -> Outcome:
    """FedAvg of everything but BatchNorm, or of everything but its statistics."""
    norms = [name for name, part in task.model.named_modules() if isinstance(part, nn.BatchNorm2d)]
    w = values(task.model)
    kept = {name for name in w if name.rpartition(".")[0] in norms and (not statistics_only or "running" in name)}
    first = {name: w[name] for name in kept}
    own = [first] * task.num_clients
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        ends = [visit(task, {**w, **own[i]}, i, t)[0] for i in members]
        for i, end in zip(members, ends, strict=True):
            own[i] = {name: end[name] for name in kept}
        w = {**mean(ends, shares(task, members)), **first}
    return Outcome(w, tested=[{**w, **mine} for mine in own])


def fedavg_at_work(task: Task, cohort: int, rounds: int) -> Outcome:
    """FedAvg with any optimiser, its state kept or not, a decaying rate, and any way of counting steps."""
    work, w = task.work, values(task.model)
    nets = [net_with(task, w) for _ in range(task.num_clients)]
    optimisers = [torch_optimiser(net, work.optim) for net in nets]
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        for i in members:
            load(nets[i], w)
            if not work.keep_optim:
                optimisers[i] = torch_optimiser(nets[i], work.optim)
            for group in optimisers[i].param_groups:
                group["lr"] = work.optim.lr * work.lr_decay ** (t - 1)
            train(nets[i], optimisers[i], cut_by_hand(task, i, t))
        w = mean([values(nets[i]) for i in members], shares(task, members))
    return Outcome(w)
