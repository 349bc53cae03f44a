"""What is saved where seeds of one experiment train side by side, as further rows of one program?

Adult and NIID-Bench's MLP over ten clients. The contenders are the same runs one after the other and side by side,
both under the batched engine, in turns; evaluations and each run's first round are left out. On a GPU with
`--device cuda`.

How to read it: samples/s count the samples of all runs. `ratio` is the gain; `same bits` says whether every run ended
at the model that it ends at alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

import harness
from noniid.engine import Cell, Schedule, begin, simulate_each, start_engine
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import prepare
from setting import table_experiment

NEVER = 10**9


def trained(experiments: list[Experiment], rounds: int) -> tuple[float, int, list[torch.Tensor]]:
    """Seconds from the first round's end on, samples meanwhile, and where the runs are then."""
    cells: list[Cell] = []
    for experiment in experiments:
        ready = prepare(experiment)
        engine = start_engine("batched", ready.task)
        state = begin(experiment.algorithm, ready.w, ready.federation)
        schedule = Schedule(rounds + 1, ready.federation.cohort, NEVER)
        cells.append(Cell(engine, experiment.algorithm, state, ready.federation, schedule))
    ends, samples, began, ended = [cell.state.w for cell in cells], 0, 0.0, 0.0
    for place, done in simulate_each(cells):
        if isinstance(done, Exception):
            raise done
        if done.round == 1:
            began = time.perf_counter()
        elif done.round <= rounds:  # the last one is evaluated, and not counted
            samples += done.train_samples
            ends[place], ended = done.state.w.clone(), time.perf_counter()
    for cell in cells:
        cell.engine.close()
    return ended - began, samples, ends


def row(seeds: int, base: Experiment, rounds: int, repetitions: int) -> tuple[Any, ...]:
    experiments = [replace(base, seed=seed) for seed in range(seeds)]
    one, many, same = 0.0, 0.0, True
    for _ in range(repetitions):
        apart = [trained([experiment], rounds) for experiment in experiments]
        joint = trained(experiments, rounds)
        one = max(one, sum(each[1] for each in apart) / sum(each[0] for each in apart))
        many = max(many, joint[1] / joint[0])
        same = same and all(torch.equal(each[2][0], end) for each, end in zip(apart, joint[2], strict=True))
    return (f"{seeds} seeds", one, many, many / one, "yes" if same else "no")


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--epochs", type=int, default=5, help="local epochs of a round")
    flags.add_argument("--rounds", type=int, default=4, help="rounds of a run")
    flags.add_argument("--device", default="cpu", help="cpu or cuda")
    flags.add_argument("--repetitions", type=int, default=3, help="in turns")
    arguments = flags.parse_args()
    on_gpu, setting = arguments.device != "cpu", harness.environment()
    if on_gpu:
        setting["gpu"] = torch.cuda.get_device_name(0)
    base = replace(table_experiment(quick=arguments.quick, epochs=arguments.epochs), device=arguments.device)
    rows = [row(seeds, base, arguments.rounds, arguments.repetitions) for seeds in (1, 3, 10)]
    title = f"Seeds side by side: {base.data}, mlp, 10 clients, {arguments.epochs} epochs a round, {arguments.device}"
    columns = ("runs", "one after the other", "side by side", "ratio", "same bits")
    name = "side_by_side_gpu" if on_gpu else "side_by_side"
    harness.report(name, harness.Table(title, columns, rows), setting, save=arguments.save)


if __name__ == "__main__":
    main()
