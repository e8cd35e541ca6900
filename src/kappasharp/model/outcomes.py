"""The lift of a study: from designs to the outcomes that its model learns taste on, as far as they are known.

Cheap outcomes are computed wherever the model looks. Dear ones (measured, or slow to compute) are predicted by a
Gaussian process each from the designs whose outcomes are known; so are those that a cheap function fails to give.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import features
from kappasharp.inference.features import Lift, Scaling
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History, Known, design_key
from kappasharp.model import points as model_points
from kappasharp.regression import gaussian_process, predictability
from kappasharp.regression.composite import UncertainLift
from kappasharp.regression.gaussian_process import Regression
from kappasharp.simulators import cache, simulator
from kappasharp.simulators.cache import Key
from kappasharp.simulators.simulator import CHEAP
from kappasharp.space.outcomes import OutcomeFunction, Outcomes, Values
from kappasharp.space.space import Space

Way = Literal["computed", "predicted", "none"]
# How it is found out whether a design keeps the limits of outcomes: of all designs, or of those alone that have some.
LimitsWay = Literal["computed", "predicted", "recorded"]
# Designs of the Sobol sequence that show how far cheap outcomes vary, and the fewest whose outcomes can be learnt on.
SAMPLE, LEAST_DESIGNS = 128, 3
# An outcome that varies by less than this share of its size does not vary.
LEAST_VARIATION = 1e-12
# A function no longer works where fresh designs fail, one and all, with less than this chance by its share of the
# sample; how many of them are looked at, at most.
LEAST_LUCK, MOST_FRESH = 1e-4, SAMPLE

Rows = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Given:
    """What is known of a study's outcomes at one moment, and the three ways to come by more."""

    space: Space
    seed: int
    outcomes: Outcomes
    known: tuple[Known, ...]
    simulator: OutcomeFunction | None
    # How many events there are.
    moment: int

    @property
    def is_quick(self) -> bool:
        """Whether there is a function here that took about 50 ms for a design, or less, when the study was made."""
        return self.simulator is not None and (self.outcomes.seconds or 0.0) <= CHEAP

    @cached_property
    def is_cheap(self) -> bool:
        """Whether the model may look through the function: it is quick, and works.

        One that no longer works gives way to what was stored, if that is enough to learn on.
        """
        if not self.is_quick:
            return False
        stored = sum(bool(one.runs) and one.values.keys() == set(self.outcomes.names) for one in self.known)
        if stored < LEAST_DESIGNS:
            return True
        return self._sample_has >= LEAST_DESIGNS and not (self.outcomes.limited and self.is_lost)

    @cached_property
    def _sample_has(self) -> int:
        """How many designs of the sample the function gives all outcomes of."""
        return _complete(self._sample[1])

    @cached_property
    def is_lost(self) -> bool:
        """Whether a quick function works no more: it fails for fresh designs, which are others at every question.

        What it has computed stays known in this process, so the sample alone would never tell.
        """
        failing = 1.0 - self._sample_has / (SAMPLE + 1)
        if failing == 1.0:
            return True
        many = min(math.ceil(math.log(LEAST_LUCK) / math.log(failing)), MOST_FRESH)
        fresh = model_points.points(
            self.space, model_points.designs(self.space.whole, self.seed + 1, MOST_FRESH * self.moment, many)
        )
        return all(not _complete(self.computed(one)) for one in fresh.split(LEAST_DESIGNS))

    @cached_property
    def limited_by(self) -> LimitsWay:
        """How limits are kept. It takes less than learning does: an outcome may be constant, or as good as chance."""
        if self.is_cheap:
            return "recorded" if self.is_lost else "computed"
        known_of = [many for many, one in zip(self.known_of, self.outcomes.table, strict=True) if one.is_limited]
        return "predicted" if min(known_of) >= LEAST_DESIGNS else "recorded"

    @cached_property
    def points(self) -> Tensor:
        """The designs (n, d) whose outcomes are known: the sample of a cheap function, or what was recorded."""
        return (
            self._sample[0]
            if self.is_cheap
            else model_points.points(self.space, (one.design for one in self.known if one.runs))
        )

    @cached_property
    def values(self) -> Tensor:
        """Their outcomes (n, k) as they are, NaN where there is none."""
        if self.is_cheap:
            return self._sample[1]
        rows = [self.outcomes.row(one.values) for one in self.known if one.runs]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), self.size)

    @cached_property
    def _measured(self) -> dict[Any, Values]:
        """What was measured of single designs comes before what is computed of them."""
        return {design_key(one.design): one.values for one in self.known if one.source == "measured" and one.runs}

    @cached_property
    def _sample(self) -> tuple[Tensor, Tensor]:
        """Designs (n, d) of the Sobol sequence, and what the function gives of them."""
        assert self.simulator is not None
        points, (keys, values, _) = _sampled(self.space, self.seed, self.simulator, self.outcomes)
        return points, self._with_measured(keys, values)

    @property
    def size(self) -> int:
        """How many outcomes there are."""
        return len(self.outcomes.table)

    @cached_property
    def _packed_values(self) -> bytes:
        return _packed(self.values)

    @property
    def known_of(self) -> list[int]:
        """Of how many designs each outcome is known."""
        return [many for many, _ in _shown(self._packed_values, self.size)]

    @cached_property
    def scaling(self) -> Scaling:
        """How outcomes come to lie about between 0 and 1; ½ everywhere where known of few, or by chance."""
        few = (many < LEAST_DESIGNS for many in self.known_of)
        return _scaling(self._packed_values, tuple(map(operator.or_, few, self.chancy)))

    @property
    def varying(self) -> list[bool]:
        """Which outcomes vary among the designs whose outcomes are known."""
        return [varies for _, varies in _shown(self._packed_values, self.size)]

    @cached_property
    def chancy(self) -> list[bool]:
        """Which outcomes of a cheap function are as good as chance: other designs foresee too little of them."""
        return [share < predictability.enough(self.points.shape[-1]) for share in self.shares]

    @cached_property
    def shares(self) -> list[float]:
        """What of each outcome of a cheap function other designs foresee; all of one with a hint: it matters."""
        if not self.is_cheap or all(self.outcomes.leaning):
            return [1.0] * self.size
        found = _foreseen(_packed(self.points), self._packed_values, self.size)
        return [1.0 if hinted else share for share, hinted in zip(found, self.outcomes.leaning, strict=True)]

    @property
    def doubt(self) -> float:
        """How much doubt there is that the outcomes that taste is learnt on are more than chance."""
        kept = [share for share, learnt in zip(self.shares, self.learnt_on, strict=True) if learnt]
        return predictability.doubt(kept, self.points.shape[-1])

    @cached_property
    def learnt_on(self) -> list[bool]:
        """Which outcomes taste is learnt on."""
        found = zip(self.varying, self.chancy, self.known_of, strict=True)
        return [varies and not chance and many >= LEAST_DESIGNS for varies, chance, many in found]

    @cached_property
    def way(self) -> Way:
        """How the model comes by outcomes; not at all as long as too few are known, or none can be learnt on."""
        if not any(self.learnt_on):
            return "none"
        return "computed" if self.is_cheap else "predicted"

    @cached_property
    def lift(self) -> Lift | None:
        """From points to scaled outcomes; None where taste is learnt on parameters alone."""
        if self.way == "none":
            return None
        if self.is_cheap:
            return ComputedLift(self)
        leaning = (hint if learnt else 0 for hint, learnt in zip(self.outcomes.leaning, self.learnt_on, strict=True))
        return PredictedLift(self.regression, self.scaling.__call__, leaning=tuple(leaning))

    def computed(self, X: Tensor) -> Tensor:
        """Outcomes (n, k) of points (n, d), recorded or computed; NaN where there are none."""
        return self._computed(X)[0]

    def _computed(self, X: Tensor) -> tuple[Tensor, bool]:
        """The same, and whether it is sure that nothing is NaN."""
        assert self.simulator is not None
        keys, values, is_whole = _computed(self.space, X, self.simulator, self.outcomes)
        return self._with_measured(keys, values), is_whole

    def _with_measured(self, keys: Sequence[Key], values: Tensor) -> Tensor:
        """Computed outcomes (n, k), with what was measured of single designs in their place."""
        if not self._measured:
            return values
        found = values.clone()
        parameters = tuple(self.space.parameters)
        for i, key in enumerate(keys):
            for name, value in self._measured.get(design_key(cache.design(parameters, key)), {}).items():
                found[i, self.outcomes.names.index(name)] = value
        return found

    @property
    def why_not(self) -> str:
        """Why the function gives no outcomes of the first design of its sample that has none, in a sentence."""
        assert self.simulator is not None
        ran = self.simulator.compute(self.space.decode_all(self._sample[0].tolist()), self.outcomes.names)
        return next((one.failure for one in ran if one.failure is not None), "")

    def own(self, X: Tensor) -> Tensor:
        """What is known for sure of points (n, d): computed where limits are kept that way, else recorded; or NaN."""
        if self.limited_by == "computed":
            return self.computed(X)
        nothing = [math.nan] * self.size
        rows = [self._recorded.get(tuple(row), nothing) for row in X.tolist()]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), self.size)

    @cached_property
    def _recorded(self) -> dict[tuple[float, ...], list[float]]:
        known = [one for one in self.known if one.runs]
        points = model_points.points(self.space, [one.design for one in known]).tolist() if known else []
        return {tuple(row): self.outcomes.row(one.values) for row, one in zip(points, known, strict=True)}

    @cached_property
    def regression(self) -> Regression:
        """A Gaussian process for each outcome, of the designs whose outcomes are known."""
        return _regression(_hashed(self.points), _hashed(self.values))

    def predicted(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the outcomes at points (…, d)."""
        return gaussian_process.predict(self.regression, X)

    def raw(self, X: Tensor) -> Tensor:
        """Outcomes (n, k) of points (n, d) as they are, predicted where nothing gives them."""
        if not self.is_cheap:
            return self.predicted(X)[0]
        found, is_whole = self._computed(X)
        if is_whole:
            return found
        missing = found.isnan().any(-1)
        if bool(missing.any()):
            found[missing] = torch.where(found[missing].isnan(), self.predicted(X[missing])[0], found[missing])
        return found


@dataclass(frozen=True, eq=False)
class PredictedLift(UncertainLift):
    """Outcomes that a regression predicts, and which way they are believed to be better."""

    leaning: tuple[int, ...] = ()


class ComputedLift:
    """`features.Lift` of cheap outcomes."""

    def __init__(self, given: Given) -> None:
        self.given, self.size, self.leaning = given, given.size, given.outcomes.leaning
        self.budget, self.doubt = simulator.budget(given.outcomes.seconds or 0.0), given.doubt
        self._scaled = given.scaling.prepared(given.scaling.low)

    def __call__(self, X: Tensor) -> Tensor:
        """Designs (…, d) to outcomes (…, k), each about between 0 and 1."""
        flat = X.reshape(-1, X.shape[-1])
        # What changes nothing takes as long as what does.
        is_plain = X.dtype is torch.float64 and X.device.type == "cpu" and not X.requires_grad
        found = self._scaled(self.given.raw(flat if is_plain else flat.detach().to("cpu", torch.float64)))
        found = found.reshape(*X.shape[:-1], self.size)
        return found if is_plain else found.to(X)


class _Computed(NamedTuple):
    """Designs, their outcomes (n, k), NaN where there is nothing, and whether it is sure that there is no NaN."""

    keys: Sequence[Key]
    values: Tensor
    is_whole: bool


@lru_cache(maxsize=8)
def _sampled(space: Space, seed: int, simulator: OutcomeFunction, outcomes: Outcomes) -> tuple[Tensor, _Computed]:
    """The first designs of the Sobol sequence and their outcomes: they are the same at every question."""
    # Kept between calls, so they must not be tied to the mode they happen to be made in.
    with torch.inference_mode(mode=False):
        points = model_points.sample(space, seed, SAMPLE)
        return points, _computed(space, points, simulator, outcomes)


def _computed(space: Space, X: Tensor, simulator: OutcomeFunction, outcomes: Outcomes) -> _Computed:
    """The designs at points (n, d), and what the function makes of them."""
    names = outcomes.names
    if not len(X):
        return _Computed((), X.new_zeros(0, len(names)), True)
    parameters, numbers = tuple(space.parameters), model_points.numbers(space, X)
    if numbers is None:
        keys = list(map(cache.key, model_points.rows(space, X)))
    else:
        keys = cache.keys(parameters, _packed(numbers))
    table, is_whole = simulator.table(parameters, keys, names)
    n, k = len(keys), len(names)
    # Without the number more that stands behind those of a design.
    return _Computed(keys, torch.frombuffer(table, dtype=torch.float64).as_strided((n, k), (k + 1, 1)), is_whole)


def _packed(rows: Tensor) -> bytes:
    return rows.numpy().tobytes()


def _table(values: bytes, size: int) -> Tensor:
    """The outcomes (n, size) that were packed; a sample is the same at every question, and so is what follows."""
    return torch.tensor(memoryview(values).cast("d"), dtype=torch.float64).reshape(-1, size)


@lru_cache(maxsize=8)
def _shown(values: bytes, size: int) -> tuple[tuple[int, bool], ...]:
    """Of how many designs each outcome is known, and whether it varies among them."""
    found = []
    for column in _table(values, size).unbind(-1):
        kept = column[~column.isnan()]
        spread = float(kept.max() - kept.min()) if len(kept) else 0.0
        found.append((len(kept), len(kept) > 0 and spread > LEAST_VARIATION * float(kept.abs().max())))
    return tuple(found)


@lru_cache(maxsize=8)
def _scaling(values: bytes, left_out: tuple[bool, ...]) -> Scaling:
    """The scaling after these outcomes, of which some are ½ everywhere."""
    with torch.inference_mode(mode=False):
        return features.scaling(_table(values, len(left_out))).without(torch.tensor(left_out))


@lru_cache(maxsize=8)
def _foreseen(points: bytes, values: bytes, size: int) -> tuple[float, ...]:
    """What of so many outcomes other designs foresee."""
    outcomes = _table(values, size)
    X = torch.frombuffer(bytearray(points), dtype=torch.float64).reshape(len(outcomes), -1)
    return tuple(predictability.foreseen(X, outcomes).tolist())


def _complete(values: Tensor) -> int:
    """How many designs have all outcomes."""
    return int((~values.isnan()).all(-1).sum()) if len(values) else 0


@lru_cache(maxsize=8)
def _regression(points: Rows, values: Rows) -> Regression:
    X, Y = _tensor(points), _tensor(values)
    return gaussian_process.fit(X, Y)


def _hashed(table: Tensor) -> Rows:
    """The table as something to look up by: None for NaN, which is no key."""
    return tuple(tuple(None if math.isnan(value) else value for value in row) for row in table.tolist())


def _tensor(rows: Rows) -> Tensor:
    return torch.tensor([[math.nan if value is None else value for value in row] for row in rows], dtype=torch.float64)


def given(definition: Definition, history: History) -> Given | None:
    """What is known of the outcomes; None of a study without."""
    if definition.outcomes is None:
        return None
    known = tuple(history.known.values())
    return Given(definition.space, definition.seed, definition.outcomes, known, definition.simulator, history.number)


def rests_on_records(definition: Definition) -> bool:
    """Whether what was recorded is all that the model has of the outcomes: none is computed, or they are dear."""
    found = given(definition, History(""))
    return found is not None and not found.is_cheap
