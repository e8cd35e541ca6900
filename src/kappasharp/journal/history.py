"""A study as a fold over its events: which designs there are, what was answered, and which questions are open.

The same events give the same history in every process. What of the parameters is open, which outcomes are known, who
weighs how much and which voters are programs belong to it. Nothing is computed here that needs a model.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from statistics import fmean, stdev
from typing import Any, NamedTuple

from kappasharp.errors import CorruptedError
from kappasharp.journal import events, fit_note
from kappasharp.journal.events import Joined, Judged, Queued, Recorded, Source, Stored
from kappasharp.journal.question import Comparison, Pair, StudyQuestion
from kappasharp.questions import kind
from kappasharp.questions.kind import ONE_PAIR, PAIR, SKIP, Answer, Form, Kind
from kappasharp.space.outcomes import StudyOutcome
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design, Open, Space


class Change(NamedTuple):
    """Who opened how much of which parameter."""

    voter: str
    name: str
    ends: Open


@dataclass
class Changes:
    """Changes of a space that count, by the numbers of their events: the last of each parameter says what is open.

    `widened_at` is the last that made the cube larger.
    """

    made: dict[int, Change] = field(default_factory=dict)
    widened_at: int = 0
    _first: Space | None = None
    _now: Space | None = None
    # Before each change the space and `widened_at`; and the numbers of all changes, taken back or not.
    _before: dict[int, tuple[Space, int]] = field(default_factory=dict)
    _events: set[int] = field(default_factory=set)

    def changed(self, now: Space, number: int, made: Change) -> Space:
        """The space after one more change."""
        self._first = self._first or now
        self._before[number] = now, self.widened_at
        self._now = now.grown(made.name, *made.ends)
        self.widened_at = self.widened_at if self._now is now else number
        self.made[number] = made
        self._events.add(number)
        return self._opened()

    def undone(self, number: int, at: int) -> Space:
        """The space without a change, taken back by the event `at`.

        Where nothing but changes came in between the cube is what it was before; else it stays as it is, for somebody
        may have been asked about what the change had opened.
        """
        del self.made[number]
        since = range(number + 1, at)
        if self._events.issuperset(since) and not self.made.keys() & set(since):
            self._now, self.widened_at = self._before[number]
        self._events.add(at)
        return self._opened()

    def _opened(self) -> Space:
        assert self._now is not None and self._first is not None
        self._now = self._now.opened(self._first, {one.name: one.ends for one in self.made.values()})
        return self._now


@dataclass(frozen=True)
class Known:
    """What is known of one design's outcomes: every repetition of it, or why there are none. `event` came last."""

    design: Design
    event: int
    source: Source
    runs: tuple[dict[str, float], ...] = ()
    failure: str | None = None

    def after(self, event: Recorded) -> tuple[dict[str, float], ...]:
        """Every repetition with one more record: the last one of each outcome counts, or all of them as repetitions.

        What was computed is no repetition, and gives way as a whole.
        """
        fresh = event.outcomes or {}
        kept = self.runs if event.source == self.source == "measured" and (fresh or event.repeat) else ()
        if not event.repeat:
            kept = tuple({name: value for name, value in run.items() if name not in fresh} for run in kept)
        return tuple(run for run in (*kept, fresh) if run)

    @property
    def values(self) -> dict[str, float]:
        """The mean of each outcome over the repetitions that have it."""
        return {name: fmean(found) for name, found in self._by_name().items()}

    @property
    def spread(self) -> dict[str, float]:
        """The deviation of each outcome that was measured more than once."""
        return {name: stdev(found) for name, found in self._by_name().items() if len(found) > 1}

    def _by_name(self) -> dict[str, list[float]]:
        names = dict.fromkeys(name for run in self.runs for name in run)
        return {name: [run[name] for run in self.runs if name in run] for name in names}


# Voters that are programs: who they are, and what each of them said of which designs, so that none is paid twice.


