"""What a limit computes: expressions of a design's parameters, conditions on them, and how far designs break those.

Trees of plain tuples over columns, one tensor of values for each parameter that is spoken of, so that thousands of
designs are computed at once. Whatever has no finite value is NaN from there on, and breaks the condition it stands in.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.study.parameters import SLACK, Categorical, Fixed, Parameter, Value

Columns = Mapping[str, Tensor]
# A strict limit that is met with equality is broken by this much; one that cannot be computed, by that.
EDGE, BROKEN = 1e-6, 1e6
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div, "**": torch.pow, "%": torch.remainder,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "abs": torch.abs, "sqrt": torch.sqrt, "exp": torch.exp, "log": torch.log,
    "min": torch.minimum, "max": torch.maximum,
}  # fmt: skip


class Column(NamedTuple):
    """A parameter's values: numbers as they are, choices by their place in the list."""

    name: str


class Chain(NamedTuple):
    """Operations one after the other, from the left."""

    first: "Expression"
    rest: tuple[tuple[str, "Expression"], ...]


class Called(NamedTuple):
    """A function of its parts."""

    function: str
    parts: tuple["Expression", ...]


class Relation(NamedTuple):
    """Two numbers compared; `spread` is how much their difference varies over the space."""

    left: "Expression"
    sign: str
    right: "Expression"
    spread: float = 1.0


class Membership(NamedTuple):
    """Which places in the list of one parameter's choices are meant, or which pairs of places of two."""

    names: tuple[str, ...]
    meant: tuple[Any, ...]


class Combined(NamedTuple):
    """All of the parts, or any of them."""

    every: bool
    parts: tuple["Condition", ...]


Expression = float | Column | Chain | Called
Condition = Relation | Membership | Combined
ALWAYS, NEVER = Combined(True, ()), Combined(False, ())


def columns(tree: Condition | Expression) -> Iterator[str]:
    """Every parameter that a tree speaks of, as often as it does."""
    inner: tuple[Condition | Expression, ...] = ()
    match tree:
        case Column(name):
            yield name
        case Membership(names):
            yield from names
        case Chain(first, rest):
            inner = (first, *(part for _, part in rest))
        case Relation(left, _, right):
            inner = (left, right)
        case Called(_, parts) | Combined(_, parts):
            inner = tuple(parts)
    for part in inner:
        yield from columns(part)


def numeric(part: Parameter) -> bool:
    """Whether one can compute with this parameter: a number, or a choice between numbers."""
    values = part.choices if isinstance(part, Categorical) else (part.value,) if isinstance(part, Fixed) else ()
    return all(is_number(value) for value in values)


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
            return _missed(_checked(computed(left, columns) - computed(right, columns)) / spread, sign)


def _missed(difference: Tensor, sign: str) -> Tensor:
    """By how much the scaled difference of two sides misses what the sign wants."""
    size = difference.abs()
    gap, broken = {
        "<=": (difference, difference > SLACK),
        ">=": (-difference, difference < -SLACK),
        "<": (difference, difference >= 0.0),
        ">": (-difference, difference <= 0.0),
        "==": (size, size > SLACK),
        "!=": (torch.ones_like(size), size <= SLACK),
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


def turned(condition: Condition) -> Condition:
    """The opposite of what was found of choices."""
    if isinstance(condition, Membership):
        both = len(condition.names) > 1
        flipped = (tuple(not b for b in a) if both else not a for a in condition.meant)
        return Membership(condition.names, tuple(flipped))
    return NEVER if condition == ALWAYS else ALWAYS


def is_number(value: Any) -> bool:
    """Whether this is a number and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(one: Value, other: Value) -> bool:
    """Whether two values are one choice: True is 1 to Python, and not to whoever offers both."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other
