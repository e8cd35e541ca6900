"""Names for the shapes of tensors; runs of a batch taken out, put back and chosen between; one thread for torch.

The runs are the first dimension of every tensor. What is no tensor (a name, a choice, None) is the same for all runs. A
tuple that holds more than tensors in step has a `take` of its own, which is used.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import torch
from torch import Tensor

# Names for the tensors that travel between functions; "*batch" stands for any leading dimensions.
#
# Under pytest, where jaxtyping is loaded first, it and beartype check every shape at run time. Otherwise the names are
# plain tensors and nothing is checked, so that the package needs torch alone.

if TYPE_CHECKING or sys.modules.get("jaxtyping") is None:
    Points: TypeAlias = Tensor
    Pairs: TypeAlias = Tensor
    Utilities: TypeAlias = Tensor
    PerComparison: TypeAlias = Tensor
    PerComparisonMask: TypeAlias = Tensor
    PerRun: TypeAlias = Tensor
    Indices: TypeAlias = Tensor
    PerRunMask: TypeAlias = Tensor
    PointMatrix: TypeAlias = Tensor
    ComparisonMatrix: TypeAlias = Tensor
    ComparisonRows: TypeAlias = Tensor
    Parameters: TypeAlias = Tensor
    Lengthscales: TypeAlias = Tensor
    AnyFloat: TypeAlias = Tensor
else:
    from jaxtyping import Bool, Float, Int

    Points = Float[Tensor, "*batch n d"]
    Pairs = Int[Tensor, "*batch m 2"]
    Utilities = Float[Tensor, "*batch n"]
    PerComparison = Float[Tensor, "*batch m"]
    PerComparisonMask = Bool[Tensor, "*batch m"]
    PerRun = Float[Tensor, "*batch"]
    Indices = Int[Tensor, "*batch"]
    PerRunMask = Bool[Tensor, "*batch"]
    PointMatrix = Float[Tensor, "*batch n n"]
    ComparisonMatrix = Float[Tensor, "*batch m m"]
    ComparisonRows = Float[Tensor, "*batch m k"]
    Parameters = Float[Tensor, "*batch p"]
    Lengthscales = Float[Tensor, "*batch d"]
    AnyFloat = Float[Tensor, "..."]

T = TypeVar("T")


def take(value: T, rows: Tensor) -> T:
    """The runs at these rows (numbers, any of them more than once, or a mask)."""
    if isinstance(value, Tensor):
        return cast(T, value[rows] if rows.dtype is torch.bool else value.index_select(0, rows))
    if not isinstance(value, tuple):
        return value
    own = getattr(value, "take", None)
    return cast(T, own(rows)) if own is not None else _made(value, [take(part, rows) for part in value])


def put(whole: T, part: T, rows: Tensor) -> T:
    """The whole, with the runs at these rows as in the part."""
    if isinstance(whole, Tensor):
        out = whole.clone()
        out[rows] = cast(Tensor, part).to(out.dtype)
        return cast(T, out)
    if isinstance(whole, tuple):
        return _made(whole, [put(*both, rows) for both in zip(whole, cast(tuple[T], part), strict=True)])
    return whole


def replaced(whole: T, part: T) -> T:
    """What `put` gives where the part has all runs, in order: the part itself, in the whole's precision."""
    if isinstance(whole, Tensor):
        return cast(T, cast(Tensor, part).to(whole.dtype))
    if isinstance(whole, tuple):
        return _made(whole, [replaced(*both) for both in zip(whole, cast(tuple[T], part), strict=True)])
    return whole


def where(mask: Tensor, yes: T, no: T) -> T:
    """Each run from `yes` where the mask (runs,) holds, else from `no`."""
    if isinstance(yes, Tensor):
        return cast(T, torch.where(mask.reshape(-1, *[1] * (yes.dim() - 1)), yes, cast(Tensor, no)))
    if isinstance(yes, tuple):
        return _made(yes, [where(mask, *both) for both in zip(yes, cast(tuple[T], no), strict=True)])
    return yes


def joined(parts: Sequence[T]) -> T:
    """The runs of all parts, one after another."""
    first = parts[0]
    if isinstance(first, Tensor):
        return cast(T, torch.cat(list(cast(Sequence[Tensor], parts))))
    if isinstance(first, tuple):
        return _made(first, [joined(each) for each in zip(*cast(Sequence[tuple[T]], parts), strict=True)])
    return first


def _made(like: T, parts: list[T]) -> T:
    """A tuple of these parts, of the kind that `like` is."""
    kind = type(like)
    return cast(T, kind(*parts) if hasattr(kind, "_fields") else tuple(parts))


def apply(M: Tensor, v: Tensor) -> Tensor:
    """M v, matrix by vector."""
    return (M @ v.unsqueeze(-1)).squeeze(-1)


def released(value: T, done: dict[int, Tensor] | None = None) -> T:
    """The same value with ordinary tensors, where some were made in inference mode and could not be changed later.

    One that stands in two places is copied once (`done` holds the copies).
    """
    done = {} if done is None else done
    if isinstance(value, Tensor):
        if value.is_inference() and id(value) not in done:
            done[id(value)] = value.clone()
        return cast(T, done.get(id(value), value))
    if is_dataclass(value) and not isinstance(value, type):
        before = {part.name: getattr(value, part.name) for part in fields(value)}
        changed = {name: copy for name, part in before.items() if (copy := released(part, done)) is not part}
        return replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        parts = [released(part, done) for part in value]
        return value if all(copy is part for copy, part in zip(parts, value, strict=True)) else _made(value, parts)
    return value


def set_one_thread() -> None:
    """Have torch use one thread in this process: what a worker does first."""
    torch.set_num_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """The matrices of one study are small: several threads would wait for each other more than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
