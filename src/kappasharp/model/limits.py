"""Limits between parameters: which designs keep them, how far others break them, and whether any design can.

A limit is a text such as "a + b <= 1", "0.1 <= kp / ki <= 10" or "not (material == 'oak' and glazing > 3)"; what may
stand in it, and how odd names are written, says `space/limits.py`. A number may miss a limit by 1e-9 of what the two
sides' difference varies by over the space: that is what rounding leaves. Where a side cannot be computed (a division by
zero, a root of −1, an overflow) the limit is broken: whatever has no finite value is NaN from there on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.arguments import finite
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.journal.definition import Definition
from kappasharp.model import points
from kappasharp.randomness import stream, uniform
from kappasharp.space import limits
from kappasharp.space.bounds import Bounds
from kappasharp.space.limits import Called, Chain, Column, Combined, Condition, Expression, Membership, Relation
from kappasharp.space.parameters import SLACK, Categorical, Tuned, Value
from kappasharp.space.space import Design, Space

Columns = Mapping[str, Tensor]
# A strict limit that is met with equality is broken by this much; one that cannot be computed, by that.
EDGE, BROKEN = 1e-6, 1e6
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div, "**": torch.pow, "%": torch.remainder,
}  # fmt: skip
# The size of a result, by the sizes of both sides and what the right one is.
SIZES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    **dict.fromkeys(("+", "-", "%"), lambda left, right, _: torch.maximum(left, right)),
    "*": lambda left, right, _: left * right, "/": lambda left, _, value: left / value.abs(),
    "**": lambda left, _, value: left**value,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "abs": torch.abs, "sqrt": torch.sqrt, "exp": torch.exp, "log": torch.log,
    "min": torch.minimum, "max": torch.maximum,
}  # fmt: skip
# Designs that say how much an expression varies, and designs among which one that keeps all limits is looked for.
FEW, MANY = 256, 4096
# The search for a design that keeps all limits: how many are kept, how many children each has, for how many rounds.
KEPT, CHILDREN, ROUNDS = 32, 16, 80
# The share of a parameter's range that a child moves by, and what of that is left when a round found nothing better.
FIRST_MOVE, SHRINK = 0.25, 0.7


@dataclass(frozen=True)
class Constraint:
    """One limit of a space; `parse` makes it."""

    text: str
    space: Space = field(repr=False, compare=False)
    condition: Condition = field(repr=False, compare=False)

    def holds(self, design: Mapping[str, Value]) -> bool:
        """Whether a design keeps it."""
        return bool(self.violation([design])[0] == 0.0)

    def violation(self, designs: Sequence[Mapping[str, Value]]) -> Tensor:
        """How far each design breaks it, 0 where it holds.

        For numbers it is the gap, in units of what the two sides' difference varies by over the space; for choices
        it is 1. What `and` joins adds up, and of what `or` joins the least counts.
        """
        names = sorted(set(limits.columns(self.condition)))
        return self.breach({name: self._column(name, designs) for name in names}, len(designs))

    def breach(self, columns: Columns, count: int) -> Tensor:
        """The same for `count` designs in columns: numbers as they are, choices by their place in the list."""
        return breach(self.condition, columns).expand(count)

    def _column(self, name: str, designs: Sequence[Mapping[str, Value]]) -> Tensor:
        part = self.space.tuned[name]
        if any(name not in design for design in designs):
            raise InvalidValueError(f"A design must name every parameter, but {name} is missing.")
        values = [design[name] for design in designs]
        if isinstance(part, Categorical):
            values = [part.check(name, value) for value in values]
            if not limits.numeric(part):
                return torch.tensor([_place(part, value) for value in values], dtype=torch.int64)
        return torch.tensor([finite(value, f"`{name}`") for value in values], dtype=torch.float64)


@dataclass(frozen=True)
class AllowedDesigns:
    """All limits of a space as a search wants them: from points of the cube to how far each breaks them, in sum."""

    space: Space
    constraints: tuple[Constraint, ...]

    def __call__(self, X: Tensor) -> Tensor:
        """Points (…, d) to violations (…), 0 where the nearest design keeps all limits."""
        flat = X.detach().reshape(-1, X.shape[-1]).to("cpu", torch.float64)
        return (
            _total(self.constraints, _decoded(self.space, flat, _names(self.constraints)), len(flat))
            .to(X)
            .reshape(X.shape[:-1])
        )


def parse(text: str, space: Space) -> Constraint:
    """The limit that a text states, or a sentence that says what in it is not understood."""
    condition = limits.read(text, space)
    names = sorted(set(limits.columns(condition)))
    columns = _drawn(space, _sobol(space, FEW), names)
    return Constraint(text, space, with_spreads(condition, columns))


def of(definition: Definition) -> tuple[Constraint, ...]:
    """The limits between a study's parameters."""
    return tuple(_parsed(text, definition.space.whole) for text in definition.limits)


