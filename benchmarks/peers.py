"""BoTorch as it is used: PairwiseGP, fit_gpytorch_mll, EUBO by optimize_acqf with 4 restarts from 32 raw samples."""

import warnings

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.optim import optimize_acqf
from botorch.test_functions import Ackley, Hartmann, Levy

from kappasharp.acquisition import eubo

PROBLEMS = {
    "hartmann-6d": Hartmann(6, negate=True),
    "ackley-8d": Ackley(8, negate=True, bounds=[(-1.0, 1.0)] * 8),
    "levy-10d": Levy(10, negate=True),
}
NOISE = 0.1


def utility(function, points):
    low, high = function.bounds
    return function(low + (high - low) * points)


def fit(points, pairs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PairwiseGP(points, pairs)
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def theta(model):
    """The fitted hyperparameters as our core writes them."""
    kernel = model.covar_module
    values = torch.cat([kernel.base_kernel.lengthscale.detach().reshape(-1), kernel.outputscale.detach().reshape(1)])
    return values.log().unsqueeze(0)


def maximize(acquisition, dimension):
    bounds = torch.stack([torch.zeros(dimension), torch.ones(dimension)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair, value = optimize_acqf(acquisition, bounds=bounds, q=2, num_restarts=4, raw_samples=32)
    return pair, float(value)


def propose(model, dimension):
    return maximize(AnalyticExpectedUtilityOfBestOption(model), dimension)[0]


class OurEubo(AcquisitionFunction):
    """EUBO on one of our posteriors, for BoTorch's own maximiser: the same function, another search."""

    def __init__(self, posterior):
        super().__init__(model=None)
        self.posterior = posterior

    def forward(self, X):
        return eubo.value(self.posterior, X[..., 0, :].unsqueeze(0), X[..., 1, :].unsqueeze(0)).squeeze(0)


def first_answers(function, seed):
    """The pool of the recorded runs: six points, all fifteen comparisons."""
    torch.manual_seed(seed)
    points = torch.rand(6, function.dim)
    pairs = []
    for i in range(6):
        for j in range(i):
            noisy = utility(function, points) + NOISE * torch.randn(6)
            pairs.append(ordered(noisy, i, j))
    return points, torch.tensor(pairs)


def ordered(values, i, j):
    return [i, j] if values[i] > values[j] else [j, i]


def answer(function, points, pairs, pair):
    """The data with one more answered pair."""
    n = len(points)
    points = torch.cat([points, pair])
    noisy = utility(function, points) + NOISE * torch.randn(n + 2)
    return points, torch.cat([pairs, torch.tensor([ordered(noisy, n, n + 1)])])
