"""The correction on top of a fit: where it acts, what it moves, whether it helps; status and diagnostics of both."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.algorithm.fit import Fit, hessian, precision, weights
from kappasharp.correction import diagnostics, newton_steps, spectral, strength
from kappasharp.correction.diagnostics import Diagnostics
from kappasharp.correction.strength import Calibration
from kappasharp.inference import comparison_space, comparisons, laplace
from kappasharp.inference.evidence import Model
from kappasharp.inference.laplace import MapFit
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.settings import Correction, Placement, Weights
from kappasharp.tensors import put, replaced, take

WITH_COVARIANCE = (Placement.COVARIANCE, Placement.BOTH)
WITH_MAP = (Placement.MAP, Placement.BOTH)
IN_PRIOR_METRIC = {Weights.SPECTRAL: spectral.tempered, Weights.ALIGNED: spectral.aligned}


class Corrected(NamedTuple):
    """The posterior with the correction where the gate is open, and what it took."""

    posterior: Posterior
    map: MapFit
    calibration: Calibration
    correction: Tensor
    positive_definite: Tensor
    active: Tensor
    choice: Correction


class _Moved(NamedTuple):
    """A correction of every run and what comes of it; R is the diagonal r, or known by the prior K_r that it leaves."""

    calibration: Calibration
    usable: Tensor
    r: Tensor
    map: MapFit
    posterior: Posterior
    K_r: Tensor | None = None


def correct(model: Model, fit: Fit, choice: Correction, active: Tensor, *, validated: bool = False) -> Corrected:
    """Lines 7 to 10 of Algorithm 1 for the active runs; the others keep the standard posterior (line 12).

    `validated` keeps the correction only where it predicts left-out answers better.
    """
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
        return Corrected(base, fit.map, calibration, r_all, everything, active, choice)
    part = fit if len(rows) == runs else take(fit, rows)
    moved = (_in_prior_metric if choice.weights in IN_PRIOR_METRIC else _on_points)(model, part, choice)
    if validated:
        better = _predicts_better(model, part, moved)
        moved = take(moved, better)
        rows = rows[better]
        active = torch.zeros_like(active).index_fill_(0, rows, value=True)
    new = moved.posterior
    before = (base.beta, _padded(base.root, new.root), fit.map, calibration, r_all, everything)
    after = (new.beta, _padded(new.root, base.root), moved.map, moved.calibration, moved.r, moved.usable)
    found = replaced(before, after) if len(rows) == runs else put(before, after, rows)
    return Corrected(base._replace(beta=found[0], root=found[1]), *found[2:], active, choice)


def _on_points(model: Model, fit: Fit, choice: Correction) -> _Moved:
    """The paper's correction: a diagonal R, calibrated on the condition number of H."""
    H, a, usable = hessian(model, fit)
    found = strength.calibrate(H, a, choice.target_exponent)
    # No η* means no correction in that run; `found` and the status word say so.
    eta = torch.where(found.found & usable, found.eta, 0.0)
    r = strength.spread(choice.weights, eta, a).to(fit.K)
    return _Moved(found, usable, r, *_corrected_by(model, fit, choice, r))


def _in_prior_metric(model: Model, fit: Fit, choice: Correction) -> _Moved:
    """A correction that the nugget does not set, in the MAP alone."""
    scale = model.likelihood.scale**2
    A = comparisons.congruence(fit.C, fit.K) / scale
    omega = comparison_space.posterior_weights(model, fit.K, fit.C, fit.map.dual.z, fit.ties) * scale
    found = spectral.calibrate(A, omega, choice.target_exponent)
    eta = torch.where(found.found, found.eta, 0.0)
    shrunk = IN_PRIOR_METRIC[choice.weights](fit.K, fit.C, eta)
    shifted = spectral.find_map(shrunk, fit.C, model.likelihood, fit.map.dual.z, fit.ties)
    fitted = _posterior_at(model, fit, shifted)
    return _Moved(found, found.found, torch.zeros_like(fit.map.f), shifted, fitted, shrunk.K)


