"""Who holds what: placements, shifts, and how skewed the result is."""

from noniid.split.base import Placement, Split
from noniid.split.clustered import Clustered
from noniid.split.feature import Fcube, Noise
from noniid.split.images import Blur, Contrast, Rotate, Scale
from noniid.split.independent import Independent
from noniid.split.label import Dirichlet, Labels
from noniid.split.measure import summary
from noniid.split.mislabel import LabelNoise
from noniid.split.natural import By, Grouped
from noniid.split.owners import TwoOwners
from noniid.split.population import Population
from noniid.split.quantity import Iid, Lognormal, Quantity
from noniid.split.recipe import PLACEMENTS, SHIFTS, Recipe, parse
from noniid.split.replay import Replay
from noniid.split.shift import Reading, Shift
from noniid.split.sizes import Growing, Sizes, Zipf
from noniid.split.sorted import Shards, Similarity
from noniid.split.standard import Standardise
from noniid.split.traits import Traits

__all__ = [
    "PLACEMENTS",
    "SHIFTS",
    "Blur",
    "By",
    "Clustered",
    "Contrast",
    "Dirichlet",
    "Fcube",
    "Grouped",
    "Growing",
    "Iid",
    "Independent",
    "LabelNoise",
    "Labels",
    "Lognormal",
    "Noise",
    "Placement",
    "Population",
    "Quantity",
    "Reading",
    "Recipe",
    "Replay",
    "Rotate",
    "Scale",
    "Shards",
    "Shift",
    "Similarity",
    "Sizes",
    "Split",
    "Standardise",
    "Traits",
    "TwoOwners",
    "Zipf",
    "parse",
    "summary",
]
