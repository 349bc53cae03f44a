"""Flags that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

STORE = "noniid-store"


def options(*added: Callable[..., Any]) -> Callable[..., Any]:
    """Several options as one decorator, in reading order."""
    return lambda function: functools.reduce(lambda f, option: option(f), reversed(added), function)


store_option = click.option("--store", default=STORE, show_default=True, metavar="FOLDER", help="Where runs are kept.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")

own_options = options(
    click.option("--label", metavar="COLUMN", help="Of a file: which column is to be predicted.  [default: label]"),
    click.option("--client", metavar="COLUMN", help="Of a file: every client is one value of this column."),
    click.option("--test", type=click.Choice(["rows", "clients"]),
                 help="Of a file: test on a quarter of each client's rows, or on a quarter of the clients.  "
                      "[default: rows]"),
    click.option("--ignore", metavar="COLUMNS", help="Of a file: columns that are no features, as id,name."),
)  # fmt: skip
silo_options = options(
    own_options,
    click.option("--split", metavar="SPLIT", help="Who the clients are, where no column tells."),
    click.option("--clients", type=int, help="How many clients.  [default: as many as the data have, or 10]"),
)
setting_options = options(
    click.option("--data", default="digits", show_default=True,
                 help="A data set, see `noniid data list`; or a file: csv, parquet, npz, libsvm, a folder of images."),
    own_options,
    click.option("--split", "splits", multiple=True, metavar="SPLIT",
                 help="Who holds what, as \"dirichlet(0.5) + noise(0.1)\". Repeatable.  "
                      "[default: by(--client), or dirichlet(0.5)]"),
    click.option("--clients", type=int, help="How many clients.  [default: as many as the data have, or 10]"),
    click.option("--algorithm", "algorithms", multiple=True, metavar="ALGORITHM",
                 help="As \"fedprox(0.01)\", scaffold or my.module:Class; see `noniid algorithms`. Repeatable.  "
                      "[default: fedavg]"),
    click.option("--model", help="simple-cnn, mcmahan-cnn, mlp, two-nn, linear, lstm, or my.module:thing.  "
                                 "[default: the data set's]"),
)  # fmt: skip
training_options = options(
    click.option("--rounds", type=int, help="Rounds of communication.  [default: 50]"),
    click.option("--epochs", type=int, help="Local epochs a round.  [default: 10]"),
    click.option("--steps", type=int, help="Local steps a round, the same for all, instead of epochs."),
    click.option("--batch", type=int, help="Samples in a local step.  [default: 64]"),
    click.option("--lr", type=float, help="Clients' learning rate.  [default: 0.01]"),
    click.option("--momentum", type=float, help="Clients' momentum, reset each round.  [default: 0.9]"),
    click.option("--weight-decay", type=float, help="Clients' weight decay.  [default: 0]"),
    click.option("--optimiser", "optim", metavar="OPTIMISER",
                 help="What clients step with: sgd, \"rmsprop(0.01)\", adam, \"sgd(nesterov=true)\".  [default: sgd]"),
    click.option("--keep-optimiser", "keep_optim", is_flag=True, default=None,
                 help="Clients keep their optimiser's state from round to round."),
    click.option("--lr-decay", type=float, help="A round's learning rate over that of the last one.  [default: 1]"),
    click.option("--drop-last", is_flag=True, default=None, help="Leave out an epoch's short last batch."),
    click.option("--bn", type=click.Choice(["average", "keep-statistics-local", "local"]),
                 help="BatchNorm: averaged, or its statistics or all of it stay with each client.  [default: average]"),
    click.option("--wrap", metavar="WRAPPERS",
                 help="What happens to updates on their way, as \"uniform + clip(1) + gaussian(0.5)\" or "
                      "\"topk(0.1) + quantise(8)\"."),
    click.option("--precision", type=click.Choice(["float32", "tf32", "bf16"]),
                 help="Of the local steps' products: tf32 on GPUs only, bf16 with models and losses in float32.  "
                      "[default: float32]"),
    click.option("--participation", type=float, help="Share of the clients that train in a round.  [default: 1]"),
    click.option("--augment", type=click.Choice(["none", "crop-flip"]), help="For images.  [default: none]"),
    click.option("--seeds", default="1", show_default=True, help="How many seeds, or which: 3, or 0,2,5."),
    click.option("--eval-every", type=int, help="Rounds between evaluations; the last is always one.  [default: 1]"),
    click.option("--as-published", type=click.Choice(["niid-bench", "niid-bench-v1"]),
                 help="Settings and quirks of a paper's own runs, where no option says otherwise."),
)  # fmt: skip
machine_options = options(
    click.option("--workers", type=int,
                 help="Clients trained at once.  [default: the processors here, with --engine ray the cluster's]"),
    click.option("--engine", type=str,
                 help="threads, batched (clients as one program), ray (threads on the workers of a Ray cluster, see "
                      "docs/many-machines.md), reference (slow and plain), or auto: what suits the model and the "
                      "device.  [default: threads]"),
    click.option("--device", type=str, help="cpu or cuda.  [default: cpu]"),
)  # fmt: skip
table_machine_options = options(
    click.option("--workers", type=int,
                 help="Clients trained at once.  [default: the processors here, with --engine ray the cluster's]"),
    click.option("--engine", type=click.Choice(["threads", "ray"]), default="threads", show_default=True,
                 help="ray trains the cells on the workers of a Ray cluster, to the same numbers."),
)  # fmt: skip
tournament_options = options(
    click.option(
        "--algorithm",
        "algorithms",
        multiple=True,
        metavar="ALGORITHM",
        help="Who takes part. Repeatable.  [default: fedavg, fedprox, scaffold, fednova]",
    ),
    click.option("--model", help="As in `noniid run`.  [default: the data set's]"),
    click.option("--rounds", type=int, default=10, show_default=True, help="Rounds of communication."),
    click.option("--epochs", type=int, default=2, show_default=True, help="Local epochs a round."),
    click.option("--lr", type=float, help="Clients' learning rate.  [default: 0.01]"),
    click.option("--participation", type=float, help="Share of the clients that train in a round.  [default: 1]"),
    click.option("--seeds", default="5", show_default=True, help="How many seeds, or which: 3, or 0,2,5."),
    click.option("--workers", type=int, help="Clients trained at once.  [default: the processors here]"),
)  # fmt: skip
shown_options = options(
    click.option("--features", is_flag=True, help="Measure the skew of features too; that takes seconds."),
    click.option("--all", "show_all", is_flag=True, help="Show every client, however many."),
    click.option("--export", metavar="FILE", help="Write who holds what, too (json, npz, parquet): a split to use."),
    click.option("--figure", metavar="FILE", help="Draw it, too (png, svg or pdf)."),
    click.option(
        "--kind",
        type=click.Choice(["counts", "population", "bubbles", "sizes", "points", "examples", "tsne"]),
        default="counts",
        show_default=True,
        help="Of the figure; points are for three inputs, examples for images as clients see them, tsne for the "
             "features of up to 1,500 samples on a plane.",
    ),
)  # fmt: skip
