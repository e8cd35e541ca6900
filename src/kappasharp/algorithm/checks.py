"""Tensors given by users: each argument of the public functions is checked here, once, with a sentence for each rule.

Methods and presets are checked in `settings.py`. What is below trusts its arguments.
"""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.algorithm.state import State
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.questions.kind import PAIR

POINT_DIMS = 2
# The largest rating: the one design is much better than the other.
MOST_BETTER = 3


def points(value: Any, name: str = "points") -> Tensor:
    """Points (…, n, d) in the unit cube as a float tensor."""
    X = value if isinstance(value, Tensor) else _as_tensor(value, name, torch.float64)
    if X.dtype not in (torch.float32, torch.float64):
        raise InvalidTypeError(
            f"`{name}` must hold float32 or float64 numbers, but got {X.dtype}; `{name}.double()` converts them."
        )
    if X.layout != torch.strided or X.dim() < POINT_DIMS or 0 in X.shape:
        raise InvalidValueError(
            f"`{name}` must have the shape (…, n_points, dimensions), none of them 0, but got {tuple(X.shape)}."
        )
    bad = ~X.isfinite()
    if bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        raise InvalidValueError(f"`{name}` must be finite, but got {float(X[where])} at index {where}.")
    outside = (X < 0) | (X > 1)
    if bool(outside.any()):
        where = tuple(outside.nonzero()[0].tolist())
        raise InvalidValueError(
            f"`{name}` must lie in the unit cube, but got {float(X[where])} at index {where}; "
            "scale each parameter to [0, 1] by its bounds first."
        )
    return X


def pairs(value: Any, X: Tensor, name: str = "comparisons") -> Tensor:
    """Comparisons (…, m, 2), winner first, as indices into the points."""
    P = value if isinstance(value, Tensor) else _as_tensor(value, name, None)
    if P.numel() == 0 and P.dim() == 1:
        P = torch.empty(*X.shape[:-2], 0, 2, dtype=torch.long)
    if P.is_floating_point() or P.is_complex() or P.dtype is torch.bool:
        raise InvalidTypeError(
            f"`{name}` must hold integer indices (winner, loser), but got {P.dtype}; utilities are no comparisons. If "
            f"they are indices, `torch.as_tensor({name}).long()` converts them."
        )
    if P.dim() < POINT_DIMS or P.shape[-1] != 2 or P.shape[:-2] != X.shape[:-2]:  # noqa: PLR2004
        raise InvalidValueError(
            f"`{name}` must have the shape {shape_of(X)} for points of shape {tuple(X.shape)}, but got "
            f"{tuple(P.shape)}."
        )
    P = P.to(X.device, torch.long)
    n = X.shape[-2]
    if P.numel() and (int(P.min()) < 0 or int(P.max()) >= n):
        raise InvalidValueError(
            f"`{name}` must hold indices from 0 to {n - 1}, but got a minimum of {int(P.min())} "
            f"and a maximum of {int(P.max())} for n_points={n}."
        )
    itself = P[..., 0] == P[..., 1]
    if bool(itself.any()):
        where = tuple(itself.nonzero()[0].tolist())
        raise InvalidValueError(
            f"`{name}` must compare two different points, but the comparison at index {where} has point "
            f"{int(P[where][0])} on both sides; leave it out."
        )
    return P


def shape_of(X: Tensor) -> str:
    """The shape of the comparisons of points X, in words."""
    return f"({', '.join([*map(str, X.shape[:-2]), 'm', '2'])})"


def ties(value: Any, P: Tensor, threshold: float) -> Tensor | None:
    """Which answers were ties (…, m), or None if none was."""
    if value is None:
        return None
    T = value if isinstance(value, Tensor) else _as_tensor(value, "ties", None)
    if T.dtype is not torch.bool or T.shape != P.shape[:-1]:
        raise InvalidValueError(
            f"`ties` must be a mask of the shape {tuple(P.shape[:-1])}, but got {T.dtype} of shape {tuple(T.shape)}."
        )
    T = T.to(P.device)
    if not bool(T.any()):
        return None
    allows_ties(threshold)
    return T


