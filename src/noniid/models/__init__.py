"""Models: a spec and a data set's shape in, a module out."""

from __future__ import annotations

from noniid.models.base import Model, fresh
from noniid.models.cnn import McMahanCNN, SimpleCNN
from noniid.models.dense import MLP, Linear, TwoNN
from noniid.models.fused import Descent, Walk, plain_operations
from noniid.models.imported import Imported, is_model
from noniid.models.recurrent import LSTM
from noniid.spec import Registry

MODELS: Registry[Model] = Registry(
    "model",
    {
        "simple-cnn": SimpleCNN,
        "mcmahan-cnn": McMahanCNN,
        "mlp": MLP,
        "two-nn": TwoNN,
        "linear": Linear,
        "lstm": LSTM,
        "import": Imported,
    },
)


def parse(text: str) -> Model:
    """`simple-cnn`, `mlp(start=torch)`, ...; `package.module:thing` is a Model class, or what makes a module."""
    return Imported(text) if ":" in text and "(" not in text and not is_model(text) else MODELS.parse(text)


__all__ = ["MODELS", "Descent", "Model", "Walk", "fresh", "parse", "plain_operations"]
