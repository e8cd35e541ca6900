"""The fitted model of one batch of runs: hyperparameters, plain MAP, correction, posterior, certificates."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.core import (
    comparisons,
    conditioning,
    correction,
    diagnostics,
    evidence,
    kernel,
    laplace,
    likelihood,
    posterior,
    reduced,
    stages,
)
from kappasharp.core.comparisons import Incidence
from kappasharp.core.correction import Calibration, Correction, Placement, Weights
from kappasharp.core.diagnostics import Diagnostics
from kappasharp.core.evidence import Evaluable, Hyperfit, Model
from kappasharp.core.laplace import MapFit
from kappasharp.core.posterior import Posterior

WITH_COVARIANCE = (Placement.COVARIANCE, Placement.BOTH)
WITH_MAP = (Placement.MAP, Placement.BOTH)


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


class Corrected(NamedTuple):
    """The posterior with the correction where the gate is open, and what it took."""

    posterior: Posterior
    map: MapFit
    calibration: Calibration
    correction: Tensor
    positive_definite: Tensor


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
    if stages.sizes(model, X, z.shape[-1]):
        hyper, z = stages.search(model, stages.Answered(*answers), starts, z, warm=theta is not None)
    elif reduced.applies(model, X, z.shape[-1]):
        hyper = fit_hyperparameters(model, reduced.Data(X, C, ties), starts, z)
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
    if reduced.applies(model, K, z.shape[-1]):
        return reduced.condition(model, K, C, z, ties)
    if stages.sizes(model, K, z.shape[-1]):
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
    return _precision(model, fit, weights(model, fit.map, fit.ties))


def _precision(model: Model, fit: Fit, omega: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """K⁻¹ + Cᵀ diag(ω) C, always in double precision: single precision cannot hold a nugget below 1e-6."""
    K = fit.K
    if K.dtype != torch.float64:
        K = kernel.covariance(model.family, fit.X.double(), fit.hyper.theta.double(), model.nugget)
    return correction.precision(K, comparisons.laplacian(fit.C, omega.double()))


def correct(model: Model, fit: Fit, choice: Correction, active: Tensor) -> Corrected:
    """Lines 7 to 10 of Algorithm 1 for the active runs; the others keep the standard posterior (line 12)."""
    runs, n = fit.X.shape[:2]
    nan = fit.X.new_full((runs,), torch.nan)
    calibration = Calibration(nan, nan, nan, torch.ones_like(active), torch.zeros_like(active, dtype=torch.long))
    base, everything = fit.posterior, torch.ones_like(active)
    if choice.placement in WITH_COVARIANCE:
        # Room for the n further sites that R is; zero columns while it does not act.
        base = base._replace(root=torch.cat([base.root, base.root.new_zeros(runs, n, n)], -1))
    rows = active.nonzero().squeeze(-1)
    r_all = torch.zeros_like(fit.map.f)
    if choice.weights is Weights.NONE or not len(rows):
        return Corrected(base, fit.map, calibration, r_all, everything)
    part = take(fit, rows)
    H, a, usable = hessian(model, part)
    found = correction.calibrate(H, a, choice.target_exponent)
    # No η* means no correction in that run; `found` and the status word say so.
    eta = torch.where(found.found & usable, found.eta, 0.0)
    r = correction.spread(choice.weights, eta, a).to(fit.K)
    shifted, corrected = _apply(model, part, choice, r)
    posterior_out = Posterior(
        model.family,
        fit.X,
        fit.hyper.theta,
        _put(base.beta, corrected.beta, rows),
        _put(_padded(base.root, corrected.root), _padded(corrected.root, base.root), rows),
    )
    return Corrected(
        posterior_out,
        _merge(fit.map, shifted, rows),
        Calibration(*(_put(*parts, rows) for parts in zip(calibration, found, strict=True))),
        _put(r_all, r, rows),
        _put(everything, usable, rows),
    )


def status(fit: Fit, corrected: Corrected, inferred: Tensor, proposed: Tensor | None = None) -> tuple[str, ...]:
    """One word per run: the gravest thing that happened in the fit and, where there was one, the search for a pair.

    `inferred` and `proposed` are the certificates of the method's inference and of the search.
    """
    words = ["ok"] * len(fit.X)
    graver = (
        ("acquisition_not_converged", torch.zeros_like(fit.hyper.converged) if proposed is None else ~proposed),
        ("fit_not_converged", ~fit.hyper.converged),
        ("calibration_not_found", ~corrected.calibration.found),
        ("not_positive_definite", ~corrected.positive_definite),
        ("inference_not_converged", ~inferred),
        ("map_not_converged", ~(corrected.map.dual.converged & fit.map.dual.converged)),
    )
    for word, where in graver:
        for run in where.nonzero().squeeze(-1).tolist():
            words[run] = word
    return tuple(words)


def diagnose(model: Model, fit: Fit, corrected: Corrected) -> Diagnostics:
    """Every diagnostic of a fit and its correction."""
    r, found = corrected.correction.double(), corrected.map
    H, _, usable = _precision(model, fit, weights(model, found, fit.ties))
    H_plain, _, _ = hessian(model, fit)
    averaged = diagnostics.path_weights(fit.map.dual.z, found.dual.z, model.likelihood.margin, fit.ties)
    H_bar, _, _ = _precision(model, fit, averaged / model.likelihood.scale**2)
    shift, bound = diagnostics.map_shift(H_bar, fit.map.f.double(), found.f.double(), r)
    lambda_1 = diagnostics.relative_size(H, r)
    low, high, before = diagnostics.condition_number(H_plain)
    _, _, after = diagnostics.condition_number(H_plain + torch.diag_embed(r))
    lengthscale, outputscale = kernel.split(fit.hyper.theta)
    n_components = comparisons.count_components(fit.C.pairs, fit.C.n_points)
    # Where K is singular H does not exist, and no number that needs it does either.
    low, high, before, after, shift, bound, lambda_1 = (
        part.masked_fill(~usable, torch.nan) for part in (low, high, before, after, shift, bound, lambda_1)
    )
    return Diagnostics(
        n_components=n_components,
        rank=fit.C.n_points - n_components,
        effective_dof=diagnostics.effective_dof(fit.K, fit.C, weights(model, found, fit.ties)),
        eigenvalue_low=low,
        eigenvalue_high=high,
        condition_before=before,
        condition_after=after,
        strength=corrected.calibration.eta.nan_to_num(nan=0.0),
        map_shift=shift,
        map_shift_bound=bound,
        relative_correction=lambda_1,
        acquisition_gap_bound=diagnostics.acquisition_gap_bound(lambda_1, outputscale),
        saturated_share=diagnostics.saturated_share(found.dual.z),
        near_duplicates=diagnostics.near_duplicates(fit.X, lengthscale),
    )


def _apply(model: Model, fit: Fit, choice: Correction, r: Tensor) -> tuple[MapFit, Posterior]:
    """The MAP and posterior of a correction r that sits where the method puts it."""
    found = fit.map
    if choice.placement in WITH_MAP:
        found = laplace.find_map(fit.K, fit.C, model.likelihood, r=r, start=fit.map.dual.z, ties=fit.ties)
    elif choice.placement is Placement.NEWTON_STEP:
        found = laplace.find_map_by_metric(fit.K, fit.C, model.likelihood, metric_r=r, ties=fit.ties)
    # The covariance is that of J₀ at the MAP in use; R enters it only where the method says so.
    in_covariance = r if choice.placement in WITH_COVARIANCE else None
    omega = posterior_weights(model, fit.K, fit.C, found, fit.ties)
    root = posterior.information_root(fit.K, fit.C, omega, in_covariance)
    return found, fit.posterior._replace(beta=found.beta, root=root)


def take(fit: Fit, rows: Tensor) -> Fit:
    """The fit of some of the runs."""
    dual = laplace.DualFit(*(part[rows] for part in fit.map.dual))
    found = MapFit(fit.map.f[rows], fit.map.beta[rows], dual)
    fitted = Posterior(fit.posterior.family, *(part[rows] for part in fit.posterior[1:]))
    C = comparisons.incidence(fit.C.pairs[rows], fit.C.n_points)
    hyper = Hyperfit(*(part[rows] for part in fit.hyper))
    ties = None if fit.ties is None else fit.ties[rows]
    return Fit(fit.X[rows], C, ties, hyper, fit.K[rows], found, fitted)


def _merge(whole: MapFit, part: MapFit, rows: Tensor) -> MapFit:
    dual = laplace.DualFit(*(_put(*parts, rows) for parts in zip(whole.dual, part.dual, strict=True)))
    return MapFit(_put(whole.f, part.f, rows), _put(whole.beta, part.beta, rows), dual)


def _padded(root: Tensor, other: Tensor) -> Tensor:
    """A root with zero columns up to another's width: the plain fit's may be from point space (`reduced`)."""
    return torch.nn.functional.pad(root, (0, max(other.shape[-1] - root.shape[-1], 0)))


def _put(whole: Tensor, part: Tensor, rows: Tensor) -> Tensor:
    out = whole.clone()
    out[rows] = part.to(out.dtype)
    return out
