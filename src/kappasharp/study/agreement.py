"""How well several voters agree: on pairs that two of them answered, and each with the model of all answers."""

from itertools import combinations
from statistics import median
from typing import NamedTuple

from kappasharp.study import diagnosis
from kappasharp.study.history import Comparison, History
from kappasharp.study.kinds import SKIP
from kappasharp.study.learning import StudyModel

EVEN = 0.5


class Voter(NamedTuple):
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


def voters(history: History, model: StudyModel | None) -> list[Voter]:
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


def _voter(name: str, own: list[Comparison], shared: set[int]) -> Voter:
    seconds = [one.seconds for one in own if one.seconds is not None]
    decided = [one for one in own if one.answer != SKIP and not one.is_tie]
    return Voter(
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
