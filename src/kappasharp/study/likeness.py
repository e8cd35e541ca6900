"""Who is like whom: correlations of tastes, a map of them, and groups by average linkage."""

import torch
from torch import Tensor


def correlated(utility: Tensor) -> Tensor:
    """Correlations (V, V) of utilities (V, n); one that is the same everywhere is like nobody but itself."""
    found = torch.corrcoef(utility).reshape(len(utility), len(utility)).nan_to_num(0.0).clamp(-1.0, 1.0)
    return found.fill_diagonal_(1.0)


def places(alike: Tensor) -> tuple[tuple[float, float], ...]:
    """The plane in which tastes, as points at distances √(2 − 2 alike), lie furthest apart; the middle is (0, 0)."""
    centred = alike - alike.mean(0) - alike.mean(1, keepdim=True) + alike.mean()
    values, vectors = torch.linalg.eigh(0.5 * (centred + centred.mT))
    found = (vectors * values.clamp(min=0.0).sqrt()).flip(-1)[:, :2]
    # An axis has no right way round: whoever is furthest out along it is on its right.
    found = found * found.gather(0, found.abs().argmax(0, keepdim=True)).sign()
    return tuple((float(one[0]), float(one[1]) if len(one) > 1 else 0.0) for one in found)


def clusters(alike: Tensor, least: float) -> list[list[int]]:
    """Average linkage: the two groups most alike (V, V) become one as long as they are that much alike on average."""
    groups = [[i] for i in range(len(alike))]
    between = alike.clone().fill_diagonal_(-torch.inf)
    while len(groups) > 1:
        first, second = sorted(divmod(int(between.argmax()), len(groups)))
        if float(between[first, second]) < least:
            break
        one, other = len(groups[first]), len(groups[second])
        row = (one * between[first] + other * between[second]) / (one + other)
        between[first], between[:, first] = row, row
        between[first, first] = -torch.inf
        stay = [i for i in range(len(groups)) if i != second]
        between = between[stay][:, stay]
        groups[first] += groups.pop(second)
    return groups
