"""What of each parameter questions may use now: all of it, a part, or one value; and how that is changed later.

The model's cube spans every value that was ever open, the hull, which only grows: no answer is lost, and what was
learnt beyond the present bounds still counts. The bounds say where questions are searched, and what may be told.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kappasharp.arguments import finite, shown
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.messages.message import Sentence, figures, in_a_row, said
from kappasharp.space.parameters import DEFAULT_JND, SLACK, Categorical, Float, Int, Tuned, Value

Side = Literal["low", "high"]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Bounds:
    """The values of one parameter that are open: a list of them, or all numbers from low to high."""

    part: Tuned
    values: tuple[Value, ...] | None
    low: float = 0.0
    high: float = 0.0

    @property
    def ends(self) -> tuple[float | None, float | None, tuple[Value, ...] | None]:
        """Ends of the range, or the choices: what `some` takes."""
        return (None, None, self.values) if isinstance(self.part, Categorical) else (self.low, self.high, None)

    @property
    def is_locked(self) -> bool:
        """Whether one value is left."""
        return self.values is not None and len(self.values) == 1

    def draw(self, u: float) -> Value:
        """The value at the share u."""
        if self.values is not None:
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        low, high = self.cube[0]
        return self.settled(self.part.decode([low + (high - low) * u]))

    def holds(self, value: Value) -> bool:
        """Whether a value of the parameter is open."""
        if self.values is None:
            assert isinstance(value, int | float)
            # As a search has it, too, to whom a design is a point of the cube: on a log range that is another rounding.
            low, high = self.cube[0]
            near = low - SLACK <= self.part.encode(value)[0] <= high + SLACK
            return near or self.low - self._slack <= value <= self.high + self._slack
        return any(self._is(value, one) for one in self.values)

    def settled(self, value: Value) -> Value:
        """The value, or the end of the bounds that only rounding tells from it."""
        ends = (self.low, self.high) if self.values is None else self.values
        return next((one for one in ends if self._is(value, one)), value)

    def _is(self, value: Value, other: Value) -> bool:
        if isinstance(self.part, Categorical):
            return self.part.index(value) == self.part.index(other)
        assert isinstance(value, int | float) and isinstance(other, int | float)
        return abs(value - other) <= self._slack

    @property
    def _slack(self) -> float:
        assert not isinstance(self.part, Categorical)
        return SLACK * (self.part.high - self.part.low)

    @property
    def cube(self) -> list[Ends]:
        """The ends of what is open, coordinate by coordinate."""
        if self.values is None:
            return [(self.part.encode(self.low)[0], self.part.encode(self.high)[0])]
        rows = [self.part.encode(value) for value in self.values]
        return [(min(column), max(column)) for column in zip(*rows, strict=True)]

    @property
    def tolerance(self) -> float:
        """How far apart in the cube two values may be that nobody could tell apart: by default a share of the range."""
        part = self.part
        if self.values is not None or isinstance(part, Categorical) or part.jnd is not None:
            return part.tolerance
        low, high = self.cube[0]
        return DEFAULT_JND * (high - low) + SLACK

    def plain(self) -> dict[str, Any]:
        """The same as plain data: {value}, {low, high} or {choices}."""
        if self.is_locked:
            assert self.values is not None
            return {"value": self.values[0]}
        if isinstance(self.part, Categorical):
            return {"choices": list(self.values or ())}
        return {"low": self.low, "high": self.high}

    def __str__(self) -> str:
        if self.is_locked:
            assert self.values is not None
            return f"locked at {_words(self.values[0])}"
        if isinstance(self.part, Categorical):
            return f"one of {', '.join(map(_words, self.values or ()))}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class ParameterEdge:
    """The best design sits at an `end` of what is open, or close to it; `further` is how far it might be widened."""

    name: str
    side: Side
    value: float
    further: float
    end: float

    @property
    def call(self) -> str:
        """The call that widens it."""
        return f"study.widen({self.name!r}, {self.side}={self.further!r})"

    @property
    def sentence(self) -> Sentence:
        """The same in words."""
        which = "lowest" if self.side == "low" else "highest"
        rest = "if values beyond it make sense, `{call}` opens them, and no answer is lost."
        value, end = f"{self.value:g}", f"{self.end:g}"
        given = {"name": self.name, "value": figures(value), "call": self.call}
        if value == end:
            return said(
                f"edge.{self.side}",
                f"The best design has {{name}} = {{value}}, the {which} that is open; {rest}",
                **given,
            )
        words = f"The best design has {{name}} = {{value}}, close to {{end}}, the {which} that is open; {rest}"
        return said(f"near.{self.side}", words, end=figures(end), **given)

    def __str__(self) -> str:
        return str(self.sentence)


@dataclass(frozen=True, kw_only=True)
class AmongOpen:
    """How a design that is told stands to what is open.

    `edges` are the parameters that sit at an end. `better_outside` is the number of an option that the model holds to
    be better still but that is not open any more; `outside` names parameters of the design itself that are not, where
    no design was compared that is. `better_breaking` and `breaks` are the same of limits: an option held to be better
    still that is known to break one, and the limits that the design itself breaks.
    """

    outside: tuple[str, ...] = ()
    better_outside: int | None = None
    edges: tuple[ParameterEdge, ...] = ()
    breaks: tuple[str, ...] = ()
    better_breaking: int | None = None

    @property
    def notes(self) -> list[Sentence]:
        """The same in sentences."""
        return self.breaches + [edge.sentence for edge in self.edges]

    @property
    def breaches(self) -> list[Sentence]:
        """What is not open or breaks a limit, the design itself or one that seems better, in sentences."""
        lines = []
        if self.outside:
            words = (
                "No design was compared yet that is open now: this one's {names} is not. The next questions ask about "
                "others."
            )
            lines.append(said("open.none", words, names=in_a_row(self.outside)))
        if self.better_outside is not None:
            words = "Option {option} seems better still, but it is not open any more; `study.widen` opens it."
            lines.append(said("open.better", words, option=self.better_outside))
        if self.breaks:
            words = (
                "This design breaks {limits}: none was compared that keeps the limits, or they are left aside, as "
                "`study.notes()` says."
            )
            lines.append(said("limit.broken", words, limits=in_a_row(self.breaks)))
        if self.better_breaking is not None:
            words = "Option {option} seems better still, but it breaks a limit, and no such design is told."
            lines.append(said("limit.better", words, option=self.better_breaking))
        return lines


# From how many values on it says something that a whole number sits at an end; and by what share of the range, open to
# the hull's end or beyond it, an end is moved.
MANY_VALUES, FURTHER = 5, 0.5


def everything(part: Tuned) -> Bounds:
    """All values of a parameter."""
    if isinstance(part, Categorical):
        return Bounds(part, part.choices)
    return Bounds(part, part.values, part.low, part.high if part.values is None else part.values[-1])


def between(part: Float | Int, low: float, high: float) -> Bounds:
    """The values of a number from low to high, both within its range; one where they are equal."""
    if part.values is not None:
        slack = SLACK * (part.high - part.low)
        kept = tuple(one for one in part.values if low - slack <= one <= high + slack)
        return Bounds(part, kept, kept[0], kept[-1]) if kept else Bounds(part, ())
    return Bounds(part, (low,) if low == high else None, low, high)


def among(part: Categorical, choices: Sequence[Value]) -> Bounds:
    """Some of a list of choices, in the list's order."""
    wanted = {part.index(one) for one in choices}
    return Bounds(part, tuple(one for i, one in enumerate(part.choices) if i in wanted))


