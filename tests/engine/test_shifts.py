"""What clients do to their samples reaches training and evaluation."""

from dataclasses import replace

import numpy as np
import torch

from noniid.engine import evaluate
from noniid.experiments.prepare import prepare
from noniid.experiments.request import request
from noniid.laws import problems
from noniid.split import Traits, parse


def _task(shifts: str, pooled: bool = False, **more: int):
    task = problems.task(**more)
    train = task.dataset.train
    traits = Traits(train.y.numpy(), read=lambda index: train.batch(torch.from_numpy(index)))
    split = parse(shifts).make(traits, 5, np.random.default_rng(0))
    return replace(task, split=split.pooled() if pooled else split)


def test_clients_train_on_the_labels_they_were_given() -> None:
    task = _task("iid + label_noise(1, next, grow=same)")
    true = task.dataset.train.y
    held = torch.from_numpy(task.split.indices[2])
    seen = torch.cat([batch.y for batch in task.in_order(2)])
    assert torch.equal(seen, (true[held] + 1) % task.dataset.num_classes)
    trained = torch.cat([batch.y for batch in task.batches(2, 1)])
    assert sorted(trained.tolist()) == sorted([*seen.tolist()] * task.work.epochs)
    pooled = _task("iid + label_noise(1, next, grow=same)", pooled=True)
    own = torch.from_numpy(pooled.split.indices[0])
    assert torch.equal(torch.cat([b.y for b in pooled.in_order(0)]), (true[own] + 1) % task.dataset.num_classes)


def test_each_client_has_its_own_view_of_the_test_set_or_all_have_one() -> None:
    from noniid.engine.reference import Reference

    for shifts, views in (
        ("iid + standardise", 5),
        ("iid + standardise(global)", 1),
        ("iid + standardise(client, test=false)", 1),
        ("iid + rotate(90, test=true)", 5),
        ("iid + rotate(90, same, test=true)", 1),
        ("iid + noise(0.1)", 1),
        ("iid + label_noise(0.3)", 1),
    ):
        task = _task(shifts)
        engine = Reference(task)
        found = evaluate(engine, engine.layout.pack(task.model))
        assert found.count.shape[0] == views, shifts
        engine.close()


def test_a_run_with_all_of_them() -> None:
    shifts = (
        "rotate(90) + scale(0.5) + contrast(-0.5) + blur(1) + noise(0.1, draw=frozen) + standardise + label_noise(0.2)"
    )
    (experiment,) = request("digits", [f"iid + {shifts}"], rounds=1, epochs=1, clients=3)
    ready = prepare(experiment)
    a, b = (next(iter(ready.task.batches(2, 1))) for _ in range(2))
    assert torch.equal(a.x, b.x) and torch.equal(a.y, b.y)
    assert torch.isfinite(a.x).all() and a.x.std() > 0.5
