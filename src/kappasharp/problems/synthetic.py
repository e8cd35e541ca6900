"""Textbook functions, negated, to be maximised: Ackley, Hartmann, Levy and Branin, and those of the development set.

Two are few directions that matter among many. Those of the development set are scaled where their values run into the
thousands.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance

HARTMANN_HEIGHTS = (1.0, 1.2, 3.0, 3.2)
HARTMANN_6D_WIDTHS = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
HARTMANN_6D_CENTRES = (  # in units of 1e-4
    (1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0),
    (2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0),
    (2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0),
    (4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0),
)
HARTMANN_3D_WIDTHS = ((3.0, 10.0, 30.0), (0.1, 10.0, 35.0), (3.0, 10.0, 30.0), (0.1, 10.0, 35.0))
HARTMANN_3D_CENTRES = (  # in units of 1e-4
    (3689.0, 1170.0, 2673.0),
    (4699.0, 4387.0, 7470.0),
    (1091.0, 8732.0, 5547.0),
    (381.0, 5743.0, 8828.0),
)
HARTMANN_3D_BEST = 3.8627797873326624
HARTMANN_3D_POINT = (0.11458887665506896, 0.5556488946169301, 0.8525469846866774)
BRANIN_AXES = (2, 8)  # the two of twelve coordinates that matter, counted from zero
BRANIN_LOW, BRANIN_SIDE = (-5.0, 0.0), 15.0
DIRECTIONS, ROTATED_DIMENSIONS = 3, 15


def ackley(X: Tensor) -> Tensor:
    """Minus Ackley's function with a = 20, b = 0.2, c = 2π."""
    bowl = 20.0 * (-0.2 * X.square().mean(-1).sqrt()).exp()
    ripple = (2.0 * math.pi * X).cos().mean(-1).exp()
    return bowl + ripple - 20.0 - math.e


def hartmann_3d(X: Tensor) -> Tensor:
    """Minus Hartmann's three-dimensional function."""
    return _hartmann(X, HARTMANN_3D_WIDTHS, HARTMANN_3D_CENTRES)


def hartmann_6d(X: Tensor) -> Tensor:
    """Minus Hartmann's six-dimensional function."""
    return _hartmann(X, HARTMANN_6D_WIDTHS, HARTMANN_6D_CENTRES)


def _hartmann(X: Tensor, widths: Sequence[Sequence[float]], centres: Sequence[Sequence[float]]) -> Tensor:
    """Four Gaussian bumps; their centres in units of 1e-4."""
    distances = (X.new_tensor(widths) * (X.unsqueeze(-2) - 1e-4 * X.new_tensor(centres)).square()).sum(-1)
    return (X.new_tensor(HARTMANN_HEIGHTS) * (-distances).exp()).sum(-1)


def levy(X: Tensor) -> Tensor:
    """Minus Levy's function."""
    w = 1.0 + (X - 1.0) / 4.0
    first, inner, last = w[..., 0], w[..., :-1], w[..., -1]
    middle = ((inner - 1.0).square() * (1.0 + 10.0 * (math.pi * inner + 1.0).sin().square())).sum(-1)
    end = (last - 1.0).square() * (1.0 + (2.0 * math.pi * last).sin().square())
    return -((math.pi * first).sin().square() + middle + end)


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
    return hartmann_3d(0.5 + (X - 0.5) @ directions(X).mT)


def _placed(values: tuple[float, ...], axes: tuple[int, ...], d: int) -> tuple[float, ...]:
    """The centre of the cube, but for these values on these axes."""
    chosen = dict(zip(axes, values, strict=True))
    return tuple(chosen.get(axis, 0.5) for axis in range(d))


def _unrotated(z: tuple[float, ...], d: int) -> tuple[float, ...]:
    """The point nearest to the cube's centre whose mixtures are z."""
    offset = torch.tensor(z, dtype=torch.float64) - 0.5
    return tuple((0.5 + offset @ directions(offset.new_empty(d))).tolist())


