"""Priors of the hyperparameters by name, for one kernel, for a sum of two and for several voters.

Each has a log density with its slope, the box of the search and the places where it starts. Names never change: they
stand in stored studies and results.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import torch

from kappasharp.native.evidence import PriorTerms
from kappasharp.tensors import AnyFloat, Parameters, PerRun


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


# A name stands in `settings.PRIOR_NAMES` too, where settings are checked without torch.
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


# What is believed of the hyperparameters of a sum of two kernels, and of several people, before any answer.
#
# Notation
#     theta  (*batch, D+2)    of a sum: log length scales of both kernels, then log s₁ and log s₂
#            (*batch, P+1+V)  of V people: one person's P hyperparameters, logit ρ, then log c of each (voters.py)

# What is believed of people, mean and deviation: of logit ρ, and of every log c. How far from 0 both may go; and where
# else a search for logit ρ begins.
SHARED, CONSISTENCY = (1.5, 1.5), (0.0, 0.7)
WIDEST, APART = 6.0, -2.0


class JointPriors(NamedTuple):
    """What is believed of the hyperparameters of a sum of two kernels.

    The length scales of each, and the two output scales together, are what `whole` believes of one kernel's; how much
    larger the second scale is than the first, as a logarithm, is normal. So where one of them is nothing the prior is
    that of the other alone.
    """

    whole: Priors
    sizes: tuple[int, int]
    # Mean and deviation of log s₂ − log s₁.
    ratio: tuple[float, float]

    def in_units_of(self, noise: float) -> "JointPriors":
        """The same in other units of utility."""
        return self._replace(whole=self.whole.in_units_of(noise))

    def _lengths(self, theta: Parameters) -> list[tuple[AnyFloat, int]]:
        """The length scales of each kernel, and how many they are."""
        return list(zip(theta[..., :-2].split(self.sizes, -1), self.sizes, strict=True))

    def bounds(self, like: Parameters) -> tuple[Parameters, Parameters]:
        """Lower and upper ends of theta."""
        ends = zip(self.whole.lengthscale_bounds, self.whole.outputscale, strict=True)
        low, high = (
            like.new_tensor([length] * sum(self.sizes) + [scale] * 2).log().expand_as(like) for length, scale in ends
        )
        return low, high

    def start(self, dimension: int) -> torch.Tensor:
        """Where a cold fit starts: at the ratio that is believed."""
        return self._at(dimension, self.ratio[0])

    def starts(self, dimension: int) -> list[torch.Tensor]:
        """Where cold fits start: there, and where the first kernel has nearly all."""
        return [self.start(dimension), self._at(dimension, self.ratio[0] - 2.0 * self.ratio[1])]

    def _at(self, dimension: int, ratio: float) -> torch.Tensor:
        assert dimension == sum(self.sizes)
        whole = self.whole.start(1)[-1]
        lengths = [math.log(self.whole.lengthscale.mode(size)) for size in self.sizes for _ in range(size)]
        first = -math.log1p(math.exp(ratio))
        return torch.cat([whole.new_tensor(lengths), torch.stack([whole + first, whole + first + ratio])])

    def log_density(self, theta: Parameters) -> PerRun:
        """Log prior density at theta, constants left out."""
        lengths = [self.whole.lengthscale.log_density(own, size).sum(-1) for own, size in self._lengths(theta)]
        total, ratio = self._scales(theta)
        found = reduce(torch.add, lengths) - 0.5 * ((ratio - self.ratio[0]) / self.ratio[1]).square()
        if math.isinf(self.whole.outputscale_spread):
            return found
        return found - total - 0.5 * self._standard(total).square()

    def slope(self, theta: Parameters) -> Parameters:
        """Gradient of the log prior density in theta."""
        lengths = [self.whole.lengthscale.slope(own, size) for own, size in self._lengths(theta)]
        total, ratio = self._scales(theta)
        pull = -(ratio - self.ratio[0]) / self.ratio[1] ** 2
        scales = torch.stack([-pull, pull], -1)
        if not math.isinf(self.whole.outputscale_spread):
            push = -1.0 - self._standard(total) / self.whole.outputscale_spread
            scales = scales + theta[..., -2:].softmax(-1) * push.unsqueeze(-1)
        return torch.cat([*lengths, scales], -1)

    def terms(self, dimension: int) -> PriorTerms:
        """The same for a compiled search."""
        assert dimension == sum(self.sizes)
        first, second = (self.whole.terms(size) for size in self.sizes)
        # Of one kind of prior only the centre and the common part depend on how many length scales there are.
        assert first[:3] == second[:3]
        return first._replace(
            second_centre=second.centre,
            second_joint=second.joint,
            ratio_quadratic=-0.5 / self.ratio[1] ** 2,
            ratio_centre=self.ratio[0],
        )

    def _scales(self, theta: Parameters) -> tuple[PerRun, PerRun]:
        """The logarithms of both output scales together, and of their ratio."""
        return theta[..., -2:].logsumexp(-1), theta[..., -1] - theta[..., -2]

    def _standard(self, total: PerRun) -> PerRun:
        return (total - math.log(self.whole.outputscale_median)) / self.whole.outputscale_spread


class PeoplePriors(NamedTuple):
    """One person's priors, and what is believed of people: how much they share, how consistent each one is.

    The consistencies' logarithms are normal about the same value: who has given few answers is like the others.
    """

    alone: Priors | JointPriors
    people: int
    # Mean and deviation of logit ρ, and of every log c.
    shared: tuple[float, float] = SHARED
    consistency: tuple[float, float] = CONSISTENCY

    def split(self, theta: Parameters) -> tuple[AnyFloat, AnyFloat]:
        """One person's hyperparameters, and the others."""
        return theta[..., : -1 - self.people], theta[..., -1 - self.people :]

    def bounds(self, like: Parameters) -> tuple[Parameters, Parameters]:
        """Lower and upper ends of theta."""
        own, rest = self.split(like)
        low, high = self.alone.bounds(own)
        return torch.cat([low, torch.full_like(rest, -WIDEST)], -1), torch.cat(
            [high, torch.full_like(rest, WIDEST)], -1
        )

    def start(self, dimension: int) -> torch.Tensor:
        """Where a cold fit starts."""
        return self.starts(dimension)[0]

    def starts(self, dimension: int) -> list[torch.Tensor]:
        """Where cold fits start: at what is believed, and where people have little in common."""
        found = []
        for alone in [self.alone.start(dimension)] if isinstance(self.alone, Priors) else self.alone.starts(dimension):
            for logit in (self.shared[0], APART):
                people = alone.new_tensor([logit] + [self.consistency[0]] * self.people)
                found.append(torch.cat([alone, people]))
        return found

    def log_density(self, theta: Parameters) -> PerRun:
        """Log prior density at theta, constants left out."""
        own, rest = self.split(theta)
        return self.alone.log_density(own) - 0.5 * self._standard(rest).square().sum(-1)

    def slope(self, theta: Parameters) -> Parameters:
        """Gradient of the log prior density in theta."""
        own, rest = self.split(theta)
        _, spread = self._believed(rest)
        return torch.cat([self.alone.slope(own), -self._standard(rest) / spread], -1)

    def terms(self, dimension: int) -> PriorTerms:
        """The same for a compiled search."""
        return self.alone.terms(dimension)._replace(
            shared_quadratic=-0.5 / self.shared[1] ** 2,
            shared_centre=self.shared[0],
            consistency_quadratic=-0.5 / self.consistency[1] ** 2,
            consistency_centre=self.consistency[0],
        )

    def _standard(self, rest: AnyFloat) -> AnyFloat:
        mean, spread = self._believed(rest)
        return (rest - mean) / spread

    def _believed(self, like: AnyFloat) -> tuple[AnyFloat, AnyFloat]:
        """Mean and deviation of logit ρ and of every log c."""
        both = zip(self.shared, self.consistency, strict=True)
        mean, spread = (like.new_tensor([first] + [other] * self.people) for first, other in both)
        return mean, spread
