"""What can happen in a study. Everything a study knows is a list of these, in order; nothing is ever changed in it.

An event's body is plain data (text, numbers, lists, mappings), so that any program can read it. What events add up to
is in `history.py`; how they are kept, in `store`.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, get_args

from kappasharp import settings
from kappasharp.arguments import finite, is_whole, shown
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.messages.message import said
from kappasharp.questions.kind import NAMES, PAIR, Answer, Form, Kind, parse
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design

Origin = Literal["start", "model", "queue", "again", "settle"]
Source = Literal["simulated", "measured"]
DEFAULT_VOTER = settings.DEFAULT_VOTER
LONGEST_NAME, LONGEST_VOTER, LONGEST_FAILURE, LONGEST_NOTE = 200, 100, 500, 500
# Duels that one wish to settle may ask for.
MOST_DUELS = 100
# What they may be.
SETTLING = (Kind.PAIR, Kind.CHOICE, Kind.ORDER)
# What the databases count to.
MOST_EVENTS = 2**31 - 1


@dataclass(frozen=True)
class _About:
    """What a question is about: two designs and, where it shows `more`, those; `question` is its kind.

    A slider's line goes through them. What makes no difference to a pair is left out of its body.
    """

    a: Design
    b: Design
    question: str = field(default=Kind.PAIR.value, kw_only=True)
    more: list[Design] = field(default_factory=list, kw_only=True)

    @property
    def designs(self) -> list[Design]:
        """All designs of the question, in the order in which they are shown."""
        return [self.a, self.b, *self.more]

    @property
    def form(self) -> Form:
        """What kind of question it is, and about how many designs."""
        return Form(Kind(self.question), PAIR + len(self.more))


@dataclass(frozen=True)
class Asked(_About):
    """A question was put before a voter. `after` is the last event that it rests on; from the queue, its entry."""

    kind: ClassVar[str] = "asked"
    origin: Origin
    after: int
    # What the next fit starts from, and what this one found: `_memo` in planning/next_question.py.
    memo: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answered:
    """The voter's answer to a question (questions/kind.py), and the seconds it took where somebody measured them."""

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
class Queued(_About):
    """A question that somebody wants asked. `again` holds the number of the one that it repeats.

    Where it is for `people`, no program takes it.
    """

    kind: ClassVar[str] = "queued"
    again: int | None = None
    people: bool = False


@dataclass(frozen=True)
class Settling:
    """Somebody wants the next questions to be about designs already seen; none ends what was wished before.

    They are duels, or of the form that `question` names ("choice:9").
    """

    kind: ClassVar[str] = "settling"
    duels: int
    question: str = Kind.PAIR.value


@dataclass(frozen=True)
class Undone:
    """The event of this number counts no more; if it was an answer, its pair is open again.

    It is a voter's last answer, comparison or change of a parameter.
    """

    kind: ClassVar[str] = "undone"
    event: int


@dataclass(frozen=True)
class Amended:
    """The answer or comparison of this number now reads otherwise; None takes it out."""

    kind: ClassVar[str] = "amended"
    event: int
    answer: Answer | None


@dataclass(frozen=True)
class Recorded:
    """Outcomes of a design became known, or why they did not; with neither, what was known of it counts no more.

    What was recorded before counts no more either, unless this is a repetition: those are averaged.
    """

    kind: ClassVar[str] = "recorded"
    design: Design
    outcomes: dict[str, float] | None
    source: Source = "measured"
    repeat: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class Bounded:
    """From here on this much of a parameter is open: a range, one value where its ends are equal, or choices.

    What lies beyond all that was open before widens the space of the model; nothing ever makes that smaller.
    """

    kind: ClassVar[str] = "bounded"
    name: str
    low: float | None = None
    high: float | None = None
    choices: list[Value] | None = None


@dataclass(frozen=True)
class Remarked:
    """What a voter has to say of a design; it stands in place of what they said before, None takes that back."""

    kind: ClassVar[str] = "remarked"
    design: Design
    text: str | None


@dataclass(frozen=True)
class Joined:
    """This voter is a program, from here on; `about` says which, in a line."""

    kind: ClassVar[str] = "joined"
    about: str


