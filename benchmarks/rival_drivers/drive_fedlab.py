"""FedLab, as its two ways of simulating on one machine.

`standalone`: one process trains the clients one after the other, every operation on all cores. `processes`: a server
and a process per core that trains its part of the clients one after the other, on torch.distributed. Which part is for
the user to say: here all get about as many samples.

Importing FedLab imports torchvision, for image data sets that are not used here. torchvision of PyPI does not work
with a CPU build of torch; where it cannot be imported, an empty module takes its name.
"""

from __future__ import annotations

import logging
import socket
import sys
import types
from typing import Any

import torch

try:
    import torchvision  # noqa: F401
except (ImportError, RuntimeError):
    sys.modules["torchvision"] = empty = types.ModuleType("torchvision")
    sys.modules["torchvision.transforms"] = empty.transforms = types.ModuleType("torchvision.transforms")

from driver import Job, Talk, versions
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.client.manager import PassiveClientManager
from fedlab.core.network import DistNetwork
from fedlab.core.server.manager import SynchronousServerManager
from fedlab.utils import Aggregators, SerializationTool


class Trainer(SGDSerialClientTrainer):
    """Our local work in place of its own, which knows no momentum; sizes are sent along, to weigh by, and steps."""

    def __init__(self, job: Job, own: list[int], order: list[int]):
        super().__init__(job.net(), len(own))
        self.job, self.order = job, order

    def local_process(self, payload: list[torch.Tensor], id_list: list[int]) -> None:
        for client in (self.order[i] for i in id_list):
            self.set_model(payload[0])
            steps = self.job.train(self._model, client)
            self.cache.append([self.model_parameters, torch.tensor([float(self.job.sizes[client]), float(steps)])])


class Handler(SyncServerHandler):
    """FedAvg by size; FedLab's own averages clients alike."""

    def __init__(self, job: Job, talk: Talk):
        super().__init__(job.net(), global_round=10**9, sample_ratio=job.cohort / job.num_clients)
        self.num_clients = job.num_clients
        self.talk, self.steps = talk, 0

    def global_update(self, buffer: list[list[torch.Tensor]]) -> None:
        rows, told = zip(*buffer)
        sizes, steps = torch.stack(told).T
        mean = Aggregators.fedavg_aggregate(list(rows), sizes)
        SerializationTool.deserialize_model(self._model, mean)
        self.steps = int(steps.sum())

    @property
    def if_stop(self) -> bool:
        """Asked before every round: the benchmark's turn."""
        if self.round:
            self.talk.done(self.steps)
        return not self.talk.wait(lambda: self.model_parameters)


def standalone(folder: str) -> None:
    talk, job = Talk(), Job(folder)
    torch.set_num_threads(job.cores)
    everyone = list(range(job.num_clients))
    trainer: Any = Trainer(job, everyone, everyone)
    handler: Any = Handler(job, talk)
    talk.ready(job, versions("fedlab"))
    while not handler.if_stop:
        trainer.local_process(handler.downlink_package, handler.sample_clients())
        for package in trainer.uplink_package:
            handler.load(package)


def processes(folder: str) -> None:
    talk, job = Talk(), Job(folder)
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(folder, rank, port)) for rank in range(1, job.cores + 1)]
    for worker in workers:
        worker.start()
    manager = SynchronousServerManager(network(job, 0, port), Handler(job, talk), "GLOBAL")
    manager.setup()
    talk.ready(job, versions("fedlab"))
    manager.main_loop()
    manager.shutdown()
    for worker in workers:
        worker.join()


def work(folder: str, rank: int, port: int) -> None:
    """The process of this rank, from 1 on."""
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    job = Job(folder)
    parts = shared_out(job)
    trainer = Trainer(job, parts[rank - 1], [client for part in parts for client in part])
    PassiveClientManager(network(job, rank, port), trainer).run()


def network(job: Job, rank: int, port: int) -> DistNetwork:
    return DistNetwork(("127.0.0.1", port), job.cores + 1, rank)


def shared_out(job: Job) -> list[list[int]]:
    """The clients of each process: the largest first, to whom has least."""
    parts: list[list[int]] = [[] for _ in range(job.cores)]
    for client in sorted(range(job.num_clients), key=lambda client: -job.sizes[client]):
        min(parts, key=lambda part: sum(job.sizes[each] for each in part)).append(client)
    return parts


if __name__ == "__main__":
    logging.disable(logging.INFO)
    {"standalone": standalone, "processes": processes}[sys.argv[1]](sys.argv[2])
