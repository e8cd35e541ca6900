"""All parameters of a study, what of them is open now, and the way between a design and its point in the unit cube.

`space` also reads what users write for one: ranges, lists of choices, tables. Points as tensors are in
`model/points.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

from kappasharp.arguments import plain
from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.space import bounds
from kappasharp.space.bounds import Bounds, ParameterEdge
from kappasharp.space.parameters import TWO, Categorical, Fixed, Float, Int, Parameter, Tuned, Value

Design = dict[str, Value]
KINDS: dict[str, type[Parameter]] = {"float": Float, "int": Int, "categorical": Categorical, "fixed": Fixed}
# Ends of a range, or choices, that are open.
Open = tuple[float | None, float | None, Sequence[Value] | None]
LONGEST_NAME = 200
# Of the model's cube. Far more than answers of A or B can tell apart, and few enough that every question stays quick.
MOST_DIMENSIONS = 1000


class Space:
    """Named parameters in order; those that are not fixed span the cube.

    Where `open_parts` name a parameter, no more of it is open than they say: what is drawn, listed and searched keeps
    to them, while points, and the designs that may be spoken of, are those of the whole cube.
    """

    def __init__(self, parameters: Mapping[str, Parameter], open_parts: Mapping[str, Bounds] | None = None) -> None:
        self.parameters = dict(parameters)
        self.bounds = dict(open_parts or {})
        self.tuned: dict[str, Tuned] = {n: part for n, part in parameters.items() if not isinstance(part, Fixed)}
        self.fixed: Design = {name: part.value for name, part in parameters.items() if isinstance(part, Fixed)}
        if not self.tuned:
            raise InvalidValueError("`space` must hold a parameter to tune, but got none that is not fixed.")
        if self.dimensions > MOST_DIMENSIONS:
            raise InvalidValueError(
                f"`space` must not have more than {MOST_DIMENSIONS} dimensions, one for each number and one for each "
                f"of three choices or more, but got {self.dimensions}."
            )

    @property
    def dimensions(self) -> int:
        """How many coordinates the unit cube has."""
        return sum(part.width for part in self.tuned.values())

    @property
    def size(self) -> float:
        """How many designs are open."""
        return math.prod(math.inf if values is None else len(values) for values in self.open_values.values())

    @property
    def open_values(self) -> dict[str, tuple[Value, ...] | None]:
        """Every open value of each tuned parameter in order; None where they are without number."""
        return {name: part.values for name, part in self.tuned.items()} | {
            name: one.values for name, one in self.bounds.items()
        }

    @cached_property
    def whole(self) -> "Space":
        """The same without bounds."""
        return Space(self.parameters) if self.bounds else self

    @property
    def can_move(self) -> bool:
        """Whether a parameter may take any number of a range."""
        return any(values is None for values in self.open_values.values())

    def outside(self, design: Mapping[str, Value]) -> list[str]:
        """The parameters of a design whose values are not open."""
        return [name for name, one in self.bounds.items() if not one.holds(design[name])]

    def open_to(self, name: str) -> Bounds:
        """What of a tuned parameter is open."""
        return self.bounds.get(name) or bounds.everything(self.tuned[name])

    def grown(
        self, name: str, low: float | None, high: float | None, choices: Sequence[Value] | None = None
    ) -> "Space":
        """The space whose cube holds these values of a parameter too; itself where it does already."""
        wider = bounds.grown(self.tuned[name], low, high, choices)
        return self if wider is self.tuned[name] else Space({**self.parameters, name: wider}, self.bounds)

    def opened(self, first: "Space", wanted: Mapping[str, Open]) -> "Space":
        """The same cube with this much open: ends or choices of parameters, and of the others what `first` has."""
        found = {}
        for name, part in self.tuned.items():
            low, high, choices = wanted.get(name) or bounds.everything(first.tuned[name]).ends
            given = bounds.some(part, low, high, choices)
            if given != bounds.everything(part):
                found[name] = given
        return Space(self.parameters, found)

    def encode(self, design: Mapping[str, Value]) -> list[float]:
        """A design's point in the cube."""
        return [number for name, part in self.tuned.items() for number in part.encode(design[name])]

    def decode(self, point: Sequence[float]) -> Design:
        """The design nearest to a point of the cube."""
        values, at = {}, 0
        for name, part in self.tuned.items():
            found = part.decode(point[at : at + part.width])
            values[name] = self.bounds[name].settled(found) if name in self.bounds else found
            at += part.width
        return self._complete(values)

    def decode_all(self, points: Sequence[Sequence[float]]) -> list[Design]:
        """The designs nearest to points of the cube: a parameter after the other, which is quicker for many."""
        columns = list(zip(*points, strict=True)) or [()] * self.dimensions
        return [dict(zip(self.parameters, row, strict=True)) for row in self.decode_columns(columns, len(points))]

    def decode_columns(self, columns: Sequence[Sequence[float]], count: int) -> list[tuple[Value, ...]]:
        """The same as values in the order of the parameters, of so many points that come coordinate by coordinate."""
        found: dict[str, Sequence[Value]] = {name: [self.fixed.get(name)] * count for name in self.parameters}
        at = 0
        for name, part in self.tuned.items():
            values = part.decode_all(columns[at : at + part.width])
            found[name] = [self.bounds[name].settled(one) for one in values] if name in self.bounds else values
            at += part.width
        return list(zip(*found.values(), strict=True))

    def draw(self, shares: Sequence[float]) -> Design:
        """The design at these shares, one for each tuned parameter."""
        drawn = zip(self.tuned.items(), shares, strict=True)
        return self._complete({name: self.bounds.get(name, part).draw(u) for (name, part), u in drawn})

    def check(self, design: Any) -> Design:
        """A complete design as it is stored; fixed values may be left out."""
        if not isinstance(design, Mapping):
            raise InvalidTypeError(f"A design must be a mapping of parameters to values, but got {design!r}.")
        for name in design:
            named("parameter", name, self.parameters)
        missing = [name for name in self.tuned if name not in design]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise InvalidValueError(f"A design must name every parameter, but {', '.join(missing)} {verb} missing.")
        for name, value in self.fixed.items():
            if name in design and plain(design[name]) != value:
                raise InvalidValueError(f"`{name}` is fixed at {value!r} in this study, but got {design[name]!r}.")
        return self._complete({name: part.check(name, design[name]) for name, part in self.tuned.items()})

    def same(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Whether two designs cannot be told apart: every parameter is within its just-noticeable difference."""
        return self.near(self.encode(one), self.encode(other))

    def near(self, one: Sequence[float], other: Sequence[float]) -> bool:
        """The same of points in the cube."""
        return all(abs(x - y) <= within for x, y, within in zip(one, other, self.tolerance, strict=True))

    @cached_property
    def tolerance(self) -> list[float]:
        """The same as distances in the cube, one for each coordinate."""
        parts = [[self.bounds.get(name, part).tolerance] * part.width for name, part in self.tuned.items()]
        return [number for part in parts for number in part]

    def along(self, designs: Sequence[Design], place: float) -> Design:
        """The design at a place of the way from the first (0) to the last (1), through the others."""
        last = len(designs) - 1
        part = min(int(place * last), last - 1)
        return self.between(designs[part], designs[part + 1], place * last - part)

    def between(self, first: Design, second: Design, place: float) -> Design:
        """The design at a place of the way from the first (0) to the second (1), a straight line in the cube."""
        if place in (0.0, 1.0):
            return dict(second if place else first)
        ends = zip(self.encode(first), self.encode(second), strict=True)
        return self.decode([x * (1.0 - place) + y * place for x, y in ends])

    def definition(self) -> dict[str, Any]:
        """The space as plain data, which `space` reads again."""
        return {name: _definition(part) for name, part in self.parameters.items()}

    def _complete(self, values: Mapping[str, Value]) -> Design:
        return {name: self.fixed[name] if name in self.fixed else values[name] for name in self.parameters}


def _definition(part: Parameter) -> dict[str, Any]:
    kind = next(name for name, cls in KINDS.items() if type(part) is cls)
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    return {"type": kind} | plain


# A space, or what it may be made of: each parameter as it is, as (low, high), as a list of choices, or as a table.
GivenSpace = Space | Mapping[str, Parameter | Sequence[Value] | Mapping[str, Any]]


def space(given: GivenSpace) -> Space:
    """A space from a mapping: (low, high) is a float, a list holds choices, a table says its own type.

    A table without `type` is a float if it has `low`, choices if it has `choices`, and fixed if it has `value`.
    """
    if isinstance(given, Space):
        return given
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"`space` must be a mapping of names to parameters, but got {given!r}.")
    return Space({_name(name): _parameter(name, part) for name, part in given.items()})


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise InvalidValueError(
            f"A parameter's name must be a printable text of 1 to {LONGEST_NAME} characters, but got {name!r}."
        )
    return name


def _parameter(name: str, part: Any) -> Parameter:
    try:
        return _read(part)
    except (InvalidValueError, InvalidTypeError) as error:
        raise type(error)(f"`space[{name!r}]`: {error}") from error


def _read(part: Any) -> Parameter:
    match part:
        case Float() | Int() | Categorical() | Fixed():
            return part
        case tuple():
            if len(part) != TWO:
                raise InvalidValueError(f"A range must be (low, high), but got {part!r}; a list holds choices.")
            return Float(*part)
        case list():
            return Categorical(tuple(part))
        case Mapping():
            return _from_table(dict(part))
    raise InvalidTypeError(
        f"A parameter must be (low, high), a list of choices, Float, Int, Categorical or Fixed, but got {part!r}."
    )


def _from_table(table: dict[str, Any]) -> Parameter:
    guess = "fixed" if "value" in table else "categorical" if "choices" in table else "float"
    cls = named("type of parameter", table.pop("type", guess), KINDS)
    known = dict.fromkeys(field.name for field in fields(cls))
    for key in table:
        named(f"entry of a {cls.__name__} parameter", key, known)
    needs = {Categorical: ("choices",), Fixed: ("value",)}.get(cls, ("low", "high"))
    missing = [key for key in needs if key not in table]
    if missing:
        raise InvalidValueError(f"A {cls.__name__} parameter must have {' and '.join(needs)}, but got {table!r}.")
    if cls is Categorical:
        table["choices"] = tuple(table["choices"]) if isinstance(table["choices"], list) else table["choices"]
    return cls(**table)


def edges(space: Space, design: dict[str, Value]) -> list[ParameterEdge]:
    """Where a design sits at an end of what is open."""
    return [edge for name in space.tuned for edge in bounds.edges(name, space.open_to(name), design[name])]
