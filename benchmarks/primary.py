"""How long `kappasharp run experiments/primary.toml --engine processes` takes here: a sample, or all of it.

    python -m benchmarks.primary           # one true block of every problem, a fifth of the work
    python -m benchmarks.primary --full    # all 55 blocks; nothing is extrapolated

The sample runs blocks as the experiment has them, sixty seeds and fifty questions, because a run's cost depends on the
size of its block. The methods take turns over the problems. Extrapolated is only this: that the other four methods of a
problem take as long as the one that was run. The 55 blocks are then laid out on the workers, longest first, as the
lab does. `primary_minutes_cpu` is the same by processor time, which a busy neighbour hardly moves: what an idle machine
would need.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from heapq import heapreplace
from pathlib import Path

from benchmarks.cluster import PRIMARY, load, watched
from kappasharp.lab import grid, schedule
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
    """Wall and processor seconds of every block by its problem, and of all together, by the engine that users have."""
    rows, engine = {}, schedule.engine("processes", workers=WORKERS)

    def watching(jobs):
        for outcome in engine(jobs, work=watched):
            rows.update({block.key: part[0] for block, part in zip(outcome.job, outcome.rows, strict=True)})
            yield outcome

    with tempfile.TemporaryDirectory() as folder:
        todo = schedule.plan(PRIMARY, Path(folder) / "results")._replace(left=blocks)
        begin, found = time.perf_counter(), defaultdict(list)
        for step in schedule.run_missing(todo, watching):
            assert not step.error
            row, name = rows[step.block.key], f"{step.block.problem} {step.block.method}"
            found[step.block.problem].append((row["seconds"] * step.runs, row["processor"] * step.runs))
            print(
                f"  {name:24}{row['seconds']:7.3f} s a run, {row['processor']:.3f} s of it computing; load {load()}",
                flush=True,
            )
        return found, time.perf_counter() - begin


def laid_out(found, at, share, rest):
    """Minutes of the whole, if each sampled block stands for `share` blocks and `rest` seconds come on top."""
    return (makespan([spent[at] for part in found.values() for spent in part * share], WORKERS) + rest) / 60


def measure(full=False):
    """The part `primary` of the bench."""
    blocks = grid.blocks(read(PRIMARY))
    chosen = blocks if full else sample(blocks)
    share = len(blocks) // len(chosen)
    print(f"  {len(chosen)} of {len(blocks)} blocks; load before: {load()}", flush=True)
    found, wall = conducted(chosen)
    # What is neither a worker's work nor waiting for the last one: starting processes, claims, files.
    rest = wall - 60 * laid_out(found, 0, 1, 0.0)
    minutes, alone = laid_out(found, 0, share, rest), laid_out(found, 1, share, rest)
    words = "measured" if full else f"extrapolated from {wall / 60:.1f} minutes"
    print(
        f"  primary on {WORKERS} processes: {minutes:.1f} minutes, {words}; by processor time {alone:.1f}", flush=True
    )
    runs = {problem: len(part) * len(blocks[0].seeds) for problem, part in found.items()}
    each = {problem: sum(spent[1] for spent in part) / runs[problem] for problem, part in found.items()}
    return {"primary_minutes": minutes, "primary_minutes_cpu": alone, "primary_cpu_seconds_per_run": each}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="run all blocks")
    print(json.dumps(measure(parser.parse_args().full), indent=2))
