"""Who of a study's voters is like whom and where groups split; what is best for all, by weights, for one, or fairest.

Gives what `results/agreement.py` holds. Here stands the `best` that a study tells: by weights where some are set.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from statistics import mean, median

import torch
from torch import Tensor

from kappasharp.algorithm import loop
from kappasharp.findings import best as findings_best
from kappasharp.findings import diagnosis
from kappasharp.findings.best import EVEN
from kappasharp.inference import posterior
from kappasharp.journal import events, voters
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison
from kappasharp.messages.message import Sentence, said
from kappasharp.model import fit
from kappasharp.model import points as model_points
from kappasharp.model import voters as model_voters
from kappasharp.model.fit import StudyModel, leading
from kappasharp.model.voters import of_all
from kappasharp.questions.kind import SKIP
from kappasharp.results.agreement import (
    ALIKE,
    ENOUGH,
    Agreement,
    Couple,
    Liked,
    Split,
    TasteGroup,
    VoterCount,
    VoterTaste,
    is_careless,
)
from kappasharp.results.best import Best
from kappasharp.space.space import Design
from kappasharp.tensors import one_thread

# Values of a parameter that are looked at for where groups split.
VALUES = 11


@one_thread()
def agreement(definition: Definition, history: History, apart: StudyModel) -> Agreement:
    """What the voters have in common, given the model that tells them apart."""
    names, answered = voters.known(history), voters.answered(history)
    counting = voters.counting(history)
    persons = [name for name in counting if name not in history.programs.about] or counting
    utility = utilities(history, apart, names)
    alike = correlated(utility)
    of_all = model_voters.mean_of(history, apart, counting)
    best, fair = leading(of_all), fairest(apart, utility[[names.index(name) for name in persons]])
    groups = _groups(definition, history, apart, alike[: len(answered), : len(answered)])
    of_group = {name: number for number, group in enumerate(groups) for name in group.voters}
    return Agreement(
        1.0 if apart.learnt.fit.people is None or len(answered) == 1 else float(apart.learnt.fit.people.rho),
        findings_best.best(definition, history, of_all),
        findings_best.best(definition, history, of_all, fair),
        tuple(_taste(definition, history, apart, name, (best, fair), of_group.get(name)) for name in names),
        tuple(tuple(row) for row in alike.tolist()),
        places(alike),
        groups,
        _splits(definition, history, apart, groups, history.options[apart.options[best]]),
        len(history.counted()),
        apart.surrogate.status[0],
        None if definition.tell_apart or voters.differ(history) else _leaning(history, groups),
    )


def _leaning(history: History, groups: Sequence[TasteGroup]) -> int | None:
    """The group of fewer than half of the voters that gave more than half of the answers, if there is one."""
    given = [one.voter for one in history.counted()]
    for number, group in enumerate(groups):
        of_it = sum(voter in group.voters for voter in given)
        if 2 * len(group.voters) < len(set(given)) and 2 * of_it > len(given):
            return number
    return None


def _liked(history: History, view: StudyModel, beats: float) -> Liked:
    option = view.options[leading(view)]
    return Liked(history.options[option], option, beats)


def _taste(
    definition: Definition, history: History, apart: StudyModel, name: str, places: tuple[int, int], group: int | None
) -> VoterTaste:
    view = fit.seen_by(history, apart, name)
    predicted = name not in voters.answered(history)
    own, likes_best, likes_fairest = findings_best.beats_random(definition, view, (leading(view), *places))
    return VoterTaste(
        name,
        sum(one.voter == name for one in history.counted()),
        _liked(history, view, own),
        likes_best,
        likes_fairest,
        None if predicted else _consistency(history, apart, name),
        history.weights.get(name, 1.0),
        group,
        predicted,
        name in history.programs.about,
    )


def _consistency(history: History, apart: StudyModel, name: str) -> float:
    """How steady the answers of somebody who answered are beside the others'."""
    fit = apart.learnt.fit.people
    return 1.0 if fit is None else float(fit.consistency[0, voters.answered(history).index(name)])


