"""Pairwise comparisons as a graph: C f, Cᵀ v and their matrix forms without ever forming C.

Notation
    pairs  (*batch, m, 2)  winner first, loser second: row p of C is e_winner − e_loser
    C      (m, n)          incidence matrix                                              [eq:hlik]
    omega  (*batch, m)     weights of the likelihood Hessian Cᵀ diag(ω) C, a graph Laplacian [prop:graph_laplacian]
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.shapes import (
    ComparisonMatrix,
    ComparisonRows,
    Indices,
    Pairs,
    PerComparison,
    PerComparisonMask,
    PointMatrix,
    Points,
    Utilities,
)


class Answers(NamedTuple):
    """Points, the comparisons between them, and which of these were ties (None where none was)."""

    X: Points
    pairs: Pairs
    ties: PerComparisonMask | None = None


class Incidence(NamedTuple):
    """C, held as flat row numbers so that a whole batch is one gather."""

    pairs: Pairs
    n_points: int
    winners: Tensor
    losers: Tensor

    def take(self, rows: Tensor) -> "Incidence":
        """That of some runs of a flat batch, any of them more than once."""
        return incidence(self.pairs[rows], self.n_points)


def incidence(pairs: Pairs, n_points: int) -> Incidence:
    """The incidence matrix C of these pairs."""
    runs = pairs.shape[:-2].numel()
    offset = torch.arange(runs, device=pairs.device).unsqueeze(-1) * n_points
    flat = pairs.reshape(runs, pairs.shape[-2], 2)
    return Incidence(pairs, n_points, (flat[..., 0] + offset).reshape(-1), (flat[..., 1] + offset).reshape(-1))


def rows(C: Incidence, M: Points) -> ComparisonRows:
    """C M: the difference of the winner's and the loser's row."""
    m, k = C.pairs.shape[-2], M.shape[-1]
    flat = M.reshape(M.shape[:-1].numel(), k)
    difference = flat.index_select(0, C.winners) - flat.index_select(0, C.losers)
    return difference.reshape(*M.shape[:-2], m, k)


def differences(C: Incidence, f: Utilities) -> PerComparison:
    """C f: winner's minus loser's utility."""
    flat = f.reshape(-1)
    difference = flat.index_select(0, C.winners) - flat.index_select(0, C.losers)
    return difference.reshape(C.pairs.shape[:-1])


def congruence(C: Incidence, K: PointMatrix) -> ComparisonMatrix:
    """C K Cᵀ for a symmetric K."""
    return rows(C, rows(C, K).mT)


def transpose(C: Incidence, v: PerComparison) -> Utilities:
    """Cᵀ v."""
    out = v.new_zeros(*v.shape[:-1], C.n_points)
    out.scatter_add_(-1, C.pairs[..., 0], v)
    return out.scatter_add_(-1, C.pairs[..., 1], -v)


def transpose_rows(C: Incidence, M: ComparisonRows) -> Points:
    """Cᵀ M for a matrix M."""
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
    n = C.n_points
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