_parsed = lru_cache(maxsize=points.KEPT)(parse)


def parse_all(texts: Any, space: Space) -> tuple[Constraint, ...]:
    """The limits of a list of texts, or of one text; a sentence where no design can meet them."""
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Sequence):
        raise InvalidTypeError(f"`constraints` must be a list of texts such as 'a + b <= 1', but got {texts!r}.")
    found = tuple(parse(text, space) for text in texts)
    check(found, space)
    return found


def feasible_share(constraints: Sequence[Constraint], space: Space) -> float:
    """The share of the space's designs that keep all limits, from 4,096 spread over it."""
    columns = _drawn(space, _sobol(space, MANY), _names(constraints))
    return float((_total(constraints, columns, MANY) == 0.0).double().mean())


def check(constraints: Sequence[Constraint], space: Space) -> None:
    """A sentence where no design is found that keeps all limits, or two of them leave no room between them."""
    _check_room(constraints, space)
    design, miss = nearest(constraints, space)
    if miss == 0.0:
        return
    broken = [c.text for c in constraints if not c.holds(design)]
    alone = [text for text in broken if nearest([c for c in constraints if c.text == text], space)[1] > 0.0]
    which = repr(alone[0]) if alone else f"all of {', '.join(repr(c.text) for c in constraints)} together"
    named = sorted(set(_names(constraints)))
    near = ", ".join(f"{name}={_shown(design[name])}" for name in named)
    raise InvalidValueError(
        f"A limit must leave a design to propose, but none was found that meets {which}: not among {MANY:,} designs "
        f"spread over the space, nor by a search from the best of them. The nearest was {near}."
    )


def _check_room(constraints: Sequence[Constraint], space: Space) -> None:
    """No less than what is wanted, and no more: that is an equality in two parts."""
    columns = _drawn(space, _sobol(space, FEW), _names(constraints))
    sides = [(c.text, one, _upwards(one, columns)) for c in constraints for one in _required(c.condition)]
    for (text, one, above), (other, _, below) in combinations(sides, 2):
        if bool((above.abs() > SLACK).any()) and torch.allclose(above, -below, rtol=0.0, atol=SLACK):
            who = f"{text!r} wants" if text == other else f"{text!r} and {other!r} together want"
            limits.check_room(one, space, who)


def _required(condition: Condition) -> list[Relation]:
    """The comparisons of numbers, less or more, that must all hold."""
    if isinstance(condition, Combined) and condition.every:
        return [one for part in condition.parts for one in _required(part)]
    return [condition] if isinstance(condition, Relation) and condition.sign in ("<", "<=", ">", ">=") else []


def _upwards(relation: Relation, columns: Columns) -> Tensor:
    """The scaled difference that must not be above 0."""
    found = (computed(relation.left, columns) - computed(relation.right, columns)) / relation.spread
    return found if relation.sign in ("<", "<=") else -found


def nearest(constraints: Sequence[Constraint], space: Space) -> tuple[Design, float]:
    """The design that breaks the limits least, as far as 4,096 designs and a search from the best find one; how far."""
    names = _names(constraints)
    shares = _sobol(space, MANY)
    miss = _total(constraints, _drawn(space, shares, names), MANY)
    miss, best = miss.sort(stable=True)
    shares, miss = shares[best[:KEPT]], miss[:KEPT]
    generator, move = stream(0, "constraints"), FIRST_MOVE
    for _ in range(ROUNDS):
        if bool(miss[0] == 0.0):
            break
        tried = torch.cat([shares, _children(shares, move, generator)])
        before = miss[0]
        miss, best = _total(constraints, _drawn(space, tried, names), len(tried)).sort(stable=True)
        shares, miss = tried[best[:KEPT]], miss[:KEPT]
        move = move if bool(miss[0] < before) else max(move * SHRINK, SLACK)
    return space.draw(shares[0].tolist()), float(miss[0])


