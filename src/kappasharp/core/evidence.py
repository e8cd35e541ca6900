"""The Laplace evidence, its analytic gradient, and the hyperparameters that maximise it under their priors.

Notation
    theta  (*batch, d+1)   log ℓ₁ … log ℓ_d, log s
    E      (*batch, 2m, d) end points of the comparisons: all winners, then all losers
    A      (*batch, m, m)  C K Cᵀ/(2σ²), the prior covariance of the standardised differences
    alpha  (*batch, m)     dual weights at the MAP
    B      (*batch, m, m)  I + ω^½ A ω^½
    G      (*batch, m, m)  ∂ log Z / ∂A

log Z ≈ Σ log p(z) − ½ αᵀ z − ½ log|B|. Its gradient has an explicit part and one through the MAP
(Rasmussen and Williams, section 5.5.1), both carried by the one matrix G. A is assembled from the end points, so
nothing is gathered or scattered while the hyperparameters move.
"""

import math
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.core import descent, kernel, laplace, likelihood
from kappasharp.core.kernel import Family, Priors
from kappasharp.core.likelihood import Probit
from kappasharp.kernels import evidence as kernels
from kappasharp.kernels import launch
from kappasharp.kernels.launch import Execute
from kappasharp.shapes import (
    ComparisonMatrix,
    Indices,
    Pairs,
    Parameters,
    PerComparison,
    PerComparisonMask,
    PerRun,
    PerRunMask,
    Points,
)

# Where the posterior covariance takes the likelihood's curvature: at the MAP, or averaged over the posterior.
Curvature = Literal["mode", "averaged"]


class Model(NamedTuple):
    """Everything about the model but its hyperparameters."""

    family: Family
    nugget: float
    likelihood: Probit
    priors: Priors
    curvature: Curvature = "mode"


class Evidence(NamedTuple):
    """log Z without the priors, its gradient in theta, and the MAP it was taken at."""

    value: PerRun
    gradient: Parameters
    z: PerComparison
    converged: PerRunMask


class Data(NamedTuple):
    """What the evidence needs of every run's answers; `ties` is None where no answer is a tie."""

    E: Points
    signed: Points
    gram: ComparisonMatrix
    ties: PerComparisonMask | None

    def take(self, rows: Tensor) -> "Data":
        """The data of some runs of a flat batch, any of them more than once."""
        return take(self, rows)

    def evaluate(self, model: Model, theta: Parameters, start: PerComparison) -> Evidence:
        """log Z and its gradient at theta."""
        return evaluate(model, self, theta, start)


@runtime_checkable
class Evaluable(Protocol):
    """Answers whose evidence can be evaluated, on m × m matrices (`Data`) or on n × n ones (`reduced.Data`)."""

    def take(self, rows: Tensor, /) -> "Evaluable":
        """The same for some runs."""
        ...

    def evaluate(self, model: Model, theta: Parameters, start: PerComparison, /) -> Evidence:
        """log Z and its gradient at theta, the MAP's search started from the standardised differences `start`."""
        ...


class Hyperfit(NamedTuple):
    """The best hyperparameters found, and how the search ended; `searched_on` answers it began (stages.py)."""

    theta: Parameters
    value: PerRun
    gradient: Parameters
    converged: PerRunMask
    rounds: Indices
    searched_on: Indices


def gather(X: Points, pairs: Pairs, ties: PerComparisonMask | None = None) -> Data:
    """The end points of every comparison, the same with sign and a one, and C Cᵀ, by which the nugget enters A."""
    flat = torch.cat([pairs[..., 0], pairs[..., 1]], -1)
    E = X.gather(-2, flat.unsqueeze(-1).expand(*flat.shape, X.shape[-1])) - 0.5
    sign = torch.ones_like(E[..., :1])
    sign[..., pairs.shape[-2] :, :] = -1.0
    same = (flat.unsqueeze(-1) == flat.unsqueeze(-2)).to(X)
    return Data(E, torch.cat([E * sign, sign], -1), _contrast(same), ties)


def take(data: Data, rows: Tensor) -> Data:
    """The data of some runs of a flat batch, any of them more than once."""
    E, signed, gram = (part.index_select(0, rows) for part in data[:3])
    return Data(E, signed, gram, None if data.ties is None else data.ties.index_select(0, rows))


def _contrast(M: Tensor) -> Tensor:
    """The m × m second difference, winner minus loser on both sides, of a 2m × 2m matrix over end points."""
    m = M.shape[-1] // 2
    half = M[..., :m, :] - M[..., m:, :]
    return half[..., :m] - half[..., m:]


def evaluate(model: Model, data: Data, theta: Parameters, start: PerComparison) -> Evidence:
    """log Z and its gradient at theta, the MAP's search started from the standardised differences `start`."""
    lengthscale, outputscale = kernel.split(theta)
    E = data.E / lengthscale.unsqueeze(-2)
    k, slope = kernel.profile(model.family, kernel.half_distances(E, E))
    scale = (outputscale / model.likelihood.scale**2).unsqueeze(-1)
    A = _contrast(k).add_(data.gram, alpha=model.nugget).mul_(scale.unsqueeze(-1))
    dual = laplace.solve(A, model.likelihood.margin, start, data.ties)
    value, G = _value_and_slope(model.likelihood, A, dual, data.ties)
    by_lengthscale = _lengthscale_moments(data, G, slope) * (2.0 * scale) / lengthscale.square()
    # ∂A/∂log s = A.
    by_outputscale = (G * A).sum((-2, -1)).unsqueeze(-1)
    return Evidence(value, torch.cat([by_lengthscale, by_outputscale], -1), dual.z, dual.converged)


