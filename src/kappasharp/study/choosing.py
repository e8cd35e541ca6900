"""What the model of a study would ask: as Algorithm 1 has it, or in half the time where many people wait."""

from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from kappasharp.methods import loop
from kappasharp.methods.loop import Learnt
from kappasharp.methods.method import Acquisition, Query
from kappasharp.methods.state import Question, State


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
