"""CarCab-7D: nine outcomes of a car body in a side impact, from seven of its dimensions."""

import torch
from torch import Tensor

from kappasharp.problems import utilities
from kappasharp.problems.problem import Maximum, Problem, Provenance

# The source's limits. Its last three look shifted by one place against the original's (4, 9.9, 15.7); kept, so that
# the utility is the source's.
LIMITS = (0.0, 1.0, 0.32, 0.32, 0.32, 32.0, 32.0, 4.0, 9.9)
WORST = (-42.150, -0.47829, -115.63, -0.0072040, -0.18255, -10.168, 27.023, -8.0731, -6.4556)
BEST = (-16.0992, 0.9511, 112.7138, 0.2750, 0.1909, 14.4804, 28.9855, 0.5, 0.5)
STEEP = (7.0, 6.75, 6.5, 6.25, 6.0, 5.75, 5.5, 5.25, 5.0)
FLAT = (0.5, 0.4, 0.375, 0.35, 0.325, 0.3, 0.275, 0.25, 0.225)
KNEES = (0.55, 0.54, 0.53, 0.52, 0.51, 0.5, 0.49, 0.48, 0.47)
LINEAR = (2.25, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)


def outcomes(X: Tensor) -> Tensor:
    """The nine responses (n, 9), all to be small; the original's four random inputs are zero, as in the source."""
    x1, x2, x3, x4, x5, x6, x7 = X.unbind(-1)
    ribs = (
        (28.98 + 3.818 * x3 - 4.2 * x1 * x2) + (33.86 + 2.95 * x3 - 5.057 * x1 * x2) + (46.36 - 9.9 * x2)
    ) / 3.0  # the mean deflection of three ribs
    responses = [
        1.98 + 4.9 * x1 + 6.67 * x2 + 6.98 * x3 + 4.01 * x4 + 1.75 * x5 + 0.00001 * x6 + 2.73 * x7,
        1.16 - 0.3717 * x2 * x4,
        0.261 - 0.0159 * x1 * x2 - 0.019 * x2 * x7 + 0.0144 * x3 * x5,
        0.214 + 0.00817 * x5 + 0.03099 * x2 * x6 - 0.018 * x2 * x7 - 0.00364 * x5 * x6 - 0.018 * x2.square(),
        0.74 - 0.61 * x2 + 0.227 * x2.square(),
        ribs,
        4.72 - 0.5 * x4 - 0.19 * x2 * x3,
        10.58 - 0.674 * x1 * x2,
        16.45 - 0.489 * x3 * x7 - 0.843 * x5 * x6,
    ]
    return torch.stack(responses, -1)


def scaled(X: Tensor) -> Tensor:
    """How far each response stays below its limit, scaled, so that large is good."""
    limits, worst, best = (X.new_tensor(row) for row in (LIMITS, WORST, BEST))
    return (limits - outcomes(X) - worst) / (best - worst)


def piecewise(X: Tensor) -> Tensor:
    """The piecewise-linear utility of the scaled outcomes."""
    return utilities.piecewise_linear(scaled(X), STEEP, FLAT, KNEES)


def linear(X: Tensor) -> Tensor:
    """The source's other utility: a weighted sum of the scaled outcomes."""
    return (scaled(X) * X.new_tensor(LINEAR)).sum(-1)


CARCAB_7D = Problem(
    name="carcab-7d",
    low=(0.5, 0.45, 0.5, 0.5, 0.875, 0.4, 0.4),
    high=(1.5, 1.35, 1.5, 1.5, 2.625, 1.2, 1.2),
    evaluate=piecewise,
    maximum=Maximum(
        -1.8100858543,
        (0.7751971481041368, 1.35, 0.5, 1.15275, 2.625, 1.2, 0.4),
        proven=False,
        source="multi-start search",
    ),
    provenance=Provenance.SOURCED,
    formula=(
        "nine polynomial responses; how far each stays below its limit, scaled to about [0, 1]; Σₖ: slope from 7 to 5 "
        "below the knee (0.55 to 0.47), from 0.5 to 0.225 above"
    ),
    origin=(
        "RE9-7-1 of Tanabe and Ishibuchi (2020), with random inputs zero, limits and utility as in Lin et al. (2022). "
        "The paper's utility is unknown: its table's absolute values (about −3.9) are not comparable"
    ),
)