def _predicts_better(model: Model, fit: Fit, moved: _Moved) -> Tensor:
    """Where the corrected model gives the answers, each left out in turn, more probability than the plain one."""
    K_r = laplace.shrink(fit.K, moved.r)[0] if moved.K_r is None else moved.K_r
    scale, margin = model.likelihood.scale**2, model.likelihood.margin
    scores = [
        spectral.left_out(comparisons.congruence(fit.C, K) / scale, found.dual, margin, fit.ties).sum(-1)
        for K, found in ((K_r, moved.map), (fit.K, fit.map))
    ]
    return scores[0] > scores[1]


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
    R, found = _matrix(fit, corrected), corrected.map
    H, _, usable = precision(model, fit, weights(model, found, fit.ties))
    H_plain, _, _ = hessian(model, fit)
    averaged = diagnostics.path_weights(fit.map.dual.z, found.dual.z, model.likelihood.margin, fit.ties)
    H_bar, _, _ = precision(model, fit, averaged / model.likelihood.scale**2)
    shift, bound = diagnostics.map_shift(H_bar, fit.map.f.double(), found.f.double(), R)
    lambda_1 = diagnostics.relative_size(H, R)
    low, high, before = diagnostics.condition_number(H_plain)
    _, _, after = diagnostics.condition_number(H_plain + R)
    outputscale = stationary.variance(model.family, fit.hyper.theta)
    lengthscale = stationary.lengthscales(model.family, fit.hyper.theta)[..., : fit.X.shape[-1]]
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


def _matrix(fit: Fit, corrected: Corrected) -> Tensor:
    """R as a matrix: diagonal, ηK⁻¹ or ρP."""
    eta = torch.where(corrected.active, corrected.calibration.eta.nan_to_num(nan=0.0), 0.0).double()
    if corrected.choice.weights is Weights.SPECTRAL:
        return eta[:, None, None] * torch.linalg.inv_ex(fit.K.double())[0]
    if corrected.choice.weights is Weights.ALIGNED:
        return spectral.aligned_matrix(fit.K.double(), fit.C, eta)
    return torch.diag_embed(corrected.correction.double())


def _corrected_by(model: Model, fit: Fit, choice: Correction, r: Tensor) -> tuple[MapFit, Posterior]:
    """The MAP and posterior of a correction r that sits where the method puts it."""
    found = fit.map
    if choice.placement in WITH_MAP:
        found = laplace.find_map(
            fit.K, fit.C, model.likelihood, r=r, start=fit.map.dual.z, ties=fit.ties, gram=fit.gram
        )
    elif choice.placement is Placement.NEWTON_STEP:
        found = newton_steps.find_map(fit.K, fit.C, model.likelihood, metric_r=r, ties=fit.ties)
    # The covariance is that of J₀ at the MAP in use; R enters it only where the method says so.
    return found, _posterior_at(model, fit, found, r if choice.placement in WITH_COVARIANCE else None)


def _posterior_at(model: Model, fit: Fit, found: MapFit, r: Tensor | None = None) -> Posterior:
    """The posterior with another MAP, the curvature taken there, and R in its covariance if given."""
    if r is None:
        root = comparison_space.at_map(model, fit.K, fit.C, found.dual.z, fit.ties, fit.gram)
    else:
        omega = comparison_space.posterior_weights(model, fit.K, fit.C, found.dual.z, fit.ties)
        root = comparison_space.information_root(fit.K, fit.C, omega, r)
    return fit.posterior._replace(beta=found.beta, root=root)


def _padded(root: Tensor, other: Tensor) -> Tensor:
    """A root with zero columns up to another's width: the plain fit's may be from point space."""
    more = other.shape[-1] - root.shape[-1]
    return torch.nn.functional.pad(root, (0, more)) if more > 0 else root
