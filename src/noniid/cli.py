"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

import noniid
from noniid.errors import BadInput
from noniid.flags import (
    json_option,
    machine_options,
    own_options,
    setting_options,
    shown_options,
    silo_options,
    store_option,
    table_machine_options,
    tournament_options,
    training_options,
)

PUBLISHED_FOUR = ("fedavg", "fedprox", "scaffold", "fednova")


class OneSentence(click.Group):
    """Bad input ends any command with one sentence on stderr and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BadInput as error:
            click.echo(f"noniid: {error}", err=True)
            ctx.exit(2)
        except BrokenPipeError:  # the reader of a pipe has gone
            ctx.exit(1)


@click.group(cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(noniid.__version__, prog_name="noniid")
def main() -> None:
    """Federated learning when clients' data differ: split, train, measure, compare."""
    sys.path.insert(0, "")  # as `python -m` does: my.module:thing is looked for here first


@main.command()
@setting_options
@training_options
@machine_options
@store_option
@click.option("--figure", metavar="FILE", help="Draw accuracy against round (png, svg or pdf).")
@click.option("--explain", is_flag=True, help="Only say which engine would train what, and why.")
@json_option
def run(store: str, workers: int | None, as_json: bool, figure: str | None, explain: bool, **given: Any) -> None:
    """Train and compare: every split with every algorithm and seed.

    What the store already holds is not trained again; Ctrl-C stops after the current step, and the same
    command goes on from there.
    """
    from noniid.experiments.request import request
    from noniid.screens.session import check_figure, explain_engines, train

    if figure:
        check_figure(figure)
    protocol = _protocol(given["data"]) if given["as_published"] else None
    experiments = request(protocol=protocol, store=store, **given)
    if explain:
        explain_engines(experiments, as_json=as_json)
        return
    outcome = train(experiments, Path(store), workers=workers, as_json=as_json)
    if figure and any(run.status != "failed" for run in outcome.runs):
        _draw_curves(store, outcome.runs, figure)
    sys.exit(outcome.exit_code)


def _protocol(data: str) -> dict[str, Any]:
    from noniid.data import CATALOGUE
    from noniid.errors import unknown
    from noniid.papers import niid_bench

    if data not in CATALOGUE:
        raise unknown("data set", data, CATALOGUE)
    known = {cell.data for cell in niid_bench.TABLE_3} & set(CATALOGUE)
    if data not in known:
        raise BadInput(f"NIID-Bench did not publish runs on {data}: choose one of {', '.join(sorted(known))}.")
    return niid_bench.protocol(data).settings()


@main.command()
@click.argument("run", required=False)
@store_option
@click.option("--data", metavar="PATTERN", help='Only runs on these data sets, as "*mnist".')
@click.option("--split", metavar="PATTERN", help='Only runs on these splits, as "dirichlet*".')
@click.option("--algorithm", metavar="PATTERN", help='Only runs of these algorithms, as "fed*".')
@click.option(
    "--status", type=click.Choice(["done", "stopped", "diverged", "failed", "running"]), help="Only such runs."
)
@click.option("--csv", "csv_file", metavar="FILE", help="Export as CSV; - is stdout.")
@click.option("--rounds", is_flag=True, help="With --csv: a line a round instead of a line a run.")
@click.option("--figure", metavar="FILE", help="Draw accuracy against round (png, svg or pdf).")
@json_option
def show(run: str | None, store: str, csv_file: str | None, rounds: bool, figure: str | None, as_json: bool,
         **only: str | None) -> None:  # fmt: skip
    """List the runs of a store, or show one RUN (its key, or the beginning of it)."""
    from noniid.screens.session import check_figure, open_store, show_runs

    if rounds and not csv_file:
        raise click.UsageError("--rounds goes with --csv.")
    if figure:
        check_figure(figure)
    opened = open_store(Path(store))
    chosen = opened.select(run, **only)
    if csv_file:
        opened.export(chosen, csv_file, rounds)
    if figure:
        _draw_curves(store, chosen, figure)
    if not csv_file and not figure:
        show_runs(opened, chosen, one=run is not None, as_json=as_json)


@main.command()
@click.argument("data")
@click.argument("split", required=False)
@own_options
@click.option("--clients", type=int, help="How many clients.  [default: as many as the data have, or 10]")
@click.option("--seed", type=int, default=0, show_default=True, help="Which draw of the split.")
@click.option("--as-published", type=click.Choice(["niid-bench"]), help="The index lists of a paper's own code.")
@shown_options
@json_option
def split(data: str, split: str | None, seed: int, as_json: bool, show_all: bool, features: bool, export: str | None,
          figure: str | None, kind: str, **given: Any) -> None:  # fmt: skip
    """Show who would hold what: clients by labels, and how skewed that is.

    DATA is a data set or a file; a file with --client needs no SPLIT.
    """
    from noniid.experiments.request import request
    from noniid.screens.placed import Wanted, show_placed

    (experiment,) = request(data, [split] if split else [], [], f"{seed},", **given)
    show_placed(experiment, Wanted(as_json, show_all, features, export, figure, kind))


