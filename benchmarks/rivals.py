"""How fast are others? noniid against a loop written by hand and against frameworks installed from PyPI.

    python benchmarks/rivals.py --install     # an environment each, in benchmarks/.rivals; done once
    python benchmarks/rivals.py --save

Three settings: NIID-Bench's CNN on Fashion-MNIST and its MLP on adult, each over ten clients who all take part; and the
CNN over 1,000 clients of 60 images, 50 of them a round, in batches of ten. All contenders have the same data, index
lists, weights to begin with, SGD and number of steps, and all cores; each rival is driven as its own documentation
recommends for speed (`benchmarks/rival_drivers`), with the hand loop's training code where it leaves that to its user.

How to read it: as training_speed. A rival shuffles, and picks its cohort, with random numbers of its own, so that
accuracies are equal up to noise. `ratio` compares with the best of all who are not noniid (1.000). A rival that is not
installed, or does not run, has a row that says why. Rivals wait in processes of their own while others have their turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from hand_loop import Job, OneProcess, Processes
from nets import NETS
from noniid.experiments.experiment import Experiment
from noniid.experiments.prepare import Ready, prepare
from rival import ABSENT, RIVALS, Process, Rival, install, write_job
from setting import device_experiment, experiment, table_experiment
from training_speed import Contender, Engine, Raced, learned, race, round_samples

COLUMNS = ("contender", "samples/s", "median", "ratio", "steps/round", "accuracy", "remark")


@dataclass(frozen=True)
class Setting:
    name: str  # of the kept table
    model: str
    make: Callable[[bool], Experiment]  # quick or not
    engines: tuple[str, ...]
    warm: int = 0  # rounds of the first setting that the weights to begin with are trained for


SETTINGS = {
    "cnn": Setting("rivals", "simple-cnn", lambda quick: experiment(quick=quick), ("threads",)),
    "mlp": Setting("rivals_mlp", "mlp", lambda quick: table_experiment(quick=quick, epochs=5), ("threads", "batched")),
    "devices": Setting(
        "rivals_devices", "simple-cnn", lambda quick: device_experiment(quick=quick), ("threads",), warm=15
    ),
}  # fmt: skip


def at_home(ready: Ready, setting: Setting, cores: int) -> dict[str, Contender]:
    """The loops written by hand, and noniid's engines."""

    def job() -> Job:
        return Job.of(ready.task, ready.w, NETS[setting.model], ready.federation.cohort)

    entries: dict[str, Contender] = {"by hand, 1 process": OneProcess(job(), 1 if setting.model == "mlp" else cores)}
    if cores > 1:
        entries[f"by hand, {cores} processes"] = Processes(job(), cores)
        if setting.model != "mlp":
            entries[f"by hand, {cores} processes, channels last"] = Processes(job(), cores, channels_last=True)
    return entries | {f"noniid, {engine}": Engine(ready, engine, cores) for engine in setting.engines}


def visiting(start: Callable[[Rival], Process], asked: Sequence[str]) -> tuple[dict[str, Contender], dict[str, str]]:
    """The rivals that can be started, and by title what there is to say of every one."""
    entries: dict[str, Contender] = {}
    remarks: dict[str, str] = {}
    for rival in RIVALS:
        if rival.missing or rival.name not in asked:
            remarks[rival.title] = rival.missing or "not asked for"
            continue
        try:
            entries[rival.title] = started = start(rival)
            remarks[rival.title] = started.remark
        except harness.Broken as reason:
            remarks[rival.title] = str(reason)
    return entries, remarks


def measure(setting: Setting, quick: bool, repetitions: int, cores: int, asked: Sequence[str]) -> harness.Table:
    ready = prepare(setting.make(quick))
    if setting.warm and not quick:
        ready = warmed(ready, setting.warm, cores)
    with tempfile.TemporaryDirectory(prefix="noniid-rivals-") as made, ExitStack() as closing:
        folder = Path(made) / "job"
        expected = write_job(ready, folder, setting.model, cores)

        def start(rival: Rival) -> Process:
            started = Process.of(rival, folder, expected, cores)
            closing.callback(started.close)  # whatever happens to the others
            return started

        others, remarks = visiting(start, asked)
        raced = race(ready, at_home(ready, setting, cores) | others, repetitions)
    for title in others.keys() - raced.keys():
        remarks[title] = "broke in its first round"
    task = ready.task
    shape = f"{task.num_clients:,} clients, {ready.federation.cohort} a round, {task.work.epochs} epoch(s)"
    title = f"Rivals: {task.dataset.name}, {setting.model}, {shape}, B = {task.work.batch_size}"
    notes = [
        f"Best of {repetitions} rounds, in turns, after one that is not timed; noniid over the best of all others: "
        f"{headline(raced):.2f}.",
        *(
            [f"All begin with weights trained for {setting.warm} rounds over ten clients."]
            if setting.warm and not quick
            else []
        ),
        *learned(ready, raced),
        *(rival.note for rival in RIVALS if rival.title in raced and rival.note),
        ABSENT,
    ]
    return harness.Table(title, COLUMNS, rows(raced, remarks, round_samples(ready)), tuple(notes))


def warmed(ready: Ready, rounds: int, cores: int) -> Ready:
    """Begins where the first setting comes to after so many rounds: in a few rounds of few steps nothing is learned,
    or as much as chance in the choice of clients will have it."""
    engine = Engine(prepare(SETTINGS["cnn"].make(False)), "threads", cores)
    for _ in range(rounds):
        engine.round()
    engine.close()
    return ready._replace(w=engine.w)


def rows(raced: Mapping[str, Raced], remarks: Mapping[str, str], samples: int) -> list[tuple[Any, ...]]:
    """Who raced, and after them who could not."""
    others = best(raced, ours=False)
    ran = [
        (name, samples / each.best, samples / each.median, others / each.best, each.steps, each.accuracy,
         remarks.get(name, ""))
        for name, each in raced.items()
    ]  # fmt: skip
    return ran + [(title, *[None] * 5, remark) for title, remark in remarks.items() if title not in raced]


def best(raced: Mapping[str, Raced], *, ours: bool) -> float:
    """Seconds of the fastest round of noniid's, or of all others'."""
    return min(each.best for name, each in raced.items() if name.startswith("noniid") == ours)


def headline(raced: Mapping[str, Raced]) -> float:
    return best(raced, ours=False) / best(raced, ours=True)


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--install", action="store_true", help="make the rivals' environments, and end")
    flags.add_argument("--setting", action="append", choices=SETTINGS, help="this one only; may be repeated")
    flags.add_argument("--repetitions", type=int, default=None, help="timed rounds (default 7, quick 2)")
    flags.add_argument("--cores", type=int, default=harness.cores(), help="cores to use")
    everyone = [rival.name for rival in RIVALS]
    flags.add_argument("--rivals", nargs="+", choices=[*everyone, "none"], default=everyone, help="these only")
    arguments = flags.parse_args()
    if arguments.install:
        for rival in {each.package: each for each in RIVALS if each.name in arguments.rivals}.values():
            install(rival)
            print(f"{rival.package}: {rival.missing or 'installed'}")
        return
    for name in arguments.setting or SETTINGS:
        setting = SETTINGS[name]
        circumstances = harness.environment()
        repetitions = arguments.repetitions or (2 if arguments.quick else 7)
        table = measure(setting, arguments.quick, repetitions, arguments.cores, arguments.rivals)
        harness.report(setting.name, table, circumstances, save=arguments.save)


if __name__ == "__main__":
    main()
