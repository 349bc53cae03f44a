"""Stacked clients: what can be stacked is, in bundles that memory has room for; what cannot trains alone and says why."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid import models
from noniid.algorithms import ALGORITHMS, Algorithm, Wave
from noniid.algorithms.fedavg import FedAvg
from noniid.data import Dataset, Samples
from noniid.data.dataset import SparseRows
from noniid.engine import Diverged, Stopped, Task, stackable, start_engine
from noniid.engine.batched import Batched
from noniid.engine.dense import Dense
from noniid.engine.descending import Descending
from noniid.engine.programs import program_for
from noniid.engine.replica import Replica
from noniid.engine.steps import steps
from noniid.engine.threads import Threads
from noniid.engine.walk import walk_of
from noniid.models import fused
from noniid.models.dense import DenseNet
from noniid.optim import SGD
from noniid.rows import Layout
from noniid.split import Noise, Split
from tests.contract import problems
from tests.contract.variants import VARIANTS
from tests.engine.test_randomness import Dropping

CLOSE: dict[str, Any] = {"rtol": 2e-4, "atol": 2e-5}
MLP = models.parse("mlp(torch)")
WORK: list[dict[str, Any]] = [
    {"drop_last": True},
    {"steps": 7},
    {"steps": 5, "drop_last": True, "batch": 16},
    {"batch": 200},
    {"batch": 1, "epochs": 1},
    {"augment": "crop-flip"},
]


def agree(algorithm: Algorithm, task: Task, **how: Any) -> None:
    """One round of both engines; a second one would tell rounding errors apart."""
    fast, slow = (
        problems.run(algorithm, task, rounds=1, engine=engine, **how)[-1] for engine in ("batched", "reference")
    )
    problems.same(fast.state, slow.state, **CLOSE)
    assert fast.train_loss == pytest.approx(slow.train_loss, rel=1e-4)


def refusal(algorithm: Algorithm, task: Task) -> str | None:
    """Why a wave of all clients is not stacked."""
    told: list[str | None] = []

    class Watched(Batched):
        def train(self, algorithm: Algorithm, wave: Wave) -> Wave:
            told.append(self.refusal(algorithm, wave))
            return super().train(algorithm, wave)

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(problems.start_engine.__globals__["ENGINES"], "batched", Watched)
        problems.run(algorithm, task, rounds=1, engine="batched")
    return told[0]


# Everything of ours is stacked


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("net", [None, MLP], ids=["convolution and batchnorm", "dense"])
def test_every_algorithm_is_stacked(text: str, net: Any) -> None:
    assert refusal(ALGORITHMS.parse(text), problems.task(net, epochs=1)) is None


@pytest.mark.parametrize("text", ["fedavg", "scaffold", "fedprox(1)", "moon", "rfedavg_plus"])
@pytest.mark.parametrize("work", WORK, ids=str)
@pytest.mark.parametrize("net", [None, MLP], ids=["convolution and batchnorm", "dense"])
def test_work_of_any_shape(text: str, work: dict[str, Any], net: Any) -> None:
    if net is None and work.get("batch") == 1:
        work = {**work, "batch": 2}  # BatchNorm needs two
    agree(ALGORITHMS.parse(text), problems.task(net, **work))


@pytest.mark.parametrize("text", ["fedavg", "moon"])
def test_shifts_on_a_dense_model(text: str) -> None:
    noisy = Split(problems.unequal_split(problems.dataset()).indices, (Noise(0.5),))
    agree(ALGORITHMS.parse(text), problems.task(MLP, split=noisy))


@pytest.mark.parametrize("text", ["fedavg", "fedprox"])
def test_sparse_tables(text: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    plain = problems.task(MLP)
    dense = plain.dataset.train.batch(torch.arange(120)).flatten(1) * (torch.arange(64) % 3 == 0)
    train = Samples(SparseRows.of(sparse.csr_matrix(dense.numpy())), plain.dataset.train.y)
    table = Dataset("table", train, train, problems.NUM_CLASSES, "none")
    agree(ALGORITHMS.parse(text), replace(plain, dataset=table))


def _otherwise(program: Any) -> Any:
    """What is left where compiled code cannot do it."""
    return program.otherwise if isinstance(program, Descending) else program


def test_the_dense_program_is_taken_where_it_fits_and_gives_autograds_numbers() -> None:
    """Frozen layers go through vmap."""
    task = problems.task(MLP)
    layout = Layout.of(task.model)
    assert isinstance(_otherwise(program_for(Replica(task, layout), FedAvg())), Dense)
    next(task.model.parameters()).requires_grad_(False)
    frozen = Replica(task, Layout.of(task.model))
    assert not isinstance(_otherwise(program_for(frozen, FedAvg())), Dense)
    agree(FedAvg(), task)


@pytest.mark.parametrize("text", ["fedavg", "fedprox", "scaffold", "moon"])
@pytest.mark.parametrize("work", [{}, {"augment": "crop-flip"}, {"steps": 5}, {"drop_last": True, "batch": 7}], ids=str)
@pytest.mark.parametrize("compiled", [True, False])
def test_with_and_without_compiled_code(text: str, work: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(fused, "kernels", lambda: None)
    agree(ALGORITHMS.parse(text), problems.task(MLP, **work))


class Mirrored(Samples):
    """Reads a sample in a way of its own."""

    def batch(self, index: Tensor) -> Tensor:
        return super().batch(index).flip(-1)


@pytest.mark.parametrize("engine", ["threads", "reference"])
def test_samples_that_are_read_in_a_way_of_their_own_are(engine: str) -> None:
    """No compiled visit reads past them; flipping beforehand comes to the same."""
    task = problems.task(MLP)
    train = task.dataset.train
    own, before = Mirrored(train.x, train.y, train.scale), Samples(train.x.flip(-1).contiguous(), train.y, train.scale)
    assert walk_of(FedAvg(), task.work.optim, replace(task, dataset=replace(task.dataset, train=own))) is None
    a, b = (
        problems.run(FedAvg(), replace(task, dataset=replace(task.dataset, train=each)), rounds=2, engine=engine)
        for each in (own, before)
    )
    problems.same(a[-1].state, b[-1].state, **CLOSE)


def test_visits_in_compiled_code_are_left_to_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing between the steps; a correction is something."""
    alone: list[str] = []
    train = Threads.train

    def noting(self: Threads, algorithm: Any, wave: Any) -> Any:
        alone.append(type(algorithm).__name__)
        return train(self, algorithm, wave)

    monkeypatch.setattr(Threads, "train", noting)
    for text in ("fedavg", "fedprox", "fednova"):
        problems.run(ALGORITHMS.parse(text), problems.task(MLP), rounds=1, engine="batched")
    assert alone == ["FedAvg", "FedNova"]


