"""A study as a fold over its events: which designs there are, what was answered, and which pairs are open."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kappasharp.errors import CorruptedError
from kappasharp.study.events import Added, Amended, Answer, Answered, Asked, Origin, Queued, Settling, Stored, Undone
from kappasharp.study.parameters import Value
from kappasharp.study.space import Design


@dataclass(frozen=True)
class Pair:
    """Two designs to compare. `number` names the pair in its study; `a` and `b` are as they are shown."""

    study: str
    number: int
    voter: str
    a: Design
    b: Design
    origin: Origin = "model"


@dataclass
class Comparison:
    """One answer that counts: `options` are the numbers of A and B, `event` is where it came from."""

    event: int
    voter: str
    time: str
    options: tuple[int, int]
    answer: Answer
    pair: int | None
    seconds: float | None
    amended: bool = False

    @property
    def ordered(self) -> tuple[int, int]:
        """Winner and loser; for a tie as they were shown."""
        a, b = self.options
        return (b, a) if self.answer == "b" else (a, b)


@dataclass
class History:
    """What the events add up to, up to `number`."""

    study: str
    number: int = 0
    options: list[Design] = field(default_factory=list)
    comparisons: dict[int, Comparison] = field(default_factory=dict)
    asked: dict[int, tuple[Pair, Asked]] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)
    queue: dict[int, Queued] = field(default_factory=dict)
    settling: int = 0
    _index: dict[tuple[tuple[str, Value], ...], int] = field(default_factory=dict)

    def extend(self, events: Iterable[Stored]) -> None:
        """Take in more events; a CorruptedError names one that speaks of what never happened."""
        for stored in events:
            try:
                self.apply(stored)
            except KeyError as error:
                raise CorruptedError(
                    f"Event {stored.number} does not follow from those before it: it speaks of event {error}, which is "
                    f"none of its kind. `through={stored.number - 1}` opens the study as it was before."
                ) from error

    def apply(self, stored: Stored) -> None:
        """Take in one more event."""
        match stored.event:
            case Asked():
                self._ask(stored, stored.event)
            case Answered():
                self._answer(stored, stored.event)
            case Added():
                self._add(stored, stored.event)
            case Queued():
                self.queue[stored.number] = stored.event
            case Settling():
                self.settling = stored.event.duels
            case Undone():
                self._undo(stored.event)
            case Amended():
                self._amend(stored.event)
        self.number = stored.number

    def after(self, stored: Stored) -> "History":
        """The history as it would be with one more event; this one stays as it is."""
        other = deepcopy(self)
        other.apply(stored)
        return other

    def option(self, design: Mapping[str, Value]) -> int | None:
        """The number of a design that was seen."""
        return self._index.get(design_key(design))

    def open_pair(self, voter: str) -> Pair | None:
        """The pair that waits for this voter's answer."""
        number = self.open.get(voter)
        return None if number is None else self.asked[number][0]

    def counted(self) -> list[Comparison]:
        """The answers that enter the model, in order: all but skips."""
        return [one for one in self.comparisons.values() if one.answer != "skip"]

    def met(self) -> set[frozenset[int]]:
        """Pairs of options that were put before somebody: answered, skipped, or open."""
        pairs = {frozenset(one.options) for one in self.comparisons.values()}
        return pairs | {frozenset(self.numbers(self.asked[number][0])) for number in self.open.values()}

    def numbers(self, pair: Pair) -> tuple[int, int]:
        """The options' numbers of a pair that was asked."""
        return self._index[design_key(pair.a)], self._index[design_key(pair.b)]

    def last_of(self, voter: str) -> int | None:
        """The number of this voter's last answer or comparison that still counts."""
        own = [number for number, one in self.comparisons.items() if one.voter == voter]
        return max(own, default=None)

    def memo(self, n_answers: int) -> dict[str, Any] | None:
        """What the model noted when it last chose a pair from fewer answers than these.

        Not from as many: two voters may ask between two answers, and a step must begin where the last one ended.
        """
        notes = (event.memo for _, event in reversed(self.asked.values()) if event.memo is not None)
        return next((memo for memo in notes if (noted_after(memo) or 0) < n_answers), None)

    def _note(self, design: Design) -> int:
        number = self._index.setdefault(design_key(design), len(self.options))
        if number == len(self.options):
            self.options.append(design)
        return number

    def _ask(self, stored: Stored, event: Asked) -> None:
        pair = Pair(self.study, stored.number, stored.voter, event.a, event.b, event.origin)
        self._note(event.a)
        self._note(event.b)
        self.asked[stored.number] = (pair, event)
        self.open[stored.voter] = stored.number
        if event.origin == "settle":
            self.settling = max(self.settling - 1, 0)
        if event.origin in ("queue", "again") and event.after in self.queue:
            del self.queue[event.after]

    def _answer(self, stored: Stored, event: Answered) -> None:
        pair, _ = self.asked[event.pair]
        self.comparisons[stored.number] = Comparison(
            stored.number, stored.voter, stored.time, self.numbers(pair), event.answer, event.pair, event.seconds
        )
        self.open.pop(stored.voter, None)

    def _add(self, stored: Stored, event: Added) -> None:
        options = (self._note(event.winner), self._note(event.loser))
        self.comparisons[stored.number] = Comparison(
            stored.number, stored.voter, stored.time, options, "tie" if event.tie else "a", None, None
        )

    def _undo(self, event: Undone) -> None:
        gone = self.comparisons.pop(event.event)
        if gone.pair is not None:
            # A pair that this voter was shown since then is withdrawn.
            self.open[gone.voter] = gone.pair

    def _amend(self, event: Amended) -> None:
        if event.answer is None:
            del self.comparisons[event.event]
            return
        one = self.comparisons[event.event]
        one.answer, one.amended = event.answer, True


def spread(total: int, most: int) -> list[int]:
    """Numbers of answers from 1 to `total`, all of them or `most` spread evenly, the last among them."""
    if total <= 1:
        return list(range(1, total + 1))
    return sorted({round(1 + i * (total - 1) / (most - 1)) for i in range(most)})


def design_key(design: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """What tells designs apart."""
    # 1, 1.0 and True are one key to Python; a design of a study has one type for each parameter, but choices may mix.
    return tuple((f"{name}:{isinstance(value, bool)}", value) for name, value in design.items())


def noted_after(memo: Any) -> int | None:
    """How many answers there were when a model noted this; None where it does not say, as imports once allowed."""
    answers = memo.get("answers") if isinstance(memo, dict) else None
    return answers if isinstance(answers, int) else None