@dataclass
class Programs:
    """`about` has every voter that is a program, with the line that says which; the rest are people."""

    about: dict[str, str] = field(default_factory=dict)
    said: dict[str, Judged] = field(default_factory=dict)

    def join(self, stored: Stored, event: Joined) -> None:
        """Take in that a voter is a program."""
        self.about[stored.voter] = event.about

    def judge(self, stored: Stored, event: Judged) -> None:
        """Take in what a program said."""
        self.said[_key(stored.voter, event.form, event.designs)] = event

    def verdict(self, voter: str, form: Form, designs: Sequence[Design]) -> Judged | None:
        """What a program said of these designs in this order; None where it was not asked."""
        return self.said.get(_key(voter, form, designs))

    def may_take(self, voter: str | None, queue: Mapping[int, Queued]) -> Mapping[int, Queued]:
        """What of the queue a voter may be asked: of a program nothing that is for people, nor a question again."""
        if voter not in self.about:
            return queue
        return {number: one for number, one in queue.items() if not one.people and one.again is None}


@dataclass
class History:
    """What the events add up to, up to `number`."""

    study: str
    number: int = 0
    # The last event that was more than a question put to somebody.
    moved_at: int = 0
    options: list[Design] = field(default_factory=list)
    comparisons: dict[int, Comparison] = field(default_factory=dict)
    # Answers that were taken out, and may be put back.
    removed: dict[int, Comparison] = field(default_factory=dict)
    asked: dict[int, tuple[StudyQuestion, events.Asked]] = field(default_factory=dict)
    asked_at: dict[int, str] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)
    # Questions that a change of a parameter withdrew, and those that gave way to another.
    shut: set[int] = field(default_factory=set)
    withdrawn: set[int] = field(default_factory=set)
    queue: dict[int, events.Queued] = field(default_factory=dict)
    # What was taken from the queue, by its place there.
    taken: dict[int, events.Queued] = field(default_factory=dict)
    # How many of the next questions are to settle it, and of what form they are.
    settling: int = 0
    settled_by: Form = ONE_PAIR
    settled_at: int = 0
    known: dict[tuple[tuple[str, Value], ...], Known] = field(default_factory=dict)
    # The last event about outcomes, and the last about measured ones.
    recorded_at: int = 0
    measured_at: int = 0
    # What is open now, in the cube of all that ever was; needed where there are sliders or changes of parameters.
    space: Space | None = None
    # The study's outcomes that have limits.
    limited: tuple[StudyOutcome, ...] = ()
    changes: Changes = field(default_factory=Changes)
    remarks: dict[tuple[tuple[str, Value], ...], dict[str, str]] = field(default_factory=dict)
    programs: Programs = field(default_factory=Programs)
    # Who is not in it counts 1.
    weights: dict[str, float] = field(default_factory=dict)
    # What was given up when an older copy was put back.
    restored: list[events.Restored] = field(default_factory=list)
    _index: dict[tuple[tuple[str, Value], ...], int] = field(default_factory=dict)
    # The last answer to each question, whether or not it still counts.
    _answered: dict[int, int] = field(default_factory=dict)

    def extend(self, happened: Iterable[events.Stored]) -> None:
        """Take in more events; a CorruptedError names one that speaks of what never happened."""
        for stored in happened:
            try:
                self.apply(stored)
            except KeyError as error:
                raise CorruptedError(
                    f"Event {stored.number} does not follow from those before it: it speaks of event {error}, which is "
                    f"none of its kind. `through={stored.number - 1}` opens the study as it was before."
                ) from error

    def apply(self, stored: events.Stored) -> None:
        """Take in one more event."""
        takes: dict[type, Callable[[events.Stored, Any], None]] = {
            events.Asked: self._ask, events.Answered: self._answer, events.Added: self._add, events.Undone: self._undo,
            events.Queued: lambda at, event: self.queue.update({at.number: event}), events.Amended: self._amend,
            events.Settling: self._settle, events.Recorded: self._record,
            events.Bounded: self._bound, events.Remarked: self._remark, events.Joined: self.programs.join,
            events.Judged: self.programs.judge, events.Weighed: self._weigh,
            events.Restored: lambda _, event: self.restored.append(event),
        }  # fmt: skip
        takes[type(stored.event)](stored, stored.event)
        self.number = stored.number
        self.moved_at = self.moved_at if isinstance(stored.event, events.Asked) else stored.number

    def after(self, stored: events.Stored) -> "History":
        """The history as it would be with one more event; this one stays as it is."""
        other = self.copied()
        other.apply(stored)
        return other

    def copied(self) -> "History":
        """The same history apart from this one: what happens to either does not happen to the other."""
        found: History = _with_own_containers(self)
        return found

    def option(self, design: Mapping[str, Value]) -> int | None:
        """The number of a design that was seen."""
        return self._index.get(design_key(design))

    def outcomes(self, design: Mapping[str, Value]) -> Known | None:
        """What is known of a design's outcomes, whether or not it was seen."""
        return self.known.get(design_key(design))

    def outcomes_since(self, of_any_source: bool) -> int:
        """The number of the last event about outcomes: of any source, or about measured ones alone."""
        return self.recorded_at if of_any_source else self.measured_at

    def open_pair(self, voter: str) -> StudyQuestion | None:
        """The question that waits for this voter's answer."""
        number = self.open.get(voter)
        return None if number is None else self.asked[number][0]

    def counted(self) -> list[Comparison]:
        """The answers that enter the model, in order: all but skips."""
        return [one for one in self.comparisons.values() if one.answer != SKIP]

    def met(self) -> set[frozenset[int]]:
        """Sets of options that were put before somebody together: answered, skipped, or open; and compared pairs."""
        sets = {frozenset(one.options) for one in self.comparisons.values()}
        several = (one for one in self.comparisons.values() if len(one.options) > PAIR)
        sets |= {frozenset((said.better, said.other)) for one in several for said in one.judgements}
        return sets | {frozenset(self.numbers(self.asked[number][0])) for number in self.open.values()}

    def numbers(self, question: StudyQuestion) -> tuple[int, ...]:
        """The options' numbers of a question that was asked; none of a slider, whose designs are no options."""
        if question.kind == Kind.SLIDER.value:
            return ()
        return tuple(self._index[design_key(design)] for design in question.designs)

    def form_of(self, comparison: int) -> Form:
        """What kind of question an answer that counts is about, and of how many designs."""
        pair = (self.comparisons.get(comparison) or self.removed[comparison]).pair
        return kind.ONE_PAIR if pair is None else self.asked[pair][0].form

    def may_amend(self, comparison: int, answer: Answer | None) -> bool:
        """Whether an answer can be changed to this: one that counts, or one that was taken out and is put back."""
        return comparison in self.comparisons or (answer is not None and comparison in self.removed)

    def answer_numbers(self) -> dict[int, int]:
        """Answers counted from 1 on, by the numbers of their events; one that was taken out keeps its own."""
        return {event: i + 1 for i, event in enumerate(sorted(self.comparisons.keys() | self.removed.keys()))}

    def answers_to(self, pair: int) -> list[Comparison]:
        """What counts as the answer to that question: one or none."""
        event = self._answered.get(pair)
        return [self.comparisons[event]] if event in self.comparisons else []

    def last_of(self, voter: str) -> int | None:
        """The number of this voter's last answer, comparison or change of a parameter that still counts."""
        own = [number for number, one in self.comparisons.items() if one.voter == voter]
        own += [number for number, one in self.changes.made.items() if one.voter == voter]
        return max(own, default=None)

    def is_answer(self, number: int | None) -> bool:
        """Whether this is an answer to a question, and neither a comparison from elsewhere nor a change."""
        return number in self.comparisons and self.comparisons[number].pair is not None

    def said_of(self, design: Mapping[str, Value]) -> dict[str, str]:
        """What each voter has to say of a design."""
        return dict(self.remarks.get(design_key(design), {}))

    def memo(self, n_answers: int) -> dict[str, Any] | None:
        """What the model noted when it last chose a pair from fewer answers than these.

        Not from as many: two voters may ask between two answers, and a step must begin where the last one ended.
        """
        notes = (event.memo for _, event in reversed(self.asked.values()) if event.memo is not None)
        return next((memo for memo in notes if (fit_note.noted_after(memo) or 0) < n_answers), None)

    def is_of_another_cube(self, memo: dict[str, Any] | None) -> bool:
        """Whether a model noted this before the space was last widened: its points and scales mean something else."""
        when = (number for number, (_, event) in self.asked.items() if event.memo is memo)
        return memo is not None and next(when, self.number) < self.changes.widened_at

    def _note(self, design: Design) -> int:
        number = self._index.setdefault(design_key(design), len(self.options))
        if number == len(self.options):
            self.options.append(design)
        return number

    def _ask(self, stored: events.Stored, event: events.Asked) -> None:
        made = Pair if event.form.is_pair else StudyQuestion
        question = made(
            self.study, stored.number, stored.voter, event.a, event.b, event.origin, event.question, tuple(event.more),
            self.space,
        )  # fmt: skip
        if event.form.kind is not Kind.SLIDER:
            for design in event.designs:
                self._note(design)
        self.asked[stored.number] = (question, event)
        self.asked_at[stored.number] = stored.time
        # One of another kind that this voter had not answered is withdrawn.
        self._put(stored.voter, stored.number)
        if event.origin == "settle":
            self.settling = max(self.settling - 1, 0)
        if event.origin in ("queue", "again") and event.after in self.queue:
            self.taken[event.after] = self.queue.pop(event.after)

    def _put(self, voter: str, number: int) -> None:
        """Open a question for a voter; another that was open gives way, and what it was asked for goes on waiting."""
        before = self.open.get(voter)
        self.open[voter] = number
        self.withdrawn.discard(number)
        self.shut.discard(number)
        if before is None or before == number:
            return
        self.withdrawn.add(before)
        event = self.asked[before][1]
        if event.origin in ("queue", "again") and event.after in self.taken:
            self.queue = dict(sorted((self.queue | {event.after: self.taken.pop(event.after)}).items()))
        if event.origin == "settle" and before > self.settled_at:
            self.settling += 1

    def _settle(self, stored: events.Stored, event: events.Settling) -> None:
        self.settling, self.settled_by, self.settled_at = event.duels, kind.parse(event.question), stored.number

    def _answer(self, stored: events.Stored, event: events.Answered) -> None:
        question, asked = self.asked[event.pair]
        self.comparisons[stored.number] = Comparison(
            stored.number, stored.voter, stored.time, self._about(question, event.answer), event.answer, event.pair,
            event.seconds, kind=asked.question, asked_at=self.asked_at[event.pair],
            program=stored.voter in self.programs.about, through=asked.form.designs,
        )  # fmt: skip
        self._answered[event.pair] = stored.number
        self.open.pop(stored.voter, None)
        self.shut.discard(event.pair)

    def _about(self, question: StudyQuestion, answer: Answer) -> tuple[int, ...]:
        """The options that an answer speaks of: the question's, or the one where a slider was left."""
        if question.kind != Kind.SLIDER.value or answer == SKIP:
            return self.numbers(question)
        return (self._note(question.at(answer)),)  # type: ignore[arg-type]

    def _add(self, stored: events.Stored, event: events.Added) -> None:
        options = (self._note(event.winner), self._note(event.loser))
        self.comparisons[stored.number] = Comparison(
            stored.number,
            stored.voter,
            stored.time,
            options,
            "tie" if event.tie else "a",
            None,
            None,
            program=stored.voter in self.programs.about,
        )

    def _undo(self, stored: events.Stored, event: events.Undone) -> None:
        if event.event in self.changes.made:
            self._open(self.changes.undone(event.event, stored.number))
            return
        gone = self.comparisons.pop(event.event)
        if gone.pair is not None:
            # A pair that this voter was shown since then is withdrawn.
            self._put(gone.voter, gone.pair)
            # Somebody may have changed a parameter since; but what people wished to ask may be about anything.
            if self.space is not None and not self._was_wished(gone.pair) and self._is_closed(gone.pair, self.space):
                self._shut(gone.voter)

    def _amend(self, _: events.Stored, event: events.Amended) -> None:
        if event.answer is None:
            self.removed[event.event] = self.comparisons.pop(event.event)
            return
        if event.event not in self.comparisons:
            # Back to its place: the order of the answers is that of their events.
            put_back = {event.event: self.removed.pop(event.event)}
            self.comparisons = dict(sorted((self.comparisons | put_back).items()))
        one = self.comparisons[event.event]
        original = one.answer if one.original is None else one.original
        options = one.options if one.pair is None else self._about(self.asked[one.pair][0], event.answer)
        self.comparisons[event.event] = replace(
            one, answer=event.answer, amended=event.answer != original, original=original, options=options
        )

    def _bound(self, stored: events.Stored, event: events.Bounded) -> None:
        assert self.space is not None
        made = Change(stored.voter, event.name, (event.low, event.high, event.choices))
        self._open(self.changes.changed(self.space, stored.number, made))

    def _open(self, space: Space) -> None:
        """Go on in that space; open questions that would not be asked in it are withdrawn."""
        self.space = space
        for voter, number in list(self.open.items()):
            if self._is_unfit(number, space):
                self._shut(voter)

    def _shut(self, voter: str) -> None:
        """Withdraw a voter's open question for good; a settling one is put again with other designs."""
        number = self.open.pop(voter)
        self.shut.add(number)
        if self.asked[number][1].origin == "settle" and number > self.settled_at:
            self.settling += 1

    def _is_closed(self, number: int, space: Space) -> bool:
        """Whether a question is about what is not open."""
        return any(space.outside(design) for design in self.asked[number][0].designs)

    def _is_unfit(self, number: int, space: Space) -> bool:
        """Whether a question is about what is not open, or known to break a limit.

        Limits that no open design keeps are left aside, and where more is open they may hold again. Whether they do is
        not for a history to compute: at worst the question gives way to another that breaks them too.
        """
        if self._is_closed(number, space):
            return True
        designs = self.asked[number][0].designs
        return not self._was_wished(number) and any(self._breaks_a_limit(design) for design in designs)

    def _was_wished(self, number: int) -> bool:
        return self.asked[number][1].origin in ("queue", "again")

    def _breaks_a_limit(self, design: Design) -> bool:
        known = self.outcomes(design) if self.limited else None
        values = {} if known is None else known.values
        return any(one.violation(values[one.name]) > 0.0 for one in self.limited if one.name in values)

    def _remark(self, stored: events.Stored, event: events.Remarked) -> None:
        key = design_key(event.design)
        others = {voter: text for voter, text in self.remarks.get(key, {}).items() if voter != stored.voter}
        self.remarks[key] = others if event.text is None else others | {stored.voter: event.text}

    def _weigh(self, _: events.Stored, event: events.Weighed) -> None:
        self.weights = dict(event.weights)

    def _record(self, stored: events.Stored, event: events.Recorded) -> None:
        key = design_key(event.design)
        self.recorded_at = stored.number
        self.measured_at = stored.number if event.source == "measured" else self.measured_at
        if event.outcomes is None and event.failure is None:
            self.known.pop(key, None)
            return
        before = self.known.get(key, Known(event.design, stored.number, event.source))
        self.known[key] = Known(event.design, stored.number, event.source, before.after(event), event.failure)


def _with_own_containers(one: Any) -> Any:
    """The same with lists, sets and dictionaries of its own; what is in them is replaced, never changed."""
    own: dict[str, Any] = {}
    for name in (each.name for each in fields(one)):
        part = getattr(one, name)
        if isinstance(part, Changes | Programs):
            own[name] = _with_own_containers(part)
        elif isinstance(part, list | dict | set):
            own[name] = copy(part)
    return replace(one, **own)


def design_key(design: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """What tells designs apart."""
    found = tuple(design.items())
    if bool not in map(type, design.values()):
        return found
    # 1, 1.0 and True are one key to Python; a design of a study has one type for each parameter, but choices may mix.
    return tuple((f"{name}:bool" if isinstance(value, bool) else name, value) for name, value in found)


def _key(voter: str, form: Form, designs: Sequence[Design]) -> str:
    return json.dumps([voter, form.kind.value, designs], sort_keys=True)
