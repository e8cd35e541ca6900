"""Hours for a million runs of the paper's grid on machines of several sizes: a simulation with measured rates.

    python -m benchmarks.estimate
    python -m benchmarks.estimate --runs 16500 --seeds 50

What it knows is in benchmarks/rates.json: `measured` comes from runs, `assumed` is a guess about clusters that we do
not have. A node has one `kappasharp run` with one worker per core; all nodes share a folder, as in a SLURM job array.
Each runner walks the same list of blocks, longest first, and pays for every claim, also where another node was first.
Blocks of one problem differ in length. Nodes are stopped at random moments: what they ran is lost and run again. Time
in the cluster's queue is not counted.
"""

import argparse
import json
from bisect import bisect
from dataclasses import dataclass
from heapq import heapify, heapreplace
from pathlib import Path

import numpy as np

from kappasharp.problems.registry import PROBLEMS

RATES = Path(__file__).with_name("rates.json")
KINDS = ("analytic", "simulators")


@dataclass(frozen=True)
class Machine:
    """So many nodes; every node's workers, the runs in one job, and its key in the rates."""

    name: str
    rates: str
    nodes: int
    workers: int
    runs_per_job: int = 60
    one_kind_at_a_time: bool = False
    may_be_stopped: bool = False


MACHINES = (
    Machine("laptop, 2 cores", "laptop", 1, 2),
    Machine("one machine, 16 cores", "cores_16", 1, 16),
    # Analytic problems on the GPU, stacked; then the simulators on its machine's cores.
    Machine("one H200, 14 processes", "h200", 1, 14, runs_per_job=240, one_kind_at_a_time=True),
    Machine("10 nodes of 16 cores", "cores_16", 10, 16, may_be_stopped=True),
    Machine("100 nodes of 16 cores", "cores_16", 100, 16, may_be_stopped=True),
)


def kind(problem):
    return KINDS[PROBLEMS[problem].is_simulated]


def durations(machine, rates, runs, rng):
    """Seconds of every job, in queues that go one after another; the longest problems first, as the lab sorts them."""
    measured = rates["measured"]
    shares = measured["seconds_per_run"]
    found = {name: [] for name in KINDS}
    for name in KINDS:
        problems = sorted((p for p in PROBLEMS if kind(p) == name), key=lambda p: -shares[p])
        mean = np.mean([shares[p] for p in problems])
        each = machine.runs_per_job * machine.workers / measured["runs_per_second"][machine.rates][name]
        spread = measured["block_spread"]
        for problem in problems:
            jobs = round(runs / len(PROBLEMS) / machine.runs_per_job)
            noise = np.exp(rng.normal(-(spread**2) / 2, spread, jobs))
            found[name].extend(each * shares[problem] / mean * noise)
    return [found[name] for name in KINDS] if machine.one_kind_at_a_time else [found[KINDS[1]] + found[KINDS[0]]]


class Nodes:
    """The runners of all nodes: where each is in the list, until when it is busy, and when it will be stopped."""

    def __init__(self, machine, rates, horizon, rng):
        self.claim, self.store = rates["assumed"]["claim_seconds"], rates["measured"]["store_seconds_per_block"]
        self.wait = rates["assumed"]["stop_seconds"]
        self.at, self.free = [0] * machine.nodes, [0.0] * machine.nodes
        per_hour = rates["assumed"]["stops_per_node_hour"] * machine.may_be_stopped
        counts = rng.poisson(per_hour * horizon / 3600, machine.nodes)
        self.stops = [sorted(rng.uniform(0, horizon, count)) for count in counts]

    def serve(self, node, time, head):
        """When the node's runner has stored the last job and found the next one."""
        walked = max(head - self.at[node], 0) + 1
        self.at[node] = head + 1
        self.free[node] = max(time, self.free[node]) + self.store + self.claim * walked
        return self.free[node]

    def stopped(self, node, begin, end):
        """The moment between the two at which the node is stopped, if there is one."""
        found = bisect(self.stops[node], begin)
        return self.stops[node][found] if found < len(self.stops[node]) and self.stops[node][found] < end else None


def makespan(jobs, machine, rates, runs, rng):
    """Seconds until the last job is stored."""
    horizon = 3 * sum(jobs) / (machine.nodes * machine.workers) + 3600
    nodes = Nodes(machine, rates, horizon, rng)
    begin = rates["measured"]["start_seconds"] + rates["measured"]["plan_seconds_per_run"] * runs
    free = [(begin, node) for node in range(machine.nodes) for _ in range(machine.workers)]
    heapify(free)
    last, head, again = 0.0, 0, []
    while head < len(jobs) or again:
        time, node = free[0]
        time = nodes.serve(node, time, head)
        if again:
            duration = again.pop()
        else:
            duration, head = jobs[head], head + 1
        stop = nodes.stopped(node, time, time + duration)
        if stop is None:
            last = max(last, time + duration)
            heapreplace(free, (time + duration, node))
        else:
            again.append(duration)
            heapreplace(free, (stop + nodes.wait + begin, node))
    return last


def hours(machine, rates, runs, seed):
    rng = np.random.default_rng(seed)
    return sum(makespan(jobs, machine, rates, runs, rng) for jobs in durations(machine, rates, runs, rng)) / 3600


def table(runs, seeds):
    """Median hours and the middle nine tenths of the simulations, as the lines of a table."""
    rates = json.loads(RATES.read_text("utf-8"))
    lines = [f"| {runs:,} runs on | hours | 5 % | 95 % |", "| --- | ---: | ---: | ---: |"]
    for machine in MACHINES:
        found = [hours(machine, rates, runs, seed) for seed in range(seeds)]
        low, middle, high = np.quantile(found, (0.05, 0.5, 0.95))
        lines.append(f"| {machine.name} | {middle:.3g} | {low:.3g} | {high:.3g} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=20, help="simulations of every machine")
    options = parser.parse_args()
    print("\n".join(table(options.runs, options.seeds)))


if __name__ == "__main__":
    main()
