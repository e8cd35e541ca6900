"""How well several voters agree, as data and in words: what suits all and each, who is like whom, where they split.

The numbers come from `findings/agreement.py`; whoever shows them needs this file and no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kappasharp.journal import voters
from kappasharp.messages.message import Sentence, figures, in_a_row, listed, said
from kappasharp.results.best import Best
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design

# Voters whose tastes correlate less than this, on average, are not of one group; and with fewer answers than these a
# taste is mostly what the model believes of everybody. On simulated people both find who is like whom (docs/team.md).
ALIKE, ENOUGH = 0.7, 10
# Answers of somebody with less than this part of the usual consistency hardly count.
CARELESS = 0.4
# How many names stand in a sentence.
NAMED = 8
# What is said of some voters, by name.
ABOUT = {
    "predicted": "No answers yet: {names}. What they like is predicted from what the others share.",
    "programs": "Programs among the voters: {names}.",
    "careless": "Close to chance, and so counting little: the answers of {names}.",
}


@dataclass(frozen=True)
class Liked:
    """The design seen that somebody likes best, its number, and the share of the space's designs that they like less.

    `study.best_for(voter)` has more of it.
    """

    params: Design
    option: int
    beats_random: float


@dataclass(frozen=True)
class VoterTaste:
    """One voter: the best for them, and how they like what suits all.

    `likes_best` and `likes_fairest` are the shares of designs that they like less than those two, `consistency` is how
    steady their answers are beside the others' (1 is usual, near 0 is by lot). `group` is a place in
    `Agreement.groups`, None where they gave too few answers to tell, or answers close to chance. Who is `predicted` has
    not answered: all of it is what the others share. A `program` is no person.
    """

    voter: str
    answers: int
    best: Liked
    likes_best: float
    likes_fairest: float
    consistency: float | None
    weight: float
    group: int | None
    predicted: bool = False
    program: bool = False

    @property
    def is_careless(self) -> bool:
        """Whether the answers are close to chance."""
        return is_careless(self.consistency)


@dataclass(frozen=True)
class TasteGroup:
    """Voters of one taste: how alike they are on average (None of one alone), and the best for them."""

    voters: tuple[str, ...]
    alike: float | None
    best: Liked


@dataclass(frozen=True)
class Split:
    """A parameter on which groups differ: its share of all their difference, and the value that each group likes.

    All else is as in the best for all. `sure` is the chance that the two groups furthest apart each prefer their own.
    """

    parameter: str
    share: float
    likes: tuple[Value, ...]
    sure: float


@dataclass(frozen=True)
class Agreement:
    """What several voters have in common, and what not; print it for the words.

    `shared` is the part of a taste that all have in common, 0 to 1. `best` suits all on average, each by their weight;
    `fairest` is what the worst-off person minds least, as far below their own best as it is. `alike[i][j]` is how alike
    the tastes of two voters are on the designs seen, −1 (opposite) to 1 (the same), and `places` has
    them on a map, near each other where they are alike. `status` is the fit's certificate. `leaning` is the place in
    `groups` of one that has fewer than half of the voters and gave more than half of the answers, where `study.best`
    counts answers and so may lean to it; None where there is none.
    """

    shared: float
    best: Best
    fairest: Best
    voters: tuple[VoterTaste, ...]
    alike: tuple[tuple[float, ...], ...]
    places: tuple[tuple[float, float], ...]
    groups: tuple[TasteGroup, ...]
    splits: tuple[Split, ...]
    answers: int
    status: str
    leaning: int | None = None

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> list[Sentence]:
        """The same in words."""
        return [
            *_about_groups(self), *_about_splits(self), *_about_bests(self), *_about_leaning(self),
            *_about_voters(self),
        ]  # fmt: skip


def is_careless(consistency: float | None) -> bool:
    """Whether a voter answers so inconsistently that it is said."""
    return consistency is not None and consistency < CARELESS


def _about_groups(found: Agreement) -> list[Sentence]:
    told = [one for one in found.voters if not one.predicted]
    if len(told) == 1:
        return [
            said(
                "team.alone",
                "One voter alone has answered, {voter}: there is nobody to agree with.",
                voter=told[0].voter,
            )
        ]
    few = [one.voter for one in told if one.group is None and not one.is_careless]
    if not found.groups and sum(one.answers >= ENOUGH for one in told) > 1:
        words = "Nobody can be told to agree: that takes two whose answers are not close to chance."
        return [said("team.chance", words)]
    if not found.groups:
        words = "Too few answers to tell who agrees with whom: that takes {enough} of each."
        return [said("team.few", words, enough=ENOUGH)]
    late = [said("team.late", "Too few answers to tell yet: those of {names}.", names=_listed(few))] if few else []
    if len(found.groups) == 1:
        words = "They agree: {names} are of one taste ({alike} alike on average)."
        alike = figures(f"{found.groups[0].alike:.2f}")
        return [said("team.agree", words, names=_listed(found.groups[0].voters), alike=alike), *late]
    groups = in_a_row([_group(number + 1, one) for number, one in enumerate(found.groups)], "; ")
    return [
        said("team.groups", "There are {count} groups of taste: {groups}.", count=len(found.groups), groups=groups),
        *late,
    ]


def _group(number: int, one: TasteGroup) -> Sentence:
    names = _listed(one.voters)
    if one.alike is None:
        return said("team.single", "group {number} is {names}", number=number, names=names)
    alike = figures(f"{one.alike:.2f}")
    return said("team.group", "group {number} is {names} ({alike} alike)", number=number, names=names, alike=alike)


def _about_splits(found: Agreement) -> list[Sentence]:
    if not found.splits:
        return []
    first = found.splits[0]
    likes = [
        said("team.likes", "group {number} likes it at {value}", number=number + 1, value=_short(value))
        for number, value in enumerate(first.likes)
    ]
    words = (
        "They split most on {parameter} ({share:.0%} of their difference): {likes}; each side prefers its own with a "
        "chance of {sure_share:.0%} or more."
    )
    sure = min(first.sure, 0.99)
    return [
        said("team.split", words, parameter=first.parameter, share=first.share, likes=in_a_row(likes), sure_share=sure)
    ]


def _about_bests(found: Agreement) -> list[Sentence]:
    told = [one for one in found.voters if not one.predicted and not one.program and one.weight]
    if len(told) < 2:  # noqa: PLR2004
        best = said("team.leads", "Design {option} is the best so far.", option=found.best.option)
        return [best, *found.best.breaches] if found.best.breaches else []
    least = min(told, key=lambda one: one.likes_best)
    words = (
        "Design {option} is the best for all on average; of all voters it suits {voter} least, better than {share:.0%} "
        "of designs do."
    )
    best = said("team.best", words, option=found.best.option, voter=least.voter, share=least.likes_best)
    if found.fairest.option == found.best.option:
        same = "It is the fairest, too: the worst-off would mind every other one more."
        return [best, said("team.both", same), *found.best.breaches]
    least = min(told, key=lambda one: one.likes_fairest)
    words = "Design {option} is the fairest: it suits {voter} least, and better than {share:.0%} of designs do."
    given = {"option": found.fairest.option, "voter": least.voter, "share": least.likes_fairest}
    # What stands in the way of a design comes right behind it: it is "this" one.
    return [best, *found.best.breaches, said("team.fairest", words, **given), *found.fairest.breaches]


def _about_leaning(found: Agreement) -> list[Sentence]:
    if found.leaning is None:
        return []
    words = (
        "Group {number} has {some} of {all} voters and gave {share:.0%} of the answers. Here every voter counts alike; "
        "best so far and the questions count every answer, and so may lean to that group. Weights change what is told, "
        "and a study that is made to tell its voters apart changes both."
    )
    told = [one for one in found.voters if not one.predicted]
    some = [one for one in told if one.group == found.leaning]
    share = sum(one.answers for one in some) / found.answers
    return [said("team.leaning", words, number=found.leaning + 1, some=len(some), all=len(told), share=share)]


def _about_voters(found: Agreement) -> list[Sentence]:
    named = {
        "predicted": [one.voter for one in found.voters if one.predicted],
        "programs": [one.voter for one in found.voters if one.program],
        "careless": [one.voter for one in found.voters if one.is_careless],
    }
    told = [said(f"team.{key}", ABOUT[key], names=_listed(names)) for key, names in named.items() if names]
    weights = {one.voter: one.weight for one in found.voters if one.weight != 1.0}
    if weights:
        by_name = voters.words(weights)
        if len(weights) < len(found.voters):
            words = "Weights are set: {weights}; the others count 1."
            told.append(said("team.weights", words, weights=by_name))
        else:
            told.append(said("team.weights_all", "Weights are set: {weights}.", weights=by_name))
    if found.status != "ok":
        words = "A solve lacks its certificate ({status}): these figures may be off."
        told.append(said("team.uncertified", words, status=found.status))
    return told


def _listed(names: Sequence[str]) -> str:
    if len(names) <= NAMED + 1:
        return listed(names)
    return listed([*names[:NAMED], said("list.others", "{count} others", count=len(names) - NAMED)])


def _short(value: Value) -> str:
    return figures(f"{value:.3g}") if isinstance(value, float) else str(value)


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
