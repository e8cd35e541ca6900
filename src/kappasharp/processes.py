"""Worker processes of this machine: spawned, deaf to Ctrl-C, one torch thread each, and never longer here than their
parent.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import connection
from typing import Any

import torch


class Pool(ProcessPoolExecutor):
    """A pool of such workers."""

    def __init__(self, size: int, *, niceness: int = 0) -> None:
        # Spawned, not forked: the parent may hold threads and a GPU.
        super().__init__(size, multiprocessing.get_context("spawn"), initializer=begin, initargs=(niceness,))

    def submit(self, job: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Have a job done."""
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
            worker.kill()


def begin(niceness: int = 0) -> None:
    """What a worker does first; a niceness above 0 puts it behind others."""
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
