"""Flower's simulation on Ray: a worker process per core, one client each, and its FedAvg strategy."""

from __future__ import annotations

import os
import sys
import traceback

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", NONIID_JOB=sys.argv[1])

import flower_client
import torch
from driver import Job, Talk, versions
from flwr.app import ArrayRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation


class Stopped(Exception):
    """The benchmark has seen enough."""


def main(folder: str) -> None:
    talk, job = Talk(), Job(folder)
    steps = 0

    def count(replies: list[RecordDict], _: str) -> MetricRecord:
        nonlocal steps
        steps = sum(int(reply["metrics"]["steps"]) for reply in replies)
        return MetricRecord()

    def between(round: int, arrays: ArrayRecord) -> None:
        """Called where Flower evaluates: before the first round and after each."""
        if round:
            talk.done(steps)
        else:
            talk.ready(job, versions("flwr", "ray"))
        if not talk.wait(lambda: torch.from_numpy(arrays.to_numpy_ndarrays()[0].copy())):
            raise Stopped

    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        share = job.cohort / job.num_clients
        strategy = FedAvg(fraction_train=share, fraction_evaluate=0.0, train_metrics_aggr_fn=count)
        try:
            start = ArrayRecord([job.w.numpy()])
            strategy.start(grid, start, num_rounds=10**9, timeout=3600, evaluate_fn=between)
        except Stopped:
            pass

    # A Ray of its own: by default it would join one that happens to run here.
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    backend = {"client_resources": resources, "init_args": {"address": "local", "num_cpus": job.cores}}
    try:
        run_simulation(server, flower_client.app, job.num_clients, backend_config=backend)
    except Exception:  # its server would go on waiting for answers, in a thread of its own
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
