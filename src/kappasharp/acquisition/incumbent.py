"""The best design seen, the box around it, and the designs seen that are likeliest to be better.

Expected improvement is over the first, and a search may stay within the second. The third is for questions between
designs that exist: by E max(f(x) − f(x⁺), 0) with x⁺ the one told; designs that have lost a comparison come last, and
so does what was compared with x⁺ before.
"""

import torch
from torch import Tensor

from kappasharp.acquisition import eubo
from kappasharp.inference import posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.tensors import Indices

# The best design seen: what expected improvement is over, and what a question may be confined to the surroundings of.
#
# Notation
#     X            (*batch, n, d)  designs seen
#     lengthscale  (runs, d)       ℓ; the box's sides are in proportion to it
#     reach        half the side of the box, in units of the cube, where all length scales are equal
#     least        the least half side in any coordinate: short length scales among long ones do not shrink it further
#
# E max(f(x) − f(x⁺), 0) for the best design seen x⁺ is the variant "improvement" of EUBO with x⁺ as its anchor, so
# value, gradient and search are EUBO's own. What is left to say is which design x⁺ is.


def find(fitted: Posterior) -> Indices:
    """The index of the design seen with the highest posterior mean; the first of equals."""
    return posterior.own_mean(fitted).argmax(-1)


def box_around(
    fitted: Posterior, reach: float, least: float = 0.0, outer: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor] | None:
    """Lower and upper ends (runs, d) of the box around it, or None for the whole cube; within `outer` where given."""
    if reach == 0.0:
        return outer
    centre = fitted.X.gather(1, find(fitted)[:, None, None].expand(-1, 1, fitted.X.shape[-1])).squeeze(1)
    log_scale = fitted.theta[:, : centre.shape[-1]]
    half = (reach * (log_scale - log_scale.mean(-1, keepdim=True)).exp()).clamp(min=least)
    if outer is None:
        return (centre - half).clamp(0.0, 1.0), (centre + half).clamp(0.0, 1.0)
    centre = torch.clamp(centre, *outer)
    return torch.clamp(centre - half, *outer), torch.clamp(centre + half, *outer)


def challengers(
    fitted: Posterior,
    leader: Indices,
    pairs: Tensor,
    eligible: Tensor | None = None,
    *,
    count: int = 1,
    among: int | None = None,
) -> Tensor:
    """The indices (runs, count) of the challengers, likeliest first; `pairs` (runs, m, 2) are the answers so far.

    Of a pair the winner is first. Only the first `among` points are designs that were seen, where not all of them are;
    those that are not eligible come last.
    """
    X = fitted.X
    rows = torch.arange(len(X), device=X.device)
    told = X[rows, leader].unsqueeze(1).expand_as(X)
    found = posterior.contrast(fitted, X, told)
    spread = found.variance.clamp(min=torch.finfo(X.dtype).tiny).sqrt()
    gain = eubo.closed_form(found.mean, spread)
    lost = torch.zeros(X.shape[:2], dtype=torch.bool, device=X.device).scatter(1, pairs[..., 1], True)
    beside = torch.where(pairs[..., 0] == leader.unsqueeze(-1), pairs[..., 1], pairs[..., 0])
    with_leader = (pairs == leader[:, None, None]).any(-1)
    met = torch.zeros_like(gain).scatter_add(1, beside, with_leader.to(gain)) > 0.0
    # In steps that no gain outweighs: what is left is taken in this order, and the leader never.
    step = 1.0 + gain.amax(-1, keepdim=True)
    score = gain - step * lost.to(gain) - 2.0 * step * met.to(gain)
    if eligible is not None:
        score = score - 4.0 * step * (~eligible).to(gain)
    if among is not None:
        score[:, among:] = -torch.inf
    return score.scatter(1, leader.unsqueeze(-1), -torch.inf).topk(count, -1).indices
