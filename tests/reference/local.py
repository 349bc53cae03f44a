"""What a client does, with a module, dictionaries of named values and torch.optim.

The twins share nothing with the package but the order of the batches and the draws that decide who trains.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid import seeds
from noniid.engine import Task
from noniid.optim import SGD, Adam, Optimiser, RMSProp

Values = dict[str, Tensor]
Extra = Callable[[nn.Module, Tensor, Tensor], Tensor]  # of the net, a batch's inputs and its features
Hook = Callable[[nn.Module], None]


class Outcome(NamedTuple):
    """What a twin hands back."""

    w: Values  # the server's model
    tested: list[Values] | None = None  # the models to test, one or one for each client; None: the server's
    memory: dict[str, list[float]] | None = None  # a number that is kept of each client


# Dictionaries of values


def values(net: nn.Module) -> Values:
    """Parameters and BatchNorm's statistics. Its counters of batches are left out: nothing here reads them."""
    named = [*net.named_parameters(), *net.named_buffers()]
    return {name: v.detach().clone() for name, v in named if v.is_floating_point()}


def load(net: nn.Module, w: Values) -> None:
    with torch.no_grad():
        for name, value in [*net.named_parameters(), *net.named_buffers()]:
            if name in w:
                value.copy_(w[name])


def net_with(task: Task, w: Values) -> nn.Module:
    net = copy.deepcopy(task.model)
    load(net, w)
    return net


def zeros(w: Values) -> Values:
    return {name: torch.zeros_like(v) for name, v in w.items()}


def mean(models: Sequence[Values], shares: Sequence[float]) -> Values:
    return {name: sum(p * m[name] for p, m in zip(shares, models, strict=True)) for name in models[0]}  # type: ignore[misc]


def minus(a: Values, b: Values) -> Values:
    return {name: a[name] - b[name] for name in a}


def plus(a: Values, b: Values, times: float = 1.0) -> Values:
    return {name: a[name] + times * b[name] for name in a}


def squared_norm(task: Task, w: Values) -> float:
    """Of the parameters."""
    return float(sum(w[name].square().sum() for name, _ in task.model.named_parameters()))


def stepped(task: Task, new: Values, average: Values) -> Values:
    """A server's new parameters with the clients' mean statistics, which no server's rule is for."""
    return {**average, **{name: new[name] for name, _ in task.model.named_parameters()}}


# Who trains


def drawn(task: Task, cohort: int, t: int) -> list[int]:
    """The clients of round t, uniformly without replacement."""
    chosen = seeds.stream(task.seed, "pick", t).choice(task.num_clients, cohort, replace=False)
    return sorted(int(i) for i in chosen)


def shares(task: Task, members: Sequence[int]) -> list[float]:
    """n_i / n."""
    sizes = [len(task.split.indices[i]) for i in members]
    return [n / sum(sizes) for n in sizes]


# Data


def everything(task: Task, client: int) -> tuple[Tensor, Tensor]:
    """All that a client holds."""
    index = torch.as_tensor(task.split.indices[client])
    return task.dataset.train.batch(index), task.dataset.train.y[index]


def cut_by_hand(task: Task, client: int, clock: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of a visit, as a loader over the client's data would give them: a new order each epoch."""
    work, own = task.work, torch.as_tensor(task.split.indices[client])
    order, train = seeds.stream(task.seed, "batches", clock, client), task.dataset.train
    taken = epoch = 0
    while taken < work.steps if work.steps is not None else epoch < work.epochs:
        left = own[order.permutation(len(own))]
        first = True
        while len(left) >= (work.batch_size if work.drop_last and not first else 1):
            if work.steps is not None and taken == work.steps:
                return
            index, left, first = left[: work.batch_size], left[work.batch_size :], False
            yield train.batch(index), train.y[index]
            taken += 1
        epoch += 1


# Training


def torch_optimiser(net: nn.Module, o: Optimiser) -> torch.optim.Optimizer:
    weights = net.parameters()
    if isinstance(o, SGD):
        return torch.optim.SGD(weights, o.lr, o.momentum, weight_decay=o.weight_decay, nesterov=o.nesterov)
    if isinstance(o, RMSProp):
        return torch.optim.RMSprop(weights, o.lr, o.alpha, o.eps, o.weight_decay)
    assert isinstance(o, Adam)
    return torch.optim.Adam(weights, o.lr, (o.beta1, o.beta2), o.eps, o.weight_decay)


def train(
    net: nn.Module, optimiser: torch.optim.Optimizer, batches: Iterable[tuple[Tensor, Tensor]], *,
    extra: Extra | None = None, each: Hook | None = None, after: Hook | None = None,
) -> int:  # fmt: skip
    """`extra` is added to the loss, `each` changes gradients, `after` the net after a step. Returns the steps."""
    net.train()
    steps = 0
    for x, y in batches:
        optimiser.zero_grad()
        logits, features = net(x)
        loss = F.cross_entropy(logits, y)
        if extra:
            loss = loss + extra(net, x, features)
        loss.backward()
        if each:
            each(net)
        optimiser.step()
        if after:
            after(net)
        steps += 1
    return steps


def visit(
    task: Task, w: Values, client: int, clock: int, *,
    extra: Extra | None = None, each: Hook | None = None, after: Hook | None = None,
) -> tuple[Values, int]:  # fmt: skip
    """The client's model after a visit that begins at `w` with a fresh optimiser, and its number of steps."""
    net = net_with(task, w)
    optimiser = torch_optimiser(net, task.work.optim)
    steps = train(net, optimiser, task.batches(client, clock), extra=extra, each=each, after=after)
    return values(net), steps


def near(anchor: Values, mu: float) -> Extra:
    """mu/2 |w - anchor|^2, for autograd."""

    def extra(net: nn.Module, x: Tensor, features: Tensor) -> Tensor:
        gaps = [(p - anchor[name]).square().sum() for name, p in net.named_parameters()]
        return mu / 2 * torch.stack(gaps).sum()

    return extra


# Questions


def full_gradient(task: Task, client: int, w: Values) -> Values:
    net = net_with(task, w).eval()
    x, y = everything(task, client)
    F.cross_entropy(net(x)[0], y).backward()
    return {**zeros(w), **{name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}}


@torch.no_grad()
def full_loss(task: Task, client: int, w: Values) -> float:
    x, y = everything(task, client)
    return float(F.cross_entropy(net_with(task, w).eval()(x)[0], y))


@torch.no_grad()
def mean_features(task: Task, w: Values, x: Tensor) -> Tensor:
    return net_with(task, w).eval()(x)[1].mean(0)
