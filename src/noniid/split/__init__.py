"""Who holds what: placements, shifts, and how skewed the result is."""

from noniid.split.base import Placement, Split
from noniid.split.clustered import Clustered
from noniid.split.exchange import from_dict, from_subsets, to_dict, to_subsets
from noniid.split.feature import Fcube, Noise
from noniid.split.feature_measure import FeatureSkew, feature_skew, looked_at
from noniid.split.images import Blur, Contrast, Rotate, Scale
from noniid.split.independent import Independent
from noniid.split.kinds import Profile, profile
from noniid.split.label import Dirichlet, Labels
from noniid.split.measure import BesideChance, by_client, label_skew, size_skew, summary
from noniid.split.mislabel import LabelNoise
from noniid.split.natural import By, Grouped
from noniid.split.owners import TwoOwners
from noniid.split.parts import Parts
from noniid.split.population import Population
from noniid.split.quantity import Iid, Lognormal, Quantity
from noniid.split.recipe import PLACEMENTS, SHIFTS, Recipe, parse
from noniid.split.replay import Replay
from noniid.split.saved import Saved, check_form, labels_checksum, load_saved, save
from noniid.split.shift import Reading, Shift
from noniid.split.sizes import Growing, Sizes, Zipf
from noniid.split.sorted import Shards, Similarity
from noniid.split.standard import Standardise
from noniid.split.traits import Traits

__all__ = [
    "PLACEMENTS",
    "SHIFTS",
    "BesideChance",
    "Blur",
    "By",
    "Clustered",
    "Contrast",
    "Dirichlet",
    "Fcube",
    "FeatureSkew",
    "Grouped",
    "Growing",
    "Iid",
    "Independent",
    "LabelNoise",
    "Labels",
    "Lognormal",
    "Noise",
    "Parts",
    "Placement",
    "Population",
    "Profile",
    "Quantity",
    "Reading",
    "Recipe",
    "Replay",
    "Rotate",
    "Saved",
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
    "by_client",
    "check_form",
    "feature_skew",
    "from_dict",
    "from_subsets",
    "label_skew",
    "labels_checksum",
    "load_saved",
    "looked_at",
    "parse",
    "profile",
    "save",
    "size_skew",
    "summary",
    "to_dict",
    "to_subsets",
]
