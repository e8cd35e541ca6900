"""Several voters of one study told apart: the model of all answers as one of them sees it, or as some of them do.

Questions and `study.best` take all answers alike; this is what can be said beside that, from the same answers.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kappasharp.batches import released
from kappasharp.core.choices import Weights
from kappasharp.errors import InvalidValueError
from kappasharp.methods import loop, voters
from kappasharp.methods.fitting import Fit
from kappasharp.methods.method import Inference
from kappasharp.methods.state import State
from kappasharp.methods.surrogate import surrogate_of
from kappasharp.study import certainty, events, learning, weighing
from kappasharp.study.certainty import Best
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.learning import StudyModel, one_thread

# Up to so many comparisons the fit starts from what is believed of people, too.
FEW = 300


@one_thread()
def told_apart(history: History, model: StudyModel) -> StudyModel:
    """The model with a taste for every voter beside what all share, from the model that takes them alike.

    Where one voter has given all answers, or the study itself tells them apart, it is that model.
    """
    if model.learnt.fit.people is not None or len(weighing.answered(history)) == 1:
        return model
    method = model.state.method
    if method.inference is not Inference.LAPLACE or method.correction.weights is not Weights.NONE:
        raise InvalidValueError(
            "Voters are told apart by the plain method alone (`create_study(method='baseline')`), but this study has "
            "another inference or a correction."
        )
    fit, who = model.learnt.fit, learning.voters(history)
    state = replace(
        model.state,
        method=replace(method, tell_apart=True),
        voters=who,
        theta=fit.hyper.theta,
        z=fit.map.dual.z,
        # Of many answers the fit of all alike is a start from which the same maximum is found, in a third of the time.
        preset=replace(model.state.preset, cold_fit=len(who) <= FEW),
    )
    return _of(model, state, released(loop.learn(state)))


def _of(model: StudyModel, state: State, learnt: loop.Learnt) -> StudyModel:
    return StudyModel(model.options, state, learnt, surrogate_of(state, learnt))


def mean_of(history: History, apart: StudyModel, some: Sequence[str]) -> StudyModel:
    """The same as the mean of some voters sees it, each by their weight."""
    if apart.learnt.fit.people is None:
        return apart
    names = weighing.answered(history)
    weights = dict(zip(some, weighing.shares(history, some), strict=True))
    fit = voters.weighed(apart.learnt.fit, torch.tensor([weights.get(name, 0.0) for name in names]))
    return _of(apart, apart.state, released(_with(apart.learnt, fit)))


def _with(learnt: loop.Learnt, fit: Fit) -> loop.Learnt:
    inferred = learnt.inferred._replace(posterior=fit.posterior)
    return learnt._replace(
        fit=fit, inferred=inferred, corrected=learnt.corrected._replace(posterior=fit.posterior, map=fit.map)
    )


def best_for(definition: Definition, history: History, apart: StudyModel, voter: str) -> Best:
    """The best design seen for one voter, given the model that tells them apart."""
    name = events.voter(voter)
    found = certainty.best(definition, history, learning.seen_by(history, apart, name))
    return found if name in weighing.answered(history) else replace(found, predicted_for=name)


def utilities(history: History, apart: StudyModel, names: Sequence[str]) -> Tensor:
    """What each voter feels about the designs seen (voters, n): one voter's model at a time, for each is large."""
    count = len(apart.options)
    return torch.stack([learning.seen_by(history, apart, name).surrogate.utility[:count] for name in names])


def fairest(apart: StudyModel, utility: Tensor) -> int:
    """The place of the design that the worst-off of some voters (voters, n) minds least, among those that may lead."""
    may = loop.won(apart.state)
    may = may if apart.state.eligible is None else may & apart.state.eligible
    inside = may[0, : len(apart.options)]
    inside = inside if bool(inside.any()) else torch.ones_like(inside)
    loss = (utility.amax(1, keepdim=True) - utility).amax(0)
    return int(loss.masked_fill(~inside, torch.inf).argmin())
