"""What the equations are told, as plain data: the choices of a method, and what an answer says as comparisons.

Nothing here computes, so nothing here needs torch: whatever reads, lists or stores studies starts without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Literal, NamedTuple

# The kernel's shape.
Family = Literal["rbf", "matern52"]
# Where the posterior covariance takes the likelihood's curvature: at the MAP, or averaged over the posterior.
Curvature = Literal["mode", "averaged"]
# The form of EUBO.
Variant = Literal["expected_max", "improvement"]
# With how many other places of a line the chosen one is compared at least.
OTHERS = 4


class Beside(NamedTuple):
    """With how many other places of its line a slider's is compared, and how near to it none of them is."""

    others: int
    near: float  # in units of the line's length


def beside(designs: int) -> Beside:
    """Those of a line through so many designs: the longer a line, the more of them, and the nearer."""
    return Beside(max(OTHERS, 2 * designs - 1), 0.2 / designs)


class Weights(Enum):
    """How the correction is spread: over the points, or in the prior's own metric (see `spectral.py`)."""

    NONE = "none"
    PRIOR_WEIGHTED = "prior_weighted"
    UNIFORM = "uniform"
    TRACE_MATCHED = "trace_matched"
    SPECTRAL = "spectral"
    ALIGNED = "aligned"


class Placement(Enum):
    """Where the correction acts."""

    MAP = "map"
    NEWTON_STEP = "newton_step"
    COVARIANCE = "covariance"
    BOTH = "both"


@dataclass(frozen=True)
class Correction:
    """A correction as data: its weights, its place and how far κ is brought down."""

    weights: Weights = Weights.NONE
    placement: Placement = Placement.MAP
    target_exponent: float = 0.1


class Rule(Enum):
    """The ways of deciding whether the correction acts; VALIDATED: where it predicts the answers left out better."""

    NEVER = "never"
    ALWAYS = "always"
    DECISIVE = "decisive"
    VALIDATED = "validated"


@dataclass(frozen=True)
class Gate:
    """A gate as data; `threshold`, `ema_rate` and `noise` matter to the decisive rule only.

    `noise` is the σ of p_t; 0 stands for the model's own.
    """

    rule: Rule = Rule.NEVER
    first_step: int = 8
    threshold: float = 0.30
    ema_rate: float = 0.2
    noise: float = 0.0


@dataclass(frozen=True)
class Maximizer:
    """How much is spent on finding the largest EUBO, and where the search starts."""

    raw: int
    starts: int
    finalists: int
    from_pool: bool
    sorting_rounds: int = 12
    max_rounds: int = 200
    # How many points are tried around each of the best designs seen.
    copies: int = 24


MAXIMIZERS = {
    "paper": Maximizer(raw=32, starts=4, finalists=4, from_pool=False),
    "default": Maximizer(raw=128, starts=12, finalists=4, from_pool=True),
    # Half the time: of what a pair promises beyond the best design 99.7 % and more on average, 98 % at worst (36 pairs
    # in 2 and 6 dimensions).
    "quick": Maximizer(raw=128, starts=4, finalists=4, from_pool=True),
    "thorough": Maximizer(raw=512, starts=32, finalists=16, from_pool=True, sorting_rounds=24),
}

# The priors of the hyperparameters, by name; their densities are the kernels' own.
PRIOR_NAMES = (
    "botorch_0_6", "botorch_0_18", "botorch_0_6_width_2", "botorch_0_6_width_20", "dimension_scaled",
    "outputscale_to_4", "outputscale_to_10", "outputscale_to_1000", "outputscale_near_10", "short_lengthscale",
    "firm_lengthscale", "long_lengthscale", "outputscale_near_3", "outputscale_near_30", "outputscale_near_100",
    "outputscale_about_10", "outputscale_firm_30", "outputscale_firmer_30", "outputscale_firm_20",
    "outputscale_firm_50", "firmer_firm_30", "fairly_firm_30", "short_near_30", "shorter_near_30", "firm_near_30",
    "firmer_near_30", "firm_short_near_30", "shared_0_5_firm_near_30", "shared_0_3", "shared_0_5", "shared_0_8",
    "shared_0_5_firm", "shared_0_5_alike", "shared_0_5_apart",
)  # fmt: skip


class Said(NamedTuple):
    """Comparisons between the designs of one question, by their numbers, better first; which are ties; a rating."""

    pairs: tuple[tuple[int, int], ...]
    ties: tuple[bool, ...]
    level: int = 0


def best_of(count: int, best: int) -> Said:
    """One of `count` designs was named the best."""
    return Said(tuple((best, other) for other in range(count) if other != best), (False,) * (count - 1))


def order_of(count: int, groups: Sequence[int | Sequence[int]]) -> Said:
    """Designs in order, the best first, equals together; those that are not named come after all that are.

    Equals follow each other as ties, so between two groups the last of one stands before the first of the next.
    """
    named = [[group] if isinstance(group, int) else list(group) for group in groups]
    line = [(number, place) for place, group in enumerate(named) for number in group]
    pairs = [(first[0], second[0]) for first, second in pairwise(line)]
    ties = [first[1] == second[1] for first, second in pairwise(line)]
    rest = sorted(set(range(count)) - {number for number, _ in line})
    return Said((*pairs, *((line[-1][0], other) for other in rest)), (*ties, *(False for _ in rest)))


def rated(rating: int) -> Said:
    """The first of two designs was said to be so much better than the second: −3 to 3."""
    pair = (0, 1) if rating >= 0 else (1, 0)
    return Said((pair,), (rating == 0,), abs(rating))
