"""What can happen in a study. Everything a study knows is a list of these, in order; nothing is ever changed in it.

An event's body is plain data (text, numbers, lists, mappings), so that any program can read it.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, get_args

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.study.parameters import finite, shown
from kappasharp.study.space import Design

Answer = Literal["a", "b", "tie", "skip"]
ANSWERS: tuple[str, ...] = get_args(Answer)
Origin = Literal["start", "model", "queue", "again", "settle"]
DEFAULT_VOTER = "me"
LONGEST_NAME, LONGEST_VOTER = 200, 100
# Duels that one wish to settle may ask for.
MOST_DUELS = 100
# What the databases count to.
MOST_EVENTS = 2**31 - 1


@dataclass(frozen=True)
class Asked:
    """A pair was put before a voter. `after` is the last event that the choice rests on; from the queue, its entry."""

    kind: ClassVar[str] = "asked"
    a: Design
    b: Design
    origin: Origin
    after: int
    # What the next fit starts from, and what this one found: `_memo` in questions.py.
    memo: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answered:
    """The voter's answer to a pair, and the seconds it took where somebody measured them."""

    kind: ClassVar[str] = "answered"
    pair: int
    answer: Answer
    seconds: float | None = None


@dataclass(frozen=True)
class Added:
    """A comparison from elsewhere; without order where it is a tie."""

    kind: ClassVar[str] = "added"
    winner: Design
    loser: Design
    tie: bool = False


@dataclass(frozen=True)
class Queued:
    """A pair that somebody wants asked. `again` holds the number of the pair that it repeats."""

    kind: ClassVar[str] = "queued"
    a: Design
    b: Design
    again: int | None = None


@dataclass(frozen=True)
class Settling:
    """Somebody wants the next questions to be duels between designs already seen; none ends what was wished before."""

    kind: ClassVar[str] = "settling"
    duels: int


@dataclass(frozen=True)
class Undone:
    """The event of this number counts no more; if it was an answer, its pair is open again."""

    kind: ClassVar[str] = "undone"
    event: int


@dataclass(frozen=True)
class Amended:
    """The answer or comparison of this number now reads otherwise; None takes it out."""

    kind: ClassVar[str] = "amended"
    event: int
    answer: Answer | None


Event = Asked | Answered | Added | Queued | Settling | Undone | Amended
KINDS: dict[str, type[Event]] = {cls.kind: cls for cls in (Asked, Answered, Added, Queued, Settling, Undone, Amended)}


@dataclass(frozen=True)
class Stored:
    """An event with its number in the study, its voter and its time (UTC, ISO 8601)."""

    number: int
    voter: str
    time: str
    event: Event


def body(event: Event) -> dict[str, Any]:
    """An event as plain data."""
    return asdict(event)


def read(kind: str, data: dict[str, Any]) -> Event:
    """The event of that kind with that body; a KeyError or TypeError where there is none."""
    return KINDS[kind](**data)


def answer(value: Any) -> Answer:
    """One of the four answers, or a sentence."""
    if value not in ANSWERS:
        raise InvalidValueError(f"`answer` must be 'a', 'b', 'tie' or 'skip', but got {value!r}.")
    return value


def seconds(value: Any) -> float | None:
    """How long somebody took, or a sentence."""
    if value is None:
        return None
    number = float(finite(value, "`seconds`"))
    if number < 0.0:
        raise InvalidValueError(f"`seconds` must not be below 0, but got {value!r}.")
    return number


def whole(what: str, value: Any, least: int = 0) -> int:
    """A whole number of at least that much, or a sentence."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(f"`{what}` must be a whole number, but got {value!r}.")
    if not least <= value <= MOST_EVENTS:
        raise InvalidValueError(f"`{what}` must be from {least} to {MOST_EVENTS}, but got {shown(value)}.")
    return value


def duels(value: Any) -> int:
    """How many duels are to settle it, or a sentence."""
    if whole("duels", value) > MOST_DUELS:
        raise InvalidValueError(f"`duels` must not pass {MOST_DUELS}, but got {shown(value)}.")
    return int(value)


def voter(value: Any) -> str:
    """A voter's name, or a sentence."""
    return named_text("voter", value, LONGEST_VOTER)


def named_text(what: str, value: Any, longest: int = LONGEST_NAME) -> str:
    """A name that people and terminals can read, or a sentence."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"`{what}` must be a text, but got {value!r}.")
    if not value.strip() or not value.isprintable() or len(value) > longest:
        raise InvalidValueError(f"`{what}` must be a printable text of 1 to {longest} characters, but got {value!r}.")
    return value
