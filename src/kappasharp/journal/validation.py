"""Events from elsewhere: each is taken only if a study could have stored it after those before."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Any, TypeVar, get_args

from kappasharp.arguments import finite
from kappasharp.errors import CorruptedError, KappaSharpError, named
from kappasharp.journal import changes, events, voters
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import (
    LONGEST_FAILURE,
    Added,
    Amended,
    Answered,
    Asked,
    Bounded,
    Event,
    Joined,
    Judged,
    Origin,
    Queued,
    Recorded,
    Remarked,
    Restored,
    Settling,
    Source,
    Stored,
    Undone,
    Weighed,
)
from kappasharp.journal.history import History, design_key
from kappasharp.questions import kind
from kappasharp.questions.kind import Kind
from kappasharp.space.space import Design

ORIGINS: tuple[str, ...] = get_args(Origin)
SOURCES: tuple[str, ...] = get_args(Source)
LONGEST_TIME, LONGEST_DIGEST = 40, 64
# A hyperparameter is a logarithm: beyond this, no scale that a number can hold.
LARGEST_THETA = 100.0
# What a model notes of a pair, beside its vectors: `_memo` in planning/next_question.py.
WHOLE = ("answers", "step", "components")
NUMBERS = ("decisiveness", "strength", "condition_before", "condition_after", "evidence", "acquisition", "threshold")
MEMO = {*WHOLE, *NUMBERS, "mean_decisiveness", "active", "status", "first", "theta", "hints"}
LATER_MEMO = {"searched_on"}
# Which of two designs the model had put first: of a pair and a rating.
SIDED = (Kind.PAIR, Kind.RATING)

About = TypeVar("About", Asked, Queued, Judged)


class _Impossible(ValueError):
    """What no study could have stored."""


def happened(rows: Any, definition: Definition, check_change: Callable[[Definition], None]) -> list[Stored]:
    """The events of plain rows, in order; a CorruptedError names the first that could not have happened.

    Args:
        rows: a table for each event.
        definition: the study's.
        check_change: raises where a change of a parameter leaves no designs that keep the limits.
    """
    _require(isinstance(rows, list), "`events` must be a list")
    history, found = History("", space=definition.space, limited=definition.limited), []
    for number, row in enumerate(rows, 1):
        try:
            assert history.space is not None
            # What is open now says where questions were searched, not what they may have been about.
            whole = definition if history.space is definition.space else replace(definition, space=history.space.whole)
            stored = _stored(row, number, whole, history)
            if isinstance(stored.event, Bounded) and definition.limits:
                check_change(changes.after(replace(definition, space=history.space), stored.event))
            history.apply(stored)
        except (KappaSharpError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            why = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise CorruptedError(f"event {number} could not have happened: {why}") from error
        found.append(stored)
    return found


def _stored(row: Any, number: int, definition: Definition, history: History) -> Stored:
    _require(isinstance(row, Mapping), f"it must be a table, but got {row!r}")
    _require(_whole(row["number"]) and row["number"] == number, "events must be numbered from 1 without a gap")
    time = row["time"]
    _require(isinstance(time, str) and len(time) <= LONGEST_TIME, f"`time` must be a short text, but got {time!r}")
    _require(datetime.fromisoformat(time).tzinfo is not None, f"`time` must have a time zone, but got {time!r}")
    # As it is: names once had spaces around them.
    voter = events.named_text("voter", row["voter"], events.LONGEST_VOTER)
    kind = named("kind of event", row["kind"], dict.fromkeys(events.KINDS, row["kind"]))
    _require(isinstance(row["body"], Mapping), f"`body` must be a table, but got {row['body']!r}")
    return Stored(number, voter, time, _event(events.read(kind, row["body"]), voter, definition, history))


def _event(event: Event, voter: str, definition: Definition, history: History) -> Event:
    """The event as a study stores it."""
    match event:
        case Asked():
            return _asked(event, voter, definition, history)
        case Answered():
            return _answered(event, voter, history)
        case Added():
            _require(isinstance(event.tie, bool), f"`tie` must be true or false, but got {event.tie!r}")
            winner, loser = _designs([event.winner, event.loser], definition)
            return replace(event, winner=winner, loser=loser)
        case Queued():
            return _queued(event, definition, history)
        case Recorded() | Bounded() | Remarked() | Joined() | Judged() | Weighed() | Restored():
            return _beside(event, voter, definition, history)
        case _:
            return _plain(event, voter, history)


def _restored(event: Restored, history: History) -> Event:
    """That an older copy was put back: of no more events than there are before it."""
    _require(_whole(event.had) and _whole(event.left), "`had` and `left` must be whole numbers of events")
    _require(event.left == history.number, f"`left` must be the {history.number} events before it")
    for text in (event.head, event.noticed or ""):
        _require(isinstance(text, str) and len(text) <= LONGEST_DIGEST, "its texts must be a digest and a time")
    return event


def _beside(
    event: Recorded | Bounded | Remarked | Joined | Judged | Weighed | Restored,
    voter: str,
    definition: Definition,
    history: History,
) -> Event:
    """An event that is no answer and opens no question."""
    if isinstance(event, Weighed | Restored):
        return voters.weighed(history, event.weights) if isinstance(event, Weighed) else _restored(event, history)
    if isinstance(event, Joined | Judged):
        return _of_program(event, voter, definition, history)
    if isinstance(event, Recorded):
        return _recorded(event, definition)
    if isinstance(event, Bounded):
        return changes.checked(event, definition, history)
    (design,) = _designs([event.design], definition)
    return replace(event, design=design, text=None if event.text is None else events.note(event.text))


def _of_program(event: Joined | Judged, voter: str, definition: Definition, history: History) -> Event:
    """An event of a voter that is a program."""
    if isinstance(event, Joined):
        person = any(one.voter == voter and not one.program for one in history.comparisons.values())
        _require(not person, f"{voter!r} is a person")
        return replace(event, about=events.named_text("about", event.about, events.LONGEST_NOTE))
    _require(voter in history.programs.about, f"{voter!r} is no program")
    event = _about(event, definition)
    answer, confidence = kind.answer(event.form, event.answer), events.confidence(event.confidence)
    return replace(event, answer=answer, confidence=confidence, seconds=events.seconds(event.seconds))


def _answered(event: Answered, voter: str, history: History) -> Answered:
    _require(_whole(event.pair), f"`pair` must be a whole number, but got {event.pair!r}")
    # Once a question that a change of a parameter had overtaken could be opened again, and answered.
    overtaken = event.pair in history.shut and history.asked[event.pair][0].voter == voter and voter not in history.open
    is_open = history.open.get(voter) == event.pair
    _require(is_open or overtaken, f"pair {event.pair} was not open for {voter!r}")
    form = history.asked[event.pair][0].form
    return replace(event, answer=kind.answer(form, event.answer), seconds=events.seconds(event.seconds))


def _plain(event: Settling | Undone | Amended, voter: str, history: History) -> Event:
    """An event without a design."""
    if isinstance(event, Settling):
        events.duels(event.duels)
        events.settled_by(event.question)
        return event
    if isinstance(event, Undone):
        last = history.last_of(voter)
        _require(_whole(event.event) and event.event == last, f"the last answer of {voter!r} was {last}")
        return event
    known = _whole(event.event) and history.may_amend(event.event, event.answer)
    _require(known, f"there is no answer {event.event!r} to amend")
    new = event.answer
    return replace(event, answer=None if new is None else kind.answer(history.form_of(event.event), new))


def _recorded(event: Recorded, definition: Definition) -> Recorded:
    outcomes = definition.outcomes
    _require(outcomes is not None, "the study has no outcomes")
    assert outcomes is not None
    named("source of outcomes", event.source, dict.fromkeys(SOURCES))
    _require(isinstance(event.repeat, bool), f"`repeat` must be true or false, but got {event.repeat!r}")
    computed = event.source == "simulated"
    _require(not computed or outcomes.is_computed, "the outcomes of this study are measured")
    if event.failure is not None:
        events.named_text("failure", event.failure, LONGEST_FAILURE)
        _require(computed and event.outcomes is None and not event.repeat, "a failure is a computation's, alone")
    _require(not (event.repeat and (computed or event.outcomes is None)), "only a measurement is repeated")
    _require(not computed or event.failure is not None or event.outcomes is not None, "a computation has a result")
    (design,) = _designs([event.design], definition)
    values = None if event.outcomes is None else outcomes.check(event.outcomes, complete=computed)
    return replace(event, design=design, outcomes=values)


def _asked(event: Asked, voter: str, definition: Definition, history: History) -> Asked:
    event = _about(event, definition)
    named("origin", event.origin, dict.fromkeys(ORIGINS))
    after = event.after
    _require(_whole(after) and 0 <= after <= history.number, f"`after` must be an event before it, but got {after!r}")
    waiting = history.open_pair(voter)
    replaced = waiting is None or waiting.form != event.form
    _require(replaced, f"{voter!r} had not answered pair {history.open.get(voter)} yet")
    _require(
        (event.memo is not None) == (event.origin in ("model", "settle")),
        "what the model chose has a memo, nothing else",
    )
    settles = event.origin != "settle" or event.form.kind in events.SETTLING
    _require(settles, "what settles is a pair, a choice or an order")
    if event.origin in ("queue", "again"):
        queued = history.queue.get(after)
        same = queued is not None and (queued.form, queued.designs) == (event.form, event.designs)
        _require(same, f"no such pair waited as event {after}")
        assert queued is not None
        _require((queued.again is None) == (event.origin == "queue"), f"its origin is not {event.origin!r}")
    if event.memo is not None:
        _check_memo(event.memo, definition, len(history.counted()), sided=event.form.kind in SIDED)
    return event


def _queued(event: Queued, definition: Definition, history: History) -> Queued:
    event = _about(event, definition)
    _require(isinstance(event.people, bool), f"`people` must be true or false, but got {event.people!r}")
    if event.again is None:
        return event
    _require(_whole(event.again) and event.again in history.asked, f"there is no pair {event.again!r} to repeat")
    again = history.asked[event.again][0]
    same = (again.form, again.designs) == (event.form, event.designs)
    _require(same, f"it does not repeat pair {event.again}")
    return event


def _about(event: About, definition: Definition) -> About:
    """The event with its designs as a study stores them: as many as its kind shows, and such as a study asks about."""
    _require(isinstance(event.more, list), f"`more` must be a list, but got {event.more!r}")
    _require(isinstance(event.question, str), f"`question` must be a text, but got {event.question!r}")
    form = definition.asking(kind.parse(event.question, len(event.designs)))
    _require(event.question == form.kind.value, f"`question` must be a kind alone, but got {event.question!r}")
    a, b, *more = _designs(event.designs, definition)
    return replace(event, a=a, b=b, more=more)


def _designs(given: list[Any], definition: Definition) -> list[Design]:
    found = [definition.space.check(one) for one in given]
    complete = all(one.keys() == other.keys() for one, other in zip(found, given, strict=True))
    _require(complete, "a design must name every parameter")
    for one, other in combinations(found, 2):
        _require(design_key(one) != design_key(other), f"a pair must be two designs, but got {one} twice")
    return found


def memo_trouble(memo: Any, definition: Definition) -> str | None:
    """Why no fit could start from what a model noted; None where one could."""
    try:
        _require(isinstance(memo, Mapping), f"`memo` must be a table, but got {memo!r}")
        _check_start(memo, definition)
    except KeyError as error:
        return f"`memo` lacks {error.args[0]!r}"
    except (KappaSharpError, TypeError, ValueError, OverflowError) as error:
        return str(error).removesuffix(".")
    return None


def _check_memo(memo: Any, definition: Definition, counted: int, *, sided: bool) -> None:
    """What the model noted must be what the next fit can start from."""
    _require(isinstance(memo, Mapping), f"`memo` must be a table, but got {memo!r}")
    wanted = MEMO if sided else MEMO - {"first"}
    missing, unknown = wanted - memo.keys(), memo.keys() - wanted - LATER_MEMO
    _require(not missing and not unknown, f"`memo` lacks {sorted(missing)} and has {sorted(unknown)}")
    for name in (*WHOLE, *(LATER_MEMO & memo.keys())):
        _require(
            _whole(memo[name]) and memo[name] >= 0, f"`memo.{name}` must be a whole number, but got {memo[name]!r}"
        )
    _require(memo["answers"] <= counted, f"`memo.answers` must not pass the {counted} answers there were")
    for name in NUMBERS:
        if memo[name] is not None:
            finite(memo[name], f"`memo.{name}`")
    _require(isinstance(memo["active"], bool), f"`memo.active` must be true or false, but got {memo['active']!r}")
    events.named_text("memo.status", memo["status"])
    first = memo.get("first", "a")
    _require(first in ("a", "b"), f"`memo.first` must be 'a' or 'b', but got {first!r}")
    _check_start(memo, definition)


def _check_start(memo: Mapping[str, Any], definition: Definition) -> None:
    """The part of it that the next fit does start from."""
    dimensions = definition.space.dimensions
    finite(memo["mean_decisiveness"], "`memo.mean_decisiveness`")
    lengths = theta_lengths(definition)
    of_outcomes = isinstance(memo["theta"], list) and len(memo["theta"]) == lengths[-1]
    _check_vector("theta", memo["theta"], lengths[-1] if of_outcomes else lengths[0], LARGEST_THETA)
    _require(isinstance(memo["hints"], list) and len(memo["hints"]) > 0, "`memo.hints` must be a list of points")
    for point in memo["hints"]:
        _check_vector("hints", point, dimensions, 1.0)


def theta_lengths(definition: Definition) -> tuple[int, ...]:
    """How many hyperparameters a model may have: of one on parameters alone and, with outcomes, of one on both."""
    alone = definition.space.dimensions + 1
    outcomes = definition.outcomes
    # Length scales of both, and an output scale each.
    return (alone,) if outcomes is None else (alone, alone + len(outcomes.table) + 1)


def _check_vector(name: str, vector: Any, length: int, largest: float) -> None:
    right = isinstance(vector, list) and len(vector) == length
    _require(right, f"`memo.{name}` must have {length} numbers")
    inside = all(abs(finite(number, f"`memo.{name}`")) <= largest for number in vector)
    _require(inside, f"`memo.{name}` must not pass {largest:g}")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise _Impossible(rule)
