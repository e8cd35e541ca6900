"""Small random data sets for the tests, and the published numbers."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
PUBLISHED = Path(__file__).parents[1] / "published"


class Answered(NamedTuple):
    """Points in the unit cube, pairs (winner, loser) and which answers were ties."""

    X: Array
    pairs: Array
    is_tie: Array


def answered(seed: int, n: int, m: int, d: int, *, noise: float = 0.3, threshold: float = 0.0) -> Answered:
    """n uniform points in d dimensions and m noisy answers about a smooth utility; near-equal ones are ties."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    utility = 3.0 * np.sin(3.0 * X).sum(1) / np.sqrt(d)
    pairs, is_tie = np.empty((m, 2), dtype=np.int64), np.empty(m, dtype=bool)
    for row in range(m):
        i, j = rng.choice(n, 2, replace=False)
        difference = utility[i] - utility[j] + noise * rng.standard_normal()
        pairs[row] = (i, j) if difference > 0 else (j, i)
        is_tie[row] = abs(difference) <= threshold
    return Answered(X, pairs, is_tie)


def published(name: str) -> Any:
    """One of the files in tests/published."""
    return json.loads((PUBLISHED / name).read_text())
