"""Plain-loop twins of what differs from FedAvg in the server's rule or in a term of the client's step.

A twin is `twin(task, cohort, rounds, **hyper-parameters)`, one paper's box.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from noniid.engine import Task
from noniid.optim import SGD
from tests.reference.local import (
    Extra,
    Hook,
    Outcome,
    Values,
    drawn,
    full_gradient,
    full_loss,
    mean,
    minus,
    near,
    plus,
    shares,
    squared_norm,
    stepped,
    values,
    visit,
    zeros,
)


def fedavg(task: Task, cohort: int, rounds: int) -> Outcome:
    w = values(task.model)
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        w = mean([visit(task, w, i, t)[0] for i in members], shares(task, members))
    return Outcome(w)


def fedprox(task: Task, cohort: int, rounds: int, *, mu: float) -> Outcome:
    """The term is part of the loss and autograd differentiates it."""
    w = values(task.model)
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        w = mean([visit(task, w, i, t, extra=near(w, mu))[0] for i in members], shares(task, members))
    return Outcome(w)


# SCAFFOLD


def scaffold(
    task: Task, cohort: int, rounds: int, *, variates: Values, option: str, share: str, correct: str
) -> Outcome:
    """`variates` is where c and every c_i begin."""
    lr = task.work.optim.lr
    w, c, c_of = values(task.model), variates, [variates] * task.num_clients
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        ends, change = [], zeros(w)
        for i in members:
            end, steps = visit(task, w, i, t, **_corrected(minus(c, c_of[i]), lr, correct))
            ends.append(end)
            if option == "i":
                new = full_gradient(task, i, w)
            else:
                # Momentum makes a gradient count more than once; what is added after the step counts once.
                count = gradient_weight(task, steps) if correct == "gradient" else steps
                new = plus(minus(c_of[i], c), minus(w, end), 1 / (count * lr))
            change = plus(change, minus(new, c_of[i]))
            c_of[i] = new
        w = mean(ends, shares(task, members))
        c = plus(c, change, 1 / (task.num_clients if share == "all" else len(members)))
    return Outcome(w)


def _corrected(correction: Values, lr: float, correct: str) -> dict[str, Hook]:
    def into_gradient(net: nn.Module) -> None:
        for name, p in net.named_parameters():
            assert p.grad is not None
            p.grad += correction[name]

    @torch.no_grad()
    def after_step(net: nn.Module) -> None:
        for name, p in net.named_parameters():
            p -= lr * correction[name]

    return {"each": into_gradient} if correct == "gradient" else {"after": after_step}


def gradient_weight(task: Task, steps: int) -> float:
    """How far one constant unit gradient, seen `steps` times, moves a weight in units of lr: by doing it."""
    o = task.work.optim
    assert isinstance(o, SGD)
    weight = nn.Parameter(torch.zeros(1))
    sgd = torch.optim.SGD([weight], 1.0, o.momentum, nesterov=o.nesterov)
    for _ in range(steps):
        weight.grad = torch.ones(1)
        sgd.step()
    return -float(weight.detach())


def fednova(task: Task, cohort: int, rounds: int, *, steps: str, weights: str) -> Outcome:
    w = values(task.model)
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        visits = [visit(task, w, i, t) for i in members]
        taken = [tau for _, tau in visits]
        a = [gradient_weight(task, tau) if steps == "effective" else float(tau) for tau in taken]
        p = shares(task, members) if weights == "samples" else [tau / sum(taken) for tau in taken]
        tau_eff = sum(p_i * a_i for p_i, a_i in zip(p, a, strict=True))
        new = w
        for p_i, a_i, (end, _) in zip(p, a, visits, strict=True):
            new = plus(new, minus(w, end), -tau_eff * p_i / a_i)
        w = stepped(task, new, mean([end for end, _ in visits], shares(task, members)))
    return Outcome(w)


# Servers with momentum and adaptive ones


def fedavgm(task: Task, cohort: int, rounds: int, *, beta: float, nesterov: bool) -> Outcome:
    """In the paper's signs: delta points away from where the clients went."""
    w = values(task.model)
    v = zeros(w)
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        ends, p = [visit(task, w, i, t)[0] for i in members], shares(task, members)
        delta = mean([minus(w, end) for end in ends], p)
        v = {name: beta * v[name] + delta[name] for name in v}
        step = plus(delta, v, beta) if nesterov else v
        w = stepped(task, minus(w, step), mean(ends, p))
    return Outcome(w)


