"""Two machine parts with several outcomes each, and a person who weighs them: a welded beam, a speed reducer."""

import math

import torch
from torch import Tensor

from kappasharp.problems import utilities
from kappasharp.problems.problem import Maximum, Problem, Provenance

# The beam: load in lb, length in in, Young's and shear modulus in psi.
LOAD, LENGTH, YOUNG, SHEAR = 6000.0, 14.0, 30e6, 12e6
# What the person can live with: cost, deflection, shear stress, normal stress, load over buckling load.
BEARABLE, BEAM_WEIGHTS = (5.0, 0.01, 13600.0, 30000.0, 1.0), (0.5, 0.15, 0.3, 0.2, 0.1)
# The reducer: weight, then four loads by their limits. Worst and best of each (negated) scale it to about [0, 1].
WORST, BEST = (-5500.0, -1.2, -1.2, -1.5, -1.2), (-2500.0, -0.3, -0.3, -0.5, -0.8)
STEEP, FLAT, KNEES = (15.0, 12.0, 12.0, 18.0, 18.0), (9.0, 1.2, 1.0, 1.5, 1.2), (0.6, 0.5, 0.5, 0.6, 0.5)


def beam_outcomes(X: Tensor) -> Tensor:
    """Cost, deflection, shear stress, normal stress, and load over buckling load (n, 5), all to be small."""
    h, l, t, b = X.unbind(-1)
    cost = 1.10471 * h.square() * l + 0.04811 * t * b * (LENGTH + l)
    deflection = 4.0 * LOAD * LENGTH**3 / (YOUNG * t**3 * b)
    primary = LOAD / (math.sqrt(2.0) * h * l)
    moment = LOAD * (LENGTH + 0.5 * l)
    arm = (0.25 * l.square() + 0.25 * (h + t).square()).sqrt()
    inertia = 2.0 * math.sqrt(2.0) * h * l * (l.square() / 12.0 + 0.25 * (h + t).square())
    secondary = moment * arm / inertia
    shear = (primary.square() + primary * secondary * l / arm + secondary.square()).sqrt()
    normal = 6.0 * LOAD * LENGTH / (b * t.square())
    slender = 1.0 - 0.5 * t / LENGTH * math.sqrt(0.25 * YOUNG / SHEAR)
    buckling = 4.013 * YOUNG / (6.0 * LENGTH**2) * t * b**3 * slender
    return torch.stack([cost, deflection, shear, normal, LOAD / buckling], -1)


def beam(X: Tensor) -> Tensor:
    """The logarithm of a Cobb–Douglas product of five satisfactions, each half where its outcome is just bearable."""
    ratios = beam_outcomes(X) / X.new_tensor(BEARABLE)
    return -(ratios.square().log1p() * X.new_tensor(BEAM_WEIGHTS)).sum(-1)


def reducer_outcomes(X: Tensor) -> Tensor:
    """Weight, then bending, contact and both shafts' stresses over their limits (n, 5), all to be small."""
    face, module, teeth, first, second, thin, thick = X.unbind(-1)
    gears = 0.7854 * face * module.square() * (3.3333 * teeth.square() + 14.9334 * teeth - 43.0934)
    shafts = 7.4777 * (thin**3 + thick**3) + 0.7854 * (first * thin.square() + second * thick.square())
    weight = gears - 1.508 * face * (thin.square() + thick.square()) + shafts
    bending = 27.0 / (face * module.square() * teeth)
    contact = 397.5 / (face * module.square() * teeth.square())
    stresses = [
        ((745.0 * span / (module * teeth)).square() + constant).sqrt() / (0.1 * limit * diameter**3)
        for span, constant, limit, diameter in ((first, 16.9e6, 1100.0, thin), (second, 157.5e6, 850.0, thick))
    ]
    return torch.stack([weight, bending, contact, *stresses], -1)


def reducer(X: Tensor) -> Tensor:
    """The piecewise-linear utility of the outcomes, negated and scaled."""
    worst, best = X.new_tensor(WORST), X.new_tensor(BEST)
    return utilities.piecewise_linear((-reducer_outcomes(X) - worst) / (best - worst), STEEP, FLAT, KNEES)


WELDED_BEAM_4D = Problem(
    name="weldedbeam-4d",
    low=(0.125, 0.1, 0.1, 0.125),
    high=(5.0, 10.0, 10.0, 5.0),
    evaluate=beam,
    maximum=Maximum(
        -0.35073352552025094,
        (0.4663962917, 2.7308743909, 10.0, 0.3130290085),
        proven=False,
        source="multi-start search, polished by Newton's method; as thick as the box allows",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula=(
        "cost, deflection, shear stress, normal stress and load over buckling load, by what is bearable "
        "(5, 0.01, 13600, 30000, 1): ratios r; −Σₖ wₖ ln(1 + rₖ²), w = (0.5, 0.15, 0.3, 0.2, 0.1)"
    ),
    origin=(
        "outcomes: Ragsdell and Phillips (1976), with BoTorch's box and without its slip in the buckling load; the "
        "utility was chosen here"
    ),
    parameters=(
        "height of the weld [in]",
        "length of the weld [in]",
        "depth of the beam [in]",
        "width of the beam [in]",
    ),
)

SPEED_REDUCER_7D = Problem(
    name="speedreducer-7d",
    low=(2.6, 0.7, 17.0, 7.3, 7.3, 2.9, 5.0),
    high=(3.6, 0.8, 28.0, 8.3, 8.3, 3.9, 5.5),
    evaluate=reducer,
    maximum=Maximum(
        9.102870466722177,
        (3.6, 0.7669649888473703, 17.0, 7.3, 7.3, 3.682399620580602, 5.286323034572514),
        proven=False,
        source="multi-start search with every kink as a constraint; on the knees of bending and the thick shaft",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula=(
        "weight, and bending, contact and two shafts' stresses by their limits, negated and scaled to about [0, 1]; "
        "Σₖ: slope (15, 12, 12, 18, 18) below the knee (0.6, 0.5, 0.5, 0.6, 0.5), (9, 1.2, 1, 1.5, 1.2) above"
    ),
    origin=(
        "outcomes: Golinski (1970), as in BoTorch, with the box of Tanabe and Ishibuchi (2020, RE3-7-5) and any number "
        "of teeth; scaling and utility were chosen here"
    ),
    parameters=(
        "face width [cm]", "module of the teeth [cm]", "number of teeth", "length of the first shaft [cm]",
        "length of the second shaft [cm]", "diameter of the first shaft [cm]", "diameter of the second shaft [cm]",
    ),
)  # fmt: skip
