"""Settings that hold for every test."""

import hashlib
import os
from pathlib import Path

import threadpoolctl
import torch

# numba keeps compiled code by the file a function stands in, and not by those whose code went into it: a change in one
# of these files would be tested with what others were compiled with before.
COMPILED = sorted((Path(__file__).parent.parent / "src/noniid/models/compiled").glob("*.py"))
CONTENT = hashlib.sha256(b"".join(path.read_bytes() for path in COMPILED)).hexdigest()[:12]
os.environ.setdefault("NUMBA_CACHE_DIR", str(COMPILED[0].parent / "__pycache__" / CONTENT))

# Which engine `auto` takes must not depend on how busy this machine is: calibration is tested by itself.
os.environ["NONIID_CALIBRATE"] = "0"

# The models are tiny, and so are numpy's matrices: several threads would only wait for each other.
torch.set_num_threads(1)
threadpoolctl.threadpool_limits(1)
os.environ["RAY_ADDRESS"] = "local"  # a Ray cluster of our own, whatever runs on this machine
