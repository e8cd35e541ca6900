"""Simulated people: from the hidden utilities of two designs to an answer, A, B, or a tie; and juries of several.

Chance is an argument: `draws` gives the numbers of a whole run, the same for every method and every person, so that two
methods meet the same mood at the same question.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.problems import random_problems
from kappasharp.problems.problem import Maximum, Problem, Provenance
from kappasharp.randomness import stream, uniform

FIRST, SECOND, TIE = 0, 1, 2
# The stream of a run's answers.
ANSWERS = "oracle noise"
# What one answer may use: a standard normal for each side, then two uniform numbers: whether it lapses, and to what.
NORMALS, UNIFORMS = 2, 2
# The steps of a slider that are told apart, and the largest rating.
STEPS, MOST_BETTER = 21, 3
# A decision's diffusion: its drift for a difference of one deviation of its noise, its time step and most steps, and
# what comes before it, all in units of an indifferent decision's mean time.
DRIFT, TICK, TICKS, BEFORE = 0.851, 0.01, 600, 0.25


@dataclass(frozen=True)
class Person:
    """Someone who compares two designs; every number but the lapse rate is in units of the problem's utility."""

    noise: float = 0.1  # standard deviation of what is felt about each design, each time
    lapse: float = 0.0  # chance of an answer that has nothing to do with the designs
    just_noticeable: float = 0.0  # felt differences up to this are a tie
    position_bias: float = 0.0  # added to what is felt about the first design
    hand: float = 0.0  # deviation of where a slider is left from where it should be, in units of its line
    first_top: bool = False  # whether a slider, moved from its first end, is left at the first top
    width: float = 0.2  # what lies between two ratings: "equal" reaches half as far to either side
    tempo: float = 0.0  # seconds that an indifferent decision takes on average; 0 is a person whose times nobody knows
    idle: float = 0.0  # chance that an answer's time has nothing to do with it, and is long

    def __post_init__(self) -> None:
        for name in ("noise", "lapse", "just_noticeable", "position_bias", "hand", "width", "tempo", "idle"):
            if not isinstance(getattr(self, name), Real):
                raise InvalidTypeError(f"`Person.{name}` must be a number, but got {getattr(self, name)!r}.")
        for name in ("noise", "just_noticeable", "hand", "width", "tempo"):
            value = getattr(self, name)
            if not 0.0 <= value < float("inf"):
                raise InvalidValueError(f"`Person.{name}` must be finite and at least 0, but got {value}.")
        if not 0.0 <= self.lapse <= 1.0:
            raise InvalidValueError(f"`Person.lapse` must be a probability, but got {self.lapse}.")
        if not abs(self.position_bias) < float("inf"):
            raise InvalidValueError(f"`Person.position_bias` must be finite, but got {self.position_bias}.")


PERSONS = {
    "paper": Person(),
    "exact": Person(noise=0.0),
    "careless": Person(lapse=0.1),
    "hesitant": Person(just_noticeable=0.1),
    "biased": Person(position_bias=0.1),
    "human": Person(lapse=0.03, position_bias=0.02),
    "shaky": Person(hand=0.03),
    "hasty": Person(first_top=True),
    "timed": Person(tempo=4.0),
    "interrupted": Person(tempo=4.0, idle=0.1),
    "absent": Person(tempo=4.0, idle=1.0),
}


def person(name: str | Person) -> Person:
    """The simulated person of that name."""
    return name if isinstance(name, Person) else named("simulated person", name, PERSONS)


def draws(problem: str, seed: int, purpose: str, count: int) -> Tensor:
    """The chance (count, 4) in the answers of one run: two standard normal and two uniform numbers each.

    A longer run begins with the numbers of a shorter one.
    """
    chance = uniform((count, NORMALS + UNIFORMS), stream(seed, problem, purpose), torch.empty(0, dtype=torch.float64))
    # The generator gives multiples of 2⁻⁵³, zero among them, whose quantile would be minus infinity.
    chance[:, :NORMALS] = torch.special.ndtri(chance[:, :NORMALS].clamp(min=2.0**-54))
    return chance


def further_draws(problem: str, seed: int, step: int, count: int) -> Tensor:
    """The normal numbers of the designs beyond two in one question."""
    numbers = uniform((count,), stream(seed, problem, ANSWERS, f"beyond two, {step}"), torch.empty(0).double())
    return torch.special.ndtri(numbers.clamp(min=2.0**-54))


def noisy_utility(who: Person, utility: Tensor, chance: Tensor) -> Tensor:
    """What is felt about the two designs (…, 2)."""
    felt = utility + who.noise * chance[..., :NORMALS].to(utility)
    return felt + utility.new_tensor([who.position_bias, 0.0])


def best_of(who: Person, utility: Tensor, chance: Tensor, further: Tensor) -> Tensor:
    """The number of the preferred one of q designs (…, q); there are no ties. `further` has the normals beyond two."""
    lapse, guess = chance[..., NORMALS:].to(utility).unbind(-1)
    q = utility.shape[-1]
    felt = utility + who.noise * torch.cat([chance[..., :NORMALS], further], -1).to(utility)
    felt = felt + who.position_bias * (torch.arange(q) == 0).to(utility)
    return torch.where(lapse < who.lapse, (guess * q).long(), felt.argmax(-1))


