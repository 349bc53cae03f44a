"""Who holds what: placements, shifts, and how skewed the result is."""

from noniid.split.base import Placement, Shift, Split
from noniid.split.feature import Fcube, Noise
from noniid.split.label import Dirichlet, Labels
from noniid.split.measure import summary
from noniid.split.natural import By
from noniid.split.quantity import Iid, Quantity
from noniid.split.recipe import PLACEMENTS, SHIFTS, Recipe, parse
from noniid.split.sorted import Similarity

__all__ = [
    "PLACEMENTS",
    "SHIFTS",
    "By",
    "Dirichlet",
    "Fcube",
    "Iid",
    "Labels",
    "Noise",
    "Placement",
    "Quantity",
    "Recipe",
    "Shift",
    "Similarity",
    "Split",
    "parse",
    "summary",
]
