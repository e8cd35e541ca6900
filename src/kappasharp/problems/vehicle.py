"""Vehicle-5D: mass, acceleration and intrusion of a car in a crash, from the thickness of five of its parts."""

import torch
from torch import Tensor

from kappasharp.problems import utilities
from kappasharp.problems.problem import Maximum, Problem, Provenance

# Worst and best of each outcome (negated), which scale it to about [0, 1].
WORST, BEST = (-1704.0, -11.708, -0.26192), (-1661.9, -6.2136, -0.042879)
STEEP, FLAT, KNEES = (2.0, 6.0, 8.0), (1.0, 2.0, 2.0), (0.5, 0.8, 0.8)
FITTED_WEIGHTS = (3.0, 6.0, 55.0)


def outcomes(X: Tensor) -> Tensor:
    """Mass, acceleration and toe-board intrusion (n, 3), all to be small."""
    a, b, c, d, e = X.unbind(-1)
    mass = 1640.2823 + 2.3573285 * a + 2.3220035 * b + 4.5688768 * c + 7.7213633 * d + 4.4559504 * e
    acceleration = 6.5856 + 1.15 * a - 1.0427 * b + 0.9738 * c + 0.8364 * d
    acceleration = acceleration - 0.3695 * a * d + 0.0861 * a * e + 0.3628 * b * d
    acceleration = acceleration - 0.1106 * a.square() - 0.3437 * c.square() + 0.1764 * d.square()
    intrusion = -0.0551 + 0.0181 * a + 0.1024 * b + 0.0421 * c - 0.0073 * a * b + 0.024 * b * c
    intrusion = intrusion - 0.0118 * b * d - 0.0204 * c * d - 0.008 * c * e
    intrusion = intrusion - 0.0241 * b.square() + 0.0109 * d.square()
    return torch.stack([mass, acceleration, intrusion], -1)


def scaled(X: Tensor) -> Tensor:
    """The outcomes negated and scaled, so that large is good."""
    worst, best = X.new_tensor(WORST), X.new_tensor(BEST)
    return (-outcomes(X) - worst) / (best - worst)


def piecewise(X: Tensor) -> Tensor:
    """The piecewise-linear utility of the scaled outcomes."""
    return utilities.piecewise_linear(scaled(X), STEEP, FLAT, KNEES)


def fitted(X: Tensor) -> Tensor:
    """Minus a weighted sum of the raw outcomes, whose weights were picked for the paper's level."""
    return -(outcomes(X) * X.new_tensor(FITTED_WEIGHTS)).sum(-1)


VEHICLE_5D = Problem(
    name="vehicle-5d",
    low=(1.0,) * 5,
    high=(3.0,) * 5,
    evaluate=piecewise,
    maximum=Maximum(
        4.1267019258, (1.0, 3.0, 1.0, 1.0, 1.7391), proven=False, source="multi-start search; on a knee of the mass"
    ),
    provenance=Provenance.SOURCED,
    formula=(
        "three quadratic outcomes (mass, acceleration, intrusion), negated and scaled to about [0, 1]; Σₖ: slope "
        "(2, 6, 8) below the knee (0.5, 0.8, 0.8), (1, 2, 2) above"
    ),
    origin=(
        "outcomes: RE3-5-4 of Tanabe and Ishibuchi (2020), as in BoTorch; utility: Lin et al. (2022). The paper's "
        "utility is unknown: its table's absolute values (about −5039) are not comparable"
    ),
)

VEHICLE_5D_FITTED = Problem(
    name="vehicle-5d-fitted",
    low=(1.0,) * 5,
    high=(3.0,) * 5,
    evaluate=fitted,
    maximum=Maximum(-5038.8450675, (1.0,) * 5, proven=False, source="multi-start search"),
    provenance=Provenance.FITTED,
    formula="−(3 mass + 6 acceleration + 55 intrusion)",
    origin="weights picked here, out of about 50,000, for the level of the paper's table: a curiosity",
)