@main.command()
@click.argument("data")
@silo_options
@click.option("--seed", type=int, default=0, show_default=True, help="Of the split and of the tests.")
@json_option
def profile(data: str, split: str | None, clients: int | None, seed: int, as_json: bool, **own: str | None) -> None:
    """Measure which kind of skew the clients of DATA have: label, feature, quantity, mixed or none.

    Each kind is told with its measure, what chance alone makes of it, and a p-value. All rows are measured.
    """
    from noniid.screens.skew import show_profile, silos

    show_profile(silos(data, split, clients, seed, **own), as_json)


@main.command()
@click.argument("data")
@silo_options
@tournament_options
@store_option
@json_option
def recommend(data: str, split: str | None, algorithms: tuple[str, ...], store: str, workers: int | None,
              as_json: bool, **given: Any) -> None:  # fmt: skip
    """Which algorithm for the clients of DATA? NIID-Bench's advice, checked by a short tournament.

    The skew is measured as `noniid profile` does, the paper's decision tree walked, and the algorithms are trained on
    the data themselves for a few rounds and several seeds. Both answers are told, also where they disagree.
    """
    from noniid.experiments.request import request
    from noniid.papers.advice import advise
    from noniid.screens.recommend import recommend as show
    from noniid.screens.skew import silos

    own = {name: given.pop(name) for name in ("label", "client", "test", "ignore")}
    measured = silos(data, split, given["clients"], 0, **own)
    experiments = request(data, [split] if split else [], algorithms or PUBLISHED_FOUR, **own, **given)
    sys.exit(show(measured, advise, experiments, Path(store), workers, as_json))


@main.command()
@click.argument("table")
@click.option(
    "--data",
    "datas",
    multiple=True,
    metavar="PATTERN",
    help='Data sets, as "*mnist". Repeatable.',
)
@click.option("--split", "splits", multiple=True, metavar="PATTERN", help='Splits, as "dirichlet*". Repeatable.')
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="PATTERN",
    help='Algorithms, as "fed*"; "fedprox(0.1)" sets a parameter. Repeatable.',
)
@click.option("--seeds", default="3", show_default=True, help="How many seeds, or which: 3, or 0,2,5.")
@click.option("--version", type=click.Choice(["v1", "v2"]), default="v2", show_default=True, help="Whose claims.")
@click.option("--correct", is_flag=True, help="Run the algorithms as the papers write them, not as the code ran.")
@click.option("--dry-run", is_flag=True, help="Only list the cells and the time they would take.")
@table_machine_options
@store_option
@json_option
def table(table: str, version: str, correct: bool, store: str, workers: int | None, engine: str, as_json: bool,
          dry_run: bool, **chosen: Any) -> None:  # fmt: skip
    """Run a published TABLE again, as niid-bench/3, and print measured beside claimed.

    Cells run with the paper's own settings. A measured mean is within a claim when it is no further away than
    one point or two of the claimed standard deviations.
    """
    from noniid.papers import find_table
    from noniid.screens.tables import Wanted, show_plan, show_reproduced

    paper, cells = find_table(table)
    preset = None if correct else {"v1": "niid-bench-v1", "v2": "niid-bench"}[version]
    wanted = Wanted(cells, paper.protocol, version, preset, **chosen)
    if dry_run:
        show_plan(wanted, Path(store), as_json)
    else:
        sys.exit(show_reproduced(wanted, Path(store), workers, engine, as_json))


@main.command()
@json_option
def algorithms(as_json: bool) -> None:
    """All algorithms: their parameters, defaults and papers."""
    from noniid.screens.algorithms import show_algorithms

    show_algorithms(as_json)


@main.command()
@click.argument("algorithm")
@json_option
def check(algorithm: str, as_json: bool) -> None:
    """Try an ALGORITHM, as my.module:MyAlgorithm, against the laws that all of ours obey.

    The exit status is 1 if a law is broken.
    """
    from noniid.screens.algorithms import show_verdicts

    sys.exit(show_verdicts(algorithm, as_json))


@main.group()
def data() -> None:
    """Data sets: what there is, getting it, looking at it."""


@data.command("list")
@json_option
def data_list(as_json: bool) -> None:
    """All data sets, and which are here."""
    from noniid.screens.datasets import show_listing

    show_listing(as_json)


@data.command("fetch")
@click.argument("names", nargs=-1, required=True)
def data_fetch(names: tuple[str, ...]) -> None:
    """Download data sets into the cache ($NONIID_DATA, or ~/.cache/noniid)."""
    from noniid.data import fetch

    for name in names:
        folder = fetch(name)
        click.echo(f"{name}: {folder if folder.exists() else 'nothing to download'}")


@data.command("info")
@click.argument("name")
@json_option
def data_info(name: str, as_json: bool) -> None:
    """One data set: its files, its sizes, its labels."""
    from noniid.screens.datasets import show_info

    show_info(name, as_json)


def _draw_curves(folder: str, runs: Any, figure: str) -> None:
    from noniid.screens.session import draw_curves

    click.echo(f"drawn: {draw_curves(Path(folder), runs, figure)}", err=True)
