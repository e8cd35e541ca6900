"""What an answer about several designs says, as comparisons and the noise that they share; one Thurstone draw a design.

Notation
    D       (m, n)  a row for every comparison of the answer: 1 at the better design, −1 at the other
    T       (m, m)  D Dᵀ: what is felt about n designs, each with noise σ², is noise σ² T of the m differences
    lambda_ the smallest eigenvalue of T: so much of it is independent, the rest is shared

An answer is given by the fewest comparisons that say all of it: an order of n designs by its n − 1 neighbours, the best
of n by itself against each other. Then T is positive definite and λ > 0. For two designs T = (2): no noise is shared,
the weight is 1, and all is as it ever was. (docs/method.md, "Questions that carry more")
"""

import math
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from kappasharp.core.choices import NEAR, OTHERS, Said
from kappasharp.core.comparisons import Detail


@cache
def shared(pairs: tuple[tuple[int, int], ...]) -> tuple[float, Tensor]:
    """The weight √(2/λ) of an answer's comparisons and the covariance (T − λI)/λ of the noise that they share."""
    # Kept between calls, so it must not be tied to the mode it happens to be made in.
    with torch.inference_mode(mode=False):
        if len(pairs) == 1:
            return 1.0, torch.zeros(1, 1, dtype=torch.float64)
        D = torch.zeros(len(pairs), 1 + max(max(pair) for pair in pairs), dtype=torch.float64)
        for row, (better, other) in enumerate(pairs):
            D[row, better], D[row, other] = 1.0, -1.0
        T = D @ D.mT
        lambda_ = float(torch.linalg.eigvalsh(T)[0])
        return math.sqrt(2.0 / lambda_), T / lambda_ - torch.eye(len(pairs), dtype=torch.float64)


def detail(answers: Sequence[Said]) -> Detail | None:
    """What the comparisons of these answers, one after another, have beside winner and loser; batch of one.

    None where every answer is about a pair and nobody said how much better.
    """
    if all(len(said.pairs) == 1 and not said.level for said in answers):
        return None
    parts = [shared(said.pairs) for said in answers]
    sizes = [len(said.pairs) for said in answers]
    weight = torch.tensor([part[0] for part, size in zip(parts, sizes, strict=True) for _ in range(size)])
    level = torch.tensor([said.level for said, size in zip(answers, sizes, strict=True) for _ in range(size)])
    noise = torch.block_diag(*(noise for _, noise in parts))
    ones = torch.ones_like(weight).double()[None]
    return Detail(weight.double()[None], noise[None], level.long()[None], ones, torch.zeros_like(ones))


def none_of(batch: Sequence[int], count: int, like: Tensor) -> Detail:
    """The detail of `count` plain comparisons."""
    return Detail(
        like.new_ones(*batch, count),
        like.new_zeros(*batch, count, count),
        torch.zeros(*batch, count, dtype=torch.long, device=like.device),
        like.new_ones(*batch, count),
        like.new_zeros(*batch, count),
    )


def joined(old: Detail, new: Detail) -> Detail:
    """The detail of two sets of comparisons that share nothing with each other."""
    k, m = new.weight.shape[-1], old.weight.shape[-1]
    noise = torch.nn.functional.pad(old.noise, (0, k, 0, k)) + torch.nn.functional.pad(new.noise, (m, 0, m, 0))
    flat = [(old.weight, new.weight), (old.level, new.level), (old.width, new.width), (old.time, new.time)]
    weight, *rest = (torch.cat(both, -1) for both in flat)
    return Detail(weight, noise, *rest)


def other_places(place: Tensor, others: int = OTHERS, near: float = NEAR) -> Tensor:
    """The places (…, others) of a line that the chosen one is compared with: spread over what is not near to it."""
    before = (place - near).clamp(min=0.0).unsqueeze(-1)
    after = (place + near).clamp(max=1.0).unsqueeze(-1)
    # An end that is near itself is no place: the line begins, or ends, with the chosen one.
    length = before + 1.0 - after
    along = torch.linspace(0.0, 1.0, others, dtype=place.dtype, device=place.device) * length
    first_part = (along < before) | (after == 1.0)
    return torch.where(first_part, along, along - before + after)
