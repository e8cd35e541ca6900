"""How long `kappasharp run experiments/primary.toml --engine processes` takes here: a sample, or all of it.

    python -m benchmarks.primary           # one true block of every problem, a fifth of the work
    python -m benchmarks.primary --full    # all 55 blocks; nothing is extrapolated

The sample runs blocks as the experiment has them, sixty seeds and fifty questions, because a run's cost depends on the
size of its block. The methods take turns over the problems. Extrapolated is only this: that the other four methods of a
problem take as long as the one that was run. The 55 blocks are then laid out on the workers, longest first, as the
lab does.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from heapq import heapreplace
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.cluster import PRIMARY, load
from kappasharp.lab import conduct, engines, grid
from kappasharp.lab.experiment import read

WORKERS = 2


def sample(blocks):
    """One block of every problem; every method in turn."""
    methods = list(dict.fromkeys(block.method for block in blocks))
    problems = list(dict.fromkeys(block.problem for block in blocks))
    wanted = {(problem, methods[at % len(methods)]) for at, problem in enumerate(problems)}
    return [block for block in blocks if (block.problem, block.method) in wanted]


def makespan(durations, workers):
    """Seconds until the last of the jobs is done, the longest first."""
    free = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapreplace(free, free[0] + duration)
    return max(free)


def conducted(blocks):
    """Seconds of every block by its problem, and of all together, by the engine that users have."""
    with tempfile.TemporaryDirectory() as folder:
        todo = conduct.plan(PRIMARY, Path(folder) / "results")._replace(left=blocks)
        begin, found = time.perf_counter(), defaultdict(list)
        for step in conduct.conduct(todo, engines.engine("processes", workers=WORKERS)):
            assert not step.error
            table = pq.read_table(todo.store.blocks / f"{step.block.key}.parquet", columns=["seconds"])
            seconds = table["seconds"][0].as_py()
            found[step.block.problem].append(seconds * step.runs)
            name = f"{step.block.problem} {step.block.method}"
            print(f"  {name:24}{seconds * step.runs:7.1f} s, {seconds:.3f} s a run; load {load()}", flush=True)
        return found, time.perf_counter() - begin


def measure(full=False):
    """The part `primary` of the bench."""
    blocks = grid.blocks(read(PRIMARY))
    chosen = blocks if full else sample(blocks)
    print(f"  {len(chosen)} of {len(blocks)} blocks; load before: {load()}", flush=True)
    found, wall = conducted(chosen)
    runs = sum(len(block.seeds) for block in chosen) // len(found)
    each = {problem: sum(seconds) / runs for problem, seconds in found.items()}
    if full:
        minutes = wall / 60
    else:
        share = len(blocks) // len(chosen)
        # What is neither a worker's work nor waiting for the last one: starting processes, claims, files.
        rest = wall - makespan([seconds for part in found.values() for seconds in part], WORKERS)
        minutes = (makespan([s for part in found.values() for s in part * share], WORKERS) + rest) / 60
    words = "measured" if full else f"extrapolated from {wall / 60:.1f} minutes"
    print(f"  primary on {WORKERS} processes: {minutes:.1f} minutes, {words}", flush=True)
    return {"primary_minutes": minutes, "primary_is_whole": full, "primary_seconds_per_run": each}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run all blocks")
    print(json.dumps(measure(parser.parse_args().full), indent=2))
