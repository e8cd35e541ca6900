"""One design through the user's function: numbers, or a sentence of one line about why there are none.

Whatever the function raises is such a sentence, and what it prints goes to stderr: stdout is for data.
"""

import importlib
import math
import os
import pickle
import select
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.processes import stdout_apart
from kappasharp.space.outcomes import Ran, Values, number, split_name
from kappasharp.space.space import Design

Function = Callable[[Design], Mapping[str, float]]
# Doubles side by side, and how many bytes each has.
Numbers = bytes
DOUBLE = 8
# Seconds that one design may take; letters of a sentence about what went wrong.
LIMIT, LONGEST_WORDS = 30.0, 400
# Seconds beyond the limit for what no signal ends; whether a design can have a process of its own at little cost.
OVERTIME, CAN_FORK = 5.0, sys.platform == "linux"
# For how many designs of a job the alarm is set, and after how many seconds it is set again.
ALARMS_AT_FIRST, ALARM_AGAIN = 3, 1e-3
ENDED = "The function of the outcomes ended its process: it must return, or raise."


class _TooLong(BaseException):
    """The time limit; no `except Exception` of the user's function catches it."""


def failed(words: str, seconds: float = 0.0, *, hung: bool = False, loaded: bool = True) -> Ran:
    """A design without outcomes, and why."""
    return Ran(None, in_a_line(words), seconds, hung, loaded)


def in_a_line(words: str) -> str:
    """A sentence as it is told and stored: errors may have several lines, and what no terminal shows."""
    plain = " ".join(words.split())[:LONGEST_WORDS]
    return "".join(letter if letter.isprintable() else "?" for letter in plain)


def words_of(error: BaseException) -> str:
    """The kind of an error and what it says, without the full stop; some cannot even say it."""
    try:
        said = str(error).strip().removesuffix(".")
    except BaseException as another:
        _raise_if_pressed(another)
        said = "its own words cannot be read"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _raise_if_pressed(error: BaseException) -> None:
    """Pass on the Ctrl-C of whoever waits. Elsewhere nobody hears it: there the function itself raised it."""
    is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if isinstance(error, KeyboardInterrupt) and is_heard and threading.current_thread() is threading.main_thread():
        raise error


def load(name: str) -> Function:
    """The function that module:function names, looked for in this folder too."""
    module, function = split_name(name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), function)
    except BaseException as error:  # importing a user's module runs it: it may even exit
        _raise_if_pressed(error)
        raise InvalidValueError(
            f"The function {name!r} of the outcomes cannot be loaded: {in_a_line(words_of(error))}. It must be "
            "module:function, where Python finds the module from this folder."
        ) from error
    if not callable(found):
        raise InvalidTypeError(f"`outcomes` must name a function, but {name} is {found!r}.")
    return found


def name_of(function: Any) -> str | None:
    """module:function, if importing that gives this very function; None for a closure, a lambda or a notebook's."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or "." in name or "<" in name:
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is function else None


def one(function: Function, design: Design, alarm: "Alarm | None" = None) -> Ran:
    """What the function makes of a design; an alarm ends it."""
    began = perf_counter()
    try:
        if alarm is None:
            given = function(dict(design))
        else:
            try:
                alarm.start(began)
                given = function(dict(design))
            finally:
                alarm.pause()
        return Ran(_values(given), None, perf_counter() - began)
    except _TooLong:
        return failed(too_long(alarm.limit if alarm else LIMIT), perf_counter() - began, hung=True)
    except BaseException as error:  # whatever it is, it is this design's alone
        _raise_if_pressed(error)
        is_ours = type(error) in (InvalidValueError, InvalidTypeError)
        words = str(error) if is_ours else f"The function of the outcomes raised {words_of(error)}."
        return failed(words, perf_counter() - began)


def too_long(limit: float) -> str:
    """What is said of a design that hung."""
    return f"The function of the outcomes must end within {limit:g} seconds, but it took longer."


def left_alone(hangs: int) -> str:
    """What is said of designs that are not tried because others hung."""
    return f"The function of the outcomes was left alone after {hangs} designs that hung."


def is_of_a_hang(failure: str) -> bool:
    """Whether a design hung, or was not tried because others did: to try it again may take long."""
    return "must end within" in failure or "was left alone after" in failure


def _values(given: Any) -> Values:
    if (type(given) is not dict and not isinstance(given, Mapping)) or not given:
        shown = repr(given)[:LONGEST_WORDS]
        raise InvalidTypeError(
            f"The function of the outcomes must return a mapping of names to numbers, but it returned {shown}."
        )
    if type(given) is dict and _is_plain(given):
        # The function may keep the one that it gave.
        return given.copy()
    return {str(name): float(number(value, f"Outcome {name!r}")) for name, value in given.items()}


def _is_plain(given: Mapping[Any, Any]) -> bool:
    """Whether it has names and finite floats alone, as most have; in a loop, which ends soonest."""
    for name, value in given.items():
        if type(value) is not float or type(name) is not str or not math.isfinite(value):
            return False
    return True


class Alarm:
    """A timer that ends a design after so many seconds: Python code and sleep, not a loop in C.

    Setting it costs more than a quick function does. So it is left running, and set anew where it rings too early for
    the design of that moment, at the first designs, and where it was set some time ago: a function may take it away.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._began: float | None = None
        self._many, self._again = 0, -math.inf

    def start(self, now: float) -> None:
        """Begin to count."""
        self._began = now
        if now > self._again:
            self._many += 1
            self._again = -math.inf if self._many < ALARMS_AT_FIRST else now + ALARM_AGAIN
            signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self.limit)

    def reset(self) -> None:
        """Other designs follow: the first of them count as such."""
        self._many, self._again = 0, -math.inf

    def pause(self) -> None:
        """There is nothing to be ended until the next start."""
        self._began = None

    def _ring(self, *_: Any) -> None:
        left = self.limit if self._began is None else self._began + self.limit - perf_counter()
        if left <= 0.0:
            raise _TooLong
        signal.setitimer(signal.ITIMER_REAL, left)


