"""Designs as points of the unit cube, for what computes: points, lattices, what is open of it, Sobol designs.

`space/space.py` says what a design may be, in plain Python; what is here needs torch.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, wraps
from typing import TypeVar

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.randomness import stream
from kappasharp.space.parameters import SLACK, Categorical, Float, Tuned, Value
from kappasharp.space.space import Design, Space

# Of how many parameters and spaces the tensors are kept: those of the studies that are open.
KEPT = 256

Of = TypeVar("Of", bound=Hashable)
Made = TypeVar("Made")


def _kept(make: Callable[[Of], Made]) -> Callable[[Of], Made]:
    """The same, made once for each of the last that were asked for."""

    @lru_cache(maxsize=KEPT)
    @wraps(make)
    def found(of: Of) -> Made:
        # Kept between calls, so it must not be tied to the mode it happens to be made in.
        with torch.inference_mode(mode=False):
            return make(of)

    return found


def points(space: Space, designs: Iterable[Mapping[str, Value]]) -> Tensor:
    """Many designs' points, one row each."""
    many = list(designs)
    if not many or not space.tuned:
        return torch.zeros(len(many), space.dimensions, dtype=torch.float64)
    return torch.cat([_encoded(part, [one[name] for one in many]) for name, part in space.tuned.items()], -1)


def rows(space: Space, X: Tensor) -> list[tuple[Value, ...]]:
    """The designs nearest to points (n, d), as values in the order of the parameters."""
    tuned = _floats(space, X)
    if tuned is None:
        return space.decode_columns(X.T.tolist(), len(X))
    columns, names = iter(tuned.T.tolist()), space.parameters
    found = (next(columns) if name in space.tuned else [space.fixed[name]] * len(X) for name in names)
    return list(zip(*found, strict=True))


def numbers(space: Space, X: Tensor) -> Tensor | None:
    """The same as a table (n, parameters) of floats; None where some are none, or need their own way to be found."""
    return None if space.fixed else _floats(space, X)


def _floats(space: Space, X: Tensor) -> Tensor | None:
    """Values (n, d) of parameters that all take any number of a range, evenly; None where some do not."""
    ends = _straight(space)
    if ends is None:
        return None
    low, high, width, is_exact = ends
    # As `decode` does it, to the same digits: the upper end comes out as it was given, by itself or not.
    found = torch.clamp(low + width * X, low, high)
    return found if is_exact else torch.where(X >= 1.0, high, found)


@_kept
def _straight(space: Space) -> tuple[Tensor, Tensor, Tensor, bool] | None:
    """Ends and widths (d,) of parameters that all take any number of a range, evenly; None where some do not.

    And whether low + width is high, to the last digit.
    """
    parts = [part for part in space.tuned.values() if isinstance(part, Float)]
    if space.bounds or len(parts) < len(space.tuned) or any(part.log or part.values is not None for part in parts):
        return None
    low, high = torch.tensor([part.ends for part in parts], dtype=torch.float64).reshape(-1, 2).T.contiguous()
    return low, high, high - low, bool((low + (high - low) == high).all())


@_kept
def tolerance(space: Space) -> Tensor:
    """How far apart two designs may be that nobody could tell apart, one distance for each coordinate."""
    return torch.tensor(space.tolerance, dtype=torch.float64)


@_kept
def levels(part: Tuned) -> Tensor | None:
    """The coordinates (k, width) of every value of a parameter; None where they are without number."""
    return None if part.values is None else _encoded(part, part.values)


def _encoded(part: Tuned, values: Sequence[Value]) -> Tensor:
    """The coordinates (k, width) of values; those of a plain number all at once, to the same digits."""
    if isinstance(part, Categorical) or part.log:
        return torch.tensor([part.encode(value) for value in values], dtype=torch.float64)
    low, high = part.ends
    return ((torch.tensor(values, dtype=torch.float64) - low) / (high - low)).clamp_(0.0, 1.0).unsqueeze(-1)


@_kept
def lattice(space: Space) -> Lattice | None:
    """The coordinates that may take some values only."""
    return _lattice([(part.width, levels(part)) for part in space.tuned.values()])


@_kept
def open_lattice(space: Space) -> Lattice | None:
    """The same where questions are searched: the values that are open; what is locked has one."""
    if not space.bounds:
        return lattice(space)
    found = ((space.tuned[name], values) for name, values in space.open_values.items())
    return _lattice([(part.width, None if values is None else _encoded(part, values)) for part, values in found])


def _lattice(parts: Sequence[tuple[int, Tensor | None]]) -> Lattice | None:
    groups, at = [], 0
    for width, values in parts:
        if values is not None:
            groups.append(Group(tuple(range(at, at + width)), values))
        at += width
    return Lattice(tuple(groups)) if groups else None


@_kept
def box(space: Space) -> tuple[Tensor, Tensor] | None:
    """The ends (d,) of the part of the cube that is open; None where all of it is."""
    if not space.bounds:
        return None
    ends = [
        end
        for name, part in space.tuned.items()
        for end in (space.bounds[name].cube if name in space.bounds else [(0.0, 1.0)] * part.width)
    ]
    low, high = torch.tensor(ends, dtype=torch.float64).T
    return low, high


def beyond(space: Space, X: Tensor) -> Tensor:
    """How far points (…, d) lie outside of what is open (…); 0 where the nearest design is open."""
    if (ends := box(space)) is None:
        return torch.zeros(X.shape[:-1], dtype=X.dtype, device=X.device)
    low, high = (end.to(X) for end in ends)
    far = (low - X).clamp(min=0.0) + (X - high).clamp(min=0.0)
    far = torch.where(far <= SLACK, 0.0, far).sum(-1)
    at = 0
    for name, part in space.tuned.items():
        if name in space.bounds and isinstance(part, Categorical):
            far = far + _closed(space, name, X[..., at : at + part.width])
        at += part.width
    return far


def _closed(space: Space, name: str, X: Tensor) -> Tensor:
    """1 where the nearest choice (…, width) is not open, else 0."""
    places, choices = levels(space.tuned[name]), space.tuned[name].values
    assert places is not None and choices is not None
    is_open = torch.tensor([space.bounds[name].holds(one) for one in choices], device=X.device)
    nearest = (X.unsqueeze(-2) - places.to(X)).square().sum(-1).argmin(-1)
    return (~is_open[nearest]).to(X)


def designs(space: Space, seed: int, skip: int, count: int) -> list[Design]:
    """Designs of the sequence, after the first so many."""
    return [space.draw(row) for row in _shares(len(space.tuned), seed, skip, count)]


@lru_cache(maxsize=KEPT)
def sample(space: Space, seed: int, count: int) -> Tensor:
    """The points (count, d) of the first designs of the sequence, wherever in the cube they are."""
    # Kept between calls, as above.
    with torch.inference_mode(mode=False):
        return points(space, designs(space.whole, seed, 0, count))


@cache
def _shares(dimensions: int, seed: int, skip: int, count: int) -> Sequence[Sequence[float]]:
    scramble = stream(seed, "study start").initial_seed() % 2**31
    engine = SobolEngine(dimensions, scramble=True, seed=scramble)
    if skip:
        engine.fast_forward(skip)
    rows: Sequence[Sequence[float]] = engine.draw(count, dtype=torch.float64).tolist()
    return rows
