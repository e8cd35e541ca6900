"""What a search through outcomes costs and reaches: EUBO by question, settings side by side. (docs/results/outcomes.md)

python -m benchmarks.through [--seeds 3]

The states are those of development runs; the measure is what a pair promises beyond the best design seen, as a share of
what the `thorough` search finds, and processor seconds of one thread.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
import torch

from kappasharp.acquisition import eubo, maximize
from kappasharp.acquisition.maximize import MAXIMIZERS, Request
from kappasharp.core import posterior
from kappasharp.lab import experiment, grid
from kappasharp.lab.run import play
from kappasharp.methods import loop
from kappasharp.streams import stream

PROBLEMS, FIRST_SEED, QUESTIONS, AT = ("vehicle-5d", "carcab-7d", "dtlz2-8d", "dtlz2-20d"), 500, 40, (8, 14, 20, 28, 36)
USUAL = MAXIMIZERS["default"]
TRIED = {
    "thorough": MAXIMIZERS["thorough"],
    "default": USUAL,
    "48 starts, 12 rounds": replace(USUAL, raw=256, starts=48, finalists=48, max_rounds=12),
    "48 starts, 2 go on": replace(USUAL, raw=256, starts=48, finalists=2, sorting_rounds=6),
}


def states(problem, seeds):
    """States of runs before some of their questions."""
    made = {"problems": [problem], "initializations": ["from_zero"], "methods": ["outcomes"], "presets": ["modern"]}
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        wanted = {"seeds": [seed], "queries": QUESTIONS, "block_size": 1}
        (block,) = grid.blocks(experiment.parse("through", made | wanted))
        for step in play([block]):
            if step.before.step + 5 in AT:
                yield step.before


@torch.inference_mode()
def reached(state, maximizer):
    """What the pair found promises beyond the best design seen, and the seconds that it took."""
    fitted = loop.learn(state).corrected.posterior
    request = Request([stream(state.seeds[0], "through", str(state.step))], hints=state.hints)
    begin = time.process_time()
    found = maximize.propose(fitted, maximizer, request)
    seconds = time.process_time() - begin
    best = posterior.own_mean(fitted).amax()
    return float(eubo.value(fitted, *found.pair.split(1, 1)).squeeze() - best), seconds, int(found.rounds.max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| problem | search | of `thorough`: mean | least | ms | rounds |\n| --- | --- |" + " ---: |" * 4)
    for problem in PROBLEMS:
        found = {name: [] for name in TRIED}
        for state in states(problem, options.seeds):
            for name, maximizer in TRIED.items():
                found[name].append(reached(state, maximizer))
        most = np.array([gain for gain, _, _ in found["thorough"]])
        for name, rows in found.items():
            gain, seconds, rounds = (np.array(part) for part in zip(*rows, strict=True))
            share = gain / most
            numbers = f"{share.mean():.4f} | {share.min():.3f} | {1e3 * np.median(seconds):.0f} | {rounds.mean():.0f}"
            print(f"| {problem} | {name} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
