"""Questions on a lattice: some coordinates of the cube may take a few values only, and the best of those are found.

Rounding the maximum over the whole cube would not do: what is best between two values need not be best at either. So
the lattice's coordinates are searched by exchange, one group of one design at a time and every value of it, and the
free coordinates climb between exchanges.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# Exchanges go over all groups until nothing changes; no search seen needed more sweeps than a few.
SWEEPS = 12
# Of a group with more values than this only the nearest to where the search stands are tried.
TRIED = 64


class Group(NamedTuple):
    """Coordinates that move together, and the values (k, width) they may take."""

    at: tuple[int, ...]
    levels: Tensor


class Lattice(NamedTuple):
    """All groups; coordinates in none of them are free."""

    groups: tuple[Group, ...]


Objective = Callable[[Tensor], Tensor]


def free(on: Lattice | None, dimensions: int) -> list[int]:
    """The coordinates that may take any value."""
    held = set() if on is None else {j for group in on.groups for j in group.at}
    return [j for j in range(dimensions) if j not in held]


def over(lattice: Lattice, copies: int, dimensions: int) -> Lattice:
    """The lattice of `copies` designs laid end to end."""
    return Lattice(
        tuple(
            Group(tuple(i * dimensions + j for j in group.at), group.levels)
            for i in range(copies)
            for group in lattice.groups
        )
    )


def held(lattice: Lattice, x: Tensor, box: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Bounds like x that leave the free coordinates the box and hold the others where they are."""
    low, high = (end.clone() for end in box)
    for group in lattice.groups:
        at = list(group.at)
        low[..., at], high[..., at] = x[..., at], x[..., at]
    return low, high


def nearest(lattice: Lattice, x: Tensor) -> Tensor:
    """Every row moved to the nearest values of the lattice."""
    x = x.clone()
    for group in lattice.groups:
        at = list(group.at)
        levels = group.levels.to(x)
        distance = (x[..., at].unsqueeze(-2) - levels).square().sum(-1)
        x[..., at] = levels[distance.argmin(-1)]
    return x


def sweep_cost(lattice: Lattice) -> int:
    """How many rows a sweep over all groups tries for one."""
    return sum(min(len(group.levels), TRIED) for group in lattice.groups)


def exchange(lattice: Lattice, x: Tensor, objective: Objective, sweeps: int = SWEEPS) -> Tensor:
    """Rows (runs, starts, p) on the lattice, no single group of which could take a value with a smaller objective.

    `objective` takes (runs, rows, p) to (runs, rows).
    """
    x = nearest(lattice, x)
    value = objective(x)
    for _ in range(sweeps):
        before = value
        for group in lattice.groups:
            x, value = _improve(group, x, value, objective)
        if bool((value >= before).all()):
            break
    return x


def _improve(group: Group, x: Tensor, value: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
    """The best value of one group in every row, the present one if none is better."""
    runs, starts, p = x.shape
    at, levels = list(group.at), group.levels.to(x)
    here = x[..., at]
    if len(levels) > TRIED:
        near = (here.unsqueeze(-2) - levels).square().sum(-1).topk(TRIED, -1, largest=False).indices
        options = levels[near]
    else:
        options = levels.expand(runs, starts, *levels.shape)
    trial = x.unsqueeze(-2).repeat(1, 1, options.shape[-2], 1)
    trial[..., at] = options
    found = objective(trial.reshape(runs, -1, p)).reshape(runs, starts, -1)
    best, which = found.min(-1)
    better = best < value
    chosen = trial.gather(2, which.reshape(runs, starts, 1, 1).expand(-1, -1, 1, p)).squeeze(2)
    return torch.where(better.unsqueeze(-1), chosen, x), torch.where(better, best, value)
