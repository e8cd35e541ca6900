"""Ackley, Hartmann and Levy, negated: the textbook functions, to be maximised."""

import math

from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance

HARTMANN_HEIGHTS = (1.0, 1.2, 3.0, 3.2)
HARTMANN_WIDTHS = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
HARTMANN_CENTRES = (  # in units of 1e-4
    (1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0),
    (2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0),
    (2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0),
    (4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0),
)


def ackley(X: Tensor) -> Tensor:
    """Minus Ackley's function with a = 20, b = 0.2, c = 2π."""
    bowl = 20.0 * (-0.2 * X.square().mean(-1).sqrt()).exp()
    ripple = (2.0 * math.pi * X).cos().mean(-1).exp()
    return bowl + ripple - 20.0 - math.e


def hartmann(X: Tensor) -> Tensor:
    """Minus Hartmann's six-dimensional function: four Gaussian bumps."""
    heights, widths = X.new_tensor(HARTMANN_HEIGHTS), X.new_tensor(HARTMANN_WIDTHS)
    centres = 1e-4 * X.new_tensor(HARTMANN_CENTRES)
    distances = (widths * (X.unsqueeze(-2) - centres).square()).sum(-1)
    return (heights * (-distances).exp()).sum(-1)


def levy(X: Tensor) -> Tensor:
    """Minus Levy's function."""
    w = 1.0 + (X - 1.0) / 4.0
    first, inner, last = w[..., 0], w[..., :-1], w[..., -1]
    middle = ((inner - 1.0).square() * (1.0 + 10.0 * (math.pi * inner + 1.0).sin().square())).sum(-1)
    end = (last - 1.0).square() * (1.0 + (2.0 * math.pi * last).sin().square())
    return -((math.pi * first).sin().square() + middle + end)


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
    evaluate=hartmann,
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
