"""The plain MAP, reached by steps that the correction bends: where R sits in the metric and not in the objective.

Notation as in laplace.py
"""

import torch
from torch import Tensor

from kappasharp.inference import comparisons, laplace, likelihood
from kappasharp.inference.comparisons import Incidence
from kappasharp.inference.laplace import DualFit, MapFit
from kappasharp.inference.likelihood import Probit, Ties
from kappasharp.tensors import PointMatrix, Utilities, apply

METRIC_ITERATIONS = 2000


def find_map(
    K: PointMatrix,
    C: Incidence,
    model: Probit,
    *,
    metric_r: Utilities,
    ties: Ties = None,
) -> MapFit:
    """The MAP of J₀ itself, reached with steps (H + R)⁻¹ ∇J₀: R bends the path, not the goal.

    The iteration contracts only as far as R is small beside H, so it is slow where R dominates; it ends at the plain
    MAP or says that it did not.
    """
    K_r, Q = laplace.shrink(K, metric_r)
    A_r = comparisons.congruence(C, K_r)
    beta = torch.zeros_like(metric_r)
    limit = laplace.tolerance(K.dtype)
    iterations = torch.zeros(beta.shape[:-1], dtype=torch.long, device=K.device)
    for count in range(METRIC_ITERATIONS + 1):
        f = apply(K, beta)
        z = comparisons.differences(C, f) / model.scale
        sites = likelihood.sites(z, model.margin, ties)
        gradient = beta - comparisons.transpose(C, sites.slope) / model.scale
        size = gradient.abs().amax(-1) * model.scale
        moving = ~(size <= limit)
        if count == METRIC_ITERATIONS or not bool(moving.any()):
            break
        iterations = iterations + moving
        v = _step(A_r, K_r, C, sites.omega.sqrt() / model.scale, gradient)
        # The step in f is K_r v, so in β = K⁻¹ f it is K⁻¹ K_r v = (I − Q K) v.
        beta = beta - (v - apply(Q, apply(K, v))) * moving.unsqueeze(-1)
    return MapFit(f, beta, DualFit(sites.slope, z, size <= limit, iterations, size))


def _step(A_r: Tensor, K_r: Tensor, C: Incidence, root: Tensor, gradient: Tensor) -> Tensor:
    """v with K_r v = (H + R)⁻¹ gradient, by Woodbury in comparison space; A_r is C K_r Cᵀ, root is W^½."""
    inner = root * comparisons.differences(C, apply(K_r, gradient))
    weights = root * torch.cholesky_solve(inner.unsqueeze(-1), laplace.factor(A_r, root)).squeeze(-1)
    return gradient - comparisons.transpose(C, weights)
