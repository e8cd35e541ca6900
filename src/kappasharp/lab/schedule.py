"""What is run, together with what, and within which memory.

An experiment, a folder and an engine together: what is missing is run, what is finished is kept. Blocks go to the
engine as jobs, the longest first; how many runs share a batch is limited by number and by a worker's memory.

The estimate of memory counts the largest tensors of one question, of which there are two kinds: matrices over the end
points of all answers while the hyperparameters are searched for, and a pool of candidates while the next pair is. Its
constants were fitted to measured peaks on a CPU, of 5 to 20 dimensions and 25 to 115 answers; a test holds it within a
factor of two.
"""

import logging
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kappasharp.acquisition.maximize import INCUMBENTS, SHORTLIST, UNKNOWN
from kappasharp.errors import InvalidValueError, KappaSharpError, needed
from kappasharp.lab import grid
from kappasharp.lab.experiment import Experiment, read
from kappasharp.lab.external.contract import MethodError, OwnProcess
from kappasharp.lab.external.methods import Peer
from kappasharp.lab.grid import Block, digest
from kappasharp.lab.run import ERROR, Row, error_rows, run_together
from kappasharp.lab.store import Store
from kappasharp.problems.registry import find_problem
from kappasharp.processes import Pool
from kappasharp.questions.comparisons import beside
from kappasharp.questions.kind import PAIR, Kind
from kappasharp.settings import MAXIMIZERS, Method, Preset

# How much longer a run takes that simulates, and one of another library: as measured, roughly. They only set the order.
SIMULATED, PEER = 3, 100
DOUBLE = 8
# A worker that has imported everything and holds no run yet: about 250 MB measured, Dask and the simulators on top.
IDLE = 350 * 1000**2
# Copies alive at once: matrices over end points, their coordinates; a pool's coordinates, pairs of a shortlist.
MATRICES, ENDS = 5, 10
CANDIDATES, PAIRS = 8, 10
UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4, "KIB": 2**10, "MIB": 2**20,
         "GIB": 2**30, "TIB": 2**40}  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """How large a batch may be: in runs (by default, a block as it is), and in a worker's memory in bytes."""

    runs: int | None = None
    memory: int | None = None

    def of(self, block: Block) -> int:
        """How many runs of this block's shape may go together."""
        runs = len(block.seeds) if self.runs is None else self.runs
        return runs if self.memory is None else min(runs, runs_within(block, self.memory))


class Sizes(NamedTuple):
    """A run's sizes at its last question."""

    points: int
    answers: int
    dimensions: int


def bytes_per_run(size: Sizes, preset: Preset) -> int:
    """Bytes that one run adds to the peak of its batch."""
    points, answers, dimensions = size
    ends = 2 * answers
    fit = MATRICES * ends**2 + ENDS * ends * dimensions
    maximizer = MAXIMIZERS[preset.maximizer]
    pool = maximizer.raw + INCUMBENTS * (maximizer.copies + 1) if maximizer.from_pool else 2 * maximizer.raw
    shortlist = SHORTLIST + UNKNOWN if maximizer.from_pool else 0
    search = pool * (points + answers + CANDIDATES * dimensions) + PAIRS * shortlist**2
    return DOUBLE * max(fit, search)


def sizes(block: Block) -> Sizes:
    """The sizes of a block's runs at their last question: one of q designs adds at most q points, and q − 1 answers."""
    first = block.start
    dimensions = find_problem(block.problem).dimensions
    method = block.method_values
    q = method.designs if isinstance(method, Method) else PAIR
    if isinstance(method, Method) and method.kind is Kind.SLIDER:
        q = 1 + (method.others or beside(q).others)
    asked = block.queries if block.is_shown_first else block.asked
    return Sizes(first.n_points + q * asked, first.n_comparisons + (q - 1) * asked, dimensions)


def runs_within(block: Block, budget: int) -> int:
    """How many runs of a block's shape fit into a worker's budget of bytes."""
    each = bytes_per_run(sizes(block), block.preset_values)
    count = (budget - IDLE) // each
    if count < 1:
        raise InvalidValueError(
            f"`memory` must hold a worker with one run, {(IDLE + each) / 1000**2:.0f} MB for {block.problem} with "
            f"{block.queries} questions, but got {budget / 1000**2:.0f} MB."
        )
    return count


AS_THEY_ARE = Limit()


class FinishedBlock(NamedTuple):
    """A block that is done: how many runs it held, how many of them failed, and why the first of these did."""

    block: Block
    runs: int
    error: str | None
    failed: int = 0


class Workload(NamedTuple):
    """What there is to do: everything wanted, and what of it is not yet stored."""

    name: str
    store: Store
    wanted: list[Block]
    left: list[Block]
    # How many of the stored runs failed in a suite, and are not run again.
    n_failed: int = 0

    @property
    def n_runs(self) -> int:
        """Runs wanted, each counted once."""
        return len({key for block in self.wanted for key in block.keys})

    @property
    def n_left(self) -> int:
        """Runs still to do."""
        return sum(len(block.seeds) for block in self.left)


def plan(path: Path, out: Path) -> Workload:
    """Read the experiment, open the folder, and see what is missing."""
    experiment = read(path)
    return plan_all(experiment.name, [(experiment, path.read_text("utf-8"))], out)


def plan_all(name: str, experiments: Iterable[tuple[Experiment, str]], out: Path) -> Workload:
    """What is missing of several experiments, each with its text, in one folder."""
    experiments = list(experiments)
    wanted = [block for experiment, _ in experiments for block in grid.blocks(experiment)]
    store = Store(out).open()
    for experiment, text in experiments:
        store.remember(experiment.name, text)
    ended = store.ended()
    failed = {key for block in wanted for key in block.keys if ended.get(key)}
    return Workload(name, store, wanted, grid.missing(wanted, set(ended)), len(failed))


