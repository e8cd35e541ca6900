"""Outcomes that are known by regression only, as features of taste: their mean, draws of them, the chance of limits.

Notation
    X       (…, d)       designs
    omega   (k, F, d)    frequencies of every outcome's kernel: for Matérn-5/2, Student's t with five degrees of freedom
    phi     (k, q, 2F)   cos and sin of ωᵀx, over √F: phi(x)·phi(x′) is about the prior correlation
    r       (k, q, 2F)   phi(x) − phi(X)ᵀ K⁻¹ k(X, x): what the measured designs leave of it
    w       (S, k, 2F)   one vector of weights for each draw and outcome

Expected utility under uncertain outcomes is an average over draws of the outcomes (BOPE, Lin et al. 2022). A draw must
be a function: two looks at one design see the same outcomes, or every design would promise to beat its twin. Here draw
s is the mean plus the deviation times w_sᵀ r/‖r‖. With normal w that is a standard normal number at every x, and two
designs share it as far as their posterior correlation says, up to the few frequencies (Matheron's rule with random
features, Wilson et al. 2020, scaled so that no variance is lost).

Draws come in pairs w, −w, and over the pairs the weights of one outcome are orthogonal: from 16 draws on, their mean
and deviation at every design are exactly the regression's. So are those of two outcomes where draws are enough.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.kernels import stationary
from kappasharp.numerics import normal
from kappasharp.randomness import stream
from kappasharp.regression import gaussian_process
from kappasharp.regression.gaussian_process import Regression
from kappasharp.tensors import AnyFloat, Points

DRAWS, FREQUENCIES = 16, 4
# Matérn-ν has a t distribution of 2ν degrees of freedom for its spectrum.
DEGREES = 5


class Field(NamedTuple):
    """What the draws are made of: frequencies, weights, and rootᵀ phi of the measured designs."""

    omega: AnyFloat
    w: AnyFloat
    known: AnyFloat


@dataclass(frozen=True, eq=False)
class UncertainLift:
    """From designs to outcomes that a regression knows: called, it gives their mean.

    Args:
        regression: Of outcomes that are scaled already, or in their own units if `scaled` is given. Each must have
            been measured, or its features are NaN.
        scaled: From outcomes (…, k) in their own units to features of taste.
        count: How many draws there are, an even number.
    """

    regression: Regression
    scaled: Callable[[Tensor], Tensor] | None = None
    count: int = DRAWS
    # It computes nothing that costs more than a matrix product.
    budget: int = 0

    @property
    def size(self) -> int:
        """How many outcomes there are."""
        return len(self.regression.alpha)

    def __call__(self, X: Tensor) -> Tensor:
        """The features (…, k) of the mean outcomes at designs (…, d)."""
        return self._features(gaussian_process.predict(self.regression, X)[0])

    def sampled(self, X: Tensor) -> Tensor:
        """The features (S, …, k) in every draw: each is a function of the design, smooth and always the same."""
        found = [sample(self.regression, self._field, part) for part in gaussian_process.blocks(self.regression, X)]
        return self._features(torch.cat(found, 1).reshape(self.count, *X.shape[:-1], self.size))

    def _features(self, outcomes: Tensor) -> Tensor:
        return outcomes if self.scaled is None else self.scaled(outcomes)

    @cached_property
    def _field(self) -> Field:
        # It is kept, so it must be good for gradients too.
        with torch.inference_mode(mode=False):
            return field(self.regression, self.count)


def field(fitted: Regression, count: int) -> Field:
    """Frequencies and weights for so many draws; the same for the same regression, always."""
    assert count > 0 and count % 2 == 0, "draws come in pairs"
    generator = stream(0, "uncertain outcomes")
    outcomes, _, d = fitted.X.shape
    lengthscale = stationary.split(fitted.theta[:, :-1])[0].cpu()
    normals = torch.randn(outcomes, FREQUENCIES, d, generator=generator, dtype=torch.float64)
    squares = torch.randn(outcomes, FREQUENCIES, DEGREES, generator=generator, dtype=torch.float64).square().mean(-1)
    omega = (normals / squares.sqrt().unsqueeze(-1) / lengthscale.unsqueeze(-2)).to(fitted.X)
    w = _orthogonal(count // 2, outcomes * 2 * FREQUENCIES, generator).reshape(-1, outcomes, 2 * FREQUENCIES)
    return Field(omega, torch.cat([w, -w]).to(omega), fitted.root.mT @ phi(omega, fitted.X))


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Random columns of length √rows; those of one outcome are orthogonal, and of as many outcomes as rows allow."""
    normals = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    whole = rows - rows % (2 * FREQUENCIES)
    parts = [torch.linalg.qr(part)[0] for part in normals.split(whole or rows, -1)]
    return torch.cat(parts, -1) * math.sqrt(rows)


def phi(omega: AnyFloat, X: AnyFloat) -> AnyFloat:
    """Cos and sin features (k, q, 2F), of length 1, of designs (q, d) or (k, q, d)."""
    phase = X @ omega.mT
    return torch.cat([phase.cos(), phase.sin()], -1) / math.sqrt(omega.shape[-2])


def sample(fitted: Regression, drawn: Field, X: Points) -> AnyFloat:
    """Outcomes (S, q, k) at designs (q, d) in every draw, in the units of the regression."""
    mean, deviation, reduced = gaussian_process.moments(fitted, X)
    r = phi(drawn.omega, X) - reduced @ drawn.known
    length = r.square().sum(-1, keepdim=True).sqrt().clamp(min=torch.finfo(r.dtype).tiny)
    return mean + deviation * torch.einsum("kqf,skf->sqk", r / length, drawn.w)


def feasibility(fitted: Regression, limits: AnyFloat, X: AnyFloat) -> AnyFloat:
    """The probability (…) that all outcomes at designs (…, d) keep their limits (k, 2), lowest and highest.

    Limits are in the units of the regression, infinite where there is none. Outcomes are independent given the
    design, so it is a product; the noise of measuring them is not part of it. An outcome that never varies keeps its
    limits or does not.
    """
    mean, deviation = gaussian_process.predict(fitted, X)
    low, high = limits.to(mean).unbind(-1)
    certain = deviation == 0.0
    spread = torch.where(certain, 1.0, deviation)
    below, above = (low - mean) / spread, (high - mean) / spread
    # Both ends on the side where Φ is small: a difference of two numbers near 1 would have lost its digits.
    turned = below > 0.0
    left, right = torch.where(turned, -above, below), torch.where(turned, -below, above)
    inside = normal.cdf(right) - normal.cdf(left)
    kept = ((mean >= low) & (mean <= high)).to(mean)
    # Of an outcome without limits nothing need be known.
    limited = low.isfinite() | high.isfinite()
    return torch.where(limited, torch.where(certain, kept, inside), 1.0).prod(-1)
