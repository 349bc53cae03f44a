"""Settings that hold for every test."""

import os

import threadpoolctl
import torch

# Which engine `auto` takes must not depend on how busy this machine is: calibration is tested by itself.
os.environ["NONIID_CALIBRATE"] = "0"

# The models are tiny, and so are numpy's matrices: several threads would only wait for each other.
torch.set_num_threads(1)
threadpoolctl.threadpool_limits(1)
os.environ["RAY_ADDRESS"] = "local"  # a Ray cluster of our own, whatever runs on this machine
