"""The best design seen: what expected improvement is over, and what a question may be confined to the surroundings of.

Notation
    X            (*batch, n, d)  designs seen
    lengthscale  (runs, d)       ℓ; the box's sides are in proportion to it
    reach        half the side of the box, in units of the cube, where all length scales are equal
    least        the least half side in any coordinate: short length scales among long ones do not shrink it further

E max(f(x) − f(x⁺), 0) for the best design seen x⁺ is the variant "improvement" of EUBO with x⁺ as its anchor, so value,
gradient and search are EUBO's own. What is left to say is which design x⁺ is.
"""

import torch
from torch import Tensor

from kappasharp.core import posterior
from kappasharp.core.posterior import Posterior
from kappasharp.shapes import Indices


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
