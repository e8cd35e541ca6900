"""An answer as pairwise comparisons between the designs of its question: who is better, what is tied, how much better.

Designs are numbers within the question. What may be answered at all says `kind.py`; noise and likelihood come later.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

# With how many other places of a line the chosen one is compared at least.
OTHERS = 4


class Beside(NamedTuple):
    """With how many other places of its line a slider's is compared, and how near to it none of them is."""

    others: int
    near: float  # in units of the line's length


def beside(designs: int) -> Beside:
    """Those of a line through so many designs: the longer a line, the more of them, and the nearer."""
    return Beside(max(OTHERS, 2 * designs - 1), 0.2 / designs)


class Said(NamedTuple):
    """Comparisons between the designs of one question, by their numbers, better first; which are ties; a rating."""

    pairs: tuple[tuple[int, int], ...]
    ties: tuple[bool, ...]
    level: int = 0


def best_of(count: int, best: int) -> Said:
    """One of `count` designs was named the best."""
    return Said(tuple((best, other) for other in range(count) if other != best), (False,) * (count - 1))


def order_of(count: int, groups: Sequence[int | Sequence[int]]) -> Said:
    """Designs in order, the best first, equals together; those that are not named come after all that are.

    Equals follow each other as ties, so between two groups the last of one stands before the first of the next.
    """
    named = [[group] if isinstance(group, int) else list(group) for group in groups]
    line = [(number, place) for place, group in enumerate(named) for number in group]
    pairs = [(first[0], second[0]) for first, second in pairwise(line)]
    ties = [first[1] == second[1] for first, second in pairwise(line)]
    rest = sorted(set(range(count)) - {number for number, _ in line})
    return Said((*pairs, *((line[-1][0], other) for other in rest)), (*ties, *(False for _ in rest)))


def rated(rating: int) -> Said:
    """The first of two designs was said to be so much better than the second: −3 to 3."""
    pair = (0, 1) if rating >= 0 else (1, 0)
    return Said((pair,), (rating == 0,), abs(rating))
