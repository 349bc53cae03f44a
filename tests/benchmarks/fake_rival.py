"""A rival of few lines: plain PyTorch, driven like the true ones. `FAKE` says what it does wrong, if anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "rival_drivers"))

from driver import Job, Talk, put, take


def main(folder: str) -> None:
    wrong = os.environ.get("FAKE", "")
    talk, job = Talk(), Job(folder)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if wrong == "other data":
        job.checksum += 1
    if wrong == "cannot start":
        raise ImportError("Error: no module of that name")
    print("a word of the rival's own, which must not be taken for an answer")
    known, net = {"w": job.w}, job.net()
    talk.ready(job, "fake 1.0")
    while talk.wait(lambda: known["w"]):
        w, total, steps = known["w"], torch.zeros_like(job.w), 0
        if wrong == "breaks":
            raise ValueError("cannot train")
        for client in range(job.num_clients):
            put(net, w)
            steps += job.train(net, client)
            total += take(net) * job.sizes[client] / sum(job.sizes)
        known["w"] = w if wrong == "learns nothing" else total
        talk.done(steps - (wrong == "a step less"))


if __name__ == "__main__":
    main(sys.argv[1])