def check_methods(todo: Workload) -> None:
    """Refuse what cannot even begin, such as a factory that is not there, before anything is run."""
    firsts = {block.method: block for block in reversed(todo.left)}
    for block in firsts.values():
        peer = block.method_values
        if not isinstance(peer, Peer):
            continue
        try:
            with OwnProcess(peer.words, block.limit) as player:
                dimensions = find_problem(block.problem).dimensions
                player.begin(dimensions, block.seeds[0], block.problem if peer.sees_outcomes else "")
        except MethodError as error:
            raise MethodError(f"The method {block.method} cannot begin, so nothing was run: {error}") from error


# Where jobs run: here, in processes of this machine, or on a Dask cluster. One signature for all three.
#
# An engine takes jobs as it has room for them and yields an outcome for each, in any order. It never loses one: what
# fails comes back as an outcome with an error, and what a dying worker held is run again.


Job = tuple[Block, ...]  # blocks that run as one batch


class Outcome(NamedTuple):
    """A job's rows, block by block, or why there are none: in words, since not every error can travel."""

    job: Job
    rows: list[list[Row]] | None
    error: str | None = None


Engine = Callable[[Iterable[Job]], Iterator[Outcome]]


def run_missing(todo: Workload, engine: Engine, limit: Limit = AS_THEY_ARE) -> Iterator[FinishedBlock]:
    """Run what is left, storing every block as soon as it is finished; another runner's blocks are left to it."""
    stored = 0
    with Claims(todo.store) as claims:
        try:
            for job, rows, error in engine(claims.over(jobs(todo.left, limit))):
                for at, block in enumerate(job):
                    part = error_rows(block, str(error)) if rows is None else rows[at]
                    todo.store.write(block.key, part)
                    claims.release(block)
                    stored += len(block.seeds)
                    errors = [row["error"] for row in part if row["status"] == ERROR]
                    yield FinishedBlock(block, len(part), errors[0] if errors else None, len(errors))
        except SchedulerLostError as lost:
            remedy = "start a scheduler, and the same command goes on with the rest."
            raise SchedulerLostError(f"{lost} {stored} of {todo.n_left} runs were stored before; {remedy}") from lost


class Claims:
    """The blocks that this runner holds, taken as the engine has room."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held: set[str] = set()

    def __enter__(self) -> "Claims":
        self.store.forget_dead_claims()
        return self

    def __exit__(self, *_: object) -> None:
        for name in tuple(self.held):
            self.store.release(name)

    def over(self, jobs: list[Job]) -> Iterator[Job]:
        """The jobs, without the blocks that somebody else holds or has finished by now."""
        for job in jobs:
            mine = tuple(block for block in job if self._take(block))
            if mine:
                yield mine

    def _take(self, block: Block) -> bool:
        if not self.store.claim(block.key):
            return False
        self.held.add(block.key)
        if self.store.has(block.key):
            self.release(block)
            return False
        return True

    def release(self, block: Block) -> None:
        """The block is stored: its claim has done its work."""
        self.store.release(block.key)
        self.held.discard(block.key)


def jobs(blocks: Iterable[Block], limit: Limit) -> list[Job]:
    """The blocks as batches within the limit, the longest first: then the last ones leave no worker idle for long."""
    if limit.runs is None:
        batches: list[Job] = [(piece,) for block in blocks for piece in cut(block, limit.of(block))]
    else:
        alike = defaultdict(list)
        for block in blocks:
            alike[limit.of(block)].append(block)
        batches = [
            batch
            for most, group in alike.items()
            for batch in grid.together([piece for block in group for piece in cut(block, most)], most)
        ]
    return sorted(batches, key=lambda batch: sum(length(block) for block in batch), reverse=True)


def cut(block: Block, most: int) -> list[Block]:
    """A block in as few pieces as have at most `most` runs, of nearly equal size. Runs keep their keys."""
    count = -(-len(block.seeds) // most)
    ends = [at * len(block.seeds) // count for at in range(count + 1)]
    parts = [slice(low, high) for low, high in pairwise(ends)]
    return [replace(block, seeds=block.seeds[part], keys=block.keys[part]) for part in parts]


def length(block: Block) -> int:
    """How long a block takes beside others, in no unit: to sort by, not to believe."""
    problem = find_problem(block.problem)
    slow = PEER if isinstance(block.method_values, Peer) else SIMULATED if problem.is_simulated else 1
    return len(block.seeds) * block.queries * problem.dimensions * slow


def read_memory(text: str) -> int:
    """Bytes from words like 4GB, 512 MiB or 8e9."""
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([a-z]*)\s*", text, re.IGNORECASE)
    if found is None or found[2].upper() not in UNITS:
        raise InvalidValueError(f"`memory` must be a number with a unit, like 4GB or 512MB, but got {text!r}.")
    try:
        return int(float(found[1]) * UNITS[found[2].upper()])
    except ValueError as error:
        raise InvalidValueError(f"`memory` must begin with a number, but got {text!r}.") from error


# A job is not tried again after this many workers died during it.
MOST_DEATHS = 3
DASK = "dask://"
MIN_UNDER_WAY = 4
# How often to look for workers that have joined, in seconds.
LOOK_AGAIN = 2.0
Work = Callable[[Sequence[Block], str], list[list[Row]]]


class SchedulerLostError(KappaSharpError, ConnectionError):
    """A Dask scheduler went away during a run."""


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
