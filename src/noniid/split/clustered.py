"""Feature skew made on purpose: samples that look alike are found by k-means, and clients differ in what they hold.

N clients, n samples, K classes, d features.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import Draws
from noniid.split.base import Placement
from noniid.split.dealing import check_positive, deal_out, pools, sort_by_class
from noniid.split.population import draw_mixes, fill
from noniid.split.traits import Ints, Traits

FITTED = 20_000  # samples that k-means sees; all are then given to the nearest centre
CHUNK = 4_096  # samples whose features are held at once


@dataclass(frozen=True)
class Clustered(Placement):
    """Samples are clustered by their features, and every client draws equally many from cluster mixes ~ Dir(beta).

    within       "label": each label's samples are clustered by themselves and every client holds an equal share of
                 each label, so that labels show nothing and all skew is hidden in the features.
                 "all": all samples are clustered together; clients then differ in labels as far as clusters do.
    embeddings   an .npy file [n, d] to cluster by, in the order of the training data; none: the raw features.

    beta is every cluster's Dirichlet parameter: near 0 a client sees one cluster. What does not come out even is
    dropped, and counted in `Split.num_dropped`.
    """

    clusters: int
    beta: float = 0.1
    within: Literal["label", "all"] = "label"
    embeddings: str | None = None

    def check(self) -> None:
        if self.clusters < 1:
            raise BadInput(f"clustered needs at least one cluster, not {self.clusters}.")
        check_positive("clustered's beta", self.beta)
        if self.within not in ("label", "all"):
            raise BadInput(f"clustered's within is label or all, not {self.within!r}.")

    def deal(self, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        traits = self._embedded(traits)
        everything = np.arange(len(traits), dtype=np.int64)
        by_class, class_sizes = sort_by_class(traits.labels)
        groups = pools(by_class, class_sizes) if self.within == "label" else [everything]
        held: list[list[Ints]] = [[] for _ in range(num_clients)]
        for group in groups:
            for mine, part in zip(held, self._dealt(group, traits, num_clients, draws)):
                mine.append(part)
        return [np.concatenate(parts) for parts in held]

    def _dealt(self, group: Ints, traits: Traits, num_clients: int, draws: Draws) -> Sequence[Ints]:
        """An equal share of the group for each client, from clusters that are mostly its own."""
        size = len(group) // num_clients
        if not size:
            return [group[:0]] * num_clients
        order, cluster_sizes = sort_by_class(self._clusters(group, traits, draws))
        by_cluster = group[order]
        for pool in pools(by_cluster, cluster_sizes):
            draws.shuffle(pool)
        prior = np.full(len(cluster_sizes), 1 / len(cluster_sizes))
        mixes = draw_mixes(self.beta * len(prior), prior, num_clients, draws)
        return deal_out(by_cluster, cluster_sizes, fill(cluster_sizes, mixes, np.full(num_clients, size), draws))

    def _clusters(self, group: Ints, traits: Traits, draws: Draws) -> Ints:
        """The cluster of each sample of the group; those that nobody is in are not counted."""
        from sklearn.cluster import MiniBatchKMeans  # pyright: ignore[reportMissingTypeStubs]
        from sklearn.exceptions import ConvergenceWarning  # pyright: ignore[reportMissingTypeStubs]
        from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

        seen = group[draws.permutation(len(group))[:FITTED]]
        seed = int(draws.integers(1 << 31))
        settings: dict[str, Any] = {"n_init": 3, "batch_size": 2_048, "random_state": seed}
        means: Any = MiniBatchKMeans(min(self.clusters, len(seen)), **settings)
        chunks: list[Ints] = np.split(group, range(CHUNK, len(group), CHUNK))
        # One thread, so that sums are the same on any machine; samples that are all alike are fewer clusters.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            means.fit(traits.rows(seen))
            found = np.concatenate([means.predict(traits.rows(chunk)) for chunk in chunks])
        return np.unique(found, return_inverse=True)[1].astype(np.int64)

    def _embedded(self, traits: Traits) -> Traits:
        """The samples with their embeddings for features."""
        if self.embeddings is None:
            return traits
        try:
            rows = np.load(Path(self.embeddings), mmap_mode="r")
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot read embeddings from {self.embeddings}: {error}.") from None
        if rows.ndim != 2 or len(rows) != len(traits):
            shape = " x ".join(f"{size:,}" for size in rows.shape)
            raise BadInput(f"{self.embeddings} is {shape}: it needs a row for each of the {len(traits):,} samples.")
        return Traits(traits.labels, traits.columns, lambda index: rows[index])