@dataclass(frozen=True)
class Judged(_About):
    """What a program said of designs that it was shown in this order, and how sure it was. It is no answer yet.

    Kept so that nobody pays for the same twice.
    """

    kind: ClassVar[str] = "judged"
    answer: Answer
    confidence: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Weighed:
    """How much each voter counts towards what is best for all, in place of what was said before; others count 1."""

    kind: ClassVar[str] = "weighed"
    weights: dict[str, float]


@dataclass(frozen=True)
class Restored:
    """An older copy of the study was taken as it is: it had so many events once, and this many are left.

    `head` is the digest of the last one that was given up, `noticed` the time at which the loss was first seen.
    """

    kind: ClassVar[str] = "restored"
    had: int
    left: int
    head: str
    noticed: str | None = None


Event = (
    Asked | Answered | Added | Queued | Settling | Undone | Amended | Recorded | Bounded | Remarked | Joined | Judged
    | Weighed | Restored
)  # fmt: skip
KINDS: dict[str, type[Event]] = {cls.kind: cls for cls in get_args(Event)}


@dataclass(frozen=True)
class Stored:
    """An event with its number in the study, its voter and its time (UTC, ISO 8601)."""

    number: int
    voter: str
    time: str
    event: Event


def body(event: Event) -> dict[str, Any]:
    """An event as plain data; that of a pair as it ever was."""
    data = asdict(event)
    if isinstance(event, _About) and event.form.is_pair:
        del data["question"], data["more"]
    if isinstance(event, Queued) and not event.people:
        del data["people"]
    if isinstance(event, Settling) and event.question == Kind.PAIR.value:
        del data["question"]
    return data


def read(kind: str, data: dict[str, Any]) -> Event:
    """The event of that kind with that body; a KeyError, TypeError or InvalidValueError where there is none."""
    event = KINDS[kind](**data)
    if isinstance(event, _About) and event.question not in NAMES:
        raise KeyError(event.question)
    if isinstance(event, Settling):
        settled_by(event.question)
    return event


def seconds(value: Any) -> float | None:
    """How long somebody took, or a sentence."""
    if value is None:
        return None
    number = float(finite(value, "`seconds`"))
    if number < 0.0:
        raise InvalidValueError(f"`seconds` must not be below 0, but got {value!r}.")
    return number


def confidence(value: Any) -> float | None:
    """How sure a program is, from 0 to 1, or a sentence."""
    if value is None:
        return None
    number = float(finite(value, "`confidence`"))
    if not 0.0 <= number <= 1.0:
        raise InvalidValueError(f"`confidence` must be from 0 to 1, but got {value!r}.")
    return number


def whole(what: str, value: Any, least: int = 0) -> int:
    """A whole number of at least that much as Python's own, or a sentence."""
    if not is_whole(value):
        raise InvalidTypeError(f"`{what}` must be a whole number, but got {value!r}.")
    number = int(value)
    if not least <= number <= MOST_EVENTS:
        raise InvalidValueError(f"`{what}` must be from {least} to {MOST_EVENTS}, but got {shown(number)}.")
    return number


def duels(value: Any) -> int:
    """How many duels are to settle it, or a sentence."""
    number = whole("duels", value)
    if number > MOST_DUELS:
        raise InvalidValueError(f"`duels` must not pass {MOST_DUELS}, but got {shown(number)}.")
    return number


def settled_by(value: Any) -> Form:
    """What questions are to settle it, or a sentence: about designs that were seen, so none moves between them."""
    form = parse(value)
    if form.kind not in SETTLING:
        raise InvalidValueError(f"`question` must be 'pair', or a choice or an order, to settle, but got {value!r}.")
    return form


def note(value: Any) -> str:
    """What somebody has to say of a design, or a sentence."""
    return named_text("text", value, LONGEST_NOTE)


def voter(value: Any) -> str:
    """A voter's name without the spaces around it, which nobody sees, or a sentence."""
    return named_text("voter", value.strip(" ") if isinstance(value, str) else value, LONGEST_VOTER)


def named_text(what: str, value: Any, longest: int = LONGEST_NAME) -> str:
    """A name that people and terminals can read, or a sentence."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"`{what}` must be a text, but got {value!r}.")
    if not value.strip() or not value.isprintable() or len(value) > longest:
        words = "`{what}` must be a printable text of 1 to {longest} characters, but got {got}."
        got = repr(value) if len(value) <= 2 * longest else f"{value[:longest]!r}… ({len(value)})"
        raise InvalidValueError(said("fault.text", words, what=what, longest=longest, got=got))
    return value
