"""Record the preference data on which the benches compare us with BoTorch.

Eighteen runs of BoTorch itself (PairwiseGP, EUBO, 4 restarts from 32 raw samples), 50 queries each, so that the
states are those its own users meet. A state of n points is a prefix of such a run.

    python -m benchmarks.record_states benchmarks/states.npz
"""

import sys

import numpy as np
import torch

from benchmarks import peers

SEEDS = range(6)
QUERIES = 50


def record(function, seed):
    np.random.seed(seed)  # BoTorch's MAP starts from NumPy's global generator
    points, pairs = peers.first_answers(function, seed)
    for _ in range(QUERIES):
        pair = peers.propose(peers.fit(points, pairs), function.dim)
        points, pairs = peers.answer(function, points, pairs, pair)
    return points.numpy(), pairs.numpy()


def main(path):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    arrays = {}
    for name, function in peers.PROBLEMS.items():
        for seed in SEEDS:
            points, pairs = record(function, seed)
            arrays[f"{name}/{seed}/points"], arrays[f"{name}/{seed}/pairs"] = points, pairs
            best = float(peers.utility(function, torch.as_tensor(points)).max())
            print(f"{name} seed {seed}: best utility {best:.3f}", flush=True)
            np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