class AdaptiveServer:
    """Reddi et al.'s server, one number after the other."""

    def __init__(self, kind: str, w: Values, **hyper: float):
        self.kind, self.hyper = kind, hyper
        self.m, self.v = zeros(w), {name: torch.full_like(x, hyper["v_init"]) for name, x in w.items()}

    def step(self, w: Values, delta: Values) -> Values:
        b1, lr, tau = self.hyper["beta1"], self.hyper["lr"], self.hyper["tau"]
        new = {}
        for name, d in delta.items():
            self.m[name] = b1 * self.m[name] + (1 - b1) * d
            self.v[name] = self._second(self.v[name], d**2)
            new[name] = w[name] + lr * self.m[name] / (self.v[name] ** 0.5 + tau)
        return new

    def _second(self, v: Tensor, square: Tensor) -> Tensor:
        if self.kind == "adagrad":
            return v + square
        b2 = self.hyper["beta2"]
        if self.kind == "adam":
            return b2 * v + (1 - b2) * square
        assert self.kind == "yogi"
        return torch.where(v > square, v - (1 - b2) * square, v + (1 - b2) * square)


def adaptive(task: Task, cohort: int, rounds: int, *, kind: str, **hyper: float) -> Outcome:
    w = values(task.model)
    server = AdaptiveServer(kind, w, **hyper)
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        average = mean([visit(task, w, i, t)[0] for i in members], shares(task, members))
        w = stepped(task, server.step(w, minus(average, w)), average)
    return Outcome(w)


# Fairness and dynamic regularisation


def qfedavg(task: Task, cohort: int, rounds: int, *, q: float, variant: str) -> Outcome:
    w = values(task.model)
    lipschitz = 1 / task.work.optim.lr if variant == "original" else 1.0
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        ends, total, size = [], zeros(w), 0.0
        for i in members:
            end, _ = visit(task, w, i, t)
            ends.append(end)
            loss = full_loss(task, i, w) + 1e-10
            g = {name: lipschitz * d for name, d in minus(w, end).items()}
            d = {name: loss**q * x for name, x in g.items()}
            total = plus(total, d)
            # The code of rFedAvg takes the norm of what it has already scaled by F^q.
            squared = squared_norm(task, g if variant == "original" else d)
            size += q * loss ** (q - 1) * squared + lipschitz * loss**q
        w = stepped(task, plus(w, total, -1 / size), mean(ends, shares(task, members)))
    return Outcome(w)


def feddyn(task: Task, cohort: int, rounds: int, *, alpha: float) -> Outcome:
    """The whole dynamic objective is differentiated; clients count the same."""
    w = values(task.model)
    h, gradient = zeros(w), [zeros(w) for _ in range(task.num_clients)]
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        ends, moved = [], zeros(w)
        for i in members:
            end, _ = visit(task, w, i, t, extra=_dynamic(gradient[i], w, alpha))
            ends.append(end)
            gradient[i] = plus(gradient[i], minus(end, w), -alpha)
            moved = plus(moved, minus(end, w))
        h = plus(h, moved, -alpha / task.num_clients)
        average = mean(ends, [1 / len(ends)] * len(ends))
        w = stepped(task, plus(average, h, -1 / alpha), mean(ends, shares(task, members)))
    return Outcome(w)


def _dynamic(gradient: Values, w: Values, alpha: float) -> Extra:
    """- <gradient, theta> + alpha/2 |theta - w|^2."""
    proximal = near(w, alpha)

    def extra(net: nn.Module, x: Tensor, features: Tensor) -> Tensor:
        linear = [(gradient[name] * p).sum() for name, p in net.named_parameters()]
        return proximal(net, x, features) - torch.stack(linear).sum()

    return extra


# The two bounds


def alone(task: Task, cohort: int, rounds: int) -> Outcome:
    """No server: whoever is drawn goes on from its own model."""
    first = values(task.model)
    models = [first] * task.num_clients
    for t in range(1, rounds + 1):
        for i in drawn(task, cohort, t):
            models[i], _ = visit(task, models[i], i, t)
    return Outcome(first, tested=models)


def centralised(task: Task, cohort: int, rounds: int, **_: Any) -> Outcome:
    """`task` has pooled data: one client, one model."""
    w = values(task.model)
    for t in range(1, rounds + 1):
        w, _ = visit(task, w, 0, t)
    return Outcome(w)
