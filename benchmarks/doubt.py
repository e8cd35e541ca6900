"""How much outcomes that may be chance are to be doubted: development. (docs/results/outcomes.md, seventh round)

python -m benchmarks.doubt [--copies 6] [--seeds 10] [--workers 2]

Three kinds of copies of development problems, none of which a method is confirmed on: bent ones with their real
outcomes, waves that have nothing to do with the taste, and real outcomes that waves make erratic. A cell is the mean
gain over taste on parameters in the best design seen after forty questions, in deviations over the seeds of a copy; of
waves it is the share of what parameters gain since the first five questions that is missing.
"""

import argparse
from collections import defaultdict
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import torch

from kappasharp.algorithm import fit
from kappasharp.lab import experiment, grid, outcomes
from kappasharp.lab.run import play
from kappasharp.problems import registry, warped
from kappasharp.problems.registry import find_problem

NAMES = {
    "waves": ("dtlz2-8d", "carcab-7d", "vehicle-5d", "speedreducer-7d"),
    "real": ("dtlz2-8d", "dtlz2-16d", "dtlz2-20d", "vehicle-5d", "carcab-7d", "speedreducer-7d", "zdt2-20d"),
    "erratic": ("dtlz2-8d", "carcab-7d", "vehicle-5d"),
}
# How large the waves of erratic outcomes are, in deviations of the outcome.
ERRATIC = 0.5
# By how much outcomes are believed less for the unit of doubt, and the least mean of the logarithm of the ratio.
TRIED = {"parameters": None, "no doubt": (0.0, -4.0), "20": (20.0, -4.0), "40": (40.0, -4.0), "80": (80.0, -4.0)}
TRIED |= {"80, not below −2": (80.0, -2.0)}
FIRST_SEED, QUESTIONS, FIRST = 600, 40, 5


def erratic(problem):
    """The warped copy; what is seen of a design, and liked, has waves of its own."""
    copy = warped.warped(problem)
    size = len(copy.visible.names)
    waves = [warped.Waves(f"{problem.name}-erratic-{i}", problem.dimensions) for i in range(-(-size // 4))]
    sample = torch.rand(512, problem.dimensions, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    spread = copy.visible.measure(problem.to_native(sample)).std(0)

    def measure(X):
        added = torch.cat([one(problem.to_unit(X)) for one in waves], -1)[..., :size]
        return copy.visible.measure(X) + ERRATIC * spread * added

    seen = copy.visible._replace(measure=measure)
    return replace(copy, evaluate=seen.utility, visible=seen)


MADE = {"waves": warped.meaningless, "real": warped.warped, "erratic": erratic}


def register(copies):
    """Make the copies known; (kind, problem) → their names."""
    found = defaultdict(list)
    for kind, names in NAMES.items():
        for name in names:
            for copy in range(copies):
                made = MADE[kind](replace(find_problem(name), name=f"{name}-development-{copy}"))
                made = replace(made, name=f"{name}-development-{copy}-{kind}")
                registry.VARIANTS[made.name] = made
                found[kind, name].append(made.name)
    return found


def job(task):
    """The best seen after the first five questions and after the last, (2, seeds), of one copy."""
    tried, name, seeds = task
    torch.set_num_threads(1)
    if TRIED[tried] is not None:
        fit.DOUBTED, fit.LEAST_RATIO = TRIED[tried]
    made = {"problems": [name], "initializations": ["from_zero"], "presets": ["modern"], "queries": QUESTIONS}
    made |= {"seeds": seeds, "block_size": len(seeds), "methods": ["baseline" if TRIED[tried] is None else "outcomes"]}
    (block,) = grid.blocks(experiment.parse("doubt", made))
    steps = list(play([block]))
    return tried, name, [steps[0].seen[:, : 2 * FIRST].amax(1).tolist(), steps[-1].seen.amax(1).tolist()]


def cell(kind, ours, theirs):
    """What a row of copies says: the mean gain, or for waves the cost."""
    ours, theirs = (np.array([copy for copy in copies]) for copies in (ours, theirs))
    gain = (ours - theirs)[:, 1].mean()
    if kind == "waves":
        return f"{-gain / (theirs[:, 1] - theirs[:, 0]).mean():.1%}"
    return f"{gain / np.sqrt(theirs[:, 1].var(-1).mean()):+.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    copies = register(options.copies)
    seeds = list(range(FIRST_SEED, FIRST_SEED + options.seeds))
    names = sorted((name for found in copies.values() for name in found), key=lambda n: -find_problem(n).dimensions)
    found = defaultdict(dict)
    with get_context("fork").Pool(options.workers, maxtasksperchild=1) as pool:
        tasks = [(tried, name, seeds) for name in names for tried in TRIED]
        for tried, name, seen in pool.imap_unordered(job, tasks):
            found[tried][name] = seen
    print(f"| | doubt | {' | '.join(list(TRIED)[1:])} |\n| --- |" + " ---: |" * len(TRIED))
    for (kind, problem), own in copies.items():
        doubts = [0.0 if (lift := outcomes.lift(name)) is None else lift.doubt for name in own]
        cells = [
            cell(kind, [found[tried][name] for name in own], [found["parameters"][name] for name in own])
            for tried in list(TRIED)[1:]
        ]
        print(f"| {kind}: {problem} | {np.mean(doubts):.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
