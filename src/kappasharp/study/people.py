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
from kappasharp.study import certainty, events, kinds, weighing
from kappasharp.study.certainty import Best
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.learning import StudyModel, one_thread


@one_thread()
def told_apart(history: History, model: StudyModel) -> StudyModel:
    """The model with a taste for every voter beside what all share, from the model that takes them alike.

    Where one voter has given all answers, it is that model.
    """
    names = weighing.answered(history)
    if len(names) == 1:
        return model
    method = model.state.method
    if method.inference is not Inference.LAPLACE or method.correction.weights is not Weights.NONE:
        raise InvalidValueError(
            "Voters are told apart by the plain method alone (`create_study(method='baseline')`), but this study has "
            "another inference or a correction."
        )
    numbers = {name: number for number, name in enumerate(names)}
    who = [numbers[one.voter] for one in history.counted() for _ in kinds.said(one.form, one.answer).pairs]
    fit = model.learnt.fit
    state = replace(
        model.state,
        method=replace(method, tell_apart=True),
        voters=torch.tensor(who),
        theta=fit.hyper.theta,
        z=fit.map.dual.z,
        preset=replace(model.state.preset, cold_fit=True),
    )
    return _of(model, state, released(loop.learn(state)))


def _of(model: StudyModel, state: State, learnt: loop.Learnt) -> StudyModel:
    return StudyModel(model.options, state, learnt, surrogate_of(state, learnt))


def seen_by(history: History, apart: StudyModel, voter: str) -> StudyModel:
    """A model that tells voters apart, as one of them sees it; or as somebody who has not answered yet might."""
    known = weighing.answered(history)
    number = known.index(voter) if voter in known else len(known)
    return _of(apart, apart.state, released(loop.seen_by(apart.learnt, number)))


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
    found = certainty.best(definition, history, seen_by(history, apart, name))
    return found if name in weighing.answered(history) else replace(found, predicted_for=name)


def fairest(history: History, apart: StudyModel, some: Sequence[str]) -> int:
    """The place of the design that the worst-off of some voters minds least, among those that may lead."""
    may = loop.won(apart.state)
    may = may if apart.state.eligible is None else may & apart.state.eligible
    may = may if bool(may.any()) else torch.ones_like(may)
    inside = may[:, : len(apart.options)]
    return int(_losses(history, apart, some).amax(-1)[:, : inside.shape[1]].masked_fill(~inside, torch.inf).argmin())


def _losses(history: History, apart: StudyModel, some: Sequence[str]) -> Tensor:
    """How far each design (1, n, voters) lies below the best of them for each voter."""
    fit, names = apart.learnt.fit, weighing.answered(history)
    if fit.people is None:
        utility = fit.map.f.unsqueeze(-1)
        return utility.amax(1, keepdim=True) - utility
    return voters.losses(fit)[..., [names.index(name) for name in some]]
