"""bf16 is another computation that learns as well; float32 is what it was, to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from noniid import models
from noniid.algorithms import ALGORITHMS, Algorithm
from noniid.engine import Task, start_engine
from noniid.engine.precision import said_in
from noniid.errors import BadInput
from noniid.experiments.check import check
from noniid.experiments.experiment import Experiment
from noniid.laws.laws import FAST
from noniid.models import fused
from noniid.optim import SGD
from noniid.split import parse
from tests.contract import problems

DENSE = models.parse("mlp").module((1, 8, 8), problems.NUM_CLASSES)
SEQUENCE = models.parse("lstm").module((1, 8, 8), problems.NUM_CLASSES)


def _moved(algorithm: Algorithm, task: Task, engine: str, rounds: int = 1) -> Tensor:
    return problems.run(algorithm, task, engine=engine, rounds=rounds)[-1].state.w - problems.initial(task)


@pytest.mark.parametrize("net", [None, DENSE, SEQUENCE], ids=["cnn", "mlp", "lstm"])
@pytest.mark.parametrize("text", ["fedavg", "scaffold", "moon", "rfedavg_plus(0.1)"])
@pytest.mark.parametrize("engine", FAST)
def test_engines_agree_as_far_as_16_bits_go(engine: str, text: str, net: torch.nn.Module | None) -> None:
    """How far a round leads differs from the reference engine's by what rounding explains, and from float32's by more
    than nothing."""
    algorithm, task = ALGORITHMS.parse(text), problems.task(net, optim=SGD(0.02, 0.5))
    half = replace(task, precision="bf16")
    fast, judge, plain = (
        _moved(algorithm, each, name) for each, name in ((half, engine), (half, "reference"), (task, engine))
    )
    assert not torch.equal(fast, plain)
    assert fast.dtype == torch.float32
    assert float((fast - judge).norm() / judge.norm()) < 0.05
    assert float((fast - plain).norm() / plain.norm()) < 0.05


@pytest.mark.parametrize("engine", FAST)
def test_bf16_learns(engine: str) -> None:
    task = replace(problems.task(optim=SGD(0.05, 0.9)), precision="bf16")
    done = problems.run(ALGORITHMS.parse("fedavg"), task, rounds=6, engine=engine)
    first, last = done[0].evaluation, done[-1].evaluation
    assert first is not None and last is not None
    assert last.loss < first.loss / 2 and last.accuracy > 0.9


@pytest.mark.parametrize("engine", FAST)
def test_bf16_gives_the_same_bits_for_any_number_of_workers(engine: str) -> None:
    task = replace(problems.task(), precision="bf16")
    a, b = (problems.run(ALGORITHMS.parse("scaffold"), task, engine=engine, workers=n)[-1].state for n in (1, 2))
    problems.same(a, b)


def test_compiled_passes_take_no_part_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    net = models.parse("simple-cnn").module((1, 28, 28), 10)
    x = torch.rand(4, 1, 28, 28)
    assert said_in("bf16", "cpu")(net, x).logits.dtype == torch.float32
    exact = said_in("float32", "cpu")(net, x).logits

    def refuse(*_: object) -> None:
        raise AssertionError("a compiled pass was called")

    monkeypatch.setattr(fused._Network, "apply", refuse)
    half = said_in("bf16", "cpu")(net, x)
    assert not torch.equal(half.logits, exact)
    torch.testing.assert_close(half.logits, exact, rtol=0.05, atol=0.01)


def test_float32_is_left_as_it_was() -> None:
    """The old way of calling a model, and the new one."""
    net = problems.SmallNet()
    x = torch.rand(3, 1, 8, 8)
    for precision in ("float32", "tf32"):
        assert torch.equal(said_in(precision, "cpu")(net, x).logits, net(x)[0])
    task = problems.task()
    assert task.precision == "float32"


@pytest.mark.parametrize(("precision", "on"), [("tf32", True), ("float32", False), ("bf16", False)])
def test_tf32_is_a_choice_and_not_torchs_default(precision: str, on: bool) -> None:
    """The switches are there on machines without a GPU, too."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        start_engine("threads", replace(problems.task(), precision=precision), 1).close()
        assert torch.backends.cuda.matmul.allow_tf32 == torch.backends.cudnn.allow_tf32 == on
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [("bf-16", "unknown precision 'bf-16': did you mean 'bf16'?"), ("tf32", "tf32 is how NVIDIA's GPUs multiply")],
)
def test_a_precision_that_is_none_here_is_refused(precision: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence.replace("?", r"\?")):
        check(Experiment("digits", parse("iid"), precision=precision))  # type: ignore[arg-type]
    check(Experiment("digits", parse("iid"), precision="bf16"))
