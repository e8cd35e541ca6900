"""Mean and covariance of the utility at new points, and of contrasts f(x) − f(x′), from one factorization.

Notation
    X     (*batch, n, d)  training points: designs
    beta  (*batch, n)     K⁻¹ f̂: the mean at x is k(x, X) β
    root  (*batch, n, p)  the covariance at x, x′ is k(x, x′) − k(x, X) root rootᵀ k(X, x′)

Where taste is learnt on outcomes, every design is lifted to its features here, so that all callers speak of designs.
"""

from typing import NamedTuple

import torch

from kappasharp.inference import features
from kappasharp.inference.features import Lift
from kappasharp.kernels import stationary
from kappasharp.kernels.stationary import Covariance
from kappasharp.tensors import AnyFloat, Parameters, PerRun, Points, Utilities, apply

# Of how many designs the utility is predicted at a time.
BLOCK = 1024


class Posterior(NamedTuple):
    """The Laplace posterior, ready to predict."""

    family: Covariance
    X: Points
    theta: Parameters
    beta: Utilities
    root: Points
    lift: Lift | None = None
    # The features of X, which may be followed by those of no design.
    lifted: Points | None = None

    @property
    def features(self) -> Points:
        """What the training points are to the kernel."""
        return self.X if self.lifted is None else self.lifted


class Contrast(NamedTuple):
    """Mean and variance of f(x) − f(x′)."""

    mean: AnyFloat
    variance: AnyFloat


def cross(posterior: Posterior, X: Points) -> AnyFloat:
    """k(X, training points) without nugget."""
    return _near(posterior, features.lifted(posterior.lift, X))


def _near(posterior: Posterior, F: AnyFloat) -> AnyFloat:
    """The same of features."""
    return stationary.between(posterior.family, F, posterior.features, posterior.theta)


def _both(posterior: Posterior, X: AnyFloat, Y: AnyFloat) -> tuple[AnyFloat, AnyFloat]:
    """The features of both; outcomes are asked for once."""
    if posterior.lift is None or X.shape[:-2] != Y.shape[:-2]:
        return features.lifted(posterior.lift, X), features.lifted(posterior.lift, Y)
    F, G = features.lifted(posterior.lift, torch.cat([X, Y], -2)).split([X.shape[-2], Y.shape[-2]], -2)
    return F, G


def variance(posterior: Posterior) -> PerRun:
    """The prior variance of a utility (*batch,): the unit of every variance here."""
    return stationary.variance(posterior.family, posterior.theta)


def prior(posterior: Posterior, X: AnyFloat, Y: AnyFloat) -> AnyFloat:
    """Prior covariance of f at the rows of X with f at those of Y."""
    F, G = _both(posterior, X, Y)
    return stationary.between(posterior.family, F, G, posterior.theta)


def between(posterior: Posterior, X: AnyFloat, Y: AnyFloat) -> AnyFloat:
    """Posterior covariance of f at the rows of X with f at those of Y, (*batch, k, l)."""
    F, G = _both(posterior, X, Y)
    known_X, known_Y = (_near(posterior, points) @ posterior.root for points in (F, G))
    return stationary.between(posterior.family, F, G, posterior.theta) - known_X @ known_Y.mT


def mean(posterior: Posterior, X: Points) -> AnyFloat:
    """Posterior mean at X, (*batch, k)."""
    return apply(cross(posterior, X), posterior.beta)


def own_mean(posterior: Posterior) -> AnyFloat:
    """Posterior mean at the posterior's own designs, (*batch, n); in blocks, because thousands make a large matrix."""
    own = posterior.features[..., : posterior.X.shape[-2], :]
    return torch.cat([apply(_near(posterior, part), posterior.beta) for part in own.split(BLOCK, -2)], -1)


def marginal(posterior: Posterior, X: Points) -> tuple[AnyFloat, AnyFloat]:
    """Posterior mean and variance at each row of X, (*batch, k) both, without the covariance of one with another."""
    k = cross(posterior, X)
    left = variance(posterior).unsqueeze(-1) - (k @ posterior.root).square().sum(-1)
    # As for a contrast: what is below zero is rounding.
    return apply(k, posterior.beta), left.clamp(min=0.0)


def joint(posterior: Posterior, X: Points) -> tuple[AnyFloat, AnyFloat]:
    """Posterior mean (*batch, k) and covariance (*batch, k, k) at X, which may have further dimensions in front."""
    F = features.lifted(posterior.lift, X)
    k = _near(posterior, F)
    known = k @ posterior.root
    batch = k.shape[:-2]
    many, theta = F.expand(*batch, *F.shape[-2:]), posterior.theta.expand(*batch, posterior.theta.shape[-1])
    prior = stationary.covariance(posterior.family, many, theta, 0.0)
    return apply(k, posterior.beta), prior - known @ known.mT


def contrast(posterior: Posterior, X: Points, Y: Points) -> Contrast:
    """Mean and variance of f(x) − f(y) row by row; what comparisons inform, so free of the common shift."""
    return contrast_of(posterior, *_both(posterior, X, Y))


def contrast_of(posterior: Posterior, F: AnyFloat, G: AnyFloat) -> Contrast:
    """The same of features."""
    both = _near(posterior, torch.cat([F, G], -2))
    k = both[..., : F.shape[-2], :] - both[..., F.shape[-2] :, :]
    known = k @ posterior.root
    left = stationary.apart(posterior.family, F, G, posterior.theta) - known.square().sum(-1)
    # Rounding alone can make a variance negative, by a few units in the last place of the prior's.
    return Contrast(apply(k, posterior.beta), left.clamp(min=0.0))
