"""Few directions that matter among many: Branin and Hartmann-3D, the second on its own as well."""

import math

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance

HEIGHTS = (1.0, 1.2, 3.0, 3.2)
WIDTHS = ((3.0, 10.0, 30.0), (0.1, 10.0, 35.0), (3.0, 10.0, 30.0), (0.1, 10.0, 35.0))
CENTRES = (  # in units of 1e-4
    (3689.0, 1170.0, 2673.0),
    (4699.0, 4387.0, 7470.0),
    (1091.0, 8732.0, 5547.0),
    (381.0, 5743.0, 8828.0),
)
HARTMANN_BEST = 3.8627797873326624
HARTMANN_POINT = (0.11458887665506896, 0.5556488946169301, 0.8525469846866774)
BRANIN_AXES = (2, 8)  # the two of twelve coordinates that matter, counted from zero
BRANIN_LOW, BRANIN_SIDE = (-5.0, 0.0), 15.0
DIRECTIONS, ROTATED_DIMENSIONS = 3, 15


def hartmann(X: Tensor) -> Tensor:
    """Minus Hartmann's three-dimensional function: four Gaussian bumps."""
    heights, widths, centres = X.new_tensor(HEIGHTS), X.new_tensor(WIDTHS), 1e-4 * X.new_tensor(CENTRES)
    return (heights * (-(widths * (X.unsqueeze(-2) - centres).square()).sum(-1)).exp()).sum(-1)


def branin(X: Tensor) -> Tensor:
    """Minus Branin's function of two of the coordinates; the others do nothing."""
    a, b = (X[..., BRANIN_AXES] * BRANIN_SIDE + X.new_tensor(BRANIN_LOW)).unbind(-1)
    valley = b - 5.1 / (4.0 * math.pi**2) * a.square() + 5.0 / math.pi * a - 6.0
    return -(valley.square() + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * a.cos() + 10.0)


def directions(X: Tensor) -> Tensor:
    """Three orthonormal rows (3, d), cosines of one, two and three half turns, on the device of X."""
    d = X.shape[-1]
    k, j = (torch.arange(n, dtype=X.dtype, device=X.device) for n in (DIRECTIONS, d))
    return math.sqrt(2.0 / d) * (math.pi / d * torch.outer(k + 1.0, j + 0.5)).cos()


def rotated_hartmann(X: Tensor) -> Tensor:
    """Hartmann's three-dimensional function of three mixtures of all coordinates."""
    return hartmann(0.5 + (X - 0.5) @ directions(X).mT)


def _placed(values: tuple[float, ...], axes: tuple[int, ...], d: int) -> tuple[float, ...]:
    """The centre of the cube, but for these values on these axes."""
    chosen = dict(zip(axes, values, strict=True))
    return tuple(chosen.get(axis, 0.5) for axis in range(d))


def _unrotated(z: tuple[float, ...], d: int) -> tuple[float, ...]:
    """The point nearest to the cube's centre whose mixtures are z."""
    offset = torch.tensor(z, dtype=torch.float64) - 0.5
    return tuple((0.5 + offset @ directions(offset.new_empty(d))).tolist())


HARTMANN_3D = Problem(
    name="hartmann-3d",
    low=(0.0,) * 3,
    high=(1.0,) * 3,
    evaluate=hartmann,
    maximum=Maximum(
        HARTMANN_BEST,
        HARTMANN_POINT,
        proven=False,
        source="the literature's optimum (3.86278), polished here by Newton's method",
    ),
    provenance=Provenance.SOURCED,
    formula="Σᵢ αᵢ exp(−Σⱼ Aᵢⱼ (xⱼ − Pᵢⱼ)²), four bumps of heights α = (1, 1.2, 3, 3.2)",
    origin="Hartmann (1973), in the form of Dixon and Szegő (1978), as in BoTorch",
)

BRANIN_12D_EMBEDDED = Problem(
    name="branin-12d-embedded",
    low=(0.0,) * 12,
    high=(1.0,) * 12,
    evaluate=branin,
    maximum=Maximum(
        -10.0 / (8.0 * math.pi),
        _placed(((math.pi + 5.0) / 15.0, 2.275 / 15.0), BRANIN_AXES, 12),
        proven=True,
        source="the square is zero and the cosine −1, at three points of the plane",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="a = 15x₃ − 5, b = 15x₉; −[(b − 5.1a²/(4π²) + 5a/π − 6)² + 10 (1 − 1/(8π)) cos a + 10]",
    origin="Branin (1972); the ten idle coordinates were chosen here",
)

HARTMANN_15D_ROTATED = Problem(
    name="hartmann-15d-rotated",
    low=(0.0,) * ROTATED_DIMENSIONS,
    high=(1.0,) * ROTATED_DIMENSIONS,
    evaluate=rotated_hartmann,
    maximum=Maximum(
        HARTMANN_BEST,
        _unrotated(HARTMANN_POINT, ROTATED_DIMENSIONS),
        proven=False,
        source="that of hartmann-3d: outside its cube every bump falls",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="zₖ = ½ + √(2/15) Σⱼ cos(πk(j − ½)/15) (xⱼ − ½), k = 1, 2, 3; hartmann-3d at z",
    origin="hartmann-3d; the three directions were chosen here, so that no coordinate is idle and most mixtures are",
)
