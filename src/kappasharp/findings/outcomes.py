"""What is told of outcomes: the designs with theirs, the front among them, utility along each, which way is better.

`notes` says how outcomes stand: how many are known, whether their function works, which of them is learnt on.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.findings.best import DEVIATIONS, STEPS
from kappasharp.inference import posterior
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History, Known
from kappasharp.messages.message import Sentence, counted, said
from kappasharp.model import fit, outcomes
from kappasharp.model.fit import StudyModel
from kappasharp.model.outcomes import LEAST_DESIGNS, Given
from kappasharp.results.best import Slice
from kappasharp.results.outcomes import TradeOff
from kappasharp.simulators import records
from kappasharp.space.outcomes import Better
from kappasharp.tensors import one_thread

# An outcome runs one way in the learnt taste if its mean slope is this many of its own deviations from none: the odds
# are three to one.
CLEAR = 0.6745
# The grid of an outcome lies between these quantiles of what is known of it, and wherever designs were seen.
QUANTILES = (0.05, 0.95)


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
    known = outcomes.given(definition, history)
    if known is None or model.state.lift is None:
        return []
    here = model.state.points[0, fit.leading(model)]
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
    told = None if model is None else model.options[fit.leading(model)]
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


def notes(definition: Definition, history: History) -> list[Sentence]:
    """How outcomes stand, in sentences: what the model learns on, what is missing, and what would bring it."""
    found = outcomes.given(definition, history)
    if found is None:
        return []
    seen = [history.outcomes(design) for design in history.options]
    missing = sum(one is None or not one.runs for one in seen)
    return [*_about_function(definition, found), *_about_way(found, missing), *_about_failures(found.known)]


def _about_function(definition: Definition, found: Given) -> list[Sentence]:
    missing = records.missing_function(definition)
    if missing is not None:
        return [missing]
    lost = "The function of the outcomes no longer works"
    if found.is_quick and not found.is_cheap:
        stored = f"{lost}: the model goes by those that were stored"
        if found.outcomes.limited:
            words = f"{stored}, and their limits are kept as far as those tell. {{why}}"
            return [said("note.gone_limited", words, why=found.why_not)]
        return [said("note.gone", f"{stored}. {{why}}", why=found.why_not)]
    if found.is_quick and found.outcomes.limited and found.is_lost:
        return [said("note.lost", f"{lost}.")]
    if found.simulator is not None and found.simulator.name is None and not found.is_cheap:
        words = (
            "The function of the outcomes runs in this process, one design at a time, because it cannot be imported by "
            "its name; put it into a module for more."
        )
        return [said("note.in_process", words)]
    return []


def _about_way(found: Given, missing: int) -> list[Sentence]:
    if found.way == "none":
        too_few = found.is_cheap and max(found.known_of) < LEAST_DESIGNS
        words = "The model learns on the parameters alone: {reason}. {why}"
        return [said("note.parameters", words, reason=_why_none(found), why=found.why_not if too_few else "")]
    same = "The outcome {name!r} never varies: the model learns nothing from it."
    chancy = (
        "The outcome {name!r} looks like chance: other designs do not foresee it. The model learns nothing from it "
        "unless a hint says which way is better."
    )
    names = found.outcomes.names
    lines = [_about_few(name, many) for name, many in zip(names, found.known_of, strict=True) if many < LEAST_DESIGNS]
    stands = zip(names, found.varying, found.known_of, strict=True)
    lines += [
        said("note.same", same, name=name) for name, varies, many in stands if not varies and many >= LEAST_DESIGNS
    ]
    lines += [said("note.chance", chancy, name=name) for name, one in zip(names, found.chancy, strict=True) if one]
    if found.way == "predicted":
        words = "Outcomes are predicted from the {designs} designs that have them."
        lines.append(said("note.predicted", words, designs=len(found.points)))
    if missing and found.way == "predicted":
        one = "One design that was seen has no outcomes of its own: they are predicted too."
        several = "{count} designs that were seen have no outcomes of their own: theirs are predicted too."
        lines.append(counted("note.predicted_too", one, several, missing))
    return lines


def _about_few(name: str, many: int) -> Sentence:
    rest = "the model learns on it from {least} on."
    one, several = (
        f"The outcome {{name!r}} is known of one design: {rest}",
        f"The outcome {{name!r}} is known of {{count}} designs: {rest}",
    )
    return counted("note.known_of", one, several, many, name=name, least=LEAST_DESIGNS)


def _why_none(found: Given) -> Sentence:
    """Why the model learns on parameters alone."""
    many, needed = max(found.known_of), "at most, and {least} are needed"
    if many < LEAST_DESIGNS and found.is_cheap:
        words = (
            "the function gives outcomes of {many} of {designs} designs spread over the space, and {least} are needed"
        )
        return said("note.few_computed", words, many=many, designs=len(found.values), least=LEAST_DESIGNS)
    if many < LEAST_DESIGNS:
        one, several = f"outcomes are known of one design {needed}", f"outcomes are known of {{count}} designs {needed}"
        return counted("note.few", one, several, many, least=LEAST_DESIGNS)
    if not any(found.varying):
        return said("note.constant", "none of the outcomes varies")
    return said("note.unforeseen", "none of the outcomes that vary can be foreseen from other designs")


def _about_failures(known: Sequence[Known]) -> list[Sentence]:
    failed = [one for one in known if one.failure is not None]
    if not failed:
        return []
    rest = "no outcomes. The last, {design}: {failure} It counts as without."
    one, several = f"One design has {rest}", f"{{count}} designs have {rest}"
    return [
        counted("note.failed", one, several, len(failed), design=str(failed[-1].design), failure=failed[-1].failure)
    ]
