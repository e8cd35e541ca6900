"""Mean and covariance of the utility at new points, and of contrasts f(x) − f(x′), from one factorization.

Notation
    X     (*batch, n, d)  training points
    beta  (*batch, n)     K⁻¹ f̂: the mean at x is k(x, X) β
    root  (*batch, n, p)  the covariance at x, x′ is k(x, x′) − k(x, X) root rootᵀ k(X, x′)
"""

from typing import NamedTuple

import torch

from kappasharp.core import comparisons, kernel, laplace
from kappasharp.core.comparisons import Incidence
from kappasharp.core.kernel import Family
from kappasharp.shapes import (
    AnyFloat,
    Parameters,
    PerComparison,
    PointMatrix,
    Points,
    Utilities,
)


class Posterior(NamedTuple):
    """The Laplace posterior, ready to predict."""

    family: Family
    X: Points
    theta: Parameters
    beta: Utilities
    root: Points


class Contrast(NamedTuple):
    """Mean and variance of f(x) − f(x′)."""

    mean: AnyFloat
    variance: AnyFloat


def information_root(K: PointMatrix, C: Incidence, weights: PerComparison, r: Utilities | None = None) -> Points:
    """A root of K⁻¹ − K⁻¹ Σ K⁻¹ with Σ⁻¹ = K⁻¹ + CᵀWC (+ R where r is given), without K⁻¹.

    With R the sites are the m comparisons and n unit vectors of weight r; a Schur complement splits them.
    """
    root = weights.sqrt()
    if r is None:
        L = laplace.factor(comparisons.congruence(C, K), root)
        return comparisons.transpose_rows(C, _scaled_inverse(L, root).mT)
    K_r, _ = laplace.shrink(K, r)
    L = laplace.factor(comparisons.congruence(C, K_r), root)
    answers = comparisons.transpose_rows(C, _scaled_inverse(L, root).mT)
    root_r = r.sqrt()
    half = _scaled_inverse(laplace.factor(K, root_r), root_r)
    # (I − Q_R K) answers, with Q_R = halfᵀ half.
    answers = answers - half.mT @ (half @ (K @ answers))
    return torch.cat([answers, half.mT], -1)


def _scaled_inverse(L: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """L⁻¹ diag(weight)."""
    return torch.linalg.solve_triangular(L, torch.diag_embed(weight), upper=False)


def cross(posterior: Posterior, X: Points) -> AnyFloat:
    """k(X, training points) without nugget."""
    lengthscale, outputscale = kernel.split(posterior.theta)
    scale = lengthscale.unsqueeze(-2)
    h = kernel.half_distances((X - 0.5) / scale, (posterior.X - 0.5) / scale)
    return kernel.profile(posterior.family, h).value * outputscale[..., None, None]


def between(posterior: Posterior, X: AnyFloat, Y: AnyFloat) -> AnyFloat:
    """Posterior covariance of f at the rows of X with f at those of Y, (*batch, k, l)."""
    lengthscale, outputscale = kernel.split(posterior.theta)
    scale = lengthscale.unsqueeze(-2)
    prior = kernel.profile(posterior.family, kernel.half_distances((X - 0.5) / scale, (Y - 0.5) / scale)).value
    known_X, known_Y = (cross(posterior, points) @ posterior.root for points in (X, Y))
    return prior * outputscale[..., None, None] - known_X @ known_Y.mT


def mean(posterior: Posterior, X: Points) -> AnyFloat:
    """Posterior mean at X, (*batch, k)."""
    return (cross(posterior, X) @ posterior.beta.unsqueeze(-1)).squeeze(-1)


def joint(posterior: Posterior, X: Points) -> tuple[AnyFloat, AnyFloat]:
    """Posterior mean (*batch, k) and covariance (*batch, k, k) at X, which may have further dimensions in front."""
    k = cross(posterior, X)
    known = k @ posterior.root
    batch = k.shape[:-2]
    many, theta = X.expand(*batch, *X.shape[-2:]), posterior.theta.expand(*batch, posterior.theta.shape[-1])
    prior = kernel.covariance(posterior.family, many, theta, 0.0)
    return (k @ posterior.beta.unsqueeze(-1)).squeeze(-1), prior - known @ known.mT


def contrast(posterior: Posterior, X: Points, Y: Points) -> Contrast:
    """Mean and variance of f(x) − f(y) row by row; what comparisons inform, so free of the common shift."""
    lengthscale, outputscale = kernel.split(posterior.theta)
    k = cross(posterior, X) - cross(posterior, Y)
    known = k @ posterior.root
    h = -0.5 * ((X - Y) / lengthscale.unsqueeze(-2)).square().sum(-1)
    prior = 2.0 * outputscale.unsqueeze(-1) * (1.0 - kernel.profile(posterior.family, h).value)
    variance = prior - known.square().sum(-1)
    # Rounding alone can make a variance negative, by a few units in the last place of the prior's.
    return Contrast((k @ posterior.beta.unsqueeze(-1)).squeeze(-1), variance.clamp(min=0.0))
