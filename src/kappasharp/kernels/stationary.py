"""The prior covariance: RBF and Matérn-5/2 with one length scale per dimension, and sums of them.

Notation
    X      (*batch, n, d)  points in the unit cube
    theta  (*batch, d+1)   log ℓ₁ … log ℓ_d, log s; of a sum all length scales, then the output scale of each part
    K      (*batch, n, n)  s · k(X, X) + s · nugget · I; the nugget is part of the model (docs/departures.md)
    slope  like K          S with ∂K/∂log ℓ_j = S ∘ Δ_j²/ℓ_j² and ∂k(x, x′)/∂x = −S (x − x′)/ℓ²
"""

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate, pairwise, starmap
from typing import NamedTuple

import torch

from kappasharp.settings import Family
from kappasharp.tensors import AnyFloat, Lengthscales, Parameters, PerRun, PointMatrix, Points


class Sum(NamedTuple):
    """A sum of kernels of one shape, each over coordinates of its own, with an output scale of its own."""

    family: Family
    sizes: tuple[int, ...]


Covariance = Family | Sum


class Profile(NamedTuple):
    """k as a function of the scaled distance, and the slope S of the module's notation."""

    value: AnyFloat
    slope: AnyFloat


def profile(family: Family, h: AnyFloat) -> Profile:
    """The kernel's value and slope at h = −½ r², r the distance in units of the length scales."""
    if family == "rbf":
        value = h.exp()
        return Profile(value, value)
    scaled, decay = _decaying(h)
    linear = 1.0 + scaled
    return Profile((linear + scaled.square() / 3.0) * decay, (5.0 / 3.0) * linear * decay)


def value(family: Family, h: AnyFloat) -> AnyFloat:
    """The first of both alone."""
    if family == "rbf":
        return h.exp()
    scaled, decay = _decaying(h)
    return (1.0 + scaled + scaled.square() / 3.0) * decay


def _decaying(h: AnyFloat) -> tuple[AnyFloat, AnyFloat]:
    """√5 r and exp(−√5 r), for Matérn-5/2."""
    # The floor keeps the root differentiable at distance 0, at the cost of 1e-15 in the distance.
    scaled = (-10.0 * h).clamp(min=1e-30).sqrt_()
    return scaled, (-scaled).exp_()


def half_distances(X: AnyFloat, Y: AnyFloat) -> AnyFloat:
    """−½ ‖x_i − y_j‖² for points already divided by their length scales; never positive."""
    x = X.square().sum(-1).mul_(-0.5)
    y = x if Y is X else Y.square().sum(-1).mul_(-0.5)
    return (X @ Y.mT).add_(x.unsqueeze(-1)).add_(y.unsqueeze(-2)).clamp_(max=0.0)


def split(theta: Parameters) -> tuple[Lengthscales, PerRun]:
    """Length scales and output scale from the logarithmic parameters."""
    values = theta.exp()
    return values[..., :-1], values[..., -1]


class KernelPart(NamedTuple):
    """One kernel of a sum, or the only one: over which coordinates, its length scales (…, size), its output scale."""

    family: Family
    at: slice
    lengthscale: Lengthscales
    outputscale: PerRun


def parts(family: Covariance, theta: Parameters) -> Iterator[KernelPart]:
    """The kernels whose sum this is: one, unless the family is a sum."""
    if not isinstance(family, Sum):
        yield KernelPart(family, slice(None), *split(theta))
        return
    values, ends = theta.exp(), list(accumulate(family.sizes, initial=0))
    for i, at in enumerate(starmap(slice, pairwise(ends))):
        yield KernelPart(family.family, at, values[..., at], values[..., ends[-1] + i])


def n_outputscales(family: Covariance) -> int:
    """How many of the hyperparameters, the last ones, are output scales."""
    return len(family.sizes) if isinstance(family, Sum) else 1


def lengthscales(family: Covariance, theta: Parameters) -> Lengthscales:
    """The length scales of all coordinates."""
    return theta[..., : -n_outputscales(family)].exp()


def variance(family: Covariance, theta: Parameters) -> PerRun:
    """The prior variance of a utility: the sum of the output scales."""
    return theta[..., -n_outputscales(family) :].exp().sum(-1)


def between(family: Covariance, X: AnyFloat, Y: AnyFloat, theta: Parameters) -> AnyFloat:
    """The prior covariance of the utilities at the rows of X with those at Y, without nugget."""
    found = []
    for part in parts(family, theta):
        scale = part.lengthscale.unsqueeze(-2)
        left = (X[..., part.at] - 0.5) / scale
        right = left if Y is X else (Y[..., part.at] - 0.5) / scale
        h, scale = half_distances(left, right), part.outputscale[..., None, None]
        if torch.is_grad_enabled() and (h.requires_grad or scale.requires_grad):
            found.append(value(part.family, h) * scale)
        else:
            # Of thousands of points a new matrix costs more than what is done with it.
            found.append((h.exp_() if part.family == "rbf" else value(part.family, h)).mul_(scale))
    return reduce(torch.add, found)


def apart(family: Covariance, X: AnyFloat, Y: AnyFloat, theta: Parameters) -> AnyFloat:
    """The prior variance of f(x) − f(y) row by row."""
    found = []
    for part in parts(family, theta):
        h = -0.5 * ((X - Y)[..., part.at] / part.lengthscale.unsqueeze(-2)).square().sum(-1)
        found.append(2.0 * part.outputscale.unsqueeze(-1) * (1.0 - value(part.family, h)))
    return reduce(torch.add, found)


def covariance(family: Covariance, X: Points, theta: Parameters, nugget: float) -> PointMatrix:
    """K, the prior covariance of the utilities at X, nugget included."""
    K = between(family, X, X, theta)
    # Exactly s(1 + nugget): the distance of a point to itself must not carry rounding.
    own = variance(family, theta) * (1.0 + nugget)
    K.diagonal(dim1=-2, dim2=-1).copy_(own.unsqueeze(-1).expand(K.shape[:-1]))
    return K
