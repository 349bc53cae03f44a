"""What NIID-Bench advises for each kind of skew: its decision tree (v2, figure 7), in the words that explain it.

The tree follows from the paper's own tables, so it speaks of FedAvg, FedProx, SCAFFOLD and FedNova alone, and for mixed
skew from the three cells of table 5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    algorithm: str
    path: tuple[str, ...]  # the questions on the way and their answers
    reason: str
    source: str


@dataclass(frozen=True)
class Branch:
    kinds: frozenset[str]
    algorithm: str
    reason: str
    source: str


_OVERALL, _MIXED = "section V-A, finding 2", "table 5"
_BRANCHES = (
    Branch(
        frozenset(), "fedavg", "without skew the four are within a point or two of each other, and FedAvg costs least",
        "table 3, homogeneous partition",
    ),
    Branch(frozenset({"label"}), "fedprox", "in label skew FedProx usually has the best accuracy", _OVERALL),
    Branch(frozenset({"feature"}), "scaffold", "in feature skew SCAFFOLD usually has the best accuracy", _OVERALL),
    Branch(frozenset({"quantity"}), "fedprox", "in quantity skew FedProx usually has the best accuracy", _OVERALL),
    Branch(
        frozenset({"label", "feature"}), "scaffold", "with labels and features skewed SCAFFOLD was best, by 1.7 points",
        _MIXED,
    ),
    Branch(
        frozenset({"feature", "quantity"}), "fedprox",
        "quantity skew on top of feature skew undoes SCAFFOLD and FedNova; FedProx was best, by 0.1 points", _MIXED,
    ),
    Branch(
        frozenset({"label", "quantity"}), "fedprox",
        "FedProx is usually best for each of the two; for both together the paper has no cell", _OVERALL,
    ),
    Branch(
        frozenset({"label", "feature", "quantity"}), "fedprox",
        "quantity skew undoes SCAFFOLD and FedNova; for all three together the paper has no cell", _MIXED,
    ),
)  # fmt: skip


def advise(kinds: Collection[str], labels_per_client: float, participation: float = 1.0) -> Advice:
    """The leaf of the tree that these clients come to.

    >>> advise(["feature"], 10).algorithm, advise(["feature"], 10, participation=0.1).algorithm
    ('scaffold', 'fedprox')
    """
    [branch] = [each for each in _BRANCHES if each.kinds == frozenset(kinds)]
    path = [f"{kind} skew? {'yes' if kind in kinds else 'no'}" for kind in ("label", "feature", "quantity")]
    algorithm, reason, source = branch.algorithm, branch.reason, branch.source
    if "label" in kinds and labels_per_client < 1.5:
        path.append("about one label a client? yes")
        algorithm, source = "fedprox", _OVERALL
        reason = "where clients hold a single label each FedProx can be far better than the others"
    if algorithm == "scaffold" and participation < 1:
        path.append("do all clients take part in every round? no")
        algorithm, source = "fedprox", "section V-D, finding 6"
        reason = "where only some clients take part in a round SCAFFOLD cannot work effectively"
    return Advice(algorithm, tuple(path), reason, source)