def _lengthscale_moments(data: Data, G: ComparisonMatrix, slope: Tensor) -> Tensor:
    """½ Σ_pq P_pq (x_pj − x_qj)² over end points p, q for every dimension j, with P_pq = ±G_pq S_pq.

    The sum is Σ_p x_pj (x_pj Σ_q P_pq − Σ_q P_pq x_qj); signs and row sums ride along in one product with `signed`.
    """
    m, d = G.shape[-1], data.E.shape[-1]
    tiled = slope.unflatten(-1, (2, m)).unflatten(-3, (2, m)) * G.unsqueeze(-2).unsqueeze(-4)
    product = tiled.flatten(-4, -3).flatten(-2, -1) @ data.signed
    inner = torch.addcmul(-product[..., :d], data.E, product[..., d:])
    return (data.signed[..., :d] * inner).sum(-2)


def _value_and_slope(
    probit: Probit, A: ComparisonMatrix, dual: laplace.DualFit, ties: PerComparisonMask | None
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


def value_at(probit: Probit, dual: laplace.DualFit, L: Tensor, ties: PerComparisonMask | None) -> PerRun:
    """log Z at a MAP, given a Cholesky factor L of B, or of any matrix with its determinant."""
    fit = torch.addcmul(likelihood.log_probability(dual.z, probit.margin, ties), dual.alpha, dual.z, value=-0.5)
    return fit.sum(-1) - L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class _AtMap(torch.autograd.Function):
    """log Z as a function of A, with G as its derivative: the MAP's own dependence on A is in G."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, probit: Probit, dual: laplace.DualFit, ties: Tensor | None) -> Tensor:
        value, G = _value_and_slope(probit, A, dual, ties)
        ctx.save_for_backward(G)
        return value

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (G,) = ctx.saved_tensors
        return upstream[0][..., None, None] * G, None, None, None


def log_evidence(
    probit: Probit, A: ComparisonMatrix, dual: laplace.DualFit, ties: PerComparisonMask | None = None
) -> PerRun:
    """log Z at a MAP that was found for this A, differentiable in A: for kernels whose derivatives are not ours."""
    return _AtMap.apply(A, probit, dual, ties)  # type: ignore[no-untyped-call]


class NegativeLogPosterior:
    """Minus evidence plus priors, as descent wants it; keeps each row's last MAP as the next one's start."""

    def __init__(self, model: Model, data: Evaluable, z: PerComparison) -> None:
        self.model, self.data, self.z = model, data, z

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, d + 1)."""
        evidence = self.data.evaluate(self.model, theta, self.z)
        priors = self.model.priors
        value = evidence.value + priors.log_density(theta)
        # A MAP without certificate has no evidence: the search must not move there.
        usable = evidence.converged & value.isfinite()
        self.z = torch.where(usable.unsqueeze(-1), evidence.z, self.z)
        return torch.where(usable, -value, torch.inf), -(evidence.gradient + priors.slope(theta))

    def take(self, rows: Tensor) -> "NegativeLogPosterior":
        """The same for these rows."""
        return NegativeLogPosterior(self.model, self.data.take(rows), self.z.index_select(0, rows))


def tolerances(dtype: torch.dtype) -> descent.Tolerances:
    """When the search stops: at a promised gain of 5e-5 nats, or at single precision's own noise in the evidence."""
    fine = dtype == torch.float64
    return descent.Tolerances(
        gradient=1e-3 if fine else 1e-2, decrease=5e-5 if fine else 1e-3, max_rounds=200, longest_step=2.0
    )


def maximize(model: Model, data: Evaluable, theta: Parameters, z: PerComparison) -> Hyperfit:
    """The hyperparameters that maximise evidence plus log prior, from theta, for one flat batch of runs.

    One kernel does it where there is one for these runs; which way was taken is counted in kernels.launch.taken.
    """
    found = fused_search(model, data, theta, z) if isinstance(data, Data) else None
    if found is None:
        low, high = model.priors.bounds(theta)
        objective = NegativeLogPosterior(model, data, z)
        found = descent.minimize(objective, theta, low, high, tolerances(theta.dtype))
    searched_on = torch.full_like(found.rounds, z.shape[-1])
    return Hyperfit(found.x, -found.value, -found.gradient, found.converged, found.rounds, searched_on)


def fused_search(
    model: Model, data: Data, theta: Parameters, z: PerComparison, execute: Execute | None = None
) -> descent.Descent | None:
    """The same search as one launch, of `execute` if given; None where the kernel does not take these runs."""
    if execute is None and launch.elsewhere("evidence", theta):
        return None
    probit, limits = model.likelihood, tolerances(theta.dtype)
    constants = kernels.EvidenceConstants(
        matern=model.family == "matern52",
        nugget=model.nugget,
        scale=probit.scale,
        margin=probit.margin,
        prior=model.priors.lengthscale.terms(theta.shape[-1] - 1),
        newton=(laplace.tolerance(theta.dtype), laplace.PLAIN_ITERATIONS, laplace.DAMPED_ITERATIONS),
        limits=descent.numbers(limits),
        max_rounds=limits.max_rounds,
    )
    rows = kernels.Rows(data.E, data.gram, theta, z)
    other = "an answer is a tie" if data.ties is not None else None
    if math.isfinite(model.priors.outputscale_spread):
        other = "the output scale has a prior of its own"
    if execute is None and kernels.refusal(rows, constants, other) is not None:
        return None
    low, high = (end[0] for end in model.priors.bounds(theta))
    found = kernels.minimize(rows, (low, high), constants, execute or launch.execute)
    return descent.of_kernel(*found[:5])
