"""What Flower's workers run. A module of its own, so that it is sent to them by name and not as code."""

from __future__ import annotations

import functools
import os

import torch
from driver import Job, put, take
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@functools.cache
def job() -> Job:
    """Read once by each worker."""
    torch.set_num_threads(1)
    return Job(os.environ["NONIID_JOB"])


@functools.cache
def net() -> torch.nn.Module:
    return job().net()


@app.train()
def train(message: Message, context: Context) -> Message:
    client = int(context.node_config["partition-id"])
    [row] = message.content["arrays"].to_numpy_ndarrays()
    put(net(), torch.from_numpy(row))
    steps = job().train(net(), client)
    told = {"num-examples": job().sizes[client], "steps": steps}
    content = RecordDict({"arrays": ArrayRecord([take(net()).numpy()]), "metrics": MetricRecord(told)})
    return Message(content=content, reply_to=message)
