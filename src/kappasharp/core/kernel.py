"""The prior covariance K: RBF and Matérn-5/2 with one length scale per dimension, a named nugget, priors; and sums.

Notation
    X      (*batch, n, d)  points in the unit cube
    theta  (*batch, d+1)   log ℓ₁ … log ℓ_d, log s: the hyperparameters as the fit moves them; of a sum all length
                           scales, then the output scale of each part
    K      (*batch, n, n)  s · k(X, X) + s · nugget · I
    slope  like K          S with ∂K/∂log ℓ_j = S ∘ Δ_j²/ℓ_j² and ∂k(x, x′)/∂x = −S (x − x′)/ℓ²

The nugget is part of the model: η* depends on it (docs/departures.md). It is relative to the output scale s,
stands on the diagonal of the training covariance only, and is recorded with every result.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, pairwise, starmap
from typing import NamedTuple

import torch

from kappasharp.core.choices import Family
from kappasharp.kernels.evidence import PriorTerms
from kappasharp.shapes import AnyFloat, Lengthscales, Parameters, PerRun, PointMatrix, Points


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


@dataclass(frozen=True)
class Gamma:
    """Gamma prior of a length scale."""

    concentration: float
    rate: float

    def log_density(self, log_x: AnyFloat, dimension: int) -> AnyFloat:
        """Log density at exp(log_x), its constant left out."""
        del dimension
        return (self.concentration - 1.0) * log_x - self.rate * log_x.exp()

    def slope(self, log_x: AnyFloat, dimension: int) -> AnyFloat:
        """Derivative of the log density in log_x."""
        del dimension
        return (self.concentration - 1.0) - self.rate * log_x.exp()

    def mode(self, dimension: int) -> float:
        """Where the density is highest; the fit starts there."""
        del dimension
        return (self.concentration - 1.0) / self.rate

    def terms(self, dimension: int) -> PriorTerms:
        """The same for a kernel."""
        del dimension
        return PriorTerms(linear=self.concentration - 1.0, exponential=-self.rate)


@dataclass(frozen=True)
class DimensionScaledLogNormal:
    """LogNormal(√2 + ½ log d, √3) prior of a length scale (Hvarfner et al. 2024)."""

    location: float = math.sqrt(2.0)
    scale: float = math.sqrt(3.0)

    def _centre(self, dimension: int) -> float:
        return self.location + 0.5 * math.log(dimension)

    def log_density(self, log_x: AnyFloat, dimension: int) -> AnyFloat:
        """Log density at exp(log_x), its constant left out."""
        standard = (log_x - self._centre(dimension)) / self.scale
        return -log_x - 0.5 * standard.square()

    def slope(self, log_x: AnyFloat, dimension: int) -> AnyFloat:
        """Derivative of the log density in log_x."""
        return -1.0 - (log_x - self._centre(dimension)) / self.scale**2

    def mode(self, dimension: int) -> float:
        """Where the density is highest; the fit starts there."""
        return math.exp(self._centre(dimension) - self.scale**2)

    def terms(self, dimension: int) -> PriorTerms:
        """The same for a kernel."""
        return PriorTerms(linear=-1.0, quadratic=-0.5 / self.scale**2, centre=self._centre(dimension))


@dataclass(frozen=True)
class SharedLogNormal:
    """Length scales that have most in common: log ℓ_j = c + δ_j, c normal about a median once, δ_j normal each.

    With c integrated out log ℓ is normal with the covariance spread² 11ᵀ + deviation² I, whose inverse is known: what
    is believed of the level counts once, however many dimensions there are.
    """

    median: float
    spread: float
    deviation: float

    def _joint_weight(self, dimension: int) -> float:
        """What the sum of all t_j − log median, squared, is weighted with."""
        own, all_of_them = self.deviation**2, self.deviation**2 + dimension * self.spread**2
        return 0.5 * (1.0 / own - 1.0 / all_of_them) / dimension

    def log_density(self, log_x: AnyFloat, dimension: int) -> AnyFloat:
        """Log density of all log ℓ, its constant left out, in equal shares of the dimensions."""
        shift = log_x - math.log(self.median)
        shared = self._joint_weight(dimension) / dimension * shift.sum(-1, keepdim=True).square()
        return shared - 0.5 * (shift / self.deviation).square()

    def slope(self, log_x: AnyFloat, dimension: int) -> AnyFloat:
        """Derivative of the log density in log_x."""
        shift = log_x - math.log(self.median)
        return 2.0 * self._joint_weight(dimension) * shift.sum(-1, keepdim=True) - shift / self.deviation**2

    def mode(self, dimension: int) -> float:
        """Where the density is highest; the fit starts there."""
        del dimension
        return self.median

    def terms(self, dimension: int) -> PriorTerms:
        """The same for a kernel."""
        quadratic, centre = -0.5 / self.deviation**2, math.log(self.median)
        return PriorTerms(quadratic=quadratic, centre=centre, joint=self._joint_weight(dimension))


LengthscalePrior = Gamma | DimensionScaledLogNormal | SharedLogNormal


@dataclass(frozen=True)
class Priors:
    """What is believed of the hyperparameters before any answer.

    The output scale is uniform in a box, or log-normal in it.
    (BoTorch's SmoothedBoxPrior with σ = 0.01 differs by a wall of that width:
    Departure 2.)
    """

    lengthscale: LengthscalePrior
    outputscale: tuple[float, float]
    lengthscale_bounds: tuple[float, float] = (1e-4, 1e3)
    # Median and log-deviation of a log-normal output scale inside its box; without them it is uniform there.
    outputscale_median: float = 1.0
    outputscale_spread: float = math.inf

    def in_units_of(self, noise: float) -> "Priors":
        """The same in other units of utility: a log-normal output scale is one of noise², a box is as it is given."""
        if math.isinf(self.outputscale_spread) or noise == 1.0:
            return self
        low, high = (end * noise**2 for end in self.outputscale)
        return replace(self, outputscale=(low, high), outputscale_median=self.outputscale_median * noise**2)

    def bounds(self, like: Parameters) -> tuple[Parameters, Parameters]:
        """Lower and upper ends of theta."""
        d = like.shape[-1] - 1
        ends = [[bound] * d + [box] for bound, box in zip(self.lengthscale_bounds, self.outputscale, strict=True)]
        low, high = (like.new_tensor(end).log().expand_as(like) for end in ends)
        return low, high

    def start(self, dimension: int) -> torch.Tensor:
        """Where a cold fit starts: the length scales' mode, and the output scale's median, by default 1, in its box."""
        low, high = self.outputscale
        values = [self.lengthscale.mode(dimension)] * dimension + [min(max(self.outputscale_median, low), high)]
        return torch.tensor(values, dtype=torch.float64).log()

    def starts(self, dimension: int) -> list[torch.Tensor]:
        """Where cold fits start: at the prior's mode, and at half its length scales, which finds what that may miss."""
        start = self.start(dimension)
        return [start, torch.cat([start[:-1] - math.log(2.0), start[-1:]])]

    def log_density(self, theta: Parameters) -> PerRun:
        """Log prior density at theta, constants left out."""
        log_density = self.lengthscale.log_density(theta[..., :-1], theta.shape[-1] - 1).sum(-1)
        if math.isinf(self.outputscale_spread):
            return log_density
        return log_density - theta[..., -1] - 0.5 * self._standard(theta).square()

    def slope(self, theta: Parameters) -> Parameters:
        """Gradient of the log prior density in theta."""
        slope = self.lengthscale.slope(theta[..., :-1], theta.shape[-1] - 1)
        if math.isinf(self.outputscale_spread):
            return torch.nn.functional.pad(slope, (0, 1))
        last = -1.0 - self._standard(theta) / self.outputscale_spread
        return torch.cat([slope, last.unsqueeze(-1)], -1)

    def terms(self, dimension: int) -> PriorTerms:
        """The same for a kernel."""
        terms = self.lengthscale.terms(dimension)
        if math.isinf(self.outputscale_spread):
            return terms
        quadratic, centre = -0.5 / self.outputscale_spread**2, math.log(self.outputscale_median)
        return terms._replace(scale_linear=-1.0, scale_quadratic=quadratic, scale_centre=centre)

    def _standard(self, theta: Parameters) -> PerRun:
        return (theta[..., -1] - math.log(self.outputscale_median)) / self.outputscale_spread


