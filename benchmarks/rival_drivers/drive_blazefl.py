"""BlazeFL in its two parallel modes: a thread per core, or a pool of a process per core (made anew each round)."""

from __future__ import annotations

import sys
from multiprocessing import Manager
from typing import Any

import torch
from blazefl.contrib.fedavg import (
    FedAvgBaseServerHandler,
    FedAvgDownlinkPackage,
    FedAvgProcessPoolClientTrainer,
    FedAvgProcessPoolUplinkPackage,
    FedAvgThreadPoolClientTrainer,
)
from blazefl.core import IPCMode, SHMHandle, deserialize_model, serialize_model
from driver import Job, Talk, versions

job: Job  # of this process, and of those forked from it


class Selector:
    def select_model(self, model_name: str) -> torch.nn.Module:
        return job.net()


def trained(cid: int, payload: FedAvgDownlinkPackage) -> FedAvgProcessPoolUplinkPackage:
    """Our local work in place of its own, which knows no momentum; steps are sent along."""
    net = job.net()
    deserialize_model(net, payload.model_parameters)
    steps = job.train(net, cid)
    return FedAvgProcessPoolUplinkPackage(cid, serialize_model(net), job.sizes[cid], {"steps": float(steps)})


class Threads(FedAvgThreadPoolClientTrainer):
    def worker(self, cid: int, device: str, payload: Any, stop_event: Any) -> Any:
        return trained(cid, payload)


class Processes(FedAvgProcessPoolClientTrainer):
    def __init__(self) -> None:
        self.num_parallels, self.device, self.cache = job.cores, "cpu", []
        self.ipc_mode = IPCMode.SHARED_MEMORY
        self.manager = Manager()
        self.stop_event = self.manager.Event()
        self.model_parameters_buffer = job.w.clone()

    def prepare_uplink_package_buffer(self) -> FedAvgProcessPoolUplinkPackage:
        return FedAvgProcessPoolUplinkPackage(-1, self.model_parameters_buffer.clone(), 0, {"steps": 0.0})

    def get_client_config(self, cid: int) -> Any:
        return cid

    @staticmethod
    def worker(config: Any, payload: Any, device: str, stop_event: Any, *, shm_buffer: Any = None) -> Any:
        package = trained(config, payload)
        shm_buffer.model_parameters.copy_(package.model_parameters)
        package.model_parameters = SHMHandle()
        return package


def main(mode: str, folder: str) -> None:
    global job
    talk, job = Talk(), Job(folder)
    torch.set_num_threads(1)
    same: dict[str, Any] = {
        "model_selector": Selector(), "model_name": job.model, "dataset": None, "num_clients": job.num_clients,
        "device": "cpu", "batch_size": job.batch_size, "seed": 0,
    }  # fmt: skip
    server = FedAvgBaseServerHandler(global_round=10**9, sample_ratio=job.cohort / job.num_clients, **same)
    if mode == "threads":
        trainer: Any = Threads(epochs=job.epochs, lr=job.optim["lr"], num_parallels=job.cores, **same)
    else:
        trainer = Processes()
    talk.ready(job, versions("blazefl"))
    while talk.wait(lambda: serialize_model(server.model)):
        trainer.local_process(server.downlink_package(), server.sample_clients())
        packages = trainer.uplink_package()
        for package in packages:
            server.load(package)
        talk.done(int(sum(package.metadata["steps"] for package in packages)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
