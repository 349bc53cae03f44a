"""How much a run's noise hides: (epsilon, delta) for whole clients.

Two federations are neighbours if one client's data are replaced by any others. What is hidden is whether it was the
one or the other, from whoever sees every round's global model, but neither the single updates nor who took part.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from torch import nn

from noniid.algorithms.wrappers import Stack
from noniid.engine import BatchNorm, cohort_size
from noniid.errors import BadInput
from noniid.experiments.experiment import Experiment
from noniid.rows import Layout

Sampling = Literal["fixed", "poisson"]


def epsilon(
    multiplier: float, cohort: int, num_clients: int, rounds: int, delta: float, sampling: Sampling = "fixed"
) -> float:
    """epsilon of so many rounds of `uniform + clip(norm) + gaussian(multiplier, norm)`, by Renyi accounting.

    `fixed` is what a run does: cohorts of one size, drawn without replacement. One client replaced moves the sum by
    up to twice the norm, which is what the noise is measured against here. `poisson` is what papers mostly quote,
    though few draw so: each client takes part by a coin of its own, and neighbours have a client more or less. It
    comes out several times smaller, and no run here has earned it.
    """
    if not (multiplier >= 0 and 0 < cohort <= num_clients and rounds >= 0 and 0 < delta < 1):
        raise BadInput(
            "epsilon takes a multiplier >= 0, a cohort of 1 to all clients, rounds >= 0 and a delta between 0 and 1, "
            f"not {multiplier:g}, {cohort} of {num_clients}, {rounds}, {delta:g}."
        )
    if rounds == 0 or multiplier == 0:
        return math.inf if rounds else 0.0
    try:
        import dp_accounting as dp
    except ImportError:
        raise BadInput("epsilon needs the library dp-accounting: pip install 'noniid[privacy]'.") from None
    if sampling == "poisson":
        noise = dp.GaussianDpEvent(multiplier)
        return _composed(dp.PoissonSampledDpEvent(cohort / num_clients, noise), rounds, delta, "ADD_OR_REMOVE_ONE")
    noise = dp.GaussianDpEvent(multiplier / 2)
    drawn = dp.SampledWithoutReplacementDpEvent(num_clients, cohort, noise)
    everyone = dp.SampledWithoutReplacementDpEvent(num_clients, num_clients, noise)
    # Drawing never costs privacy, but where there is little noise the bound for it is the looser one.
    return min(_composed(event, rounds, delta, "REPLACE_ONE") for event in (drawn, everyone))


def _composed(event: Any, rounds: int, delta: float, relation: str) -> float:
    import dp_accounting as dp

    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation[relation])
    return float(accountant.compose(event, rounds).get_epsilon(delta))


def default_delta(num_clients: int) -> float:
    """Small beside one client's share of all clients.

    >>> default_delta(10), default_delta(100_000) < 1e-5
    (1e-05, True)
    """
    return min(1e-5, num_clients**-1.1)


def spent(experiment: Experiment, rounds: int) -> dict[str, Any]:
    """What so many rounds of a run with noise have spent, for its summary; in place of epsilon, why there is none."""
    noise = experiment.wrap.noise
    if noise is None or not rounds:
        return {}
    if not experiment.algorithm.only_mean:
        return {"no_epsilon": "the algorithm keeps more of its clients than the mean, where noise hides them"}
    if noise.multiplier == 0:
        return {"no_epsilon": "noise of multiplier 0 hides nothing"}
    try:
        clients = experiment.clients or _counted(experiment)
        delta = default_delta(clients)
        cohort = cohort_size(clients, experiment.participation)
        found = epsilon(noise.multiplier, cohort, clients, rounds, delta)
    except BadInput as error:
        return {"no_epsilon": str(error)}
    return {"epsilon": found, "delta": delta}


def _counted(experiment: Experiment) -> int:
    """How many clients its split makes of the data."""
    from noniid.experiments.prepare import place  # which imports this module

    return place(experiment).split.num_clients


def check_statistics(wrap: Stack, module: nn.Module, layout: Layout, bn: BatchNorm) -> None:
    """Noise is for what is trained; statistics of the data must not travel beside it."""
    buffers = sum(buffer.numel() for buffer in module.buffers())
    kept = int((layout.norm_places(module, bn) >= layout.num_trainable).sum())
    if wrap.noise and buffers > kept:
        raise BadInput(
            "gaussian hides what is trained, and this model also sends statistics of its clients' data: "
            "let BatchNorm keep them (bn=keep-statistics-local), or use a model without."
        )
