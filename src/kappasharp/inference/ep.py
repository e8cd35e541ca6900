"""Expectation propagation for the same answers, in comparison space, with a certificate per run. [app:ep_gibbs]

Notation
    A       (*batch, m, m)  C K Cᵀ/(2σ²), the prior covariance of the standardised differences z
    tau,nu  (*batch, m)     the sites: answer p is replaced by exp(−½ τ z² + ν z)
    B       (*batch, m, m)  I + τ^½ A τ^½
    alpha   (*batch, m)     dual weights: the mean is z = A α, and f = K Cᵀ α/(σ√2)
    v       (*batch, m)     variance of z under all sites
    b       (*batch, m)     diagonal of B⁻¹ = 1 − τ v: what the answer itself left of its cavity's variance

The cavity of an answer is the posterior without its site: z_p ~ N(μ_c, v_c). The noisy difference is N(μ_c, 1 + v_c)
there, so the tilted moments are the likelihood's own formulas in units of √(1 + v_c), for ties as for wins. At the
fixed point tilted and marginal moments agree; for the means this reads α = slope, as at the MAP.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import laplace, likelihood
from kappasharp.tensors import ComparisonMatrix, Indices, PerComparison, PerComparisonMask, PerRun, PerRunMask, apply

MAX_ITERATIONS = 300
# A step that does not bring the moments closer is halved, one that does may grow again.
SHRINK, GROW = 0.5, 1.25


class EpFit(NamedTuple):
    """The Gaussian that matches every answer's moments, and how well it does."""

    alpha: PerComparison
    z: PerComparison
    tau: PerComparison
    evidence: PerRun
    converged: PerRunMask
    iterations: Indices
    mismatch: PerRun


class _Marginals(NamedTuple):
    """The posterior's marginals, the cavities, and each answer's derivatives of log E p(z) in the cavity's mean."""

    alpha: Tensor
    z: Tensor
    v: Tensor
    b: Tensor
    cavity_mean: Tensor
    cavity_variance: Tensor
    slope: Tensor
    omega: Tensor
    half_log_det: Tensor


def solve(
    A: ComparisonMatrix, margin: float, ties: PerComparisonMask | None = None, max_iterations: int = MAX_ITERATIONS
) -> EpFit:
    """The fixed point of parallel EP, from empty sites.

    A run that does not settle is damped, and never stops the others. The mismatch is the largest gap between tilted and
    marginal moments: of means in deviations, of variances relative.
    """
    tau = nu = A.new_zeros(A.shape[:-1])
    if tau.shape[-1] == 0:
        none = tau.new_zeros(tau.shape[:-1])
        return EpFit(nu, nu, tau, none, none == 0, none.long(), none)
    limit = laplace.tolerance(A.dtype)
    step = A.new_ones(A.shape[:-2])
    last = torch.full_like(step, torch.inf)
    iterations = torch.zeros_like(step, dtype=torch.long)
    for count in range(max_iterations + 1):
        now = _marginals(A, tau, nu, margin, ties)
        mismatch = _mismatch(now)
        moving = ~(mismatch <= limit)
        if count == max_iterations or not bool(moving.any()):
            break
        iterations = iterations + moving
        step = torch.where(mismatch < last, (step * GROW).clamp(max=1.0), step * SHRINK)
        last = mismatch
        # Slope and ω are those of log E p in the cavity's mean; the new site is what they add to the cavity.
        rest = 1.0 - now.cavity_variance * now.omega
        share = (step * moving).unsqueeze(-1)
        tau = torch.lerp(tau, now.omega / rest, share)
        nu = torch.lerp(nu, (now.slope + now.cavity_mean * now.omega) / rest, share)
    value = _evidence(now, tau, nu, margin, ties)
    return EpFit(now.alpha, now.z, tau, value, mismatch <= limit, iterations, mismatch)


def _marginals(A: Tensor, tau: Tensor, nu: Tensor, margin: float, ties: Tensor | None) -> _Marginals:
    root = tau.sqrt()
    L = laplace.factor(A, root)
    # One triangular solve: L⁻¹ τ^½ A for the variances, L⁻¹ for the diagonal of B⁻¹.
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
    both = torch.linalg.solve_triangular(L, torch.cat([root.unsqueeze(-1) * A, eye], -1), upper=False)
    half, inverse = both.tensor_split(2, -1)
    b = inverse.square().sum(-2)
    # A's eigenvalues may be zero, so rounding may take v below; the likelihood needs 1 + v alone.
    v = (A.diagonal(dim1=-2, dim2=-1) - half.square().sum(-2)).clamp(min=0.0)
    inner = (inverse.mT @ (half @ nu.unsqueeze(-1))).squeeze(-1)
    alpha = nu - root * inner
    z = apply(A, alpha)
    cavity_mean, cavity_variance = (z - v * nu) / b, v / b
    spread = (1.0 + cavity_variance).sqrt()
    slope, omega = likelihood.sites(cavity_mean / spread, margin / spread, ties)
    half_log_det = L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return _Marginals(
        alpha, z, v, b, cavity_mean, cavity_variance, slope / spread, omega / spread.square(), half_log_det
    )  # fmt: skip


def _mismatch(now: _Marginals) -> Tensor:
    means = (now.alpha - now.slope).abs() * now.v.sqrt()
    variances = ((1.0 - now.cavity_variance * now.omega) / now.b - 1.0).abs()
    return torch.maximum(means, variances).amax(-1)


def _evidence(now: _Marginals, tau: Tensor, nu: Tensor, margin: float, ties: Tensor | None) -> Tensor:
    """log Z of EP: Σ log Ẑ_p of the tilted distributions, less what their sites count twice, less ½ log|B|.

    The usual differences of squares over variances are multiplied out, so that v may be zero.
    """
    spread = (1.0 + now.cavity_variance).sqrt()
    tilted = likelihood.log_probability(now.cavity_mean / spread, margin / spread, ties)
    mean = now.cavity_mean
    twice = now.v * nu.square() + now.b * mean * (2.0 * nu - tau * mean) + now.b.log() - nu * now.z
    return (tilted - 0.5 * twice).sum(-1) - now.half_log_det
