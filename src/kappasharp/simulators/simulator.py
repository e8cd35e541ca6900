"""Outcomes computed by the user's function: in worker processes where it can be imported by name, else in this one.

Whatever goes wrong in the function (an error, a hang, no numbers, other names than before, the end of its process) is a
sentence about one design, which then counts as without outcomes. Nothing is computed twice in one process.
"""

import math
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import groupby
from queue import Empty, SimpleQueue
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.processes import Done, Pool, Wire
from kappasharp.simulators import cache as simulators_cache
from kappasharp.simulators.cache import Computed, Key, Names
from kappasharp.simulators.function import (
    CAN_FORK,
    ENDED,
    LIMIT,
    LONGEST_WORDS,
    Briefly,
    Function,
    Numbers,
    failed,
    left_alone,
    name_of,
    one,
    run,
    too_long,
    words_of,
)
from kappasharp.space.outcomes import Ran, split_name
from kappasharp.space.space import Design

# What a worker's start, or a hang that no signal ends, may take beyond the limit of a design, in seconds.
GRACE = 60.0
# A function up to this many seconds a design is cheap: questions are searched for through it.
CHEAP = 0.05
MOST_WORKERS = 4
# About how long the computing of one question may take, what a design costs beside its function, and how many designs
# a cheap function always gets.
QUESTION_SECONDS, OVERHEAD, LEAST_BUDGET, MOST_BUDGET = 0.5, 1e-4, 64, 2048
# After how many designs that hung the function is left alone: each costs half a minute.
MOST_HANGS = 3
MOST_KEPT = 200_000
# From how many designs it is known how long one takes.
LATELY = 64
# Seconds that sending a job to a worker takes; designs of a job.
SENDING, LARGEST_CHUNK = 1e-3, 512


def budget(seconds: float) -> int:
    """Designs that fit into one question where one takes so many seconds: a power of two.

    By one worker's pace, whoever computes: the same events give the same question on the page, here and elsewhere.
    """
    many = QUESTION_SECONDS / (seconds + OVERHEAD)
    least = LEAST_BUDGET if seconds <= CHEAP else 1
    return max(min(2 ** int(math.log2(max(many, 1.0))), MOST_BUDGET), least)


