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
    wider = _with_points(fitted, X)
    beta, root = wider.beta, wider.root
    scale, margin = model.likelihood.scale, model.likelihood.margin
    C = comparisons.incidence(pairs, beta.shape[1])
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


def _with_points(fitted: Posterior, X: Tensor) -> Posterior:
    """The same posterior with points that say nothing behind its own designs."""
    n, fresh = fitted.X.shape[1], X[:, fitted.X.shape[1] :]
    nothing = fitted.root.new_zeros(1, fresh.shape[1], fitted.root.shape[-1])
    return fitted._replace(
        X=X,
        beta=torch.cat([fitted.beta[:, :n], fitted.beta.new_zeros(1, fresh.shape[1]), fitted.beta[:, n:]], 1),
        root=torch.cat([fitted.root[:, :n], nothing, fitted.root[:, n:]], 1),
        lifted=None
        if fitted.lift is None
        else torch.cat([fitted.features[:, :n], features.lifted(fitted.lift, fresh), fitted.features[:, n:]], 1),
    )


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
