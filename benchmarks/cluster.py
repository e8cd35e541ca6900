"""A Dask cluster on this machine: what a second worker brings, and what a block costs on the way through Dask.

Real scheduler and worker processes of one thread each. The work is `primary` made small: all its 55 blocks, with fewer
seeds and questions. A worker's start, with its import of torch, is counted apart. One worker and two take turns, and
the median of the ratios counts: a neighbour that makes both slow for a while does not move it.
"""

import os
import statistics
import tempfile
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path

from dask.distributed import Client, LocalCluster

from kappasharp.lab import conduct, engines, grid
from kappasharp.lab.experiment import parse
from kappasharp.lab.run import run_together

PRIMARY = Path(__file__).parents[1] / "experiments" / "primary.toml"
SEEDS, QUERIES = 10, 5
REPEATS = 3
# One block of true size in the seeds, with fewer questions: it takes four seconds, in place of forty.
BLOCK = {"problems": ["levy-10d"], "methods": ["adaptive"], "seeds": 60, "queries": 8}
BLOCK_REPEATS = 7


@contextmanager
def cluster(workers: int):
    """The address of a scheduler with so many workers, all of which have imported what they need."""
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as running:
        with Client(running) as client:
            begin = time.perf_counter()
            client.run(_import)
            seconds = time.perf_counter() - begin
        yield running.scheduler_address.removeprefix("tcp://"), seconds


def _import() -> None:
    block = grid.blocks(parse("warm_up", _table(problems="all", methods=["adaptive"], seeds=1, queries=1)))[0]
    run_together((block,))


def _table(**changes):
    return tomllib.loads(PRIMARY.read_text("utf-8")) | changes


def write_small(folder: Path) -> Path:
    """`primary` with fewer seeds and questions, as a file."""
    lines = [line for line in PRIMARY.read_text("utf-8").splitlines() if not line.startswith(("seeds", "queries"))]
    path = folder / "primary_small.toml"
    path.write_text("\n".join([*lines, f"seeds = {SEEDS}", f"queries = {QUERIES}", ""]))
    return path


def whole(path: Path, address: str) -> float:
    """Seconds of the whole experiment, as `kappasharp run --engine dask://…` does it: claims and files included."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        todo = conduct.plan(path, Path(folder) / "results")
        steps = list(conduct.conduct(todo, engines.engine(f"dask://{address}")))
        seconds = time.perf_counter() - begin
    assert sum(step.runs for step in steps) == todo.n_runs and not any(step.error for step in steps)
    return seconds


def speedup(one: str, two: str) -> dict:
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        path = write_small(Path(folder))
        for _ in range(REPEATS):
            alone, both = whole(path, one), whole(path, two)
            ratios.append(alone / both)
            print(f"  one worker {alone:.1f} s, two {both:.1f} s: {alone / both:.3f}; load {_load()}", flush=True)
    return {"dask_speedup": statistics.median(ratios), "dask_speedup_each": ratios}


def overhead(address: str) -> dict:
    (block,) = grid.blocks(parse("block", _table(**BLOCK)))
    run_together((block,))  # warm-up
    ratios, transport = [], []
    for _ in range(BLOCK_REPEATS):
        direct, _ = _timed(lambda: run_together((block,)))
        through, outcomes = _timed(lambda: list(engines.engine(f"dask://{address}")([(block,)])))
        inside = sum(row["seconds"] for row in outcomes[0].rows[0])
        ratios.append(through / direct - 1)
        transport.append(through / inside - 1)
        print(
            f"  a block directly {direct:.2f} s, through Dask {through:.2f} s ({inside:.2f} s of it work)", flush=True
        )
    return {"dask_overhead": statistics.median(ratios), "dask_overhead_transport": statistics.median(transport)}


def _timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def dask():
    """The part of the bench."""
    print(f"  load before: {_load()}", flush=True)
    with cluster(1) as (one, start), cluster(2) as (two, _):
        print(f"  a worker's imports and first block: {start:.1f} s, not counted below", flush=True)
        return {"dask_import_s": start} | overhead(one) | speedup(one, two)


if __name__ == "__main__":
    print(dask())