def _log_normal(lengthscale: LengthscalePrior, median: float, spread: float = 1.0) -> Priors:
    """Priors with a log-normal output scale, in a box so wide that its ends do not matter."""
    return Priors(lengthscale, (1e-2, 1e4), outputscale_median=median, outputscale_spread=spread)


# A name stands in `choices.PRIOR_NAMES` too, where settings are checked without torch.
PRIORS = {
    "botorch_0_6": Priors(Gamma(1.2, 0.5), (1.0, 4.0)),
    "botorch_0_18": Priors(Gamma(2.4, 2.7), (1e-2, 1e2)),
    # Those of 0.6 for inputs that are not scaled: a length scale of the cube is one of the box by the box's width.
    "botorch_0_6_width_2": Priors(Gamma(1.2, 0.5 * 2.0), (1.0, 4.0)),
    "botorch_0_6_width_20": Priors(Gamma(1.2, 0.5 * 20.0), (1.0, 4.0)),
    "dimension_scaled": Priors(DimensionScaledLogNormal(), (1e-2, 1e2)),
    # Candidates of docs/results/what-wins.md: a smaller or softer box for the output scale, other length scales.
    "outputscale_to_4": Priors(Gamma(2.4, 2.7), (1e-2, 4.0)),
    "outputscale_to_10": Priors(Gamma(2.4, 2.7), (1e-2, 10.0)),
    "outputscale_to_1000": Priors(Gamma(2.4, 2.7), (1e-2, 1e3)),
    "outputscale_near_10": Priors(Gamma(2.4, 2.7), (1e-2, 1e3), outputscale_median=10.0, outputscale_spread=1.0),
    "short_lengthscale": Priors(Gamma(3.0, 6.0), (1e-2, 1e2)),
    "firm_lengthscale": Priors(Gamma(6.0, 6.0), (1e-2, 1e2)),
    "long_lengthscale": Priors(Gamma(3.0, 1.5), (1e-2, 1e2)),
    # Candidates of docs/results/from-zero.md: other log-normal output scales, and length scales with most in common.
    "outputscale_near_3": _log_normal(Gamma(2.4, 2.7), 3.0),
    "outputscale_near_30": _log_normal(Gamma(2.4, 2.7), 30.0),
    "outputscale_near_100": _log_normal(Gamma(2.4, 2.7), 100.0),
    "outputscale_about_10": _log_normal(Gamma(2.4, 2.7), 10.0, 1.5),
    "outputscale_firm_30": _log_normal(Gamma(2.4, 2.7), 30.0, 0.5),
    "outputscale_firmer_30": _log_normal(Gamma(2.4, 2.7), 30.0, 0.25),
    "outputscale_firm_20": _log_normal(Gamma(2.4, 2.7), 20.0, 0.5),
    "outputscale_firm_50": _log_normal(Gamma(2.4, 2.7), 50.0, 0.5),
    "firmer_firm_30": _log_normal(Gamma(4.0, 5.0), 30.0, 0.5),
    "fairly_firm_30": _log_normal(Gamma(3.0, 3.6), 30.0, 0.5),
    "short_near_30": _log_normal(Gamma(3.0, 6.0), 30.0),
    "shorter_near_30": _log_normal(Gamma(2.4, 3.6), 30.0),
    "firm_near_30": _log_normal(Gamma(6.0, 6.0), 30.0),
    "firmer_near_30": _log_normal(Gamma(4.0, 5.0), 30.0),
    "firm_short_near_30": _log_normal(Gamma(6.0, 10.0), 30.0),
    "shared_0_5_firm_near_30": _log_normal(SharedLogNormal(0.5, 0.5, 0.5), 30.0),
    "shared_0_3": _log_normal(SharedLogNormal(0.3, 1.0, 0.5), 10.0),
    "shared_0_5": _log_normal(SharedLogNormal(0.5, 1.0, 0.5), 10.0),
    "shared_0_8": _log_normal(SharedLogNormal(0.8, 1.0, 0.5), 10.0),
    "shared_0_5_firm": _log_normal(SharedLogNormal(0.5, 0.5, 0.5), 10.0),
    "shared_0_5_alike": _log_normal(SharedLogNormal(0.5, 1.0, 0.25), 10.0),
    "shared_0_5_apart": _log_normal(SharedLogNormal(0.5, 1.0, 0.8), 10.0),
}