class Simulator:
    """The user's function with everything it has computed in this process. Threads may share it."""

    def __init__(self, function: Function | None, name: str | None, limit: float = LIMIT) -> None:
        self.name, self.limit = name, limit
        self._function = function
        self._kept: dict[Names, Computed] = {}  # by the names of the parameters
        self._pool: Pool | None = None  # for several jobs at once
        self._wire: Wire | None = None  # for one
        self._lock = threading.RLock()
        self._switching = threading.Lock()  # held for a moment only: who stops the workers does not wait for them
        self._seconds: deque[float] = deque(maxlen=LATELY)
        self.hangs = 0
        self._ends = False  # whether it has ended a worker: from then on every design has a process of its own
        self._stopped = False

    def __reduce__(self) -> Any:
        # Code is never sent to another process, only its name.
        return by_name, (self.name, self.limit)

    def __deepcopy__(self, _: Any) -> "Simulator":
        return self

    @property
    def workers(self) -> int:
        """How many designs are computed at once."""
        alone = self.name is None or multiprocessing.parent_process() is not None
        return 1 if alone else min(_cores(), MOST_WORKERS)

    @property
    def seconds(self) -> float | None:
        """How long one design takes, in the middle of all; None before the first."""
        return median(self._seconds) if self._seconds else None

    @property
    def computed(self) -> int:
        """How many designs were computed so far, failures among them."""
        return sum(map(len, self._kept.values()))

    def has_tried(self, design: Design) -> bool:
        """Whether this process has computed it, or has failed to."""
        return self.known(design, ()) is not None

    def known(self, design: Design, names: Sequence[str]) -> Ran | None:
        """What `compute` would say of a design that this process has tried; None of others. It waits for nobody."""
        kept = self._kept.get(tuple(design))
        found = None if kept is None else kept.get(simulators_cache.key(tuple(design.values())))
        return None if found is None else _named(found, names)

    def compute(self, designs: Sequence[Design], names: Sequence[str] | None = None) -> list[Ran]:
        """What the function makes of each design, in order.

        Args:
            designs: complete designs.
            names: those of the outcomes; any others are a failure. None takes whatever comes.
        """
        found: list[Ran] = []
        with self._lock:
            for parameters, alike in groupby(designs, tuple):
                kept = self._kept.setdefault(parameters, Computed(parameters))
                keys = [simulators_cache.key(tuple(design.values())) for design in alike]
                self._complete(kept, keys)
                found += map(kept.ran, keys)
        if names is None:
            return found
        return [_named(ran, names) for ran in found]

    def table(self, parameters: Names, keys: Sequence[Key], names: Names) -> tuple[bytearray, bool]:
        """The same as doubles alone, a number more behind those of a design; NaN for one without outcomes.

        And whether it is sure that all have some.

        Args:
            parameters: the names of all parameters.
            keys: what tells complete designs with these apart.
            names: those of the outcomes, in the order that is wanted.
        """
        with self._lock:
            kept = self._kept.setdefault(parameters, Computed(parameters))
            self._complete(kept, keys)
            return kept.table(keys, names)

    def _complete(self, kept: Computed, keys: Sequence[Key]) -> None:
        """Compute those of the designs with these keys that are fresh."""
        self._stopped = False
        fresh = kept.fresh(keys)
        if not fresh:
            return
        if self.computed + len(fresh) > MOST_KEPT:
            kept.forget_all_but(keys)
            self._kept = {kept.parameters: kept}
        ran = self._run(kept, fresh)
        kept.keep(fresh, ran)
        self._seconds.extend(simulators_cache.seconds(ran[-LATELY:]))

    def close(self) -> None:
        """End the workers; another design would start new ones."""
        with self._lock:
            self._let_go(wait=True)

    def stop(self) -> None:
        """End the workers in the middle of what they do: whoever waits for it gets an error, and nothing is kept."""
        with self._switching:
            self._stopped = True
        self._let_go()

    def _let_go(self, *, wait: bool = False) -> None:
        with self._switching:
            ending = self._pool, self._wire
            self._pool = self._wire = None
        for workers in ending:
            if workers is not None:
                workers.end(wait=wait)

    def _run(self, kept: Computed, keys: list[Key]) -> Sequence[Ran | Numbers]:
        if self.name is None:
            return self._here(list(map(kept.design, keys)))
        if multiprocessing.parent_process() is not None:
            return self._in_worker(list(map(kept.design, keys)))
        try:
            return self._pooled(kept, keys)
        except (KeyboardInterrupt, SystemExit):
            # Nobody waits for their jobs any more; Python itself would, at its exit.
            self._let_go()
            raise

    def _given_up(self) -> Ran | None:
        if self.hangs < MOST_HANGS:
            return None
        return failed(left_alone(self.hangs))

    def _noted(self, ran: Any) -> Any:
        self.hangs += simulators_cache.hung(ran)
        return ran

    def _in_worker(self, designs: list[Design]) -> list[Ran]:
        """In this process, which is one of our workers and may be ended by its parent."""
        assert self.name is not None
        found: list[Ran] = []
        while len(found) < len(designs):
            left = self._given_up()
            ran = run(self.name, designs[len(found) :], self.limit) if left is None else [left]
            found += [self._noted(each) for each in ran]
        return found

    def _here(self, designs: list[Design]) -> list[Ran]:
        """In a thread of this process: one that hangs is left behind, for nothing can end it."""
        found: list[Ran] = []
        while len(found) < len(designs):
            if (left := self._given_up()) is not None:
                return found + [left] * (len(designs) - len(found))
            results: SimpleQueue[Ran] = SimpleQueue()
            abandoned = threading.Event()
            rest = designs[len(found) :]
            threading.Thread(target=self._work, args=(rest, results, abandoned), daemon=True).start()
            try:
                for _ in rest:
                    found.append(results.get(timeout=self.limit))
            except Empty:
                found.append(self._noted(failed(too_long(self.limit), self.limit, hung=True)))
            finally:
                # After Ctrl-C, too, nobody waits for the rest.
                abandoned.set()
        return found

    def _work(self, designs: list[Design], results: "SimpleQueue[Ran]", abandoned: threading.Event) -> None:
        assert self._function is not None
        for design in designs:
            if abandoned.is_set():
                return
            results.put(one(self._function, design))

    def _pooled(self, kept: Computed, keys: list[Key]) -> list[Ran | Numbers]:
        """In the workers, many designs to a job where they are quick; whatever breaks a job is found one by one."""
        assert self.name is not None
        if (given_up := self._given_up()) is not None:
            return [given_up] * len(keys)
        size = self._chunk(len(keys))
        chunks = [range(at, min(at + size, len(keys))) for at in range(0, len(keys), size)]
        knew = self._ends
        found = self._jobs(kept, keys, chunks)
        if self._ends and not knew:
            left = [rest for chunk in chunks if (rest := [i for i in chunk if i not in found])]
            found |= self._jobs(kept, keys, left)
        for i, key in enumerate(keys):
            if i not in found:
                found[i] = self._given_up() or self._noted(self._alone(kept.design(key)))
        return [found[i] for i in range(len(keys))]

    def _jobs(self, kept: Computed, keys: list[Key], chunks: Sequence[Sequence[int]]) -> dict[int, Ran | Numbers]:
        """What the workers make of the designs of each chunk; nothing of those whose job broke."""
        found: dict[int, Ran | Numbers] = {}
        submit = self._at_once if len(chunks) == 1 and not self._ends else self._later
        jobs = [(chunk, submit(kept, [keys[i] for i in chunk])) for chunk in chunks]
        for chunk, job in jobs:
            if self._given_up() is not None:
                # Nobody waits for jobs that hang, too.
                self.close()
                break
            try:
                answer = job.result(self.limit + GRACE)
            except (TimeoutError, BrokenProcessPool, CancelledError) as error:
                self._ends |= CAN_FORK and isinstance(error, BrokenProcessPool) and not self._stopped
                self.close()
                continue
            except Exception as error:
                answer = [_not_run(error)] * len(chunk)
            ran = kept.read(answer)
            found |= zip(chunk, ran if isinstance(answer, bytes) else map(self._noted, ran), strict=False)
        return found

    def _chunk(self, count: int) -> int:
        """How many designs go to a worker together: one where they are slow, and all where sending takes longer."""
        typical = self.seconds
        if typical is None or typical > CHEAP:
            return 1
        return min(max(math.ceil(count / self.workers), int(SENDING / max(typical, 1e-9))), LARGEST_CHUNK)

    def _alone(self, design: Design) -> Ran:
        job = self._submit([design])
        try:
            ran: Ran = job.result(self.limit + GRACE)[0]
        except TimeoutError:
            self.close()
            return failed(too_long(self.limit), self.limit, hung=True)
        except (BrokenProcessPool, CancelledError):
            self.close()
            return failed(ENDED)
        except Exception as error:
            return _not_run(error)
        return ran

    def _at_once(self, kept: Computed, keys: list[Key]) -> "Future[Any] | Done":
        """The same where there is one job only, done before this returns."""
        assert self.name is not None
        job = Briefly(self.name, kept.parameters, kept.outcomes, self.limit)
        for is_last in (False, True):
            try:
                wire = self._open_wire()
            except BrokenProcessPool:
                return self._later(kept, keys)
            try:
                return Done(wire.call(job, kept.for_job(keys), within=self.limit + GRACE))
            except BrokenProcessPool as error:
                # Somebody else may have ended the worker: it is not the function's doing until it happens again.
                if is_last:
                    return Done(None, error)
            except Exception as error:
                return Done(None, error)
        raise AssertionError("the last time something is returned")

    def _later(self, kept: Computed, keys: list[Key]) -> "Future[Any]":
        return self._submit(list(map(kept.design, keys)))

    def _submit(self, designs: list[Design]) -> "Future[Any]":
        """Have designs computed; whoever waits for them hears of workers that do not start, either."""
        try:
            return self._open_pool().submit(run, self.name, designs, self.limit, self._ends)
        except BrokenProcessPool:
            self.close()
        try:
            return self._open_pool().submit(run, self.name, designs, self.limit, self._ends)
        except BrokenProcessPool as error:
            self.close()
            none: Future[Any] = Future()
            none.set_exception(error.__cause__ or error)
            return none

    def _open_wire(self) -> Wire:
        with self._switching:
            self._go_on()
            if self._wire is None or not self._wire.is_open:
                self._wire = Wire()
            return self._wire

    def _go_on(self) -> None:
        if self._stopped:
            raise RuntimeError("The function of the outcomes was stopped.")

    def _open_pool(self) -> Pool:
        with self._switching:
            self._go_on()
            # A small process is forked soonest.
            self._pool = self._pool or Pool(self.workers, with_main=False, bare=self._ends)
            return self._pool


