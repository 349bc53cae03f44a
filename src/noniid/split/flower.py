"""Our splits as partitioners of Flower Datasets, and any partitioner of theirs as a split.

N clients: Flower calls them partitions.
"""
# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np

from noniid.errors import BadInput
from noniid.seeds import stream
from noniid.split.base import Split
from noniid.split.exchange import from_dict
from noniid.split.recipe import parse
from noniid.split.traits import Traits

try:
    from flwr_datasets.partitioner import Partitioner
except ImportError:
    raise BadInput("Flower's partitioners need flwr-datasets: pip install 'noniid[flower]'.") from None

INDEX = "index in noniid"


class FlowerPartitioner(Partitioner):
    """A split as Flower Datasets take it: `FlowerPartitioner("dirichlet(0.5)", 10, label="label")`.

    The same seed gives the samples that `noniid split --seed` gives. Shifts are of features as a model sees them, which
    a partitioner does not touch: a split with shifts is refused.
    """

    def __init__(self, split: str, num_clients: int | None = None, *, label: str = "label", seed: int = 0):
        super().__init__()
        self._recipe = parse(split)
        if self._recipe.shifts:
            raise BadInput(f"{split} shifts features, which a partitioner cannot do: leave the shifts out.")
        if num_clients is None and not self._recipe.placement.own_count:
            raise BadInput(f"{split} needs a number of clients: give num_clients.")
        self._num_clients, self._label, self._seed = num_clients, label, seed
        self._split: Split | None = None

    @property
    def num_partitions(self) -> int:
        return self.split.num_clients

    def load_partition(self, partition_id: int) -> Any:
        return self.dataset.select(self.split.indices[partition_id])

    @property
    def split(self) -> Split:
        """Made at first use, when the data are known."""
        if self._split is None:
            data, placement = self.dataset, self._recipe.placement
            if self._label not in data.column_names:
                raise BadInput(
                    f"there is no column {self._label!r}: give label, one of {', '.join(data.column_names)}."
                )
            _, labels = np.unique(np.asarray(data[self._label]), return_inverse=True)
            # Columns of images or texts are nobody's clients, and reading them would take long.
            columns = {n: np.asarray(data[n]) for n in data.column_names if n == getattr(placement, "column", None)}
            draws = stream(self._seed, "split")
            self._split = self._recipe.make(Traits(labels, columns), self._num_clients, draws)
        return self._split


def from_flower(partitioner: Partitioner, dataset: Any) -> Split:
    """The split that a partitioner of Flower Datasets, still without data, makes of a Hugging Face data set."""
    partitioner.dataset = dataset.add_column(INDEX, np.arange(len(dataset)))
    return from_dict({i: partitioner.load_partition(i)[INDEX] for i in range(partitioner.num_partitions)})