def some(part: Tuned, low: float | None, high: float | None, choices: Sequence[Value] | None) -> Bounds:
    """Some values of a parameter, by their ends or as a list."""
    if isinstance(part, Categorical):
        return among(part, choices or ())
    assert low is not None and high is not None
    return between(part, low, high)


def grown(part: Tuned, low: float | None, high: float | None, choices: Sequence[Value] | None) -> Tuned:
    """The parameter with these values in it too: the hull, which only grows. On a lattice it stays the same lattice."""
    if isinstance(part, Categorical):
        news = [one for one in choices or () if part.index(one) is None]
        return Categorical((*part.choices, *news)) if news else part
    assert low is not None and high is not None
    wider = replace(part, low=min(part.low, low), high=max(part.high, high))
    return part if (wider.low, wider.high) == (part.low, part.high) else wider


def edges(name: str, bounds: Bounds, value: Value) -> list[ParameterEdge]:
    """Where a value sits at an end of what is open, on the way to values that it might have liked better."""
    part = bounds.part
    few = bounds.values is not None and len(bounds.values) < MANY_VALUES
    if isinstance(part, Categorical) or few or not isinstance(value, int | float):
        return []
    place, (low, high) = part.encode(value)[0], bounds.cube[0]
    near = max(bounds.tolerance, SLACK)
    sides: list[Side] = [side for side, end in (("low", low), ("high", high)) if abs(place - end) <= near]  # type: ignore[misc]
    ends = {"low": bounds.low, "high": bounds.high}
    found = [(side, _further(bounds, side)) for side in sides[:1]]
    return [ParameterEdge(name, side, value, further, ends[side]) for side, further in found if further is not None]


