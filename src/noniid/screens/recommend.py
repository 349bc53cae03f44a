"""`noniid recommend`: what a paper advises for the measured skew, and what a short tournament on the data says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noniid.experiments.check import check
from noniid.experiments.experiment import Experiment
from noniid.experiments.tournament import Standing, agreement, standings
from noniid.models import MODELS
from noniid.screens.session import Outcome, say_failures, train_all
from noniid.screens.skew import Silos, show_evidence, verdict
from noniid.screens.words import console
from noniid.split import by_client

if TYPE_CHECKING:
    from rich.table import Table

WORDS = {
    "agree": "Both agree",
    "tie": "These seeds cannot tell them apart",
    "disagree": "They disagree",
    "unknown": "The tournament cannot tell",
}

Advise = Callable[..., Any]  # kinds, labels per client, participation -> an advice


def recommend(
    measured: Silos, advise: Advise, experiments: Sequence[Experiment], folder: Path, workers: int | None, as_json: bool
) -> int:
    """Measures, walks the tree, trains what the store does not hold, reports both. The exit status."""
    for experiment in experiments:  # before anything is measured or said
        check(experiment)
    first, placed = experiments[0], measured.placed
    profile = placed.profile(seed=measured.seed)
    labels = float(by_client(placed.counts)["labels"].mean())
    advice = advise(profile.kinds, labels, first.participation)
    if not as_json:
        screen = console()
        screen.print(f"[bold]{measured.title}[/bold]", f"measured: {verdict(profile)}", sep="\n")
        show_evidence(screen, profile)
    outcome = train_all(experiments, folder, workers, lambda run: None)
    found = standings(outcome.runs)
    agreed = agreement(found, advice.algorithm)
    if as_json:
        print(json.dumps(_record(profile.record(), advice, found, agreed)))
    else:
        _show(advice, found, agreed, first)
    say_failures(outcome)
    return _exit_code(outcome, found)


def _exit_code(outcome: Outcome, found: Sequence[Standing]) -> int:
    """That an algorithm diverges is an answer; that none finishes is not."""
    return 0 if outcome.exit_code == 1 and any(each.accuracies for each in found) else outcome.exit_code


def _record(profile: dict[str, Any], advice: Any, found: Sequence[Standing], agreed: str) -> dict[str, Any]:
    best = found[0].algorithm if found and found[0].accuracies else None
    return {
        "profile": profile,
        "advice": {"algorithm": advice.algorithm, "path": list(advice.path), "reason": advice.reason,
                   "source": advice.source},
        "tournament": [{"algorithm": each.algorithm, "accuracies": list(each.accuracies),
                        "behind": each.behind if each.accuracies else None, "p": each.p, "lost": each.lost}
                       for each in found],
        "best": best,
        "agreement": agreed,
    }  # fmt: skip


def _show(advice: Any, found: Sequence[Standing], agreed: str, first: Experiment) -> None:
    screen = console()
    screen.print("", f"[bold]advised: {advice.algorithm}[/bold] (NIID-Bench v2, {advice.source})", sep="\n")
    screen.print(f"  {'; '.join(advice.path)}", f"  {advice.reason}", "", sep="\n", markup=False)
    num_seeds = max(len(each.accuracies) + each.lost for each in found)
    work = f"{first.rounds} rounds of {first.epochs} epochs" if first.steps is None else f"{first.rounds} rounds"
    screen.print(f"[bold]tournament[/bold]: {MODELS.write(first.model)}, {work}, {num_seeds} seeds")
    screen.print(_table(found), "", conclusion(advice.algorithm, found, agreed), sep="\n", markup=False)


def conclusion(advised: str, found: Sequence[Standing], agreed: str) -> str:
    """
    >>> best, other = Standing("scaffold", (0.8, 0.9), 0.0, None, 0), Standing("fedprox", (0.7, 0.8), 0.1, 0.01, 0)
    >>> conclusion("fedprox", [best, other], "disagree")
    'They disagree: fedprox is advised, scaffold is best here, by 10.0 points (p = 0.01). Go by your own data.'
    """
    done = [each for each in found if each.accuracies]
    if not done:
        return f"{WORDS['unknown']}: no algorithm finished all its seeds."
    best = done[0]
    mine = next((each for each in done if each.algorithm.partition("(")[0] == advised), None)
    if agreed == "agree" and mine is not None:
        alone = mine is best and all(each.behind > 0 for each in done[1:])
        return f"{WORDS[agreed]}: {mine.algorithm} is advised, and {'best' if alone else 'none is better'} here."
    if mine is None:
        return f"{WORDS[agreed]}: {advised} is advised and did not finish here; {best.algorithm} is best."
    luck = "" if mine.p is None else f" (p = {mine.p:.2g})"
    gap = f"by {100 * mine.behind:.1f} points{luck}"
    last = {"disagree": " Go by your own data.", "tie": " More seeds would tell."}.get(agreed, "")
    return f"{WORDS[agreed]}: {advised} is advised, {best.algorithm} is best here, {gap}.{last}"


def _table(found: Sequence[Standing]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("algorithm", overflow="fold")
    for heading in ("mean accuracy", "from", "to", "behind", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in found:
        if not each.accuracies:
            table.add_row(each.algorithm, f"{each.lost} did not finish", "", "", "", "")
            continue
        low, high = min(each.accuracies), max(each.accuracies)
        p = "" if each.p is None else f"{each.p:.2g}"
        behind = f"{100 * each.behind:.1f}" if each is not found[0] else ""
        table.add_row(each.algorithm, f"{100 * each.mean:.2f} %", f"{100 * low:.2f}", f"{100 * high:.2f}", behind, p)
    return table
