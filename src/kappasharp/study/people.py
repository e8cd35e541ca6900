"""Several voters of one study told apart: what suits all, what suits each, and how much they share.

Questions and `study.best` take all answers alike; this is what can be said beside that, from the same answers.
"""

from dataclasses import dataclass, replace

import torch

from kappasharp.batches import released
from kappasharp.core.choices import Weights
from kappasharp.errors import InvalidValueError
from kappasharp.methods import loop, voters
from kappasharp.methods.method import Inference
from kappasharp.methods.state import State
from kappasharp.methods.surrogate import surrogate_of
from kappasharp.study import certainty, cube, kinds
from kappasharp.study.certainty import Best
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.learning import StudyModel, leading, one_thread
from kappasharp.study.space import Design


@dataclass(frozen=True)
class VoterTaste:
    """One voter: how many answers, how consistent beside the others (1 is usual, near 0 is by lot), and their best.

    `program` says that it is a program and no person.
    """

    voter: str
    answers: int
    consistency: float
    best: Design
    program: bool = False


@dataclass(frozen=True)
class Team:
    """What several voters have in common, and what not.

    `shared` is the part of a taste that all have in common, 0 to 1. `best` suits all on average, `fairest` is the one
    that the worst-off minds least, as far below their own best as it is. `alike[i][j]` is how alike the tastes of two
    voters are on the designs seen, −1 (opposite) to 1 (the same). `split` names the parameter in which their bests
    differ most; None where they do not differ.
    """

    shared: float
    best: Design
    fairest: Design
    voters: tuple[VoterTaste, ...]
    alike: tuple[tuple[float, ...], ...]
    split: str | None


def names(history: History) -> list[str]:
    """Every voter whose answers count, the first to answer first."""
    return list(dict.fromkeys(one.voter for one in history.counted()))


@one_thread()
def told_apart(definition: Definition, history: History, model: StudyModel) -> StudyModel:
    """The model with a taste for every voter beside what all share, from the model that takes them alike."""
    method = model.state.method
    if method.inference is not Inference.LAPLACE or method.correction.weights is not Weights.NONE:
        raise InvalidValueError(
            "Voters are told apart by the plain method alone (`create_study(method='baseline')`), but this study has "
            "another inference or a correction."
        )
    numbers = {name: number for number, name in enumerate(names(history))}
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


def seen_by(history: History, model: StudyModel, voter: str) -> StudyModel:
    """A model that tells voters apart, as one of them sees it; or as somebody who has not answered yet might."""
    known = names(history)
    number = known.index(voter) if voter in known else len(known)
    return _of(model, model.state, released(loop.seen_by(model.learnt, number)))


def best_for(definition: Definition, history: History, model: StudyModel, voter: str) -> Best:
    """The best design seen for one voter, given the model that takes all alike."""
    if len(names(history)) > 1:
        model = seen_by(history, told_apart(definition, history, model), voter)
    return certainty.best(definition, history, model)


def team(definition: Definition, history: History, model: StudyModel) -> Team:
    """What the voters have in common, given the model that takes all alike."""
    known = names(history)
    if len(known) == 1:
        own = history.options[model.options[leading(model)]]
        alone = VoterTaste(known[0], len(history.counted()), 1.0, own, known[0] in history.programs.about)
        return Team(1.0, own, own, (alone,), ((1.0,),), None)
    apart = told_apart(definition, history, model)
    found = apart.learnt.fit.people
    assert found is not None
    views = [seen_by(history, apart, name) for name in known]
    bests = [history.options[apart.options[leading(view)]] for view in views]
    answers = [sum(one.voter == name for one in history.counted()) for name in known]
    count = len(apart.options)
    utilities = torch.stack([view.surrogate.utility[:count] for view in views])
    programs = [name in history.programs.about for name in known]
    tastes = zip(known, answers, found.consistency[0].tolist(), bests, programs, strict=True)
    return Team(
        float(found.rho),
        history.options[apart.options[leading(apart)]],
        history.options[apart.options[_fairest(apart)]],
        tuple(VoterTaste(*one) for one in tastes),
        tuple(tuple(row) for row in torch.corrcoef(utilities).clamp(-1.0, 1.0).tolist()),
        _split(definition, bests),
    )


def _fairest(model: StudyModel) -> int:
    """The place of the option that the worst-off voter minds least, among those that may lead."""
    loss = voters.losses(model.learnt.fit).amax(-1)
    may = loop.won(model.state)
    may = may if model.state.eligible is None else may & model.state.eligible
    may = may if bool(may.any()) else torch.ones_like(may)
    inside = may[:, : len(model.options)]
    return int(loss[:, : len(model.options)].masked_fill(~inside, torch.inf).argmin())


def _split(definition: Definition, bests: list[Design]) -> str | None:
    """The parameter in which designs differ most, as shares of its range."""
    space, first = definition.space, bests[0]

    def apart(name: str) -> float:
        moved = cube.points(space, [{**first, name: one[name]} for one in bests])
        return float((moved.amax(0) - moved.amin(0)).norm())

    return max((name for name in first if apart(name) > 0.0), key=apart, default=None)