@cache
def _cores() -> int:
    return os.cpu_count() or 1


def _not_run(error: Exception) -> Ran:
    """A design that no worker gave back: that is not the function's own doing."""
    return failed(f"The function of the outcomes could not be run in a worker process: {words_of(error)}.")


def _named(ran: Ran, names: Sequence[str]) -> Ran:
    """The same, or a failure where its outcomes have other names."""
    return ran if ran.values is None or ran.values.keys() == set(names) else _other(ran, names)


def _other(ran: Ran, names: Sequence[str]) -> Ran:
    """A failure: its outcomes have other names."""
    got = ", ".join(sorted(ran.values or ()))[:LONGEST_WORDS]
    return failed(
        f"The function of the outcomes must return {', '.join(names)}, as it did when the study was made, but it "
        f"returned {got}.",
        ran.seconds,
    )


@cache
def by_name(name: str | None, limit: float) -> Simulator | None:
    """The one simulator of that function in this process; None where it has no name to be found by."""
    return None if name is None else Simulator(None, name, limit)


def of(given: Any) -> Simulator:
    """The simulator of a function or of its name; one that can be imported by its name is run in workers."""
    name = given if isinstance(given, str) else name_of(given)
    if name is not None:
        split_name(name)
        found = by_name(name, LIMIT)
        assert found is not None
        return found
    if not callable(given):
        raise InvalidTypeError(f"`outcomes` must be a function, module:function or names, but got {given!r}.")
    return Simulator(given, None)