def order(who: Person, utility: Tensor, chance: Tensor, further: Tensor) -> Tensor:
    """The numbers of q designs (…, q), the preferred one first; one that lapses, at random. `further` as above."""
    lapse, _ = chance[..., NORMALS:].to(utility).unbind(-1)
    noise = torch.cat([chance[..., :NORMALS], further], -1).to(utility)
    felt = utility + who.noise * noise + who.position_bias * (torch.arange(utility.shape[-1]) == 0).to(utility)
    return torch.where((lapse < who.lapse).unsqueeze(-1), noise, felt).argsort(-1, descending=True)


def slide(who: Person, utility: Tensor, chance: Tensor, further: Tensor) -> Tensor:
    """The place in [0, 1] at which a slider is left, given the utility (…, STEPS) along its line.

    Each step is felt with its own noise; `further` has the normals beyond two.
    """
    lapse, guess = chance[..., NORMALS:].to(utility).unbind(-1)
    noise = torch.cat([chance[..., :NORMALS], further[..., : STEPS - NORMALS]], -1).to(utility)
    felt = utility + who.noise * noise
    best = felt.argmax(-1)
    if who.first_top:
        falls = felt[..., 1:] < felt[..., :-1]
        best = torch.where(falls.any(-1), falls.long().argmax(-1), STEPS - 1)
    place = best.to(utility) / (STEPS - 1) + who.hand * further[..., STEPS - NORMALS].to(utility)
    return torch.where(lapse < who.lapse, guess, place.clamp(0.0, 1.0))


def rate(who: Person, utility: Tensor, chance: Tensor) -> Tensor:
    """How much better the first of two designs (…, 2) is, −3 to 3."""
    lapse, guess = chance[..., NORMALS:].to(utility).unbind(-1)
    first, second = noisy_utility(who, utility, chance).unbind(-1)
    honest = ((first - second) / who.width).round().clamp(-MOST_BETTER, MOST_BETTER)
    return torch.where(lapse < who.lapse, (guess * (2 * MOST_BETTER + 1)).floor() - MOST_BETTER, honest).long()


def seconds(who: Person, cells: Sequence[tuple[str, int]], utility: Tensor, step: int) -> Tensor | None:
    """How long the answers to a pair (runs, 2) took, run by run; None of a person whose times nobody knows.

    Seeing and moving take BEFORE of the tempo; the decision is a diffusion between two bounds, with the difference as
    its drift; what has nothing to do with it is log-normal, and three times as long at the median.
    """
    if not who.tempo:
        return None
    paths, others = (torch.stack(part) for part in zip(*(_times(*cell, step) for cell in cells), strict=True))
    drift = DRIFT * (utility[:, 0] - utility[:, 1]) / max(who.noise * 2.0**0.5, 1e-9)
    # A walk in steps passes a bound by 0.583 steps on average (Siegmund), so the bound is so much nearer.
    walk = (paths * TICK**0.5 + drift.unsqueeze(-1) * TICK).cumsum(-1).abs() >= 1.0 - 0.5826 * TICK**0.5
    ticks = torch.where(walk.any(-1), walk.long().argmax(-1) + 1, paths.shape[-1])
    long = 3.0 * others[:, 1].exp()
    return who.tempo * (BEFORE + torch.where(torch.special.ndtr(others[:, 0]) < who.idle, long, ticks * TICK))


def _times(problem: str, seed: int, step: int) -> tuple[Tensor, Tensor]:
    numbers = uniform((TICKS + 2,), stream(seed, problem, ANSWERS, f"seconds, {step}"), torch.empty(0).double())
    normals = torch.special.ndtri(numbers.clamp(min=2.0**-54))
    return normals[:TICKS], normals[TICKS:]


def further_for(cells: Sequence[tuple[str, int]], step: int, count: int) -> Tensor:
    """The normals beyond two, run by run."""
    return torch.stack([further_draws(problem, seed, step, count) for problem, seed in cells])


def answer_about(who: Person, cells: Sequence[tuple[str, int]], utility: Tensor, chance: Tensor, step: int) -> Tensor:
    """The answers of several runs (problem and seed) to a question of two designs (runs, 2), or of more: the best."""
    more = utility.shape[-1] - NORMALS
    if not more:
        return answer(who, utility, chance)
    return best_of(who, utility, chance, further_for(cells, step, more))


def answer(who: Person, utility: Tensor, chance: Tensor) -> Tensor:
    """0 where the first of two designs (…, 2) is preferred, 1 where the second is, 2 for a tie."""
    lapse, guess = chance[..., NORMALS:].to(utility).unbind(-1)
    first, second = noisy_utility(who, utility, chance).unbind(-1)
    honest = torch.where(second > first, SECOND, FIRST)
    if who.just_noticeable > 0.0:
        honest = torch.where((first - second).abs() <= who.just_noticeable, TIE, honest)
    return torch.where(lapse < who.lapse, torch.where(guess < 0.5, FIRST, SECOND), honest)  # noqa: PLR2004


# Juries: several people who take turns at one problem's designs. `jury-10-clustered-hartmann-6d` has ten.
#
# A taste is the problem's utility about another place: a design is moved, by up to 0.4 of every parameter's range, and
# reflected where that leaves the range. What a design is worth is the mean of what the careful members feel about it.

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
    X = SobolEngine(problem.dimensions, scramble=True, seed=0).draw(random_problems.SAMPLE, dtype=torch.float64)
    point, value = random_problems.climbed(problem, X, problem.evaluate(X))
    source = f"a random search from {random_problems.SAMPLE:,} designs"
    return replace(problem, maximum=Maximum(value, tuple(point.tolist()), proven=False, source=source))
