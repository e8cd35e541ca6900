"""BoTorch's logit likelihood by Laplace's method: our Newton step with the logistic function's derivatives.

Notation as in inference/laplace.py, with scale 1: z = C f, p = 1/(1 + exp(−z)).
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from kappasharp.inference import comparison_space, comparisons, laplace
from kappasharp.inference.comparisons import Incidence
from kappasharp.inference.laplace import Conditioned, DualFit, MapFit
from kappasharp.inference.likelihood import Sites
from kappasharp.tensors import apply

# The variance of each utility's noise that gives a difference the logistic distribution's variance, π²/3.
NOISE = math.pi**2 / 6.0
ITERATIONS = 200


def sites(z: Tensor) -> Sites:
    """Slope and minus the second derivative of every answer's log p."""
    slope = torch.sigmoid(-z)
    return Sites(slope, slope * torch.sigmoid(z))


def solve(A: Tensor) -> DualFit:
    """The MAP for A (runs, m, m): Newton steps, halved until the objective falls; log p is concave."""
    alpha = z = A.new_zeros(A.shape[:-1])
    limit, objective = laplace.tolerance(A.dtype), _objective(alpha, z)
    step, iterations = torch.ones_like(objective), torch.zeros_like(objective, dtype=torch.long)
    for _ in range(ITERATIONS):
        at = sites(z)
        moving = ~(_gradient(alpha, at) <= limit)
        if not bool(moving.any()):
            break
        iterations = iterations + moving
        trial = alpha + (laplace.newton_target(A, z, at) - alpha) * (step * moving).unsqueeze(-1)
        z_trial = apply(A, trial)
        value = _objective(trial, z_trial)
        better = value <= objective + laplace.rounding(A, trial, objective)
        keep = better.unsqueeze(-1)
        alpha, z = torch.where(keep, trial, alpha), torch.where(keep, z_trial, z)
        objective, step = torch.where(better, value, objective), torch.where(better, 1.0, 0.5 * step)
    gradient = _gradient(alpha, sites(z))
    return DualFit(alpha, z, gradient <= limit, iterations, gradient)


def condition(K: Tensor, C: Incidence) -> Conditioned:
    """The posterior given K (runs, n, n)."""
    return _at_map(K, C, solve(comparisons.congruence(C, K)))


def differentiable(known: Conditioned, K: Tensor) -> Conditioned:
    """The posterior that was found for K, differentiable in K, its evidence included."""
    A, dual = comparisons.congruence(known.C, K), known.map.dual
    alpha = laplace.newton_target(A, dual.z, sites(dual.z))
    return _at_map(K, known.C, dual._replace(alpha=alpha, z=apply(A, alpha)))


def _at_map(K: Tensor, C: Incidence, dual: DualFit) -> Conditioned:
    omega = sites(dual.z).omega
    L = laplace.factor(comparisons.congruence(C, K), omega.sqrt())
    value = -_objective(dual.alpha, dual.z) - L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    beta = comparisons.transpose(C, dual.alpha)
    root = comparison_space.information_root(K, C, omega)
    return Conditioned(K, C, None, MapFit(apply(K, beta), beta, dual), root, value, L)


def _objective(alpha: Tensor, z: Tensor) -> Tensor:
    return (0.5 * alpha * z - logsigmoid(z)).sum(-1)


def _gradient(alpha: Tensor, at: Sites) -> Tensor:
    """The largest entry of α − slope; 0 where there are no answers."""
    return torch.nn.functional.pad((alpha - at.slope).abs(), (1, 0)).amax(-1)
