"""Orders and choices as BoTorch's comparisons: the fewest that say all of an answer about several points."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral

import torch
from torch import Tensor

from kappasharp.errors import InvalidTypeError, InvalidValueError

TWO = 2


def comparisons_of_orders(orders: Iterable[Sequence[int]]) -> Tensor:
    """Comparisons (m, 2), winner first, of points in order: each with the next.

    Every comparison is an answer of its own to `KappaSharpGP`, as to `PairwiseGP`. That comparisons of one order share
    what was felt about a point is known to studies and to `kappasharp.tell` alone.

    Args:
        orders: for every answer the indices of its points, the best first.
    """
    return _stacked([pair for order in _all(orders, "orders") for pair in pairwise(_checked(order, "orders"))])


def comparisons_of_choices(choices: Iterable[Sequence[int]]) -> Tensor:
    """Comparisons (m, 2), winner first, of the best of several points with each of the others; see above.

    Args:
        choices: for every answer the indices of its points, that of the best first.
    """
    checked = [_checked(choice, "choices") for choice in _all(choices, "choices")]
    return _stacked([(best, other) for best, *others in checked for other in others])


def _all(given: Iterable[Sequence[int]], name: str) -> Iterable[Sequence[int]]:
    if not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` must hold one list of indices for every answer, but got {given!r}.")
    return given


def _checked(given: Sequence[int], name: str) -> list[int]:
    if not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` must hold one list of indices for every answer, but got {given!r} for one.")
    numbers = [one.item() if isinstance(one, Tensor) else one for one in given]
    if not all(isinstance(one, Integral) and not isinstance(one, bool) for one in numbers):
        raise InvalidTypeError(f"`{name}` must hold lists of indices, without ties, but got {list(given)!r}.")
    if len(numbers) < TWO or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise InvalidValueError(
            f"`{name}` must hold two or more different indices, from 0, for every answer, but got {list(given)!r}."
        )
    return [int(one) for one in numbers]


def _stacked(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, TWO)
