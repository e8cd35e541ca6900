"""Data that breaks other preference models must work here: every solve with its certificate, every number finite."""

from dataclasses import replace

import pytest
import torch

import kappasharp as ks
from kappasharp.inference import comparisons, laplace
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary

NONE = torch.empty(0, 2, dtype=torch.long)


def random_pairs(n, m, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(n, generator=generator)[:2] for _ in range(m)])


def points(n, d, seed=0):
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def nearly(base, size, copies):
    noise = torch.randn(len(base) * copies, base.shape[1], generator=torch.Generator().manual_seed(1), dtype=base.dtype)
    return (base.repeat(copies, 1) + size * noise).clamp(0, 1)


def constant_column():
    X = points(12, 3)
    X[:, 1] = 0.5
    return X


CASES = {
    "no comparisons yet": (points(5, 2), NONE),
    "one point": (points(1, 2), NONE),
    "one comparison": (points(5, 2), torch.tensor([[3, 1]])),
    "200 copies of one point": (points(1, 3).expand(200, 3).clone(), random_pairs(200, 60)),
    "near-duplicates at 1e-12": (nearly(points(10, 3), 1e-12, 3), random_pairs(30, 40)),
    "a tight cluster": (nearly(points(2, 6), 1e-4, 20), random_pairs(40, 40)),
    "contradictory cycle": (points(3, 2), torch.tensor([[0, 1], [1, 2], [2, 0], [0, 1], [1, 0], [1, 0]])),
    "one dimension": (points(15, 1), random_pairs(15, 12)),
    "a constant column": (constant_column(), random_pairs(12, 10)),
    "corners only": ((points(30, 4) > 0.5).double(), torch.arange(30).reshape(15, 2)),
    "many answers about few points": (points(4, 3), torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]]).repeat(30, 1)),
}


@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("method", "preset"), [("baseline", "modern"), ("static", "paper")])
def test_hard_data_is_fitted_certified_and_asked_about(case, method, preset, precision):
    X, pairs = CASES[case]
    X = X.to(precision)
    model = ks.fit(X, pairs, method=method, preset=preset)
    assert model.status == ("ok",)
    assert bool(model.converged)
    mean, covariance = model.posterior(X[:3])
    assert bool(model.utility.isfinite().all() & mean.isfinite().all() & covariance.isfinite().all())
    # A late step, so that a method with a gate at step 8 corrects.
    state = replace(ks.init(X, pairs, method=method, preset=preset), step=10)
    question, state, info = ks.ask(state)
    # The one case whose search for EUBO may end at the noise of single precision, and says so.
    coarse = (case, preset, precision) == ("contradictory cycle", "modern", torch.float32)
    assert coarse or bool(info.acquisition_converged.all())
    assert info.status == (("ok",) if bool(info.acquisition_converged.all()) else ("acquisition_not_converged",))
    assert bool(((question.points >= 0) & (question.points <= 1)).all())
    assert ks.tell(state, question, 0).comparisons.shape[1] == len(pairs) + 1


def test_without_answers_the_model_is_the_prior():
    model = ks.fit(points(4, 2), NONE)
    mean, covariance = model.posterior(points(3, 2, seed=5))
    assert torch.equal(mean, torch.zeros(3))
    assert torch.allclose(covariance.diagonal(), model.outputscale.expand(3))


def test_two_thousand_comparisons_are_fitted():
    X = points(60, 4)
    pairs = random_pairs(60, 2000)
    utility = -(X - 0.4).square().sum(-1)
    pairs = torch.where((utility[pairs[:, 0]] > utility[pairs[:, 1]]).unsqueeze(-1), pairs, pairs.flip(-1))
    # One start and fixed hyperparameter rounds are not the point here: the MAP and the posterior are.
    theta = torch.tensor([[0.5] * 4 + [20.0]]).log()
    K = stationary.covariance("rbf", X[None], theta, 1e-6)
    found = laplace.find_map(K, comparisons.incidence(pairs[None], 60), Probit())
    assert bool(found.dual.converged)
    order = torch.corrcoef(torch.stack([found.f[0].argsort().argsort(), utility.argsort().argsort()]).double())
    assert order[0, 1] > 0.98


def test_a_broken_run_says_so_and_leaves_its_neighbours_alone():
    good = torch.eye(3).expand(1, 3, 3)
    bad = torch.full((1, 3, 3), torch.nan)
    found = laplace.solve(torch.cat([good, bad]), 0.0, torch.zeros(2, 3))
    alone = laplace.solve(good, 0.0, torch.zeros(1, 3))
    assert found.converged.tolist() == [True, False]
    assert torch.allclose(found.z[0], alone.z[0], atol=1e-7)
