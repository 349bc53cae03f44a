"""pfl on torch.distributed: a process per core, started by torchrun, the clients dealt to them by their size.

It trains with its own loop, on batches that it cuts once and takes in the same order ever after.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import numpy as np
import torch
from driver import Job, Talk, take, versions
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

FIRST = int(os.environ.get("RANK", "0")) == 0


class Net(nn.Module):
    """What pfl wants of a model; counts its steps."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net, self.steps = net, 0

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        self.steps += 1
        return F.cross_entropy(self.net(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """Asked for in the first round only, which is not timed."""
        return {"loss": Weighted(F.cross_entropy(self.net(x), y, reduction="sum").item(), len(y))}


class Turns(TrainingProcessCallback):
    """Between rounds, all processes wait for the first one's order."""

    def __init__(self, job: Job, net: Net):
        self._job, self._net = job, net
        self._talk = Talk() if FIRST else None

    def on_train_begin(self, *, model: Any) -> Metrics:
        if self._talk:
            self._talk.ready(self._job, versions("pfl"))
        self._stops()
        return Metrics()

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        steps = torch.tensor([self._net.steps])
        torch.distributed.all_reduce(steps)
        self._net.steps = 0
        if self._talk:
            self._talk.done(int(steps))
        return self._stops(), Metrics()

    def _stops(self) -> bool:
        go = torch.tensor([bool(self._talk and self._talk.wait(lambda: take(self._net)))], dtype=torch.uint8)
        torch.distributed.broadcast(go, 0)
        return not bool(go)


def federation(job: Job) -> FederatedDataset:
    @functools.cache
    def dataset(client: int) -> PyTorchTensorDataset:
        own = job.clients[client]
        own = own[torch.randperm(len(own), generator=torch.Generator().manual_seed(client))]
        return PyTorchTensorDataset((job.x[own], job.y[own]), user_id=str(client))

    users = list(range(job.num_clients))
    for user in users:
        dataset(user)  # made now, kept for all rounds
    return FederatedDataset(dataset, get_user_sampler("minimize_reuse", users), dict(zip(users, job.sizes)))


def main(folder: str) -> None:
    np.random.seed(0)  # the same in all processes, as it must be
    torch.set_num_threads(1)
    job = Job(folder)
    net = Net(job.net())
    rest = {name: value for name, value in job.optim.items() if name != "lr"}
    create = functools.partial(torch.optim.SGD, **rest, fused=True)
    model = PyTorchModel(net, create, torch.optim.SGD(net.parameters(), lr=1.0))
    data = federation(job)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**9, evaluation_frequency=10**9, train_cohort_size=job.cohort, val_cohort_size=0
        ),
        SimulatedBackend(data, data, [WeightByDatapoints()]),
        model,
        NNTrainHyperParams(
            local_batch_size=job.batch_size, local_num_epochs=job.epochs, local_learning_rate=job.optim["lr"]
        ),
        callbacks=[Turns(job, net)],
    )


if __name__ == "__main__":
    main(sys.argv[1])