def _can_ring() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def _alarm(limit: float) -> Iterator[Alarm | None]:
    """An alarm where the system has one, None where not; gone at the end."""
    if not _can_ring():
        yield None
        return
    before = signal.getsignal(signal.SIGALRM)
    try:
        yield Alarm(limit)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def run(name: str, designs: Sequence[Design], limit: float, apart: bool = False) -> list[Ran]:
    """A worker's job: designs one after the other; after one that hung the rest are left to somebody else.

    `apart`: each in a process of its own, for a function that ends its process.
    """
    with stdout_apart():
        try:
            function = load(name)
        except (InvalidValueError, InvalidTypeError) as error:
            return [failed(str(error), loaded=False)] * len(designs)
        with _alarm(limit) as alarm:
            if apart:
                return _each(designs, lambda design: _apart(function, design, limit))
            return _each(designs, lambda design: one(function, design, alarm))


def _each(designs: Iterable[Design], run_one: Callable[[Design], Ran]) -> list[Ran]:
    found: list[Ran] = []
    for design in designs:
        found.append(run_one(design))
        if found[-1].hung:
            break
    return found


@dataclass(frozen=True)
class Briefly:
    """The same as a job for the worker of a wire, which loads once, prints to stderr anyhow and leaves its alarm on.

    Many small objects are long on the way. So designs that are floats alone come as doubles, and doubles go back where
    every design has the outcomes that are expected: of each these and seconds.
    """

    name: str
    parameters: tuple[str, ...]
    outcomes: tuple[str, ...]
    limit: float

    def __call__(self, given: Numbers | list[Design]) -> Numbers | list[Ran]:
        """What the function makes of these designs."""
        designs = self._unpacked(given) if isinstance(given, bytes) else given
        try:
            function = _loaded(self.name)
        except (InvalidValueError, InvalidTypeError):
            return run(self.name, list(designs), self.limit)
        alarm = _lasting_alarm(self.limit)
        if alarm is not None:
            alarm.reset()
        found = _each(designs, lambda design: one(function, design, alarm))
        names, numbers = list(self.outcomes), list[float]()
        for values, _, seconds, *_ in found:
            if values is None or list(values) != names:
                return found
            numbers += values.values()
            numbers.append(seconds)
        return struct.pack(f"{len(numbers)}d", *numbers)

    def _unpacked(self, numbers: Numbers) -> Iterable[Design]:
        names = self.parameters
        return (dict(zip(names, row, strict=True)) for row in struct.iter_unpack(f"{len(names)}d", numbers))


# One that could not be loaded is looked for again.
_loaded = cache(load)


@cache
def _lasting_alarm(limit: float) -> Alarm | None:
    """The alarm of a worker that does such jobs alone: to put it up and away for each takes as long as some designs."""
    return Alarm(limit) if _can_ring() else None


def _apart(function: Function, design: Design, limit: float) -> Ran:
    """The same in a fork of this process, which alone ends where the function ends its own."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a worker's other thread waits for its parent's end only
        child = os.fork()
    if child == 0:
        try:
            with _alarm(limit) as alarm:
                os.write(writer, pickle.dumps(tuple(one(function, design, alarm))))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        in_time = bool(select.select([source], [], [], limit + OVERTIME)[0])
        if not in_time:
            os.kill(child, signal.SIGKILL)
        said = source.read()
    os.waitpid(child, 0)
    if not in_time:
        return failed(too_long(limit), limit, hung=True)
    return Ran(*pickle.loads(said)) if said else failed(ENDED)
