"""What the comparisons determine and what they leave to the prior, in numbers. Dense and exact; not for hot loops.

Notation
    H       (*batch, n, n)  K⁻¹ + Cᵀ W C at the MAP in use                                          [eq:precision]
    r       (*batch, n)     diagonal of the correction, zero where it does not act
    mu      (*batch, n)     eigenvalues of K^½ H_lik K^½; d_eff = Σ μ/(1 + μ)                      [prop:info_dim]
    lambda_1 (*batch,)      largest eigenvalue of H^−½ R H^−½                                 [thm:one_step_regret]
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import comparisons, laplace, likelihood
from kappasharp.inference.comparisons import Incidence
from kappasharp.inference.likelihood import Ties
from kappasharp.tensors import Indices, PerComparison, PerRun, PointMatrix, Points, Utilities

# Beyond this z an answer is so expected that it hardly bends the likelihood (ω < 2 % of its largest value).
SATURATED = 3.0
# Points closer than this, in length scales, are as good as the same point to the kernel (correlation above 1 − 5e-7).
NEAR_DUPLICATE = 1e-3


class Diagnostics(NamedTuple):
    """One number per run for each question one may ask of a fit."""

    n_components: Indices
    rank: Indices
    effective_dof: PerRun
    eigenvalue_low: PerRun
    eigenvalue_high: PerRun
    condition_before: PerRun
    condition_after: PerRun
    strength: PerRun
    map_shift: PerRun
    map_shift_bound: PerRun
    relative_correction: PerRun
    acquisition_gap_bound: PerRun
    saturated_share: PerRun
    near_duplicates: Indices


def effective_dof(K: PointMatrix, C: Incidence, weights: PerComparison) -> PerRun:
    """d_eff = Σ μ/(1 + μ), as m − tr B⁻¹ in comparison space. [prop:info_dim]"""
    m = weights.shape[-1]
    if m == 0:
        return weights.new_zeros(weights.shape[:-1])
    L = laplace.factor(comparisons.congruence(C, K), weights.sqrt())
    eye = torch.eye(m, dtype=K.dtype, device=K.device).expand_as(L)
    inverse_root = torch.linalg.solve_triangular(L, eye, upper=False)
    return m - inverse_root.square().sum((-2, -1))


def path_weights(z_0: PerComparison, z_1: PerComparison, margin: float, ties: Ties) -> PerComparison:
    """The mean of ω along the straight path from z₀ to z₁: exactly the fall of the slope over the distance."""
    start, end = likelihood.sites(z_0, margin, ties), likelihood.sites(z_1, margin, ties)
    step = z_1 - z_0
    # Over a tiny step the quotient is rounding; the ends' mean is then exact to second order.
    small = step.abs() < 1e-6 * (1.0 + z_0.abs())
    quotient = (start.slope - end.slope) / torch.where(small, torch.ones_like(step), step)
    return torch.where(small, 0.5 * (start.omega + end.omega), quotient)


def relative_size(H: PointMatrix, R: Utilities | PointMatrix) -> PerRun:
    """The largest eigenvalue of H^−½ R H^−½: how large the correction is beside the Hessian. R may be its diagonal."""
    L = torch.linalg.cholesky(H)
    if R.dim() < H.dim():
        half = torch.linalg.solve_triangular(L, torch.diag_embed(R.sqrt()), upper=False)
        return torch.linalg.matrix_norm(half, 2).square()
    left = torch.linalg.solve_triangular(L, R, upper=False)
    return torch.linalg.eigvalsh(torch.linalg.solve_triangular(L, left.mT, upper=False))[..., -1].clamp(min=0.0)


def map_shift(H_bar: PointMatrix, f_0: Utilities, f_1: Utilities, R: Utilities | PointMatrix) -> tuple[PerRun, PerRun]:
    """‖f̂_η − f̂₀‖ and its bound μ/(1 + μ) ‖f̂₀‖, both in the norm of the path-averaged Hessian. [prop:bias_bound]"""
    mu = relative_size(H_bar, R)
    return _norm(H_bar, f_1 - f_0), mu / (1.0 + mu) * _norm(H_bar, f_0)


def _norm(H: PointMatrix, f: Utilities) -> PerRun:
    return (f.unsqueeze(-2) @ H @ f.unsqueeze(-1)).squeeze(-1).squeeze(-1).clamp(min=0.0).sqrt()


def acquisition_gap_bound(lambda_1: PerRun, outputscale: PerRun) -> PerRun:
    """sup s · λ₁/√(2π) with s² ≤ 4 sup k: what MAP-only can lose in EUBO to full augmentation. [thm:one_step_regret]"""
    return 2.0 * outputscale.sqrt() * lambda_1 / math.sqrt(2.0 * math.pi)


def condition_number(M: PointMatrix) -> tuple[PerRun, PerRun, PerRun]:
    """Smallest and largest eigenvalue of M, and their ratio κ."""
    values = torch.linalg.eigvalsh(M)
    return values[..., 0], values[..., -1], values[..., -1] / values[..., 0]


def near_duplicates(X: Points, lengthscale: Tensor) -> Indices:
    """How many points have another within NEAR_DUPLICATE length scales."""
    scaled = X / lengthscale.unsqueeze(-2)
    # Without the matrix-product shortcut, whose rounding is as large as the distances in question.
    distance = torch.cdist(scaled, scaled, compute_mode="donot_use_mm_for_euclid_dist")
    distance.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    return (distance.amin(-1) < NEAR_DUPLICATE).sum(-1)


def saturated_share(z: PerComparison) -> PerRun:
    """The share of answers that the model expected so surely that they no longer inform it."""
    if z.shape[-1] == 0:
        return z.new_zeros(z.shape[:-1])
    return (z > SATURATED).to(z).mean(-1)
