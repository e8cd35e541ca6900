"""Worker processes that outlive their mistakes: a job that takes too long, or its process down, ends as a sentence.

Each process does one job at a time, so that one that is ended takes no other job with it. Studies take turns, and
within a study its visitors: none of them holds more than its share of the processes while another waits.
"""

import asyncio
import logging
import sys
import threading
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from kappasharp.errors import KappaSharpError
from kappasharp.processes import Pool

LOG = logging.getLogger("kappasharp")
# Where the jobs are.
JOBS = "kappasharp.jobs"
# A job that takes longer, in seconds, is given up.
LIMIT = 120.0
# One that nobody answers by has longer: it stands behind questions, and on a busy machine behind much else.
PATIENT_LIMIT = 300.0

# The person and the browser come first.
NICENESS = 5
# Who waits for a question comes before who waits for anything else.
BEHIND_QUESTIONS = NICENESS + 5


class Job(Enum):
    """What is computed, by the name of its function; a call computes it here."""

    READY = "ready"
    NEXT_PAIRS = "next_pairs"
    NEXT_PAIR_AFTER = "next_pair_after"
    STOCK = "stock"
    STANDING = "standing"
    TEAM = "team_view"
    BEST = "best_view"
    WHY = "why_view"
    MODEL = "model_view"
    OUTCOMES = "outcomes_view"
    REHEARSED = "rehearsed"
    CHANGED = "changed"
    PICTURED = "pictured"
    EXPORTED = "exported"

    def __call__(self, *given: Any) -> Any:
        """Do it, and import what that takes."""
        return getattr(import_module(JOBS), self.value)(*given)


def ready() -> bool:
    """A job that a worker does first: it is here."""
    return True


@dataclass(eq=False)
class Turn:
    """A job's place among those that wait: what is done ahead comes last; of one visitor the latest wish first."""

    ahead: bool = False
    wish: int = 0
    # Whose it is.
    study: str = ""
    visitor: str = ""
    # When it got its process.
    began: float = 0.0
    granted: "asyncio.Future[Process] | None" = None


class Process:
    """One process, made anew when it was ended; `bare` ones start without torch, others with what is preloaded.

    `first` is the job that it does first.
    """

    def __init__(
        self, *, bare: bool, preload: tuple[str, ...], first: Callable[[], bool], niceness: int = NICENESS
    ) -> None:
        self.bare, self.preload, self.first, self.niceness = bare, preload, first, niceness
        # Whether whoever starts it stands still, and with it all that its lock guards.
        self.is_stuck = False
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._warm: Future[bool] | None = None

    @property
    def is_warm(self) -> bool:
        """Whether it has started."""
        return self._warm is not None and self._warm.done()

    def open(self) -> "Future[bool]":
        """Start it, unless it is there; what is returned is done when it has started."""
        with self._lock:
            if self._pool is None or self._warm is None:
                self._pool = Pool(1, niceness=self.niceness, bare=self.bare, preload=self.preload)
                self._warm = self._pool.submit(self.first)
            return self._warm

    def submit(self, job: Callable[..., Any], *given: Any) -> "Future[Any]":
        """Have a job done."""
        with self._lock:
            if self._pool is None:
                raise BrokenProcessPool("It was ended.")
            return self._pool.submit(job, *given)

    def another(self) -> "Process":
        """One of the same kind, for its place."""
        return Process(bare=self.bare, preload=self.preload, first=self.first, niceness=self.niceness)

    def end(self, *, wait: bool = False) -> None:
        """End it, whatever it is doing; the next job starts another."""
        if self.is_stuck:
            return
        with self._lock:
            pool, self._pool, self._warm = self._pool, None, None
        if pool is not None:
            pool.end(wait=wait)


