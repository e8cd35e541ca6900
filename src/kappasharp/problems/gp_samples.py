"""Utilities drawn once from a named stream: two samples of a Gaussian process, and a sum of bumps."""

import math
from functools import cache

import torch
from torch import Tensor

from kappasharp.problems.problem import Maximum, Problem, Provenance
from kappasharp.randomness import stream, uniform

FEATURES = 256
SMOOTH_DIMENSIONS, ROUGH_DIMENSIONS, BUMPS_DIMENSIONS = 6, 10, 16
SMOOTH_LENGTHS, ROUGH_LENGTHS = (0.35, 1.0), (0.4, 2.0)  # of the first and the last coordinate, geometric between
ROUGH_FREEDOM = 3  # degrees of freedom of the frequencies: those of a Matérn kernel with ν = 3/2
ROUGH_SCALE = 0.5
BUMP_HEIGHTS, BUMP_WIDTH = (20.0, 18.0, 16.0, 14.0, 12.0, 10.0), 0.5


def _normal(shape: tuple[int, ...], *names: str) -> Tensor:
    """Standard normal numbers, the same for ever."""
    draws = uniform(shape, stream(0, *names), torch.empty(0, dtype=torch.float64))
    return torch.special.ndtri(draws.clamp(min=2.0**-54))


@cache
def features(name: str, d: int, lengths: tuple[float, float], freedom: int) -> tuple[Tensor, Tensor, Tensor]:
    """Frequencies (d, m), phases and weights (m,) of a sample; no degrees of freedom means infinitely many."""
    lengthscales = torch.logspace(math.log10(lengths[0]), math.log10(lengths[1]), d, dtype=torch.float64)
    frequencies = _normal((d, FEATURES), name, "frequencies") / lengthscales.unsqueeze(-1)
    if freedom:
        squares = _normal((freedom, FEATURES), name, "tails").square().sum(0)
        frequencies = frequencies * (freedom / squares).sqrt()
    phases = 2.0 * math.pi * uniform((FEATURES,), stream(0, name, "phases"), frequencies)
    return frequencies, phases, math.sqrt(2.0 / FEATURES) * _normal((FEATURES,), name, "weights")


def smooth(X: Tensor) -> Tensor:
    """A sample of a Gaussian process with a squared exponential kernel."""
    made = features("gp-6d-smooth", SMOOTH_DIMENSIONS, SMOOTH_LENGTHS, 0)
    frequencies, phases, weights = (part.to(X) for part in made)
    return (X @ frequencies + phases).cos() @ weights


def rough(X: Tensor) -> Tensor:
    """Half a sample of a Gaussian process with a Matérn kernel, ν = 3/2."""
    made = features("gp-10d-rough", ROUGH_DIMENSIONS, ROUGH_LENGTHS, ROUGH_FREEDOM)
    frequencies, phases, weights = (part.to(X) for part in made)
    return ROUGH_SCALE * ((X @ frequencies + phases).cos() @ weights)


@cache
def bump_centres() -> Tensor:
    """Where the six bumps are (6, d), the same for ever."""
    shape = (len(BUMP_HEIGHTS), BUMPS_DIMENSIONS)
    return uniform(shape, stream(0, "bumps-16d", "centres"), torch.empty(0, dtype=torch.float64))


def bumps(X: Tensor) -> Tensor:
    """Six Gaussian bumps of one width and unequal heights."""
    distances = (X.unsqueeze(-2) - bump_centres().to(X)).square().sum(-1)
    return (-0.5 * distances / BUMP_WIDTH**2).exp() @ X.new_tensor(BUMP_HEIGHTS)


GP_6D_SMOOTH = Problem(
    name="gp-6d-smooth",
    low=(0.0,) * SMOOTH_DIMENSIONS,
    high=(1.0,) * SMOOTH_DIMENSIONS,
    evaluate=smooth,
    maximum=Maximum(
        3.7480515518238313,
        (1.0, 0.20655403009074746, 0.0, 0.11589768248739753, 1.0, 0.0),
        proven=False,
        source="8,000 ascents; four of six coordinates are on faces of the box",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="√(2/256) Σₘ aₘ cos(ωₘ·x + φₘ), ω normal with spreads 1/ℓ, ℓ from 0.35 to 1",
    origin="random Fourier features of Rahimi and Recht (2007), drawn here once from a named stream",
)

GP_10D_ROUGH = Problem(
    name="gp-10d-rough",
    low=(0.0,) * ROUGH_DIMENSIONS,
    high=(1.0,) * ROUGH_DIMENSIONS,
    evaluate=rough,
    maximum=Maximum(
        2.21878890937516,
        (
            0.8044757260589166, 0.3099218314136997, 0.8736090238448639, 0.14361639896613973, 0.0,
            0.0, 0.030633086789638116, 0.8659262735687759, 0.9797471951538095, 0.0,
        ),
        proven=False,
        source="23,000 ascents; one in three hundred ends here",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="½ √(2/256) Σₘ aₘ cos(ωₘ·x + φₘ), ω Student's t (3 degrees) with spreads 1/ℓ, ℓ from 0.4 to 2",
    origin="random Fourier features of Rahimi and Recht (2007), drawn here once from a named stream",
)  # fmt: skip

BUMPS_16D = Problem(
    name="bumps-16d",
    low=(0.0,) * BUMPS_DIMENSIONS,
    high=(1.0,) * BUMPS_DIMENSIONS,
    evaluate=bumps,
    maximum=Maximum(
        21.020007850024218,
        (
            0.601768807, 0.622844028, 0.675875279, 0.542171908, 0.084904405, 0.948602002, 0.704142647, 0.442111137,
            0.582422265, 0.261125408, 0.524107116, 0.151474495, 0.511828621, 0.11157837, 0.260616682, 0.826827121,
        ),
        proven=False,
        source="300 ascents, polished by Newton's method; most ascents end on a lower top",
    ),
    provenance=Provenance.RECONSTRUCTED,
    formula="Σₖ hₖ exp(−‖x − cₖ‖²/(2·0.5²)), six bumps of heights h = (20, 18, 16, 14, 12, 10)",
    origin="made here; the centres were drawn once from a named stream",
)  # fmt: skip
