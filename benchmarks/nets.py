"""The models that are trained, in torch's own layers only: the hand-written loop and all rivals train these."""

from __future__ import annotations

import itertools

from torch import Tensor, nn
from torch.nn import functional as F


def mlp(num_classes: int) -> nn.Module:
    """NIID-Bench's MLP for the 123 columns of adult."""
    widths = (123, 32, 16, 8)
    hidden = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], num_classes))


class Net(nn.Module):
    """LeNet for 28x28 images; ReLU comes after pooling: a quarter of the work, the same result."""

    def __init__(self, num_classes: int):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


NETS = {"simple-cnn": Net, "mlp": mlp}