def allows_ties(threshold: float) -> None:
    """A tie has a probability only where the model leaves room for one."""
    if threshold <= 0:
        raise InvalidValueError(
            f"A tie needs a preset with a threshold above 0, but got threshold={threshold}; "
            "`dataclasses.replace(preset, threshold=...)` makes one."
        )


def seeds(value: int | Sequence[int], runs: int) -> tuple[int, ...]:
    """One whole number per run."""
    numbers = (value,) * runs if isinstance(value, Integral) else value
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        raise InvalidTypeError(f"`seeds` must be a whole number or one per run, but got {value!r}.")
    chosen = tuple(number.item() if isinstance(number, Tensor) else number for number in numbers)
    if not all(isinstance(number, Integral) for number in chosen):
        raise InvalidTypeError(f"`seeds` must be whole numbers, but got {value!r}.")
    if len(chosen) != runs:
        raise InvalidValueError(f"`seeds` must hold one number per run, but got {len(chosen)} for {runs} runs.")
    return tuple(int(number) for number in chosen)


def state(value: Any) -> None:
    """A state of a loop."""
    if not isinstance(value, State):
        raise InvalidTypeError(f"`state` must be one that `init`, `ask` or `tell` returned, but got {value!r}.")


def winners(value: Any, runs: int, designs: int = PAIR) -> Tensor:
    """0 (the first design won), 1 (the second) or 2 (a tie) for every run; of more designs, the best one's number."""
    W = value if isinstance(value, Tensor) else _as_tensor(value, "answer", None)
    W = W.reshape(1).expand(runs) if W.dim() == 0 else W
    words = "0, 1 or 2 (a tie)" if designs == PAIR else f"0 to {designs - 1}"
    most = PAIR if designs == PAIR else designs - 1
    if W.is_floating_point() or W.dtype is torch.bool or W.shape != (runs,) or bool(((W < 0) | (W > most)).any()):
        raise InvalidValueError(f"`answer` must hold {words} for each of {runs} runs, but got {W.tolist()}.")
    return W.long()


class Ordered(NamedTuple):
    """Orders: the numbers (runs, q), best first and those not named last; how many are named; who equals the next."""

    line: Tensor
    named: Tensor
    equal: Tensor


def orders(value: Any, runs: int, designs: int) -> Ordered:
    """For every run, or once for all, the numbers of its designs, the best first, equals in a list.

    Those that are not named come last. A list of lists alone has an order for each run.
    """
    given = value if isinstance(value, Tensor) else _as_lists(value)
    if isinstance(given, Tensor) and given.dim() and given.shape[-1] < designs:
        given = given.tolist()
    if isinstance(given, list):
        several = all(isinstance(one, list) for one in given)
        if several and len(given) != runs:
            raise _no_order(designs, value)
        return _as_ordered([_as_groups(one, designs, value) for one in (given if several else [given] * runs)], designs)
    W = given.expand(runs, -1) if given.dim() == 1 else given
    numbers = torch.arange(designs, device=W.device)
    if W.is_floating_point() or W.shape != (runs, designs) or not bool((W.sort(-1).values == numbers).all()):
        raise _no_order(designs, W.tolist())
    equal = torch.zeros(runs, designs - 1, dtype=torch.bool, device=W.device)
    return Ordered(W.long(), torch.full_like(equal[:, 0], designs, dtype=torch.long), equal)


def _as_lists(value: Any) -> Any:
    """Lists, and what stands in them, as plain Python; anything else as a tensor."""
    if not isinstance(value, list | tuple):
        return _as_tensor(value, "answer", None)
    return [
        _as_lists(one) if isinstance(one, list | tuple) else one.tolist() if hasattr(one, "tolist") else one
        for one in value
    ]


