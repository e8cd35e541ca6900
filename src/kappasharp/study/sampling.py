"""The designs that a study begins with: a scrambled Sobol sequence, every value of a lattice with the same share."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.streams import stream
from kappasharp.study.space import Design, Space


def designs(space: Space, seed: int, skip: int, count: int) -> list[Design]:
    """Designs of the sequence, after the first so many."""
    return [space.draw(row) for row in _shares(len(space.tuned), seed, skip, count)]


# Of the last few spaces: who looks at a study again and again draws its points once.
_KEPT: dict[tuple[str, int, int], Tensor] = {}
MOST_KEPT = 8


def points(space: Space, seed: int, count: int) -> Tensor:
    """The points of the first so many designs, to be read and not written to."""
    key = (f"{space.parameters!r} {space.bounds!r}", seed, count)
    found = _KEPT.pop(key, None)
    _KEPT[key] = found = space.points(designs(space, seed, 0, count)) if found is None else found
    for old in list(_KEPT)[:-MOST_KEPT]:
        _KEPT.pop(old, None)
    return found


@cache
def _shares(dimensions: int, seed: int, skip: int, count: int) -> Sequence[Sequence[float]]:
    scramble = stream(seed, "study start").initial_seed() % 2**31
    engine = SobolEngine(dimensions, scramble=True, seed=scramble)
    if skip:
        engine.fast_forward(skip)
    rows: Sequence[Sequence[float]] = engine.draw(count, dtype=torch.float64).tolist()
    return rows
