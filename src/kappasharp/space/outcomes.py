"""What a study says of its outcomes: their names, what computes them, which way is better, and how far they may go.

Hints (`Less`, `More`) are soft: answers may say otherwise. Limits (`AtMost`, `AtLeast`) are hard: designs that are
known to break them are not proposed. `OutcomeFunction` is what the rest of a study knows of the user's function; who
runs it is in `simulators`.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from kappasharp.arguments import finite, plain
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError, named
from kappasharp.space.space import Design

Better = Literal["less", "more"]
Values = dict[str, float]
BETTER: tuple[Better, ...] = ("less", "more")
LONGEST_NAME, MOST_OUTCOMES = 200, 64
# The entry of a study file's table [outcomes] that is no outcome.
FUNCTION = "function"
ENTRIES = ("better", "at_least", "at_most")


@dataclass(frozen=True)
class Less:
    """Less of this outcome is usually better: soft knowledge, which answers may correct."""

    outcome: str


@dataclass(frozen=True)
class More:
    """More of this outcome is usually better: soft knowledge, which answers may correct."""

    outcome: str


@dataclass(frozen=True)
class AtMost:
    """No design may have more of this outcome."""

    outcome: str
    value: float


@dataclass(frozen=True)
class AtLeast:
    """No design may have less of this outcome."""

    outcome: str
    value: float


Hint = Less | More
Limit = AtMost | AtLeast
# What `outcomes=` takes: a function, its name as module:function, names alone, or the table of a study file.
GivenOutcomes = Callable[[dict[str, Any]], Mapping[str, float]] | str | Sequence[str] | Mapping[str, Any]


@dataclass(frozen=True)
class StudyOutcome:
    """One outcome."""

    name: str
    better: Better | None = None
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise InvalidValueError(f"An outcome's name must be a printable text, but got {self.name!r}.")
        if len(self.name) > LONGEST_NAME or self.name == FUNCTION or "=" in self.name:
            raise InvalidValueError(
                f"An outcome's name must have {LONGEST_NAME} characters at most and no '=', and must not be "
                f"{FUNCTION!r}, but got {self.name[:LONGEST_NAME]!r}; give it another."
            )
        if self.better not in (None, *BETTER):
            raise InvalidValueError(f"`better` of {self.name!r} must be 'less' or 'more', but got {self.better!r}.")
        for entry in ("at_least", "at_most"):
            if getattr(self, entry) is not None:
                limit = finite(getattr(self, entry), f"`{entry}` of {self.name!r}")
                object.__setattr__(self, entry, limit)
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise InvalidValueError(
                f"The limits of {self.name!r} must leave something between them, but got at least {self.at_least:g} "
                f"and at most {self.at_most:g}."
            )

    @property
    def is_limited(self) -> bool:
        """Whether it has a limit."""
        return self.at_least is not None or self.at_most is not None

    def violation(self, value: float) -> float:
        """How far a value breaks the limits, in the outcome's own units; 0 where it keeps them."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return max(low - value, value - high, 0.0)

    def plain(self) -> dict[str, Any]:
        """What is said of it, as plain data."""
        return {entry: value for entry in ENTRIES if (value := getattr(self, entry)) is not None}


