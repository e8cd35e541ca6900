"""Gibbs sampling against quadrature and expectation propagation, and diagnostics that tell good chains from bad."""

import math

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import truncnorm

from kappasharp.inference import ep, gibbs, laplace
from kappasharp.randomness import stream
from tests.inference.test_ep import case
from tests.reference import moments

LONG = gibbs.Plan(chains=256, burn_in=30, sweeps=60)


def streams(runs, name="test"):
    return [stream(seed, name) for seed in range(runs)]


def covariance(A, half):
    """Cov(z) = A − A M A."""
    return A - A @ half @ half.mT @ A


@pytest.mark.parametrize("low", [-40.0, -3.0, 0.0, 2.0, 24.9, 25.1, 38.0, 400.0])
def test_draws_are_the_quantiles_of_the_truncated_normal(low):
    u = np.array([1e-12, 1e-3, 0.3, 0.5, 0.9, 1.0 - 1e-9])
    found = gibbs.draw(torch.tensor(low), None, torch.as_tensor(u)).numpy()
    assert np.allclose(log_ndtr(-found) - log_ndtr(-low), np.log(u), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (3.0, 3.5), (-9.0, -8.0), (-60.0, -50.0), (-0.1, 8.0)])
def test_draws_stay_between_their_ends(low, high):
    u = np.linspace(0.0, 1.0, 9)[1:-1]
    ends = torch.tensor(low), torch.tensor(high)
    found = gibbs.draw(*ends, torch.as_tensor(u))
    assert bool(((found >= low) & (found <= high)).all())
    turned = low + high < 0
    exact = truncnorm.ppf(u, low, high) if turned else truncnorm.isf(u, low, high)
    assert np.allclose(found.numpy(), exact, rtol=1e-7)
    assert np.allclose(gibbs.place(found, *ends).numpy(), u, atol=1e-7)


@pytest.mark.parametrize("low", [-5.0, 0.0, 20.0, 60.0])
def test_the_place_of_a_draw_is_where_it_came_from(low):
    u = torch.linspace(0.0, 1.0, 21)[1:-1]
    x = gibbs.draw(torch.tensor(low), None, u)
    assert torch.allclose(gibbs.place(x, torch.tensor(low), None), u, atol=1e-8)


@pytest.mark.parametrize(("margin", "tie"), [(0.0, False), (0.4, False), (0.4, True)])
@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.7])
def test_two_answers_have_the_exact_moments(correlation, margin, tie):
    A = 3.0 * torch.tensor([[1.0, correlation], [correlation, 1.0]])
    ties = torch.tensor([[True, False]]) if tie else None
    found = gibbs.sample(A.unsqueeze(0), margin, streams(1), ties, LONG)
    true = moments.exact(A.numpy(), margin, None if ties is None else ties[0].numpy())
    deviation = np.sqrt(np.diag(true.cov))
    error = 5.0 / math.sqrt(float(found.effective_size))
    assert bool(found.converged) and error < 0.08
    assert np.abs((found.z[0].numpy() - true.mean) / deviation).max() < error
    gap = (covariance(A, found.half[0]).numpy() - true.cov) / np.outer(deviation, deviation)
    assert np.abs(gap).max() < 2.0 * error


@pytest.mark.parametrize(
    ("n", "m", "outputscale", "threshold"), [(8, 14, 2.0, 0.0), (12, 20, 8.0, 0.0), (8, 14, 2.0, 0.5)]
)
def test_a_long_chain_and_expectation_propagation_agree(n, m, outputscale, threshold):
    """EP's own error is a few per cent of a deviation; the chain's is bounded by its effective size."""
    A, ties = case(n, m, outputscale=outputscale, threshold=threshold)[2:]
    margin = threshold / math.sqrt(2.0)
    drawn = gibbs.sample(A.unsqueeze(0), margin, streams(1), None if ties is None else ties.unsqueeze(0), LONG)
    found = ep.solve(A, margin, ties)
    inverse = torch.linalg.inv(A + torch.diag_embed(1.0 / found.tau))
    cov = A - A @ inverse @ A
    deviation = cov.diagonal().sqrt()
    error = 5.0 / math.sqrt(float(drawn.effective_size))
    assert bool(drawn.converged) and error < 0.15
    assert float(((drawn.z[0] - found.z) / deviation).abs().max()) < 0.05 + error
    gap = (covariance(A, drawn.half[0]) - cov) / (deviation.unsqueeze(-1) * deviation)
    assert float(gap.abs().max()) < 0.1 + 2.0 * error
    map_z = laplace.solve(A, margin, torch.zeros(m), ties).z
    assert float((drawn.z[0] - found.z).abs().max()) < 0.5 * float((drawn.z[0] - map_z).abs().max())


def test_the_approximations_agree_where_the_answers_say_little():
    A = case(9, 12, outputscale=1e-6)[2]
    drawn = gibbs.sample(A.unsqueeze(0), 0.0, streams(1))
    assert torch.allclose(drawn.alpha[0], ep.solve(A, 0.0).alpha, rtol=1e-3)
    assert torch.allclose(drawn.alpha[0], laplace.solve(A, 0.0, torch.zeros(12)).alpha, rtol=1e-3)


