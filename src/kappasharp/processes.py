"""Worker processes of this machine: not forked from their parent, deaf to Ctrl-C, one torch thread each, and never
longer here than their parent. Torch is imported by those that compute alone. What they print goes to stderr: stdout is
for data. And commands, run within limits.
"""

import multiprocessing
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from importlib import import_module
from multiprocessing import connection, util
from multiprocessing.context import BaseContext
from types import ModuleType
from typing import IO, Any, NamedTuple

# A pool's thread ends within milliseconds of its workers; no longer than this is it waited for, in seconds.
ENDS_WITHIN = 10.0


# Before an object on its way to a worker, or back, stands how many bytes it has; how many are read at a time.
LENGTH, AT_ONCE = struct.Struct("=Q"), 2**16


class _Workers(dict[int, Any]):
    """A pool's workers, of the moment at which somebody asks: its own thread looks at them while another starts one."""

    def values(self) -> list[Any]:  # type: ignore[override]  # who iterates over them knows no difference
        return list(super().values())


class Pool(ProcessPoolExecutor):
    """A pool of such workers.

    Args:
        size: how many there are.
        niceness: how far they stand behind other processes.
        with_main: whether workers import the program that was started, as jobs that name its functions need. A script
            that is no module, with all its work at its top, would start it again.
        bare: starts each from nothing, without the program and without torch: soonest, for jobs that need neither.
        preload: modules that the jobs need and that this process may not have.
    """

    def __init__(
        self,
        size: int,
        *,
        niceness: int = 0,
        with_main: bool = True,
        bare: bool = False,
        preload: Sequence[str] = (),
    ) -> None:
        self._size, self._with_main = size, with_main and not bare
        context = multiprocessing.get_context("spawn") if bare else _context(preload)
        super().__init__(size, context, initializer=begin, initargs=(niceness, bare))
        self._processes = _Workers()

    def submit(self, job: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        """Have a job done."""
        # Only where one starts: whoever else starts one now may wait seconds for torch, with the program out of sight.
        starts = len(self._processes or ()) < self._size
        with _no_main() if starts and not self._with_main else nullcontext():
            try:
                return self._submit(job, *given, **named)
            except (EOFError, OSError) as error:
                # Who forks the workers was ended, or the system gives no more processes.
                raise BrokenProcessPool(_not_started(error)) from error

    def _submit(self, job: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        with _deaf():
            return super().submit(job, *given, **named)

    def end(self, *, wait: bool = False) -> None:
        """End all workers now, whatever they are doing.

        Whoever may be about to exit waits until the pool's own thread has ended too: else Python, at its exit, may
        write to a pipe that the thread is closing, and says so with a traceback.
        """
        workers = list((self._processes or {}).values())
        thread: Any = self._executor_manager_thread
        self.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            # The number of one that has ended may be another process's by now.
            if worker.is_alive():
                worker.kill()
        if wait and thread is not None:
            thread.join(ENDS_WITHIN)


class Done(NamedTuple):
    """As much of a future as is asked of one that is done: a job's answer, or its error."""

    answer: Any
    error: Exception | None = None

    def result(self, _: float) -> Any:
        """The answer; or the error, raised."""
        if self.error is not None:
            raise self.error
        return self.answer


class Wire:
    """One such worker at the end of a pipe, for one job at a time: quicker there and back than a pool."""

    def __init__(self) -> None:
        prepare()
        context: Any = _context(())
        self._ours, theirs = socket.socketpair()
        self._sent: dict[Callable[..., Any], int] = {}  # jobs that the worker knows by number
        self._worker = context.Process(target=_answer, args=(theirs,))
        self._owner = os.getpid()
        # Also at the exit of this process, which waits for its workers; a fork of it may hold the pipe open.
        self._hung_up = util.Finalize(self, _hang_up, (self._ours, self._worker), exitpriority=0)
        try:
            with _no_main(), _deaf():
                self._worker.start()
        except BaseException as error:
            # Ctrl-C is heard once the worker has started.
            self._hung_up()
            if isinstance(error, EOFError | OSError):
                raise BrokenProcessPool(_not_started(error)) from error
            raise
        finally:
            theirs.close()

    def call(self, job: Callable[..., Any], /, *given: Any, within: float) -> Any:
        """What a job returns; or its error, or TimeoutError after so many seconds, or BrokenProcessPool.

        Whoever is interrupted ends the worker: its answer must not be taken for that of another job.
        """
        try:
            self._ours.settimeout(within)
            _send(self._ours, (self._sent.get(job, job), given))
            self._sent.setdefault(job, len(self._sent))
            succeeded, found = _received(self._ours)
        except BaseException as error:
            self._hung_up()
            if isinstance(error, TimeoutError) or not isinstance(error, EOFError | OSError):
                raise
            raise BrokenProcessPool(f"A worker has ended: {type(error).__name__}.") from error
        if not succeeded:
            raise found
        return found

    @property
    def is_open(self) -> bool:
        """Whether it takes jobs: of the process that opened it, and of no fork, which would read others' answers."""
        return self._owner == os.getpid() and self._ours.fileno() >= 0

    def end(self, *, wait: bool = False) -> None:
        """End the worker now, whatever it is doing."""
        if self._owner != os.getpid():
            return
        if self._worker.is_alive():
            self._worker.kill()
        if wait:
            self._worker.join(ENDS_WITHIN)


def _send(wire: socket.socket, given: Any) -> None:
    """Send an object to the other end: its length, then itself."""
    message = pickle.dumps(given)
    wire.sendall(LENGTH.pack(len(message)) + message)


def _received(wire: socket.socket) -> Any:
    """What the other end sent; EOFError where nobody is there any more."""
    found, size = b"", LENGTH.size
    while len(found) < size:
        more = wire.recv(AT_ONCE)
        if not more:
            raise EOFError
        found += more
        if size == LENGTH.size <= len(found):
            size += LENGTH.unpack_from(found)[0]
    return pickle.loads(memoryview(found)[LENGTH.size :])


def _hang_up(ours: Any, worker: Any) -> None:
    ours.close()
    if worker.is_alive():
        worker.kill()


def _answer(wire: socket.socket) -> None:
    """What the worker of a wire does: one job after the other, until nobody can send another."""
    begin()
    # For all jobs at once: what is printed is seen at once.
    sys.stdout = sys.stderr
    known: list[Callable[..., Any]] = []
    with suppress(EOFError, OSError):
        while True:
            job, given = _received(wire)
            if isinstance(job, int):
                job = known[job]
            else:
                known.append(job)
            try:
                found = True, job(*given)
            except Exception as error:
                found = False, error
            _send(wire, found)


def _not_started(error: Exception) -> str:
    return f"A worker could not be started: {type(error).__name__}: {error}."


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start now inherit the mask: Ctrl-C is the parent's business, which ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


def _context(preload: Sequence[str]) -> BaseContext:
    """How workers start: never as forks of the parent, which may hold threads and a GPU."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    # A process between the two imports torch and what the parent has of the package, once, and forks the workers: each
    # is there in milliseconds, and they share the memory. It touches no GPU, so that they may. The libraries of other
    # systems do not survive a fork.
    context = multiprocessing.get_context("forkserver")
    ours = sorted(name for name in list(sys.modules) if name.startswith("kappasharp."))
    context.set_forkserver_preload(["torch", *ours, *preload])
    return context


def prepare(preload: Sequence[str] = ()) -> None:
    """Begin to import what workers will need, in the process that forks them, while this one goes on."""
    if sys.platform == "linux":
        from multiprocessing import forkserver, resource_tracker  # noqa: PLC0415 - other systems have none

        _context(preload)
        # The start of this one lets Ctrl-C through again.
        resource_tracker.ensure_running()
        with _deaf():
            forkserver.ensure_running()


def begin(niceness: int = 0, bare: bool = False) -> None:
    """What a worker does first; a niceness above 0 puts it behind others, a bare one imports no torch."""
    if bare:
        # For torch and the libraries of linear algebra, should the job import them.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        import_module("kappasharp.tensors").set_one_thread()
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    _join_stdout()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _join_stdout() -> None:
    """Let descriptor 1 be 2: libraries in C and commands print past Python's `sys.stdout`."""
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)


@contextmanager
def stdout_apart() -> Iterator[None]:
    """What is printed meanwhile, by whatever library or command, goes to stderr; for one thread at a time."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no stdout
        kept = None
    try:
        if kept is not None:
            _join_stdout()
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _end_with(sentinel: int) -> None:
    # A parent that was killed cannot say so; its workers would wait for it for ever.
    connection.wait([sentinel])
    os._exit(1)


def end_with_parent() -> None:
    """The same for a program that was started as a command: once whoever started it has ended, it ends too."""
    threading.Thread(target=_end_without, args=(os.getppid(),), daemon=True).start()


def _end_without(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_FOR_PARENT)
    os._exit(1)


# How often a command is looked at, and a parent that is no worker's, in seconds.
LOOK, LOOK_FOR_PARENT = 0.02, 1.0


class Ended(NamedTuple):
    """How a command ended: its exit code, what it wrote, and whether it was ended for its time or for its length."""

    code: int
    output: bytes
    errors: bytes
    late: bool
    endless: bool


def run_command(
    words: Sequence[str],
    given: bytes,
    *,
    seconds: float | None = None,
    most_bytes: int = 2**20,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command, without a shell, to its end: with these bytes on its standard input, within these limits.

    It is ended with all that it started where it passes them, or where this is interrupted.
    """
    # Files and no pipes: a command need not read what it is given, and may write as it likes.
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        source.write(given)
        source.seek(0)
        process = subprocess.Popen(
            words, stdin=source, stdout=output, stderr=errors, start_new_session=True, env=environment
        )
        try:
            late, endless = _watched(process, (output, errors), seconds, most_bytes)
        finally:
            _end(process)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(most_bytes))
        return Ended(process.returncode, texts[0], texts[1], late, endless)


def _watched(
    process: "subprocess.Popen[bytes]", files: Sequence[IO[bytes]], seconds: float | None, most_bytes: int
) -> tuple[bool, bool]:
    """Wait for the end, or for a limit: whether that was the one of time, and whether the one of length."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)
        endless = any(os.fstat(file.fileno()).st_size > most_bytes for file in files)
        late = process.returncode is None and deadline is not None and time.monotonic() > deadline
        if late or endless or process.returncode is not None:
            return late, endless


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
        process.wait()
