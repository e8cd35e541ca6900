"""One answer's log-likelihood as a function of the utility difference, with its derivatives: a win, a tie.

Notation
    z       (*batch, m)  standardised differences C f/(σ√2), winner minus loser            [prop:graph_laplacian]
    margin  θ/(σ√2)      noisy differences within ±θ are answered "tie"; 0 leaves no room for ties. A tensor where
                         z is in units of its own: if y ~ N(z, s²), these functions hold for z/s and margin/s
    omega   (*batch, m)  −d² log p/dz²; the paper's ω_m is this divided by 2σ²

The noisy difference is y ~ N(z, 1). A win is y > margin, a tie |y| ≤ margin: the three answers' probabilities sum to
one and each is log-concave in z.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch

from kappasharp.native.evidence import AnswerBounds
from kappasharp.numerics import normal
from kappasharp.tensors import AnyFloat, PerComparison, PerComparisonMask

# Gauss–Legendre nodes for a tie's interval, and how many deviations of it hold all the mass that a double can see.
TIE_NODES = 64
REACH = 8.5
# A diffusion's drift times its bound, for a difference of one standard deviation of its noise.
DRIFT = 0.851


@dataclass(frozen=True)
class Probit:
    """How utilities turn into answers; `noise` 1 leaves the signal-to-noise ratio to the kernel's output scale."""

    noise: float = 1.0
    threshold: float = 0.0

    @property
    def scale(self) -> float:
        """σ√2, the standard deviation of a noisy difference. [eq:probit]"""
        return self.noise * math.sqrt(2.0)

    @property
    def margin(self) -> float:
        """The tie threshold in units of a noisy difference's standard deviation."""
        return self.threshold / self.scale


Margin = float | AnyFloat


class Grades(NamedTuple):
    """Answers with bounds of their own: y within `half` of `centre` where `between`, else y above `half`.

    Ties among several designs and ratings; the margin of all answers does not count beside them. Where `time` is above
    0 the answer was a win that took so long, and its likelihood is that of choice and time together (`timed`).
    """

    between: PerComparisonMask
    centre: PerComparison
    half: PerComparison
    time: PerComparison


Ties = PerComparisonMask | Grades | None


def graded(ties: Ties, margin: float, like: PerComparison) -> Grades:
    """The same answers, each with bounds of its own."""
    if isinstance(ties, Grades):
        return ties
    nothing = torch.zeros_like(like)
    return Grades(nothing.bool() if ties is None else ties, nothing, nothing + margin, nothing)


def bounds(ties: Ties, margin: float) -> AnswerBounds:
    """Every answer's own bounds, as the kernels take them; not all answers are plain wins."""
    assert ties is not None
    z = ties.half if isinstance(ties, Grades) else torch.zeros(ties.shape, dtype=torch.float64, device=ties.device)
    between, centre, half, time = (part.to(z) for part in graded(ties, margin, z))
    return AnswerBounds(between, centre, half, time, torch.stack(legendre(z.dtype, z.device)))


class Sites(NamedTuple):
    """First derivative of each answer's log-likelihood, and minus the second."""

    slope: PerComparison
    omega: PerComparison


class Curvature(NamedTuple):
    """ω and d log ω/dz; the third derivative of log p is −ω times the latter."""

    omega: PerComparison
    log_slope: PerComparison


def log_probability(z: PerComparison, margin: Margin = 0.0, ties: Ties = None) -> PerComparison:
    """log p of every answer."""
    if isinstance(ties, Grades):
        inside = _moments_at(ties.between, z - ties.centre, ties.half).log_mass
        value = normal.log_cdf(z - ties.half).masked_scatter(ties.between, inside)
        return torch.where(ties.time > 0.0, _timed(z, ties.time), value)
    value = normal.log_cdf(_shifted(z, margin))
    return value if ties is None else value.masked_scatter(ties, _moments_at(ties, z, margin).log_mass)


def sites(z: PerComparison, margin: Margin = 0.0, ties: Ties = None) -> Sites:
    """Slope and ω: what a Newton step needs, in as few operations as possible."""
    if isinstance(ties, Grades):
        win, tie = sites(z, ties.half), _moments_at(ties.between, z - ties.centre, ties.half)
        slope = win.slope.masked_scatter(ties.between, tie.shift)
        omega = win.omega.masked_scatter(ties.between, tie.omega)
        quick = ties.time > 0.0
        precision = DRIFT**2 * ties.time
        return Sites(torch.where(quick, DRIFT - precision * z, slope), torch.where(quick, precision, omega))
    shifted = _shifted(z, margin)
    psi = normal.hazard(shifted)
    e = psi + shifted
    if z.dtype == torch.float32:
        # Far below zero the sum is all rounding in single precision; −z/(z² + 2) bounds it from below, closely.
        e = torch.maximum(e, -shifted / (shifted.square() + 2.0))
    omega = psi * e
    if ties is None:
        return Sites(psi, omega)
    tie = _moments_at(ties, z, margin)
    return Sites(psi.masked_scatter(ties, tie.shift), omega.masked_scatter(ties, tie.omega))