# What a function gives, and how long it takes, from a few designs: before a study with its outcomes is made.

# Designs that are computed when a study is made: names and seconds come from them; and for how long that may go on.
PROBES, PROBE_SECONDS = 8, 1.0


class Probed(NamedTuple):
    """The names of the outcomes in their order, and about how long a design takes: a power of two."""

    names: tuple[str, ...]
    seconds: float


def probe(simulator: Simulator, designs: Sequence[Design]) -> Probed:
    """Names and seconds from a few designs; a sentence where none of them has outcomes, or their names differ."""
    ran: list[Ran] = []
    began = perf_counter()
    for design in designs[:PROBES]:
        ran += simulator.compute([design])
        if not ran[-1].loaded:
            raise InvalidValueError(f"{ran[-1].failure} Nothing was stored.")
        # A first call may load what later ones have: it takes a second slow one to make a function slow.
        is_slow = len(ran) > 1 and ran[-1].seconds > CHEAP and perf_counter() - began > PROBE_SECONDS
        if is_slow and any(each.values for each in ran):
            break
    good = [each for each in ran if each.values is not None]
    if not good:
        raise InvalidValueError(
            f"`outcomes` must work for one of the first {len(ran)} designs, but: {ran[0].failure} Nothing was stored; "
            f"the first design was {designs[0]}."
        )
    assert good[0].values is not None
    names = tuple(good[0].values)
    for each in good:
        if each.values is not None and each.values.keys() != set(names):
            raise InvalidValueError(
                "The function of the outcomes must return the same names for every design, but it returned "
                f"{', '.join(names)[:LONGEST_WORDS]} for one and {', '.join(each.values)[:LONGEST_WORDS]} for another. "
                "Nothing was stored."
            )
    seconds = max(median(each.seconds for each in good), 1e-6)
    return Probed(names, 2.0 ** math.ceil(math.log2(seconds)))
