"""Car bodies and machine parts with several outcomes each, and a person who weighs them.

Vehicle-5D (mass, acceleration and intrusion in a crash, from the thickness of five parts) and CarCab-7D (nine responses
of a body in a side impact, from seven of its dimensions) are the paper's. The welded beam and the speed reducer belong
to the development set.
"""

import math

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance, Visible, piecewise_linear

# DTLZ2 with four outcomes, ZDT2 with two and OSY with eight, all in conflict, and ways to prefer one to another.

OUTCOMES = 4
# DTLZ2's outcomes at the centre of the box, for every dimension: where the person would like to be.
DTLZ2_WISH = (0.25 * math.sqrt(2.0), 0.25 * math.sqrt(2.0), 0.5, 0.5 * math.sqrt(2.0))
STEEP, FLAT, KNEES = (4.0, 3.0, 2.0, 1.0), (0.4, 0.3, 0.2, 0.1), (1.0, 1.0, 1.0, 1.0)
# This wish lies on the front y₂ = 1 − y₁² of ZDT2.
ZDT2_WISH, ZDT2_WEIGHTS = (0.6, 0.64), (4.0, 0.5)
# OSY's two objectives count less once they are good enough, and its six limits hardly at all once they are kept.
OSY_STEEP = (0.02, 0.2, *(10.0,) * 6)
OSY_FLAT = (0.01, *(0.1,) * 7)
OSY_KNEES = (1000.0, -100.0, *(0.0,) * 6)


def dtlz2_outcomes(X: Tensor) -> Tensor:
    """DTLZ2's outcomes (n, 4): a point of the unit sphere's positive part, pushed outwards by the distance g."""
    angles = 0.5 * math.pi * X[..., : OUTCOMES - 1]
    g = (X[..., OUTCOMES - 1 :] - 0.5).square().sum(-1)
    cos, sin = angles.cos(), angles.sin()
    f = [
        cos[..., 0] * cos[..., 1] * cos[..., 2],
        cos[..., 0] * cos[..., 1] * sin[..., 2],
        cos[..., 0] * sin[..., 1],
        sin[..., 0],
    ]
    return (1.0 + g).unsqueeze(-1) * torch.stack(f, -1)


def dtlz2_nearness(Y: Tensor) -> Tensor:
    """Minus the sum of the outcomes' distances from the wish."""
    return -(Y - Y.new_tensor(DTLZ2_WISH)).abs().sum(-1)


def dtlz2_tutorial_nearness(Y: Tensor) -> Tensor:
    """The same from the wish of BoTorch's tutorial: a half of everything."""
    return -(Y - 0.5).abs().sum(-1)


def dtlz2_piecewise(Y: Tensor) -> Tensor:
    """The piecewise-linear utility, with the outcomes maximised as they are."""
    return piecewise_linear(Y, STEEP, FLAT, KNEES)


def zdt2_outcomes(X: Tensor) -> Tensor:
    """ZDT2's outcomes (n, 2), to be small."""
    first = X[..., 0]
    g = 1.0 + 9.0 * X[..., 1:].mean(-1)
    return torch.stack([first, g - first.square() / g], -1)


def zdt2_nearness(Y: Tensor) -> Tensor:
    """Minus a weighted square distance of the outcomes from the wish: a concave utility."""
    return -((Y - Y.new_tensor(ZDT2_WISH)).square() * Y.new_tensor(ZDT2_WEIGHTS)).sum(-1)


def osy_outcomes(X: Tensor) -> Tensor:
    """OSY's two objectives, to be large, and how far each of six limits is kept (n, 8); negative where it is broken."""
    a, b, c, d, e, f = X.unbind(-1)
    pull = 25.0 * (a - 2.0).square() + (b - 2.0).square() + (c - 1.0).square()
    kept = [
        a + b - 2.0,
        6.0 - a - b,
        2.0 - b + a,
        2.0 - a + 3.0 * b,
        4.0 - (c - 3.0).square() - d,
        (e - 3.0).square() + f - 4.0,
    ]
    return torch.stack([pull + (d - 4.0).square() + (e - 1.0).square(), -X.square().sum(-1), *kept], -1)


def osy_piecewise(Y: Tensor) -> Tensor:
    """The piecewise-linear utility: broken limits count most."""
    return piecewise_linear(Y, OSY_STEEP, OSY_FLAT, OSY_KNEES)


