"""Runs whose data say how many clients there are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from noniid.algorithms.wrappers import Stack
from noniid.data import Dataset, load
from noniid.errors import BadInput
from noniid.experiments import prepare as prepare_module
from noniid.experiments.check import check
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import place, prepare
from noniid.experiments.privacy import default_delta, spent
from noniid.experiments.request import request
from noniid.experiments.runner import run

WRITERS = 7


@pytest.fixture(autouse=True)
def by_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """digits, with a writer for each of the training samples."""
    known = load("digits")
    columns = {"writer": np.arange(len(known.train)) % WRITERS}
    written = Dataset("digits", replace(known.train, columns=columns), known.test, 10, "none")
    monkeypatch.setattr(prepare_module, "_load_own", lambda name, seed: written)


def experiment(split: str, **given: object) -> Experiment:
    return request("digits", [split], rounds=1, epochs=1, **given)[0]


def test_the_data_say_how_many_clients_there_are() -> None:
    ready = prepare(experiment("by(writer)", participation=0.5))
    assert ready.task.num_clients == ready.federation.num_clients == WRITERS
    assert ready.federation.cohort == 3
    assert ready.mixes.shape == (WRITERS, 10)


def test_a_number_that_was_asked_for_makes_no_other_run() -> None:
    beside_iid = request("digits", ["by(writer)", "iid"], rounds=1, epochs=1, clients=3)
    assert beside_iid[0].key == experiment("by(writer)").key
    assert [each.clients for each in beside_iid] == [None, 3]
    assert Experiment.from_record(experiment("by(writer)").record()) == experiment("by(writer)")
    assert experiment("iid", clients=3).key != experiment("iid").key


def test_such_a_run_trains_and_is_listed(tmp_path: Path) -> None:
    (done,) = run([experiment("by(writer, most=3)")], tmp_path)
    assert done.status == "done" and done.experiment["clients"] is None


def test_groups_are_as_many_as_clients_asked_for() -> None:
    assert place(experiment("grouped(writer)", clients=3)).split.num_clients == 3


def test_features_are_read_as_the_model_sees_them() -> None:
    split = place(experiment("clustered(3)", clients=4)).split
    assert split.num_clients == 4 and split.num_dropped < 4 * 10


def test_noise_is_accounted_for_as_many_clients_as_there_are() -> None:
    noisy = experiment("by(writer)", wrap=Stack.parse("uniform + clip(1) + gaussian(2)"))
    asked = replace(noisy, split=experiment("iid").split, clients=WRITERS)
    assert spent(noisy, 3) == spent(asked, 3)
    assert spent(noisy, 3)["delta"] == default_delta(WRITERS)


def test_other_splits_must_be_told() -> None:
    check(experiment("by(writer)"))
    with pytest.raises(BadInput, match="iid does not know how many clients there are: give clients"):
        check(replace(experiment("iid"), clients=None))
