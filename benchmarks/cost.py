"""What does a round cost, with more clients, more local epochs, larger models?

One thing varies at a time, on generated images of Fashion-MNIST's shape with the engine that `--engine auto` takes:
the number of clients that the same images are divided over, all taking part; the number of clients in a round, each
with as many images; local epochs; and the model, by its number of parameters, with two clients of ten in a round.
A repetition is one round of FedAvg, without evaluation. Rounds of all lines take turns, so that lines can be compared.

How to read it: seconds and samples/s are those of the best round; samples/s that fall from line to line say what
costs time beside training: clients too small, rounds too short. `--figure FILE` draws the same (needs matplotlib).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import harness
from noniid import models, split
from noniid.engine.choice import choose
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from setting import experiment, generated
from training_speed import Engine, round_samples

COLUMNS = ("varied", "value", "parameters", "engine", "seconds", "median", "samples/s")
MODELS = ("linear", "mlp", "two-nn", "simple-cnn", "mcmahan-cnn")
NUM_IMAGES, PER_CLIENT = 12_000, 60


@dataclass(frozen=True)
class Line:
    varied: str
    value: int | str
    experiment: Experiment


def lines(quick: bool) -> Iterator[Line]:
    """All that is measured."""
    num_images = NUM_IMAGES // 10 if quick else NUM_IMAGES
    name = generated(f"generated-{num_images}", num_images, 100)
    usual = replace(experiment(quick=True), data=name, split=split.parse("iid"))
    for clients in (1, 10, 100) if quick else (1, 10, 100, 1_000):
        yield Line("clients, same data", clients, replace(usual, clients=clients))
    everyone = num_images // PER_CLIENT
    for cohort in (2, 10) if quick else (5, 20, 100):
        share = (cohort + 0.5) / everyone  # rounded down to the cohort
        yield Line(f"clients a round, {PER_CLIENT} each", cohort, replace(usual, clients=everyone, participation=share))
    for epochs in (1, 2) if quick else (1, 2, 5, 10):
        yield Line("local epochs", epochs, replace(usual, epochs=epochs, participation=0.2))
    for model in MODELS[:4] if quick else MODELS:
        yield Line("model", model, replace(usual, model=models.parse(model), participation=0.2))


def measure(planned: list[Line], repetitions: int, workers: int) -> harness.Table:
    rounds: dict[str, Callable[[], None]] = {}
    known: list[tuple[Line, Ready, str]] = []
    with ExitStack() as closing:
        for i, line in enumerate(planned):
            ready = prepare(line.experiment)
            name = choose(ready.task.model, "cpu").engine
            engine = Engine(ready, name, workers)
            closing.callback(engine.close)
            engine.round()  # not timed: compiles, allocates
            rounds[str(i)] = engine.round
            known.append((line, ready, name))
        seconds = harness.interleave(rounds, repetitions)
    rows: list[tuple[Any, ...]] = []
    for (line, ready, name), taken in zip(known, seconds.values(), strict=True):
        best, median = harness.best_and_median(taken)
        value = f"{line.value:,}" if isinstance(line.value, int) else line.value
        rows.append((line.varied, value, ready.w.numel(), name, best, median, round_samples(ready) / best))
    notes = (f"Best of {repetitions} rounds, in turns, after one that is not timed; {workers} workers.",)
    return harness.Table("Cost of a round of FedAvg: 28x28 images, B = 64", COLUMNS, rows, notes)


def draw(table: harness.Table, path: Path) -> None:
    """Seconds a round over what varies, a panel each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    kinds = list(dict.fromkeys(row[0] for row in table.rows))
    figure, panels = plt.subplots(1, len(kinds), figsize=(3 * len(kinds), 3), sharey=True, layout="constrained")
    for panel, kind in zip(panels, kinds, strict=True):
        own = [row for row in table.rows if row[0] == kind]
        across = [row[2] if kind == "model" else int(row[1].replace(",", "")) for row in own]
        panel.loglog(across, [row[4] for row in own], "o" if kind == "model" else "o-", color="tab:blue")
        if kind == "model":
            for x, row in zip(across, own, strict=True):
                panel.annotate(row[1], (x, row[4]), xytext=(-6, -3), textcoords="offset points", fontsize=7, ha="right")
        panel.set_xlabel("parameters" if kind == "model" else kind)
        panel.grid(alpha=0.3, which="both")
        panel.margins(x=0.25)
    panels[0].set_ylabel("seconds a round")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--repetitions", type=int, default=None, help="timed rounds (default 5, quick 2)")
    flags.add_argument("--workers", type=int, default=harness.cores(), help="cores to use")
    flags.add_argument("--figure", type=Path, metavar="FILE", help="draw it, too")
    arguments = flags.parse_args()
    circumstances = harness.environment()
    planned = list(lines(arguments.quick))
    table = measure(planned, arguments.repetitions or (2 if arguments.quick else 5), arguments.workers)
    harness.report("cost", table, circumstances, save=arguments.save)
    if arguments.figure:
        draw(table, arguments.figure)


if __name__ == "__main__":
    main()