DTLZ2_NAMES = tuple(f"y{number}" for number in range(1, OUTCOMES + 1))
NEAR = Visible(DTLZ2_NAMES, dtlz2_outcomes, dtlz2_nearness)
TUTORIAL = Visible(DTLZ2_NAMES, dtlz2_outcomes, dtlz2_tutorial_nearness)
PIECEWISE = Visible(DTLZ2_NAMES, dtlz2_outcomes, dtlz2_piecewise)
OSY = Visible(("pull", "calm", *(f"limit {number}" for number in range(1, 7))), osy_outcomes, osy_piecewise)
ZDT2 = Visible(("y1", "y2"), zdt2_outcomes, zdt2_nearness)


def _near(d: int) -> Problem:
    return Problem(
        name=f"dtlz2-{d}d",
        low=(0.0,) * d,
        high=(1.0,) * d,
        evaluate=NEAR.utility,
        visible=NEAR,
        maximum=Maximum(0.0, (0.5,) * d, proven=True, source="minus a distance, zero at the centre of the box"),
        provenance=Provenance.RECONSTRUCTED,
        formula=(
            "g = Σ_{i≥4} (xᵢ − ½)²; y = (1 + g)·(c₁c₂c₃, c₁c₂s₃, c₁s₂, s₁), cᵢ = cos(πxᵢ/2), sᵢ = sin(πxᵢ/2); "
            "−Σₖ |yₖ − y*ₖ|, y* = y(½, …, ½)"
        ),
        origin=(
            "outcomes: Deb et al. (2002), as in BoTorch 0.6; utility: the L1 distance of Lin et al. (2022), the only "
            "one of their utilities whose level fits the paper's table (its 16-dimensional level does not)"
        ),
    )


def _piecewise(best: float, angles: tuple[float, ...], d: int) -> Problem:
    corner = (0.0,) * (d - len(angles))  # any corner: g sees the distance from the centre alone
    return Problem(
        name=f"dtlz2-{d}d-piecewise",
        low=(0.0,) * d,
        high=(1.0,) * d,
        evaluate=PIECEWISE.utility,
        visible=PIECEWISE,
        maximum=Maximum(best, angles + corner, proven=False, source="multi-start search"),
        provenance=Provenance.SOURCED,
        formula="outcomes y as in dtlz2; Σₖ: slope (4, 3, 2, 1) where yₖ < 1, (0.4, 0.3, 0.2, 0.1) above",
        origin="Lin et al. (2022); not the paper's, whose values are negative and fall with the dimension",
    )


DTLZ2_8D, DTLZ2_16D, DTLZ2_20D = (_near(d) for d in (8, 16, 20))
DTLZ2_8D_PIECEWISE = _piecewise(1.175, (0.29319777734712804, 0.33049868107713065, 0.4096655263180422), 8)
DTLZ2_16D_PIECEWISE = _piecewise(2.3244381313, (0.1512106736753693, 0.24223788240110017, 0.4096655291706297), 16)
DTLZ2_20D_PIECEWISE = _piecewise(2.8754504139, (0.12200639364022878, 0.24223788363022739, 0.40966552954078084), 20)

DTLZ2_5D = Problem(
    name="dtlz2-5d",
    low=(0.0,) * 5,
    high=(1.0,) * 5,
    evaluate=TUTORIAL.utility,
    visible=TUTORIAL,
    maximum=Maximum(
        0.0,
        (1.0 / 3.0, 2.0 / math.pi * math.asin(3.0**-0.5), 0.5, 0.5, 0.5),
        proven=True,
        source="minus a distance, zero where all four outcomes are a half",
    ),
    provenance=Provenance.SOURCED,
    formula="outcomes y as in dtlz2; −Σₖ |yₖ − ½|",
    origin="the problem of BoTorch's BOPE tutorial",
)

