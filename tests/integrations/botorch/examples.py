"""Preference data for the tests of the drop-in, and PairwiseGP without its noise on the console."""

import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from botorch.models.pairwise_gp import PairwiseGP

from kappasharp.integrations.botorch import KappaSharpGP
from tests.reference.data import answered

STATES = Path(__file__).parents[3] / "benchmarks" / "states.npz"
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def preferences(seed=0, n=20, m=25, d=3):
    data = answered(seed, n, m, d)
    return torch.as_tensor(data.X), torch.as_tensor(data.pairs)


def recorded(key, n):
    """A state of one of BoTorch's own runs."""
    arrays = np.load(STATES)
    points = torch.as_tensor(arrays[f"{key}/points"][:n])
    return points, torch.as_tensor(arrays[f"{key}/pairs"][: 15 + (n - 6) // 2])


def clustered(seed, d=2, m=100):
    """Consistent answers about 60 designs in 4 clusters of width 0.01."""
    generator = torch.Generator().manual_seed(seed)
    rand = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    X = (rand(4, d).repeat_interleave(15, 0) + 0.01 * (rand(60, d) - 0.5)).clamp(0.0, 1.0)
    utility = -(X - 0.4).square().sum(-1)
    P = torch.stack([torch.randperm(60, generator=generator)[:2] for _ in range(m)])
    return X, torch.where((utility[P[:, 0]] > utility[P[:, 1]]).unsqueeze(-1), P, P.flip(-1))


def batch(seeds, **shape):
    parts = [preferences(seed, **shape) for seed in seeds]
    return torch.stack([X for X, _ in parts]), torch.stack([P for _, P in parts])


@contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pairwise_gp(X, P, lengthscale=None, outputscale=None, **options):
    """PairwiseGP at these hyperparameters, its MAP computed at them; its start is random, so seeded."""
    np.random.seed(0)
    with quiet():
        model = PairwiseGP(X, P, **options)
        set_hyperparameters(model, lengthscale, outputscale)
        model.set_train_data(X, P, update_model=True)
    return model


def ours(X, P, lengthscale=None, outputscale=None, **options):
    model = KappaSharpGP(X, P, **options)
    set_hyperparameters(model, lengthscale, outputscale)
    return model


def set_hyperparameters(model, lengthscale, outputscale):
    if lengthscale is not None:
        model.covar_module.base_kernel.lengthscale = lengthscale
    if outputscale is not None:
        model.covar_module.outputscale = outputscale
