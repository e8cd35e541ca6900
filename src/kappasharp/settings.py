"""Methods and presets as plain data, their tables by name with the defaults, and the checks of both.

A method says how questions are chosen; a preset has the model's numbers. Adding one is adding a row to `METHODS` or
`PRESETS`. Nothing here computes and nothing needs torch, so that whatever lists or stores studies starts without it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from numbers import Integral, Real
from typing import Any, Literal, get_args

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.questions.comparisons import OTHERS
from kappasharp.questions.kind import FIRST_BENT, FIRST_QUESTIONS, PAIR, Kind

# Where studies are kept: the variable that may name a database, and the one that is used without it.
ENVIRONMENT, DEFAULT_STORAGE = "KAPPASHARP_STORAGE", "sqlite:///kappasharp.db"
DEFAULT_VOTER = "me"
# The name of a program that answers, and how many questions it gets.
JUDGE, JUDGED_QUESTIONS = "judge", 30
# What docs/results supports today: no correction has beaten the plain baseline there, and of the presets `modern` has
# the better means.
DEFAULT_METHOD, DEFAULT_PRESET = "baseline", "modern"
# How many duels settle a study.
DUELS = 5
# The simulated people of `problems.simulated_voters`.
PERSONS = (
    "paper", "exact", "careless", "hesitant", "biased", "human", "shaky", "hasty", "timed", "interrupted", "absent",
)  # fmt: skip


class Inference(Enum):
    """How the posterior of the utilities is approximated."""

    LAPLACE = "laplace"
    EP = "ep"
    GIBBS = "gibbs"


class Query(Enum):
    """What a question may consist of: two fresh designs, or one against the last question's or the best one seen.

    Bridging asks against the best one seen where that promises more for what it costs: designs must be made. Expected
    improvement has a partner of its own, the best design seen. Settling makes no design: the one told
    to be best meets its likeliest better among those seen.
    """

    FRESH_PAIR = "fresh_pair"
    ANCHORED = "anchored"
    INCUMBENT = "incumbent"
    BRIDGING = "bridging"
    SETTLING = "settling"


class Acquisition(Enum):
    """What a question is chosen by: the better of a pair, or a new design's gain over the best one seen."""

    EUBO = "eubo"
    EXPECTED_IMPROVEMENT = "expected_improvement"


class Weights(Enum):
    """How the correction is spread: over the points, or in the prior's own metric (see `correction/spectral.py`)."""

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
class Method:
    """How questions are chosen, as data.

    Args:
        inference: How the posterior of the utilities is approximated.
        correction: What is added to the Hessian, where, and how strongly.
        gate: When the correction acts.
        query: Whether both designs of a question are new, or one is held.
        acquisition: What a question is chosen by.
        designs: How many designs a question shows; a slider's line goes through them.
        kind: What a person does with them.
        first: How many first questions are about Sobol designs, where a run starts from nothing; 0 is as many as
            the kind needs, of pairs the preset's.
        others: With how many other places of its line a slider's is compared; 0 is as many as its designs need.
        near: How near to it none of them lies, in units of the line's length; 0 is as its designs need.
        use_outcomes: Whether taste is learnt on what is computed from a design, beside its parameters.
        use_seconds: Whether quick answers count as clear ones, where a person's times show that they are.
        tell_apart: Whether several people have tastes of their own beside what they share; else all are one person.
        design_cost: What making a design costs, in questions answered; bridging weighs it.
    """

    inference: Inference = Inference.LAPLACE
    correction: Correction = field(default_factory=Correction)
    gate: Gate = field(default_factory=Gate)
    query: Query = Query.FRESH_PAIR
    acquisition: Acquisition = Acquisition.EUBO
    designs: int = PAIR
    design_cost: float = 0.25
    kind: Kind = Kind.PAIR
    first: int = 0
    others: int = 0
    near: float = 0.0
    use_seconds: bool = False
    use_outcomes: bool = False
    tell_apart: bool = False

    @property
    def asks(self) -> Kind:
        """The kind of the next question: what is settled by two designs is a pair, whatever else is asked."""
        return Kind.PAIR if self.query is Query.SETTLING and self.designs == PAIR else self.kind

    def first_questions(self, pairs: int) -> int:
        """How many questions about Sobol designs come before the model's, where so many pairs would."""
        usual = FIRST_QUESTIONS.get(self.kind, pairs)
        return self.first or (FIRST_BENT if self.kind is Kind.SLIDER and self.designs > PAIR else usual)