class Workers:
    """A few processes of one purpose."""

    def __init__(
        self,
        size: int,
        *,
        bare: bool = False,
        preload: tuple[str, ...] = (),
        first: Callable[[], bool] = ready,
        niceness: int = NICENESS,
    ) -> None:
        self.size = size
        self._processes = [Process(bare=bare, preload=preload, first=first, niceness=niceness) for _ in range(size)]
        self._free = list(self._processes)
        self._waiting: list[Turn] = []
        self._doing: dict[Process, Turn] = {}
        self._ending: set[Process] = set()
        self._closing: set[Process] = set()
        # How long the last job of each study took.
        self._seconds: dict[str, float] = {}
        # When each study, and each visitor of it, last had a turn, as long as somebody waits: a count of turns.
        self._served: dict[tuple[str, ...], int] = {}
        self._turns = 0
        self._recent: dict[str, float] = {}
        self._looking: asyncio.TimerHandle | None = None
        # The first worker takes seconds to start: whoever starts it waits, and that must not be the loop.
        self._starter = _starter()

    @property
    def is_warm(self) -> bool:
        """Whether a worker has started."""
        return any(one.is_warm for one in self._processes)

    def start(self) -> None:
        """Start the processes, without waiting for them."""
        for one in self._processes:
            self._starter.submit(one.open)

    async def run(self, job: Callable[..., Any], *given: Any, limit: float, turn: Turn | None = None) -> Any:
        """What a job comes to, or a WorkerError; the limit, in seconds, counts from when a started process has it."""
        turn = turn or Turn()
        process = await self._granted(turn)
        # One that is begun goes on to its end, and holds its process until then, even if nobody waits for it any more;
        # but what is done ahead gives way.
        doing = asyncio.create_task(self._do(process, job, given, limit))
        doing.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return await asyncio.shield(doing)

    def hurry(self, turn: Turn, wish: int) -> None:
        """Somebody waits for this job now."""
        turn.ahead, turn.wish = False, wish
        self._grant()

    def drop(self, turn: Turn) -> bool:
        """Give up a job that has not begun; whether it had not."""
        if turn not in self._waiting or turn.granted is None:
            return False
        self._waiting.remove(turn)
        if not turn.granted.cancelled():
            turn.granted.set_exception(DroppedError("It gave way to others."))
        return True

    async def _granted(self, turn: Turn) -> Process:
        """A free process, when it is this job's turn."""
        turn.granted = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._grant()
        try:
            return await turn.granted
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.granted.cancelled() and turn.granted.exception() is None:
                self._release(turn.granted.result())
            raise

    def _grant(self) -> None:
        while self._free and (turn := self._next()) is not None:
            self._waiting.remove(turn)
            assert turn.granted is not None
            if turn.granted.cancelled():
                # Who waited was given up in this very step, and has yet to hear of it: no process may be lost on them.
                continue
            process = max(self._free, key=lambda one: one.is_warm)
            self._free.remove(process)
            turn.began = asyncio.get_running_loop().time()
            self._doing[process] = turn
            self._note_served(turn)
            turn.granted.set_result(process)
        self._make_room()

    def _next(self) -> Turn | None:
        """Whose turn it is: of a study that holds the fewest processes, the one whose last turn was longest ago."""
        held = Counter(one.study for one in self._doing.values())
        keeps_one_free = len(self._free) == 1 < self.size
        share = self._fair_share()

        def rank(one: Turn) -> tuple[float, ...]:
            by_study = held[one.study], self._served.get((one.study,), 0)
            return one.ahead, *by_study, self._served.get((one.study, one.visitor), 0), -one.wish

        may = (one for one in self._waiting if held[one.study] < share)
        may = (
            one for one in may if not (one.ahead and keeps_one_free and held[one.study] and self._is_slow(one.study))
        )
        return min(may, key=rank, default=None)

    def _fair_share(self) -> int:
        """How many processes a study may hold: all of them where no other has wanted one lately."""
        now = asyncio.get_running_loop().time()
        self._recent |= {one.study: now for one in (*self._doing.values(), *self._waiting)}
        self._recent = {study: last for study, last in self._recent.items() if now - last < RECENT}
        return max(1, self.size // max(len(self._recent), 1))

    def _note_served(self, turn: Turn) -> None:
        self._turns += 1
        if not self._waiting:
            self._served = {}
        self._served |= {(turn.study,): self._turns, (turn.study, turn.visitor): self._turns}

    def _is_slow(self, study: str) -> bool:
        return self._seconds.get(study, 0.0) > QUICK

    def _make_room(self) -> None:
        """End what is done ahead, as much of it as is waited for, where that would take longer than a new start.

        Whoever has their share of the processes has their own ended alone.
        """
        share, held = self._fair_share(), Counter(turn.study for _, turn in self._going())
        wanted = [one.study for one in self._waiting if not one.ahead][len(self._ending) :]
        for study in wanted:
            # The one that was begun last has done the least.
            ahead = [one for one in self._going()[::-1] if one[1].ahead and self._is_slow(one[1].study)]
            may = [one for one in ahead if one[1].study == study or held[study] < share]
            if may:
                process, turn = max(may, key=lambda one: one[1].study == study)
                held += Counter({study: 1})
                held[turn.study] -= 1
                self._give_way(process)
        self._share()

    def _share(self) -> None:
        """End a job of a study that holds several processes while another, which has none, waits; not at once."""
        held = Counter(turn.study for _, turn in self._going())
        without = {one.study for one in self._waiting if not one.ahead} - held.keys()
        short = len(without) - len(self._free) - len(self._ending)
        now = asyncio.get_running_loop().time()
        for process, turn in self._going()[::-1]:
            if short <= 0 or held[turn.study] < 2:  # noqa: PLR2004
                continue
            if now - turn.began < GRACE:
                self._look_again()
                continue
            held[turn.study] -= 1
            short -= 1
            self._give_way(process)

    def _look_again(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(GRACE, self._looked)

    def _looked(self) -> None:
        self._looking = None
        self._make_room()

    def _going(self) -> list[tuple[Process, Turn]]:
        """What is done now and goes on, in the order in which it was begun."""
        return [(process, turn) for process, turn in self._doing.items() if process not in self._ending]

    def _give_way(self, process: Process) -> None:
        self._ending.add(process)
        process.end()

    def _release(self, process: Process) -> None:
        self._doing.pop(process, None)
        self._ending.discard(process)
        self._closing.discard(process)
        if process.is_stuck:
            place = self._processes.index(process)
            process = self._processes[place] = process.another()
        self._free.append(process)
        self._grant()

    async def _do(self, process: Process, job: Callable[..., Any], given: tuple[Any, ...], limit: float) -> Any:
        loop, future = asyncio.get_running_loop(), None
        began = loop.time()
        try:
            # On a busy machine its start takes longer than a job may.
            await self._started(process)
            if process in self._ending:
                # It was to give way before there was anything to end.
                raise BrokenProcessPool("It was ended.")
            began = loop.time()
            future = process.submit(job, *given)
            found = await asyncio.wait_for(asyncio.wrap_future(future), limit)
        except TimeoutError as error:
            if future is not None and _raised(future, TimeoutError):
                raise  # the job's own
            process.end()
            raise TooLateError(f"It took longer than {limit:g} seconds.") from error
        except (BrokenProcessPool, CancelledError) as error:
            raise self._without_result(process, error) from error
        except (SystemExit, KeyboardInterrupt) as error:
            # The job's own, which would end the server.
            raise WorkerError(f"It ended itself by {type(error).__name__}.") from error
        else:
            return found
        finally:
            if process not in self._ending:
                self._seconds[self._doing[process].study] = loop.time() - began
            self._release(process)

    def _without_result(self, process: Process, error: BaseException) -> BaseException:
        """What whoever waits for a job is told whose process has ended, or that was cancelled."""
        if self._is_given_up(process):
            # It may have started since.
            process.end()
            return CancelledError()
        if process in self._ending:
            return GaveWayError("It gave way to what somebody waits for.")
        if isinstance(error, CancelledError):
            return CancelledError()
        process.end()
        return WorkerError("Its process ended unexpectedly.")

    def _is_given_up(self, process: Process) -> bool:
        """Whether all is being closed: then the end of a process is no crash, and nobody is told of one."""
        task = asyncio.current_task()
        return process in self._closing or (task is not None and task.cancelling() > 0)

    async def _started(self, process: Process) -> None:
        if process.is_warm:
            return
        opening = asyncio.get_running_loop().run_in_executor(self._starter, process.open)
        if not await _done(opening):
            process.is_stuck = True
            self._starter = _starter()
            raise NotStartedError("Its process does not start.")
        try:
            warm = asyncio.wrap_future(opening.result())
        except (OSError, RuntimeError) as error:
            raise NotStartedError(f"Its process could not be started: {type(error).__name__}: {error}.") from error
        is_there = await _done(warm)
        if process in self._closing:
            raise CancelledError
        if not is_there:
            process.end()
            raise NotStartedError("Its process does not start.")

    def close(self) -> None:
        """End all processes, and give up what they do and what waits for them; another job would start new ones."""
        self._closing |= self._doing.keys()
        if self._looking is not None:
            self._looking.cancel()
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if turn.granted is not None:
                turn.granted.cancel()
        for one in self._processes:
            one.end(wait=True)


def workers(size: int, niceness: int = NICENESS) -> Workers:
    """Worker processes that have all that the jobs need."""
    return Workers(size, preload=(JOBS,), first=Job.READY, niceness=niceness)


async def computed(workers: Workers, job: Callable[..., Any], *given: Any, turn: Turn) -> Any:
    """What a question's job comes to, or a WorkerError.

    It is done by a worker. It is done here where that is sooner, because none has started and torch is here, and where
    none starts: nobody can answer without questions.
    """
    if workers.is_warm or "torch" not in sys.modules:
        try:
            return await elsewhere(workers, job, *given, turn=turn, limit=LIMIT)
        except NotStartedError as error:
            LOG.warning("A question is computed in the server: %s", error)
    return await asyncio.to_thread(job, *given)


async def elsewhere(workers: Workers, job: Callable[..., Any], *given: Any, turn: Turn, limit: float) -> Any:
    """What a job comes to that is never done in the server, or a WorkerError.

    It is done by another worker if the first one died of it, and begun again where it gave way to others. What took too
    long would take too long again.
    """
    has_failed = False
    while True:
        try:
            return await workers.run(job, *given, limit=limit, turn=turn)
        except GaveWayError:
            continue
        except (NotStartedError, TooLateError, DroppedError):
            raise
        except WorkerError:
            if has_failed:
                raise
            has_failed = True


# Who waits lets a job go on for so many seconds before its process is taken from a study that holds several.
GRACE = 0.25
# A study that had a turn within so many seconds finds its share of the processes free when it wants them.
RECENT = 10.0
# Where jobs take longer than so many seconds, what is done ahead leaves one process free for what is wanted now, and is
# ended where more are wanted: another process starts sooner.
QUICK = 1.0
# A process that takes longer to start, in seconds, on however busy a machine, is taken for one that never will.
STARTS_WITHIN = 120.0


class WorkerError(KappaSharpError, RuntimeError):
    """A job ended without a result: it took too long, its process died, or it gave way to others."""


class GaveWayError(WorkerError):
    """A job that was done ahead was ended, for somebody waits for another."""


class DroppedError(WorkerError):
    """A job was given up before it began: nobody wants it any more."""


class NotStartedError(WorkerError):
    """No process starts: whoever can do the job without one had better do so."""


class TooLateError(WorkerError):
    """A job took longer than it may, and would again."""


def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="start of workers")


async def _done(start: "asyncio.Future[Any]") -> bool:
    """Whether a start ends in time; whatever becomes of it, the job itself will say."""
    start.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return bool((await asyncio.wait({start}, timeout=STARTS_WITHIN))[0])


def _raised(done: "Future[Any]", kind: type[BaseException]) -> bool:
    return done.done() and not done.cancelled() and isinstance(done.exception(), kind)
