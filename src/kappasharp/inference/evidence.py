"""The Laplace evidence at a MAP and its derivative in the prior covariance of the differences.

Notation
    theta  (*batch, d+1)   log ℓ₁ … log ℓ_d, log s
    A      (*batch, m, m)  C K Cᵀ/(2σ²), the prior covariance of the standardised differences
    alpha  (*batch, m)     dual weights at the MAP
    B      (*batch, m, m)  I + ω^½ A ω^½
    G      (*batch, m, m)  ∂ log Z / ∂A

log Z ≈ Σ log p(z) − ½ αᵀ z − ½ log|B|. Its gradient has an explicit part and one through the MAP
(Rasmussen and Williams, section 5.5.1), both carried by the one matrix G.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import laplace, likelihood
from kappasharp.inference.likelihood import Probit, Ties
from kappasharp.kernels.priors import PRIORS, JointPriors, PeoplePriors, Priors
from kappasharp.kernels.stationary import Covariance
from kappasharp.settings import Curvature, Preset
from kappasharp.tensors import ComparisonMatrix, Parameters, PerComparison, PerRun, PerRunMask


class Model(NamedTuple):
    """Everything about the model but its hyperparameters."""

    family: Covariance
    nugget: float
    likelihood: Probit
    priors: Priors | JointPriors | PeoplePriors
    curvature: Curvature = "mode"


# A preset's numbers as the model that the equations take.


def model_from(preset: Preset) -> Model:
    """The model that a preset stands for: kernel, nugget, likelihood, priors and the posterior's curvature."""
    probit = Probit(preset.noise, preset.threshold)
    priors = PRIORS[preset.priors].in_units_of(preset.noise)
    return Model(preset.kernel, preset.nugget, probit, priors, preset.curvature)


class Evidence(NamedTuple):
    """log Z without the priors, its gradient in theta, and the MAP it was taken at."""

    value: PerRun
    gradient: Parameters
    z: PerComparison
    converged: PerRunMask


def value_and_slope(
    probit: Probit, A: ComparisonMatrix, dual: laplace.DualFit, ties: Ties
) -> tuple[PerRun, ComparisonMatrix]:
    """log Z and G = ∂ log Z/∂A at the MAP."""
    alpha, z = dual.alpha, dual.z
    curvature = likelihood.curvature(z, probit.margin, ties)
    root = curvature.omega.sqrt()
    L = laplace.factor(A, root)
    fit = torch.addcmul(likelihood.log_probability(z, probit.margin, ties), alpha, z, value=-0.5)
    value = (fit - L.diagonal(dim1=-2, dim2=-1).log()).sum(-1)
    B_inverse = torch.cholesky_inverse(L)
    # The posterior variance of a difference times ω is 1 − (B⁻¹)_pp: no division by an ω that may underflow.
    pull = (B_inverse.diagonal(dim1=-2, dim2=-1) - 1.0) * curvature.log_slope
    R = B_inverse.mul_(root.unsqueeze(-1)).mul_(root.unsqueeze(-2))
    u = pull - (R @ (A @ pull.unsqueeze(-1))).squeeze(-1)
    # G = ½[ααᵀ − R + ½(uαᵀ + αuᵀ)], u = 2 (I + ωA)⁻¹ of the pull on z.
    outer = u.unsqueeze(-1) * alpha.unsqueeze(-2)
    G = torch.addcmul(outer + outer.mT, alpha.unsqueeze(-1), alpha.unsqueeze(-2), value=2.0)
    return value, G.sub_(R, alpha=2.0).mul_(0.25)


def value_at(probit: Probit, dual: laplace.DualFit, L: Tensor, ties: Ties) -> PerRun:
    """log Z at a MAP, given a Cholesky factor L of B, or of any matrix with its determinant."""
    fit = torch.addcmul(likelihood.log_probability(dual.z, probit.margin, ties), dual.alpha, dual.z, value=-0.5)
    return fit.sum(-1) - L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class _AtMap(torch.autograd.Function):
    """log Z as a function of A, with G as its derivative: the MAP's own dependence on A is in G."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, probit: Probit, dual: laplace.DualFit, ties: Ties) -> Tensor:
        value, G = value_and_slope(probit, A, dual, ties)
        ctx.save_for_backward(G)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (G,) = ctx.saved_tensors
        return upstream[0][..., None, None] * G, None, None, None


def log_evidence(probit: Probit, A: ComparisonMatrix, dual: laplace.DualFit, ties: Ties = None) -> PerRun:
    """log Z at a MAP that was found for this A, differentiable in A: for kernels whose derivatives are not ours."""
    return _AtMap.apply(A, probit, dual, ties)  # type: ignore[no-untyped-call]
