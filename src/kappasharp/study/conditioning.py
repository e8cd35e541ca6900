"""How well conditioned the model was as the answers came in, with the correction and without it."""

from typing import NamedTuple

import torch

from kappasharp.core.comparisons import Answers
from kappasharp.core.correction import Weights
from kappasharp.methods import correcting, fitting
from kappasharp.methods.fitting import with_threshold
from kappasharp.methods.registry import KAPPASHARP
from kappasharp.study import questions
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.history import moments as spread

# A fit each: no more moments of the past than this are looked at.
MOMENTS = 24


class Moment(NamedTuple):
    """The model of the first `answers` answers: κ(H) as it is and corrected, and what the answers determine."""

    answers: int
    options: list[int]
    condition: float
    corrected: float
    strength: float
    rank: int
    groups: int
    utility: list[float]
    corrected_utility: list[float]
    status: str


class Noted(NamedTuple):
    """What the study itself noted when it chose a pair: whether the correction acted, and on what grounds."""

    answers: int
    step: int
    active: bool
    mean_decisiveness: float
    strength: float
    condition_before: float | None
    condition_after: float | None


def moments(definition: Definition, history: History) -> list[Moment]:
    """The past in steps, from the answers as they stand now; the last is the present."""
    wanted = spread(len(history.counted()), MOMENTS)
    return [_moment(definition, history, count) for count in wanted]


def noted(history: History) -> list[Noted]:
    """The notes of every pair that the model chose, in order."""
    memos = [event.memo for _, event in history.asked.values() if event.memo is not None]
    return [
        Noted(
            memo["answers"],
            memo["step"],
            memo["active"],
            memo["mean_decisiveness"],
            memo["strength"] or 0.0,
            memo["condition_before"],
            memo["condition_after"],
        )
        for memo in memos
    ]


@torch.inference_mode()
def _moment(definition: Definition, history: History, count: int) -> Moment:
    found = questions.data(definition, history)
    pairs = found.answers.pairs[:, :count]
    kept = sorted(set(pairs.flatten().tolist()))
    place = {old: new for new, old in enumerate(kept)}
    ties = None if found.answers.ties is None else found.answers.ties[:, :count]
    answers = Answers(
        found.answers.X[:, kept],
        torch.tensor([[[place[i] for i in pair] for pair in pairs[0].tolist()]]),
        ties if ties is not None and bool(ties.any()) else None,
    )
    memo = next((m for _, event in history.asked.values() if (m := event.memo) and m["answers"] == count), None)
    theta = None if memo is None else torch.tensor([memo["theta"]], dtype=torch.float64)
    model = with_threshold(definition.preset, answers, theta).model
    fit = fitting.fit(model, answers, theta=theta, cold=theta is None)
    own = definition.method.correction
    choice = KAPPASHARP if own.weights is Weights.NONE else own
    corrected = correcting.correct(model, fit, choice, torch.ones(1, dtype=torch.bool))
    numbers = correcting.diagnose(model, fit, corrected)
    return Moment(
        count,
        [found.options[i] for i in kept],
        float(numbers.condition_before),
        float(numbers.condition_after),
        float(numbers.strength),
        int(numbers.rank),
        int(numbers.n_components),
        fit.map.f[0].tolist(),
        corrected.map.f[0].tolist(),
        correcting.status(fit, corrected, torch.ones(1, dtype=torch.bool))[0],
    )
