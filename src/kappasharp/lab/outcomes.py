"""Outcomes of designs in the lab: a sample that shows their range, the same for every method and seed, and the lift."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.inference.features import Scaling, scaling
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import find_problem
from kappasharp.randomness import stream
from kappasharp.regression import predictability

SAMPLE = 256
# How many designs a question may simulate, as in a study with a cheap simulator; formulas have no limit.
BUDGETS = {"plasma-16d": 256, "pid-3d": 1024}


class KnownOutcomes(NamedTuple):
    """Designs (SAMPLE, d) in the unit cube and their outcomes (SAMPLE, k)."""

    designs: Tensor
    outcomes: Tensor

    def normalised(self, outcomes: Tensor) -> Tensor:
        """Outcomes (…, k) by their ranges in the sample, which become 0 to 1."""
        low, high = self.outcomes.amin(0), self.outcomes.amax(0)
        return (outcomes - low) / (high - low)


@cache
def sample(name: str) -> KnownOutcomes:
    """A scrambled Sobol sample of a problem's designs, always the same one."""
    problem = find_problem(name)
    engine = SobolEngine(problem.dimensions, scramble=True, seed=stream(0, name, "outcomes").initial_seed() % 2**31)
    designs = problem.draw(engine.draw(SAMPLE, dtype=torch.float64))
    return KnownOutcomes(designs, problem.unit_outcomes(designs))


@dataclass(frozen=True, eq=False)
class ProblemLift:
    """From designs to a problem's outcomes, scaled after the sample."""

    problem: Problem
    scaling: Scaling
    budget: int
    doubt: float = 0.0

    @property
    def size(self) -> int:
        """How many outcomes there are."""
        return len(self.problem.outcome_names)

    def __call__(self, X: Tensor, /) -> Tensor:
        """Scaled outcomes (…, k) of designs (…, d)."""
        return self.scaling(self.problem.unit_outcomes(X.double()))


@cache
def lift(name: str) -> ProblemLift | None:
    """How a method that learns on outcomes sees the designs of a problem; None where all of them are as good as chance.

    Outcomes that the sample shows to be so are left out, as in a study.
    """
    known, problem = sample(name), find_problem(name)
    shares = predictability.foreseen(*known)
    chance = shares < predictability.enough(problem.dimensions)
    if bool(chance.all()):
        return None
    scaled = scaling(known.outcomes).without(chance)
    # One that never varies says nothing either way.
    doubt = predictability.doubt(shares[scaled.high > scaled.low].tolist(), problem.dimensions)
    return ProblemLift(problem, scaled, BUDGETS.get(name, 0), doubt)
