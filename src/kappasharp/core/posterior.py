"""Mean and covariance of the utility at new points, and of contrasts f(x) − f(x′), from one factorization.

Notation
    X     (*batch, n, d)  training points
    beta  (*batch, n)     K⁻¹ f̂: the mean at x is k(x, X) β
    root  (*batch, n, p)  the covariance at x, x′ is k(x, x′) − k(x, X) root rootᵀ k(X, x′)
"""

from typing import NamedTuple

from kappasharp.batches import apply
from kappasharp.core import kernel
from kappasharp.core.kernel import Family
from kappasharp.shapes import (
    AnyFloat,
    Parameters,
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
    return apply(cross(posterior, X), posterior.beta)


def marginal(posterior: Posterior, X: Points) -> tuple[AnyFloat, AnyFloat]:
    """Posterior mean and variance at each row of X, (*batch, k) both, without the covariance of one with another."""
    k = cross(posterior, X)
    variance = posterior.theta[..., -1:].exp() - (k @ posterior.root).square().sum(-1)
    # As for a contrast: what is below zero is rounding.
    return apply(k, posterior.beta), variance.clamp(min=0.0)


def joint(posterior: Posterior, X: Points) -> tuple[AnyFloat, AnyFloat]:
    """Posterior mean (*batch, k) and covariance (*batch, k, k) at X, which may have further dimensions in front."""
    k = cross(posterior, X)
    known = k @ posterior.root
    batch = k.shape[:-2]
    many, theta = X.expand(*batch, *X.shape[-2:]), posterior.theta.expand(*batch, posterior.theta.shape[-1])
    prior = kernel.covariance(posterior.family, many, theta, 0.0)
    return apply(k, posterior.beta), prior - known @ known.mT


def contrast(posterior: Posterior, X: Points, Y: Points) -> Contrast:
    """Mean and variance of f(x) − f(y) row by row; what comparisons inform, so free of the common shift."""
    lengthscale, outputscale = kernel.split(posterior.theta)
    k = cross(posterior, X) - cross(posterior, Y)
    known = k @ posterior.root
    h = -0.5 * ((X - Y) / lengthscale.unsqueeze(-2)).square().sum(-1)
    prior = 2.0 * outputscale.unsqueeze(-1) * (1.0 - kernel.profile(posterior.family, h).value)
    variance = prior - known.square().sum(-1)
    # Rounding alone can make a variance negative, by a few units in the last place of the prior's.
    return Contrast(apply(k, posterior.beta), variance.clamp(min=0.0))
