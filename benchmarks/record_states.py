"""Record the preference data on which the benches compare us with BoTorch.

Eighteen runs of BoTorch itself (PairwiseGP, EUBO, 4 restarts from 32 raw samples), 50 queries each, so that the
states are those its own users meet. A state of n points is a prefix of such a run.

    python benchmarks/record_states.py benchmarks/states.npz
"""

import sys
import warnings

import numpy as np
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.optim import optimize_acqf
from botorch.test_functions import Ackley, Hartmann, Levy

PROBLEMS = {
    "hartmann-6d": Hartmann(6, negate=True),
    "ackley-8d": Ackley(8, negate=True, bounds=[(-1.0, 1.0)] * 8),
    "levy-10d": Levy(10, negate=True),
}
SEEDS = range(6)
QUERIES = 50
NOISE = 0.1


def utility(function, points):
    low, high = function.bounds
    return function(low + (high - low) * points)


def ordered(values, i, j):
    return [i, j] if values[i] > values[j] else [j, i]


def next_pair(points, pairs):
    model = PairwiseGP(points, pairs)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    acquisition = AnalyticExpectedUtilityOfBestOption(model)
    bounds = torch.stack([torch.zeros(points.shape[-1]), torch.ones(points.shape[-1])])
    pair, _ = optimize_acqf(acquisition, bounds=bounds, q=2, num_restarts=4, raw_samples=32)
    return pair


def record(function, seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    points = torch.rand(6, function.dim)
    pairs = []
    for i in range(6):
        for j in range(i):
            noisy = utility(function, points) + NOISE * torch.randn(6)
            pairs.append(ordered(noisy, i, j))
    pairs = torch.tensor(pairs)
    for _ in range(QUERIES):
        pair = next_pair(points, pairs)
        n = len(points)
        points = torch.cat([points, pair])
        noisy = utility(function, points) + NOISE * torch.randn(n + 2)
        pairs = torch.cat([pairs, torch.tensor([ordered(noisy, n, n + 1)])])
    return points.numpy(), pairs.numpy()


def main(path):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    warnings.filterwarnings("ignore")
    arrays = {}
    for name, function in PROBLEMS.items():
        for seed in SEEDS:
            points, pairs = record(function, seed)
            arrays[f"{name}/{seed}/points"], arrays[f"{name}/{seed}/pairs"] = points, pairs
            print(name, seed, "best", float(utility(function, torch.as_tensor(points)).max()), flush=True)
            np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
