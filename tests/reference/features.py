"""Plain-loop twins of the algorithms that compare features: rFedAvg, rFedAvg+ and MOON."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid import seeds
from noniid.engine import Task
from tests.reference.local import (
    Extra,
    Outcome,
    Values,
    drawn,
    everything,
    mean,
    mean_features,
    net_with,
    shares,
    values,
    visit,
)

Distance = Callable[[Tensor, Sequence[Tensor]], Tensor]  # of a batch's features, [B, F], to others' means


def pairwise(features: Tensor, others: Sequence[Tensor]) -> Tensor:
    """rFedAvg's r_k: the mean of the squared distances to every other client."""
    delta = features.mean(0)
    return torch.stack([((delta - other) ** 2).sum() for other in others]).mean()


def to_the_mean(features: Tensor, others: Sequence[Tensor]) -> Tensor:
    """rFedAvg+'s r_k: one squared distance, to the other clients' mean."""
    return ((features.mean(0) - sum(others) / len(others)) ** 2).sum()


def rfedavg(
    task: Task, cohort: int, rounds: int, *, lam: float, delta: str, others: str, itself: str,
    privacy_sigma: float, clip: float,
) -> Outcome:  # fmt: skip
    """delta_k is of the client's own model when its visit ends; every client still knows it in later rounds."""
    w, known = values(task.model), dict[int, Tensor]()
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        asked = {j: d for j, d in known.items() if others == "all" or j in members}
        ends = []
        for i in members:
            targets = _targets(asked, i, itself)
            ends.append(visit(task, w, i, t, extra=_drawn_to(targets, lam, pairwise))[0])
        features = [_features(task, end, i, t, delta) for i, end in zip(members, ends, strict=True)]
        known |= dict(zip(members, _private(task, features, t, privacy_sigma, clip), strict=True))
        w = mean(ends, shares(task, members))
    return Outcome(w)


def rfedavg_plus(
    task: Task, cohort: int, rounds: int, *, lam: float, delta: str, others: str, itself: str,
    privacy_sigma: float, clip: float,
) -> Outcome:  # fmt: skip
    """delta_k is of the global model: after the aggregation, or as published at the start of the next round."""
    w, known = values(task.model), dict[int, Tensor]()
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        if others == "cohort":
            features = [_features(task, w, i, t, delta) for i in members]
            known = dict(zip(members, _private(task, features, t, privacy_sigma, clip), strict=True))
        ends = []
        for i in members:
            targets = _targets(known, i, itself)
            ends.append(visit(task, w, i, t, extra=_drawn_to(targets, lam, to_the_mean))[0])
        w = mean(ends, shares(task, members))
        if others == "all":
            features = [_features(task, w, i, t, delta) for i in members]
            known |= dict(zip(members, _private(task, features, t, privacy_sigma, clip), strict=True))
    return Outcome(w)


def _targets(known: Mapping[int, Tensor], client: int, itself: str) -> list[Tensor]:
    return [d for j, d in known.items() if j != client or itself == "included"]


def _drawn_to(targets: Sequence[Tensor], lam: float, distance: Distance) -> Extra | None:
    if not targets:  # nobody has sent anything yet
        return None
    return lambda net, x, features: lam * distance(features, targets)


def _features(task: Task, w: Values, client: int, t: int, delta: str) -> Tensor:
    """delta_k under `w`: of all the client's data, or of one batch beside those it trains on."""
    x = everything(task, client)[0] if delta == "full" else task.one_batch(client, t).x
    return mean_features(task, w, x)


def _private(task: Task, features: Sequence[Tensor], t: int, sigma: float, clip: float) -> list[Tensor]:
    """delta, no longer than `clip`, + N(0, (sigma clip)^2) / L, L the batch size."""
    if not sigma:
        return list(features)
    noise = seeds.stream(task.seed, "update", t, 0)
    sent = []
    for delta in features:
        length = float(delta.norm())
        short = delta * (clip / length) if length > clip else delta
        z = torch.tensor([noise.standard_normal() for _ in range(len(delta))], dtype=delta.dtype)
        sent.append(short + sigma * clip * z / task.work.batch_size)
    return sent


def moon(task: Task, cohort: int, rounds: int, *, mu: float, temperature: float) -> Outcome:
    """The received and the client's last model are nets of their own, in evaluation mode."""
    w = values(task.model)
    last = [w] * task.num_clients
    for t in range(1, rounds + 1):
        members = drawn(task, cohort, t)
        for i in members:
            received, previous = net_with(task, w), net_with(task, last[i])
            last[i], _ = visit(task, w, i, t, extra=_contrast(received, previous, mu, temperature))
        w = mean([last[i] for i in members], shares(task, members))
    return Outcome(w)


def _contrast(received: nn.Module, previous: nn.Module, mu: float, temperature: float) -> Extra:
    received, previous = copy.deepcopy(received).eval(), copy.deepcopy(previous).eval()

    def extra(net: nn.Module, x: Tensor, z: Tensor) -> Tensor:
        with torch.no_grad():
            z_glob, z_prev = received(x)[1], previous(x)[1]
        near = torch.exp(F.cosine_similarity(z, z_glob) / temperature)
        far = torch.exp(F.cosine_similarity(z, z_prev) / temperature)
        return mu * -torch.log(near / (near + far)).mean()

    return extra
