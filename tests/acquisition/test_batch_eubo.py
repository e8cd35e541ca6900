"""The best of several designs: Clark's moments against quadrature and sampling, and designs that add something."""

import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import batch_eubo, eubo, maximize
from kappasharp.acquisition.maximize import Request
from kappasharp.algorithm import loop
from kappasharp.inference import posterior
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS
from tests.reference.data import answered


@pytest.fixture(scope="module")
def fitted():
    runs = [answered(seed, 14, 12, 3) for seed in range(3)]
    X, pairs = (torch.stack([torch.as_tensor(run[part]) for run in runs]) for part in (0, 1))
    return loop.learn(ks.init(X, pairs, preset="modern_0_2", seeds=[0, 1, 2])).corrected.posterior


def points(count, seed=0):
    return torch.rand(3, count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def chosen(fitted, X):
    best = batch_eubo.of_one(fitted, X[:, :1])
    for i in range(1, X.shape[1]):
        best = batch_eubo.joined(fitted, best, X[:, i : i + 1])
    return best


def sampled_max(fitted, X, count=1 << 15):
    """Mean and variance of the maximum, from quasi-random draws of the joint posterior."""
    mean, cov = posterior.joint(fitted, X)
    L = torch.linalg.cholesky(cov + 1e-10 * torch.eye(X.shape[1]))
    best = (mean.unsqueeze(-2) + eubo.sobol_normals(X.shape[1], count, 0, X) @ L.mT).amax(-1)
    return best.mean(-1), best.var(-1)


def test_the_covariance_between_two_sets_is_the_joint_ones_corner(fitted):
    X = points(5)
    _, cov = posterior.joint(fitted, X)
    assert torch.allclose(posterior.between(fitted, X[:, :2], X[:, 2:]), cov[:, :2, 2:], atol=1e-10)


def test_for_two_designs_nothing_is_approximate(fitted):
    X = points(2)
    best = chosen(fitted, X)
    assert torch.allclose(best.mean, eubo.value(fitted, X[:, :1], X[:, 1:]).squeeze(-1), rtol=1e-9)
    mean, variance = sampled_max(fitted, X)
    assert torch.allclose(best.mean, mean, rtol=1e-3)
    assert torch.allclose(best.variance, variance, rtol=1e-2)


@pytest.mark.parametrize("count", [3, 4, 6])
def test_for_more_it_is_close(fitted, count):
    X = points(count, seed=count)
    best = chosen(fitted, X)
    mean, variance = sampled_max(fitted, X)
    assert bool(((best.mean - mean).abs() < 0.08 * variance.sqrt()).all())
    assert torch.allclose(best.variance, variance, rtol=0.1)
    assert torch.allclose(best.share.sum(-1), torch.ones(3, dtype=torch.float64))


def test_a_designs_gain_is_what_joining_it_adds(fitted):
    best, X = chosen(fitted, points(3)), points(4, seed=9)
    gain = batch_eubo.gain(fitted, best, X)
    for i in range(X.shape[1]):
        more = batch_eubo.joined(fitted, best, X[:, i : i + 1])
        assert torch.allclose(more.mean - best.mean, gain[:, i], atol=1e-9)


def test_a_design_that_is_there_already_adds_nothing(fitted):
    X = points(2)
    gain = batch_eubo.gain(fitted, chosen(fitted, X[:, :1]), X[:, :1])
    assert bool((gain.abs() < 1e-4 * fitted.theta[:, -1:].exp().sqrt()).all())


def test_two_new_designs_gain_at_most_what_each_gains_against_one_that_is_known(fitted):
    """So for each design that must be made, asking about a known one again always promises more."""
    known, X, Y = points(1, seed=7), points(500, seed=8), points(500, seed=9)
    level = posterior.mean(fitted, known)
    both = eubo.value(fitted, X, Y) - level
    alone = [eubo.value(fitted, part, known.expand_as(part)) - level for part in (X, Y)]
    assert bool((both <= alone[0] + alone[1] + 1e-9).all())


def extended(fitted, designs, seeds=(0, 1, 2)):
    def request():
        return Request([stream(seed, "several") for seed in seeds])

    pair = maximize.propose(fitted, MAXIMIZERS["default"], request())
    return pair, batch_eubo.extend(fitted, pair, designs, MAXIMIZERS["default"], request())


def test_further_designs_add_more_than_any_of_many_random_ones(fitted):
    pair, found = extended(fitted, 4)
    assert found.pair.shape == (3, 4, 3) and torch.equal(found.pair[:, :2], pair.pair)
    assert bool((found.pair >= 0).all() and (found.pair <= 1).all())
    before = chosen(fitted, found.pair[:, :3])
    added = batch_eubo.gain(fitted, before, found.pair[:, 3:]).squeeze(-1)
    assert bool((added >= 0.99 * batch_eubo.gain(fitted, before, points(2000, seed=5)).amax(-1)).all())
    assert bool((found.value > pair.value).all())


def test_a_box_holds_further_designs_too(fitted):
    low, high = torch.full((3, 3), 0.4, dtype=torch.float64), torch.full((3, 3), 0.6, dtype=torch.float64)
    request = Request([stream(seed, "several") for seed in range(3)], box=(low, high))
    pair = maximize.propose(fitted, MAXIMIZERS["default"], request)
    found = batch_eubo.extend(fitted, pair, 4, MAXIMIZERS["default"], request).pair
    assert bool(((found >= 0.4) & (found <= 0.6)).all())


def test_a_run_does_not_depend_on_its_company(fitted):
    _, together = extended(fitted, 3)
    for run in range(3):
        alone = posterior.Posterior(fitted.family, *(part[run : run + 1] for part in fitted[1:5]))
        _, found = extended(alone, 3, seeds=(run,))
        assert torch.allclose(found.pair, together.pair[run : run + 1], atol=1e-9)


@pytest.mark.parametrize("method", ["choice_4", "order_4"])
def test_no_design_is_shown_twice(method):
    state = ks.init([[0.2, 0.1], [0.8, 0.5]], [[0, 1]], method=method)
    for _ in range(3):
        question, state, _ = ks.ask(state)
        apart = torch.cdist(question.points[0], question.points[0]) + torch.eye(4)
        assert float(apart.min()) > 1e-2
        order = question.points[0].square().sum(-1).argsort()
        state = ks.tell(state, question, order if method == "order_4" else order[:1])
