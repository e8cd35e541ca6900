"""Further answers to a model that is fitted: the factor grows by rows, the MAP follows by warm Newton steps.

Notation
    A      (*batch, m, m)  prior covariance of the standardised differences, as in laplace.py
    side   (*batch, k, m)  the same between k further differences and the m known ones
    corner (*batch, k, k)  the same among the further ones
    L      (*batch, m, m)  Cholesky factor of B = I + ω^½ A ω^½ at the MAP

Nothing that was computed for the m answers is computed again: A and L are bordered, and the first Newton step, from the
old differences and the predicted new ones, is exact with the bordered factor. Only the steps after it, which the moved
ω ask for, factorize.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.core import comparisons, laplace, likelihood
from kappasharp.core.comparisons import Incidence
from kappasharp.core.evidence import Model
from kappasharp.core.laplace import DualFit
from kappasharp.shapes import ComparisonMatrix, PerComparison, PerComparisonMask, PointMatrix, Points, Utilities


class Conditioned(NamedTuple):
    """The MAP in comparison space with all that the next answer needs, and K⁻¹ f̂ and a root for predictions."""

    K: PointMatrix
    C: Incidence
    A: ComparisonMatrix
    dual: DualFit
    L: ComparisonMatrix
    beta: Utilities
    root: Points


def condition(
    model: Model,
    K: PointMatrix,
    C: Incidence,
    start: PerComparison | None = None,
    ties: PerComparisonMask | None = None,
) -> Conditioned:
    """The posterior given K, whatever kernel it came from; `start` is a guess at the differences."""
    A = comparisons.congruence(C, K) / model.likelihood.scale**2
    start = A.new_zeros(A.shape[:-1]) if start is None else start
    return _finish(model, K, C, A, laplace.solve(A, model.likelihood.margin, start, ties), ties)


def extend(model: Model, known: Conditioned, K_side: Tensor, K_corner: Tensor, pairs: Tensor) -> Conditioned:
    """The posterior with further points and answers: K_side (*batch, k, n) and K_corner (*batch, k, k) are theirs.

    `pairs` (*batch, l, 2) are the new answers, as indices into the n old points and the k new ones.
    """
    K = bordered(known.K, K_side, K_corner)
    C = comparisons.incidence(torch.cat([known.C.pairs, pairs], -2), K.shape[-1])
    scale, m = model.likelihood.scale, known.A.shape[-1]
    new_rows = comparisons.rows(comparisons.incidence(pairs, K.shape[-1]), K)
    A_rows = comparisons.rows(C, new_rows.mT).mT / scale**2
    A_side, A_corner = A_rows[..., :m], A_rows[..., m:]
    A = bordered(known.A, A_side, A_corner)
    z = torch.cat([known.dual.z, _apply(A_side, known.dual.alpha)], -1)
    sites = likelihood.sites(z, model.likelihood.margin)
    root = sites.omega.sqrt()
    B_corner = torch.eye(A_corner.shape[-1], dtype=A.dtype, device=A.device) + _scaled(A_corner, root[..., m:])
    L = bordered_factor(known.L, root[..., m:, None] * A_side * root[..., None, :m], B_corner)
    start = _apply(A, laplace.newton_target(A, z, sites, L))
    return _finish(model, K, C, A, laplace.solve(A, model.likelihood.margin, start))


def bordered(M: Tensor, side: Tensor, corner: Tensor) -> Tensor:
    """The symmetric matrix [[M, sideᵀ], [side, corner]]."""
    return torch.cat([torch.cat([M, side.mT], -1), torch.cat([side, corner], -1)], -2)


def bordered_factor(L: Tensor, side: Tensor, corner: Tensor) -> Tensor:
    """The Cholesky factor of [[L Lᵀ, sideᵀ], [side, corner]], without factorizing L Lᵀ again."""
    low = torch.linalg.solve_triangular(L, side.mT, upper=False).mT
    last = torch.linalg.cholesky_ex(corner - low @ low.mT)[0]
    return torch.cat([torch.nn.functional.pad(L, (0, corner.shape[-1])), torch.cat([low, last], -1)], -2)


def _finish(
    model: Model, K: Tensor, C: Incidence, A: Tensor, dual: DualFit, ties: PerComparisonMask | None = None
) -> Conditioned:
    margin, scale = model.likelihood.margin, model.likelihood.scale
    omega = likelihood.curvature(dual.z, margin, ties).omega
    L = laplace.factor(A, omega.sqrt())
    weights, L_weights = omega, L
    if model.curvature == "averaged":
        weights = laplace.averaged_omega(A, dual.z, margin, ties)
        L_weights = laplace.factor(A, weights.sqrt())
    half = torch.linalg.solve_triangular(L_weights, torch.diag_embed(weights.sqrt()), upper=False)
    root = comparisons.transpose_rows(C, half.mT) / scale
    return Conditioned(K, C, A, dual, L, comparisons.transpose(C, dual.alpha) / scale, root)


def _scaled(M: Tensor, root: Tensor) -> Tensor:
    return root.unsqueeze(-1) * M * root.unsqueeze(-2)


def _apply(M: Tensor, v: Tensor) -> Tensor:
    return (M @ v.unsqueeze(-1)).squeeze(-1)
