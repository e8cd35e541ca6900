"""What one parameter of a design may be: a float, an integer, a choice, or a value that stays as it is.

An integer or a choice has a lattice of its own: nothing is ever proposed between its values. A choice of two takes one
dimension of the model's unit cube, a choice of k > 2 takes k, one for each (one-hot).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

from kappasharp.arguments import finite, plain, shown
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.messages.message import figures, said

Value = float | int | str | bool | None
# Two values of a float closer than this share of its range count as the same unless `jnd` says otherwise.
DEFAULT_JND = 1.0 / 200.0
# A value may miss a range's end or a step by this share of the range: what rounding in other programs leaves.
SLACK = 1e-9
MOST_LEVELS = 100_000
# By what share of a step a value on a lattice may be rounded to a shorter one.
ROUNDING = 1e-6
# A whole number up to here is what it says in every program that reads it: others, and the page, compute in floats.
LARGEST_INT = 2**53 - 1
# Every choice takes a coordinate of the model; one person's answers do not tell so many apart.
MOST_CHOICES = 1000
TWO = 2


class _Lattice:
    """What all parameters with a list of values share."""

    @property
    def values(self) -> tuple[Value, ...] | None:
        """Every value in order; None where they are without number."""
        raise NotImplementedError

    def encode(self, value: Any) -> list[float]:
        """The coordinates of a value in the unit cube."""
        raise NotImplementedError

    def decode(self, coordinates: Sequence[float]) -> Value:
        """The value at, or nearest to, coordinates of the unit cube."""
        raise NotImplementedError

    def decode_all(self, columns: Sequence[Sequence[float]]) -> list[Value]:
        """The same of many, whose coordinates come column by column."""
        return [self.decode(coordinates) for coordinates in zip(*columns, strict=True)]

    @property
    def tolerance(self) -> float:
        """How far apart in the cube two values may be that nobody could tell apart."""
        raise NotImplementedError

    def same(self, one: Any, other: Any) -> bool:
        """Whether nobody could tell these two values apart."""
        return all(abs(x - y) <= self.tolerance for x, y in zip(self.encode(one), self.encode(other), strict=True))


@dataclass(frozen=True)
class _Number(_Lattice):
    """What floats and integers share: a range, its scale, a lattice if there is a step."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    jnd: float | None = None
    width = 1

    def __post_init__(self) -> None:
        self._make_plain()
        _check_range(self._kind, self.low, self.high, self.log)
        if self.step is not None and not self.step > 0:
            raise InvalidValueError(f"`{self._kind}(step=...)` must be above 0, but got {self.step!r}.")
        if self.jnd is not None and not self.jnd >= 0:
            raise InvalidValueError(f"`{self._kind}(jnd=...)` must not be below 0, but got {self.jnd!r}.")
        if self.step is not None:
            _check_step(self._kind, self.low, self.high, self.step)
        if self._scaled(self.low) >= self._scaled(self.high):
            raise InvalidValueError(
                f"`{self._kind}` must have ends whose {'logarithms' if self.log else 'values'} differ, but got "
                f"{self.low!r} to {self.high!r}; tune the difference to one of them instead."
            )
        if self.jnd is not None and self.tolerance >= 1.0:
            raise InvalidValueError(
                f"`{self._kind}(jnd=...)` must be smaller than the range {self.low:g} to {self.high:g}, but got "
                f"{self.jnd:g}: nobody could tell any two values apart."
            )

    def _make_plain(self) -> None:
        """All that was given as Python's own numbers: what is stored."""
        for name in ("low", "high"):
            object.__setattr__(self, name, self._number(getattr(self, name), f"`{self._kind}({name}=...)`"))
        for name in ("step", "jnd"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, finite(getattr(self, name), f"`{self._kind}({name}=...)`"))
        object.__setattr__(self, "log", plain(self.log))

    @property
    def _kind(self) -> str:
        return type(self).__name__

    def _number(self, value: Any, name: str) -> float:
        return float(finite(value, name))

    @cached_property
    def values(self) -> tuple[float, ...] | None:
        """Every value in order; None where they are without number."""
        if self.step is None:
            return None
        count = math.floor((self.high - self.low) / self.step * (1.0 + SLACK))
        return tuple(min(self._step_at(i), self.high) for i in range(count + 1))

    def _step_at(self, i: int) -> float:
        """low + i·step, without the digits that only binary arithmetic puts there: 0.3, not 0.30000000000000004."""
        assert self.step is not None
        exact = self.low + i * self.step
        short = float(f"{exact:.12g}")
        # Far from zero twelve digits would be another step.
        return self._number(short if abs(short - exact) <= ROUNDING * self.step else exact, f"`{self._kind}`")

    @property
    def _top(self) -> float:
        """The largest value: high, or the last step before it."""
        return self.high if self.values is None else self.values[-1]

    def _scaled(self, value: Any) -> float:
        return math.log(value) if self.log else float(value)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """What is 0 and what is 1 in the cube, of values as they are or, with `log`, of their logarithms."""
        return self._scaled(self.low), self._scaled(self._top)

    def encode(self, value: Any) -> list[float]:
        """The coordinate of a value in the unit cube."""
        low, high = self.ends
        return [min(max((self._scaled(value) - low) / (high - low), 0.0), 1.0)]

    def decode(self, coordinates: Sequence[float]) -> Value:
        """The value at, or on the lattice nearest to, a coordinate."""
        if self.values is not None:
            return self._nearest(self.values, coordinates[0])
        return self.decode_all([coordinates])[0]

    def decode_all(self, columns: Sequence[Sequence[float]]) -> list[Value]:
        """The same of many, whose coordinates come column by column."""
        if self.values is not None:
            return super().decode_all(columns)
        (first, last), (places,), low, high = self.ends, columns, self.low, self.high
        numbers = [first + (last - first) * place for place in places]
        if self.log:
            numbers = [math.exp(min(number, last)) for number in numbers]
        # The ends come out as they were given, whatever rounding makes of them.
        return [
            low if place <= 0.0 or number < low else high if place >= 1.0 or number > high else number
            for place, number in zip(places, numbers, strict=True)
        ]

    def _nearest(self, values: Sequence[Value], place: float) -> Value:
        """The value on the lattice nearest to a coordinate; of two as near the lower."""
        above = min(max(bisect_left(self._places, place), 1), len(values) - 1)
        down, up = place - self._places[above - 1], self._places[above] - place
        return values[above - 1 if down * down <= up * up else above]

    @cached_property
    def _places(self) -> list[float]:
        """The coordinate of every value of the lattice, in order."""
        return [self.encode(value)[0] for value in self.values or ()]

    def draw(self, u: float) -> Value:
        """The value at the share u; every value of a lattice has the same share."""
        if self.values is None:
            return self.decode([u])
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def check(self, name: str, value: Any) -> Value:
        """The value as it is stored, or a sentence."""
        number = self._number(value, f"`{name}`")
        slack = SLACK * (self.high - self.low)
        if not self.low - slack <= number <= self._top + slack:
            ends = {"low": figures(f"{self.low:g}"), "high": figures(f"{self._top:g}")}
            words = "`{name}` must be from {low} to {high}, but got {got}."
            raise InvalidValueError(said("fault.within", words, name=name, got=figures(repr(value)), **ends))
        if self.step is None:
            return min(max(number, self.low), self.high)
        found = self._step_at(round((number - self.low) / self.step))
        if abs(found - number) > slack:
            given = {"low": f"{self.low:g}", "step": f"{self.step:g}", "got": repr(value), "near": f"{found:g}"}
            words = "`{name}` must be {low} plus a multiple of {step}, but got {got}; {near} is the nearest."
            numbers = {key: figures(one) for key, one in given.items()}
            raise InvalidValueError(said("fault.multiple", words, name=name, **numbers))
        return min(found, self._top)

    @property
    def tolerance(self) -> float:
        """The just-noticeable difference as a distance in the cube."""
        if self.jnd is None:
            return (DEFAULT_JND if self.step is None else 0.0) + SLACK
        width = self._scaled(self._top) - self._scaled(self.low)
        return (math.log1p(self.jnd) if self.log else self.jnd) / width + SLACK


