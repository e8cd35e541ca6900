"""Worker processes that outlive their mistakes: a job that takes too long, or its process down, ends as a sentence."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from kappasharp.errors import KappaSharpError
from kappasharp.processes import Pool

# The person and the browser come first.
NICENESS = 5


class WorkerError(KappaSharpError, RuntimeError):
    """A job ended without a result: it took too long, or its process died."""


def ready() -> bool:
    """A job to warm a worker with: it is here."""
    return True


class Workers:
    """A few processes of one purpose, made anew when one of them breaks."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._warm: Future[bool] | None = None
        # The first worker takes seconds to start: whoever starts it waits, and that must not be the loop.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="start of workers")

    @property
    def is_warm(self) -> bool:
        """Whether a worker has started."""
        return self._warm is not None and self._warm.done()

    def start(self) -> None:
        """Start the processes, without waiting for them."""
        for _ in range(self.size):
            self._starter.submit(self.submit, ready)

    def submit(self, job: Callable[..., Any], *given: Any) -> "Future[Any]":
        """Have a job done some time."""
        with self._lock:
            try:
                return self._open_pool().submit(job, *given)
            except BrokenProcessPool:
                self._pool = None
                return self._open_pool().submit(job, *given)

    async def run(self, job: Callable[..., Any], *given: Any, limit: float) -> Any:
        """What a job comes to, or a WorkerError; the limit, in seconds, counts once the workers have started."""
        await self._started()
        future = self.submit(job, *given)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), limit)
        except TimeoutError as error:
            if not future.done():
                self.close()
            raise WorkerError(f"It took longer than {limit:g} seconds.") from error
        except BrokenProcessPool as error:
            raise WorkerError("Its process ended unexpectedly.") from error
        except asyncio.CancelledError as error:
            if future.cancelled():
                raise WorkerError("It was given up together with another that took too long.") from error
            future.cancel()
            raise

    async def _started(self) -> None:
        """Wait for the first worker: on a busy machine its start takes longer than a job may."""
        if self.is_warm:
            return
        opening = asyncio.get_running_loop().run_in_executor(self._starter, self._warming)
        warm = asyncio.wrap_future(await opening)
        # Whatever became of it: the job itself will say.
        warm.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        await asyncio.wait({warm})

    def _warming(self) -> "Future[bool]":
        with self._lock:
            self._open_pool()
            assert self._warm is not None
            return self._warm

    def close(self) -> None:
        """End all processes; another job would start new ones."""
        with self._lock:
            pool, self._pool, self._warm = self._pool, None, None
        if pool is not None:
            pool.end()

    def _open_pool(self) -> Pool:
        if self._pool is None:
            self._pool = Pool(self.size, niceness=NICENESS)
            self._warm = self._pool.submit(ready)
        return self._pool
