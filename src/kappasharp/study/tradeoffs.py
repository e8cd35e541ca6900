"""What was traded for what: the designs with their outcomes, the front among them, and the taste along each outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.core import posterior
from kappasharp.study import learning, lifting
from kappasharp.study.certainty import DEVIATIONS, STEPS, Slice
from kappasharp.study.definition import Definition
from kappasharp.study.events import Source
from kappasharp.study.history import History
from kappasharp.study.learning import StudyModel, one_thread
from kappasharp.study.lifting import Given
from kappasharp.study.outcomes import Better, Values
from kappasharp.study.space import Design

# An outcome runs one way in the learnt taste if its mean slope is this many of its own deviations from none: the odds
# are three to one.
CLEAR = 0.6745
# The grid of an outcome lies between these quantiles of what is known of it, and wherever designs were seen.
QUANTILES = (0.05, 0.95)


@dataclass(frozen=True)
class TradeOff:
    """A design with its outcomes. `option` is its number, None where it was recorded and never shown.

    `front`: no other of these designs is as good in every outcome that has a direction and better in one. `best`: it
    is the one that the study tells. `spread` holds the deviations of outcomes that were measured more than once.
    """

    option: int | None
    params: Design
    outcomes: Values
    spread: Values
    source: Source
    front: bool
    best: bool


class _Along:
    """A lift that knows the outcomes it is asked for in advance: row by row, whatever the designs."""

    budget = 0

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.size = rows, rows.shape[-1]

    def __call__(self, X: Tensor) -> Tensor:
        """The rows."""
        return self.rows.expand(*X.shape[:-1], self.size).to(X)


@one_thread()
def taste(definition: Definition, history: History, model: StudyModel) -> list[Slice]:
    """How utility runs along each outcome about the design told, all else as it is there; none without outcomes.

    Values are in the outcome's own units, utilities above that of the design itself.
    """
    return [_slice(one) for one in _courses(definition, history, model)]


@one_thread()
def directions(definition: Definition, history: History, model: StudyModel | None) -> dict[str, Better | None]:
    """Which way each outcome is better: as it was hinted, or as the learnt taste clearly runs; None where neither."""
    if definition.outcomes is None:
        return {}
    courses = [] if model is None else _courses(definition, history, model)
    learnt = {one.name: _direction(one) for one in courses}
    return {one.name: one.better or learnt.get(one.name) for one in definition.outcomes.table}


class _Course(NamedTuple):
    """Utility along one outcome: values, and the joint posterior of what they are above the design told."""

    name: str
    here: float
    values: Tensor
    mean: Tensor
    covariance: Tensor


def _courses(definition: Definition, history: History, model: StudyModel) -> list[_Course]:
    known = lifting.given(definition, history)
    if known is None or model.state.lift is None:
        return []
    here = model.state.points[0, learning.leading(model)]
    own = known.raw(here.unsqueeze(0))[0]
    return [_course(model, known, here, own, place) for place, learnt in enumerate(known.learnt_on) if learnt]


@torch.inference_mode()
def _course(model: StudyModel, known: Given, here: Tensor, own: Tensor, place: int) -> _Course:
    values = _grid(known, own, place)
    rows = own.expand(STEPS + 1, -1).clone()
    rows[:STEPS, place] = values
    fitted = model.learnt.corrected.posterior._replace(lift=_Along(known.scaling(rows)))
    mean, covariance = (part.squeeze(0) for part in posterior.joint(fitted, here.expand(1, STEPS + 1, -1)))
    # Contrasts with the design itself, which is the last row.
    mean = mean[:-1] - mean[-1]
    covariance = covariance[:-1, :-1] - covariance[:-1, -1:] - covariance[-1:, :-1] + covariance[-1, -1]
    return _Course(known.outcomes.names[place], float(own[place]), values, mean, covariance)


def _grid(known: Given, own: Tensor, place: int) -> Tensor:
    column = known.values[:, place]
    low, high = column[~column.isnan()].quantile(torch.tensor(QUANTILES, dtype=torch.float64)).tolist()
    name = known.outcomes.names[place]
    seen = [one.values[name] for one in known.known if name in one.values] + [float(own[place])]
    return torch.linspace(min(low, *seen), max(high, *seen), STEPS, dtype=torch.float64)


def _slice(found: _Course) -> Slice:
    band = DEVIATIONS * found.covariance.diagonal().clamp(min=0.0).sqrt()
    low, high = found.mean - band, found.mean + band
    return Slice(found.name, found.here, found.values.tolist(), found.mean.tolist(), low.tolist(), high.tolist())


def _direction(found: _Course) -> Better | None:
    """The sign of the mean slope, which is a sum over the grid and so has a normal posterior too."""
    weight = found.values - found.values.mean()
    slope, variance = weight @ found.mean, weight @ found.covariance @ weight
    if float(slope.square()) <= CLEAR**2 * float(variance.clamp(min=0.0)):
        return None
    return "more" if float(slope) > 0.0 else "less"


def tradeoffs(definition: Definition, history: History, model: StudyModel | None) -> list[TradeOff]:
    """Every design whose outcomes are known, those shown first and in their order."""
    if definition.outcomes is None:
        return []
    better = directions(definition, history, model)
    told = None if model is None else model.options[learning.leading(model)]
    rows = [(history.option(one.design), one) for one in history.known.values() if one.runs]
    rows.sort(key=lambda row: (row[0] is None, row[0] if row[0] is not None else row[1].event))
    on_front = front([one.values for _, one in rows], better)
    return [
        TradeOff(option, one.design, one.values, one.spread, one.source, on, option is not None and option == told)
        for (option, one), on in zip(rows, on_front, strict=True)
    ]


def front(rows: Sequence[Mapping[str, float]], better: Mapping[str, Better | None]) -> list[bool]:
    """Which rows no other dominates, by the outcomes that have a direction; none is where no outcome has one.

    A row that lacks one of them is not on the front, and dominates nobody.
    """
    signs = {name: 1.0 if way == "more" else -1.0 for name, way in better.items() if way is not None}
    complete = [bool(signs) and signs.keys() <= row.keys() for row in rows]
    scores = [
        [sign * row[name] for name, sign in signs.items()] if ok else [] for row, ok in zip(rows, complete, strict=True)
    ]
    return [
        ok and not any(_dominates(other, own) for other, is_whole in zip(scores, complete, strict=True) if is_whole)
        for own, ok in zip(scores, complete, strict=True)
    ]


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and list(one) != list(other)
