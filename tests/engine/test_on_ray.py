"""The cluster's numbers are those of threads, whoever is lost; what goes wrong is one sentence."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import noniid
from noniid.algorithms import ALGORITHMS, Algorithm, Local
from noniid.algorithms.fedavg import FedAvg
from noniid.data import Dataset, Samples
from noniid.data.dataset import SparseRows
from noniid.engine import Carry, OnRay, Schedule, Stopped, Task, begin, evaluate, simulate, start_engine
from noniid.engine import cluster as cluster_module
from noniid.engine.cluster import Worker
from noniid.engine.connect import _begun, cluster
from noniid.engine.hand import Greeting, Hand, Parcel, Place
from noniid.engine.jobs import shares
from noniid.errors import BadInput
from noniid.split import Noise, Split
from tests.contract import problems
from tests.contract.variants import VARIANTS


def _equal(algorithm: Algorithm, task: Task, **how: Any) -> None:
    """As threads, to the bit, and evaluated alike."""
    known = problems.run(algorithm, task, **how)
    for workers in (1, 3):
        found = problems.run(algorithm, task, engine="ray", workers=workers, **how)
        problems.same(known[-1].state, found[-1].state)
        assert [(r.train_loss, r.evaluation.loss) for r in known] == [(r.train_loss, r.evaluation.loss) for r in found]  # type: ignore[union-attr]


# The same bits


@pytest.mark.parametrize("text", VARIANTS)
def test_every_variant_has_the_bits_of_threads(text: str) -> None:
    _equal(ALGORITHMS.parse(text), problems.task(epochs=1), rounds=2, cohort=3)


@pytest.mark.parametrize("text", ["fedavg", "fednova(count)", "fedasync(max_staleness=3)", "rfedavg_plus"])
def test_so_it_has_with_all_that_clients_keep(text: str) -> None:
    plain = problems.unequal_split(problems.dataset())
    noisy = Split(plain.indices, (Noise(0.5, test=True),))
    for bn in ("average", "local"):
        task = problems.task(split=noisy, bn=bn, keep_optim=True, lr_decay=0.9, wrap="uniform + clip(1)")
        _equal(ALGORITHMS.parse(text), task, rounds=2, cohort=4)


def test_questions_are_answered_alike() -> None:
    task, ids = problems.task(), torch.tensor([4, 0, 2])
    here, there = start_engine("threads", task, 1), start_engine("ray", task, 2)
    w = problems.initial(task)
    rows = w + 0.01 * torch.arange(3).unsqueeze(1)
    for model in (w, rows):
        for question in ("loss", "grad", "features", "batch_features", "squared_grad_norm"):
            answers = [getattr(engine.ask(ids, 3), question)(model) for engine in (here, there)]
            assert torch.equal(*answers), question
    assert torch.equal(evaluate(here, w).correct, evaluate(there, w).correct)
    here.close()


# Messages


@given(st.lists(st.integers(1, 1000), max_size=60), st.integers(1, 9))
def test_messages_hold_everyone_once_and_the_heaviest_first(weights: list[int], workers: int) -> None:
    dealt = shares(weights, workers)
    assert sorted(i for share in dealt for i in share) == list(range(len(weights)))
    order = [weights[i] for share in dealt for i in share]
    assert order == sorted(weights, reverse=True)
    left = sum(weights)
    for share in dealt:
        held = sum(weights[i] for i in share)
        assert len(share) == 1 or held <= max(left / (2 * workers), sum(weights) / (16 * workers))
        left -= held


class Watched:
    """A worker's door that counts what goes through."""

    def __init__(self) -> None:
        self.fetched: Counter[Any] = Counter()

    def __call__(self, thing: Any) -> Any:
        self.fetched[type(thing).__name__] += 1
        return thing


def test_a_worker_fetches_a_task_once_and_a_job_once() -> None:
    door = Watched()
    hand, place = Hand(door), Place(1, (Parcel.of(problems.task()),))
    for number in (1, 1, 1, 2):
        assert hand.work(number, (_sizes(place),), 2) == 17
    assert door.fetched == {"Parcel": 1, "_sizes": 2}
    for other in range(2, 5):
        hand.work(other + 1, (_sizes(Place(other, place.reference)),), 0)
    assert len(hand._engines) == 2


@dataclass(eq=False)
class _sizes:
    place: Place

    def __call__(self, hand: Hand, client: int) -> int:
        return int(hand.engine(self.place).task.sizes(torch.tensor([client])))


@pytest.mark.parametrize("kind", ["images", "sparse"])
def test_a_task_that_was_sent_holds_the_same_data(kind: str) -> None:
    scipy = pytest.importorskip("scipy.sparse")
    task = problems.task()
    if kind == "sparse":
        x = task.dataset.train.batch(torch.arange(120)).flatten(1)
        train = Samples(SparseRows.of(scipy.csr_matrix(x.numpy())), task.dataset.train.y, 2.0)
        task = replace(task, dataset=Dataset("table", train, train, problems.NUM_CLASSES, "none"))
    sent = Parcel.of(task).unpacked()
    for known, found in ((task.dataset.train, sent.dataset.train), (task.dataset.test, sent.dataset.test)):
        everyone = torch.arange(len(known))
        assert torch.equal(known.batch(everyone), found.batch(everyone)) and torch.equal(known.y, found.y)
    assert np.array_equal(sent.split.sizes, task.split.sizes) and sent.work == task.work


# Lost workers


