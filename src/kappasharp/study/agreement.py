"""How well several voters agree: on pairs that two of them answered, and each with the model of all answers."""

from itertools import combinations
from statistics import median
from typing import NamedTuple

import torch

from kappasharp.study.history import Comparison, History
from kappasharp.study.questions import Model

EVEN = 0.5


class Voter(NamedTuple):
    """One voter: answers, skips, the median seconds of one, and how many of the decided answers the model shares."""

    name: str
    answers: int
    skips: int
    seconds: float | None
    decided: int
    shared: int


class Couple(NamedTuple):
    """Two voters, the pairs that both answered, and on how many of them they said the same."""

    first: str
    second: str
    met: int
    agreed: int


def voters(history: History, model: Model | None) -> list[Voter]:
    """Every voter with an answer, the first to answer first."""
    shared = set() if model is None else _shared(history, model)
    return [_voter(name, own, shared) for name, own in _by_voter(history).items()]


def _by_voter(history: History) -> dict[str, list[Comparison]]:
    found: dict[str, list[Comparison]] = {}
    for one in history.comparisons.values():
        found.setdefault(one.voter, []).append(one)
    return found


def _voter(name: str, own: list[Comparison], shared: set[int]) -> Voter:
    seconds = [one.seconds for one in own if one.seconds is not None]
    decided = [one for one in own if one.answer in ("a", "b")]
    return Voter(
        name,
        sum(one.answer != "skip" for one in own),
        sum(one.answer == "skip" for one in own),
        median(seconds) if seconds else None,
        len(decided),
        sum(one.event in shared for one in decided),
    )


def _shared(history: History, model: Model) -> set[int]:
    """Answers whose winner the model of all answers also puts first."""
    place = {number: i for i, number in enumerate(model.options)}
    decided = [one for one in history.counted() if one.answer != "tie"]
    if not decided:
        return set()
    rows = torch.tensor([[place[number] for number in one.ordered] for one in decided])
    X = model.state.points[0]
    chance = model.surrogate.contrast(X[rows[:, 0]], X[rows[:, 1]]).preferred.tolist()
    return {one.event for one, p in zip(decided, chance, strict=True) if p > EVEN}


def couples(history: History) -> list[Couple]:
    """Every two voters who answered a pair in common; a voter's last word on a pair counts."""
    said: dict[str, dict[frozenset[int], int | None]] = {}
    for one in history.counted():
        winner = None if one.answer == "tie" else one.ordered[0]
        said.setdefault(one.voter, {})[frozenset(one.options)] = winner
    found = []
    for first, second in combinations(said, 2):
        both = said[first].keys() & said[second].keys()
        if both:
            agreed = sum(said[first][pair] == said[second][pair] for pair in both)
            found.append(Couple(first, second, len(both), agreed))
    return found
