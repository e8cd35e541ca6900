"""What the model of a study would ask: as Algorithm 1 has it, in half the time where many wait; and which kind next.

That is the kind which promises most for the seconds it takes, at this study's own pace. A kind's promise is what the
best of its designs is expected to be above the design told: EUBO's measure, by which a choice and an order of the same
designs promise the same, and the quicker one is asked. Its seconds are learnt from the answers.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from kappasharp.acquisition import eubo
from kappasharp.algorithm import loop
from kappasharp.algorithm.loop import Learnt
from kappasharp.algorithm.state import Question, State
from kappasharp.inference import posterior
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison
from kappasharp.questions.kind import PAIR, Form, Kind
from kappasharp.settings import Acquisition, Query

# Seconds of attention before anything is known of this study, and for how many answers that counts. Their sources, and
# where the literature says otherwise: docs/results/answers.md#where-the-paces-come-from.
USUAL = {Kind.PAIR: 4.0, Kind.RATING: 4.8, Kind.CHOICE: 6.0, Kind.SLIDER: 10.0, Kind.ORDER: 12.0}
COUNTS_FOR = 3
# No time counts as further from the usual than by this factor.
MOST_TIMES = 20.0
# Of how many designs the usual choice and order are.
OF_DESIGNS = 4
# Among these the next question is chosen.
CANDIDATES = (Form(), Form(Kind.CHOICE, OF_DESIGNS), Form(Kind.SLIDER))
# A slider through so many more designs takes as long again as a straight one.
FURTHER = 4


class Chosen(NamedTuple):
    """A question, its EUBO, the gravest thing that happened on the way, and the points the next search starts from."""

    question: Question
    acquisition: Tensor
    status: str
    hints: Tensor


def usually(state: State, learnt: Learnt) -> Chosen:
    """Line 14 of Algorithm 1."""
    question, after, info = loop.question_from(state, learnt)
    assert after.hints is not None
    return Chosen(question, info.acquisition, info.status[0], after.hints)


def quickly(state: State, learnt: Learnt) -> Chosen:
    """The same from fewer starts, where all designs are to be new; a design that is held leaves less to search."""
    method = state.method
    if method.query is Query.FRESH_PAIR and method.acquisition is Acquisition.EUBO:
        state = replace(state, preset=replace(state.preset, maximizer="quick"))
    return usually(state, learnt)


class Promise(NamedTuple):
    """A question of one form, and what it promises for each second."""

    form: Form
    chosen: Chosen
    rate: float


def usual(form: Form) -> float:
    """Seconds that such a question takes people of whom nothing is known; in proportion to its designs."""
    if form.kind is Kind.SLIDER:
        return USUAL[form.kind] * (1.0 + (form.designs - PAIR) / FURTHER)
    several = form.designs / OF_DESIGNS if form.designs > PAIR else 1.0
    return USUAL[form.kind] * several


def seconds(history: History, form: Form) -> float:
    """Seconds that such a question takes here.

    What is usual, times how much longer than usual this study's answers took: those of any form, and more so its own.
    """
    slower = [(one.form, _slower(one)) for one in history.counted() if one.took and not one.program]
    own = [value for other, value in slower if other == form]
    all_forms = sum(value for _, value in slower) / (COUNTS_FOR + len(slower))
    return usual(form) * math.exp((COUNTS_FOR * all_forms + sum(own)) / (COUNTS_FOR + len(own)))


def _slower(one: Comparison) -> float:
    """The logarithm of an answer's time over the usual; what was left lying counts as MOST_TIMES the usual."""
    assert one.took is not None
    return max(-math.log(MOST_TIMES), min(math.log(MOST_TIMES), math.log(one.took / usual(one.form))))


def most_promising(state: State, learnt: Learnt, history: History, forms: Iterable[Form]) -> Promise:
    """The question that promises most for its seconds."""
    told = float(_mean_told(state, learnt))
    found = []
    for form in forms:
        asking = replace(state, method=replace(state.method, kind=form.kind, designs=form.designs))
        chosen = usually(asking, learnt)
        found.append(Promise(form, chosen, (_expected_best(learnt, form, chosen) - told) / seconds(history, form)))
    return max(found, key=lambda promise: promise.rate)


def _mean_told(state: State, learnt: Learnt) -> float:
    fitted, place = learnt.corrected.posterior, int(loop.leader(state, learnt))
    return float(posterior.mean(fitted, state.points[:, place : place + 1]))


def _expected_best(learnt: Learnt, form: Form, chosen: Chosen) -> float:
    """E max over the question's designs, whatever form of EUBO the preset has for a pair."""
    if form.kind is Kind.PAIR:
        return float(eubo.value(learnt.corrected.posterior, *chosen.question.points.split(1, 1)))
    return float(chosen.acquisition)
