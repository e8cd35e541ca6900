"""A Dask cluster on this machine: what a second worker brings, and what a block costs on the way through Dask.

Real scheduler and worker processes of one thread each, with the settings of experiments/dask.yaml. The work is
`primary` made small: all its 55 blocks, with fewer seeds and questions. A worker's start, with its import of torch, is
counted apart. One worker and two take turns, and the median of the ratios counts.

Those times need an idle machine. Beside each stands a figure that a busy neighbour hardly moves. `dask_overhead_cpu`
compares processor time, that of Dask's own threads in the worker included, and adds what passed outside the work.
`dask_speedup_cpu` is the number of workers at work, on average, over the same for one worker, divided by how much more
processor time the work took with two.
"""

import os
import statistics
import tempfile
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import dask
from dask.distributed import Client, LocalCluster

from kappasharp.lab import grid, schedule
from kappasharp.lab.experiment import parse
from kappasharp.lab.run import run_together
from kappasharp.processes import Pool

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
PRIMARY = EXPERIMENTS / "primary.toml"
SEEDS, QUERIES = 10, 5
REPEATS = 3
# Three blocks of sixty runs as the grid has them, four or five seconds each.
BLOCKS = {"problems": ["levy-10d"], "methods": ["adaptive"], "seeds": 180}
BLOCK_REPEATS = 5


@contextmanager
def cluster(workers):
    """The address of a scheduler whose workers have imported what they need, and how long that took."""
    settings = dask.config.merge(dask.config.config, *dask.config.collect_yaml([str(EXPERIMENTS / "dask.yaml")]))
    begin = time.perf_counter()
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as running,
    ):
        with Client(running) as client:
            for worker in client.scheduler_info()["workers"]:
                client.submit(first_question, workers=worker, pure=False).result()
        yield running.scheduler_address.removeprefix("tcp://"), time.perf_counter() - begin


def first_question():
    run_together(grid.blocks(parse("first", table(problems=["levy-10d"], methods=["adaptive"], seeds=1, queries=1))))


def table(**changes):
    return tomllib.loads(PRIMARY.read_text("utf-8")) | changes


def write_small(folder):
    """`primary` with fewer seeds and questions, as a file."""
    lines = [line for line in PRIMARY.read_text("utf-8").splitlines() if not line.startswith(("seeds", "queries"))]
    path = folder / "primary_small.toml"
    path.write_text("\n".join([*lines, f"seeds = {SEEDS}", f"queries = {QUERIES}", ""]))
    return path


class Spent(NamedTuple):
    """Seconds from begin to end, in jobs, and of the workers' processors during jobs."""

    wall: float
    inside: float
    processor: float


def watched(job, device):
    """The job's work, its rows with the processor time that the whole worker took meanwhile."""
    before = time.process_time()
    rows = run_together(job, device)
    spent = {"processor": (time.process_time() - before) / sum(map(len, rows))}
    return [[row | spent for row in part] for part in rows]


def through_dask(address, consume):
    """What was spent while `consume` used the engine."""
    rows = []

    def engine(jobs):
        for outcome in schedule.engine(f"dask://{address}")(jobs, work=watched):
            rows.extend(row for part in outcome.rows for row in part)
            yield outcome

    wall, result = timed(lambda: consume(engine))
    return Spent(wall, *(sum(row[name] for row in rows) for name in ("seconds", "processor"))), result


def whole(path, address):
    """The whole experiment, as `kappasharp run --engine dask://…` does it: claims and files included."""
    with tempfile.TemporaryDirectory() as folder:
        todo = schedule.plan(path, Path(folder) / "results")
        spent, steps = through_dask(address, lambda engine: list(schedule.run_missing(todo, engine)))
    assert sum(step.runs for step in steps) == todo.n_runs and not any(step.error for step in steps)
    return spent


def speedup(one, two):
    ratios, by_processor = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = write_small(Path(folder))
        for _ in range(REPEATS):
            alone, both = whole(path, one), whole(path, two)
            ratios.append(alone.wall / both.wall)
            busy = (both.inside / both.wall) / (alone.inside / alone.wall)
            by_processor.append(busy * alone.processor / both.processor)
            print(
                f"  one worker {alone.wall:.1f} s, two {both.wall:.1f} s: {ratios[-1]:.3f}, by processor time "
                f"{by_processor[-1]:.3f} (busy {busy / 2:.3f}); load {load()}",
                flush=True,
            )
    return {"dask_speedup": statistics.median(ratios), "dask_speedup_cpu": statistics.median(by_processor)}


def directly(jobs):
    """Seconds of the jobs one after another, and of the processor."""
    before = time.process_time()
    wall, _ = timed(lambda: [run_together(job) for job in jobs])
    return wall, time.process_time() - before


def overhead():
    """In fresh processes on both sides each time: one may be some per cent faster than another, all its life."""
    jobs = [(block,) for block in grid.blocks(parse("blocks", table(**BLOCKS)))]
    ratios, by_processor = [], []
    for _ in range(BLOCK_REPEATS):
        with Pool(1) as plain:  # one that never heard of Dask
            plain.submit(first_question).result()
            direct, processor = plain.submit(directly, jobs).result()
        with cluster(1) as (address, _):
            spent, _ = through_dask(address, lambda engine: list(engine(jobs)))
        ratios.append(spent.wall / direct - 1)
        by_processor.append((spent.processor + spent.wall - spent.inside) / processor - 1)
        print(
            f"  {len(jobs)} blocks directly {direct:.2f} s, through Dask {spent.wall:.2f} s: {ratios[-1]:.4f}; "
            f"processor {processor:.2f} s, {spent.processor:.2f} s, outside {spent.wall - spent.inside:.2f} s: "
            f"{by_processor[-1]:.4f}; load {load()}",
            flush=True,
        )
    return {"dask_overhead": statistics.median(ratios), "dask_overhead_cpu": statistics.median(by_processor)}


def timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def load():
    return f"{os.getloadavg()[0]:.1f}"


def measure():
    """The part `dask` of the bench."""
    print(f"  load before: {load()}", flush=True)
    found = overhead()
    with cluster(1) as (one, start), cluster(2) as (two, _):
        print(f"  a worker's start, imports and first question: {start:.1f} s, not counted below", flush=True)
        return found | {"dask_start_s": start} | speedup(one, two)


if __name__ == "__main__":
    print(measure())
