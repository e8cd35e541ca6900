"""Pairwise comparisons as a graph: C f, Cᵀ v and their matrix forms without C; answers about several designs as such.

Notation
    pairs  (*batch, m, 2)  winner first, loser second: row p of C is e_winner − e_loser
    C      (m, n)          incidence matrix                                              [eq:hlik]
    omega  (*batch, m)     weights of the likelihood Hessian Cᵀ diag(ω) C, a graph Laplacian [prop:graph_laplacian]

An answer about more than two designs is several comparisons whose noise is not independent: two that are about the same
design have what was felt about it in common. Their noise is split, T = λI + (T − λI): what every comparison has for
itself, its likelihood has; the rest is a Gaussian of known covariance beside the utilities'. An answer is given by the
fewest comparisons that say all of it: an order of n designs by its n − 1 neighbours, the best of n by itself against
each other. Then T is positive definite and λ > 0. For two designs T = (2): no noise is shared, the weight is 1, and all
is as it ever was. (docs/method.md, "Questions that carry more")

    D      (m, n)          a row for every comparison of the answer: 1 at the better design, −1 at the other
    T      (m, m)          D Dᵀ: what is felt about n designs, each with noise σ², is noise σ² T of the m differences
    lambda_                the smallest eigenvalue of T: so much of it is independent, the rest is shared

    weight (*batch, m)     √(2/λ), a pair's 1: a comparison with noise λσ² is one with 2σ² of a larger difference
    noise  (*batch, m, m)  (T − λI)/λ, covariance of what comparisons of one question share, as standardised
    level  (*batch, m)     how much better the winner was said to be, 1 to 3; 0 where that was not asked
    time   (*batch, m)     how long the decision took, in units of an indifferent one's mean; 0 where that is not known
    width  (*batch, m)     how far "equal" and every step of a rating reach, in units of the likelihood's threshold
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from kappasharp.inference.likelihood import Ties
from kappasharp.questions.comparisons import Said, beside
from kappasharp.tensors import (
    ComparisonMatrix,
    ComparisonRows,
    Indices,
    Pairs,
    PerComparison,
    PointMatrix,
    Points,
    Utilities,
    take,
)

T = TypeVar("T")


class Detail(NamedTuple):
    """What comparisons have beside winner and loser, where a question was more than a pair."""

    weight: PerComparison
    noise: ComparisonMatrix
    level: Tensor
    width: PerComparison
    time: PerComparison


class Answers(NamedTuple):
    """Points, the comparisons between them, which of these were ties (None where none was), and what else they say."""

    X: Points
    pairs: Pairs
    ties: Ties = None
    detail: Detail | None = None


class Incidence(NamedTuple):
    """C, held as flat row numbers so that a whole batch is one gather."""

    pairs: Pairs
    n_points: int
    winners: Tensor
    losers: Tensor
    detail: Detail | None = None

    def take(self, rows: Tensor) -> "Incidence":
        """That of some runs of a flat batch, any of them more than once."""
        return incidence(self.pairs[rows], self.n_points, take(self.detail, rows))


def some(answers: Answers, rows: Tensor) -> Answers:
    """These comparisons (numbers) alone, of every run; what they share with others is theirs still."""
    X, pairs, ties, detail = answers
    kept = None
    if detail is not None:
        kept = _columns(detail, rows)._replace(noise=detail.noise[:, rows][..., rows])
    return Answers(X, pairs[:, rows], _columns(ties, rows), kept)


def _columns(value: T, rows: Tensor) -> T:
    if isinstance(value, Tensor):
        return cast(T, value[:, rows])
    return cast(T, type(value)(*(_columns(part, rows) for part in value))) if isinstance(value, tuple) else value


def incidence(pairs: Pairs, n_points: int, detail: Detail | None = None) -> Incidence:
    """The incidence matrix C of these pairs, each row times its weight."""
    runs = pairs.shape[:-2].numel()
    offset = torch.arange(runs, device=pairs.device).unsqueeze(-1) * n_points
    flat = pairs.reshape(runs, pairs.shape[-2], 2)
    winners, losers = ((flat[..., side] + offset).reshape(-1) for side in (0, 1))
    return Incidence(pairs, n_points, winners, losers, detail)


def _weighted(C: Incidence, v: PerComparison) -> PerComparison:
    return v if C.detail is None else v * C.detail.weight.to(v)


def _weighted_rows(C: Incidence, M: ComparisonRows) -> ComparisonRows:
    return M if C.detail is None else M * C.detail.weight.to(M).unsqueeze(-1)


def rows(C: Incidence, M: Points) -> ComparisonRows:
    """C M: the difference of the winner's and the loser's row."""
    m, k = C.pairs.shape[-2], M.shape[-1]
    flat = M.reshape(M.shape[:-1].numel(), k)
    difference = flat.index_select(0, C.winners) - flat.index_select(0, C.losers)
    return _weighted_rows(C, difference.reshape(*M.shape[:-2], m, k))


def differences(C: Incidence, f: Utilities) -> PerComparison:
    """C f: winner's minus loser's utility."""
    flat = f.reshape(-1)
    difference = flat.index_select(0, C.winners) - flat.index_select(0, C.losers)
    return _weighted(C, difference.reshape(C.pairs.shape[:-1]))


def congruence(C: Incidence, K: PointMatrix) -> ComparisonMatrix:
    """C K Cᵀ for a symmetric K."""
    return rows(C, rows(C, K).mT)


def gram(C: Incidence, K: PointMatrix, scale: float) -> ComparisonMatrix:
    """C K Cᵀ and the noise that comparisons share: over scale² the prior covariance of the standardised differences."""
    own = congruence(C, K)
    return own if C.detail is None else own + scale**2 * C.detail.noise.to(own)


def transpose(C: Incidence, v: PerComparison) -> Utilities:
    """Cᵀ v."""
    v = _weighted(C, v)
    out = v.new_zeros(*v.shape[:-1], C.n_points)
    out.scatter_add_(-1, C.pairs[..., 0], v)
    return out.scatter_add_(-1, C.pairs[..., 1], -v)


def transpose_rows(C: Incidence, M: ComparisonRows) -> Points:
    """Cᵀ M for a matrix M."""
    M = _weighted_rows(C, M)
    *batch, m, k = M.shape
    flat = M.reshape(math.prod(batch) * m, k)
    out = M.new_zeros(math.prod(batch) * C.n_points, k)
    out.index_add_(0, C.winners, flat).index_add_(0, C.losers, flat, alpha=-1)
    return out.reshape(*batch, C.n_points, k)


def spread(C: Incidence, G: ComparisonMatrix) -> PointMatrix:
    """Cᵀ G C for a symmetric G."""
    return transpose_rows(C, transpose_rows(C, G).mT)


def laplacian(C: Incidence, omega: PerComparison) -> PointMatrix:
    """H_lik = Cᵀ diag(ω) C, the weighted graph Laplacian. [prop:graph_laplacian]"""
    n, omega = C.n_points, _weighted(C, _weighted(C, omega))
    winner, loser = C.pairs[..., 0], C.pairs[..., 1]
    H_lik = omega.new_zeros(*omega.shape[:-1], n * n)
    H_lik.scatter_add_(-1, winner * n + winner, omega)
    H_lik.scatter_add_(-1, loser * n + loser, omega)
    H_lik.scatter_add_(-1, winner * n + loser, -omega)
    H_lik.scatter_add_(-1, loser * n + winner, -omega)
    return H_lik.reshape(*omega.shape[:-1], n, n)


def components(pairs: Pairs, n_points: int) -> Tensor:
    """For each point the lowest index in its connected component, (*batch, n)."""
    label = torch.arange(n_points, device=pairs.device).expand(*pairs.shape[:-2], n_points).clone()
    winner, loser = pairs[..., 0], pairs[..., 1]
    while True:
        before = label.clone()
        low = torch.minimum(label.gather(-1, winner), label.gather(-1, loser))
        label.scatter_reduce_(-1, winner, low, "amin")
        label.scatter_reduce_(-1, loser, low, "amin")
        label = label.gather(-1, label)  # pointer jumping: long chains collapse in a logarithmic number of rounds
        if torch.equal(label, before):
            return label


def count_components(pairs: Pairs, n_points: int) -> Indices:
    """N_cc: how many groups of points are linked by a chain of comparisons."""
    own = torch.arange(n_points, device=pairs.device)
    return (components(pairs, n_points) == own).sum(-1)


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


def other_places(place: Tensor, designs: int, others: int = 0, near: float = 0.0) -> Tensor:
    """The places (…, others) of a line that the chosen one is compared with: spread over what is not near to it.

    How many and how near, where that is 0, is as a line through so many designs needs it.
    """
    usual = beside(designs)
    others, near = others or usual.others, near or usual.near
    before = (place - near).clamp(min=0.0).unsqueeze(-1)
    after = (place + near).clamp(max=1.0).unsqueeze(-1)
    # An end that is near itself is no place: the line begins, or ends, with the chosen one.
    length = before + 1.0 - after
    along = torch.linspace(0.0, 1.0, others, dtype=place.dtype, device=place.device) * length
    first_part = (along < before) | (after == 1.0)
    return torch.where(first_part, along, along - before + after).clamp(max=1.0)
