"""Where jobs run: here, in processes of this machine, or on a Dask cluster. One signature for all three.

An engine takes jobs as it has room for them and yields an outcome for each, in any order. It never loses one: what
fails comes back as an outcome with an error, and what a dying worker held is run again.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import torch

from kappasharp.errors import InvalidValueError, needed
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
    """Jobs in processes of this machine, one torch thread each."""
    # Several processes share a GPU well only through a service that may not run, so they must be asked for.
    count = workers or (_cores() if device == "cpu" else 1)
    source, again, deaths = iter(jobs), list[Job](), Counter[Job]()
    task = partial(_attempt, device=device, work=work)
    while True:
        # Which of the jobs under way killed its worker cannot be told, so that the last try of each is alone.
        alone = [job for job in again if deaths[job] == MOST_DEATHS - 1]
        side_by_side = chain([job for job in again if job not in alone], source)
        died: list[Job] = []
        for supply, room in (*((iter([job]), 1) for job in alone), (side_by_side, count)):
            yield from _in_pool(supply, room, task, died)
        deaths.update(died)
        words = f"WorkerDiedError: {MOST_DEATHS} workers died while they ran this"
        yield from (Outcome(job, None, words) for job in died if deaths[job] == MOST_DEATHS)
        again = [job for job in died if deaths[job] < MOST_DEATHS]
        if not again:
            return


def _in_pool(supply: Iterator[Job], room: int, task: Callable[[Job], Outcome], died: list[Job]) -> Iterator[Outcome]:
    """Outcomes until there is no more job, or a worker dies: what was under way is then added to `died`."""
    pending: dict[Future[Outcome], Job] = {}
    pool = Pool(room)
    try:
        while True:
            for job in islice(supply, room - len(pending)):
                pending[_submit(pool, task, job)] = job
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                outcome = future.result()
                del pending[future]
                yield outcome
    except BrokenProcessPool:
        died.extend(pending.values())
    finally:
        pool.end()  # also in the middle of a block


def _submit(pool: Pool, task: Callable[[Job], Outcome], job: Job) -> Future[Outcome]:
    """The future of a job; of one that came too late for a broken pool too, so that it is not lost."""
    try:
        return pool.submit(task, job)
    except BrokenProcessPool as error:
        late: Future[Outcome] = Future()
        late.set_exception(error)
        return late


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def distributed(jobs: Iterable[Job], address: str, device: str = "cpu", work: Work = run_together) -> Iterator[Outcome]:
    """Jobs on the workers of a Dask scheduler; Dask itself runs again what a lost worker held."""
    dask = needed("dask.distributed", f"The engine {DASK}{address}", "lab")
    with _client(dask, address) as client:
        source, pending = iter(jobs), dict[Any, Job]()
        try:
            while True:
                # Workers come and go: twice as many jobs as threads are under way, so that none waits for work.
                room = max(MIN_UNDER_WAY, 2 * sum(client.nthreads().values())) - len(pending)
                for job in islice(source, max(room, 0)):
                    name = f"job-{digest([block.key for block in job])}"
                    pending[client.submit(_attempt, job, device, work, key=name, pure=False)] = job
                if not pending:
                    return
                for done in _finished(dask, client, list(pending)):
                    job = pending.pop(done)
                    yield done.result() if done.status == "finished" else Outcome(job, None, _words(done.exception()))
        finally:
            client.cancel(list(pending))


def _finished(dask: Any, client: Any, futures: list[Any]) -> list[Any]:
    """Those that are done, as soon as one is; none if that takes long, since there may be new workers by then."""
    try:
        with client.as_current():
            return list(dask.wait(futures, timeout=LOOK_AGAIN, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return []


def _client(dask: Any, address: str) -> Any:
    try:
        return dask.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidValueError(f"No Dask scheduler answers at {address!r}: {error}") from error


def _attempt(job: Job, device: str, work: Work = run_together) -> Outcome:
    """A job's outcome; its error is part of it, so that one bad job does not stop the others."""
    try:
        return Outcome(job, work(job, device))
    except Exception as error:  # whatever happened belongs to this job and is reported with it
        return Outcome(job, None, _words(error))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
