"""Gaussian-process regression of measured outcomes, each with hyperparameters of its own, all in one batch.

Notation
    X      (n, d), inside (k, m, d)  designs in the unit cube; inside, those of each outcome
    Y      (n, k)      outcomes, NaN where one was not measured; y (k, m) standardised, 0 where missing
    theta  (k, d+2)    log ℓ₁ … log ℓ_d, log s, log of the noise variance; s and noise in units of the spread squared
    K      (k, m, m)   s · k(X, X) + noise · I, with the identity's row where a value is missing: it then adds nothing
    alpha  (k, m)      K⁻¹ y
    root   (k, m, m)   L⁻ᵀ of K = L Lᵀ: the variance at x is s − ‖rootᵀ k(X, x)‖²

log p(y) = −½ yᵀα − Σ log L_ii − ½ m log 2π, and its derivative in K is ½ (ααᵀ − K⁻¹) (Rasmussen and Williams, 5.9).

Length scales have the prior of Hvarfner et al. (2024), whose median grows with √d as distances in the cube do, so that
few designs in many dimensions are not fitted by wiggles. The noise is never below FLOOR, which is also what keeps K
positive definite: there is no other jitter.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.kernels import priors, stationary
from kappasharp.numerics import quasi_newton
from kappasharp.settings import Family
from kappasharp.tensors import AnyFloat, Points, apply, take

FAMILY: Family = "matern52"
PRIORS = priors.Priors(
    priors.DimensionScaledLogNormal(), (1e-2, 1e4), (1e-2, 1e3), outputscale_median=1.0, outputscale_spread=1.5
)
# Noise variance in units of the spread squared: its least and largest; its logarithm is normal about a deviation of
# three per cent, so broadly that a few dozen values overrule it.
FLOOR, LARGEST = 1e-6, 10.0
NOISE_CENTRE, NOISE_SPREAD = math.log(1e-3), 2.0
# Where the search starts: length scales in units of √d, and the noise variance.
STARTS = ((0.2, 1e-3), (1.0, 1e-4), (0.5, 0.3))
TOLERANCES = quasi_newton.Tolerances(gradient=1e-3, decrease=5e-5, max_rounds=200, longest_step=2.0)
# Hyperparameters are searched on at most this many values of an outcome; predictions hang on all of them.
SEARCHED = 512
# How many numbers one batch of covariance matrices may hold.
ELEMENTS = 8_000_000
# The middle half of a normal distribution is this many deviations wide.
MIDDLE_HALF = 1.349
# A value is left out as a slip of the measurement where it lies further from the median than FAR spreads, the others
# leave less than VAGUE of the prior variance there, and foresee less than FORESEEN of it. At most a tenth of them may
# be slips: where more are far out, or all are few, it is how the outcome behaves.
FAR, VAGUE, FORESEEN, MOST_LEFT_OUT = 5.0, 0.1, 0.15, 0.1
ENOUGH = 2


class Measured(NamedTuple):
    """Each outcome's values: designs, standardised values, which of them are there, known noise variances."""

    X: AnyFloat
    y: AnyFloat
    present: Tensor
    known: AnyFloat


class Regression(NamedTuple):
    """All outcomes, ready to predict, and how each one's search ended; `kept` (n, k) says which values it rests on."""

    X: AnyFloat
    theta: AnyFloat
    alpha: AnyFloat
    root: AnyFloat
    centre: AnyFloat
    spread: AnyFloat
    kept: Tensor
    value: AnyFloat
    gradient_norm: AnyFloat
    converged: Tensor
    rounds: Tensor
    searched_on: Tensor

    @property
    def noise(self) -> AnyFloat:
        """The deviation of the noise that was learnt, in each outcome's units."""
        return (self.theta[:, -1] * 0.5).exp() * self.spread


