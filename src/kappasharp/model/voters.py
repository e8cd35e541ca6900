"""A study's model with its voters told apart, and as all of them or some see it, by their weights.

Questions take all answers alike unless the study says otherwise; this is what can be said beside that.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from kappasharp.algorithm import loop, voters
from kappasharp.algorithm.fit import Fit
from kappasharp.algorithm.state import State
from kappasharp.algorithm.surrogate import surrogate_of
from kappasharp.errors import InvalidValueError
from kappasharp.journal import voters as journal_voters
from kappasharp.journal.history import History
from kappasharp.messages.message import said
from kappasharp.model import fit as model_fit
from kappasharp.model.fit import StudyModel
from kappasharp.settings import Inference, Weights
from kappasharp.tensors import one_thread, released

# Up to how many comparisons the fit starts from what is believed of people, too.
FEW = 300


@one_thread()
def told_apart(history: History, model: StudyModel) -> StudyModel:
    """The model with a taste for every voter beside what all share, from the model that takes them alike.

    Where one voter has given all answers, or the study itself tells them apart, it is that model.
    """
    if model.learnt.fit.people is not None or len(journal_voters.answered(history)) == 1:
        return model
    method = model.state.method
    if method.inference is not Inference.LAPLACE or method.correction.weights is not Weights.NONE:
        plain = (
            "Voters are told apart by the plain method alone (`create_study(method='baseline')`), but this study has "
            "another inference or a correction."
        )
        raise InvalidValueError(said("team.corrected", plain))
    fit, who = model.learnt.fit, model_fit.voters(history)
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
    names = journal_voters.answered(history)
    weights = dict(zip(some, journal_voters.shares(history, some), strict=True))
    fit = voters.weighed(apart.learnt.fit, torch.tensor([weights.get(name, 0.0) for name in names]))
    return _of(apart, apart.state, released(_with(apart.learnt, fit)))


def _with(learnt: loop.Learnt, fit: Fit) -> loop.Learnt:
    inferred = learnt.inferred._replace(posterior=fit.posterior)
    return learnt._replace(
        fit=fit, inferred=inferred, corrected=learnt.corrected._replace(posterior=fit.posterior, map=fit.map)
    )


def of_all(history: History, model: StudyModel, apart: Callable[[], StudyModel] | None = None) -> StudyModel:
    """The model that tells what is best for all: that of all answers alike, or where weights are set, one by them.

    `apart` is what tells voters apart, where somebody has it. A method that cannot do so takes all answers alike.
    """
    if not journal_voters.differ(history):
        return model
    try:
        found = told_apart(history, model) if apart is None else apart()
    except InvalidValueError:
        return model
    return mean_of(history, found, journal_voters.counting(history))
