"""Copies of problems with outcomes: the same taste and outcomes, every coordinate bent and some of them turned round.

Textbooks put their best designs in the middle of the box or in its corners, and a method may profit from that. In a
warped copy the best design lies anywhere. Copies called `…-noise` are warped too, and their outcomes have nothing to do
with the utility: what they cost a method that trusts in outcomes can be measured.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from kappasharp.problems.problem import Problem, Provenance, Visible
from kappasharp.randomness import stream, uniform

# The exponents of the bends, and a shift that keeps their slopes finite at the ends.
WARPS, SHIFT = (0.4, 2.5), 1e-3
# Outcomes of no meaning: how many, from how many waves each, and how long these are.
MEANINGLESS, WAVES, LENGTHS = 4, 64, (0.3, 2.0)


def _drawn(name: str, what: str, *shape: int) -> Tensor:
    return uniform(shape, stream(0, name, what), torch.empty(0, dtype=torch.float64))


class Bend:
    """The coordinates of one warped copy: u ↦ ((u + ε)ᵃ − εᵃ) / ((1 + ε)ᵃ − εᵃ), then 1 − u for some of them."""

    def __init__(self, name: str, dimensions: int) -> None:
        low, high = map(math.log, WARPS)
        self.power = (low + (high - low) * _drawn(name, "warp", dimensions)).exp()
        self.flipped = _drawn(name, "flip", dimensions) < 0.5  # noqa: PLR2004 - every second one
        self.ends = SHIFT**self.power, (1.0 + SHIFT) ** self.power

    def to(self, U: Tensor) -> Tensor:
        """Points of the copy's cube in the original's."""
        power = self.power.to(U)
        low, high = (end.to(U) for end in self.ends)
        bent = ((U + SHIFT) ** power - low) / (high - low)
        return torch.where(self.flipped.to(U.device), 1.0 - bent, bent)

    def back(self, U: Tensor) -> Tensor:
        """Points of the original's cube in the copy's."""
        power = self.power.to(U)
        low, high = (end.to(U) for end in self.ends)
        bent = torch.where(self.flipped.to(U.device), 1.0 - U, U)
        return ((low + (high - low) * bent) ** (1.0 / power) - SHIFT).clamp(0.0, 1.0)


def warped(problem: Problem) -> Problem:
    """The problem's warped copy, always the same one."""
    assert problem.visible is not None
    name, visible = f"{problem.name}-warped", problem.visible
    bend = Bend(name, problem.dimensions)

    def moved(X: Tensor) -> Tensor:
        return problem.to_native(bend.to(problem.to_unit(X)))

    seen = Visible(visible.names, lambda X: visible.measure(moved(X)), visible.worth)
    best = torch.tensor(problem.maximum.point, dtype=torch.float64)
    point = problem.to_native(bend.back(problem.to_unit(best)))
    return replace(
        problem,
        name=name,
        evaluate=seen.utility,
        visible=seen,
        maximum=problem.maximum._replace(point=tuple(point.tolist())),
        provenance=Provenance.RECONSTRUCTED,
        formula=f"{problem.name} at coordinates that are bent and flipped",
        origin=f"{problem.name}; exponents from {WARPS[0]} to {WARPS[1]} and flips drawn here from a named stream",
        version=1,
    )


class Waves:
    """Outcomes of no meaning: sums of waves over the unit cube, as smooth as a Gaussian process with such lengths."""

    def __init__(self, name: str, dimensions: int) -> None:
        low, high = map(math.log, LENGTHS)
        lengths = (low + (high - low) * _drawn(name, "lengths", dimensions, 1)).exp()
        drawn = _drawn(name, "waves", dimensions, MEANINGLESS * WAVES)
        self.frequencies = torch.special.ndtri(drawn.clamp(min=2.0**-54)) / lengths
        self.phases = 2.0 * math.pi * _drawn(name, "phases", MEANINGLESS * WAVES)

    def __call__(self, U: Tensor) -> Tensor:
        """Outcomes (…, MEANINGLESS) of points (…, d) of the unit cube."""
        waves = (U @ self.frequencies.to(U) + self.phases.to(U)).cos()
        return waves.unflatten(-1, (MEANINGLESS, WAVES)).sum(-1) * math.sqrt(2.0 / WAVES)


def meaningless(problem: Problem) -> Problem:
    """The problem's warped copy with smooth outcomes that have nothing to do with its utility."""
    copy, name = warped(problem), f"{problem.name}-noise"
    waves = Waves(name, problem.dimensions)
    names = tuple(f"noise {number}" for number in range(1, MEANINGLESS + 1))
    # Nobody can tell the utility from such outcomes: `worth` says so by having no number.
    seen = Visible(names, lambda X: waves(problem.to_unit(X)), lambda Y: torch.full_like(Y[..., 0], torch.nan))
    return replace(
        copy,
        name=name,
        visible=seen,
        formula=f"{copy.name}, with four outcomes that are smooth, random and unrelated to it",
        origin=f"{copy.name}; the outcomes were drawn here from a named stream",
    )
