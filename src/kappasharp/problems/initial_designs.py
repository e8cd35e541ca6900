"""The first designs and answers of a run: the paper's five initializations, and none. [app:details]

`from_zero` is what a person lives through: pairs of a scrambled Sobol sequence, each of which is a question that counts
among the run's. How many there are is the preset's choice; shorter starts are the first pairs of longer ones.
A table depends on the problem's name, the seed and the initialization, through streams of their own, and nothing else:
every method starts from the same one. Pools are nested (the six designs are the first of the eight). Which pairs are
compared, and in which order, is shuffled independently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.errors import InvalidValueError, named
from kappasharp.problems import simulated_voters
from kappasharp.problems.problem import Problem
from kappasharp.problems.simulated_voters import Person
from kappasharp.randomness import stream, uniform

LARGEST_POOL = 8


@dataclass(frozen=True)
class Initialization:
    """How many designs, how many comparisons, and whether each design is in one comparison only."""

    n_points: int
    n_comparisons: int
    is_matching: bool


INITIALIZATIONS = {
    "pool_n6_k15": Initialization(6, 15, is_matching=False),
    "pool_n8_k15": Initialization(8, 15, is_matching=False),
    "pure_k3": Initialization(6, 3, is_matching=True),
    "pure_k5": Initialization(10, 5, is_matching=True),
    "pure_k15": Initialization(30, 15, is_matching=True),
}


FROM_ZERO = "from_zero"
STARTS = (*INITIALIZATIONS, FROM_ZERO)


def plan(initialization: str, first_pairs: int) -> Initialization:
    """The initialization of that name; from zero there are this many first pairs."""
    if initialization == FROM_ZERO:
        return Initialization(2 * first_pairs, first_pairs, is_matching=True)
    return named("initialization", initialization, INITIALIZATIONS)


def counted(initialization: str, first_pairs: int) -> int:
    """How many of a run's questions its start takes: the paper's starts are free."""
    return first_pairs if initialization == FROM_ZERO else 0


class Start(NamedTuple):
    """Designs (runs, n, d) in the unit cube, their utilities, comparisons (runs, m, 2) winner first, and the ties."""

    points: Tensor
    utility: Tensor
    comparisons: Tensor
    ties: Tensor


def table(problem: str, initialization: str, seed: int, dimensions: int, first_pairs: int = 0) -> tuple[Tensor, Tensor]:
    """Designs (n, d), as shares of the cube, and the pairs (m, 2) to compare, in their order."""
    shape = plan(initialization, first_pairs)
    double = torch.empty(0, dtype=torch.float64)
    if initialization == FROM_ZERO:
        scramble = stream(seed, problem, FROM_ZERO).initial_seed() % 2**31
        points = SobolEngine(dimensions, scramble=True, seed=scramble).draw(2 * first_pairs, dtype=torch.float64)
        return points, torch.arange(2 * first_pairs).reshape(-1, 2)
    if shape.is_matching:
        points = uniform((shape.n_points, dimensions), stream(seed, problem, initialization, "initial points"), double)
        pairs = torch.arange(shape.n_points).reshape(-1, 2)
    else:
        pool = uniform((LARGEST_POOL, dimensions), stream(seed, problem, "pool", "initial points"), double)
        points = pool[: shape.n_points]
        pairs = torch.tensor(list(combinations(range(shape.n_points), 2)))
    order = uniform((len(pairs),), stream(seed, problem, initialization, "comparison order"), double).argsort()
    return points, pairs[order[: shape.n_comparisons]]


def designs(problem: Problem, seeds: Sequence[int], questions: int, each: int) -> Tensor:
    """The designs (runs, questions, each, d) of first questions: from zero's Sobol sequence, so many to a question."""
    scrambles = [stream(seed, problem.name, FROM_ZERO).initial_seed() % 2**31 for seed in seeds]
    shares = [
        SobolEngine(problem.dimensions, scramble=True, seed=scramble).draw(questions * each, dtype=torch.float64)
        for scramble in scrambles
    ]
    return problem.draw(torch.stack(shares)).reshape(len(seeds), questions, each, -1)


def start(
    problem: Problem,
    initialization: str,
    seeds: int | Sequence[int],
    person: str | Person = "paper",
    first_pairs: int = 5,
) -> Start:
    """The starts of several runs, one per seed, with the simulated person's answers; `first_pairs` is for from zero."""
    numbers = [seeds] if isinstance(seeds, int) else list(seeds)
    if not numbers or not all(isinstance(seed, int) for seed in numbers):
        raise InvalidValueError(f"`seeds` must be whole numbers, at least one, but got {seeds!r}.")
    tables = [table(problem.name, initialization, seed, problem.dimensions, first_pairs) for seed in numbers]
    shares, pairs = (torch.stack(part) for part in zip(*tables, strict=True))
    points = problem.draw(shares)
    utility = problem.unit_utility(points)
    m = pairs.shape[1]
    # From zero the first answers are the run's first: another start meets the same mood at the same question.
    purpose = simulated_voters.ANSWERS if initialization == FROM_ZERO else f"{initialization} initial answers"
    chance = torch.stack([simulated_voters.draws(problem.name, seed, purpose, m) for seed in numbers])
    sides = utility.gather(1, pairs.flatten(1)).reshape(pairs.shape)
    if problem.members is not None:
        shown = points[torch.arange(len(points)).view(-1, 1, 1), pairs]
        sides = problem.unit_felt(shown, torch.arange(m).unsqueeze(-1))
    answers = simulated_voters.answer(simulated_voters.person(person), sides, chance)
    winner_first = torch.where((answers == simulated_voters.SECOND).unsqueeze(-1), pairs.flip(-1), pairs)
    return Start(points, utility, winner_first, answers == simulated_voters.TIE)
