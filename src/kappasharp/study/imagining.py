"""Answers that nobody gave: the posterior as if open pairs had been answered the way it expects itself.

Notation
    X      (1, n, d)  the points of the posterior, and after them those that only open pairs hold
    G      (1, n, k)  the posterior covariance of f(x) with the open pairs' differences is k(x, X) G
    A      (1, k, k)  the posterior covariance of those differences, standardised by σ√2
    u      (1, k)     how far they move: with their old means z₀ the new ones are z₀ + u, and u = A α

The posterior of the real answers is the prior of the imagined ones, so that nothing is solved for again that the real
ones decided: with k pairs open the matrices are k × k, however many answers there are.
"""

import torch
from torch import Tensor

from kappasharp.batches import apply
from kappasharp.core import comparison_space, comparisons, features, laplace, likelihood, posterior
from kappasharp.core.evidence import Model
from kappasharp.core.posterior import Posterior


def answered(model: Model, fitted: Posterior, X: Tensor, pairs: Tensor) -> Posterior:
    """The posterior with these wins (1, k, 2) in it, indices into X, which begins with the posterior's own points."""
    more = X.shape[1] - fitted.X.shape[1]
    beta, root = torch.nn.functional.pad(fitted.beta, (0, more)), torch.nn.functional.pad(fitted.root, (0, 0, 0, more))
    F = None if fitted.lift is None else features.lifted(fitted.lift, X)
    wider = fitted._replace(X=X, beta=beta, root=root, lifted=F)
    scale, margin = model.likelihood.scale, model.likelihood.margin
    C = comparisons.incidence(pairs, X.shape[1])
    ends, at = pairs.flatten().unique(return_inverse=True)
    near = posterior.cross(wider, X[:, ends])
    sides = at.reshape(-1, 2)
    apart = near[:, sides[:, 0]] - near[:, sides[:, 1]]
    G = comparisons.transpose_rows(C, torch.eye(C.pairs.shape[1], dtype=X.dtype).unsqueeze(0))
    G = G - root @ (apart @ root).mT
    gram = apart @ G
    gram = 0.5 * (gram + gram.mT)
    A = gram / scale**2
    alpha, z = _solve(A, apply(apart, beta) / scale, margin)
    omega = likelihood.curvature(z, margin).omega
    if model.curvature == "averaged":
        omega = comparison_space.averaged_omega(A, z, margin)
    weight = (omega / scale**2).sqrt()
    L = laplace.factor(gram, weight)
    half = torch.linalg.solve_triangular(L, weight.unsqueeze(-1) * G.mT, upper=False)
    return wider._replace(beta=beta + apply(G, alpha) / scale, root=torch.cat([root, half.mT], -1))


def _solve(A: Tensor, before: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """α and the differences at the MAP, by Newton steps from the differences before.

    A win's slope is convex in the difference, so the steps come from one side and need no damping.
    """
    u = torch.zeros_like(before)
    for _ in range(laplace.PLAIN_ITERATIONS):
        alpha = laplace.newton_target(A, u, likelihood.sites(before + u, margin))
        u = apply(A, alpha)
        if bool((alpha - likelihood.sites(before + u, margin).slope).abs().amax() <= laplace.tolerance(A.dtype)):
            break
    return alpha, before + u
