"""Answers as BoTorch's comparisons: the fewest that say all of an order or a choice, and those that a model samples."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import NamedTuple

import torch
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from torch import Tensor

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.questions.kind import PAIR


def comparisons_of_orders(orders: Iterable[Sequence[int]]) -> Tensor:
    """Comparisons (m, 2), winner first, of points in order: each with the next.

    Every comparison is an answer of its own to `KappaSharpGP`, as to `PairwiseGP`. That comparisons of one order share
    what was felt about a point is known to studies and to `kappasharp.tell` alone.

    Args:
        orders: for every answer the indices of its points, the best first.
    """
    return _stacked([pair for order in _all(orders, "orders") for pair in pairwise(_checked(order, "orders"))])


def comparisons_of_choices(choices: Iterable[Sequence[int]]) -> Tensor:
    """Comparisons (m, 2), winner first, of the best of several points with each of the others; see above.

    Args:
        choices: for every answer the indices of its points, that of the best first.
    """
    checked = [_checked(choice, "choices") for choice in _all(choices, "choices")]
    return _stacked([(best, other) for best, *others in checked for other in others])


def _all(given: Iterable[Sequence[int]], name: str) -> Iterable[Sequence[int]]:
    if not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` must hold one list of indices for every answer, but got {given!r}.")
    return given


def _checked(given: Sequence[int], name: str) -> list[int]:
    if not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` must hold one list of indices for every answer, but got {given!r} for one.")
    numbers = [one.item() if isinstance(one, Tensor) else one for one in given]
    if not all(isinstance(one, Integral) and not isinstance(one, bool) for one in numbers):
        raise InvalidTypeError(f"`{name}` must hold lists of indices, without ties, but got {list(given)!r}.")
    if len(numbers) < PAIR or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise InvalidValueError(
            f"`{name}` must hold two or more different indices, from 0, for every answer, but got {list(given)!r}."
        )
    return [int(one) for one in numbers]


def _stacked(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, PAIR)


class Sampled(NamedTuple):
    """Comparisons (…, l, 2), winner first, and which of them are ties (None where none can be)."""

    pairs: Tensor
    ties: Tensor | None


@torch.no_grad()
def sample(sampler: MCSampler, noisy: GPyTorchPosterior, threshold: float) -> Sampled:
    """What a person would answer about the q designs of a posterior of noisy utilities: the best beats the others.

    A pairwise sampler chooses its own pairs, by default all. Which of the two won is read from its utilities: BoTorch
    0.18.1 writes the loser first, although its PairwiseGP, and this model, take the first for the winner.
    """
    q = noisy.mean.shape[-2]
    if q < PAIR:
        raise InvalidValueError(f"`X` must hold at least two designs, which are compared, but got {q}.")
    if isinstance(sampler, PairwiseMCSampler):
        chosen = sampler(noisy).to(noisy.device)
        utility = super(PairwiseMCSampler, sampler).forward(noisy).squeeze(-1)  # type: ignore[safe-super]
    else:
        utility = sampler(noisy).squeeze(-1)
        ranked = utility.argsort(-1, descending=True)
        chosen = torch.stack([ranked[..., :1].expand_as(ranked[..., 1:]), ranked[..., 1:]], -1)
    values = utility.unsqueeze(-2).expand(*chosen.shape[:-1], -1).gather(-1, chosen)
    lead = values[..., 0] - values[..., 1]
    pairs = torch.where((lead >= 0.0).unsqueeze(-1), chosen, chosen.flip(-1))
    return Sampled(pairs, lead.abs() <= threshold if threshold > 0.0 else None)
