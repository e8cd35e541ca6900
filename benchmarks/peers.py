"""BoTorch as the lab has it, on answers of our own: the pools of its recorded runs, and its search on our posterior."""

import warnings

import torch
from botorch.acquisition.acquisition import AcquisitionFunction

from kappasharp.acquisition import eubo
from kappasharp.lab.libraries import Botorch

PROBLEMS = ("hartmann-6d", "ackley-8d", "levy-10d")
NOISE = 0.1


def botorch(points, pairs):
    """BoTorch with these answers, as the lab has it."""
    player = Botorch(points.shape[-1], 0)
    player.points, player.pairs = points, pairs
    return player


def fit(player):
    """Its model of its answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return player.fit()


def propose(player, acquisition):
    """The pair that it finds for an acquisition function, and the value there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return player.propose(acquisition)


def theta(model):
    """The fitted hyperparameters as our core writes them."""
    kernel = model.covar_module
    values = torch.cat([kernel.base_kernel.lengthscale.detach().reshape(-1), kernel.outputscale.detach().reshape(1)])
    return values.log().unsqueeze(0)


class OurEubo(AcquisitionFunction):
    """EUBO on one of our posteriors, for BoTorch's own maximiser: the same function, another search."""

    def __init__(self, posterior):
        super().__init__(model=None)
        self.posterior = posterior

    def forward(self, X):
        return eubo.value(self.posterior, X[..., 0, :].unsqueeze(0), X[..., 1, :].unsqueeze(0)).squeeze(0)


def first_answers(problem, seed):
    """The pool of the recorded runs: six points, all fifteen comparisons."""
    torch.manual_seed(seed)
    points = torch.rand(6, problem.dimensions)
    pairs = []
    for i in range(6):
        for j in range(i):
            noisy = problem.unit_utility(points) + NOISE * torch.randn(6)
            pairs.append(ordered(noisy, i, j))
    return points, torch.tensor(pairs)


def ordered(values, i, j):
    return [i, j] if values[i] > values[j] else [j, i]


def answer(problem, points):
    """The winner and the loser of the last two points."""
    n = len(points)
    noisy = problem.unit_utility(points) + NOISE * torch.randn(n)
    return ordered(noisy, n - 2, n - 1)