ACKLEY_8D = Problem(
    name="ackley-8d",
    low=(-1.0,) * 8,
    high=(1.0,) * 8,
    evaluate=ackley,
    maximum=Maximum(0.0, (0.0,) * 8, proven=True, source="both exponentials are largest at x = 0"),
    provenance=Provenance.SOURCED,
    formula="20 exp(−0.2 √mean(x²)) + exp(mean(cos 2πx)) − 20 − e",
    origin="Ackley (1987); the box [−1, 1]⁸ is the paper's",
)

HARTMANN_6D = Problem(
    name="hartmann-6d",
    low=(0.0,) * 6,
    high=(1.0,) * 6,
    evaluate=hartmann_6d,
    maximum=Maximum(
        3.322368011415515,
        (0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053),
        proven=False,
        source="the literature's optimum (3.32237), polished here by Newton's method",
    ),
    provenance=Provenance.SOURCED,
    formula="Σᵢ αᵢ exp(−Σⱼ Aᵢⱼ (xⱼ − Pᵢⱼ)²), four bumps of heights α = (1, 1.2, 3, 3.2)",
    origin="Hartmann (1973), in the form of Dixon and Szegő (1978)",
)


def _levy(d: int) -> Problem:
    return Problem(
        name=f"levy-{d}d",
        low=(-10.0,) * d,
        high=(10.0,) * d,
        evaluate=levy,
        maximum=Maximum(0.0, (1.0,) * d, proven=True, source="minus a sum of squares, all zero at x = 1"),
        provenance=Provenance.RECONSTRUCTED,
        formula=(
            "w = 1 + (x − 1)/4; −[sin²(πw₁) + Σ_{i<d} (wᵢ−1)² (1 + 10 sin²(πwᵢ + 1)) + (w_d−1)² (1 + sin²(2πw_d))]"
        ),
        origin="Levy and Montalvo (1985); the paper names no box; [−10, 10]ᵈ fits its table, [−5, 5]ᵈ not",
    )


LEVY_10D, LEVY_20D = _levy(10), _levy(20)

