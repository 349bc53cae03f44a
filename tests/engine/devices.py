"""The devices that engines are tried on: those that are here."""

from __future__ import annotations

import pytest
import torch

WITH_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
GPU = pytest.param("cuda", marks=WITH_GPU)
DEVICES = ["cpu", GPU]
