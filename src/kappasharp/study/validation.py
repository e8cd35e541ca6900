"""Events from elsewhere: each is taken only if a study could have stored it after those before."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

from kappasharp.errors import CorruptedError, KappaSharpError, named
from kappasharp.study import events
from kappasharp.study.definition import Definition
from kappasharp.study.events import Added, Amended, Answered, Asked, Event, Origin, Queued, Settling, Stored, Undone
from kappasharp.study.history import History, design_key
from kappasharp.study.parameters import finite
from kappasharp.study.space import Design

ORIGINS: tuple[str, ...] = get_args(Origin)
LONGEST_TIME = 40
# A hyperparameter is a logarithm: beyond this, no scale that a number can hold.
LARGEST_THETA = 100.0
# What a model notes of a pair, beside its vectors: `_memo` in questions.py.
WHOLE = ("answers", "step", "components")
NUMBERS = ("decisiveness", "strength", "condition_before", "condition_after", "evidence", "acquisition", "threshold")
MEMO = {*WHOLE, *NUMBERS, "mean_decisiveness", "active", "status", "first", "theta", "hints"}
LATER_MEMO = {"searched_on"}


class _Impossible(ValueError):
    """What no study could have stored."""


def happened(rows: Any, definition: Definition) -> list[Stored]:
    """The events of plain rows, in order; a CorruptedError names the first that could not have happened."""
    _require(isinstance(rows, list), "`events` must be a list")
    history, found = History(""), []
    for number, row in enumerate(rows, 1):
        try:
            stored = _stored(row, number, definition, history)
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
    voter = events.voter(row["voter"])
    kind = named("kind of event", row["kind"], dict.fromkeys(events.KINDS, row["kind"]))
    _require(isinstance(row["body"], Mapping), f"`body` must be a table, but got {row['body']!r}")
    return Stored(number, voter, time, _event(events.read(kind, row["body"]), voter, definition, history))


def _event(event: Event, voter: str, definition: Definition, history: History) -> Event:
    """The event as a study stores it."""
    match event:
        case Asked():
            return _asked(event, voter, definition, history)
        case Answered():
            _require(_whole(event.pair), f"`pair` must be a whole number, but got {event.pair!r}")
            _require(history.open.get(voter) == event.pair, f"pair {event.pair} was not open for {voter!r}")
            return replace(event, answer=events.answer(event.answer), seconds=events.seconds(event.seconds))
        case Added():
            _require(isinstance(event.tie, bool), f"`tie` must be true or false, but got {event.tie!r}")
            winner, loser = _designs(event.winner, event.loser, definition)
            return replace(event, winner=winner, loser=loser)
        case Queued():
            return _queued(event, definition, history)
        case Settling():
            events.duels(event.duels)
        case Undone():
            last = history.last_of(voter)
            _require(_whole(event.event) and event.event == last, f"the last answer of {voter!r} was {last}")
        case Amended():
            known = _whole(event.event) and event.event in history.comparisons
            _require(known, f"there is no answer {event.event!r} to amend")
            return replace(event, answer=None if event.answer is None else events.answer(event.answer))
    return event


def _asked(event: Asked, voter: str, definition: Definition, history: History) -> Asked:
    a, b = _designs(event.a, event.b, definition)
    named("origin", event.origin, dict.fromkeys(ORIGINS))
    after = event.after
    _require(_whole(after) and 0 <= after <= history.number, f"`after` must be an event before it, but got {after!r}")
    _require(voter not in history.open, f"{voter!r} had not answered pair {history.open.get(voter)} yet")
    _require(
        (event.memo is not None) == (event.origin in ("model", "settle")),
        "what the model chose has a memo, nothing else",
    )
    if event.origin in ("queue", "again"):
        waiting = history.queue.get(after)
        _require(waiting is not None and (waiting.a, waiting.b) == (a, b), f"no such pair waited as event {after}")
        assert waiting is not None
        _require((waiting.again is None) == (event.origin == "queue"), f"its origin is not {event.origin!r}")
    if event.memo is not None:
        _check_memo(event.memo, definition.space.dimensions, len(history.counted()))
    return replace(event, a=a, b=b)


def _queued(event: Queued, definition: Definition, history: History) -> Queued:
    a, b = _designs(event.a, event.b, definition)
    if event.again is not None:
        _require(_whole(event.again) and event.again in history.asked, f"there is no pair {event.again!r} to repeat")
        pair = history.asked[event.again][0]
        _require((pair.a, pair.b) == (a, b), f"it does not repeat pair {event.again}")
    return replace(event, a=a, b=b)


def _designs(one: Any, other: Any, definition: Definition) -> tuple[Design, Design]:
    first, second = definition.space.check(one), definition.space.check(other)
    complete = first.keys() == one.keys() and second.keys() == other.keys()
    _require(complete, "a design must name every parameter")
    _require(design_key(first) != design_key(second), f"a pair must be two designs, but got {first} twice")
    return first, second


def memo_trouble(memo: Any, dimensions: int) -> str | None:
    """Why no fit could start from what a model noted; None where one could."""
    try:
        _require(isinstance(memo, Mapping), f"`memo` must be a table, but got {memo!r}")
        _check_start(memo, dimensions)
    except KeyError as error:
        return f"`memo` lacks {error.args[0]!r}"
    except (KappaSharpError, TypeError, ValueError, OverflowError) as error:
        return str(error).removesuffix(".")
    return None


def _check_memo(memo: Any, dimensions: int, counted: int) -> None:
    """What the model noted must be what the next fit can start from."""
    _require(isinstance(memo, Mapping), f"`memo` must be a table, but got {memo!r}")
    missing, unknown = MEMO - memo.keys(), memo.keys() - MEMO - LATER_MEMO
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
    _require(memo["first"] in ("a", "b"), f"`memo.first` must be 'a' or 'b', but got {memo['first']!r}")
    _check_start(memo, dimensions)


def _check_start(memo: Mapping[str, Any], dimensions: int) -> None:
    """The part of it that the next fit does start from."""
    finite(memo["mean_decisiveness"], "`memo.mean_decisiveness`")
    _check_vector("theta", memo["theta"], dimensions + 1, LARGEST_THETA)
    _require(isinstance(memo["hints"], list) and len(memo["hints"]) > 0, "`memo.hints` must be a list of points")
    for point in memo["hints"]:
        _check_vector("hints", point, dimensions, 1.0)


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
