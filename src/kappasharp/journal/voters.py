"""Who the voters of a study are, and how much each of them counts towards what is best for all."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kappasharp.arguments import finite
from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.journal.events import DEFAULT_VOTER, Weighed
from kappasharp.journal.history import History
from kappasharp.messages.message import figures, in_a_row, said

# Far beyond any use; a sum of such weights is still a number.
LARGEST = 1e6


def answered(history: History) -> list[str]:
    """Every voter whose answers count, the first to answer first."""
    return list(dict.fromkeys(one.voter for one in history.counted()))


def known(history: History) -> list[str]:
    """The same, and then who was asked or has skipped, but told nothing yet; nobody's name is none of them."""
    asked = (question.voter for question, _ in history.asked.values())
    others = [one for one in asked if one != DEFAULT_VOTER]
    return list(dict.fromkeys([*answered(history), *others, *history.programs.about]))


def weighed(history: History, given: Any) -> Weighed:
    """The event of these weights, or a sentence; an empty table lets all count alike."""
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"`weights` must be a table of voters and numbers, but got {given!r}.")
    voters = known(history)
    table = {name: name for name in voters}
    weights = {named("voter", name, table): _weight(name, one) for name, one in given.items()}
    if voters and not any(weights.get(name, 1.0) for name in answered(history) or voters):
        nobody = "`weights` must leave somebody who answered a weight above 0, but all of them have 0."
        raise InvalidValueError(said("fault.weightless", nobody))
    return Weighed(weights)


def _weight(name: str, given: Any) -> float:
    weight = float(finite(given, f"`weights[{name!r}]`"))
    if not 0.0 <= weight <= LARGEST:
        words = "`weights[{name!r}]` must be from 0 to {most:g}, but got {got}."
        raise InvalidValueError(said("fault.weight", words, name=name, most=LARGEST, got=repr(given)))
    return weight


def differ(history: History) -> bool:
    """Whether some of those who answered count more than others."""
    return len({history.weights.get(name, 1.0) for name in answered(history)}) > 1


def counting(history: History) -> list[str]:
    """Those of them that count at all; everybody where nobody does."""
    names = answered(history)
    return [name for name in names if history.weights.get(name, 1.0) > 0.0] or names


def words(weights: Mapping[str, float]) -> str:
    """The weights other than 1, by name."""
    others = {name: f"{weight:g}" for name, weight in weights.items() if weight != 1.0}
    return in_a_row(
        [said("team.weight", "{name} {weight}", name=name, weight=figures(w)) for name, w in others.items()]
    )


def shares(history: History, names: Sequence[str]) -> list[float]:
    """How much each of these counts, as shares of 1; alike where none of them has a weight."""
    weights = [history.weights.get(name, 1.0) for name in names]
    total = math.fsum(weights)
    return [one / total for one in weights] if total > 0.0 else [1.0 / len(names)] * len(names)
