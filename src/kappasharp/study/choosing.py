"""What the model of a study would ask: as Algorithm 1 has it, or in half the time where many people wait."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import maximize
from kappasharp.acquisition.maximize import Maximizer, Request
from kappasharp.methods import asking, correcting, loop
from kappasharp.methods.asking import NEW
from kappasharp.methods.loop import Learnt
from kappasharp.methods.method import PAIR, Acquisition, Kind, Query
from kappasharp.methods.state import Question, State
from kappasharp.streams import stream

# Four starts instead of twelve take half the time. Of what a pair promises beyond the best design they found 99.7 % and
# more on average, 98 % at worst (36 pairs in 2 and 6 dimensions).
QUICK = Maximizer(raw=128, starts=4, finalists=4, from_pool=True)


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


@torch.inference_mode()
def quickly(state: State, learnt: Learnt) -> Chosen:
    """The same from fewer starts, where both designs are to be new; a design that is held leaves less to search."""
    method = state.method
    fresh = method.query is Query.FRESH_PAIR and method.acquisition is Acquisition.EUBO
    if not fresh or method.kind not in (Kind.PAIR, Kind.RATING) or method.designs > PAIR:
        return usually(state, learnt)
    fitted = learnt.corrected.posterior
    generators = [stream(seed, "acquisition restarts", str(state.step + 1)) for seed in state.seeds]
    chance = Request(generators, hints=state.hints, lattice=state.lattice)
    found = maximize.propose(fitted, QUICK, asking.request(state.method, state.preset, fitted, chance))
    status = correcting.status(learnt.fit, learnt.corrected, learnt.inferred.converged, found.converged)
    return Chosen(Question(found.pair, torch.full(found.pair.shape[:2], NEW)), found.value, status[0], found.pair)