def _further(bounds: Bounds, side: Side) -> float | None:
    """Half the range more, in few digits; no further than the hull where that is wider. None where no more may be."""
    part, whole = bounds.part, everything(bounds.part)
    assert not isinstance(part, Categorical)
    end, hull = (bounds.low, whole.low) if side == "low" else (bounds.high, whole.high)
    if end != hull:
        return hull
    far = _half_more(bounds, side)
    if part.step is not None:
        far = _on_a_step(part, end, far)
    try:
        wider = grown(part, min(part.low, far), max(part.high, far), None)
    except InvalidValueError:
        return None
    return None if wider == part else far


def _half_more(bounds: Bounds, side: Side) -> float:
    end, sign = (bounds.low, -1) if side == "low" else (bounds.high, 1)
    if bounds.part.log:  # type: ignore[union-attr]
        far = end * (bounds.high / bounds.low) ** (sign * FURTHER)
        return _short(far, far) if 0.0 < far < math.inf else far
    move = FURTHER * (bounds.high - bounds.low)
    return _short(end + sign * move, move)


def _on_a_step(part: Float | Int, end: float, far: float) -> float:
    """The step nearest to that, one from the end at least; above zero where logarithms are taken."""
    assert part.step is not None
    if not math.isfinite(far):
        return far
    steps = max(round(abs(far - end) / part.step), 1)
    if part.log and far < end:
        steps = min(steps, math.ceil(end / part.step) - 1)
    exact = end + math.copysign(steps * part.step, far - end)
    return int(exact) if isinstance(part, Int) else float(f"{exact:.12g}")


def _short(value: float, scale: float) -> float:
    digits = 1 - math.floor(math.log10(abs(scale)))
    return round(value, digits)


def number(name: str, part: Float | Int, value: Any) -> float:
    """A number that may be an end of that parameter, or a sentence."""
    found = finite(value, f"`{name}`")
    if isinstance(part, Int) and found != int(found):
        raise InvalidValueError(
            said("fault.whole", "{name} must be a whole number, but got {got}.", name=f"`{name}`", got=repr(value))
        )
    if part.log and found <= 0:
        words = "`{name}` must be above 0, because zero has no logarithm, but got {got}."
        raise InvalidValueError(said("fault.log", words, name=name, got=repr(value)))
    return int(found) if isinstance(part, Int) else float(found)


def listed(name: str, choices: Any) -> list[Value]:
    """A list of choices, or a sentence."""
    if isinstance(choices, str) or not isinstance(choices, Sequence) or not choices:
        raise InvalidTypeError(f"`choices` of {name!r} must be a list of values, but got {choices!r}.")
    return list(choices)


def _words(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, str) else shown(value)
