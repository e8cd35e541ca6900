"""The Laplace fit on points, with n × n matrices instead of m × m: the same numbers for fewer designs than answers.

Notation
    K      (*batch, n, n)  prior covariance of the utilities, F its Cholesky factor: K = F Fᵀ
    Lambda (*batch, n, n)  Cᵀ diag(ω) C/(2σ²), the weighted graph Laplacian                [prop:graph_laplacian]
    B      (*batch, n, n)  I + Fᵀ Λ F, with the determinant and the eigenvalues (but for ones) of the B of laplace.py
    Sigma  (*batch, n, n)  F B⁻¹ Fᵀ = (K⁻¹ + Λ)⁻¹, the posterior covariance

A long study asks about some designs again and again: 2,000 answers about 400 designs cost 400³ here and 2,000³ there.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import comparisons, evidence, laplace, likelihood
from kappasharp.inference.comparisons import Answers, Incidence
from kappasharp.inference.evidence import Evidence, Model
from kappasharp.inference.laplace import Conditioned, DualFit, MapFit
from kappasharp.inference.likelihood import Probit, Ties
from kappasharp.kernels import stationary
from kappasharp.kernels.stationary import KernelPart
from kappasharp.tensors import Parameters, PerComparison, PerRun, PointMatrix, Points, apply


class PointSpace(NamedTuple):
    """The answers of a flat batch of runs, to be fitted on points (the contract: fit_space.py)."""

    X: Points
    C: Incidence
    ties: Ties

    @property
    def answers(self) -> Answers:
        """The answers themselves."""
        return Answers(self.X, self.C.pairs, self.ties)

    @property
    def size(self) -> int:
        """The number whose cube is the cost of one evaluation: a Newton step is 7/3 n³ here, m³/3 there."""
        return 2 * self.C.n_points

    def gather(self) -> "PointSpace":
        """What the evidence needs is here already."""
        return self

    def coarse(self) -> "PointSpace":
        """K needs a Cholesky factor, which single precision does not promise: there is nothing coarser."""
        return self

    def condition(self, model: Model, K: PointMatrix, start: PerComparison) -> Conditioned:
        """The posterior given K; `start` is a guess at the differences."""
        return condition(model, K, self.C, start, self.ties)

    def evaluate(self, model: Model, theta: Parameters, start: PerComparison) -> Evidence:
        """log Z and its gradient at theta; the twin of `comparison_space.EndPoints.evaluate`."""
        K = stationary.covariance(model.family, self.X, theta, model.nugget)
        F, failed = torch.linalg.cholesky_ex(K)
        dual = solve(F, self.C, model.likelihood, start, self.ties)
        value, G = _value_and_slope(model.likelihood, F, self.C, dual, self.ties)
        slopes = [self._slopes(model, part, G) for part in stationary.parts(model.family, theta)]
        by_lengthscale, by_outputscale = zip(*slopes, strict=True)
        gradient = torch.cat([*by_lengthscale, *by_outputscale], -1)
        return Evidence(value, gradient, dual.z, dual.converged & (failed == 0))

    def _slopes(self, model: Model, part: KernelPart, G: PointMatrix) -> tuple[Tensor, Tensor]:
        """log Z's derivatives in one kernel's log length scales and log output scale, from that in K."""
        X = self.X[..., part.at] - 0.5
        scaled = X / part.lengthscale.unsqueeze(-2)
        k, slope = stationary.profile(part.family, stationary.half_distances(scaled, scaled))
        T = G * slope
        moments = (X * (X * T.sum(-1, keepdim=True) - T @ X)).sum(-2)
        scale = part.outputscale.unsqueeze(-1)
        own = (G * k).sum((-2, -1)) + model.nugget * G.diagonal(dim1=-2, dim2=-1).sum(-1)
        return moments * (2.0 * scale) / part.lengthscale.square(), own.unsqueeze(-1) * scale


def factor(F: PointMatrix, C: Incidence, weights: PerComparison) -> PointMatrix:
    """Cholesky factor of B, for weights ω/(2σ²)."""
    B = F.mT @ comparisons.transpose_rows(C, weights.unsqueeze(-1) * comparisons.rows(C, F))
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return torch.linalg.cholesky_ex(B)[0]


def solve(F: PointMatrix, C: Incidence, probit: Probit, start: PerComparison, ties: Ties = None) -> DualFit:
    """The MAP by Newton steps f = Σ Cᵀ b, from the differences z = `start`; the twin of `laplace.solve`."""
    limit, margin, scale = laplace.tolerance(F.dtype), probit.margin, probit.scale
    sites, z = likelihood.sites(start, margin, ties), start
    alpha, iterations = start, torch.zeros(start.shape[:-1], dtype=torch.long, device=start.device)
    moving = iterations == 0
    for _ in range(laplace.PLAIN_ITERATIONS):
        b = torch.addcmul(sites.slope, sites.omega, z)
        pull = comparisons.transpose(C, b).unsqueeze(-1) / scale
        f = F @ torch.cholesky_solve(F.mT @ pull, factor(F, C, sites.omega / scale**2))
        target = comparisons.differences(C, f.squeeze(-1)) / scale
        # A run that has settled stays where it is, so that its result does not depend on company.
        keep = moving.unsqueeze(-1)
        alpha = torch.where(keep, torch.addcmul(b, sites.omega, target, value=-1.0), alpha)
        z = torch.where(keep, target, z)
        sites = likelihood.sites(z, margin, ties)
        gradient = (alpha - sites.slope).abs_().amax(-1)
        iterations = iterations + moving
        moving = ~(gradient <= limit)
        if not bool(moving.any()):
            break
    fit = DualFit(alpha, z, ~moving, iterations, gradient)
    if not bool(moving.any()):
        return fit
    half = comparisons.rows(C, F) / scale
    return laplace.damp(fit, half @ half.mT, margin, ties)


def _covariance(F: PointMatrix, L: PointMatrix) -> PointMatrix:
    half = torch.linalg.solve_triangular(L, F.mT, upper=False)
    return half.mT @ half


def _variances(C: Incidence, Sigma: PointMatrix) -> PerComparison:
    """The diagonal of C Σ Cᵀ."""
    winner, loser = C.pairs[..., 0], C.pairs[..., 1]
    own = Sigma.diagonal(dim1=-2, dim2=-1)
    both = Sigma.flatten(-2).gather(-1, winner * C.n_points + loser)
    return (own.gather(-1, winner) + own.gather(-1, loser) - 2.0 * both).clamp(min=0.0)


def _value_and_slope(
    probit: Probit, F: PointMatrix, C: Incidence, dual: DualFit, ties: Ties
) -> tuple[PerRun, PointMatrix]:
    """log Z and ∂ log Z/∂K at the MAP."""
    alpha, z, scale = dual.alpha, dual.z, probit.scale
    curvature = likelihood.curvature(z, probit.margin, ties)
    weights = curvature.omega / scale**2
    L = factor(F, C, weights)
    value = evidence.value_at(probit, dual, L, ties)
    Sigma = _covariance(F, L)
    pull = -weights * _variances(C, Sigma) * curvature.log_slope
    # u = 2 (I + ωA)⁻¹ of the pull on z, as in evidence.py, and (I + ωA)⁻¹ = I − ω C Σ Cᵀ/(2σ²).
    moved = apply(Sigma, comparisons.transpose(C, pull))
    u = pull - weights * comparisons.differences(C, moved)
    a, v = (comparisons.transpose(C, part).unsqueeze(-1) / scale for part in (alpha, u))
    Lambda = comparisons.laplacian(C, weights)
    outer = (a + v) @ a.mT
    return value, 0.25 * (outer + outer.mT) - 0.5 * (Lambda - Lambda @ Sigma @ Lambda)


def condition(model: Model, K: PointMatrix, C: Incidence, start: PerComparison, ties: Ties = None) -> Conditioned:
    """The posterior given K; the twin of `comparison_space.condition`."""
    probit = model.likelihood
    F, failed = torch.linalg.cholesky_ex(K)
    dual = solve(F, C, probit, start, ties)
    dual = dual._replace(converged=dual.converged & (failed == 0))
    beta = comparisons.transpose(C, dual.alpha) / probit.scale
    omega = likelihood.curvature(dual.z, probit.margin, ties).omega
    value = evidence.value_at(probit, dual, factor(F, C, omega / probit.scale**2), ties)
    if model.curvature == "averaged":
        omega = averaged_omega(F, C, probit, dual.z, ties)
    root = information_root(K, C, omega / probit.scale**2)
    return Conditioned(K, C, ties, MapFit(apply(K, beta), beta, dual), root, value)


def averaged_omega(F: PointMatrix, C: Incidence, probit: Probit, z: PerComparison, ties: Ties = None) -> PerComparison:
    """ω averaged over the posterior of every difference; the twin of `comparison_space.averaged_omega`."""

    def variance(omega: PerComparison) -> PerComparison:
        return _variances(C, _covariance(F, factor(F, C, omega / probit.scale**2))) / probit.scale**2

    prior = _variances(C, F @ F.mT) / probit.scale**2
    return laplace.average(prior, variance, z, probit.margin, ties)


def information_root(K: PointMatrix, C: Incidence, weights: PerComparison) -> PointMatrix:
    """An n × n root of K⁻¹ − K⁻¹ Σ K⁻¹; the twin of `comparison_space.information_root`.

    With S Sᵀ = CᵀWC, from the triangular factor of W^½ C, it is S (I + Sᵀ K S)⁻¹ Sᵀ: nothing cancels.
    """
    root = weights.sqrt().unsqueeze(-1)
    eye = torch.eye(C.n_points, dtype=K.dtype, device=K.device).expand(*K.shape[:-2], C.n_points, C.n_points)
    S = torch.linalg.qr(root * comparisons.rows(C, eye), mode="r").R.mT
    B = S.mT @ K @ S
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return torch.linalg.solve_triangular(torch.linalg.cholesky_ex(B)[0], S.mT, upper=False).mT
