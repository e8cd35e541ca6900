"""Several voters of one study: what each did, who is like whom, and the model of all answers as some of them see it.

Questions take all answers alike, and so does `study.best` until weights are set; this is what can be said beside that,
from the same answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import median
from typing import NamedTuple

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
from kappasharp.sentences import Sentence, said
from kappasharp.study import certainty, diagnosis, events, learning, weighing
from kappasharp.study.certainty import EVEN, Best
from kappasharp.study.comparison import Comparison
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.kinds import SKIP
from kappasharp.study.learning import StudyModel, one_thread

# Up to how many comparisons the fit starts from what is believed of people, too.
FEW = 300


class VoterCount(NamedTuple):
    """One voter: answers, skips, the median seconds of one, and how many of the decided answers the model shares.

    `program` says that it is no person.
    """

    name: str
    answers: int
    skips: int
    seconds: float | None
    decided: int
    shared: int
    program: bool = False


class Couple(NamedTuple):
    """Two voters, the pairs that both answered, and on how many of them they said the same."""

    first: str
    second: str
    met: int
    agreed: int


@one_thread()
def told_apart(history: History, model: StudyModel) -> StudyModel:
    """The model with a taste for every voter beside what all share, from the model that takes them alike.

    Where one voter has given all answers, or the study itself tells them apart, it is that model.
    """
    if model.learnt.fit.people is not None or len(weighing.answered(history)) == 1:
        return model
    method = model.state.method
    if method.inference is not Inference.LAPLACE or method.correction.weights is not Weights.NONE:
        plain = (
            "Voters are told apart by the plain method alone (`create_study(method='baseline')`), but this study has "
            "another inference or a correction."
        )
        raise InvalidValueError(said("team.corrected", plain))
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


def of_all(history: History, model: StudyModel, apart: Callable[[], StudyModel] | None = None) -> StudyModel:
    """The model that tells what is best for all: that of all answers alike, or where weights are set, one by them.

    `apart` is what tells voters apart, where somebody has it. A method that cannot do so takes all answers alike.
    """
    if not weighing.differ(history):
        return model
    try:
        found = told_apart(history, model) if apart is None else apart()
    except InvalidValueError:
        return model
    return mean_of(history, found, weighing.counting(history))


def best(definition: Definition, history: History, model: StudyModel, seen: StudyModel | None = None) -> Best:
    """The best design seen for all, by the model of all answers; `seen` is what `of_all` makes of it."""
    seen = of_all(history, model) if seen is None else seen
    found = certainty.best(definition, history, seen)
    if not weighing.differ(history):
        return found
    if seen is model and model.learnt.fit.people is None:
        alike = (
            "Weights are set ({weights}), but this study's method cannot tell voters apart: all answers count alike."
        )
        return replace(found, weighed=said("best.alike", alike, weights=weighing.words(history.weights)))
    return replace(_unasked(found), weighed=_by_weights(history))


def _by_weights(history: History) -> Sentence:
    weights = weighing.words(history.weights)
    if any(history.weights.get(name, 1.0) == 1.0 for name in weighing.answered(history)):
        words = "It is the best by the weights that are set: {weights}; the others count 1."
        return said("best.weighed", words, weights=weights)
    return said("best.weighed_all", "It is the best by the weights that are set: {weights}.", weights=weights)


def _unasked(found: Best) -> Best:
    """The same without a promise: questions take all answers alike, whomever this design suits."""
    words = found.advice.sentence
    if not isinstance(words, Sentence) or words.key != "advice.unproven":
        return found
    plain = str(words).removesuffix(str(words.values["next"])).strip()
    kept = Sentence(plain, words.key, words.values | {"next": ""})
    return replace(found, advice=replace(found.advice, sentence=kept))


def best_for(definition: Definition, history: History, apart: StudyModel, voter: str) -> Best:
    """The best design seen for one voter, given the model that tells them apart."""
    name = events.voter(voter)
    found = certainty.best(definition, history, learning.seen_by(history, apart, name))
    if name in weighing.answered(history):
        return found
    return replace(found, predicted_for=name, advice=certainty.no_signal(0))


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


def counts(history: History, model: StudyModel | None) -> list[VoterCount]:
    """Every voter with an answer, the first to answer first."""
    shared: set[int] = set()
    if model is not None:
        # Whose winner the model of all answers also puts first.
        shared = {event for event, chance in diagnosis.chances(history, model).items() if chance > EVEN}
    return [_voter(name, own, shared) for name, own in _by_voter(history).items()]


def _by_voter(history: History) -> dict[str, list[Comparison]]:
    found: dict[str, list[Comparison]] = {}
    for one in history.comparisons.values():
        found.setdefault(one.voter, []).append(one)
    return found


def _voter(name: str, own: list[Comparison], shared: set[int]) -> VoterCount:
    seconds = [one.seconds for one in own if one.seconds is not None]
    decided = [one for one in own if one.answer != SKIP and not one.is_tie]
    return VoterCount(
        name,
        sum(one.answer != SKIP for one in own),
        sum(one.answer == SKIP for one in own),
        median(seconds) if seconds else None,
        len(decided),
        sum(one.event in shared for one in decided),
        any(one.program for one in own),
    )


def couples(history: History) -> list[Couple]:
    """Every two voters who answered a pair in common; a voter's last word on a pair counts."""
    said: dict[str, dict[frozenset[int], int | None]] = {}
    for one in history.counted():
        about = said.setdefault(one.voter, {})
        about |= {frozenset((each.better, each.other)): None if each.tie else each.better for each in one.judgements}
    found = []
    for first, second in combinations(said, 2):
        both = said[first].keys() & said[second].keys()
        if both:
            agreed = sum(said[first][pair] == said[second][pair] for pair in both)
            found.append(Couple(first, second, len(both), agreed))
    return found


def correlated(utility: Tensor) -> Tensor:
    """Correlations (V, V) of utilities (V, n); one that is the same everywhere is like nobody but itself."""
    found = torch.corrcoef(utility).reshape(len(utility), len(utility)).nan_to_num(0.0).clamp(-1.0, 1.0)
    return found.fill_diagonal_(1.0)


def places(alike: Tensor) -> tuple[tuple[float, float], ...]:
    """The plane in which tastes, as points at distances √(2 − 2 alike), lie furthest apart; the middle is (0, 0)."""
    centred = alike - alike.mean(0) - alike.mean(1, keepdim=True) + alike.mean()
    values, vectors = torch.linalg.eigh(0.5 * (centred + centred.mT))
    found = (vectors * values.clamp(min=0.0).sqrt()).flip(-1)[:, :2]
    # An axis has no right way round: whoever is furthest out along it is on its right.
    found = found * found.gather(0, found.abs().argmax(0, keepdim=True)).sign()
    return tuple((float(one[0]), float(one[1]) if len(one) > 1 else 0.0) for one in found)


def clusters(alike: Tensor, least: float) -> list[list[int]]:
    """Average linkage: the two groups most alike (V, V) become one as long as they are that much alike on average."""
    groups = [[i] for i in range(len(alike))]
    between = alike.clone().fill_diagonal_(-torch.inf)
    while len(groups) > 1:
        first, second = sorted(divmod(int(between.argmax()), len(groups)))
        if float(between[first, second]) < least:
            break
        one, other = len(groups[first]), len(groups[second])
        row = (one * between[first] + other * between[second]) / (one + other)
        between[first], between[:, first] = row, row
        between[first, first] = -torch.inf
        stay = [i for i in range(len(groups)) if i != second]
        between = between[stay][:, stay]
        groups[first] += groups.pop(second)
    return groups
