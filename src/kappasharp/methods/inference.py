"""How the utilities' posterior is approximated at given hyperparameters: Laplace, expectation propagation, Gibbs."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.core import comparisons, ep, gibbs, kernel, posterior
from kappasharp.core.evidence import Model
from kappasharp.core.posterior import Posterior
from kappasharp.methods.fitting import Fit
from kappasharp.methods.method import Inference
from kappasharp.streams import stream


class Inferred(NamedTuple):
    """The posterior of a flat batch of runs, whether it carries its certificate, and the rounds that it took."""

    posterior: Posterior
    converged: Tensor
    rounds: Tensor


def infer(choice: Inference, model: Model, fit: Fit, seeds: Sequence[int], step: int) -> Inferred:
    """The posterior at the fit's hyperparameters, by the method's inference. [app:ep_gibbs]

    Departure 11: the hyperparameters are those of the Laplace evidence whatever the inference. In double precision.
    """
    if choice is Inference.LAPLACE:
        return Inferred(fit.posterior, fit.map.dual.converged, fit.map.dual.iterations)
    K, scale, margin = fit.K, model.likelihood.scale, model.likelihood.margin
    if K.dtype != torch.float64:
        K = kernel.covariance(model.family, fit.X.double(), fit.hyper.theta.double(), model.nugget)
    A = comparisons.congruence(fit.C, K) / scale**2
    if choice is Inference.EP:
        found = ep.solve(A, margin, fit.ties)
        root = posterior.information_root(K, fit.C, found.tau / scale**2)
        return _inferred(model, fit, found.alpha, root, (found.converged, found.iterations))
    generators = [stream(seed, "gibbs", str(step)) for seed in seeds]
    drawn = gibbs.sample(A, margin, generators, fit.ties)
    root = comparisons.transpose_rows(fit.C, drawn.half) / scale
    return _inferred(model, fit, drawn.alpha, root, (drawn.converged, drawn.sweeps))


def _inferred(model: Model, fit: Fit, alpha: Tensor, root: Tensor, certificate: tuple[Tensor, Tensor]) -> Inferred:
    """The posterior with mean k(x, X) Cᵀ α/(σ√2), in the precision of the points."""
    beta = comparisons.transpose(fit.C, alpha) / model.likelihood.scale
    return Inferred(fit.posterior._replace(beta=beta.to(fit.X), root=root.to(fit.X)), *certificate)
