"""How fast are many clients with few samples each, of whom few take part?

Fashion-MNIST over 1,000 clients, 60 samples each, 50 clients a round, NIID-Bench's CNN, batches of 10, one epoch: six
short steps a client, so what counts is everything around them. The contenders are those of training_speed.py.
A repetition is ten rounds of FedAvg, without evaluation.

How to read it: as training_speed. The goal is three times the best hand loop.
"""

from __future__ import annotations

from dataclasses import replace

import harness
from noniid import split
from noniid.experiments.prepare import prepare
from setting import experiment
from training_speed import contenders, measure

CLIENTS = 1_000
COHORT = 50


def main() -> None:
    flags = harness.flags(__doc__)
    flags.add_argument("--repetitions", type=int, default=None, help="timed repetitions (default 7, quick 2)")
    flags.add_argument("--rounds", type=int, default=None, help="rounds of a repetition (default 10, quick 1)")
    flags.add_argument("--workers", type=int, default=harness.cores(), help="cores to use")
    arguments = flags.parse_args()
    setting = harness.environment()
    planned = replace(
        experiment(quick=arguments.quick),
        split=split.parse("iid"),
        clients=CLIENTS // 10 if arguments.quick else CLIENTS,
        participation=COHORT / CLIENTS,
        batch=10,
    )
    ready = prepare(planned)
    rounds = arguments.rounds or (1 if arguments.quick else 10)
    repetitions = arguments.repetitions or (2 if arguments.quick else 7)
    table = measure(ready, contenders(ready, arguments.workers), repetitions, rounds)
    harness.report("cross_device", table, setting, save=arguments.save)


if __name__ == "__main__":
    main()