def _children(shares: Tensor, move: float, generator: torch.Generator) -> Tensor:
    """Neighbours of every row: some of its coordinates moved a little, seldom one anywhere."""
    many = shares.repeat(CHILDREN, 1)
    p = many.shape[-1]
    chosen = uniform(many.shape, generator, many) < max(1.5 / p, uniform((1,), generator, many).item())
    step = (uniform(many.shape, generator, many) * 2.0 - 1.0) * move
    near = (many + torch.where(chosen, step, 0.0)).clamp(0.0, 1.0)
    anywhere = uniform(many.shape, generator, many) < 0.5 / p
    return torch.where(anywhere, uniform(many.shape, generator, many), near)


def _names(constraints: Sequence[Constraint]) -> list[str]:
    return sorted({name for each in constraints for name in limits.columns(each.condition)})


def _total(constraints: Sequence[Constraint], columns: Columns, count: int) -> Tensor:
    """The violations of all limits, added."""
    none = torch.zeros(count, dtype=torch.float64)
    return torch.stack([none, *(each.breach(columns, count) for each in constraints)]).sum(0)


def _sobol(space: Space, count: int) -> Tensor:
    """Shares of every tuned parameter for so many designs."""
    return SobolEngine(len(space.tuned), scramble=True, seed=0).draw(count, dtype=torch.float64)