def test_a_batch_is_its_runs_one_by_one():
    """The last run is slow to mix and goes on longer than its neighbours, who must not notice."""
    A = torch.stack([case(10, 20, seed=seed, outputscale=scale)[2] for seed, scale in enumerate((0.1, 1.0, 400.0))])
    plan = gibbs.Plan(chains=16, burn_in=10, sweeps=30, extensions=1)
    together = gibbs.sample(A, 0.0, streams(3), plan=plan)
    assert int(together.sweeps[2]) > int(together.sweeps[0])
    for run in range(3):
        alone = gibbs.sample(A[run : run + 1], 0.0, [stream(run, "test")], plan=plan)
        for name in ("alpha", "half", "r_hat", "sweeps"):
            mine, other = getattr(alone, name)[0], getattr(together, name)[run]
            mine, other = (mine @ mine.mT, other @ other.mT) if name == "half" else (mine, other)
            assert torch.allclose(mine, other, rtol=1e-6, atol=1e-8)


def test_the_same_streams_draw_the_same_and_others_others():
    A = case(10, 20)[2].unsqueeze(0)
    plan = gibbs.Plan(chains=64, burn_in=10, sweeps=20, extensions=0)
    first, second, third = (gibbs.sample(A, 0.0, streams(1, name), plan=plan).alpha for name in ("a", "a", "b"))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.allclose(first, third, atol=0.1)


def test_the_order_of_the_answers_matters_to_the_chance_only():
    A, ties = case(6, 7, threshold=0.5)[2:]
    place = torch.as_tensor(np.random.default_rng(0).permutation(7))
    assert bool(ties.any()) and not bool(ties.all())
    before = gibbs.sample(A.unsqueeze(0), 0.35, streams(1), ties.unsqueeze(0), LONG)
    after = gibbs.sample(A[place][:, place].unsqueeze(0), 0.35, streams(1), ties[place].unsqueeze(0), LONG)
    error = 5.0 / math.sqrt(float(torch.minimum(before.effective_size, after.effective_size)))
    deviation = covariance(A, before.half[0]).diagonal().sqrt()
    assert float(((after.z[0] - before.z[0][place]) / deviation[place]).abs().max()) < 1.5 * error


def test_chains_that_disagree_are_reported():
    """Under a prior twenty times as wide as the noise a handful of sweeps cannot forget where it started."""
    A = case(10, 20, outputscale=400.0)[2]
    short = gibbs.Plan(chains=16, burn_in=0, sweeps=20, extensions=0)
    found = gibbs.sample(torch.stack([0.0 * A, A]), 0.0, streams(2), plan=short)
    assert found.converged.tolist() == [True, False]
    assert float(found.r_hat[1]) > gibbs.LARGEST_R_HAT > float(found.r_hat[0])
    assert float(found.effective_size[1]) < 0.3 * float(found.effective_size[0])
    assert not bool(gibbs.sample(torch.full((1, 2, 2), math.nan), 0.0, streams(1), plan=short).converged)


def test_diagnostics_are_those_of_their_definition():
    """Independent draws: R̂ near 1 and as many effective draws as there are; shifted chains: neither."""
    x = torch.randn(1, 2, 3, 64, 100, generator=torch.Generator().manual_seed(0))
    for shift, good in ((0.0, True), (1.0, False)):
        drawn = x + shift * torch.arange(64.0).sub(32.0).div(32.0).unsqueeze(-1)
        r_hat, size = gibbs.diagnose(drawn.mean(-1), drawn.square().mean(-1), 100)
        assert bool((r_hat < 1.02).all()) is good
        assert bool((size / 12800 > 0.6).all()) is good
        assert bool((size / 12800 < 1.6).all())


def test_what_sampling_noise_breaks_is_cut_and_recorded():
    """With few draws the sample covariance exceeds the prior's somewhere; the posterior's never does."""
    A = case(20, 30)[2]
    few = gibbs.sample(A.unsqueeze(0), 0.0, streams(1), plan=gibbs.Plan(chains=4, burn_in=5, sweeps=10, extensions=0))
    many = gibbs.sample(A.unsqueeze(0), 0.0, streams(1), plan=LONG)
    assert float(few.excess) > 5.0 * float(many.excess)
    S = A + torch.eye(30)
    learnt = torch.linalg.eigvalsh(S @ few.half[0] @ few.half[0].mT @ S)
    assert float(learnt[0]) > -1e-9
    assert float(torch.linalg.eigvalsh(S - S @ few.half[0] @ few.half[0].mT @ S)[0]) > -1e-9


def test_no_answers_leave_nothing_to_draw():
    found = gibbs.sample(torch.zeros(2, 0, 0), 0.0, streams(2))
    assert found.converged.tolist() == [True, True]
    assert found.half.shape == (2, 0, 0)
