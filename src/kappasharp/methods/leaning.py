"""What is believed of outcomes before any answer: that less, or more, of one is usually better.

It is said to the model in its own words, as a few answers that nobody gave: of two places in the space of features that
differ in this outcome alone, the one is better. They are as uncertain as answers of a person with twice the noise, so
that a handful of real answers says more. Their points are no designs and stand behind those of the designs, their
comparisons behind the real ones.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.core import comparisons, features
from kappasharp.core.comparisons import Answers
from kappasharp.core.features import Lift

# An outcome is compared at these two places, the others being at each of those; and what such an answer weighs.
ENDS, OTHERS, WEIGHT = (0.2, 0.8), (0.25, 0.5, 0.75), 0.5


@runtime_checkable
class Leaning(Lift, Protocol):
    """A lift of outcomes of which something is believed."""

    @property
    def leaning(self) -> tuple[int, ...]:
        """For every outcome 1 where more is better, −1 where less is, and 0 where nothing is believed."""
        ...


def lifted(answers: Answers, lift: Lift | None) -> Answers:
    """Answers about designs as answers about features, and behind them what is believed of outcomes."""
    found = answers._replace(X=features.lifted(lift, answers.X))
    held = beliefs(lift, found.X)
    if held is None:
        return found
    (runs, n, _), count, ties = found.X.shape, held.pairs.shape[1], found.ties
    detail = comparisons.none_of((runs,), answers.pairs.shape[1], found.X) if found.detail is None else found.detail
    assert held.detail is not None
    return Answers(
        torch.cat([found.X, held.X], 1),
        torch.cat([found.pairs, held.pairs + n], 1),
        torch.nn.functional.pad(ties, (0, count)) if isinstance(ties, Tensor) else ties,
        comparisons.joined(detail, held.detail),
    )


def beliefs(lift: Lift | None, like: Tensor) -> Answers | None:
    """What is believed of outcomes and nothing else, between features (runs, …, D) like these; None for no beliefs."""
    if not isinstance(lift, Leaning) or not any(lift.leaning):
        return None
    points, pairs = _believed(lift.leaning, like.shape[-1] - len(lift.leaning), like)
    runs = len(like)
    detail = comparisons.none_of((runs,), len(pairs), like)
    detail = detail._replace(weight=detail.weight * WEIGHT)
    return Answers(points.expand(runs, -1, -1), pairs.expand(runs, -1, -1), None, detail)


def _believed(leaning: tuple[int, ...], dimensions: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Features (2v, D) and comparisons (v, 2) between them, the better first."""
    points: list[Tensor] = []
    pairs: list[list[int]] = []
    for outcome, sign in enumerate(leaning):
        for others in OTHERS if sign else ():
            place = like.new_full((2, dimensions + len(leaning)), others)
            place[:, :dimensions] = 0.5
            place[:, dimensions + outcome] = like.new_tensor(ENDS if sign < 0 else ENDS[::-1])
            pairs.append([2 * len(points), 2 * len(points) + 1])
            points.append(place)
    return torch.cat(points), torch.tensor(pairs, device=like.device)