# The kernel's shape.
Family = Literal["rbf", "matern52"]
# The form of EUBO.
Variant = Literal["expected_max", "improvement"]
# Where the posterior covariance takes the likelihood's curvature: at the MAP, or averaged over the posterior.
Curvature = Literal["mode", "averaged"]


@dataclass(frozen=True)
class Preset:
    """The choices around a method, each by name so that a result can carry them all.

    Args:
        priors: The hyperparameters' priors, by name.
        kernel: The kernel's family.
        noise: The model's own σ.
        threshold: The half-width of a tie, in the units of `noise`; 0 leaves ties out of the model.
        nugget: What stands on the diagonal of the prior covariance, relative to the output scale.
        eubo: The form of EUBO.
        maximizer: How much is spent on finding the largest EUBO, by name.
        cold_fit: Whether every fit starts from the prior's mode as well as from the last one.
        curvature: Where the posterior covariance takes the likelihood's curvature: at the MAP, or averaged.
        exploration: What EUBO multiplies the posterior deviation by.
        reach: Half the side of a box around the best design seen to which a question is confined, its sides in
            proportion to the length scales; 0 is the whole cube. Whole numbers and choices are not confined.
        reach_from: In how many dimensions there is such a box at all.
        reach_least: The box's half side in any coordinate is at least this, where short length scales would shrink it.
        reach_every: Of how many questions one is confined: 1 confines all, 2 every other one.
        first_pairs: How many pairs of a Sobol sequence are asked before the model chooses, where a study or a run
            starts from nothing.
    """

    priors: str = "botorch_0_18"
    kernel: Family = "rbf"
    noise: float = 1.0
    threshold: float = 0.0
    nugget: float = 1e-6
    eubo: Variant = "expected_max"
    maximizer: str = "default"
    cold_fit: bool = True
    curvature: Curvature = "mode"
    exploration: float = 1.0
    reach: float = 0.0
    reach_from: int = 1
    reach_least: float = 0.0
    reach_every: int = 1
    first_pairs: int = 5


# The methods and presets by name. The first table is the paper's list of methods and ablations: a method is a row.

KAPPASHARP = Correction(Weights.PRIOR_WEIGHTED, Placement.MAP, target_exponent=0.1)
ALWAYS = Gate(Rule.ALWAYS)

METHODS: dict[str, Method] = {
    "baseline": Method(),
    "static": Method(correction=KAPPASHARP, gate=ALWAYS),
    "fixed20": Method(correction=KAPPASHARP, gate=Gate(Rule.ALWAYS, first_step=20)),
    "adaptive": Method(correction=KAPPASHARP, gate=Gate(Rule.DECISIVE)),
    "connected": Method(query=Query.ANCHORED),
    "jitter": Method(correction=replace(KAPPASHARP, weights=Weights.TRACE_MATCHED), gate=ALWAYS),
    "diagonal": Method(correction=replace(KAPPASHARP, weights=Weights.UNIFORM), gate=ALWAYS),
    "metric_only": Method(correction=replace(KAPPASHARP, placement=Placement.NEWTON_STEP), gate=ALWAYS),
    "cov_only": Method(correction=replace(KAPPASHARP, placement=Placement.COVARIANCE), gate=ALWAYS),
    "full_augmentation": Method(correction=replace(KAPPASHARP, placement=Placement.BOTH), gate=ALWAYS),
    "spectral": Method(correction=replace(KAPPASHARP, weights=Weights.SPECTRAL), gate=ALWAYS),
    "aligned": Method(correction=replace(KAPPASHARP, weights=Weights.ALIGNED), gate=ALWAYS),
    "auto": Method(correction=replace(KAPPASHARP, weights=Weights.SPECTRAL), gate=Gate(Rule.VALIDATED)),
    "incumbent": Method(query=Query.INCUMBENT),
    "bridging": Method(query=Query.BRIDGING),
    "best_of_3": Method(designs=3),
    "best_of_4": Method(designs=4),
    "choice_3": Method(designs=3, kind=Kind.CHOICE),
    "choice_4": Method(designs=4, kind=Kind.CHOICE),
    "order_3": Method(designs=3, kind=Kind.ORDER),
    "order_4": Method(designs=4, kind=Kind.ORDER),
    "slider": Method(kind=Kind.SLIDER),
    "slider_4": Method(kind=Kind.SLIDER, designs=4),
    "rating": Method(kind=Kind.RATING),
    "timed": Method(use_seconds=True),
    "people": Method(tell_apart=True),
    "outcomes": Method(use_outcomes=True),
    "ep": Method(Inference.EP),
    "ep_ei": Method(Inference.EP, acquisition=Acquisition.EXPECTED_IMPROVEMENT),
    "gibbs_ei": Method(Inference.GIBBS, acquisition=Acquisition.EXPECTED_IMPROVEMENT),
}

