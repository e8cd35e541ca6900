"""Where jobs run: here, in processes of this machine, or on a Dask cluster. One signature for all three.

An engine takes jobs as it has room for them and yields an outcome for each, in any order. It never loses one: what
fails comes back as an outcome with an error, and what a dying worker held is run again.
"""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

from kappasharp.errors import InvalidValueError, needed
from kappasharp.lab.grid import Block
from kappasharp.lab.run import Row, run_together

# A job during which so many workers died is not tried again.
MOST_DEATHS = 3
DASK = "dask://"
MIN_UNDER_WAY = 4


Job = tuple[Block, ...]  # blocks that run as one batch


class Outcome(NamedTuple):
    """A job's rows, block by block, or why there are none."""

    job: Job
    rows: list[list[Row]] | None
    error: BaseException | None = None


Engine = Callable[[Iterable[Job]], Iterator[Outcome]]


class WorkerDiedError(RuntimeError):
    """The workers that ran a job died, again and again."""


def engine(name: str, device: str = "cpu", workers: int | None = None) -> Engine:
    """The engine of that name: serial, processes, or dask://scheduler:port."""
    if name == "serial":
        return partial(serial, device=device)
    if name == "processes":
        return partial(processes, device=device, workers=workers)
    if name.startswith(DASK):
        return partial(distributed, address=name.removeprefix(DASK), device=device)
    raise InvalidValueError(f"`engine` must be serial, processes or {DASK}host:port, but got {name!r}.")


def serial(jobs: Iterable[Job], device: str = "cpu") -> Iterator[Outcome]:
    """One job after another, in this process."""
    for job in jobs:
        yield _attempt(job, device)


def processes(jobs: Iterable[Job], device: str = "cpu", workers: int | None = None) -> Iterator[Outcome]:
    """Jobs in processes of this machine, one torch thread each."""
    count = workers or len(os.sched_getaffinity(0))
    source, again, deaths = iter(jobs), deque[Job](), Counter[Job]()
    while True:
        with _pool(count) as pool:
            pending: dict[Future[Outcome], Job] = {}
            try:
                while _fill(pending, _attempt_in(pool, device), chain(_drain(again), source), count):
                    for future in wait(pending, return_when=FIRST_COMPLETED).done:
                        outcome = future.result()
                        del pending[future]
                        yield outcome
                return
            except BrokenProcessPool:
                # Which of the running jobs killed its worker cannot be told: each may have.
                deaths.update(pending.values())
        for job in pending.values():
            if deaths[job] < MOST_DEATHS:
                again.append(job)
            else:
                yield Outcome(job, None, WorkerDiedError(f"{MOST_DEATHS} workers died while they ran this"))


def _drain(again: deque[Job]) -> Iterator[Job]:
    while again:
        yield again.popleft()


def _fill(
    pending: dict[Future[Outcome], Job], submit: Callable[[Job], Future[Outcome]], supply: Iterator[Job], room: int
) -> bool:
    """Hand out jobs until there is no more room or no more job; whether any is under way."""
    for job in islice(supply, room - len(pending)):
        pending[submit(job)] = job
    return bool(pending)


def distributed(jobs: Iterable[Job], address: str, device: str = "cpu") -> Iterator[Outcome]:
    """Jobs on the workers of a Dask scheduler; Dask itself runs again what a lost worker held."""
    dask = needed("dask.distributed", f"The engine {DASK}{address}", "lab")
    with dask.Client(address, set_as_default=False) as client:
        source, finished = iter(jobs), dask.as_completed()
        pending: dict[str, tuple[Any, Job]] = {}
        try:
            while True:
                # Workers come and go: twice as many jobs as threads are under way, so that none waits for work.
                room = max(MIN_UNDER_WAY, 2 * sum(client.nthreads().values())) - len(pending)
                for job in islice(source, max(room, 0)):
                    future = client.submit(_attempt, job, device, key=f"block-{job[0].key}", pure=False)
                    pending[future.key] = (future, job)
                    finished.add(future)
                if not pending:
                    return
                done = next(finished)
                _, job = pending.pop(done.key)
                yield done.result() if done.status == "finished" else Outcome(job, None, done.exception())
        finally:
            client.cancel([future for future, _ in pending.values()])


def _attempt(job: Job, device: str) -> Outcome:
    """A job's outcome; its error is part of it, so that one bad job does not stop the others."""
    try:
        return Outcome(job, run_together(job, device))
    except Exception as error:  # whatever happened belongs to this job and is reported with it
        return Outcome(job, None, error)


def _attempt_in(pool: ProcessPoolExecutor, device: str) -> Callable[[Job], Future[Outcome]]:
    return lambda job: pool.submit(_attempt, job, device)


@contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose workers end with it, also in the middle of a block."""
    before = set(multiprocessing.active_children())
    spawned = multiprocessing.get_context("spawn")  # not forked: the parent may hold threads and a GPU
    pool = ProcessPoolExecutor(count, mp_context=spawned, initializer=_prepare_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()


def _prepare_worker() -> None:
    # Ctrl-C is the parent's business, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