def fit(X: Points, Y: AnyFloat, *, noise: Tensor | None = None) -> Regression:
    """The regression of outcomes Y (n, k), NaN where missing, on designs X (n, d).

    `noise` holds known deviations of the measurements, in the outcomes' units and of any shape that broadcasts to Y's;
    then none is learnt beyond FLOOR. An outcome that never varies is predicted exactly, with deviation 0. One with
    fewer than two values has no certificate: `converged` is false, and predictions are its value, or NaN.
    """
    Y = torch.where(Y.isfinite(), Y, torch.nan).to(X)
    centre, spread = standard(Y)
    known = torch.zeros_like(Y) if noise is None else (noise.to(X) / _divisor(spread)).square().expand_as(Y)
    present = Y.isfinite()
    y = torch.where(present, (Y - centre) / _divisor(spread), 0.0)
    whole = Measured(X.expand(Y.shape[-1], *X.shape), y.mT, present.mT, known.mT)
    whole = whole._replace(present=whole.present & ~slips(whole, learnt=noise is None))
    found = search(whole, learnt=noise is None)
    fitted = condition(whole, found.x)
    enough = whole.present.sum(-1) >= ENOUGH
    return Regression(
        X=fitted.X,
        theta=found.x,
        alpha=fitted.alpha,
        root=fitted.root,
        centre=centre,
        spread=spread,
        kept=whole.present.mT,
        value=-found.value,
        gradient_norm=_projected(found, learnt=noise is None).abs().amax(-1),
        converged=found.converged & fitted.sound & enough,
        rounds=found.rounds,
        searched_on=whole.present.sum(-1).clamp(max=SEARCHED),
    )


def predict(regression: Regression, X: AnyFloat) -> tuple[AnyFloat, AnyFloat]:
    """Mean and deviation (…, k) of every outcome at designs X (…, d), without the noise of measuring them."""
    parts = [moments(regression, part)[:2] for part in blocks(regression, X)]
    mean, deviation = (torch.cat([part[i] for part in parts]) for i in range(2))
    shape = (*X.shape[:-1], len(regression.alpha))
    return mean.reshape(shape), deviation.reshape(shape)


