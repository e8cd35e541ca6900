"""Gibbs sampling for the same answers: the exact posterior's moments, with their diagnostics. [app:ep_gibbs]

Notation
    A      (runs, m, m)       C K Cᵀ/(2σ²), the prior covariance of the standardised differences z
    v      (runs, m, chains)  noisy differences z + ε, ε ~ N(0, I): normal before the answers, after them confined to
                              v > margin for a win, |v| ≤ margin for a tie
    P      (runs, m, m)       (A + I)⁻¹, the precision of v before the answers
    y      (runs, m, chains)  v in units of its conditional deviations: v_p √P_pp, of variance 1 given the others
    alpha  (runs, m)          P E[v]: the mean is z = A α, and f = K Cᵀ α/(σ√2)
    M      (runs, m, m)       P − P Cov(v) P: the covariance of f is K − K Cᵀ M C K/(2σ²)

Given v the utilities are normal, so they are never drawn: only v is, one coordinate after the other given the rest. The
mean is averaged over what each coordinate's conditional says rather than over its draws (Rao–Blackwell): α is then
E[slope] of the likelihood, in units of the conditional deviation.

Where the prior is wide against the noise the coordinates hang together and plain draws creep. So a coordinate moves to
about the opposite quantile of its conditional (over-relaxation, Neal 1998): u becomes 1 − u plus a little noise, which
leaves uniform numbers uniform, and so the posterior as it is. Measured: four to eight times the independent draws.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import likelihood
from kappasharp.numerics import normal
from kappasharp.randomness import uniform
from kappasharp.tensors import (
    AnyFloat,
    ComparisonMatrix,
    Indices,
    PerComparison,
    PerComparisonMask,
    PerRun,
    PerRunMask,
    apply,
    take,
)

# The largest split-R̂ that is called converged: half-chains whose means spread by a third of a deviation (√0.1).
LARGEST_R_HAT = 1.05
# How far from the opposite quantile a coordinate lands at most. Less mixes the means faster, more the variances.
WANDER = 0.3
# Half the distance of two neighbouring uniform numbers: stands for 0, whose quantile is infinite.
SMALLEST = 2.0**-54
# Beyond this many deviations Φ nears its underflow, and the quantile is found in logarithms, by a fixed-point iteration
# that contracts by TAIL⁻² a round.
TAIL, TAIL_ROUNDS = 25.0, 5
# Coordinates whose conditional means come out of one matrix product.
BLOCK = 16


@dataclass(frozen=True)
class Plan:
    """How long the chains are; chains that disagree go on for twice as long, at most `extensions` times."""

    chains: int = 32
    burn_in: int = 40
    sweeps: int = 80
    extensions: int = 3


class GibbsFit(NamedTuple):
    """The posterior's moments, and how far to trust them.

    `half` is a root of M. `excess` is how far sampling noise put the largest eigenvalue of v's covariance, in units of
    its prior's, above the 1 that it cannot exceed; what is above 1 was cut off.
    """

    alpha: PerComparison
    z: PerComparison
    half: ComparisonMatrix
    converged: PerRunMask
    sweeps: Indices
    r_hat: PerRun
    effective_size: PerRun
    excess: PerRun


class _Target(NamedTuple):
    """The truncated normal in y: coordinate p has mean `pull`[p] @ y and deviation 1, between low and high."""

    L: Tensor
    deviation: Tensor
    pull: Tensor
    low: Tensor
    margin: Tensor
    high: Tensor | None
    ties: Tensor | None


class _Averages(NamedTuple):
    """Over the kept sweeps: slopes, y yᵀ, and what is watched, with its square, per half-chain (runs, 2, k, chains)."""

    slope: Tensor
    outer: Tensor
    watched: Tensor
    square: Tensor


def sample(
    A: ComparisonMatrix,
    margin: float,
    generators: list[torch.Generator],
    ties: PerComparisonMask | None = None,
    plan: Plan | None = None,
) -> GibbsFit:
    """Posterior moments from several chains per run, each run's numbers from its own generator."""
    plan = Plan() if plan is None else plan
    runs, m = A.shape[:2]
    if m == 0:
        none, empty = A.new_zeros(runs), A.new_zeros(runs, 0)
        return GibbsFit(empty, empty, A, none == 0, none.long(), none + 1.0, none, none)
    target = _target(A, margin, ties)
    y = _start(target, plan, generators)
    for _ in range(plan.burn_in):
        _sweep(target, y, generators)
    fit = _collect(A, target, y, generators, plan.sweeps)
    fit = fit._replace(sweeps=fit.sweeps + plan.burn_in)
    for extension in range(plan.extensions):
        rows = (~fit.converged).nonzero().squeeze(-1)
        if not len(rows):
            break
        state, own = y[rows], [generators[row] for row in rows]
        longer = _collect(A[rows], take(target, rows), state, own, plan.sweeps * 2 ** (extension + 1))
        y[rows] = state
        longer = longer._replace(sweeps=longer.sweeps + fit.sweeps[rows])
        fit = GibbsFit(*(whole.index_copy(0, rows, new) for whole, new in zip(fit, longer, strict=True)))
    return fit