def test_a_dense_net_with_other_layers_goes_through_vmap() -> None:
    """Layers in place of ours, and one layer used twice."""
    other, shared = (DenseNet((64, 16, 16, problems.NUM_CLASSES)) for _ in range(2))
    other.layers[1] = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    shared.layers = nn.ModuleList([*shared.layers[:2], shared.layers[1], shared.layers[2]])
    for net in (other, shared):
        assert not Dense.fits(net, Layout.of(net))
        agree(FedAvg(), problems.task(net))


@pytest.mark.parametrize("engine", ["threads", "batched"])
def test_comparing_models_leaves_a_layer_used_twice_as_it_was(engine: str) -> None:
    net = DenseNet((64, 16, 16, problems.NUM_CLASSES))
    net.layers = nn.ModuleList([*net.layers[:2], net.layers[1], net.layers[2]])
    a, b = (
        problems.run(ALGORITHMS.parse("moon"), problems.task(net), rounds=1, engine=each)[-1].state
        for each in (engine, "reference")
    )
    problems.same(a, b, **CLOSE)


# Bundles


@pytest.mark.parametrize("net", [None, MLP], ids=["convolution and batchnorm", "dense"])
@pytest.mark.parametrize("room", [1, 200_000, 1 << 40])
def test_bundles_hold_what_there_is_room_for(net: Any, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stackable, "CPU_BYTES", room)
    task = problems.task(net, keep_optim=True)
    agree(FedAvg(), task)
    one, three = (problems.run(FedAvg(), task, workers=workers, engine="batched") for workers in (1, 3))
    problems.same(one[-1].state, three[-1].state)


def test_a_bundle_is_cut_by_bytes_and_a_wave_into_two_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    task = problems.task(MLP)
    judge = stackable.Stackable(task, Layout.of(task.model))
    wave: Any = type("W", (), {"steps": torch.tensor([1, 5, 3, 2, 4, 9])})
    assert judge.bundles(wave) == [[5, 4, 3], [1, 2, 0]]
    monkeypatch.setattr(stackable, "CPU_BYTES", 2 * judge.bytes_a_client)
    assert judge.bundles(wave) == [[5, 2], [1, 3], [4, 0]]
    monkeypatch.setattr(stackable, "CPU_BYTES", 1)
    assert judge.bundles(wave) == [[5], [1], [4], [2], [3], [0]]