@dataclass(frozen=True)
class Deadly(Algorithm):
    """Kills its own process in the middle of a client, as often as there are bullets in the folder."""

    folder: str = ""
    client_steps: int = 2

    def grad(self, g: Tensor, local: Local) -> Tensor:
        for bullet in Path(self.folder).iterdir() if self.folder else ():
            try:
                bullet.unlink()
            except FileNotFoundError:  # another process was faster
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return g


@pytest.mark.parametrize(("bullets", "workers"), [(1, 1), (1, 2), (3, 2)])
def test_clients_of_a_killed_worker_are_trained_again(tmp_path: Path, bullets: int, workers: int) -> None:
    known = problems.run(FedAvg(), problems.task(), rounds=2)
    for number in range(bullets):
        (tmp_path / str(number)).touch()
    pids = {worker.pid for worker in cluster(workers).workers[:workers]}
    found = problems.run(Deadly(str(tmp_path)), problems.task(), rounds=2, engine="ray", workers=workers)
    assert not list(tmp_path.iterdir())
    assert {worker.pid for worker in cluster(workers).workers[:workers]} != pids
    problems.same(known[-1].state, found[-1].state)


def test_a_wave_that_kills_whoever_trains_it_ends_with_a_sentence(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()
    with pytest.raises(BadInput, match="4 workers were lost over the same clients"):
        problems.run(Deadly(str(tmp_path)), problems.task(), rounds=1, engine="ray", workers=1)
    problems.run(FedAvg(), problems.task(), rounds=1, engine="ray", workers=1)  # the next one has workers again


# Stopping


@dataclass(frozen=True)
class Slow(Algorithm):
    """A step takes a while, and tells that it was taken."""

    folder: str = ""

    def grad(self, g: Tensor, local: Local) -> Tensor:
        Path(self.folder, "step").touch()
        time.sleep(0.05)
        return g


def test_a_wave_stops_within_a_step_and_the_workers_are_free_again(tmp_path: Path) -> None:
    task = problems.task(epochs=1000)
    engine = start_engine("ray", task, 2)
    federation = problems.federation(task)
    algorithm = Slow(str(tmp_path))
    state = begin(algorithm, problems.initial(task), federation, Carry.of(task, engine.layout))

    def stop_once_it_has_begun() -> None:
        while not (tmp_path / "step").exists():
            time.sleep(0.01)
        engine.stop.set()

    threading.Thread(target=stop_once_it_has_begun, daemon=True).start()
    with pytest.raises(Stopped):  # all steps would take an hour
        next(simulate(engine, algorithm, state, federation, Schedule(1, federation.cohort)))
    assert torch.equal(state.w, problems.initial(task))
    assert not any(worker.in_hand for worker in cluster(2).workers)
    problems.run(FedAvg(), problems.task(epochs=1), rounds=1, engine="ray", workers=2)


# What goes wrong


@dataclass(frozen=True)
class Failing(Algorithm):
    kind: str = "bad input"

    def grad(self, g: Tensor, local: Local) -> Tensor:
        if self.kind == "bad input":
            raise BadInput("mend this.")
        return g[:, None, None] @ g


@pytest.mark.parametrize(("kind", "error"), [("bad input", BadInput), ("bug", RuntimeError)])
def test_what_a_client_raises_is_raised_here(kind: str, error: type[Exception]) -> None:
    for _ in range(3):
        with pytest.raises(error) as raised:
            problems.run(Failing(kind), problems.task(), rounds=1, engine="ray", workers=2)
        assert type(raised.value) is error and "\n" not in str(raised.value)
    assert not any(worker.in_hand for worker in cluster(2).workers)


def test_without_the_package_a_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadInput, match=r"needs the package ray: pip install 'noniid\[ray\]'\.$"):
        start_engine("ray", problems.task())


@pytest.mark.parametrize(
    ("task", "workers", "sentence"),
    [
        (problems.task(), 0, "workers is 0: give 1 or more"),
        (replace(problems.task(), device="cuda"), 1, "not on cuda: use --device cpu"),
    ],
)
def test_what_cannot_be_is_refused(task: Task, workers: int, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        OnRay(task, workers)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("nowhere", "'nowhere' is no address: give host:port"),
        ("ray://127.0.0.1:1", "noniid runs on a machine of the cluster, not as a client of it"),
        ("127.0.0.1:1", "nobody answers at 127.0.0.1:1"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_one_sentence(
    address: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(BadInput) as raised:
        _begun(ray)
    assert str(raised.value).startswith(f"cannot reach a Ray cluster ({sentence}): see ")


def test_workers_of_another_version_are_refused() -> None:
    import ray

    joined = cluster(1)
    for greeting, sentence in (
        (Greeting(1, "far", "0.0.1", torch.__version__), f"far has noniid 0.0.1 and here it is {noniid.__version__}"),
        (Greeting(1, "far", noniid.__version__, "1.0"), "far has torch 1.0 and here it is"),
    ):
        with pytest.raises(BadInput, match=sentence):
            joined.welcome(Worker(None, ray.put(greeting)))


def test_more_workers_than_a_joined_cluster_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = cluster(1)
    monkeypatch.setattr(joined, "_joined", True)
    monkeypatch.setattr(joined, "size", 2)
    with pytest.raises(BadInput, match="has 2 processors: ask for as many workers, not 5"):
        joined.ensure(5)


def test_workers_that_never_start_are_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    @ray.remote
    def never() -> None:
        time.sleep(60)

    found = cluster(1)
    monkeypatch.setattr(found, "workers", [Worker(None, never.options(num_cpus=0).remote())])
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(BadInput, match="no worker of the Ray cluster has started for"):
        list(found.work(None, [[0]], list, 1))