def _as_groups(order: list[Any], designs: int, value: Any) -> list[list[int]]:
    groups = [one if isinstance(one, list) else [one] for one in order]
    named = [number for group in groups for number in group]
    are_numbers = all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < designs for one in named)
    if not groups or not all(groups) or not are_numbers or len(set(named)) < len(named):
        raise _no_order(designs, value)
    return groups


def _no_order(designs: int, value: Any) -> InvalidValueError:
    return InvalidValueError(
        f"`answer` must be a list of numbers from 0 to {designs - 1}, none of them twice, best first and equals in a "
        f"list, for all runs; or a list with such a list for each run; but got {value}."
    )


def _as_ordered(orders: list[list[list[int]]], designs: int) -> Ordered:
    lines, named, equal = [], [], []
    for groups in orders:
        line = [number for group in groups for number in group]
        ties = [place < len(group) - 1 for group in groups for place in range(len(group))]
        rest = [number for number in range(designs) if number not in line]
        lines.append(line + rest)
        named.append(len(line))
        equal.append((ties + [False] * len(rest))[:-1])
    return Ordered(torch.tensor(lines), torch.tensor(named), torch.tensor(equal))


def places(value: Any, runs: int, like: Tensor) -> Tensor:
    """For every run a place on its line: a number in [0, 1]."""
    W = _as_tensor(value, "answer", None)
    is_number = W.dtype is not torch.bool
    # Of Python's own numbers torch would keep single precision.
    W = W if isinstance(value, Tensor) else _as_tensor(value, "answer", torch.float64)
    W = (W.reshape(1).expand(runs) if W.dim() == 0 else W).to(like)
    if not is_number or W.shape != (runs,) or not bool(((W >= 0.0) & (W <= 1.0)).all()):
        raise InvalidValueError(f"`answer` must be a place in [0, 1] for each of {runs} runs, but got {W.tolist()}.")
    return W.to(like)


def seconds(value: Any, runs: int, like: Tensor) -> Tensor:
    """For every run how long its answer took; NaN where that is not known."""
    W = _as_tensor(value, "seconds", None)
    is_number = W.dtype is not torch.bool
    W = (W.reshape(1).expand(runs) if W.dim() == 0 else W).to(like)
    if not is_number or W.shape != (runs,) or bool((W < 0.0).any()) or bool(W.isinf().any()):
        raise InvalidValueError(
            f"`seconds` must be a number of 0 or more for each of {runs} runs, NaN where it is not known, but got "
            f"{W.tolist()}."
        )
    return W


def ratings(value: Any, runs: int) -> Tensor:
    """For every run a whole number from −3 (the second is much better) to 3 (the first is)."""
    W = value if isinstance(value, Tensor) else _as_tensor(value, "answer", None)
    W = W.reshape(1).expand(runs) if W.dim() == 0 else W
    whole = not W.is_floating_point() and W.dtype is not torch.bool
    if not whole or W.shape != (runs,) or bool((W.abs() > MOST_BETTER).any()):
        raise InvalidValueError(
            f"`answer` must be a whole number from -{MOST_BETTER} to {MOST_BETTER} for each of {runs} runs, but got "
            f"{W.tolist()}."
        )
    return W.long()


def _as_tensor(value: Any, name: str, dtype: torch.dtype | None) -> Tensor:
    if not isinstance(value, Tensor) and hasattr(value, "__array__"):
        # A copy: torch takes no frames, no reversed arrays, and warns of those that must not be written to.
        value = value.__array__().copy()
        if value.dtype.kind == "c":
            raise InvalidTypeError(f"`{name}` must be real numbers, but got {value.dtype}.")
    if isinstance(value, str):
        raise InvalidTypeError(f"`{name}` must be a tensor or a nested list of numbers, but got {value!r}.")
    try:
        return torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidTypeError(f"`{name}` must be a tensor or a nested list of numbers: {error}") from error
