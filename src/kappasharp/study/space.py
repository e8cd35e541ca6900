"""All parameters of a study, and the way between a design and its point in the unit cube."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kappasharp.acquisition import line
from kappasharp.acquisition.lattice import Group, Lattice
from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.study.parameters import TWO, Categorical, Fixed, Float, Int, Parameter, Tuned, Value

Design = dict[str, Value]
KINDS: dict[str, type[Parameter]] = {"float": Float, "int": Int, "categorical": Categorical, "fixed": Fixed}
LONGEST_NAME = 200
# Of the model's cube. Far more than answers of A or B can tell apart, and few enough that every question stays quick.
MOST_DIMENSIONS = 1000


class Space:
    """Named parameters in order; those that are not fixed span the cube."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self.parameters = dict(parameters)
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
        """How many designs there are."""
        return math.prod(math.inf if part.values is None else len(part.values) for part in self.tuned.values())

    @cached_property
    def lattice(self) -> Lattice | None:
        """The coordinates that may take some values only."""
        groups, at = [], 0
        for part in self.tuned.values():
            if part.levels is not None:
                groups.append(Group(tuple(range(at, at + part.width)), part.levels))
            at += part.width
        return Lattice(tuple(groups)) if groups else None

    def encode(self, design: Mapping[str, Value]) -> list[float]:
        """A design's point in the cube."""
        return [number for name, part in self.tuned.items() for number in part.encode(design[name])]

    def decode(self, point: Sequence[float]) -> Design:
        """The design nearest to a point of the cube."""
        values, at = {}, 0
        for name, part in self.tuned.items():
            values[name] = part.decode(point[at : at + part.width])
            at += part.width
        return self._complete(values)

    def draw(self, shares: Sequence[float]) -> Design:
        """The design at these shares, one for each tuned parameter."""
        drawn = zip(self.tuned.items(), shares, strict=True)
        return self._complete({name: part.draw(u) for (name, part), u in drawn})

    def check(self, design: Any) -> Design:
        """A complete design as it is stored; fixed values may be left out."""
        if not isinstance(design, Mapping):
            raise InvalidTypeError(f"A design must be a mapping of parameters to values, but got {design!r}.")
        for name in design:
            named("parameter", name, self.parameters)
        missing = [name for name in self.tuned if name not in design]
        if missing:
            raise InvalidValueError(f"A design must name every parameter, but {', '.join(missing)} is missing.")
        for name, value in self.fixed.items():
            if name in design and design[name] != value:
                raise InvalidValueError(f"`{name}` is fixed at {value!r} in this study, but got {design[name]!r}.")
        return self._complete({name: part.check(name, design[name]) for name, part in self.tuned.items()})

    def same(self, one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Whether two designs cannot be told apart: every parameter is within its just-noticeable difference."""
        return all(part.same(one[name], other[name]) for name, part in self.tuned.items())

    @cached_property
    def tolerance(self) -> Tensor:
        """The same as distances in the cube, one for each coordinate."""
        parts = [[part.tolerance] * part.width for part in self.tuned.values()]
        return torch.tensor([number for part in parts for number in part], dtype=torch.float64)

    def points(self, designs: Iterable[Mapping[str, Value]]) -> Tensor:
        """Many designs' points, one row each."""
        rows = [self.encode(design) for design in designs]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), self.dimensions)

    def between(self, first: Design, second: Design, place: float) -> Design:
        """The design at a place of the way from the first (0) to the second (1), a straight line in the cube."""
        if place in (0.0, 1.0):
            return dict(second if place else first)
        found = line.at(self.points([first, second]), torch.tensor([place], dtype=torch.float64))
        return self.decode(found[0].tolist())

    def definition(self) -> dict[str, Any]:
        """The space as plain data, which `space` reads again."""
        return {name: _definition(part) for name, part in self.parameters.items()}

    def _complete(self, values: Mapping[str, Value]) -> Design:
        return {name: self.fixed[name] if name in self.fixed else values[name] for name in self.parameters}


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


def _definition(part: Parameter) -> dict[str, Any]:
    kind = next(name for name, cls in KINDS.items() if type(part) is cls)
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    return {"type": kind} | plain
