"""Problems drawn from numbered sets: `drawn-1-07` is the eighth of set 1, the same for ever and on every machine.

Eleven families take turns, so that no bias of one kind of problem rules a set: the best design is anywhere in the box
(coordinates are warped and flipped), half of the families are not separable, and some parameters are whole numbers,
choices, or without any effect. Utilities are scaled to a deviation over the box that is drawn too, from 0.3 to 3: a
simulated person's noise of 0.1 is now loud, now faint.
"""

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.errors import InvalidValueError
from kappasharp.problems.problem import Maximum, Problem, Provenance
from kappasharp.randomness import stream, uniform

PREFIX = "drawn"
SIZE = 40
DIMENSIONS = (3, 4, 6, 8, 10, 15, 20)
WARPS, DEVIATIONS = (0.4, 2.5), (0.3, 3.0)
FEATURES = 128
# What a set's scaling and maxima are taken from, and how a maximum is polished: how many designs, rounds, and steps.
SAMPLE, BEST, ROUNDS, COPIES = 4096, 16, 40, 16
Utility = Callable[[Tensor], Tensor]


class Chance:
    """The numbers behind one problem, each by its name."""

    def __init__(self, number: int, index: int) -> None:
        self.words = (number, PREFIX, str(index))

    def uniform(self, name: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Uniform numbers between two ends."""
        number, *words = self.words
        draws = uniform(shape, stream(int(number), *map(str, words), name), torch.empty(0, dtype=torch.float64))
        return low + (high - low) * draws

    def geometric(self, name: str, *shape: int, ends: tuple[float, float]) -> Tensor:
        """Numbers whose logarithms are uniform."""
        return self.uniform(name, *shape, low=math.log(ends[0]), high=math.log(ends[1])).exp()

    def normal(self, name: str, *shape: int) -> Tensor:
        """Standard normal numbers."""
        return torch.special.ndtri(self.uniform(name, *shape).clamp(min=2.0**-54))

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.uniform(name, 1) * (high - low + 1))


class Made(NamedTuple):
    """A family's utility before it is scaled, on the warped cube, and which parameters take some values only."""

    utility: Utility
    dimensions: int
    formula: str
    steps: tuple[int, ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()


def _sample(chance: Chance, d: int, lengths: tuple[float, float], tails: int = 0) -> Utility:
    """A draw of a Gaussian process, with length scales of its own; `tails` are degrees of freedom, 0 for a smooth one.

    The features of Rahimi and Recht (2007).
    """
    frequencies = chance.normal("frequencies", d, FEATURES) / chance.geometric("lengths", d, 1, ends=lengths)
    if tails:
        frequencies = frequencies * (tails / chance.normal("tails", tails, FEATURES).square().sum(0)).sqrt()
    phases, weights = 2.0 * math.pi * chance.uniform("phases", FEATURES), chance.normal("weights", FEATURES)
    return lambda X: (X @ frequencies.to(X) + phases.to(X)).cos() @ weights.to(X)


def _bowl(chance: Chance, d: int) -> Made:
    centre, weights = chance.uniform("centre", d), chance.geometric("weights", d, ends=(0.1, 10.0))
    return Made(lambda X: -(X - centre.to(X)).square() @ weights.to(X), d, "a quadratic bowl")


def _bumps(chance: Chance, d: int) -> Made:
    count = chance.whole("count", 3, 8)
    centres, heights = chance.uniform("centres", count, d), chance.uniform("heights", count, low=0.5, high=1.0)
    widths = chance.uniform("widths", count, low=0.15, high=0.35) * math.sqrt(d)

    def utility(X: Tensor) -> Tensor:
        squares = (X.unsqueeze(-2) - centres.to(X)).square().sum(-1)
        return (-0.5 * squares / widths.to(X).square()).exp() @ heights.to(X)

    return Made(utility, d, "bumps of unequal heights and widths")


def _smooth(chance: Chance, d: int) -> Made:
    return Made(_sample(chance, d, (0.3, 2.0)), d, "a smooth sample of a Gaussian process")


def _rough(chance: Chance, d: int) -> Made:
    return Made(_sample(chance, d, (0.4, 3.0), tails=3), d, "a rough sample of a Gaussian process, Matérn 3/2")


def _rotated(chance: Chance, d: int) -> Made:
    turn = torch.linalg.qr(chance.normal("turn", d, d)).Q
    centre = chance.uniform("centre", d)
    weights = chance.geometric("weights", d, ends=(0.03, 30.0))
    return Made(
        lambda X: -((X - centre.to(X)) @ turn.to(X)).square() @ weights.to(X), d, "a bowl along no parameter's own axis"
    )


def _embedded(chance: Chance, d: int) -> Made:
    d, inner = max(d, 8), chance.whole("inner", 2, 4)
    at = chance.uniform("which", d).argsort()[:inner]
    inside = _sample(chance, inner, (0.3, 1.0))
    return Made(lambda X: inside(X[..., at]), d, f"a smooth sample in {inner} parameters, the others without effect")


def _chain(chance: Chance, d: int) -> Made:
    order = chance.uniform("order", d).argsort()
    bends = chance.uniform("bends", d - 1, low=-1.0, high=1.0)

    def utility(X: Tensor) -> Tensor:
        Z = X[..., order] - 0.5
        links = [(Z[..., j] - bends[i] * (4.0 * Z[..., i].square() - 0.5)).square() for i, j in pairwise(range(d))]
        return -(5.0 * torch.stack(links).sum(0) + (Z[..., 0] - 0.2).square())

    return Made(utility, d, "a bent valley, each parameter's best value depending on the one before")


def _stairs(chance: Chance, d: int) -> Made:
    inside = _sample(chance, d, (0.4, 2.0))
    step = chance.uniform("step", 1, low=0.3, high=0.8) * math.sqrt(FEATURES / 2.0)
    return Made(lambda X: (inside(X) / step.to(X)).floor(), d, "a smooth sample cut into plateaus")


def _ripples(chance: Chance, d: int) -> Made:
    bowl = _bowl(chance, d).utility
    waves, depth = chance.uniform("waves", d, low=2.0, high=5.0), chance.uniform("depth", 1, low=0.05, high=0.3)
    return Made(
        lambda X: bowl(X) / d + depth.to(X) * (2.0 * math.pi * waves.to(X) * X).cos().mean(-1), d, "a bowl with ripples"
    )


def _whole_numbers(chance: Chance, d: int) -> Made:
    steps = [chance.whole(f"steps {j}", 3, 9) if j % 2 else 0 for j in range(d)]
    words = "a smooth sample, every second parameter a whole number"
    return Made(_sample(chance, d, (0.4, 2.0)), d, words, tuple(steps))


def _with_choices(chance: Chance, d: int) -> Made:
    kinds = chance.whole("kinds", 3, 5)
    group = tuple(range(d, d + kinds))
    inside = _sample(chance, d + kinds, (0.5, 2.0))
    return Made(inside, d + kinds, f"a smooth sample, one of {kinds} choices in it", (), (group,))


FAMILIES = (
    _bowl, _smooth, _rotated, _with_choices, _embedded, _bumps, _whole_numbers, _chain, _rough, _stairs, _ripples,
)  # fmt: skip


def names(number: int, count: int = SIZE) -> tuple[str, ...]:
    """The first problems of a set by name."""
    return tuple(f"{PREFIX}-{number}-{index:02d}" for index in range(count))


def find(name: str) -> Problem:
    """The problem of a name such as `drawn-1-07`."""
    parts = name.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts[1:]):  # noqa: PLR2004
        raise InvalidValueError(f"A drawn problem is called `{PREFIX}-SET-NUMBER`, as in drawn-1-07, but got {name!r}.")
    return draw(int(parts[1]), int(parts[2]))


@cache
def draw(number: int, index: int) -> Problem:
    """One problem of a set."""
    chance = Chance(number, index)
    made = FAMILIES[index % len(FAMILIES)](chance, DIMENSIONS[chance.whole("dimensions", 0, len(DIMENSIONS) - 1)])
    d = made.dimensions
    free = torch.tensor([j not in {at for group in made.choices for at in group} for j in range(d)])
    free &= torch.tensor([not step for step in made.steps or (0,) * d])
    power = torch.where(free, chance.geometric("warp", d, ends=WARPS), 1.0)
    flipped = free & (chance.uniform("flip", d) < 0.5)  # noqa: PLR2004

    def raw(X: Tensor) -> Tensor:
        warped = X.clamp(0.0, 1.0) ** power.to(X)
        return made.utility(torch.where(flipped.to(X.device), 1.0 - warped, warped))

    empty = Problem(
        f"{PREFIX}-{number}-{index:02d}", (0.0,) * d, (1.0,) * d, raw, Maximum(math.inf, (), proven=False, source=""),
        Provenance.RECONSTRUCTED, "", "", steps=made.steps, choices=made.choices,
    )  # fmt: skip
    return _scaled(empty, made.formula, float(chance.geometric("deviation", 1, ends=DEVIATIONS)))


def _scaled(problem: Problem, formula: str, deviation: float) -> Problem:
    raw = problem.evaluate
    shares = SobolEngine(problem.dimensions, scramble=True, seed=0).draw(SAMPLE, dtype=torch.float64)
    X = problem.draw(shares)
    values = raw(X)
    centre, unit = float(values.mean()), deviation / float(values.std())

    def evaluate(X: Tensor) -> Tensor:
        return (raw(X) - centre) * unit

    point, value = climbed(problem, X, values)
    return Problem(
        name=problem.name,
        low=problem.low,
        high=problem.high,
        evaluate=evaluate,
        maximum=Maximum(
            (value - centre) * unit, tuple(point.tolist()), proven=False, source="a random search from 4,096 designs"
        ),
        provenance=Provenance.RECONSTRUCTED,
        formula=f"{formula}; coordinates warped and flipped; deviation {deviation:.2f} over the box",
        origin="drawn here from a named stream",
        steps=problem.steps,
        choices=problem.choices,
    )


def climbed(problem: Problem, X: Tensor, values: Tensor) -> tuple[Tensor, float]:
    """The best design found: random steps from the best of a sample, ever shorter ones."""
    best = values.topk(BEST).indices
    X, values = X[best], values[best]
    generator = stream(0, problem.name, "maximum")
    for turn in range(ROUNDS):
        moves = torch.randn(BEST, COPIES, problem.dimensions, generator=generator, dtype=torch.float64)
        # Half of the steps change one coordinate, the others all.
        one = torch.rand(moves.shape, generator=generator).argmax(-1, keepdim=True)
        only = torch.zeros_like(moves).scatter(-1, one, 1.0)
        moves[:, ::2] *= only[:, ::2]
        tried = problem.nearest((X.unsqueeze(1) + 0.3 * 0.85**turn * moves).clamp(0.0, 1.0))
        found, which = problem.evaluate(tried.flatten(0, 1)).reshape(BEST, COPIES).max(-1)
        better = found > values
        X = torch.where(better.unsqueeze(-1), tried[torch.arange(BEST), which], X)
        values = torch.where(better, found, values)
    return X[int(values.argmax())], float(values.max())
