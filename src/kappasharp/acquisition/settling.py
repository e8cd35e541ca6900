"""Which designs to compare with the one told to be best, when nothing new is to be made: its likeliest betters.

E max(f(x) − f(x⁺), 0) over the designs seen, x⁺ the one told; designs that have lost a comparison come last, and so
does what was compared with x⁺ before.
"""

import torch
from torch import Tensor

from kappasharp.acquisition import eubo
from kappasharp.core import posterior
from kappasharp.core.posterior import Posterior
from kappasharp.shapes import Indices


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