def _groups(definition: Definition, history: History, apart: StudyModel, alike: Tensor) -> tuple[TasteGroup, ...]:
    """Who is of one taste, the largest group first; of voters with answers enough, where there are two of those.

    Of somebody who answers by lot, too, the model believes what it believes of everybody: that is no agreement.
    """
    names, given = voters.answered(history), Counter(one.voter for one in history.counted())
    steady = [not is_careless(_consistency(history, apart, name)) for name in names]
    enough = [i for i, name in enumerate(names) if given[name] >= ENOUGH and steady[i]]
    if len(enough) < 2:  # noqa: PLR2004
        return ()
    found = [sorted(enough[i] for i in group) for group in clusters(alike[enough][:, enough], ALIKE)]
    made = []
    for group in sorted(found, key=lambda one: (-len(one), one)):
        some = tuple(names[i] for i in group)
        within = [float(alike[i, j]) for i, j in combinations(group, 2)]
        view = model_voters.mean_of(history, apart, some)
        (beats,) = findings_best.beats_random(definition, view, [leading(view)])
        made.append(TasteGroup(some, mean(within) if within else None, _liked(history, view, beats)))
    return tuple(made)


def _splits(
    definition: Definition, history: History, apart: StudyModel, groups: Sequence[TasteGroup], here: Design
) -> tuple[Split, ...]:
    """What groups differ on, the parameter with the largest share first; nothing where there is one group."""
    if len(groups) < 2:  # noqa: PLR2004
        return ()
    space = definition.space
    values = {name: findings_best.along(part, here[name], VALUES) for name, part in space.tuned.items()}
    points = [model_points.points(space, [{**here, name: value} for value in some]) for name, some in values.items()]
    # One group's model at a time, for each is large.
    views = (model_voters.mean_of(history, apart, group.voters) for group in groups)
    felt = [posterior.mean(view.surrogate.latent, torch.cat(points).unsqueeze(0)).squeeze(0) for view in views]
    slices = torch.stack(felt).split([len(X) for X in points], 1)
    widths = [float((one - one.mean(1, keepdim=True)).var(0, correction=0).mean()) for one in slices]
    found = []
    for (name, some), X, utility, width in zip(values.items(), points, slices, widths, strict=True):
        liked = utility.argmax(1)
        ends = divmod(int(torch.cdist(X[liked], X[liked]).argmax()), len(groups))
        sure = min(
            _prefers(model_voters.mean_of(history, apart, groups[one].voters), X[liked[one]], X[liked[other]])
            for one, other in (ends, ends[::-1])
        )
        found.append(Split(name, width / (sum(widths) or 1.0), tuple(some[i] for i in liked.tolist()), sure))
    return tuple(sorted(found, key=lambda one: -one.share))


def _prefers(view: StudyModel, own: Tensor, others: Tensor) -> float:
    """The chance that a group's mean utility is larger at its own place."""
    found = view.surrogate.contrast(own.unsqueeze(0), others.unsqueeze(0))
    return float(torch.special.ndtr(found.mean / found.variance.clamp(min=torch.finfo(torch.float64).tiny).sqrt()))


def best(definition: Definition, history: History, model: StudyModel, seen: StudyModel | None = None) -> Best:
    """The best design seen for all, by the model of all answers; `seen` is what `of_all` makes of it."""
    seen = of_all(history, model) if seen is None else seen
    found = findings_best.best(definition, history, seen)
    if not voters.differ(history):
        return found
    if seen is model and model.learnt.fit.people is None:
        alike = (
            "Weights are set ({weights}), but this study's method cannot tell voters apart: all answers count alike."
        )
        return replace(found, weighed=said("best.alike", alike, weights=voters.words(history.weights)))
    return replace(_unasked(found), weighed=by_weights(history))


def by_weights(history: History) -> Sentence:
    """That the best is so by weights, and by which."""
    weights = voters.words(history.weights)
    if any(history.weights.get(name, 1.0) == 1.0 for name in voters.answered(history)):
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
    found = findings_best.best(definition, history, fit.seen_by(history, apart, name))
    if name in voters.answered(history):
        return found
    return replace(found, predicted_for=name, advice=findings_best.no_signal(0))


def utilities(history: History, apart: StudyModel, names: Sequence[str]) -> Tensor:
    """What each voter feels about the designs seen (voters, n): one voter's model at a time, for each is large."""
    count = len(apart.options)
    return torch.stack([fit.seen_by(history, apart, name).surrogate.utility[:count] for name in names])


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
