"""Who holds what: placements, shifts, and how skewed the result is."""

from noniid.split.base import Placement, Shift, Split
from noniid.split.clustered import Clustered
from noniid.split.feature import Fcube, Noise
from noniid.split.independent import Independent
from noniid.split.label import Dirichlet, Labels
from noniid.split.measure import summary
from noniid.split.natural import By, Grouped
from noniid.split.owners import TwoOwners
from noniid.split.population import Population
from noniid.split.quantity import Iid, Lognormal, Quantity
from noniid.split.recipe import PLACEMENTS, SHIFTS, Recipe, parse
from noniid.split.replay import Replay
from noniid.split.sizes import Growing, Sizes, Zipf
from noniid.split.sorted import Shards, Similarity
from noniid.split.traits import Traits

__all__ = [
    "PLACEMENTS",
    "SHIFTS",
    "By",
    "Clustered",
    "Dirichlet",
    "Fcube",
    "Grouped",
    "Growing",
    "Iid",
    "Independent",
    "Labels",
    "Lognormal",
    "Noise",
    "Placement",
    "Population",
    "Quantity",
    "Recipe",
    "Replay",
    "Shards",
    "Shift",
    "Similarity",
    "Sizes",
    "Split",
    "Traits",
    "TwoOwners",
    "Zipf",
    "parse",
    "summary",
]
