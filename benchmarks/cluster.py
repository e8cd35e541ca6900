"""A Dask cluster on this machine: what a second worker brings, and what a block costs on the way through Dask.

Real scheduler and worker processes of one thread each, with the settings of experiments/dask.yaml. The work is
`primary` made small: all its 55 blocks, with fewer seeds and questions. A worker's start, with its import of torch, is
counted apart. One worker and two take turns, and the median of the ratios counts.
"""

import os
import statistics
import tempfile
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

import dask
from dask.distributed import Client, LocalCluster

from kappasharp.lab import conduct, engines, grid
from kappasharp.lab.experiment import parse
from kappasharp.lab.run import run_together

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
PRIMARY = EXPERIMENTS / "primary.toml"
SEEDS, QUERIES = 10, 5
REPEATS = 3
# Three blocks of sixty runs with fewer questions: four seconds each in place of forty, so that what Dask adds shows.
BLOCKS = {"problems": ["levy-10d"], "methods": ["adaptive"], "seeds": 180, "queries": 8}
BLOCK_REPEATS = 5


@contextmanager
def cluster(workers):
    """The address of a scheduler with so many workers that have imported what they need, and how long that took."""
    settings = dask.config.merge(dask.config.config, *dask.config.collect_yaml([str(EXPERIMENTS / "dask.yaml")]))
    begin = time.perf_counter()
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as running,
    ):
        with Client(running) as client:
            client.run(first_question)
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


def whole(path, address):
    """Seconds of the whole experiment, as `kappasharp run --engine dask://…` does it: claims and files included."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        todo = conduct.plan(path, Path(folder) / "results")
        steps = list(conduct.conduct(todo, engines.engine(f"dask://{address}")))
        seconds = time.perf_counter() - begin
    assert sum(step.runs for step in steps) == todo.n_runs and not any(step.error for step in steps)
    return seconds


def speedup(one, two):
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        path = write_small(Path(folder))
        for _ in range(REPEATS):
            alone, both = whole(path, one), whole(path, two)
            ratios.append(alone / both)
            print(f"  one worker {alone:.1f} s, two {both:.1f} s: {alone / both:.3f}; load {load()}", flush=True)
    return {"dask_speedup": statistics.median(ratios), "dask_speedup_each": ratios}


def overhead(address):
    jobs = [(block,) for block in grid.blocks(parse("blocks", table(**BLOCKS)))]
    run_together(jobs[0])  # warm-up
    ratios, transport = [], []
    for _ in range(BLOCK_REPEATS):
        direct, _ = timed(lambda: [run_together(job) for job in jobs])
        through, outcomes = timed(lambda: list(engines.engine(f"dask://{address}")(jobs)))
        inside = sum(row["seconds"] for outcome in outcomes for row in outcome.rows[0])
        ratios.append(through / direct - 1)
        transport.append(through / inside - 1)
        print(
            f"  {len(jobs)} blocks directly {direct:.2f} s, through Dask {through:.2f} s, {inside:.2f} s of it work; "
            f"load {load()}",
            flush=True,
        )
    return {"dask_overhead": statistics.median(ratios), "dask_overhead_transport": statistics.median(transport)}


def timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def load():
    return f"{os.getloadavg()[0]:.1f}"


def measure():
    """The part `dask` of the bench."""
    print(f"  load before: {load()}", flush=True)
    with cluster(1) as (one, start), cluster(2) as (two, _):
        print(f"  a worker's start, imports and first question: {start:.1f} s, not counted below", flush=True)
        return {"dask_start_s": start} | overhead(one) | speedup(one, two)


if __name__ == "__main__":
    print(measure())