def _target(A: Tensor, margin: float, ties: Tensor | None) -> _Target:
    S = A.clone()
    S.diagonal(dim1=-2, dim2=-1).add_(1.0)
    L = torch.linalg.cholesky_ex(S)[0]
    P = torch.cholesky_inverse(L)
    deviation = P.diagonal(dim1=-2, dim2=-1).rsqrt()
    pull = -P * deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    pull.diagonal(dim1=-2, dim2=-1).zero_()
    scaled = margin / deviation
    low, high = scaled, None
    if ties is not None:
        low, high = torch.where(ties, -scaled, scaled), torch.where(ties, scaled, torch.inf)
    return _Target(L, deviation, pull, low, scaled, high, ties)


def _start(target: _Target, plan: Plan, generators: list[torch.Generator]) -> Tensor:
    """Draws from each coordinate's own prior within its bounds: wider apart than the posterior, as R̂ wants them."""
    u = _numbers(generators, (target.low.shape[-1], plan.chains), target.low)
    prior = (target.L.square().sum(-1).sqrt() / target.deviation).unsqueeze(-1)
    high = None if target.high is None else target.high.unsqueeze(-1) / prior
    return prior * draw(target.low.unsqueeze(-1) / prior, high, u.clamp(min=SMALLEST))


def _sweep(target: _Target, y: Tensor, generators: list[torch.Generator]) -> None:
    """One move of every coordinate given the others, in place, for all runs and chains.

    The conditional means are taken for BLOCK coordinates at once; within a block each move corrects those to come.
    """
    m, chains = y.shape[1:]
    opposite = _numbers(generators, (m, chains), y).mul_(2.0 * WANDER).add_(1.0 - WANDER)
    for first in range(0, m, BLOCK):
        means = torch.bmm(target.pull[:, first : first + BLOCK], y)
        for p in range(first, min(first + BLOCK, m)):
            mean, old = means[:, p - first], y[:, p]
            low = target.low[:, p : p + 1] - mean
            high = None if target.high is None else target.high[:, p : p + 1] - mean
            new = _redraw(old - mean, low, high, opposite[:, p]) + mean
            later = target.pull[:, p + 1 : first + BLOCK, p].unsqueeze(-1)
            means[:, p - first + 1 :].addcmul_(later, (new - old).unsqueeze(1))
            y[:, p] = new