def blocks(regression: Regression, X: AnyFloat) -> tuple[Tensor, ...]:
    """Designs (…, d) as rows, so many at a time as memory holds covariances with all that was measured."""
    return X.reshape(-1, X.shape[-1]).to(regression.X).split(max(ELEMENTS // max(regression.alpha.numel(), 1), 1))


def moments(regression: Regression, X: Points) -> tuple[AnyFloat, AnyFloat, AnyFloat]:
    """Mean and deviation (q, k) at designs (q, d), and k(X, measured designs) root (k, q, m) that the latter is of."""
    lengthscale, s = stationary.split(regression.theta[:, :-1])
    scale = lengthscale.unsqueeze(-2)
    h = stationary.half_distances((X - 0.5) / scale, (regression.X - 0.5) / scale)
    cross = stationary.profile(FAMILY, h).value * s[:, None, None]
    reduced = cross @ regression.root
    mean = apply(cross, regression.alpha).mT * regression.spread + regression.centre
    # A variance below zero is rounding.
    variance = (s.unsqueeze(-1) - reduced.square().sum(-1)).clamp(min=0.0)
    return mean, variance.sqrt().mT * regression.spread, reduced


def standard(Y: Points) -> tuple[AnyFloat, AnyFloat]:
    """The median and the spread of each outcome's values, which a quarter of them may spoil without effect.

    The spread is the middle half's width as a deviation; where that is none, the plain deviation; 0 if nothing varies.
    """
    quarters = torch.nanquantile(Y, Y.new_tensor([0.25, 0.5, 0.75]), 0)
    width = (quarters[2] - quarters[0]) / MIDDLE_HALF
    count = Y.isfinite().sum(0).clamp(min=1)
    plain = ((Y - Y.nanmean(0)).square().nansum(0) / count).sqrt()
    same = torch.where(Y.isnan(), quarters[1], Y).eq(quarters[1]).all(0)
    plain = plain.where(~same & plain.isfinite(), 0.0)
    return quarters[1], torch.where(width > 0.0, width, plain)


def _divisor(spread: AnyFloat) -> AnyFloat:
    return torch.where(spread > 0.0, spread, 1.0)


def gather(whole: Measured, most: int) -> Measured:
    """The values that are there, in front; of an outcome with more than `most` as many, evenly spread."""
    count = whole.present.sum(-1, keepdim=True)
    size = int(count.max().clamp(1, most))
    place = torch.arange(size, device=count.device).expand(len(count), size)
    some = torch.where(count > size, place * count // size, place)
    order = (~whole.present).to(torch.uint8).argsort(dim=-1, stable=True).gather(-1, some)
    present = place < count
    X = whole.X.gather(1, order.unsqueeze(-1).expand(*order.shape, whole.X.shape[-1]))
    y = torch.where(present, whole.y.gather(-1, order), 0.0)
    return Measured(X, y, present, whole.known.gather(-1, order))


def covariance(data: Measured, theta: AnyFloat) -> tuple[AnyFloat, stationary.Profile, AnyFloat]:
    """K, the kernel's profile, and the designs in units of the length scales, centred."""
    lengthscale, s = stationary.split(theta[:, :-1])
    Z = (data.X - 0.5) / lengthscale.unsqueeze(-2)
    profile = stationary.profile(FAMILY, stationary.half_distances(Z, Z))
    both = data.present.unsqueeze(-1) & data.present.unsqueeze(-2)
    K = torch.where(both, profile.value * s[:, None, None], 0.0)
    own = torch.where(data.present, s.unsqueeze(-1) + theta[:, -1:].exp() + data.known, 1.0)
    K.diagonal(dim1=-2, dim2=-1).copy_(own)
    return K, profile, Z


def log_evidence(data: Measured, theta: AnyFloat) -> tuple[AnyFloat, AnyFloat]:
    """log p(y) of every row (rows,) and its gradient in theta (rows, d+2); −∞ where K has no Cholesky factor."""
    K, profile, Z = covariance(data, theta)
    L, failed = torch.linalg.cholesky_ex(K)
    alpha = torch.cholesky_solve(data.y.unsqueeze(-1), L).squeeze(-1)
    fit_term = -0.5 * (data.y * alpha).sum(-1) - L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = fit_term - 0.5 * math.log(2.0 * math.pi) * data.present.sum(-1)
    both = data.present.unsqueeze(-1) & data.present.unsqueeze(-2)
    G = torch.where(both, 0.5 * (alpha.unsqueeze(-1) * alpha.unsqueeze(-2) - torch.cholesky_inverse(L)), 0.0)
    s, noise = theta[:, -2].exp(), theta[:, -1].exp()
    # Σ M_ab (z_a − z_b)² in every dimension, without the differences themselves.
    M = G * profile.slope * s[:, None, None]
    lengths = 2.0 * ((M.sum(-1, keepdim=True) * Z.square()).sum(-2) - (Z * (M @ Z)).sum(-2))
    trace = G.diagonal(dim1=-2, dim2=-1).sum(-1)
    off_diagonal = (G * profile.value).sum((-2, -1)) - (G * profile.value).diagonal(dim1=-2, dim2=-1).sum(-1)
    gradient = torch.cat([lengths, (s * (off_diagonal + trace)).unsqueeze(-1), (noise * trace).unsqueeze(-1)], -1)
    return torch.where(failed == 0, value, -torch.inf), gradient


class NegativeLogDensity:
    """Minus evidence plus log priors, as descent wants it."""

    def __init__(self, data: Measured) -> None:
        self.data = data

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, d + 2)."""
        value, gradient = log_evidence(self.data, theta)
        standard_noise = (theta[:, -1] - NOISE_CENTRE) / NOISE_SPREAD
        prior = PRIORS.log_density(theta[:, :-1]) - 0.5 * standard_noise.square()
        slope = torch.cat([PRIORS.slope(theta[:, :-1]), (-standard_noise / NOISE_SPREAD).unsqueeze(-1)], -1)
        total = value + prior
        return torch.where(total.isfinite(), -total, torch.inf), -(gradient + slope)

    def take(self, rows: Tensor) -> "NegativeLogDensity":
        """The same for these rows."""
        return NegativeLogDensity(take(self.data, rows))


def search(whole: Measured, *, learnt: bool) -> quasi_newton.Descent:
    """The hyperparameters of every outcome: the best end of several starts; the noise at its floor if not learnt."""
    data = gather(whole, SEARCHED)
    outcomes, size = data.y.shape
    together = max(ELEMENTS // (len(STARTS) * size**2), 1)
    groups = torch.arange(outcomes, device=data.y.device).split(together)
    found = [_search_together(take(data, group), learnt) for group in groups]
    return quasi_newton.Descent(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _search_together(data: Measured, learnt: bool) -> quasi_newton.Descent:
    outcomes, _, d = data.X.shape
    starts = [[scale * math.sqrt(d)] * d + [1.0, noise] for scale, noise in STARTS]
    theta = data.X.new_tensor(starts).log().repeat_interleave(outcomes, 0)
    rows = torch.arange(outcomes, device=theta.device)
    found = quasi_newton.minimize(
        NegativeLogDensity(take(data, rows.repeat(len(starts)))), theta, *bounds(theta, learnt=learnt), TOLERANCES
    )
    best = found.value.reshape(len(starts), outcomes).nan_to_num(nan=torch.inf).argmin(0)
    return take(found, best * outcomes + rows)


def bounds(theta: AnyFloat, *, learnt: bool) -> tuple[AnyFloat, AnyFloat]:
    """The box of the hyperparameters; of the noise, the floor alone where it is known."""
    low, high = PRIORS.bounds(theta[:, :-1])
    ends = (math.log(FLOOR), math.log(LARGEST if learnt else FLOOR))
    return tuple(
        torch.cat([end, torch.full_like(theta[:, -1:], last)], -1) for end, last in zip((low, high), ends, strict=True)
    )  # type: ignore[return-value]


def _projected(found: quasi_newton.Descent, *, learnt: bool) -> AnyFloat:
    """The gradient without what pushes against a bound."""
    low, high = bounds(found.x, learnt=learnt)
    return found.gradient * (torch.where(found.gradient > 0, found.x - low, high - found.x) > 0)


class Fitted(NamedTuple):
    """Designs, α and root of every outcome, and whether its K had a Cholesky factor."""

    X: AnyFloat
    alpha: AnyFloat
    root: AnyFloat
    sound: Tensor


def condition(whole: Measured, theta: AnyFloat) -> Fitted:
    """What predictions are made of, from all values of every outcome."""
    data = gather(whole, whole.y.shape[-1])
    found = [_conditioned(take(data, row), take(theta, row)) for row in _one_by_one(theta)]
    return Fitted(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _one_by_one(theta: AnyFloat) -> tuple[Tensor, ...]:
    """Every outcome's row by itself: all values together may fill the memory."""
    return torch.arange(len(theta), device=theta.device).split(1)


def _conditioned(data: Measured, theta: AnyFloat) -> Fitted:
    L, failed = torch.linalg.cholesky_ex(covariance(data, theta)[0])
    alpha = torch.cholesky_solve(data.y.unsqueeze(-1), L).squeeze(-1)
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L)
    root = torch.linalg.solve_triangular(L, eye, upper=False).mT
    return Fitted(data.X, alpha, torch.where(data.present.unsqueeze(-1), root, 0.0), failed == 0)


def slips(whole: Measured, *, learnt: bool) -> Tensor:
    """Values (k, n) that are far from all others and from what their neighbours foresee."""
    far = whole.present & (whole.y.abs() > FAR)
    count = whole.present.sum(-1)
    asked = (far.any(-1) & (count * MOST_LEFT_OUT >= 1)).nonzero().squeeze(-1)
    found = torch.zeros_like(far)
    if not len(asked):
        return found
    some = take(whole, asked)
    # How smooth the outcome is, the others say.
    theta = search(some._replace(present=some.present & ~far[asked]), learnt=learnt).x
    unforeseen = torch.cat([_unforeseen(take(some, row), take(theta, row)) for row in _one_by_one(theta)])
    unforeseen &= far[asked]
    few = unforeseen.sum(-1, keepdim=True) <= MOST_LEFT_OUT * count[asked].unsqueeze(-1)
    found[asked] = unforeseen & few
    return found


def _unforeseen(data: Measured, theta: AnyFloat) -> Tensor:
    """Where all other values leave little open, and foresee little of this one (Rasmussen and Williams, 5.12)."""
    L = torch.linalg.cholesky_ex(covariance(data, theta)[0])[0]
    precision = torch.cholesky_inverse(L).diagonal(dim1=-2, dim2=-1)
    alpha = torch.cholesky_solve(data.y.unsqueeze(-1), L).squeeze(-1)
    left_open = precision.reciprocal() - theta[:, -1:].exp() - data.known
    foreseen = (data.y - alpha / precision) / torch.where(data.y == 0.0, 1.0, data.y)
    return (left_open < VAGUE * theta[:, -2:-1].exp()) & (foreseen < FORESEEN)
