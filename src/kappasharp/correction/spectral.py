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

from typing import NamedTuple

import torch

from kappasharp.correction.strength import Calibration
from kappasharp.inference import comparisons, laplace, likelihood
from kappasharp.inference.comparisons import Incidence
from kappasharp.inference.laplace import DualFit, MapFit
from kappasharp.inference.likelihood import Probit, Ties
from kappasharp.numerics import eigenvalues
from kappasharp.tensors import ComparisonMatrix, PerComparison, PerRun, PointMatrix, apply

# Below this κ − 1 the answers hardly outweigh the prior anywhere, and nothing is corrected.
NOTHING = 1e-9


def calibrate(A: ComparisonMatrix, omega: PerComparison, target_exponent: float) -> Calibration:
    """The η with 1 + μ/(1 + η) = (1 + μ)^(1−α), from a certified largest eigenvalue."""
    if omega.shape[-1] == 0:
        one = A.new_ones(A.shape[:-2])  # without answers nothing outweighs the prior
        return Calibration(torch.zeros_like(one), one, one, one == 1, torch.zeros_like(one, dtype=torch.long))
    B = laplace.information(A, omega.sqrt())
    high = eigenvalues.find_high(B)
    kappa, fallbacks = high.value.clone(), torch.zeros_like(high.value, dtype=torch.long)
    failed = (~high.certified).nonzero().squeeze(-1)
    if len(failed):
        kappa[failed] = torch.linalg.eigvalsh(B[failed])[:, -1]
        fallbacks[failed] = 1
    target = kappa ** (1.0 - target_exponent)
    idle = ~(kappa - 1.0 > NOTHING)
    eta = torch.where(idle, 0.0, (kappa - 1.0) / (target - 1.0) - 1.0)
    return Calibration(eta, kappa, torch.where(idle, kappa, target), kappa.isfinite(), fallbacks)


class Shrunk(NamedTuple):
    """The prior covariance K_r = (K⁻¹ + R)⁻¹ that a correction leaves, and I − K⁻¹ K_r, its part in β = K⁻¹ f."""

    K: PointMatrix
    share: PointMatrix


def tempered(K: PointMatrix, C: Incidence, eta: PerRun) -> Shrunk:
    """R = ηK⁻¹: the prior covariance divided by 1 + η."""
    del C  # the same for every graph
    divisor = (1.0 + eta)[..., None, None]
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    return Shrunk(K / divisor, eye * (1.0 - 1.0 / divisor))


def kernel_projector(C: Incidence) -> PointMatrix:
    """The projector onto ker C: it averages over every component of the comparison graph."""
    label = comparisons.components(C.pairs, C.n_points)
    same = (label.unsqueeze(-1) == label.unsqueeze(-2)).double()
    return same / same.sum(-1, keepdim=True)


def aligned(K: PointMatrix, C: Incidence, eta: PerRun) -> Shrunk:
    """R = ρP, P onto ker C and ρ = η N_cc/tr(PK): the components of the comparison graph are drawn to a mean of zero.

    So the prior variance along ker C is divided by about 1 + η and no other direction is touched by R.
    """
    R = aligned_matrix(K, C, eta)
    M = R @ K
    M.diagonal(dim1=-2, dim2=-1).add_(1.0)
    share = torch.linalg.solve(M, R @ K)
    return Shrunk(K - K @ share, share)


def aligned_matrix(K: PointMatrix, C: Incidence, eta: PerRun) -> PointMatrix:
    """R = ρP."""
    P = kernel_projector(C).to(K)
    mean = (P * K).sum((-2, -1)) / P.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (eta / mean)[..., None, None] * P


def find_map(shrunk: Shrunk, C: Incidence, model: Probit, start: PerComparison, ties: Ties = None) -> MapFit:
    """argmin J₀(f) + ½ fᵀRf, with β = K⁻¹ f for the prior that predictions use."""
    found = laplace.find_map(shrunk.K, C, model, start=start, ties=ties)
    return found._replace(beta=found.beta - apply(shrunk.share, found.beta))


def left_out(A: ComparisonMatrix, dual: DualFit, margin: float, ties: Ties = None) -> PerComparison:
    """log p of every answer given all the others, in the Laplace approximation.

    Without its own site the difference has precision ω b/(1 − b) and mean z − slope (1 − b)/(ω b), b = (B⁻¹)_pp.
    """
    sites = likelihood.sites(dual.z, margin, ties)
    explained, L = laplace.explained(A, A, sites.omega.sqrt())
    b = torch.cholesky_inverse(L).diagonal(dim1=-2, dim2=-1)
    # Where ω vanishes the answer taught nothing, and leaving it out changes nothing: the variance is the posterior's.
    variance = (A.diagonal(dim1=-2, dim2=-1) - explained).clamp(min=0.0) / b
    wide = (1.0 + variance).sqrt()
    mean = dual.z - sites.slope * variance
    return likelihood.log_probability(mean / wide, margin / wide, ties)