HARTMANN_3D = Problem(
    name="hartmann-3d",
    low=(0.0,) * 3,
    high=(1.0,) * 3,
    evaluate=hartmann_3d,
    maximum=Maximum(
        HARTMANN_3D_BEST,
        HARTMANN_3D_POINT,
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
        HARTMANN_3D_BEST,
        _unrotated(HARTMANN_3D_POINT, ROTATED_DIMENSIONS),
        proven=False,
        source="that of hartmann-3d: outside its cube every bump falls",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="zₖ = ½ + √(2/15) Σⱼ cos(πk(j − ½)/15) (xⱼ − ½), k = 1, 2, 3; hartmann-3d at z",
    origin="hartmann-3d; the three directions were chosen here, so that no coordinate is idle and most mixtures are",
)


# A scale is part of a utility's definition: it sets how much a person's noise of 0.1 is.
GRIEWANK_SCALE, STYBLINSKI_TANG_SCALE, DIXON_PRICE_SCALE, POWELL_SCALE = 0.25, 0.1, 1e-4, 1e-3
# Where two maxima are, that a textbook has in the centre of the box.
GRIEWANK_CENTRE = (110.0, -250.0, 60.0, 330.0, -170.0, 210.0, -90.0, -300.0, 140.0, -20.0)
RASTRIGIN_CENTRE = (1.3, -2.1, 0.7, 3.1, -0.4, -1.7)
SHEKEL_OFFSETS = (0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5)
SHEKEL_CENTRES = (
    (4.0, 4.0, 4.0, 4.0), (1.0, 1.0, 1.0, 1.0), (8.0, 8.0, 8.0, 8.0), (6.0, 6.0, 6.0, 6.0), (3.0, 7.0, 3.0, 7.0),
    (2.0, 9.0, 2.0, 9.0), (5.0, 3.0, 5.0, 3.0), (8.0, 1.0, 8.0, 1.0), (6.0, 2.0, 6.0, 2.0), (7.0, 3.6, 7.0, 3.6),
)  # fmt: skip


def rosenbrock(X: Tensor) -> Tensor:
    """Minus the logarithm of one plus Rosenbrock's function: a curved valley, steep from near and from far."""
    here, after = X[..., :-1], X[..., 1:]
    return -(100.0 * (after - here.square()).square() + (1.0 - here).square()).sum(-1).log1p()


def griewank(X: Tensor) -> Tensor:
    """Minus a quarter of Griewank's function, moved: a wide bowl with a ripple on it."""
    Z = X - X.new_tensor(GRIEWANK_CENTRE)
    roots = torch.arange(1, X.shape[-1] + 1, dtype=X.dtype, device=X.device).sqrt()
    return -GRIEWANK_SCALE * (1.0 + Z.square().sum(-1) / 4000.0 - (Z / roots).cos().prod(-1))


def rastrigin(X: Tensor) -> Tensor:
    """Minus Rastrigin's function, moved: a bowl with a hill and a dale in every unit."""
    Z = X - X.new_tensor(RASTRIGIN_CENTRE)
    return -(Z.square() + 10.0 - 10.0 * (2.0 * math.pi * Z).cos()).sum(-1)


def michalewicz(X: Tensor) -> Tensor:
    """Michalewicz's function with m = 10: narrow ridges, one across each coordinate, and flat ground between them."""
    i = torch.arange(1, X.shape[-1] + 1, dtype=X.dtype, device=X.device)
    return (X.sin() * (i * X.square() / math.pi).sin().square() ** 10).sum(-1)


def styblinski_tang(X: Tensor) -> Tensor:
    """Minus a tenth of the function of Styblinski and Tang: two hills in every coordinate, of unequal height."""
    return -0.5 * STYBLINSKI_TANG_SCALE * (X.square().square() - 16.0 * X.square() + 5.0 * X).sum(-1)


def dixon_price(X: Tensor) -> Tensor:
    """Minus 1e-4 times the function of Dixon and Price: a valley whose later coordinates count more."""
    i = torch.arange(2, X.shape[-1] + 1, dtype=X.dtype, device=X.device)
    later = (i * (2.0 * X[..., 1:].square() - X[..., :-1]).square()).sum(-1)
    return -DIXON_PRICE_SCALE * ((X[..., 0] - 1.0).square() + later)


def powell(X: Tensor) -> Tensor:
    """Minus 1e-3 times Powell's function: its curvature vanishes in half of all directions at the maximum."""
    a, b, c, d = X.unflatten(-1, (-1, 4)).unbind(-1)
    squares = (a + 10.0 * b).square() + 5.0 * (c - d).square()
    fourth_powers = (b - 2.0 * c).square().square() + 10.0 * (a - d).square().square()
    return -POWELL_SCALE * (squares + fourth_powers).sum(-1)


def shekel(X: Tensor) -> Tensor:
    """Minus Shekel's function with ten foxholes: sharp peaks on flat ground."""
    centres, offsets = X.new_tensor(SHEKEL_CENTRES), X.new_tensor(SHEKEL_OFFSETS)
    return ((X.unsqueeze(-2) - centres).square().sum(-1) + offsets).reciprocal().sum(-1)


def cosine_mixture(X: Tensor) -> Tensor:
    """The cosine mixture: a bowl with five ripples in every coordinate."""
    return (0.1 * (5.0 * math.pi * X).cos() - X.square()).sum(-1)


ROSENBROCK_4D = Problem(
    name="rosenbrock-4d",
    low=(-5.0,) * 4,
    high=(10.0,) * 4,
    evaluate=rosenbrock,
    maximum=Maximum(0.0, (1.0,) * 4, proven=True, source="a sum of squares under the logarithm, all zero at x = 1"),
    provenance=Provenance.RECONSTRUCTED,
    formula="−ln(1 + Σ_{i<4} [100 (xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²])",
    origin="Rosenbrock (1960), with BoTorch's box; the logarithm was added here, for values up to a million",
)

GRIEWANK_10D = Problem(
    name="griewank-10d",
    low=(-600.0,) * 10,
    high=(600.0,) * 10,
    evaluate=griewank,
    maximum=Maximum(0.0, GRIEWANK_CENTRE, proven=True, source="bowl and ripple are both largest at x = c"),
    provenance=Provenance.RECONSTRUCTED,
    formula="z = x − c; −0.25 [1 + Σ zᵢ²/4000 − Π cos(zᵢ/√i)]",
    origin="Griewank (1981) with its box; scale and centre c were chosen here, the textbook's centre is 0",
)

RASTRIGIN_6D = Problem(
    name="rastrigin-6d",
    low=(-5.12,) * 6,
    high=(5.12,) * 6,
    evaluate=rastrigin,
    maximum=Maximum(0.0, RASTRIGIN_CENTRE, proven=True, source="bowl and ripple are both largest at x = c"),
    provenance=Provenance.RECONSTRUCTED,
    formula="z = x − c; −Σ [zᵢ² + 10 − 10 cos 2πzᵢ]",
    origin="Rastrigin (1974) with its box; the centre c was chosen here, the textbook's is 0",
)

MICHALEWICZ_5D = Problem(
    name="michalewicz-5d",
    low=(0.0,) * 5,
    high=(math.pi,) * 5,
    evaluate=michalewicz,
    maximum=Maximum(
        4.687658179088145,
        (2.2029055201726093, 0.5 * math.pi, 1.2849915705529242, 1.9230584698663629, 1.7204697725658413),
        proven=False,
        source="the literature's optimum (4.687658); a sum of functions of one coordinate, each searched on a grid",
    ),
    provenance=Provenance.SOURCED,
    formula="Σ sin(xᵢ) sin²⁰(i xᵢ²/π)",
    origin="Michalewicz (1992), with m = 10 and BoTorch's box",
)

STYBLINSKI_TANG_10D = Problem(
    name="styblinskitang-10d",
    low=(-5.0,) * 10,
    high=(5.0,) * 10,
    evaluate=styblinski_tang,
    maximum=Maximum(
        39.16616570377142,
        (-2.903534027771177,) * 10,
        proven=True,
        source="a sum of quartics of one coordinate; the lower root of 4x³ − 32x + 5, the literature's −2.903534",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="−0.05 Σ [xᵢ⁴ − 16 xᵢ² + 5 xᵢ]",
    origin="Styblinski and Tang (1990) with its box; the scale 0.1 was chosen here",
)

DIXON_PRICE_12D = Problem(
    name="dixonprice-12d",
    low=(-10.0,) * 12,
    high=(10.0,) * 12,
    evaluate=dixon_price,
    maximum=Maximum(
        0.0, tuple(2.0 ** (2.0**-i - 1.0) for i in range(12)), proven=True, source="minus a sum of squares, all zero"
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="−10⁻⁴ [(x₁ − 1)² + Σ_{i≥2} i (2xᵢ² − xᵢ₋₁)²]",
    origin="Dixon and Price (1989) with its box; the scale 10⁻⁴ was chosen here",
)

POWELL_8D = Problem(
    name="powell-8d",
    low=(-4.0,) * 8,
    high=(5.0,) * 8,
    evaluate=powell,
    maximum=Maximum(0.0, (0.0,) * 8, proven=True, source="minus a sum of even powers, all zero at x = 0"),
    provenance=Provenance.RECONSTRUCTED,
    formula="−10⁻³ Σ over both blocks (a, b, c, d) of [(a + 10b)² + 5 (c − d)² + (b − 2c)⁴ + 10 (a − d)⁴]",
    origin="Powell (1962), with BoTorch's box; the scale 10⁻³ was chosen here",
)

SHEKEL_4D = Problem(
    name="shekel-4d",
    low=(0.0,) * 4,
    high=(10.0,) * 4,
    evaluate=shekel,
    maximum=Maximum(
        10.53644315348353,
        (4.000746868270634, 3.9995094800857736, 4.000746868270634, 3.9995094800857736),
        proven=False,
        source="the literature's optimum (10.5364), polished here by Newton's method",
    ),
    provenance=Provenance.SOURCED,
    formula="Σ over ten foxholes of 1/(‖x − Cᵢ‖² + βᵢ)",
    origin="Shekel (1971), in the form of Dixon and Szegő (1978) with m = 10, as in BoTorch",
)

COSINE_8D = Problem(
    name="cosine-8d",
    low=(-1.0,) * 8,
    high=(1.0,) * 8,
    evaluate=cosine_mixture,
    maximum=Maximum(0.8, (0.0,) * 8, proven=True, source="cosines and squares are both best at x = 0"),
    provenance=Provenance.SOURCED,
    formula="0.1 Σ cos(5πxᵢ) − Σ xᵢ²",
    origin="Breiman and Cutler (1993), in eight dimensions as in BoTorch",
)
