"""As published: every place where a paper's code departed from its text, switched to what the code did.

By default noniid runs what the papers say; these presets run what their numbers came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from noniid.algorithms import Algorithm
from noniid.algorithms.fednova import FedNova
from noniid.algorithms.scaffold import Scaffold
from noniid.experiments.experiment import Experiment
from noniid.split import Dirichlet, Labels, Noise, Placement, Recipe, Shift

TWO_CLASS_TABLES = ("adult", "rcv1", "covtype")


def niid_bench(experiment: Experiment, *, version: str = "v2") -> Experiment:
    """NIID-Bench's published runs: partitions, noise, SCAFFOLD and FedNova as its code had them at the time."""
    placement = _placement(experiment.split.placement, experiment.data)
    shifts = tuple(_shift(shift) for shift in experiment.split.shifts)
    return replace(
        experiment,
        split=Recipe(placement, shifts),
        algorithm=_algorithm(experiment.algorithm, version),
        draws="published",
    )


def _placement(placement: Placement, data: str) -> Placement:
    if isinstance(placement, Dirichlet):
        return replace(placement, seed=2020)  # the code seeded itself anew here, so all trials share a partition
    if isinstance(placement, Labels) and data in TWO_CLASS_TABLES:
        return replace(placement, k=1)  # whatever was asked for
    return placement


def _shift(shift: Shift) -> Shift:
    return replace(shift, scale="std", test=True) if isinstance(shift, Noise) else shift


def _algorithm(algorithm: Algorithm, version: str) -> Algorithm:
    if isinstance(algorithm, Scaffold):
        return replace(algorithm, variates="random-net", share="cohort", correct="after-step")
    if isinstance(algorithm, FedNova):
        # The first version took a_i = tau_i; both weighted by batches.
        return replace(algorithm, steps="count" if version == "v1" else "effective", weights="batches")
    return algorithm


PRESETS: Mapping[str, Callable[[Experiment], Experiment]] = {
    "niid-bench": niid_bench,
    "niid-bench-v1": lambda experiment: niid_bench(experiment, version="v1"),
}