@dataclass(frozen=True)
class Outcomes:
    """All outcomes of a study. Without `is_computed` they are measured, and given by hand.

    `function` is module:function, where it can be imported by name; `seconds` is about how long one design took when
    the study was made.
    """

    table: tuple[StudyOutcome, ...]
    function: str | None = None
    is_computed: bool = False
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.table) <= MOST_OUTCOMES:
            raise InvalidValueError(
                f"A study with outcomes must have 1 to {MOST_OUTCOMES} of them, but got {len(self.table)}."
            )
        if len(set(self.names)) != len(self.table):
            raise InvalidValueError(f"Every outcome must have a name of its own, but got {', '.join(self.names)}.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(one.name for one in self.table)

    @property
    def limited(self) -> tuple[StudyOutcome, ...]:
        """Those with limits."""
        return tuple(one for one in self.table if one.is_limited)

    @property
    def leaning(self) -> tuple[int, ...]:
        """What hints say of each: 1 where more is better, −1 where less is, 0 where they say nothing."""
        return tuple({None: 0, "less": -1, "more": 1}[one.better] for one in self.table)

    def plain(self) -> dict[str, Any]:
        """The same as plain data; code is never part of it."""
        rest = asdict(replace(self, table=self.table))
        del rest["table"]
        return {"table": {one.name: one.plain() for one in self.table}} | rest

    def check(self, given: Any, *, complete: bool) -> Values:
        """Outcomes of one design as they are stored: known names, finite numbers; all of them where it is complete."""
        if not isinstance(given, Mapping):
            raise InvalidTypeError(f"Outcomes must be a mapping of names to numbers, but got {given!r}.")
        for name in given:
            named("outcome", name, dict.fromkeys(self.names))
        missing = [name for name in self.names if name not in given]
        if complete and missing:
            raise InvalidValueError(f"Outcomes must name {', '.join(missing)} too, but got {dict(given)!r}.")
        if not given:
            several = "at least one of " if len(self.names) > 1 else ""
            raise InvalidValueError(f"Outcomes must name {several}{', '.join(self.names)}, but got {dict(given)!r}.")
        return {name: float(number(given[name], f"Outcome {name!r}")) for name in self.names if name in given}

    def row(self, values: Mapping[str, float]) -> list[float]:
        """The values in order, NaN where there is none."""
        return [values.get(name, math.nan) for name in self.names]


def number(value: Any, what: str) -> float:
    """A finite number, NumPy's and torch's scalars among them, as Python's own; or a sentence."""
    is_scalar = hasattr(value, "item") and getattr(value, "shape", None) == ()
    return finite(value.item() if is_scalar else value, what)


def from_plain(data: Any) -> Outcomes:
    """The outcomes that `plain` wrote."""
    table = dict(data)
    rows = tuple(_outcome(name, entry) for name, entry in dict(table.pop("table")).items())
    unknown = table.keys() - {"function", "is_computed", "seconds"}
    if unknown:
        raise InvalidValueError(f"`outcomes` has {', '.join(sorted(unknown))}, which this version does not know.")
    if table.get("function") is not None:
        split_name(table["function"])
    if not isinstance(table.get("is_computed", False), bool):
        raise InvalidTypeError(f"`outcomes.is_computed` must be true or false, but got {table['is_computed']!r}.")
    if table.get("seconds") is not None:
        finite(table["seconds"], "`outcomes.seconds`")
    return Outcomes(rows, **table)


def read_given(given: Any) -> tuple[Any, tuple[StudyOutcome, ...]]:
    """The function or its name, None where outcomes are measured; and what is said of single outcomes."""
    if isinstance(given, str) or callable(given):
        return given, ()
    if isinstance(given, Mapping):
        return from_table(given)
    if isinstance(given, Sequence):
        return None, tuple(StudyOutcome(name) for name in given)
    raise InvalidTypeError(
        f"`outcomes` must be a function, module:function, names, or a table of a study file, but got {given!r}."
    )


def from_table(given: Mapping[str, Any]) -> tuple[str | None, tuple[StudyOutcome, ...]]:
    """The function's name and what is said of each outcome, from a study file's table [outcomes]."""
    function = given.get(FUNCTION)
    if function is not None:
        split_name(function)
    return function, tuple(_outcome(name, entry) for name, entry in given.items() if name != FUNCTION)


def _outcome(name: Any, entry: Any) -> StudyOutcome:
    if not isinstance(entry, Mapping):
        raise InvalidTypeError(
            f'The outcome {name!r} must be a table such as {{better = "less", at_most = 0.2}}, but got {entry!r}.'
        )
    for key in entry:
        named(f"entry of the outcome {name!r}", key, dict.fromkeys(ENTRIES))
    return StudyOutcome(name, **entry)


def with_knowledge(
    table: Iterable[StudyOutcome], hints: Iterable[Hint], limits: Iterable[Limit]
) -> tuple[StudyOutcome, ...]:
    """The outcomes with what hints and limits say of them."""
    found = {one.name: one for one in table}
    for each in (*hints, *limits):
        try:
            one = named("outcome", each.outcome, found)
        except UnknownNameError as error:
            raise UnknownNameError(f"{each!r} must be about an outcome of the study. {error}") from error
        found[each.outcome] = _with(one, each)
    return tuple(found.values())


def _with(one: StudyOutcome, each: Hint | Limit) -> StudyOutcome:
    if isinstance(each, Less | More):
        better: Better = "less" if isinstance(each, Less) else "more"
        if one.better not in (None, better):
            raise InvalidValueError(f"{one.name!r} must be better one way only, but got less and more.")
        return replace(one, better=better)
    entry = "at_most" if isinstance(each, AtMost) else "at_least"
    value, before = number(plain(each.value), f"The limit of {one.name!r}"), getattr(one, entry)
    # Both hold, so the tighter one says all.
    tighter = min if entry == "at_most" else max
    return replace(one, **{entry: value if before is None else tighter(value, before)})  # type: ignore[arg-type]


def split_name(name: Any, what: str = "outcomes") -> tuple[str, str]:
    """Module and function of module:function, or a sentence."""
    module, _, function = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not module or not function:
        raise InvalidValueError(f"`{what}` must be module:function, such as bench:simulate, but got {name!r}.")
    return module, function


# The function of a study's outcomes, as the rest of a study knows it, and what it made of one design.


class Ran(NamedTuple):
    """What the function made of one design: outcomes, or why there are none; and the seconds it took."""

    values: Values | None
    failure: str | None
    seconds: float
    hung: bool = False
    # Whether there was a function to run.
    loaded: bool = True


class OutcomeFunction(Hashable, Protocol):
    """What computes the outcomes of designs, and keeps what it computed; a simulator is one."""

    @property
    def name(self) -> str | None:
        """The name that it is found by; None where it has none."""

    def has_tried(self, design: Design) -> bool:
        """Whether it was run for a design."""

    def known(self, design: Design, names: Sequence[str]) -> Ran | None:
        """What is kept of a design."""

    def compute(self, designs: Sequence[Design], names: Sequence[str] | None = None) -> list[Ran]:
        """The outcomes of designs, each computed once."""

    def table(self, parameters: tuple[str, ...], keys: Sequence[Any], names: tuple[str, ...]) -> tuple[bytearray, bool]:
        """The outcomes of many designs as doubles, and whether all are known."""

    def stop(self) -> None:
        """End what runs now; later calls start it again."""
