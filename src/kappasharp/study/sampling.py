"""The designs that a study begins with: a scrambled Sobol sequence, every value of a lattice with the same share."""

from collections.abc import Sequence
from functools import cache

import torch
from torch.quasirandom import SobolEngine

from kappasharp.streams import stream
from kappasharp.study.space import Design, Space


def designs(space: Space, seed: int, skip: int, count: int) -> list[Design]:
    """Designs of the sequence, after the first so many."""
    return [space.draw(row) for row in _shares(len(space.tuned), seed, skip, count)]


@cache
def _shares(dimensions: int, seed: int, skip: int, count: int) -> Sequence[Sequence[float]]:
    scramble = stream(seed, "study start").initial_seed() % 2**31
    engine = SobolEngine(dimensions, scramble=True, seed=scramble)
    if skip:
        engine.fast_forward(skip)
    rows: Sequence[Sequence[float]] = engine.draw(count, dtype=torch.float64).tolist()
    return rows