def _drawn(space: Space, shares: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """The columns of designs drawn by shares (count, parameters): `Space.draw` for many at once."""
    places = {name: i for i, name in enumerate(space.tuned)}
    found = {}
    for name in names:
        part, u = space.tuned[name], shares[:, places[name]]
        bounds = space.bounds.get(name)
        if part.values is None:
            found[name] = _on_range(part, u if bounds is None else _inside(bounds, u))
        else:
            at = (u * len(part.values)).long().clamp(max=len(part.values) - 1)
            found[name] = _of_levels(part, at if bounds is None else _open(part, bounds, u))
    return found


def _inside(bounds: Bounds, u: Tensor) -> Tensor:
    """Shares of what is open of a range, as shares of all of it."""
    low, high = bounds.cube[0]
    return low + (high - low) * u


def _open(part: Tuned, bounds: Bounds, u: Tensor) -> Tensor:
    """Which value of the whole list is at these shares of those that are open."""
    assert part.values is not None and bounds.values is not None
    places = torch.tensor([i for i, value in enumerate(part.values) if bounds.holds(value)])
    return places[(u * len(places)).long().clamp(max=len(places) - 1)]


def _decoded(space: Space, X: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """The columns of the designs at points (count, d) of the cube: `Space.decode` for many at once."""
    found, at = {}, 0
    for name, part in space.tuned.items():
        if name in names:
            place = X[:, at : at + part.width]
            found[name] = _on_range(part, place[:, 0]) if part.values is None else _of_levels(part, _level(part, place))
        at += part.width
    return found


def _on_range(part: Tuned, u: Tensor) -> Tensor:
    """The numbers at places of a range without steps."""
    assert not isinstance(part, Categorical)
    low, high = torch.tensor([part.low, part.high], dtype=torch.float64)
    if not part.log:
        return (low + (high - low) * u).clamp(low, high)
    inner = (low.log() + (high.log() - low.log()) * u).exp()
    return inner.clamp(low, high)


def _level(part: Tuned, place: Tensor) -> Tensor:
    """Which value of a list is nearest to each place (count, width)."""
    levels = points.levels(part)
    assert levels is not None
    if part.width > 1:
        return torch.cdist(place, levels).argmin(-1)
    line = levels[:, 0].contiguous()
    above = torch.searchsorted(line, place[:, 0].contiguous()).clamp(1, len(line) - 1)
    below = above - 1
    return torch.where(place[:, 0] - line[below] <= line[above] - place[:, 0], below, above)


def _of_levels(part: Tuned, at: Tensor) -> Tensor:
    """The values at these places in the list; of choices that are no numbers the places themselves."""
    assert part.values is not None
    return torch.tensor(part.values, dtype=torch.float64)[at] if limits.numeric(part) else at


def _place(part: Categorical, value: Value) -> int:
    return next(i for i, choice in enumerate(part.choices) if limits.same(choice, value))


def _shown(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def breach(condition: Condition, columns: Columns) -> Tensor:
    """How far each design breaks a condition."""
    match condition:
        case Combined(every, parts):
            if not parts:
                return torch.tensor(0.0 if every else BROKEN, dtype=torch.float64)
            found = torch.stack(torch.broadcast_tensors(*(breach(part, columns) for part in parts)))
            return found.sum(0).clamp(max=BROKEN) if every else found.amin(0)
        case Membership(names, meant):
            return 1.0 - torch.tensor(meant, dtype=torch.float64)[tuple(columns[name] for name in names)]
        case Relation(left, sign, right, spread):
            difference = _checked(computed(left, columns) - computed(right, columns)) / spread
            size = torch.maximum(_size(left, columns), _size(right, columns)) / spread
            return _missed(difference, sign, SLACK * size.nan_to_num(nan=1.0).clamp(max=1.0))


def _missed(difference: Tensor, sign: str, slack: Tensor) -> Tensor:
    """By how much the scaled difference of two sides misses what the sign wants; rounding is forgiven."""
    size = difference.abs()
    gap, broken = {
        "<=": (difference, difference > slack),
        ">=": (-difference, difference < -slack),
        "<": (difference, difference >= 0.0),
        ">": (-difference, difference <= 0.0),
        "==": (size, size > slack),
        "!=": (torch.ones_like(size), size <= slack),
    }[sign]
    found = torch.where(broken, gap.clamp(SLACK if "=" in sign else EDGE, BROKEN), 0.0)
    return torch.where(difference.isnan(), BROKEN, found)


def computed(expression: Expression, columns: Columns) -> Tensor:
    """The values of an expression, NaN where it has none."""
    match expression:
        case Column(name):
            return columns[name]
        case Chain(first, rest):
            found = computed(first, columns)
            for operation, part in rest:
                value = computed(part, columns)
                found = _checked(OPERATIONS[operation](found, value), found, value)
            return found
        case Called(function, parts):
            found, *others = (computed(part, columns) for part in parts)
            if not others:
                return _checked(FUNCTIONS[function](found))
            for value in others:
                found = FUNCTIONS[function](found, value)
            return found
    return torch.tensor(expression, dtype=torch.float64)


def _size(expression: Expression, columns: Columns) -> Tensor:
    """The largest number that rounding is a share of: what an expression would be if its parts did not cancel."""
    match expression:
        case Chain(first, rest):
            found = _size(first, columns)
            for operation, part in rest:
                found = SIZES[operation](found, _size(part, columns), computed(part, columns))
            return found
        case Called(_, parts):
            return reduce(torch.maximum, (_size(part, columns) for part in parts), computed(expression, columns).abs())
    return computed(expression, columns).abs()


def _checked(found: Tensor, *made_of: Tensor) -> Tensor:
    """NaN where a result is not finite or was made of what is NaN: NaN ** 0 is 1, and 1 / (1 / 0) is 0, to torch."""
    usable = found.isfinite()
    for part in made_of:
        usable = usable & ~part.isnan()
    return torch.where(usable, found, torch.nan)


def with_spreads(condition: Condition, columns: Columns) -> Condition:
    """The condition with every comparison of numbers knowing what its difference varies by."""
    match condition:
        case Combined(every, parts):
            return Combined(every, tuple(with_spreads(part, columns) for part in parts))
        case Relation(left, sign, right):
            return Relation(left, sign, right, _spread(computed(left, columns) - computed(right, columns)))
    return condition


def _spread(differences: Tensor) -> float:
    """The width of the middle half, which a pole does not stretch; the whole width where the middle does not vary."""
    known = differences[differences.isfinite()] if differences.dim() else differences.new_zeros(0)
    if not len(known):
        return 1.0
    low, high = torch.quantile(known, torch.tensor([0.25, 0.75], dtype=torch.float64)).tolist()
    width = high - low or float(known.max() - known.min())
    return width if 0.0 < width < math.inf else 1.0