def curvature(z: PerComparison, margin: Margin = 0.0, ties: Ties = None) -> Curvature:
    """ω and its logarithmic derivative, exact in both tails: what the evidence's gradient needs."""
    if isinstance(ties, Grades):
        above, tie = curvature(z, ties.half), _moments_at(ties.between, z - ties.centre, ties.half)
        omega = above.omega.masked_scatter(ties.between, tie.omega)
        log_slope = above.log_slope.masked_scatter(ties.between, -tie.third / tie.omega)
        quick = ties.time > 0.0
        return Curvature(torch.where(quick, DRIFT**2 * ties.time, omega), log_slope.masked_fill(quick, 0.0))
    win = normal.derivatives(_shifted(z, margin))
    if ties is None:
        return Curvature(win.curvature, win.slope)
    tie = _moments_at(ties, z, margin)
    omega = win.curvature.masked_scatter(ties, tie.omega)
    return Curvature(omega, win.slope.masked_scatter(ties, -tie.third / tie.omega))


def _timed(z: AnyFloat, time: AnyFloat) -> AnyFloat:
    """log p of a win that took `time`, but for what does not depend on z; at z = 0 that of a coin.

    A decision is a diffusion with drift v that starts between two bounds ±a: to end at the upper one at time t has the
    density exp(v a − v² t/2) times a function of t alone, Gaussian in v. The drift is proportional to the difference;
    the chance of the upper bound, logistic in 2 v a, is nearest to Φ(z) for v a = DRIFT · z.
    """
    return DRIFT * z - 0.5 * (DRIFT * z).square() * time - math.log(2.0)


def _shifted(z: AnyFloat, margin: Margin) -> AnyFloat:
    return z - margin if isinstance(margin, torch.Tensor) or margin else z


class _TieMoments(NamedTuple):
    log_mass: AnyFloat
    shift: AnyFloat
    omega: AnyFloat
    third: AnyFloat


def _moments_at(ties: PerComparisonMask, z: PerComparison, margin: Margin) -> _TieMoments:
    """The moments of the marked answers alone, one after another."""
    return _tie_moments(z[ties], margin.expand_as(z)[ties] if isinstance(margin, torch.Tensor) else margin)


def _tie_moments(z: AnyFloat, margin: Margin) -> _TieMoments:
    """log P(|y| ≤ margin) for y ~ N(z, 1), and E[y − z], 1 − variance and third central moment of y given a tie.

    They are the derivatives of log P in z: slope E[y − z], second derivative variance − 1, third the third moment.
    The quadrature's terms are all positive, so nothing cancels, however small the margin. It covers the part of the
    interval that holds the mass: REACH deviations around z, or REACH² decay lengths from the end that z lies beyond.
    """
    nodes, weights = legendre(z.dtype, z.device)
    end = torch.as_tensor(margin, dtype=z.dtype, device=z.device)
    centre = z.clamp(-end, end)
    width = REACH**2 / (z.abs() - margin).clamp(min=REACH)
    low, high = (centre - width).clamp(min=-end), (centre + width).clamp(max=end)
    half = (0.5 * (high - low)).unsqueeze(-1)
    y = (0.5 * (high + low)).unsqueeze(-1) + half * nodes
    log_terms = normal.log_density(y - z.unsqueeze(-1)) + (half * weights).log()
    log_mass = log_terms.logsumexp(-1)
    share = (log_terms - log_mass.unsqueeze(-1)).exp()
    mean = (share * y).sum(-1)
    centred = y - mean.unsqueeze(-1)
    # A tie within a margin of many deviations says nothing: 1 − variance is then rounding, and must not be negative.
    omega = (1.0 - (share * centred.square()).sum(-1)).clamp(min=8.0 * torch.finfo(z.dtype).eps)
    return _TieMoments(log_mass, mean - z, omega, (share * centred**3).sum(-1))


@cache
def legendre(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Gauss–Legendre nodes and weights on [−1, 1], from the eigenvalues of the Jacobi matrix (Golub–Welsch)."""
    # Kept between calls, so they must not be tied to the mode they happen to be made in.
    with torch.inference_mode(mode=False):
        k = torch.arange(1, TIE_NODES, dtype=torch.float64)
        off_diagonal = k / (4.0 * k.square() - 1.0).sqrt()
        jacobi = torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1)
        nodes, vectors = torch.linalg.eigh(jacobi)
        weights = 2.0 * vectors[0].square()
        return nodes.to(device, dtype), weights.to(device, dtype)