def test_bytes_of_a_client_grow_with_its_batch() -> None:
    few, many = (
        stackable.Stackable(problems.task(MLP, batch=batch), Layout.of(problems.task(MLP).model)).bytes_a_client
        for batch in (8, 80)
    )
    assert many - few > 72 * 4 * 64  # the inputs alone


@pytest.mark.parametrize("batch", [7, 60, 500])
def test_steps_are_the_tasks_own_batches(batch: int) -> None:
    task = problems.task(MLP, batch=batch, epochs=3)
    stacked = steps(task, task.dataset.train, _visits(task))
    alone = [list(task.batches(visit.client, visit.clock)) for visit in _visits(task)]
    for k, step in enumerate(stacked):
        taken = [batches[k] for batches in alone if len(batches) > k]
        assert step.lengths == [len(each.y) for each in taken]
        for c, each in enumerate(taken):
            n = len(each.y)
            assert torch.equal(step.x[c, :n], each.x) and torch.equal(step.y[c, :n], each.y)
            torch.testing.assert_close(step.weights[c], F.pad(torch.full((n,), 1 / n), (0, step.x.shape[1] - n)))


def _visits(task: Task) -> Any:
    from noniid.engine.steps import Visit

    counts = task.steps(torch.arange(task.num_clients)).tolist()
    return [Visit(i, 1, counts[i]) for i in np.argsort(counts)[::-1].tolist()]


# What is not stacked


class Counting(nn.Module):
    """Looks at its values, as nothing that stands for many can be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, problems.NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        z = self.last(x.flatten(1))
        return z * 2 if float(z.detach().sum()) > 0 else z


class Sly(Counting):
    """Notices that it is stacked, and says something else."""

    def forward(self, x: Tensor) -> Tensor:
        z = self.last(x.flatten(1))
        return 3 * z if torch._C._functorch.is_functorch_wrapped_tensor(z) else z  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Looks(Algorithm):
    def loss(self, out: Any, batch: Any, local: Any) -> Tensor:
        usual = F.cross_entropy(out.logits, batch.y)
        return usual * 2 if float(usual.detach()) > 1 else usual


@pytest.mark.parametrize(
    ("net", "algorithm", "reason"),
    [
        (Dropping(), FedAvg(), "draws random numbers of its own"),
        (Counting(), FedAvg(), "torch.vmap cannot map"),
        (Sly(), FedAvg(), "something else than alone"),
        (MLP, Looks(), "torch.vmap cannot map"),
        (models.parse("lstm(8)"), FedAvg(), "torch.vmap cannot map"),
    ],
    ids=["dropout", "a look at values", "sly", "a loss that looks", "lstm"],
)
def test_what_cannot_be_stacked_trains_alone_and_says_why(net: Any, algorithm: Algorithm, reason: str) -> None:
    task = problems.task(net)
    assert reason in (refusal(algorithm, task) or "")
    agree(algorithm, task)


class MeanFree(nn.Module):
    """A model of one's own that looks at the whole batch and has a parameter that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, problems.NUM_CLASSES)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return self.last(x - x.mean(0))


def test_a_model_that_looks_at_its_batch_is_stacked_all_the_same() -> None:
    task = problems.task(MeanFree())
    assert refusal(FedAvg(), task) is None
    agree(FedAvg(), task)


# Stopping and diverging


@pytest.mark.parametrize("net", [None, MLP], ids=["convolution and batchnorm", "dense"])
def test_it_stops_within_a_step(net: Any) -> None:
    engine = start_engine("batched", problems.task(net), 2)
    engine.stop = threading.Event()
    engine.stop.set()
    with pytest.raises(Stopped):
        _one_round(engine)
    engine.close()


def _one_round(engine: Any) -> None:
    from noniid.engine import Schedule, begin, simulate

    members = problems.federation(engine.task)
    state = begin(FedAvg(), problems.initial(engine.task), members)
    next(simulate(engine, FedAvg(), state, members, Schedule(1, 5)))


def test_only_clients_that_diverge_are_named() -> None:
    """Side by side, one client's loss never enters another's."""
    data = problems.dataset()
    x = data.train.x.to(torch.float32) / 255
    split = problems.unequal_split(data)
    x[split.indices[2]] = float("inf")
    task = replace(problems.task(MLP, optim=SGD(0.01)), dataset=replace(data, train=Samples(x, data.train.y)))
    for engine in ("batched", "threads"):
        with pytest.raises(Diverged, match="loss of client 2 is not finite"):
            problems.run(FedAvg(), task, engine=engine)
