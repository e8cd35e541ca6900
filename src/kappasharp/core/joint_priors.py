"""What is believed of the hyperparameters of a sum of two kernels, and of several people, before any answer.

Notation
    theta  (*batch, D+2)    of a sum: log length scales of both kernels, then log s₁ and log s₂
           (*batch, P+1+V)  of V people: one person's P hyperparameters, logit ρ, then log c of each (people.py)
"""

import math
from functools import reduce
from typing import NamedTuple

import torch

from kappasharp.core.kernel import Priors
from kappasharp.kernels.evidence import PriorTerms
from kappasharp.shapes import AnyFloat, Parameters, PerRun

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
