"""The search for the largest EUBO: inside the cube, never below a start, repeatable, run by run the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kappasharp.acquisition import eubo
from kappasharp.acquisition.maximize import Request, propose
from kappasharp.inference import comparison_space, comparisons, laplace, likelihood, posterior
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS
from tests.reference.data import answered

RUNS = 6


def fitted(family="rbf", *, runs=RUNS, d=3, n=10, m=16, seed=0):
    parts = [answered(seed + run, n, m, d) for run in range(runs)]
    X, pairs = (torch.as_tensor(np.stack([part[i] for part in parts])) for i in (0, 1))
    theta = torch.tensor([*np.linspace(0.3, 0.6, d), 2.0]).log().expand(runs, -1)
    K, C, probit = stationary.covariance(family, X, theta, 1e-4), comparisons.incidence(pairs, n), Probit(0.5)
    found = laplace.find_map(K, C, probit)
    weights = likelihood.curvature(found.dual.z).omega / probit.scale**2
    return posterior.Posterior(family, X, theta, found.beta, comparison_space.information_root(K, C, weights))


def run_of(post, run):
    return posterior.Posterior(post.family, *(part[run : run + 1] for part in post[1:5]))


def request(runs=RUNS, seed=3, **rest):
    return Request([stream(seed, "test", str(run)) for run in range(runs)], **rest)


NAMES = list(MAXIMIZERS)


@pytest.mark.parametrize("variant", ["expected_max", "improvement"])
@pytest.mark.parametrize("family", ["rbf", "matern52"])
@pytest.mark.parametrize("name", NAMES)
def test_the_pair_lies_in_the_cube_and_its_value_is_its_eubo(name, family, variant):
    post = fitted(family)
    found = propose(post, MAXIMIZERS[name], request(variant=variant))
    assert found.pair.shape == (RUNS, 2, 3)
    assert bool(((found.pair >= 0.0) & (found.pair <= 1.0)).all())
    expected = eubo.value(post, found.pair[:, :1], found.pair[:, 1:], variant)[:, 0]
    assert torch.allclose(found.value, expected, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_result_is_at_least_as_good_as_every_start(name, anchored):
    """The same request without a single round returns the best of the starts."""
    post = fitted()
    anchor = post.X[:, 0] if anchored else None
    maximizer = MAXIMIZERS[name]
    still = replace(maximizer, finalists=maximizer.starts, max_rounds=0)
    best_start = propose(post, still, request(anchor=anchor)).value
    found = propose(post, maximizer, request(anchor=anchor))
    assert bool((found.value >= best_start - 1e-12).all())
    assert float((found.value - best_start).max()) > 1e-3, "no start was improved: the ascent did nothing"


def test_the_best_of_the_sorting_rounds_go_on():
    """Stopping after the sorting rounds, with every start still in it, never leaves a higher pair than going on."""
    post = fitted(runs=12, d=4, seed=50)
    maximizer = MAXIMIZERS["default"]
    sorted_only = replace(maximizer, finalists=maximizer.starts, max_rounds=maximizer.sorting_rounds)
    assert maximizer.finalists < maximizer.starts
    first = propose(post, sorted_only, request(12)).value
    assert bool((propose(post, maximizer, request(12)).value >= first - 1e-12).all())


@pytest.mark.parametrize("name", NAMES)
def test_the_pair_is_a_local_maximum(name):
    """No small step inside the cube gains more than the search's own tolerance."""
    post = fitted()
    found = propose(post, MAXIMIZERS[name], request())
    assert bool(found.converged.all())
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        step = 0.01 * torch.randn(found.pair.shape, generator=generator)
        near = (found.pair + step).clamp(0.0, 1.0)
        assert float((eubo.value(post, near[:, :1], near[:, 1:])[:, 0] - found.value).max()) <= 5e-5


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seeds_give_the_same_pair_and_others_do_not(name):
    post = fitted()
    first, again, other = (propose(post, MAXIMIZERS[name], request(seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(first.pair, again.pair)
    assert torch.equal(first.value, again.value)
    assert not torch.equal(first.pair, other.pair)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_its_runs_one_by_one(name):
    """Each run with its own generator and its own output scale: the company it keeps must not matter."""
    post = fitted()
    scales = torch.linspace(-2.0, 2.0, RUNS)
    theta = post.theta.clone()
    theta[:, -1] += scales
    # K and the MAP in units e^{scale/2}: β and root shrink accordingly, the posterior stays a posterior.
    post = post._replace(
        theta=theta,
        beta=post.beta * (-0.5 * scales).exp().unsqueeze(-1),
        root=post.root * (-0.5 * scales).exp()[:, None, None],
    )
    together = propose(post, MAXIMIZERS[name], request())
    for run in range(RUNS):
        alone = propose(run_of(post, run), MAXIMIZERS[name], Request([stream(3, "test", str(run))]))
        assert float(together.value[run]) == pytest.approx(float(alone.value), rel=1e-6), f"run {run}"
        # EUBO does not know which point is first, so of two starts that mirror each other either may win.
        apart = min(float((together.pair[run] - pair).abs().max()) for pair in (alone.pair[0], alone.pair[0].flip(0)))
        assert apart <= 1e-6, f"run {run}: {apart:.1e} apart"


def test_the_default_search_is_no_worse_than_the_papers_on_average():
    post = fitted(runs=12, d=4, seed=50)
    means = {name: float(propose(post, MAXIMIZERS[name], request(12)).value.mean()) for name in NAMES}
    assert means["default"] >= means["paper"] - 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_one_dimension_is_solved_globally(name):
    """On a line the best pair of a 201 × 201 grid is known; the search must not end more than 1 % below it."""
    post = fitted(d=1, runs=3, n=6, m=8, seed=20)
    grid = torch.linspace(0.0, 1.0, 201)
    X_a, X_b = (part.reshape(-1, 1).expand(3, -1, 1) for part in torch.meshgrid(grid, grid, indexing="ij"))
    best = eubo.value(post, X_a, X_b).amax(-1)
    found = propose(post, MAXIMIZERS[name], request(3))
    assert bool((found.value >= best - 0.01 * best.abs()).all())


@pytest.mark.parametrize("name", NAMES)
def test_an_anchored_search_keeps_its_anchor(name):
    post = fitted()
    anchor = post.X[torch.arange(RUNS), torch.arange(RUNS)]
    found = propose(post, MAXIMIZERS[name], request(anchor=anchor))
    assert torch.equal(found.pair[:, 1], anchor)
    assert bool(((found.pair[:, 0] >= 0.0) & (found.pair[:, 0] <= 1.0)).all())
    expected = eubo.value(post, found.pair[:, :1], anchor.unsqueeze(1))[:, 0]
    assert torch.allclose(found.value, expected, rtol=0.0, atol=1e-10)
    free = propose(post, MAXIMIZERS["default"], request())
    assert float((found.value - free.value).max()) <= 0.05, "a fixed partner cannot beat a free one by much"


def test_a_hint_is_used():
    """Hints that hold the optimum are never left for something lower."""
    post = fitted()
    best = propose(post, MAXIMIZERS["default"], request(seed=1))
    hinted = propose(post, replace(MAXIMIZERS["default"], raw=1), request(seed=2, hints=best.pair))
    assert bool((hinted.value >= best.value - 1e-4).all())


def test_single_precision_is_searched_too():
    post = fitted()
    single = posterior.Posterior(post.family, *(part.float() for part in post[1:5]))
    found = propose(single, MAXIMIZERS["default"], request())
    assert found.pair.dtype is torch.float32
    exact = propose(post, MAXIMIZERS["default"], request())
    # Single precision may settle on another of several nearly equal tops.
    assert float((found.value.double() - exact.value).abs().max()) <= 0.1
