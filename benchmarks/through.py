"""What a search through outcomes costs and reaches: EUBO by question, settings side by side. (docs/results/outcomes.md)

python -m benchmarks.through [--seeds 3]
python -m benchmarks.through --budgets 64 128 256 512 1024 2048      the usual search with so many designs a question

The states are those of development runs; the measure is what a pair promises beyond the best design seen, as a share of
what the `thorough` search finds, and processor seconds of one thread.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
import torch

from kappasharp.acquisition import eubo, maximize
from kappasharp.acquisition.maximize import Request
from kappasharp.algorithm import loop
from kappasharp.inference import posterior
from kappasharp.lab import experiment, grid
from kappasharp.lab.run import play
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS

PROBLEMS, FIRST_SEED, QUESTIONS, AT = ("vehicle-5d", "carcab-7d", "dtlz2-8d", "dtlz2-20d"), 500, 40, (8, 14, 20, 28, 36)
USUAL = MAXIMIZERS["default"]
# Each with its budget; 0 for none.
TRIED = {
    "thorough": (MAXIMIZERS["thorough"], 0),
    "default": (USUAL, 0),
    "48 starts, 12 rounds": (replace(USUAL, raw=256, starts=48, finalists=48, max_rounds=12), 0),
    "48 starts, 2 go on": (replace(USUAL, raw=256, starts=48, finalists=2, sorting_rounds=6), 0),
}


class Counted:
    """A lift with another budget, and how many designs it was asked for."""

    def __init__(self, lift, budget):
        self.lift, self.size, self.doubt, self.budget, self.count = lift, lift.size, lift.doubt, budget, 0

    def __call__(self, X):
        self.count += X.numel() // X.shape[-1]
        return self.lift(X)


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
def reached(state, maximizer, budget):
    """What the pair found promises beyond the best design seen; seconds, rounds and designs that it took."""
    fitted = loop.learn(state).corrected.posterior
    lift = Counted(fitted.lift, budget)
    request = Request([stream(state.seeds[0], "through", str(state.step))], hints=state.hints)
    begin = time.process_time()
    found = maximize.propose(fitted._replace(lift=lift), maximizer, request)
    seconds = time.process_time() - begin
    gain = eubo.value(fitted, *found.pair.split(1, 1)).squeeze() - posterior.own_mean(fitted).amax()
    return float(gain), seconds, int(found.rounds.max()), lift.count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", type=int, nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tried = TRIED
    if options.budgets:
        tried = {"thorough": TRIED["thorough"]} | {f"{budget} designs": (USUAL, budget) for budget in options.budgets}
    print("| problem | search | of `thorough`: mean | least | ms | rounds | designs |\n| --- | --- |" + " ---: |" * 5)
    for problem in PROBLEMS:
        found = {name: [] for name in tried}
        for state in states(problem, options.seeds):
            for name, (maximizer, budget) in tried.items():
                found[name].append(reached(state, maximizer, budget))
        most = np.array([gain for gain, *_ in found["thorough"]])
        for name, rows in found.items():
            gain, seconds, rounds, designs = (np.array(part) for part in zip(*rows, strict=True))
            share = gain / most
            cells = [f"{share.mean():.4f}", f"{share.min():.3f}", f"{1e3 * np.median(seconds):.0f}"]
            cells += [f"{rounds.mean():.0f}", f"{designs.mean():.0f}"]
            print(f"| {problem} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
