"""Settings that hold for every test."""

import torch

# The models are tiny: two intra-op threads would only wait for each other.
torch.set_num_threads(1)
