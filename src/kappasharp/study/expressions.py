"""What a limit says: expressions of a design's parameters and conditions on them, as trees of plain tuples.

How far designs break them is computed in `constraints.py`, for thousands of designs at once.
"""

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kappasharp.study.parameters import Categorical, Fixed, Parameter, Value

_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": math.pow, "%": operator.mod,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "min": min, "max": max,
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


def constant(expression: Expression) -> float:
    """The value of an expression that speaks of no parameter; NaN where it has none."""
    try:
        found = _value(expression)
    except (ArithmeticError, ValueError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def _value(expression: Expression) -> float:
    match expression:
        case Chain(first, rest):
            found = _value(first)
            for operation, part in rest:
                found = _finite(_OPERATIONS[operation](found, _value(part)))
            return found
        case Called(function, parts):
            return _finite(_FUNCTIONS[function](*map(_value, parts)))
        case Column():
            raise AssertionError("a parameter has no value of its own")
    return float(expression)


def _finite(value: float) -> float:
    """The value, if it is one: NaN ** 0 is 1, and 1 / (1 / 0) is 0, to Python too."""
    if not math.isfinite(value):
        raise ArithmeticError
    return value


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
