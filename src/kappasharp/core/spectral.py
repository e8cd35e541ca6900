"""Corrections in the prior's own metric, whose strength does not hang on the nugget; and a score that judges them.

Notation
    A      (runs, m, m)  C K Cᵀ/(2σ²)
    omega  (runs, m)     likelihood curvature per unit of z
    mu     (runs,)       largest eigenvalue of K^½ H_lik K^½, which is that of ω^½ A ω^½
    kappa  (runs,)       1 + μ: the condition number of I + K^½ H_lik K^½, whose smallest eigenvalue is 1 (ker C)
    eta    (runs,)       strength of the correction

K^½ (H + ηK⁻¹) K^½ has the condition number 1 + μ/(1 + η), so κ^(1−α) is met by 1 + η = μ/(κ^(1−α) − 1): no search,
and no K⁻¹, whose size the nugget sets. R = ηK⁻¹ divides the prior covariance by 1 + η, in the MAP alone.
"""

import torch
from torch import Tensor

from kappasharp.core import comparisons, extremes, laplace, likelihood
from kappasharp.core.comparisons import Incidence
from kappasharp.core.correction import Calibration
from kappasharp.core.laplace import DualFit, MapFit
from kappasharp.core.likelihood import Probit
from kappasharp.shapes import ComparisonMatrix, PerComparison, PerComparisonMask, PerRun, PointMatrix

# Below this κ − 1 the answers hardly outweigh the prior anywhere, and nothing is corrected.
NOTHING = 1e-9


def calibrate(A: ComparisonMatrix, omega: PerComparison, target_exponent: float) -> Calibration:
    """The η with 1 + μ/(1 + η) = (1 + μ)^(1−α), from a certified largest eigenvalue."""
    root = omega.sqrt()
    B = (A * root.unsqueeze(-1)).mul_(root.unsqueeze(-2))
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    high = extremes.find_high(B)
    kappa, fallbacks = high.value.clone(), torch.zeros_like(high.value, dtype=torch.long)
    failed = (~high.certified).nonzero().squeeze(-1)
    if len(failed):
        kappa[failed] = torch.linalg.eigvalsh(B[failed])[:, -1]
        fallbacks[failed] = 1
    target = kappa ** (1.0 - target_exponent)
    idle = ~(kappa - 1.0 > NOTHING)
    eta = torch.where(idle, 0.0, (kappa - 1.0) / (target - 1.0) - 1.0)
    return Calibration(eta, kappa, torch.where(idle, kappa, target), kappa.isfinite(), fallbacks)


def tempered_map(
    K: PointMatrix,
    C: Incidence,
    model: Probit,
    eta: PerRun,
    start: PerComparison,
    ties: PerComparisonMask | None = None,
) -> MapFit:
    """argmin J₀(f) + ½ η fᵀK⁻¹f: the MAP with the prior covariance divided by 1 + η; β is still K⁻¹ f."""
    divisor = (1.0 + eta).unsqueeze(-1)
    found = laplace.find_map(K / divisor.unsqueeze(-1), C, model, start=start, ties=ties)
    return found._replace(beta=found.beta / divisor)


def kernel_projector(C: Incidence) -> PointMatrix:
    """The projector onto ker C: it averages over every component of the comparison graph."""
    label = comparisons.components(C.pairs, C.n_points)
    same = (label.unsqueeze(-1) == label.unsqueeze(-2)).double()
    return same / same.sum(-1, keepdim=True)


def align(K: PointMatrix, C: Incidence, eta: PerRun) -> tuple[PointMatrix, PointMatrix]:
    """K_r = (K⁻¹ + R)⁻¹ and Q = K⁻¹ − K⁻¹ K_r K⁻¹ for R = ρP, P onto ker C and ρ = η N_cc/tr(PK).

    So the prior variance along ker C is divided by about 1 + η and no other direction is touched by R.
    """
    R = aligned_matrix(K, C, eta)
    # P is its own square, and R a multiple of it: (I + RK)⁻¹R = P (I + PRKP)⁻¹ R.
    P = kernel_projector(C).to(K)
    M = R @ K @ P
    M.diagonal(dim1=-2, dim2=-1).add_(1.0)
    Q = P @ torch.linalg.solve(M, R)
    return K - K @ Q @ K, Q


def aligned_matrix(K: PointMatrix, C: Incidence, eta: PerRun) -> PointMatrix:
    """R = ρP."""
    P = kernel_projector(C).to(K)
    mean = (P * K).sum((-2, -1)) / P.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (eta / mean)[..., None, None] * P


def aligned_map(
    K: PointMatrix,
    C: Incidence,
    model: Probit,
    eta: PerRun,
    start: PerComparison,
    ties: PerComparisonMask | None = None,
) -> MapFit:
    """argmin J₀(f) + ½ρ‖Pf‖²: the components of the comparison graph are drawn to a mean of zero."""
    K_r, Q = align(K, C, eta)
    found = laplace.find_map(K_r, C, model, start=start, ties=ties)
    return found._replace(beta=found.beta - (Q @ (K @ found.beta.unsqueeze(-1))).squeeze(-1))


def left_out(A: ComparisonMatrix, dual: DualFit, margin: float, ties: PerComparisonMask | None = None) -> PerComparison:
    """log p of every answer given all the others, in the Laplace approximation.

    Without its own site the difference has precision ω b/(1 − b) and mean z − slope (1 − b)/(ω b), b = (B⁻¹)_pp.
    """
    sites = likelihood.sites(dual.z, margin, ties)
    L = laplace.factor(A, sites.omega.sqrt())
    b = torch.cholesky_inverse(L).diagonal(dim1=-2, dim2=-1)
    # Where ω vanishes the answer taught nothing, and leaving it out changes nothing: the variance is the posterior's.
    posterior = _posterior_variance(A, sites.omega, L)
    variance = posterior / b
    wide = (1.0 + variance).sqrt()
    mean = dual.z - sites.slope * variance
    return likelihood.log_probability(mean / wide, margin / wide, ties)


def _posterior_variance(A: Tensor, omega: Tensor, L: Tensor) -> Tensor:
    half = torch.linalg.solve_triangular(L, omega.sqrt().unsqueeze(-1) * A, upper=False)
    return (A.diagonal(dim1=-2, dim2=-1) - half.square().sum(-2)).clamp(min=0.0)
