"""Studies whose search foresees outcomes against the same without, on all sorts. (docs/results/outcomes.md)

python -m benchmarks.foreseeing [--seeds 30] [--workers 2] [--budget 64] [--kind order:4] [--answers 15]

A simulated person without noise answers; what counts is the utility of `study.best` at the end, and how many
designs were computed for it. Seven functions, none of which was looked at when the search was made.
"""

import argparse
import math
import statistics
from functools import partial
from multiprocessing import get_context

import numpy as np
import torch
from scipy.stats import wilcoxon

import kappasharp as ks
from kappasharp.acquisition import secants
from kappasharp.lab.statistics import holm
from kappasharp.study import simulation

DIMENSIONS, FIRST_SEED = (2, 3, 5), 1000


def beam(x):
    """A beam's mass, and what is left of its strength: smooth, and the smaller of two."""
    thick, rest = 0.2 + x[0], [0.3 + value for value in x[1:]]
    return 2.0 * thick + sum(rest), -max(1.0 / (thick * thick), 0.6 / min(rest))


def mixer(x):
    """Logarithms and exponentials of sums."""
    return math.log1p(4.0 * sum(x)), math.exp(-3.0 * sum((value - 0.6) ** 2 for value in x))


def ramp(x):
    """Lines that end."""
    return min(max(2.0 * x[0] - 0.5, 0.0), 1.0), abs(sum(x) / len(x) - 0.45)


def ring(x):
    """A distance, whose best place is its tip, and another."""
    return math.dist(x, [0.35] * len(x)), math.dist(x, [0.8] * len(x))


def steps(x):
    """Printed with one digit."""
    return round(sum((value - 0.4) ** 2 for value in x), 1), round(x[-1], 1)


def trap(x):
    """Smooth, with a small place that is better."""
    near = all(abs(value - 0.7) < 0.08 for value in x)
    return sum((value - 0.4) ** 2 for value in x) - (0.3 if near else 0.0), x[0] * x[-1]


def waves(x):
    """Two waves and a slope."""
    return math.sin(5.0 * x[0]) + math.cos(4.0 * x[-1]), sum(x) / len(x)


FUNCTIONS = {function.__name__: function for function in (beam, mixer, ramp, ring, steps, trap, waves)}


def utility(name, design):
    """Less of the first outcome, and some of the second."""
    first, second = FUNCTIONS[name](list(design.values()))
    return -first + 0.4 * second


def outcomes(name, design):
    return dict(zip(("first", "second"), FUNCTIONS[name](list(design.values())), strict=True))


def answer(name, question):
    """Exactly what is best, of a hundred places on a slider."""
    if question.kind == "slider":
        return max((place / 100.0 for place in range(101)), key=lambda place: utility(name, question.at(place)))
    worth = [utility(name, design) for design in question.designs]
    order = sorted(range(len(worth)), key=lambda i: -worth[i])
    return {"pair": "ab"[order[0] % 2], "choice": order[0], "order": order}[question.kind]


def studied(options, job):
    """The utility of the best design, and designs a question."""
    name, d, seed, foresees = job
    torch.set_num_threads(1)
    if options.budget:
        simulation.budget = lambda _: options.budget
    found = secants.foreseen
    if not foresees:
        secants.foreseen = lambda _: None
    try:
        space = {f"x{i}": (0.0, 1.0) for i in range(d)}
        study = ks.create_study(
            space, outcomes=partial(outcomes, name), storage="sqlite://", seed=seed, question=options.kind
        )
        for _ in range(options.answers):
            question = study.ask()
            study.tell(question, answer(name, question))
        return job, utility(name, study.best.params), study.definition.simulator.computed / options.answers
    finally:
        secants.foreseen = found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=int, default=0, help="designs a question, as if every call took its time")
    parser.add_argument("--kind", default="pair")
    parser.add_argument("--answers", type=int, default=22)
    options = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    jobs = [(name, d, seed, how) for name in FUNCTIONS for d in DIMENSIONS for seed in seeds for how in (True, False)]
    with get_context("spawn").Pool(options.workers) as pool:
        found = {job: (best, designs) for job, best, designs in pool.imap_unordered(partial(studied, options), jobs)}
    rows, values = [], []
    for name in FUNCTIONS:
        for d in DIMENSIONS:
            ours, theirs = (np.array([found[name, d, seed, how] for seed in seeds]) for how in (True, False))
            X = torch.rand(4096, d, generator=torch.Generator().manual_seed(0)).tolist()
            spread = statistics.stdev(utility(name, dict(enumerate(x))) for x in X)
            difference = (ours[:, 0] - theirs[:, 0]) / spread
            values.append(float(wilcoxon(difference).pvalue) if difference.any() else 1.0)
            rows.append((name, d, difference.mean(), ours[:, 1].mean(), theirs[:, 1].mean()))
    print(
        "| function | parameters | gain, in deviations | p | after Holm | designs | without |\n| --- |" + " ---: |" * 6
    )
    for (name, d, gain, ours, theirs), p, corrected in zip(rows, values, holm(values), strict=True):
        print(f"| {name} | {d} | {gain:+.4f} | {p:.2g} | {corrected:.2g} | {ours:.0f} | {theirs:.0f} |")


if __name__ == "__main__":
    main()
