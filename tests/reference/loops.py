"""Plain-loop twins: each algorithm as its paper's box, with modules, dictionaries and torch.optim.

They share nothing with the package but the order of the batches. A twin is `twin(net, data, batches, ...)`: it
trains `rounds` rounds with every client and returns the final parameters by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid.engine import Task

Params = dict[str, Tensor]


def params(net: nn.Module) -> Params:
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def _set(net: nn.Module, values: Params) -> None:
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(values[name])


def _sgd(net: nn.Module, task: Task) -> torch.optim.SGD:
    o = task.work.optim
    return torch.optim.SGD(net.parameters(), lr=o.lr, momentum=o.momentum, weight_decay=o.weight_decay)


def _local(net: nn.Module, task: Task, client: int, round: int, each: Callable[[nn.Module], None] | None = None,
           after: Callable[[nn.Module], None] | None = None,
           penalty: Callable[[nn.Module], Tensor] | None = None) -> tuple[Params, int]:  # fmt: skip
    optimiser, steps = _sgd(net, task), 0
    for x, y in task.batches(client, round):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x)[0], y)
        if penalty:
            loss = loss + penalty(net)
        loss.backward()
        if each:
            each(net)
        optimiser.step()
        if after:
            after(net)
        steps += 1
    return params(net), steps


def _sizes(task: Task) -> list[int]:
    return [len(held) for held in task.split.indices]


def fedavg(task: Task, rounds: int) -> Params:
    sizes = _sizes(task)
    w = params(task.model)
    for t in range(1, rounds + 1):
        mean = {name: torch.zeros_like(v) for name, v in w.items()}
        for i, n in enumerate(sizes):
            net = copy.deepcopy(task.model)
            _set(net, w)
            w_i, _ = _local(net, task, i, t)
            for name in mean:
                mean[name] += n / sum(sizes) * w_i[name]
        w = mean
    return w


def fedprox(task: Task, rounds: int, mu: float) -> Params:
    """The term is part of the loss and autograd differentiates it."""
    sizes = _sizes(task)
    w = params(task.model)
    for t in range(1, rounds + 1):
        mean = {name: torch.zeros_like(v) for name, v in w.items()}
        for i, n in enumerate(sizes):
            net = copy.deepcopy(task.model)
            _set(net, w)

            def penalty(net: nn.Module, anchor: Params = w) -> Tensor:
                return mu / 2 * sum(((p - anchor[name]) ** 2).sum() for name, p in net.named_parameters())  # type: ignore[return-value]

            w_i, _ = _local(net, task, i, t, penalty=penalty)
            for name in mean:
                mean[name] += n / sum(sizes) * w_i[name]
        w = mean
    return w


def _full_gradient(task: Task, client: int, w: Params) -> Params:
    net = copy.deepcopy(task.model)
    _set(net, w)
    net.eval()
    index = torch.from_numpy(task.split.indices[client])
    train = task.dataset.train
    F.cross_entropy(net(train.batch(index))[0], train.y[index]).backward()
    return {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}


def scaffold(task: Task, rounds: int, c0: Params, *, option: str, correct: str) -> Params:
    """Every client every round, so 1/N and 1/|S| are one."""
    sizes, lr = _sizes(task), task.work.optim.lr
    w = params(task.model)
    c = {name: v.clone() for name, v in c0.items()}
    c_i: list[Params] = [{name: v.clone() for name, v in c0.items()} for _ in sizes]
    for t in range(1, rounds + 1):
        mean = {name: torch.zeros_like(v) for name, v in w.items()}
        change = {name: torch.zeros_like(v) for name, v in w.items()}
        for i, n in enumerate(sizes):
            net = copy.deepcopy(task.model)
            _set(net, w)
            mine = c_i[i]

            def into_gradient(net: nn.Module, mine: Params = mine, c: Params = c) -> None:
                for name, p in net.named_parameters():
                    assert p.grad is not None
                    p.grad += c[name] - mine[name]

            def after_step(net: nn.Module, mine: Params = mine, c: Params = c) -> None:
                with torch.no_grad():
                    for name, p in net.named_parameters():
                        p -= lr * (c[name] - mine[name])

            hooks: dict[str, Any] = {"each": into_gradient} if correct == "gradient" else {"after": after_step}
            w_i, steps = _local(net, task, i, t, **hooks)
            count = _gradient_weight(task, steps) if correct == "gradient" else steps
            if option == "i":
                new = _full_gradient(task, i, w)
            else:
                new = {name: mine[name] - c[name] + (w[name] - w_i[name]) / (count * lr) for name in w}
            for name in w:
                mean[name] += n / sum(sizes) * w_i[name]
                change[name] += (new[name] - mine[name]) / len(sizes)
            c_i[i] = new
        w = mean
        c = {name: c[name] + change[name] for name in c}
    return w


def _gradient_weight(task: Task, steps: int) -> float:
    """How much one constant unit gradient, seen `steps` times, moves the model in units of lr: by simulation."""
    rho = task.work.optim.momentum
    buffer = moved = 0.0
    for _ in range(steps):
        buffer = rho * buffer + 1.0
        moved += buffer
    return moved


def fednova(task: Task, rounds: int, *, steps: str, weights: str) -> Params:
    sizes = _sizes(task)
    w = params(task.model)
    for t in range(1, rounds + 1):
        moves, a, p = [], [], []
        for i, n in enumerate(sizes):
            net = copy.deepcopy(task.model)
            _set(net, w)
            w_i, tau = _local(net, task, i, t)
            moves.append({name: w[name] - w_i[name] for name in w})
            a.append(_gradient_weight(task, tau) if steps == "effective" else float(tau))
            p.append(float(n) if weights == "samples" else float(tau))
        p = [value / sum(p) for value in p]
        tau_eff = sum(p_i * a_i for p_i, a_i in zip(p, a, strict=True))
        w = {name: w[name] - tau_eff * sum(p[i] * moves[i][name] / a[i] for i in range(len(sizes))) for name in w}
    return w
