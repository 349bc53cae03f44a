"""Data sets as whole tensors: `load("mnist").train.batch(index)`.

Files lie in $NONIID_DATA (default ~/.cache/noniid), one folder for each set. What is missing is downloaded
and its checksum verified; without a network the error says which file to put where.
"""

from noniid.data.catalogue import CATALOGUE
from noniid.data.dataset import Dataset, Samples, SparseRows
from noniid.data.entry import Entry
from noniid.data.files import cache_dir
from noniid.data.loading import Row, fetch, info, is_drawn, listing, load
from noniid.data.own import is_own, load_whole, natural_client, own_data

__all__ = [
    "CATALOGUE",
    "Dataset",
    "Entry",
    "Row",
    "Samples",
    "SparseRows",
    "cache_dir",
    "fetch",
    "info",
    "is_drawn",
    "is_own",
    "listing",
    "load",
    "load_whole",
    "natural_client",
    "own_data",
]
