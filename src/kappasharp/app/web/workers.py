"""Worker processes that outlive their mistakes: a job that takes too long, or its process down, ends as a sentence."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any

import torch

from kappasharp.errors import KappaSharpError

NICENESS = 5


class CrewError(KappaSharpError, RuntimeError):
    """A job ended without a result: it took too long, or its process died."""


def begin() -> None:
    """What a worker does first: one thread, behind others, no Ctrl-C of its own, and an end when its parent ends."""
    torch.set_num_threads(1)
    # The person and the browser come first.
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    # A parent that was killed cannot say so; its workers would wait for it for ever.
    connection.wait([sentinel])
    os._exit(1)


def ready() -> bool:
    """A job to warm a worker with: it is here."""
    return True


class Crew:
    """A few processes of one purpose, made anew when one of them breaks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._warm: Future[bool] | None = None

    @property
    def is_warm(self) -> bool:
        """Whether a worker has started."""
        return self._warm is not None and self._warm.done()

    def start(self) -> None:
        """Start the processes, without waiting for them."""
        for _ in range(self.size):
            self.submit(ready)

    def submit(self, job: Callable[..., Any], *given: Any) -> "Future[Any]":
        """Have a job done."""
        with self._lock:
            try:
                return self._executor().submit(job, *given)
            except BrokenProcessPool:
                self._pool = None
                return self._executor().submit(job, *given)

    async def result(self, future: "Future[Any]", limit: float) -> Any:
        """What a job came to, or a CrewError."""
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), limit)
        except TimeoutError as error:
            if not future.done():
                self.close()
            raise CrewError(f"It took longer than {limit:g} seconds.") from error
        except BrokenProcessPool as error:
            raise CrewError("Its process ended unexpectedly.") from error
        except asyncio.CancelledError as error:
            if not future.cancelled():
                raise
            raise CrewError("It was given up together with another that took too long.") from error

    def close(self) -> None:
        """End all processes; another job would start new ones."""
        with self._lock:
            pool, self._pool, self._warm = self._pool, None, None
        if pool is not None:
            _end(pool)

    def _executor(self) -> ProcessPoolExecutor:
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.size, mp_context=spawn, initializer=begin)
            self._warm = self._pool.submit(ready)
        return self._pool


def _end(pool: ProcessPoolExecutor) -> None:
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.kill()
