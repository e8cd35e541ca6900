"""Where jobs run: here, in processes of this machine, or on a Dask cluster. One signature for all three.

An engine takes jobs as it has room for them and yields an outcome for each, in any order. It never loses one: what
fails comes back as an outcome with an error, and what a dying worker held is run again.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch

from kappasharp.errors import InvalidValueError, KappaSharpError, needed
from kappasharp.lab.grid import Block, digest
from kappasharp.lab.run import Row, run_together
from kappasharp.processes import Pool

# A job is not tried again after this many workers died during it.
MOST_DEATHS = 3
DASK = "dask://"
MIN_UNDER_WAY = 4
# How often to look for workers that have joined, in seconds.
LOOK_AGAIN = 2.0


Job = tuple[Block, ...]  # blocks that run as one batch
Work = Callable[[Sequence[Block], str], list[list[Row]]]


class Outcome(NamedTuple):
    """A job's rows, block by block, or why there are none: in words, since not every error can travel."""

    job: Job
    rows: list[list[Row]] | None
    error: str | None = None


class SchedulerLostError(KappaSharpError, ConnectionError):
    """A Dask scheduler went away during a run."""


Engine = Callable[[Iterable[Job]], Iterator[Outcome]]


def engine(name: str, device: str = "cpu", workers: int | None = None) -> Engine:
    """The engine of that name: serial, processes, or dask://scheduler:port."""
    if name.startswith(DASK):
        return partial(distributed, address=name.removeprefix(DASK), device=device)
    _check_device(device)
    if name == "serial":
        return partial(serial, device=device)
    if name == "processes":
        return partial(processes, device=device, workers=workers)
    raise InvalidValueError(f"`engine` must be serial, processes or {DASK}host:port, but got {name!r}.")


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidValueError(f"`device` must be one that this machine has, but got {device!r}: {reason}") from error


def serial(jobs: Iterable[Job], device: str = "cpu", work: Work = run_together) -> Iterator[Outcome]:
    """One job after another, in this process."""
    for job in jobs:
        yield _attempt(job, device, work)


def processes(
    jobs: Iterable[Job], device: str = "cpu", workers: int | None = None, work: Work = run_together
) -> Iterator[Outcome]:
    """Jobs in processes of this machine, one torch thread each; after a worker's death its job is tried again."""
    # Several processes share a GPU well only through a service that may not run, so they must be asked for.
    count = workers or (_cores() if device == "cpu" else 1)
    task = partial(_attempt, device=device, work=work)
    for deaths in range(MOST_DEATHS):
        died: list[Job] = []
        # The last try is alone: neighbours may have taken the memory.
        yield from _in_slots(jobs, 1 if deaths == MOST_DEATHS - 1 else count, task, died)
        jobs = died
    words = f"WorkerDiedError: {MOST_DEATHS} workers died while they ran this"
    yield from (Outcome(job, None, words) for job in jobs)


def _in_slots(jobs: Iterable[Job], count: int, task: Callable[[Job], Outcome], died: list[Job]) -> Iterator[Outcome]:
    """Outcomes of jobs side by side, each job in a pool of one worker: when that dies, its job is added to `died`."""
    source, free = iter(jobs), [Pool(1) for _ in range(count)]
    busy: dict[Future[Outcome], tuple[Pool, Job]] = {}
    try:
        while True:
            for job in islice(source, len(free)):
                pool, future = _submit(free.pop(), task, job)
                busy[future] = pool, job
            if not busy:
                return
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                pool, job = busy.pop(future)
                free.append(pool)
                if isinstance(future.exception(), BrokenProcessPool):
                    died.append(job)
                else:
                    yield future.result()
    finally:
        for pool in (*free, *(pool for pool, _ in busy.values())):
            pool.end(wait=True)  # also in the middle of a block


def _submit(pool: Pool, task: Callable[[Job], Outcome], job: Job) -> tuple[Pool, Future[Outcome]]:
    """A job's pool and future; a pool whose worker has died, in a job or between two, is replaced by a new one."""
    try:
        return pool, pool.submit(task, job)
    except BrokenProcessPool:
        pool.end()
        pool = Pool(1)
        return pool, pool.submit(task, job)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def distributed(jobs: Iterable[Job], address: str, device: str = "cpu", work: Work = run_together) -> Iterator[Outcome]:
    """Jobs on the workers of a Dask scheduler; Dask itself runs again what a lost worker held."""
    dask = needed("dask.distributed", f"The engine {DASK}{address}", "lab")
    answering = partial(_answering, dask, address)
    with _without_log(), _client(dask, address) as client:
        source, pending = iter(jobs), dict[Any, Job]()
        try:
            while True:
                with answering():
                    # Workers come and go: twice as many jobs as threads are under way, so that none waits for work.
                    room = max(MIN_UNDER_WAY, 2 * sum(client.nthreads().values())) - len(pending)
                for job in islice(source, max(room, 0)):
                    name = f"job-{digest([block.key for block in job])}"
                    with answering():
                        pending[client.submit(_attempt, job, device, work, key=name, pure=False)] = job
                if not pending:
                    return
                with answering():
                    ready = {done: _outcome(done, pending[done]) for done in _finished(dask, client, list(pending))}
                for done, outcome in ready.items():
                    del pending[done]
                    yield outcome
        finally:
            # A scheduler that is gone has nothing left to cancel.
            with suppress(*_losses(dask)):
                client.cancel(list(pending))


def _finished(dask: Any, client: Any, futures: list[Any]) -> list[Any]:
    """Those that are done, as soon as one is; none if that takes long, since there may be new workers by then."""
    try:
        with client.as_current():
            return list(dask.wait(futures, timeout=LOOK_AGAIN, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return []


def _outcome(done: Any, job: Job) -> Outcome:
    """What a worker sent, or why it could not; a job that the scheduler forgot has no outcome, and raises."""
    if done.status == "error":
        return Outcome(job, None, _words(done.exception()))
    outcome: Outcome = done.result()
    return outcome


def _client(dask: Any, address: str) -> Any:
    try:
        return dask.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidValueError(f"No Dask scheduler answers at {address!r}: {error}") from error


def _losses(dask: Any) -> tuple[type[Exception], ...]:
    """What Dask raises when the scheduler is gone, or came back and knows nothing of our jobs."""
    return OSError, dask.CancelledError, dask.client.ClosedClientError


@contextmanager
def _answering(dask: Any, address: str) -> Iterator[None]:
    try:
        yield
    except _losses(dask) as error:
        raise SchedulerLostError(f"The Dask scheduler at {address!r} was lost ({type(error).__name__}).") from error


@contextmanager
def _without_log() -> Iterator[None]:
    """Dask's client logs a lost scheduler with a traceback; we say it in a sentence."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _attempt(job: Job, device: str, work: Work = run_together) -> Outcome:
    """A job's outcome; its error is part of it, so that one bad job does not stop the others."""
    try:
        return Outcome(job, work(job, device))
    except Exception as error:  # whatever happened belongs to this job and is reported with it
        return Outcome(job, None, _words(error))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
