"""The fitted model of one batch of runs: hyperparameters, plain MAP, posterior, certificates."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.core import (
    comparisons,
    conditioning,
    correction,
    evidence,
    kernel,
    laplace,
    likelihood,
    point_space,
    posterior,
    staged_search,
)
from kappasharp.core.comparisons import Incidence
from kappasharp.core.evidence import Evaluable, Hyperfit, Model
from kappasharp.core.laplace import MapFit
from kappasharp.core.posterior import Posterior


class Answers(NamedTuple):
    """Points (runs, n, d), comparisons (runs, m, 2), and which of them were ties (None: none)."""

    X: Tensor
    pairs: Tensor
    ties: Tensor | None = None


class Fit(NamedTuple):
    """The plain Laplace fit of a flat batch of runs, before any correction."""

    X: Tensor
    C: Incidence
    ties: Tensor | None
    hyper: Hyperfit
    K: Tensor
    map: MapFit
    posterior: Posterior


def fit_hyperparameters(model: Model, data: Evaluable, starts: list[Tensor], z: Tensor) -> Hyperfit:
    """The best hyperparameters over all starts; the runs of every start go through one batch."""
    runs = len(z)
    if z.shape[-1] == 0:
        # Without answers the evidence is flat: the prior's own mode stands.
        theta, flat = starts[0], z.new_zeros(runs)
        return Hyperfit(theta, flat, torch.zeros_like(theta), flat == 0, flat.long(), flat.long())
    copies = len(starts)
    many = torch.arange(runs, device=z.device).repeat(copies)
    found = evidence.maximize(model, data.take(many), torch.cat(starts), z[many])
    best = found.value.reshape(copies, runs).nan_to_num(nan=-torch.inf).argmax(0)
    rows = best * runs + torch.arange(runs, device=z.device)
    return Hyperfit(*(part[rows] for part in found))


def fit(
    model: Model, answers: Answers, *, theta: Tensor | None = None, z: Tensor | None = None, cold: bool = True
) -> Fit:
    """Line 3 of Algorithm 1: hyperparameters, MAP f̂₀ and the posterior 𝒩(f̂₀, H⁻¹), warm from theta and z if given.

    `cold` starts from the prior's mode as well; the better end wins.
    """
    X, pairs, ties = answers
    runs, _, d = X.shape
    C = comparisons.incidence(pairs, X.shape[-2])
    starts = [] if theta is None else [theta]
    if cold or theta is None:
        starts.append(model.priors.start(d).to(X).expand(runs, -1))
    z = X.new_zeros(pairs.shape[:-1]) if z is None else z
    if staged_search.sizes(model, X, z.shape[-1]):
        hyper, z = staged_search.search(model, staged_search.Answered(*answers), starts, z, warm=theta is not None)
    elif point_space.applies(model, X, z.shape[-1]):
        hyper = fit_hyperparameters(model, point_space.Data(X, C, ties), starts, z)
    else:
        hyper = fit_hyperparameters(model, evidence.gather(X, pairs, ties), starts, z)
    K = kernel.covariance(model.family, X, hyper.theta, model.nugget)
    found, root, value = _condition(model, K, C, z, ties)
    if value is not None:
        # The search may have been in single precision: the evidence that is reported is not.
        hyper = hyper._replace(value=value + model.priors.log_density(hyper.theta))
    fitted = Posterior(model.family, X, hyper.theta, found.beta, root)
    return Fit(X, C, ties, hyper, K, found, fitted)


def _condition(
    model: Model, K: Tensor, C: Incidence, z: Tensor, ties: Tensor | None
) -> tuple[MapFit, Tensor, Tensor | None]:
    """MAP and root of the posterior given K, in the space that is cheaper, and log Z for a long study."""
    if point_space.applies(model, K, z.shape[-1]):
        return point_space.condition(model, K, C, z, ties)
    if staged_search.sizes(model, K, z.shape[-1]):
        known = conditioning.condition(model, K, C, z, ties)
        f = (K @ known.beta.unsqueeze(-1)).squeeze(-1)
        value = evidence.value_at(model.likelihood, known.dual, known.L, ties)
        return MapFit(f, known.beta, known.dual), known.root, value
    found = laplace.find_map(K, C, model.likelihood, start=z, ties=ties)
    return found, posterior.information_root(K, C, posterior_weights(model, K, C, found, ties)), None


def weights(model: Model, found: MapFit, ties: Tensor | None) -> Tensor:
    """ω_m of the comparisons at a MAP, in units of utility. [prop:graph_laplacian]"""
    omega = likelihood.curvature(found.dual.z, model.likelihood.margin, ties).omega
    return omega / model.likelihood.scale**2


def posterior_weights(model: Model, K: Tensor, C: Incidence, found: MapFit, ties: Tensor | None) -> Tensor:
    """The weights that the posterior covariance uses: ω_m at the MAP, or averaged where the model says so."""
    if model.curvature == "mode":
        return weights(model, found, ties)
    scale = model.likelihood.scale**2
    A = comparisons.congruence(C, K) / scale
    return laplace.averaged_omega(A, found.dual.z, model.likelihood.margin, ties) / scale


def hessian(model: Model, fit: Fit) -> tuple[Tensor, Tensor, Tensor]:
    """H and a = diag K⁻¹ at the plain MAP, and whether K was positive definite. [eq:precision]"""
    return precision(model, fit, weights(model, fit.map, fit.ties))


def precision(model: Model, fit: Fit, omega: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """K⁻¹ + Cᵀ diag(ω) C, always in double precision: single precision cannot hold a nugget below 1e-6."""
    K = fit.K
    if K.dtype != torch.float64:
        K = kernel.covariance(model.family, fit.X.double(), fit.hyper.theta.double(), model.nugget)
    return correction.precision(K, comparisons.laplacian(fit.C, omega.double()))


def take(fit: Fit, rows: Tensor) -> Fit:
    """The fit of some of the runs."""
    dual = laplace.DualFit(*(part[rows] for part in fit.map.dual))
    found = MapFit(fit.map.f[rows], fit.map.beta[rows], dual)
    fitted = Posterior(fit.posterior.family, *(part[rows] for part in fit.posterior[1:]))
    C = comparisons.incidence(fit.C.pairs[rows], fit.C.n_points)
    hyper = Hyperfit(*(part[rows] for part in fit.hyper))
    ties = None if fit.ties is None else fit.ties[rows]
    return Fit(fit.X[rows], C, ties, hyper, fit.K[rows], found, fitted)
