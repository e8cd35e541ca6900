"""Simulators beside the analytic problems: their points shared out among processes."""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial

import torch
from torch import Tensor

from kappasharp.errors import InvalidValueError
from kappasharp.processes import Pool

# How many processes share a simulator's points, unless the caller says otherwise: one, because an engine above may
# already use every core.
WORKERS_VARIABLE = "KAPPASHARP_WORKERS"

# One value of a design, or several.
Value = float | tuple[float, ...]
Simulator = Callable[[Sequence[float]], Value]


@cache
def _pool(workers: int) -> Pool:
    return Pool(workers)


def workers_wanted() -> int:
    """The number of processes that the environment asks for; 1 if it is silent."""
    text = os.environ.get(WORKERS_VARIABLE, "1")
    if not text.isdecimal() or int(text) < 1:
        raise InvalidValueError(f"`{WORKERS_VARIABLE}` must be a whole number from 1 up, but got {text!r}.")
    return int(text)


def each(simulate: Simulator, X: Tensor) -> Tensor:
    """The simulator's value or values at every point (n, d), in order, by as many processes as are wanted."""
    rows = X.detach().to("cpu", torch.float64).tolist()
    workers = workers_wanted()
    values = _shared_out(simulate, rows, workers) if workers > 1 and len(rows) > 1 else [simulate(row) for row in rows]
    return torch.tensor(values, dtype=torch.float64).to(X)


def _shared_out(simulate: Simulator, rows: list[list[float]], workers: int) -> list[Value]:
    try:
        size = -(-len(rows) // (4 * workers))
        outcomes = list(_pool(workers).map(partial(_observed, simulate), rows, chunksize=size))
    except BrokenProcessPool:
        _pool.cache_clear()  # the next call starts with fresh workers
        raise
    for sentence in (words for _, caught in outcomes for words in caught):
        warnings.warn(sentence, RuntimeWarning, stacklevel=4)
    return [value for value, _ in outcomes]


def _observed(simulate: Simulator, row: list[float]) -> tuple[Value, list[str]]:
    """A value and the warnings on the way, which a worker's caller would not see otherwise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = simulate(row)
    return value, [str(warning.message) for warning in caught]