OSY_6D = Problem(
    name="osy-6d",
    low=(0.0, 0.0, 1.0, 0.0, 1.0, 0.0),
    high=(10.0, 10.0, 5.0, 6.0, 5.0, 10.0),
    evaluate=OSY.utility,
    visible=OSY,
    maximum=Maximum(
        -6.879444444444445,
        (5.0, 1.0, 14.0 / 9.0, 0.0, 1.0, 0.5),
        proven=False,
        source="multi-start search, polished by hand: two limits just kept, the rest smooth",
    ),
    provenance=Provenance.SOURCED,
    formula=(
        "y = (25 (x₁ − 2)² + (x₂ − 2)² + (x₃ − 1)² + (x₄ − 4)² + (x₅ − 1)², −|x|², six limits); Σₖ: slope (0.02, 0.2, "
        "10, …, 10) below the knee (1000, −100, 0, …, 0), (0.01, 0.1, 0.1, …, 0.1) above"
    ),
    origin="outcomes: Osyczka and Kundu (1995), as in BoTorch, negated; utility: Lin et al. (2022)",
)

ZDT2_20D = Problem(
    name="zdt2-20d",
    low=(0.0,) * 20,
    high=(1.0,) * 20,
    evaluate=ZDT2.utility,
    visible=ZDT2,
    maximum=Maximum(
        0.0, (0.6, *(0.0,) * 19), proven=True, source="minus a distance, zero where both outcomes are the wish"
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="g = 1 + 9 mean(x₂ … x₂₀); y = (x₁, g − x₁²/g); −4 (y₁ − 0.6)² − ½ (y₂ − 0.64)²",
    origin="outcomes: Zitzler, Deb and Thiele (2000), as in BoTorch; the wish and its weights were chosen here",
)

# Vehicle: worst and best of each outcome (negated), which scale it to about [0, 1].
VEHICLE_WORST, VEHICLE_BEST = (-1704.0, -11.708, -0.26192), (-1661.9, -6.2136, -0.042879)
VEHICLE_STEEP, VEHICLE_FLAT, VEHICLE_KNEES = (2.0, 6.0, 8.0), (1.0, 2.0, 2.0), (0.5, 0.8, 0.8)
VEHICLE_FITTED_WEIGHTS = (3.0, 6.0, 55.0)
# CarCab: the source's limits. Its last three look shifted by one place against the original's (4, 9.9, 15.7); kept,
# so that the utility is the source's.
CARCAB_LIMITS = (0.0, 1.0, 0.32, 0.32, 0.32, 32.0, 32.0, 4.0, 9.9)
CARCAB_WORST = (-42.150, -0.47829, -115.63, -0.0072040, -0.18255, -10.168, 27.023, -8.0731, -6.4556)
CARCAB_BEST = (-16.0992, 0.9511, 112.7138, 0.2750, 0.1909, 14.4804, 28.9855, 0.5, 0.5)
CARCAB_STEEP = (7.0, 6.75, 6.5, 6.25, 6.0, 5.75, 5.5, 5.25, 5.0)
CARCAB_FLAT = (0.5, 0.4, 0.375, 0.35, 0.325, 0.3, 0.275, 0.25, 0.225)
CARCAB_KNEES = (0.55, 0.54, 0.53, 0.52, 0.51, 0.5, 0.49, 0.48, 0.47)
CARCAB_LINEAR = (2.25, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)
# The beam: load in lb, length in in, Young's and shear modulus in psi.
LOAD, LENGTH, YOUNG, SHEAR = 6000.0, 14.0, 30e6, 12e6
# What the person can live with: cost, deflection, shear stress, normal stress, load over buckling load.
BEARABLE, BEAM_WEIGHTS = (5.0, 0.01, 13600.0, 30000.0, 1.0), (0.5, 0.15, 0.3, 0.2, 0.1)
# The reducer: weight, then four loads by their limits. Worst and best of each (negated) scale it to about [0, 1].
REDUCER_WORST, REDUCER_BEST = (-5500.0, -1.2, -1.2, -1.5, -1.2), (-2500.0, -0.3, -0.3, -0.5, -0.8)
REDUCER_STEEP, REDUCER_FLAT = (15.0, 12.0, 12.0, 18.0, 18.0), (9.0, 1.2, 1.0, 1.5, 1.2)
REDUCER_KNEES = (0.6, 0.5, 0.5, 0.6, 0.5)


def vehicle_outcomes(X: Tensor) -> Tensor:
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


def vehicle_scaled(Y: Tensor) -> Tensor:
    """The outcomes negated and scaled, so that large is good."""
    worst, best = Y.new_tensor(VEHICLE_WORST), Y.new_tensor(VEHICLE_BEST)
    return (-Y - worst) / (best - worst)


def vehicle(Y: Tensor) -> Tensor:
    """The piecewise-linear utility of the scaled outcomes."""
    return piecewise_linear(vehicle_scaled(Y), VEHICLE_STEEP, VEHICLE_FLAT, VEHICLE_KNEES)


def vehicle_fitted(Y: Tensor) -> Tensor:
    """Minus a weighted sum of the raw outcomes, whose weights were picked for the paper's level."""
    return -(Y * Y.new_tensor(VEHICLE_FITTED_WEIGHTS)).sum(-1)


def carcab_outcomes(X: Tensor) -> Tensor:
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


def carcab_scaled(Y: Tensor) -> Tensor:
    """How far each response stays below its limit, scaled, so that large is good."""
    limits, worst, best = (Y.new_tensor(row) for row in (CARCAB_LIMITS, CARCAB_WORST, CARCAB_BEST))
    return (limits - Y - worst) / (best - worst)


def carcab(Y: Tensor) -> Tensor:
    """The piecewise-linear utility of the scaled outcomes."""
    return piecewise_linear(carcab_scaled(Y), CARCAB_STEEP, CARCAB_FLAT, CARCAB_KNEES)


def carcab_linear(Y: Tensor) -> Tensor:
    """The source's other utility: a weighted sum of the scaled outcomes."""
    return (carcab_scaled(Y) * Y.new_tensor(CARCAB_LINEAR)).sum(-1)


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


def beam(Y: Tensor) -> Tensor:
    """The logarithm of a Cobb–Douglas product of five satisfactions, each half where its outcome is just bearable."""
    ratios = Y / Y.new_tensor(BEARABLE)
    return -(ratios.square().log1p() * Y.new_tensor(BEAM_WEIGHTS)).sum(-1)


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


def reducer(Y: Tensor) -> Tensor:
    """The piecewise-linear utility of the outcomes, negated and scaled."""
    worst, best = Y.new_tensor(REDUCER_WORST), Y.new_tensor(REDUCER_BEST)
    return piecewise_linear((-Y - worst) / (best - worst), REDUCER_STEEP, REDUCER_FLAT, REDUCER_KNEES)


VEHICLE_NAMES = ("mass [kg]", "acceleration", "intrusion [m]")
CARCAB_NAMES = (
    "weight [kg]", "load on the abdomen [kN]", "viscous criterion, upper", "viscous criterion, middle",
    "viscous criterion, lower", "deflection of the ribs [mm]", "force on the pubic symphysis [kN]",
    "speed of the pillar [m/s]", "speed of the door [m/s]",
)  # fmt: skip
VEHICLE = Visible(VEHICLE_NAMES, vehicle_outcomes, vehicle)
FITTED = Visible(VEHICLE_NAMES, vehicle_outcomes, vehicle_fitted)
CARCAB = Visible(CARCAB_NAMES, carcab_outcomes, carcab)
BEAM = Visible(
    ("cost", "deflection [in]", "shear stress [psi]", "normal stress [psi]", "load by buckling load"),
    beam_outcomes,
    beam,
)
REDUCER = Visible(
    ("weight", "bending by its limit", "contact by its limit", "first shaft by its limit", "second shaft by its limit"),
    reducer_outcomes,
    reducer,
)


VEHICLE_5D = Problem(
    name="vehicle-5d",
    low=(1.0,) * 5,
    high=(3.0,) * 5,
    evaluate=VEHICLE.utility,
    visible=VEHICLE,
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
    evaluate=FITTED.utility,
    visible=FITTED,
    maximum=Maximum(-5038.8450675, (1.0,) * 5, proven=False, source="multi-start search"),
    provenance=Provenance.FITTED,
    formula="−(3 mass + 6 acceleration + 55 intrusion)",
    origin="weights picked here, out of about 50,000, for the level of the paper's table: a curiosity",
)

CARCAB_7D = Problem(
    name="carcab-7d",
    low=(0.5, 0.45, 0.5, 0.5, 0.875, 0.4, 0.4),
    high=(1.5, 1.35, 1.5, 1.5, 2.625, 1.2, 1.2),
    evaluate=CARCAB.utility,
    visible=CARCAB,
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

WELDED_BEAM_4D = Problem(
    name="weldedbeam-4d",
    low=(0.125, 0.1, 0.1, 0.125),
    high=(5.0, 10.0, 10.0, 5.0),
    evaluate=BEAM.utility,
    visible=BEAM,
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
    evaluate=REDUCER.utility,
    visible=REDUCER,
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
