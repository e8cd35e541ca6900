"""Workers: forked by a process that may be forked, with one torch thread, deaf to Ctrl-C, behind others if so told."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from kappasharp.processes import Pool


@pytest.fixture
def pool():
    found = Pool(1, niceness=3)
    yield found
    found.end()


@pytest.mark.skipif(sys.platform != "linux", reason="workers are spawned here")
def test_who_forks_them_has_torch_and_neither_threads_nor_a_gpu(pool):
    server = Path(f"/proc/{pool.submit(os.getppid).result()}")
    assert server.name != str(os.getpid())
    # The allocator of PyArrow, where something imported that, has a thread of its own on x86, and knows of forks.
    threads = {path.read_text().strip() for path in server.glob("task/*/comm")} - {"jemalloc_bg_thd"}
    assert "libtorch" in (server / "maps").read_text() and len(threads) == 1
    assert not pool.submit(torch.cuda.is_initialized).result()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs masks of signals")
def test_a_worker_has_one_thread_for_torch_and_does_not_hear_ctrl_c(pool):
    assert pool.submit(torch.get_num_threads).result() == 1
    assert pool.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN
    assert signal.SIGINT in pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_what_a_worker_prints_by_whatever_way_goes_to_stderr(pool):
    assert pool.submit(os.path.sameopenfile, 1, 2).result() and not os.path.sameopenfile(1, 2)


def test_it_stands_behind_others(pool):
    assert pool.submit(os.nice, 0).result() == os.nice(0) + 3


def test_the_end_of_a_pool_is_the_end_of_its_workers(pool):
    pool.submit(os.getpid).result()
    (worker,) = pool._processes.values()
    pool.end()
    worker.join(60)
    assert not worker.is_alive()


def test_once_its_end_was_waited_for_none_of_its_threads_is_left():
    """At the exit of Python such a thread may close what Python still writes to."""
    before = set(threading.enumerate())
    pool = Pool(2, bare=True)
    for _ in range(2):
        pool.submit(time.sleep, 60)
    own = set(threading.enumerate()) - before
    pool.end(wait=True)
    assert own and not own & set(threading.enumerate())
