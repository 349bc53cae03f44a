"""What engines owe every algorithm holds on every device: `python -m pytest tests/engine` on a machine with a GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from noniid import models
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.algorithms.fedavg import FedAvg
from noniid.engine import evaluate, start_engine
from noniid.optim import SGD, Adam, RMSProp
from tests.contract import problems
from tests.contract.variants import DEFAULTS, VARIANTS
from tests.engine.devices import DEVICES, GPU

CLOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}
MLP = models.parse("mlp(torch)")
NETS = pytest.mark.parametrize("net", [None, MLP], ids=["convolution and batchnorm", "dense"])


def both(text: str, task: Any, engine: str = "batched", **how: Any) -> tuple[Any, Any]:
    algorithm = ALGORITHMS.parse(text)
    return tuple(problems.run(algorithm, task, engine=each, **how)[-1] for each in (engine, "reference"))  # type: ignore[return-value]


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("text", VARIANTS)
@NETS
def test_every_algorithm_equals_the_reference(text: str, net: Any, device: str) -> None:
    fast, slow = both(text, problems.task(net, device=device), rounds=2, cohort=3)
    problems.same(fast.state, slow.state, **CLOSE)
    assert fast.train_loss == pytest.approx(slow.train_loss, rel=1e-3)


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("text", DEFAULTS)
@NETS
def test_same_seed_same_bits_and_resumed_runs_equal_straight_ones(text: str, net: Any, device: str) -> None:
    algorithm, task = ALGORITHMS.parse(text), problems.task(net, device=device, lr_decay=0.9)
    straight = problems.run(algorithm, task, engine="batched", cohort=3)
    again = problems.run(algorithm, task, engine="batched", cohort=3, workers=1)
    resumed = problems.run(algorithm, task, engine="batched", cohort=3, state=straight[0].state)
    problems.same(straight[-1].state, again[-1].state)
    problems.same(straight[-1].state, resumed[-1].state)


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "optim",
    [SGD(0.05, 0.9, 1e-3, nesterov=True), RMSProp(0.003, weight_decay=1e-3), Adam(0.003, eps=1e-4)],
    ids=lambda optim: type(optim).__name__,
)
def test_every_optimiser(optim: Any, keep: bool, device: str) -> None:
    task = problems.task(optim=optim, keep_optim=keep, lr_decay=0.8, device=device)
    problems.same(*(each.state for each in both("fedprox", task, cohort=3)), **CLOSE)


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("bn", ["average", "keep-statistics-local", "local"])
def test_batchnorm_kept_anywhere(bn: Any, device: str) -> None:
    fast, slow = both("scaffold", problems.task(bn=bn, device=device), rounds=1)
    problems.same(fast.state, slow.state, **CLOSE)
    torch.testing.assert_close(fast.evaluation.correct, slow.evaluation.correct)
    assert fast.evaluation.loss == pytest.approx(slow.evaluation.loss, rel=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("question", ["loss", "grad", "features", "batch_features", "squared_grad_norm"])
@NETS
def test_questions_are_answered_as_client_by_client(question: str, net: Any, device: str) -> None:
    task = problems.task(net, device=device)
    w = problems.initial(task)
    rows = w + 0.05 * torch.randn(5, len(w), generator=torch.Generator().manual_seed(1)).to(device)
    rows[:, problems.Layout.of(task.model).num_trainable :] = w[problems.Layout.of(task.model).num_trainable :]
    answers: list[list[torch.Tensor]] = []
    for name in ("batched", "reference"):
        engine: Any = start_engine(name, task)
        if name == "batched":  # of convolutions too, which on a CPU would not be worth it
            engine._means = replace(engine._means, stacks=True)
        ids = torch.tensor([4, 0, 3])
        answers.append([getattr(engine.ask(ids, 2), question)(each) for each in (w, rows[:3])])
        engine.close()
    for fast, slow in zip(*answers, strict=True):
        torch.testing.assert_close(fast, slow, **CLOSE)


@pytest.mark.parametrize("device", DEVICES)
@NETS
def test_evaluation_of_one_model_and_of_a_model_each(net: Any, device: str) -> None:
    task = problems.task(net, device=device)
    w = problems.initial(task)
    for models_asked in (w, torch.stack([w, 1.1 * w, w, 0.9 * w, w])):
        found: list[Any] = []
        for name in ("batched", "reference"):
            engine = start_engine(name, task)
            found.append(evaluate(engine, models_asked))
            engine.close()
        assert torch.equal(found[0].correct, found[1].correct) and torch.equal(found[0].count, found[1].count)
        assert found[0].loss == pytest.approx(found[1].loss, rel=1e-4)


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("work", [{"drop_last": True}, {"steps": 7}, {"batch": 200}, {"augment": "crop-flip"}], ids=str)
@pytest.mark.parametrize("text", ["fedavg", "scaffold", "moon", "rfedavg_plus"])
@NETS
def test_work_of_any_shape(work: dict[str, Any], text: str, net: Any, device: str) -> None:
    fast, slow = both(text, problems.task(net, device=device, **work), rounds=1)
    problems.same(fast.state, slow.state, **CLOSE)


@pytest.mark.parametrize("device", [GPU])
def test_threads_on_a_gpu(device: str) -> None:
    problems.same(*(each.state for each in both("fedavg", problems.task(device=device), "threads")), **CLOSE)


@pytest.mark.parametrize("device", [GPU])
def test_a_model_that_cannot_be_captured_trains_all_the_same(device: str) -> None:
    task = problems.task(models.parse("lstm(8)"), device=device)
    problems.same(*(each.state for each in both("fedavg", task)), **CLOSE)


@dataclass(frozen=True)
class Clips(Algorithm):
    """Looks at a number on the way, which a recording cannot."""

    def grad(self, g: torch.Tensor, local: Any) -> torch.Tensor:
        return g * 0.5 if float(local.w.abs().max()) > 1e9 else g


@pytest.mark.parametrize("device", [GPU])
def test_a_hook_that_cannot_be_recorded_is_taken_step_by_step(device: str) -> None:
    task = problems.task(device=device)
    fast, slow = (problems.run(Clips(), task, engine=each)[-1] for each in ("batched", "reference"))
    problems.same(fast.state, slow.state, **CLOSE)
    assert torch.equal(fast.evaluation.correct, slow.evaluation.correct)  # type: ignore[union-attr]


def test_the_task_of_these_tests_reaches_the_device() -> None:
    assert replace(problems.task(device="meta")).device == "meta" and FedAvg()
