"""Worker processes of this machine: not forked from their parent, deaf to Ctrl-C, one torch thread each, and never
longer here than their parent. Torch is imported by those that compute alone.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import connection
from multiprocessing.context import BaseContext
from types import ModuleType
from typing import Any


class Pool(ProcessPoolExecutor):
    """A pool of such workers.

    Args:
        size: how many there are.
        niceness: how far they stand behind other processes.
        alone: starts each from nothing, as those that use a GPU must.
        with_main: whether workers import the program that was started, as jobs that name its functions need. A script
            that is no module, with all its work at its top, would start it again.
        bare: starts each from nothing, without the program and without torch: soonest, for jobs that need neither.
    """

    def __init__(
        self, size: int, *, niceness: int = 0, alone: bool = False, with_main: bool = True, bare: bool = False
    ) -> None:
        self._with_main = with_main and not bare
        context = multiprocessing.get_context("spawn") if alone or bare else _context()
        super().__init__(size, context, initializer=begin, initargs=(niceness, bare))

    def submit(self, job: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Have a job done."""
        with nullcontext() if self._with_main else _no_main():
            return self._submit(job, *given, **named)

    def _submit(self, job: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        if not hasattr(signal, "pthread_sigmask"):
            return super().submit(job, *given, **named)
        # The pool starts its workers here, and they inherit the mask: Ctrl-C is the parent's business, which ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(job, *given, **named)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """End all workers now, whatever they are doing."""
        workers = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            # The number of one that has ended may be another process's by now.
            if worker.is_alive():
                worker.kill()


_hiding = threading.Lock()


@contextmanager
def _no_main() -> Iterator[None]:
    """The program that was started is out of sight of workers that start now."""
    with _hiding:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _context() -> BaseContext:
    """How workers start: never as forks of the parent, which may hold threads and a GPU."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    # A process between the two imports torch and what the parent has of the package, once, and forks the workers: each
    # is there in milliseconds, and they share the memory. The libraries of other systems do not survive a fork.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", *sorted(name for name in sys.modules if name.startswith("kappasharp."))])
    return context


def begin(niceness: int = 0, bare: bool = False) -> None:
    """What a worker does first; a niceness above 0 puts it behind others, a bare one imports no torch."""
    if bare:
        # For torch and the libraries of linear algebra, should the job import them.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        import torch  # noqa: PLC0415

        torch.set_num_threads(1)
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    # A parent that was killed cannot say so; its workers would wait for it for ever.
    connection.wait([sentinel])
    os._exit(1)
