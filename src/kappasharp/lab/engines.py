"""Where blocks run: here, in processes of this machine, or on a Dask cluster. One signature for all three.

An engine takes blocks as it has room for them and yields an outcome for each, in any order. It never loses one: what
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
from itertools import islice
from typing import Any, NamedTuple

from kappasharp.errors import InvalidValueError, MissingLibraryError
from kappasharp.lab.grid import Block
from kappasharp.lab.run import Row, run_block

# A block during which so many workers died is not tried again.
MOST_DEATHS = 3
DASK = "dask://"
MIN_UNDER_WAY = 4


class Outcome(NamedTuple):
    """A block's rows, or why there are none."""

    block: Block
    rows: list[Row] | None
    error: BaseException | None = None


Engine = Callable[[Iterable[Block]], Iterator[Outcome]]


class WorkerDiedError(RuntimeError):
    """The workers that ran a block died, again and again."""


def engine(name: str, device: str = "cpu", workers: int | None = None) -> Engine:
    """The engine of that name: serial, processes, or dask://scheduler:port."""
    if name == "serial":
        return partial(serial, device=device)
    if name == "processes":
        return partial(processes, device=device, workers=workers)
    if name.startswith(DASK):
        return partial(distributed, address=name.removeprefix(DASK), device=device)
    raise InvalidValueError(f"`engine` must be serial, processes or {DASK}host:port, but got {name!r}.")


def serial(blocks: Iterable[Block], device: str = "cpu") -> Iterator[Outcome]:
    """One block after another, in this process."""
    for block in blocks:
        yield _attempt(block, device)


def processes(blocks: Iterable[Block], device: str = "cpu", workers: int | None = None) -> Iterator[Outcome]:
    """Blocks in processes of this machine, one torch thread each."""
    count = workers or len(os.sched_getaffinity(0))
    source, again, deaths = iter(blocks), deque[Block](), Counter[str]()
    while True:
        with _pool(count) as pool:
            pending: dict[Future[Outcome], Block] = {}
            try:
                while _fill(pending, _attempt_in(pool), (again, source, device), count + 1):
                    for future in wait(pending, return_when=FIRST_COMPLETED).done:
                        outcome = future.result()
                        del pending[future]
                        yield outcome
                return
            except BrokenProcessPool:
                # Which of the running blocks killed its worker cannot be told: each may have.
                deaths.update(block.key for block in pending.values())
        for block in pending.values():
            if deaths[block.key] < MOST_DEATHS:
                again.append(block)
            else:
                yield Outcome(block, None, WorkerDiedError(f"{MOST_DEATHS} workers died while they ran this block"))


def _fill(
    pending: dict[Future[Outcome], Block],
    submit: Callable[[Block, str], Future[Outcome]],
    supply: tuple[deque[Block], Iterator[Block], str],
    room: int,
) -> bool:
    """Hand out blocks until there is no more room or no more block; whether any is under way."""
    again, source, device = supply
    while len(pending) < room:
        block = again.popleft() if again else next(source, None)
        if block is None:
            break
        pending[submit(block, device)] = block
    return bool(pending)


def distributed(blocks: Iterable[Block], address: str, device: str = "cpu") -> Iterator[Outcome]:
    """Blocks on the workers of a Dask scheduler; Dask itself runs again what a lost worker held."""
    try:
        from dask.distributed import Client, as_completed  # noqa: PLC0415 - an optional library
    except ImportError as error:
        raise MissingLibraryError(
            f"The engine {DASK}{address} needs Dask ({error}); `pip install 'kappasharp[lab]'` installs it."
        ) from error
    with Client(address, set_as_default=False) as client:
        source, finished = iter(blocks), as_completed()
        pending: dict[str, tuple[Any, Block]] = {}
        try:
            while True:
                # Workers come and go: twice as many blocks as threads are under way, so that none waits for work.
                room = max(MIN_UNDER_WAY, 2 * sum(client.nthreads().values())) - len(pending)
                for block in islice(source, max(room, 0)):
                    future = client.submit(_attempt, block, device, key=f"block-{block.key}", pure=False)
                    pending[future.key] = (future, block)
                    finished.add(future)
                if not pending:
                    return
                done = next(finished)
                _, block = pending.pop(done.key)
                yield done.result() if done.status == "finished" else Outcome(block, None, done.exception())
        finally:
            client.cancel([future for future, _ in pending.values()])


def _attempt(block: Block, device: str) -> Outcome:
    """A block's outcome; its error is part of it, so that one bad block does not stop the others."""
    try:
        return Outcome(block, run_block(block, device))
    except Exception as error:  # whatever happened belongs to this block and is reported with it
        return Outcome(block, None, error)


def _attempt_in(pool: ProcessPoolExecutor) -> Callable[[Block, str], Future[Outcome]]:
    return lambda block, device: pool.submit(_attempt, block, device)


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