def _numbers(generators: list[torch.Generator], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Uniform numbers in [0, 1), every run's from its own generator."""
    return torch.stack([uniform(shape, generator, like) for generator in generators])


def _redraw(x: Tensor, low: Tensor, high: Tensor | None, opposite: Tensor) -> Tensor:
    """The number at `opposite` less x's own place in its conditional."""
    if high is None and float(low.max()) <= TAIL:
        tail = normal.cdf(-low)
        u = _reflect(opposite - normal.cdf(-x) / tail)
        return torch.maximum(-torch.special.ndtri(tail * u), low)
    return draw(low, high, _reflect(opposite - place(x, low, high)))


def _reflect(u: Tensor) -> Tensor:
    """What left (0, 1) is reflected at the end that it passed."""
    return (1.0 - (1.0 - u.abs()).abs()).clamp(min=SMALLEST)


def draw(low: AnyFloat, high: AnyFloat | None, u: AnyFloat) -> AnyFloat:
    """Standard normal numbers between low and high (None: no upper end) from uniform ones.

    x has Φ(−x) = w Φ(−low), where w runs from 1 at the lower end to Φ(−high)/Φ(−low) at the upper one. An interval that
    lies mostly below zero is turned round, so that the tail is the short one.
    """
    if high is None:
        return torch.maximum(_beyond(low, u), low)
    near, far, turned = _turn(low, high)
    x = _beyond(near, 1.0 + torch.expm1(_log_share(far, near)) * (1.0 - u))
    x = torch.minimum(torch.maximum(x, near), far)
    return torch.where(turned, -x, x)


def place(x: AnyFloat, low: AnyFloat, high: AnyFloat | None) -> AnyFloat:
    """The uniform number from which `draw` makes x."""
    if high is None:
        return _log_share(x, low).exp()
    near, far, turned = _turn(low, high)
    own = torch.expm1(_log_share(torch.where(turned, -x, x), near))
    return 1.0 - own / torch.expm1(_log_share(far, near))


def _turn(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    turned = low + high < 0
    return torch.where(turned, -high, low), torch.where(turned, -low, high), turned


def _log_share(x: Tensor, low: Tensor) -> Tensor:
    """log Φ(−x)/Φ(−low)."""
    return normal.log_cdf(-x) - normal.log_cdf(-low)


def _beyond(low: AnyFloat, w: AnyFloat) -> AnyFloat:
    """x with Φ(−x) = w Φ(−low)."""
    x = -torch.special.ndtri(normal.cdf(-low) * w)
    # With Mills' ratio 1/ψ(−x) = Φ(−x)/φ(x) the equation is x² = low² − 2 log w + 2 log(ψ(−low)/ψ(−x)).
    tail = low > TAIL
    far = torch.where(tail, low, TAIL)
    square = far.square() - 2.0 * w.log() + 2.0 * normal.hazard(-far).log()
    end = far
    for _ in range(TAIL_ROUNDS):
        end = (square - 2.0 * normal.hazard(-end).log()).sqrt()
    return torch.where(tail, end, x)


def _collect(A: Tensor, target: _Target, y: Tensor, generators: list[torch.Generator], sweeps: int) -> GibbsFit:
    """The moments of further sweeps; y goes on in place."""
    runs, m, chains = y.shape
    slope, outer = torch.zeros_like(target.low), torch.zeros_like(A)
    watched, square = (y.new_zeros(runs, 2, 2 * m, chains) for _ in range(2))
    ties = None if target.ties is None else target.ties.unsqueeze(-1).expand(y.shape)
    centre = y.mean(-1, keepdim=True)
    for count in range(sweeps):
        _sweep(target, y, generators)
        slope += likelihood.sites(torch.bmm(target.pull, y), target.margin.unsqueeze(-1), ties).slope.mean(-1)
        outer.baddbmm_(y, y.mT, alpha=1.0 / chains)
        # The means are right only if the draws are; the covariance only if their squares are too.
        now = torch.cat([y, (y - centre).square()], 1)
        half = (2 * count) // sweeps
        watched[:, half] += now
        square[:, half] += now.square()
    averages = _Averages(slope / sweeps, outer / sweeps, watched / (sweeps / 2), square / (sweeps / 2))
    return _moments(A, target, averages, sweeps)


def _moments(A: Tensor, target: _Target, averages: _Averages, sweeps: int) -> GibbsFit:
    alpha = averages.slope / target.deviation
    centre = averages.watched[:, :, : A.shape[-1]].mean((1, 3))
    cov = averages.outer - centre.unsqueeze(-1) * centre.unsqueeze(-2)
    cov = cov * target.deviation.unsqueeze(-1) * target.deviation.unsqueeze(-2)
    # L⁻¹ Cov(v) L⁻ᵀ has eigenvalues in (0, 1]: an answer cannot widen a normal prior. Sampling noise can.
    white = torch.linalg.solve_triangular(target.L, cov, upper=False)
    white = torch.linalg.solve_triangular(target.L, white.mT, upper=False)
    values, vectors = torch.linalg.eigh(0.5 * (white + white.mT))
    learnt = vectors * (1.0 - values).clamp(min=0.0).sqrt().unsqueeze(-2)
    half = torch.linalg.solve_triangular(target.L.mT, learnt, upper=True)
    r_hat, size = diagnose(averages.watched, averages.square, sweeps // 2)
    worst = r_hat.amax(-1)
    z = apply(A, alpha)
    count = torch.full_like(worst, sweeps, dtype=torch.long)
    excess = (values[:, -1] - 1.0).clamp(min=0.0)
    return GibbsFit(alpha, z, half, worst <= LARGEST_R_HAT, count, worst, size.amin(-1), excess)


def diagnose(mean: AnyFloat, square: AnyFloat, length: int) -> tuple[Tensor, Tensor]:
    """Split-R̂ and effective sample size of every coordinate, from each half-chain's mean and mean square.

    Both compare the spread of the half-chains' means with the spread within them (Gelman et al., Bayesian Data
    Analysis, section 11.4); the size is the number of independent draws whose average would vary as much.
    """
    within = (square - mean.square()).mean((1, 3)) * (length / (length - 1))
    halves = mean.movedim(1, -1).flatten(-2)
    between = halves.var(-1)
    total = within * ((length - 1) / length) + between
    return (total / within).sqrt(), halves.shape[-1] * total / between
