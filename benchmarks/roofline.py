"""How near to this machine's own arithmetic does training come, and where does the time go?

The ceiling is measured in the same run: a matrix product of 1024 x 1024 float32 by torch, on one core and on all (one
product each), and a triad a = b + s c over arrays too large for the cache. Below it stand rounds of FedAvg on noniid's engines, and the parts
of one step of the CNN on one core, each by itself: convolution with ReLU and pooling, the dense layers, the loss, the
gather of a batch, the optimiser. Operations are counted from the layers (flops.py); what only moves data has none.

How to read it: `of GEMM` is the share of the matrix product's rate on as many cores. `of step` is the part's share of
the time of a whole step, which the engine took with one worker: what the parts leave is spent between them.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import flops
import harness
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from noniid.models import Descent
from noniid.models.compiled import layers, passes
from noniid.models.compiled.emit import LANES
from noniid.rows import Layout
from setting import experiment, generated, table_experiment
from training_speed import Engine, round_samples, round_steps

COLUMNS = ("what", "cores", "MFLOP", "microseconds", "GFLOP/s", "GB/s", "of GEMM", "of step")
GEMM, TRIAD = 1024, 16 * 2**20  # a side; values of an array
BATCH = 64


@dataclass(frozen=True)
class Line:
    """Something timed. Operations and bytes are those of one call."""

    what: str
    cores: int
    call: Callable[[], Any]
    flop: int | None = None
    bytes: int | None = None
    steps: int | None = None  # of the call, where it is a whole round


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ceiling(cores: int, closing: ExitStack) -> Iterator[Line]:
    """What the machine can do: on several cores each is busy with arrays of its own, as with clients of its own."""
    products = [tuple(torch.rand(GEMM, GEMM) for _ in range(3)) for _ in range(cores)]
    triads = [tuple(torch.rand(TRIAD) for _ in range(3)) for _ in range(cores)]
    pool = closing.enter_context(ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)))
    for number in dict.fromkeys((1, cores)):
        own, others = products[:number], triads[:number]
        yield Line("matrix product", number, lambda own=own: list(pool.map(_product, own)), flop=2 * GEMM**3 * number)
        yield Line("triad", number, lambda others=others: list(pool.map(_triad, others)), bytes=12 * TRIAD * number)


def _product(own: tuple[Tensor, ...]) -> None:
    torch.mm(own[0], own[1], out=own[2])


def _triad(own: tuple[Tensor, ...]) -> None:
    torch.add(own[0], own[1], alpha=3.0, out=own[2])


def training(name: str, ready: Ready, engine: str, cores: int, closing: ExitStack) -> Iterator[Line]:
    """Rounds on one worker and on all."""
    task = ready.task
    flop = flops.per_sample(flops.layers(task.model, task.dataset.train.batch(torch.arange(1)))) * round_samples(ready)
    for number in dict.fromkeys((1, cores)):
        running = Engine(ready, engine, number)
        closing.callback(running.close)
        running.round()  # not timed: compiles, allocates
        yield Line(f"round of {name}", number, running.round, flop, steps=round_steps(ready))


def parts(name: str, ready: Ready) -> Iterator[Line]:
    """Of one step on one core, as compiled code does it: each a call from Python, which itself takes some microseconds."""
    task = ready.task
    train, row = task.dataset.train, ready.w.numpy()
    index = torch.randperm(len(train))[:BATCH]
    x, y = train.batch(index), train.y[index]
    module: Any = task.model
    bound, memory = _bound(module, ready)
    descent = Descent.of(bound, x, memory)
    assert descent is not None
    plan, room, num = descent.plan, descent.plan.room(BATCH), BATCH
    each, grad, numbers = -(-num // LANES) * LANES, torch.empty(len(row)).numpy(), x.view(num, -1).numpy()
    own = train.x.view(len(train), -1).numpy() if isinstance(train.x, Tensor) else numbers
    flat, labels = numbers.reshape(-1).copy(), y.numpy().copy()
    source, into = passes.Source(own, train.scale, train.y.numpy()), passes.Batch(flat.copy(), labels.copy())
    yield Line(f"{name}: batch", 1, lambda: passes.gathered(source, index.numpy(), into))
    passes.descend(flat, labels, num, row, plan.convs, plan.linears, room, grad)  # fills what the parts read
    met = flops.layers(module, x[:1])
    room.d[:] = room.d.clip(-1, 1)  # of the last pass: any finite numbers will do
    for i, layer in enumerate(met):
        forward, backward = _layer(i, plan, room, row, grad, each)
        yield Line(f"{name}: {layer.name} forward", 1, forward, BATCH * layer.forward)
        yield Line(f"{name}: {layer.name} backward", 1, backward, BATCH * layer.backward)
    k, o, at, _ = plan.linears[-1].tolist()
    logits = room.acts, (at + k) * each, num, o, labels, room.d
    yield Line(f"{name}: loss and its gradient", 1, lambda: passes.cross_entropy(*logits))
    w, momentum, sgd = row.copy(), grad.copy(), task.work.optim.as_sgd
    moved = 5 * 4 * len(w)  # reads w, g and the momentum, writes w and the momentum
    yield Line(f"{name}: optimiser", 1, lambda: passes.step(w, grad, momentum, sgd), bytes=moved)


def _bound(module: nn.Module, ready: Ready) -> tuple[nn.Module, Tensor]:
    """A copy whose memory is one row."""
    own, layout = copy.deepcopy(module), Layout.of(module)
    row = ready.w.clone()
    layout.bind(own, row, torch.zeros_like(row))
    return own, row


def _layer(i: int, plan: Any, room: Any, row: Any, grad: Any, each: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Its passes; the backward one takes whatever gradients of its outputs there are."""
    convs, linears, blocks = plan.convs, plan.linears, each // LANES
    if i < len(convs):
        at = convs[i, 6] * each
        to = (convs[i + 1, 6] if i + 1 < len(convs) else linears[0, 2]) * each
        before = room.before if i else room.before[:0]
        return (
            lambda: layers.convolve(room.acts, at, blocks, convs[i], row, room.acts, to, room.codes, room.taps),
            lambda: layers.convolve_back(
                room.d, room.codes, room.acts, at, blocks, convs[i], row, grad, before, room.taps, room.work
            ),
        )
    j = i - len(convs)
    k, o, at, own = linears[j].tolist()
    a, stride, last = (
        passes.inputs(j, linears, len(convs), room.acts, each),
        -(-k // LANES) * LANES,
        j + 1 == len(linears),
    )
    towards = layers.Grid(room.before, 0, a.row if i else 0, a.column)
    rows = layers.Grid(room.rows, 0, stride, LANES)

    def backward() -> None:
        layers.to_rows(a, each, k, room.rows, stride)
        layers.connect_back(room.d, rows, each, each, k, o, row, own, grad, towards, room.taps)

    return lambda: layers.connect(a, each, k, o, row, own, room.acts, (at + k) * each, not last, room.taps), backward


def timed(lines: list[Line], repetitions: int, least: float) -> list[float]:
    """Seconds of one call of each line, the best of several turns of at least so many seconds each."""
    calls = [_calls(line, least) for line in lines]

    def turn(i: int) -> Callable[[], None]:
        def act() -> None:
            with threads(lines[i].cores):
                for _ in range(calls[i]):
                    lines[i].call()

        return act

    taken = harness.interleave({str(i): turn(i) for i in range(len(lines))}, repetitions)
    return [min(taken[str(i)]) / calls[i] for i in range(len(lines))]


def _calls(line: Line, least: float) -> int:
    """How many fill a turn."""
    with threads(line.cores):
        line.call()
        began = time.perf_counter()
        line.call()
        return max(1, int(least / (time.perf_counter() - began)))


def measure(quick: bool, repetitions: int, cores: int) -> harness.Table:
    num = (2_000, 100) if quick else (10_000, 100)
    small, colour = generated("generated-28", *num), generated("generated-32", *num, shape=(3, 32, 32))
    grey = prepare(_images(small))
    with ExitStack() as closing:
        whole = [
            *training("simple-cnn, 1x28x28", grey, "threads", cores, closing),
            *training("simple-cnn, 3x32x32", prepare(_images(colour)), "threads", cores, closing),
            *training("mlp, 123 columns", prepare(table_experiment(quick=quick, epochs=1)), "batched", cores, closing),
        ]
        lines = [*ceiling(cores, closing), *whole, *parts("1x28x28", grey)]
        seconds = timed(lines, repetitions, 0.01 if quick else 0.2)
    gemm = {
        line.cores: (line.flop or 0) / taken
        for line, taken in zip(lines, seconds, strict=True)
        if line.what == "matrix product"
    }
    first = lines.index(whole[0])
    step = seconds[first] / (whole[0].steps or 1)
    rows = [row(line, taken, gemm, step) for line, taken in zip(lines, seconds, strict=True)]
    spent = sum(taken for line, taken in zip(lines, seconds, strict=True) if line.what.startswith("1x28x28: "))
    notes = (
        f"Best of {repetitions} turns. A round's MFLOP and microseconds are those of one of its steps.",
        f"Of a step of simple-cnn on one core ({1e6 * step:.0f} microseconds) its parts make up {spent / step:.0%}.",
    )
    return harness.Table("Roofline: training against this machine's own rates, float32", COLUMNS, rows, notes)


def _images(name: str) -> Experiment:
    return replace(experiment(quick=True), data=name)


def row(line: Line, seconds: float, gemm: dict[int, float], step: float) -> tuple[Any, ...]:
    times = line.steps or 1
    rate = None if line.flop is None else line.flop / seconds
    return (
        line.what,
        line.cores,
        None if line.flop is None else line.flop / times / 1e6,
        1e6 * seconds / times,
        None if rate is None else rate / 1e9,
        None if line.bytes is None else line.bytes / seconds / 1e9,
        None if rate is None else rate / gemm[line.cores],
        seconds / step if ": " in line.what else None,
    )


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--repetitions", type=int, default=None, help="turns (default 5, quick 2)")
    flags.add_argument("--cores", type=int, default=harness.cores(), help="cores to use")
    arguments = flags.parse_args()
    circumstances = harness.environment()
    table = measure(arguments.quick, arguments.repetitions or (2 if arguments.quick else 5), arguments.cores)
    harness.report("roofline", table, circumstances, save=arguments.save)


if __name__ == "__main__":
    main()