PRESETS: dict[str, Preset] = {
    # The paper's protocol: BoTorch 0.6.0's priors, EUBO from 4 starts out of 32 raw pairs.
    "paper": Preset(priors="botorch_0_6", nugget=1e-4, maximizer="paper"),
    # The default: BoTorch 0.18's length scales, but an output scale that cannot fall to where every answer is a coin
    # that was tossed (docs/results/from-zero.md); our own search for EUBO; and curvature that does not vanish where an
    # answer was expected (Departure 10).
    "modern": Preset(priors="outputscale_near_30", nugget=1e-6, maximizer="default", curvature="averaged"),
    # What `modern` was until 0.2: all of BoTorch 0.18's priors.
    "modern_0_2": Preset(priors="botorch_0_18", nugget=1e-6, maximizer="default", curvature="averaged"),
    # Questions around the best design seen: for many dimensions and few first answers (docs/results/what-wins.md).
    "local": Preset(priors="botorch_0_18", nugget=1e-6, maximizer="default", curvature="averaged", reach=0.1),
    "dimension_scaled": Preset(priors="dimension_scaled", nugget=1e-6, maximizer="default", curvature="averaged"),
}


def find_method(name: str | Method) -> Method:
    """The method of that name; a Method is checked and passed through."""
    if not isinstance(name, Method):
        return named("method", name, METHODS)

    return method(name)


def find_preset(name: str | Preset) -> Preset:
    """The preset of that name; a Preset is checked and passed through."""
    if not isinstance(name, Preset):
        return named("preset", name, PRESETS)

    return preset(name)


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
# More designs than this a person cannot look at side by side.
MOST_DESIGNS = 12
# Fewest and most designs of a question; a slider's line is sought through them in every order.
DESIGNS = {
    Kind.PAIR: (PAIR, MOST_DESIGNS),
    Kind.CHOICE: (3, MOST_DESIGNS),
    Kind.ORDER: (3, MOST_DESIGNS),
    Kind.SLIDER: (PAIR, 6),
    Kind.RATING: (PAIR, PAIR),
}


def method(value: Method) -> Method:
    """A method whose choices are choices and whose numbers make sense."""
    kinds = (
        ("inference", Inference), ("correction", Correction), ("gate", Gate), ("query", Query),
        ("acquisition", Acquisition), ("kind", Kind),
    )  # fmt: skip
    for name, kind in kinds:
        if not isinstance(getattr(value, name), kind):
            raise InvalidTypeError(f"`Method.{name}` must be a {kind.__name__}, but got {getattr(value, name)!r}.")
    if isinstance(value.designs, bool) or not isinstance(value.designs, Integral):
        raise InvalidTypeError(f"`Method.designs` must be a whole number, but got {value.designs!r}.")
    _number("Method.designs", value.designs, float(PAIR), float(MOST_DESIGNS), closed=True)
    _number("Method.design_cost", value.design_cost, 0.0, math.inf, closed=True)
    _choices_fit(value)
    gate = value.gate
    _number("Correction.target_exponent", value.correction.target_exponent, 0.0, 1.0)
    _number("Gate.threshold", gate.threshold, 0.0, 1.0, closed=True)
    _number("Gate.ema_rate", gate.ema_rate, 0.0, 1.0, closed=True)
    _number("Gate.first_step", gate.first_step, 1.0, math.inf, closed=True)
    _number("Gate.noise", gate.noise, 0.0, math.inf, closed=True)
    return value


