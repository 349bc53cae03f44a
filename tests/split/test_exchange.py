"""Our splits in other libraries, and theirs here: the same samples on both sides."""

import datasets
import numpy as np
import pytest
import torch
from flwr_datasets.partitioner import DirichletPartitioner, IidPartitioner, NaturalIdPartitioner
from torch.utils.data import TensorDataset

from noniid.errors import BadInput
from noniid.seeds import stream
from noniid.split import from_dict, from_subsets, parse, save, to_dict, to_subsets
from noniid.split.flower import FlowerPartitioner, from_flower

LABELS = np.arange(120) % 4
SPLIT = parse("dirichlet(1, min_size=2)").make(LABELS, 5, np.random.default_rng(0))


def hugging_face():
    names = np.array(["ant", "bee", "cat", "dog"])
    return datasets.Dataset.from_dict({
        "x": np.arange(120).tolist(), "label": LABELS.tolist(), "name": names[LABELS].tolist(),
        "writer": [f"w{i // 40}" for i in range(120)],
    })  # fmt: skip


def lists(split):
    return [held.tolist() for held in split.indices]


def test_dictionaries_there_and_back():
    assert lists(from_dict(to_dict(SPLIT))) == lists(SPLIT)
    assert lists(from_dict({"b": [3], "a": [1, 2]})) == [[3], [1, 2]]


def test_subsets_there_and_back():
    whole = TensorDataset(torch.arange(120), torch.from_numpy(LABELS))
    subsets = to_subsets(SPLIT, whole)
    assert [[int(x) for x, _ in subset] for subset in subsets] == lists(SPLIT)
    assert lists(from_subsets(subsets)) == lists(SPLIT)


@pytest.mark.parametrize(
    ("clients", "message"),
    [({}, "at least one sample"), ({0: [1], 1: []}, "at least one sample"), ({0: [1], 1: [1]}, "one client's alone"),
     ({0: [-1]}, "count from 0")],
)  # fmt: skip
def test_what_is_no_split(clients, message):
    with pytest.raises(BadInput, match=message):
        from_dict(clients)


# Flower


@pytest.mark.parametrize("label", ["label", "name"])
@pytest.mark.parametrize("text", ["iid", "dirichlet(0.5, min_size=2)", "labels(2)", "quantity(1)"])
def test_ours_in_flower(text, label):
    partitioner = FlowerPartitioner(text, 5, label=label, seed=3)
    partitioner.dataset = hugging_face()
    ours = parse(text).make(LABELS, 5, stream(3, "split"))
    assert partitioner.num_partitions == 5
    assert [partitioner.load_partition(i)["x"] for i in range(5)] == lists(ours)


def test_natural_clients_in_flower():
    partitioner = FlowerPartitioner("by(writer)")
    partitioner.dataset = hugging_face()
    assert partitioner.num_partitions == 3
    assert set(partitioner.load_partition(1)["writer"]) == {"w1"}


def test_a_saved_split_in_flower(tmp_path):
    save(SPLIT, tmp_path / "split.json")
    partitioner = FlowerPartitioner(str(tmp_path / "split.json"))
    partitioner.dataset = hugging_face()
    assert [partitioner.load_partition(i)["x"] for i in range(partitioner.num_partitions)] == lists(SPLIT)


def test_ours_partition_a_federated_dataset(monkeypatch):
    """As a user of Flower meets it; only the download is left out."""
    from flwr_datasets import FederatedDataset, federated_dataset

    monkeypatch.setattr(federated_dataset.datasets, "load_dataset",
                        lambda **_: datasets.DatasetDict({"train": hugging_face()}))  # fmt: skip
    federated = FederatedDataset(dataset="mnist", partitioners={"train": FlowerPartitioner("iid", 5)}, shuffle=False)
    assert sorted(x for i in range(5) for x in federated.load_partition(i)["x"]) == list(range(120))


@pytest.mark.parametrize(
    ("theirs", "num_clients"),
    [(IidPartitioner(4), 4), (DirichletPartitioner(6, "label", 0.5, min_partition_size=1, seed=1), 6),
     (NaturalIdPartitioner("writer"), 3)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_theirs_here(theirs, num_clients):
    split = from_flower(theirs, hugging_face())
    assert split.num_clients == num_clients
    assert sorted(np.concatenate(split.indices)) == list(range(120))
    assert [theirs.load_partition(i)["x"] for i in range(num_clients)] == lists(split)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FlowerPartitioner("iid + noise(0.1)", 5), "shifts features, which a partitioner cannot do"),
        (lambda: FlowerPartitioner("iid"), "needs a number of clients"),
        (lambda: FlowerPartitioner("iidd", 5), "did you mean 'iid'"),
    ],
)
def test_refused(make, message):
    with pytest.raises(BadInput, match=message):
        make()


def test_a_label_that_is_not_there():
    partitioner = FlowerPartitioner("iid", 5, label="lable")
    partitioner.dataset = hugging_face()
    with pytest.raises(BadInput, match="there is no column 'lable': give label, one of x, label, name, writer"):
        partitioner.load_partition(0)
