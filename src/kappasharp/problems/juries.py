"""Juries: several people who take turns at one problem's designs. `jury-10-clustered-hartmann-6d` has ten.

A taste is the problem's utility about another place: a design is moved, by up to 0.4 of every parameter's range, and
reflected where that leaves the range. What a design is worth is the mean of what the careful members feel about it.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.errors import InvalidValueError, named
from kappasharp.problems import generated
from kappasharp.problems.problem import Maximum, Problem, Provenance
from kappasharp.streams import stream, uniform

PREFIX = "jury"
# Whose tastes differ, in words: a third of them, one at least, share another one; everybody has their own; nobody's,
# but one member answers by lot.
CLUSTERED, INDEPENDENT, CARELESS = "clustered", "independent", "careless"
KINDS = {
    CLUSTERED: "a third of them with another taste",
    INDEPENDENT: "everybody with a taste of their own",
    CARELESS: "of one taste, but one answers by lot",
}
MOST, THIRD, FEWEST, LARGEST = 0.4, 3, 2, 100
# Who is of the other taste where a third is, and who answers by lot.
OTHER = 1


class JuryName(NamedTuple):
    """What the name of a jury says: its people, their tastes, and the problem."""

    people: int
    kind: str
    problem: str


def parse(name: str) -> JuryName:
    """The parts of a jury's name."""
    _, _, rest = name.partition("-")
    size, _, rest = rest.partition("-")
    kind, _, problem = rest.partition("-")
    if not (size.isascii() and size.isdigit() and FEWEST <= int(size) <= LARGEST and problem):
        raise InvalidValueError(
            f"A jury is called `{PREFIX}-PEOPLE-TASTES-PROBLEM`, of {FEWEST} to {LARGEST} people, as in "
            f"jury-10-clustered-hartmann-6d, but got {name!r}."
        )
    named("jury", kind, KINDS)
    return JuryName(int(size), kind, problem)


def of(problem: Problem, people: int, kind: str) -> Problem:
    """A jury about a problem's designs, always the same one; its parameters are those of the unit cube."""
    if problem.is_simulated or problem.steps or problem.choices:
        raise InvalidValueError(
            f"A jury must be about a problem that is a formula of continuous parameters, but {problem.name} is not."
        )
    name = f"{PREFIX}-{people}-{kind}-{problem.name}"
    moves = _moves(name, kind, people, problem.dimensions)
    counts = torch.ones(people, dtype=torch.float64)
    if kind == CARELESS:
        counts[OTHER] = 0.0

    def members(U: Tensor) -> Tensor:
        # Who answers by lot feels the same about all designs: their noise decides.
        return problem.unit_utility(reflected(U.unsqueeze(-2) + moves.to(U))) * counts.to(U)

    def evaluate(U: Tensor) -> Tensor:
        return members(U).sum(-1) / float(counts.sum())

    d = problem.dimensions
    found = Problem(
        name=name, low=(0.0,) * d, high=(1.0,) * d, evaluate=evaluate,
        maximum=Maximum(float("inf"), (), proven=False, source=""),
        provenance=Provenance.RECONSTRUCTED,
        formula=f"the mean over {people} people of {problem.name}, {KINDS[kind]}",
        origin=f"{problem.name}; the tastes were drawn here from a named stream",
        parameters=problem.parameters, people=people, members=members,
    )  # fmt: skip
    return _with_maximum(found)


def reflected(U: Tensor) -> Tensor:
    """Points at most one range outside of the unit cube, back in it: reflected at its sides."""
    return 1.0 - (1.0 - U.abs()).abs()


def _moves(name: str, kind: str, people: int, dimensions: int) -> Tensor:
    """How far each member's taste (V, d) lies from the problem's own."""
    drawn = uniform((people, dimensions), stream(0, name, "tastes"), torch.empty(0, dtype=torch.float64))
    moves = MOST * (2.0 * drawn - 1.0)
    if kind == INDEPENDENT:
        return moves
    is_other = torch.arange(people) % THIRD == OTHER
    return moves[:1] * (is_other.unsqueeze(-1) if kind == CLUSTERED else 0.0)


def _with_maximum(problem: Problem) -> Problem:
    X = SobolEngine(problem.dimensions, scramble=True, seed=0).draw(generated.SAMPLE, dtype=torch.float64)
    point, value = generated.climbed(problem, X, problem.evaluate(X))
    source = f"a random search from {generated.SAMPLE:,} designs"
    return replace(problem, maximum=Maximum(value, tuple(point.tolist()), proven=False, source=source))
