"""What was traded for what: the designs with their outcomes, the front among them, and the taste along each outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

# An outcome runs one way in the learnt taste if its ends differ by more than this many of their own deviations.
CLEAR = 1.0


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
    known = lifting.given(definition, history)
    if known is None or model.state.lift is None:
        return []
    here = model.state.points[0, learning.leading(model)]
    own = known.raw(here.unsqueeze(0))[0]
    return [
        _slice(model, known, here, own, place)
        for place, varies in enumerate(known.varying)
        if varies
    ]


def _slice(model: StudyModel, known: Given, here: Tensor, own: Tensor, place: int) -> Slice:
    column = known.values[:, place]
    column = torch.cat([column[~column.isnan()], own[place : place + 1]])
    values = torch.linspace(float(column.min()), float(column.max()), STEPS, dtype=torch.float64)
    rows = own.expand(STEPS, -1).clone()
    rows[:, place] = values
    scaled = known.scaling(torch.cat([rows, own.expand(STEPS, -1)]))
    X = here.expand(1, 2 * STEPS, -1)
    fitted = model.learnt.corrected.posterior._replace(lift=_Along(scaled.unsqueeze(0)))
    mean, covariance = (part.squeeze(0) for part in posterior.joint(fitted, X))
    contrast = mean[:STEPS] - mean[STEPS:]
    first, second, both = covariance[:STEPS, :STEPS], covariance[STEPS:, STEPS:], covariance[:STEPS, STEPS:]
    variance = first.diagonal() + second.diagonal() - 2.0 * both.diagonal()
    band = DEVIATIONS * variance.clamp(min=0.0).sqrt()
    low, high = contrast - band, contrast + band
    name = known.outcomes.names[place]
    return Slice(name, float(own[place]), values.tolist(), contrast.tolist(), low.tolist(), high.tolist())


def directions(definition: Definition, slices: Sequence[Slice]) -> dict[str, Better | None]:
    """Which way each outcome is better: as it was hinted, or as the learnt taste clearly runs; None where neither."""
    assert definition.outcomes is not None
    learnt = {one.name: _direction(one) for one in slices}
    return {one.name: one.better or learnt.get(one.name) for one in definition.outcomes.table}


def _direction(found: Slice) -> Better | None:
    """The way up from one end to the other, where that is more than the band leaves open."""
    rise = found.mean[-1] - found.mean[0]
    open_ = max(found.high[0] - found.mean[0], found.high[-1] - found.mean[-1])
    if abs(rise) <= CLEAR * open_:
        return None
    return "more" if rise > 0.0 else "less"


def tradeoffs(definition: Definition, history: History, model: StudyModel | None) -> list[TradeOff]:
    """Every design whose outcomes are known, those shown first and in their order."""
    if definition.outcomes is None:
        return []
    slices = [] if model is None else taste(definition, history, model)
    better = directions(definition, slices)
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
    scores = [[sign * row[name] for name, sign in signs.items()] if ok else [] for row, ok in zip(rows, complete, strict=True)]
    return [
        ok and not any(_dominates(other, own) for other, is_whole in zip(scores, complete, strict=True) if is_whole)
        for own, ok in zip(scores, complete, strict=True)
    ]


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and list(one) != list(other)
