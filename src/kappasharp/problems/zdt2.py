"""ZDT2 in twenty dimensions: two outcomes in conflict, and a person with a wish between them."""

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance

WISH, WEIGHTS = (0.6, 0.64), (4.0, 0.5)  # the wish lies on the front y₂ = 1 − y₁²


def outcomes(X: Tensor) -> Tensor:
    """Both outcomes (n, 2), to be small."""
    first = X[..., 0]
    g = 1.0 + 9.0 * X[..., 1:].mean(-1)
    return torch.stack([first, g - first.square() / g], -1)


def nearness(X: Tensor) -> Tensor:
    """Minus a weighted square distance of the outcomes from the wish: a concave utility."""
    return -((outcomes(X) - X.new_tensor(WISH)).square() * X.new_tensor(WEIGHTS)).sum(-1)


ZDT2_20D = Problem(
    name="zdt2-20d",
    low=(0.0,) * 20,
    high=(1.0,) * 20,
    evaluate=nearness,
    maximum=Maximum(
        0.0, (0.6, *(0.0,) * 19), proven=True, source="minus a distance, zero where both outcomes are the wish"
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="g = 1 + 9 mean(x₂ … x₂₀); y = (x₁, g − x₁²/g); −4 (y₁ − 0.6)² − ½ (y₂ − 0.64)²",
    origin="outcomes: Zitzler, Deb and Thiele (2000), as in BoTorch; the wish and its weights were chosen here",
)