def _kind_fits(value: Method) -> None:
    """What a question of more than a bit needs, an answer with its time, and several people."""
    for name in ("use_seconds", "tell_apart"):
        if not isinstance(getattr(value, name), bool):
            raise InvalidTypeError(f"`Method.{name}` must be true or false, but got {getattr(value, name)!r}.")
    if value.kind is Kind.PAIR and not value.use_seconds and not value.tell_apart:
        return
    plain = value.inference is Inference.LAPLACE and value.correction.weights is Weights.NONE
    if not plain or value.acquisition is not Acquisition.EUBO or value.query not in (Query.FRESH_PAIR, Query.SETTLING):
        raise InvalidValueError(
            f"`Method.kind` must be PAIR, without `use_seconds` and `tell_apart`, but for the plain method (LAPLACE, "
            f"no correction, EUBO, FRESH_PAIR), but got {value.kind.name}: answers that say more and "
            "people told apart have no place in the others."
        )
    _number("Method.first", value.first, 0.0, math.inf, closed=True)
    if isinstance(value.others, bool) or not isinstance(value.others, Integral):
        raise InvalidTypeError(f"`Method.others` must be a whole number, but got {value.others!r}.")
    _number("Method.others", value.others or OTHERS, 2.0, 20.0, closed=True)
    _number("Method.near", value.near, 0.0, 0.4, closed=True)
    fewest, most = DESIGNS[value.kind]
    if not fewest <= value.designs <= most:
        words = f"{fewest} to {most}" if fewest < most else str(most)
        raise InvalidValueError(f"`Method.designs` must be {words} for a {value.kind.name}, but got {value.designs}.")


def _choices_fit(value: Method) -> None:
    """Choices that have no meaning together."""
    if value.inference is not Inference.LAPLACE and value.correction.weights is not Weights.NONE:
        raise InvalidValueError(
            f"`Method.correction` must be without weights where `Method.inference` is {value.inference.name}, but got "
            f"{value.correction.weights.name}: the correction shifts a MAP, and only LAPLACE has one."
        )
    weights, placement = value.correction.weights, value.correction.placement
    in_map_only = weights in (Weights.SPECTRAL, Weights.ALIGNED) or value.gate.rule is Rule.VALIDATED
    if in_map_only and placement is not Placement.MAP:
        raise InvalidValueError(
            "`Correction.placement` must be MAP where the weights are SPECTRAL or ALIGNED or the gate is VALIDATED, "
            f"but got {weights.name} in {placement.name}, gate {value.gate.rule.name}: elsewhere they are not defined."
        )
    if value.acquisition is Acquisition.EXPECTED_IMPROVEMENT and value.query is not Query.FRESH_PAIR:
        raise InvalidValueError(
            "`Method.query` must be FRESH_PAIR where `Method.acquisition` is EXPECTED_IMPROVEMENT, but got "
            f"{value.query.name}: expected improvement asks against the best design seen."
        )
    _kind_fits(value)
    fresh = value.query is Query.FRESH_PAIR and value.acquisition is Acquisition.EUBO
    if value.designs > PAIR and not fresh:
        raise InvalidValueError(
            f"`Method.designs` must be {PAIR} where a question holds a design already seen, but got {value.designs} "
            f"with {value.query.name} and {value.acquisition.name}."
        )


def preset(value: Preset) -> Preset:
    """A preset whose names exist and whose numbers make sense."""
    tables: tuple[tuple[str, Iterable[str]], ...] = (
        ("priors", PRIOR_NAMES), ("kernel", get_args(Family)), ("eubo", get_args(Variant)), ("maximizer", MAXIMIZERS),
        ("curvature", get_args(Curvature)),
    )  # fmt: skip
    for name, table in tables:
        named(name, getattr(value, name), dict.fromkeys(table))
    _number("noise", value.noise, 0.0, math.inf)
    _number("threshold", value.threshold, 0.0, math.inf, closed=True)
    _number("nugget", value.nugget, 0.0, math.inf, closed=True)
    _number("exploration", value.exploration, 0.0, math.inf)
    _number("reach", value.reach, 0.0, math.inf, closed=True)
    _number("reach_least", value.reach_least, 0.0, math.inf, closed=True)
    for name in ("reach_from", "reach_every", "first_pairs"):
        count = getattr(value, name)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidValueError(f"`{name}` must be a whole number of 1 or more, but got {count!r}.")
    return value


def _number(name: str, value: Any, low: float, high: float, *, closed: bool = False) -> None:
    """A finite number between low and high, the ends included where `closed`."""
    known = isinstance(value, Real) and math.isfinite(value)
    if not (known and (low <= value <= high if closed else low < value < high)):
        rule = f"of {low} or more" if high == math.inf else f"from {low} to {high}"
        ends = "" if closed else f", {low} itself left out"
        raise InvalidValueError(f"`{name}` must be a finite number {rule}{ends}, but got {value!r}.")
