"""Who holds what: placements, shifts, and how skewed the result is."""

from noniid.split.base import Placement, Shift, Split
from noniid.split.exchange import from_dict, from_subsets, to_dict, to_subsets
from noniid.split.feature import Fcube, Noise
from noniid.split.feature_measure import FeatureSkew, feature_skew, looked_at
from noniid.split.kinds import Profile, profile
from noniid.split.label import Dirichlet, Labels
from noniid.split.measure import BesideChance, by_client, label_skew, size_skew, summary
from noniid.split.natural import By
from noniid.split.quantity import Iid, Quantity
from noniid.split.recipe import PLACEMENTS, SHIFTS, Recipe, parse
from noniid.split.saved import Saved, check_form, labels_checksum, load_saved, save
from noniid.split.sorted import Similarity

__all__ = [
    "PLACEMENTS",
    "SHIFTS",
    "BesideChance",
    "By",
    "Dirichlet",
    "Fcube",
    "FeatureSkew",
    "Iid",
    "Labels",
    "Noise",
    "Placement",
    "Profile",
    "Quantity",
    "Recipe",
    "Saved",
    "Shift",
    "Similarity",
    "Split",
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