@dataclass(frozen=True)
class Float(_Number):
    """A number from low to high, both included.

    Args:
        low: The smallest value.
        high: The largest value.
        log: Whether its logarithm is spread evenly: for what spans orders of magnitude. Then `low` is above 0.
        step: Keeps it on a lattice: low, low + step, and so on, up to `high`. None lets it be any number between.
        jnd: The just-noticeable difference, in the parameter's own units, with `log` as a share of the value (0.05 is
            five per cent); 0 tells everything apart. Without it, values within half a percent of the range are the
            same, and with a `step` all values differ.
    """


@dataclass(frozen=True)
class Int(_Number):
    """A whole number from low to high, both included.

    Args:
        low: The smallest value.
        high: The largest value; where `step` does not reach it, the last step before it is.
        log: Whether its logarithm is spread evenly. Then `low` is above 0.
        step: How far apart two neighbouring values are, from `low` on.
        jnd: The just-noticeable difference, as in `Float`; without it all values differ.
    """

    step: float | None = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", 1 if self.step is None else self._number(self.step, "`Int(step=...)`"))
        super().__post_init__()

    def _number(self, value: Any, name: str) -> float:
        number = finite(value, name)
        if number != int(number):
            words = "{name} must be a whole number, but got {got}."
            raise InvalidValueError(said("fault.whole", words, name=name, got=figures(repr(value))))
        if abs(number) > LARGEST_INT:
            raise InvalidValueError(
                f"{name} must be from -{LARGEST_INT} to {LARGEST_INT}, because other programs round what is beyond, "
                f"but got {shown(value)}; tune the difference to a fixed value instead."
            )
        return int(number)


