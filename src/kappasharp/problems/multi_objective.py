"""DTLZ2 with four outcomes, ZDT2 with two and OSY with eight, all in conflict, and ways to prefer one to another."""

import math

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance, Visible, piecewise_linear

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
