"""A box around the best design seen, to which a question may be confined.

Notation
    lengthscale  (runs, d)  ℓ; the box's sides are in proportion to it
    reach        half the side of the box, in units of the cube, where all length scales are equal
"""

from torch import Tensor

from kappasharp.acquisition import improvement
from kappasharp.core.posterior import Posterior


def around_best(fitted: Posterior, reach: float) -> tuple[Tensor, Tensor] | None:
    """Lower and upper ends (runs, d) of the box, or None for the whole cube."""
    if reach == 0.0:
        return None
    best = improvement.incumbent(fitted)
    centre = fitted.X.gather(1, best[:, None, None].expand(-1, 1, fitted.X.shape[-1])).squeeze(1)
    log_scale = fitted.theta[:, :-1]
    half = reach * (log_scale - log_scale.mean(-1, keepdim=True)).exp()
    return (centre - half).clamp(0.0, 1.0), (centre + half).clamp(0.0, 1.0)
