"""Record the preference data on which the benches compare us with BoTorch.

Eighteen runs of BoTorch itself (PairwiseGP, EUBO, 4 restarts from 32 raw samples), 50 queries each, so that the
states are those its own users meet. A state of n points is a prefix of such a run.

    python -m benchmarks.record_states benchmarks/states.npz
"""

import sys
import warnings

import numpy as np
import torch

from benchmarks import peers
from kappasharp.problems.registry import find_problem

SEEDS = range(6)
QUERIES = 50


def record(problem, seed):
    np.random.seed(seed)  # BoTorch's MAP starts from NumPy's global generator
    player = peers.botorch(*peers.first_answers(problem, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(QUERIES):
            player.points = torch.cat([player.points, player.ask()])
            player.pairs = torch.cat([player.pairs, torch.tensor([peers.answer(problem, player.points)])])
            player.fitted = None
    return player.points.numpy(), player.pairs.numpy()


def main(path):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    arrays = {}
    for problem in map(find_problem, peers.PROBLEMS):
        for seed in SEEDS:
            name, (points, pairs) = problem.name, record(problem, seed)
            arrays[f"{name}/{seed}/points"], arrays[f"{name}/{seed}/pairs"] = points, pairs
            best = float(problem.unit_utility(torch.as_tensor(points)).max())
            print(f"{name} seed {seed}: best utility {best:.3f}", flush=True)
            np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
