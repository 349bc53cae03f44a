"""noniid: federated learning when clients' data differ."""

__version__ = "0.1.0"
