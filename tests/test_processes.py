"""Workers: forked by a process that may be forked, with one torch thread, deaf to Ctrl-C, behind others if so told."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import torch

from kappasharp import processes
from kappasharp.processes import Pool, Wire


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


def test_a_job_for_a_worker_that_is_there_waits_for_no_other_start():
    """Who starts one may wait seconds for torch; a page's loop submits meanwhile."""
    pool = Pool(1, bare=True)
    pool.submit(os.getpid).result()
    with processes._hiding:
        job = threading.Thread(target=lambda: pool.submit(os.getpid).result(), daemon=True)
        job.start()
        job.join(60)
        assert not job.is_alive()
    pool.end(wait=True)


def test_a_worker_that_starts_while_the_pools_thread_looks_at_the_others_breaks_nothing(pool):
    assert pool.submit(os.getpid).result() in pool._processes
    # What `concurrent.futures` holds on to in its own thread, and goes through when a worker dies.
    seen = iter(pool._executor_manager_thread.processes.values())
    worker = next(seen)
    pool._processes[-1] = worker
    assert list(seen) == []
    del pool._processes[-1]


class TestWire:
    """One worker at the end of a pipe."""

    @pytest.fixture
    def wire(self):
        found = Wire()
        yield found
        found.end(wait=True)

    def test_a_job_comes_back_with_what_it_returned_or_raised(self, wire):
        assert wire.call(os.getpid, within=60) == wire._worker.pid == wire.call(os.getpid, within=60)
        with pytest.raises(ValueError, match="invalid literal"):
            wire.call(int, "x", within=60)
        assert wire.call(torch.get_num_threads, within=60) == 1
        assert wire.call(signal.getsignal, signal.SIGINT, within=60) is signal.SIG_IGN

    def test_one_that_takes_too_long_or_ends_its_worker_is_an_error_of_its_own(self, wire):
        with pytest.raises(TimeoutError):
            wire.call(time.sleep, 60, within=0.05)
        other = Wire()
        with pytest.raises(BrokenProcessPool):
            other.call(os._exit, 3, within=60)
        with pytest.raises(BrokenProcessPool):
            other.call(os.getpid, within=60)
        other.end()

    def test_who_is_interrupted_never_reads_the_answer_to_another_job(self, wire, monkeypatch):
        """Ctrl-C while it waits: the answer that comes too late belongs to nobody."""

        def interrupted(_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(processes, "_received", interrupted)
            with pytest.raises(KeyboardInterrupt):
                wire.call(os.getpid, within=60)
        assert not wire.is_open
        with pytest.raises(BrokenProcessPool):
            wire.call(os.getppid, within=60)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
    def test_a_fork_of_its_process_leaves_it_alone(self, wire):
        child = os.fork()
        if child == 0:
            wire.end()
            os._exit(int(wire.is_open))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert wire.is_open and wire.call(os.getpid, within=60) == wire._worker.pid

    def test_its_end_is_the_end_of_the_worker(self, wire):
        wire.end(wait=True)
        assert not wire._worker.is_alive()
        with pytest.raises(BrokenProcessPool):
            wire.call(os.getpid, within=60)

    def test_a_program_that_leaves_it_open_can_exit(self, tmp_path):
        """Its worker is no daemon, for it may have children of its own, and Python waits for such at its exit."""
        words = (
            "from kappasharp.processes import Wire\nimport os\nkept = Wire()\nprint(kept.call(os.getpid, within=60))"
        )
        (tmp_path / "open.py").write_text(words, "utf-8")
        words = [sys.executable, tmp_path / "open.py"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stderr == ""
        with pytest.raises(ProcessLookupError):
            os.kill(int(done.stdout), 0)