@dataclass(frozen=True)
class Categorical(_Lattice):
    """One of some values without order.

    Args:
        choices: The values, two or more and none twice: texts, numbers, True, False or None.
    """

    choices: tuple[Value, ...]

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence):
            raise InvalidTypeError(f"`Categorical(choices=...)` must be a list of values, but got {self.choices!r}.")
        if len(self.choices) > MOST_CHOICES:
            raise InvalidValueError(
                f"`Categorical` must not have more than {MOST_CHOICES} choices, but got {len(self.choices)}; values "
                "with an order are better an `Int`."
            )
        object.__setattr__(self, "choices", tuple(_choice(choice) for choice in self.choices))
        if len(self.choices) < TWO:
            raise InvalidValueError(
                f"`Categorical` must have two choices or more, but got {list(self.choices)}; one value is `Fixed`."
            )
        for i, choice in enumerate(self.choices):
            if self.index(choice) != i:
                raise InvalidValueError(f"`Categorical` must not have a choice twice, but got {choice!r} twice.")

    @property
    def width(self) -> int:
        """How many coordinates it takes."""
        return len(self.choices) if len(self.choices) > TWO else 1

    @property
    def values(self) -> tuple[Value, ...]:
        """Every choice."""
        return self.choices

    def index(self, value: Any) -> int | None:
        """The place of a choice in the list; None of what is no choice."""
        try:
            return self._places.get(_told_apart(value))
        except TypeError:  # a list, a table: no choice
            return None

    @cached_property
    def _places(self) -> dict[Any, int]:
        """The first place of every choice."""
        return {_told_apart(choice): i for i, choice in reversed(list(enumerate(self.choices)))}

    def encode(self, value: Any) -> list[float]:
        """The coordinates of a choice in the unit cube."""
        index = self.index(value)
        assert index is not None
        return [float(i == index) for i in range(self.width)] if self.width > 1 else [float(index)]

    def decode(self, coordinates: Sequence[float]) -> Value:
        """The choice nearest to these coordinates; of several as near the first."""
        if self.width == 1:
            return self.choices[int(coordinates[0] > 0.5)]  # noqa: PLR2004
        return self.choices[max(range(self.width), key=coordinates.__getitem__)]

    def draw(self, u: float) -> Value:
        """The choice at the share u."""
        return self.choices[min(int(u * len(self.choices)), len(self.choices) - 1)]

    def check(self, name: str, value: Any) -> Value:
        """The choice as it is stored, or a sentence."""
        index = self.index(value)
        if index is None:
            words = "`{name}` must be one of {choices}, but got {got}."
            raise InvalidValueError(
                said("fault.choice", words, name=name, choices=repr(list(self.choices)), got=repr(value))
            )
        return self.choices[index]

    @property
    def tolerance(self) -> float:
        """Choices differ or are the same."""
        return SLACK


@dataclass(frozen=True)
class Fixed:
    """A value that is part of every design and never tuned.

    Args:
        value: A text, a number, True, False or None.
    """

    value: Value

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _choice(self.value))


Tuned = Float | Int | Categorical
Parameter = Tuned | Fixed


def _told_apart(value: Any) -> tuple[bool, Any]:
    # True is 1 to Python, and not to whoever offers both.
    own = plain(value)
    return isinstance(own, bool), own


def _choice(given: Any) -> Value:
    value: Any = plain(given)
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidValueError(f"A choice must be a text that can be written as UTF-8, but got {value!r}.")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Real):
        return finite(value, "a choice")
    raise InvalidTypeError(f"A choice must be a text, a number, True, False or None, but got {given!r}.")


def _check_range(kind: str, low: float, high: float, log: Any) -> None:
    """Low before high, a width that a number can hold, and a logarithm where one is wanted."""
    if low >= high:
        raise InvalidValueError(
            f"`{kind}` must have low < high, but got low={low:g}, high={high:g}; a value that never changes is "
            "`Fixed(value)`."
        )
    if not math.isfinite(high - low):
        raise InvalidValueError(f"`{kind}` must have a width that a number can hold, but got {low:g} to {high:g}.")
    if not isinstance(log, bool):
        raise InvalidTypeError(f"`{kind}(log=...)` must be True or False, but got {log!r}.")
    if log and low <= 0:
        raise InvalidValueError(
            f"`{kind}(log=True)` must have low > 0, because zero has no logarithm, but got low={low:g}."
        )


def _check_step(kind: str, low: float, high: float, step: float) -> None:
    """A step that fits in the range, and not too many of them."""
    if step > high - low:
        raise InvalidValueError(f"`{kind}(step=...)` must fit in the range {low:g} to {high:g}, but got {step:g}.")
    if low + step == low or high - step == high:
        raise InvalidValueError(
            f"`{kind}(step=...)` must be large enough to tell numbers from {low:g} to {high:g} apart, but got {step:g}."
        )
    if (high - low) / step > MOST_LEVELS:
        raise InvalidValueError(
            f"`{kind}` must not have more than {MOST_LEVELS} values, but got {(high - low) / step:.0f} from {low:g} to "
            f"{high:g}; `Float` has no limit."
        )
