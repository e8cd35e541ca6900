"""Expectation propagation against quadrature, choix and its own definition, and a certificate that can fail."""

import math

import choix
import numpy as np
import pytest
import torch

from kappasharp.inference import comparison_space, comparisons, ep, laplace
from kappasharp.inference.likelihood import Probit
from tests.reference import dense, moments
from tests.reference.data import answered


def case(n, m, d=2, *, seed=0, outputscale=2.0, threshold=0.0):
    """K, C, A and the ties of a random data set under noise 1."""
    data = answered(seed + n + m, n, m, d, threshold=threshold)
    K = torch.as_tensor(dense.prior_covariance("rbf", data.X, np.full(d, 0.4), outputscale, 1e-4))
    C = comparisons.incidence(torch.as_tensor(data.pairs), n)
    ties = torch.as_tensor(data.is_tie) if threshold else None
    return K, C, comparisons.congruence(C, K) / 2.0, ties


def covariance(A, tau):
    """A − A (A + τ⁻¹)⁻¹ A, by an explicit inverse."""
    return A - A @ torch.linalg.inv(A + torch.diag_embed(1.0 / tau)) @ A


@pytest.mark.parametrize(("margin", "tie"), [(0.0, False), (0.3, False), (0.3, True), (2.0, True)])
@pytest.mark.parametrize("variance", [1e-4, 0.3, 9.0])
def test_one_answer_is_exact(variance, margin, tie):
    """One site has its prior as cavity: mean, variance and evidence are those of the posterior itself."""
    A = torch.tensor([[variance]])
    found = ep.solve(A, margin, torch.tensor([True]) if tie else None)
    true = moments.exact(A.numpy(), margin, np.array([True]) if tie else None)
    assert bool(found.converged)
    assert float(found.z) == pytest.approx(true.mean[0], rel=1e-7, abs=1e-9)
    assert float(covariance(A, found.tau)) == pytest.approx(true.cov[0, 0], rel=1e-6)
    assert float(found.evidence) == pytest.approx(true.log_evidence, rel=1e-7)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("variance", [0.3, 4.0])
def test_two_answers_are_close_and_closer_than_laplace(variance, correlation):
    A = variance * torch.tensor([[1.0, correlation], [correlation, 1.0]])
    found, true = ep.solve(A, 0.0), moments.exact(A.numpy())
    deviation = np.sqrt(np.diag(true.cov))
    assert np.abs((found.z.numpy() - true.mean) / deviation).max() < 0.03
    gap = (covariance(A, found.tau).numpy() - true.cov) / np.outer(deviation, deviation)
    assert np.abs(gap).max() < 0.06
    assert float(found.evidence) == pytest.approx(true.log_evidence, abs=0.02)
    plain = laplace.solve(A, 0.0, torch.zeros(2))
    assert np.abs(found.z.numpy() - true.mean).max() < 0.3 * np.abs(plain.z.numpy() - true.mean).max()


def test_two_independent_answers_are_exact():
    A = torch.diag(torch.tensor([0.5, 3.0]))
    found, true = ep.solve(A, 0.0), moments.exact(A.numpy())
    assert np.allclose(found.z.numpy(), true.mean, atol=1e-7)
    assert np.allclose(covariance(A, found.tau).numpy(), true.cov, atol=1e-7)
    assert float(found.evidence) == pytest.approx(true.log_evidence, abs=1e-8)


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_tilted_and_marginal_moments_agree(threshold):
    """The definition, by quadrature: the cavity times one answer has the marginal's mean and variance."""
    _, _, A, ties = case(8, 14, threshold=threshold)
    margin = threshold / math.sqrt(2.0)
    found = ep.solve(A, margin, ties)
    assert bool(found.converged)
    v = covariance(A, found.tau).diagonal()
    nu = found.alpha + found.tau * found.z
    for p in range(14):
        cavity = 1.0 / (1.0 / v[p] - found.tau[p])
        mean = cavity * (found.z[p] / v[p] - nu[p])
        z = mean.numpy() + np.sqrt(cavity.numpy()) * moments.NODES
        tie = np.full(len(z), ties is not None and bool(ties[p]))
        weight = np.exp(dense.answers(z, margin, tie).log_p - 0.5 * moments.NODES**2)
        weight /= weight.sum()
        assert float(weight @ z) == pytest.approx(float(found.z[p]), abs=1e-6)
        assert float(weight @ z**2 - (weight @ z) ** 2) == pytest.approx(float(v[p]), rel=1e-6)


@pytest.mark.parametrize("prior_variance", [0.1, 1.0, 8.0])
def test_choix_finds_the_same(prior_variance, monkeypatch):
    """Fifteen answers among six items, choix's own loop run until its sites stand still."""
    own = choix.ep._converged
    monkeypatch.setattr(choix.ep, "_converged", lambda new, old: own(new, old, 1e-11))
    pairs = [tuple(pair) for pair in answered(4, 6, 15, 2).pairs.tolist()]
    mean, cov = choix.ep_pairwise(6, pairs, 1.0 / prior_variance, model="probit", max_iter=5000)
    K, probit = prior_variance * torch.eye(6), Probit(noise=2.0**-0.5)
    C = comparisons.incidence(torch.tensor(pairs), 6)
    found = ep.solve(comparisons.congruence(C, K) / probit.scale**2, 0.0)
    f = K @ comparisons.transpose(C, found.alpha) / probit.scale
    root = comparison_space.information_root(K, C, found.tau / probit.scale**2)
    assert np.allclose(f.numpy(), mean, rtol=0.0, atol=1e-6)
    assert np.allclose((K - K @ root @ root.mT @ K).numpy(), cov, rtol=0.0, atol=1e-6)


def test_the_approximations_agree_where_the_answers_say_little():
    _, _, A, _ = case(9, 12, outputscale=1e-6)
    assert torch.allclose(ep.solve(A, 0.0).alpha, laplace.solve(A, 0.0, torch.zeros(12)).alpha, rtol=1e-4)


def test_a_batch_is_its_runs_one_by_one():
    cases = [case(10, 20, seed=seed, outputscale=10.0**seed, threshold=0.5) for seed in range(4)]
    A, ties = (torch.stack([part[at] for part in cases]) for at in (2, 3))
    together = ep.solve(A.reshape(2, 2, 20, 20), 0.35, ties.reshape(2, 2, 20))
    assert bool(together.converged.all())
    for run in range(4):
        alone = ep.solve(A[run], 0.35, ties[run])
        assert int(alone.iterations) == int(together.iterations.flatten()[run])
        for name in ("alpha", "tau", "evidence"):
            part = getattr(together, name).flatten(0, 1)[run]
            assert torch.allclose(getattr(alone, name), part, rtol=1e-9, atol=1e-12)


def test_the_order_of_the_answers_does_not_matter():
    _, _, A, ties = case(10, 20, threshold=0.5)
    place = torch.as_tensor(np.random.default_rng(0).permutation(20))
    before, after = ep.solve(A, 0.35, ties), ep.solve(A[place][:, place], 0.35, ties[place])
    assert torch.allclose(after.alpha, before.alpha[place], atol=1e-7)
    assert torch.allclose(after.evidence, before.evidence, atol=1e-8)


def test_a_tie_turned_round_turns_its_difference_round():
    _, _, A, ties = case(10, 20, threshold=0.5)
    sign = torch.where(ties, -1.0, 1.0)
    assert bool(ties.any()) and not bool(ties.all())
    before, after = ep.solve(A, 0.35, ties), ep.solve(A * sign.unsqueeze(-1) * sign, 0.35, ties)
    assert torch.allclose(after.z, before.z * sign, atol=1e-7)


def test_answers_that_the_prior_cannot_tell_apart_do_no_harm():
    """A = 0: both designs of every answer coincide. Z is ½ for each, and nothing is learnt."""
    found = ep.solve(torch.zeros(3, 3), 0.0)
    assert bool(found.converged)
    assert torch.equal(found.z, torch.zeros(3))
    assert float(found.evidence) == pytest.approx(3.0 * math.log(0.5))
    empty = ep.solve(torch.zeros(2, 0, 0), 0.0)
    assert empty.converged.tolist() == [True, True]


def test_contradictions_under_a_wide_prior_settle():
    """Twenty answers one way, twenty the other, prior deviation 100 of the noise's: strongly coupled sites."""
    sign = torch.ones(40).where(torch.arange(40) % 2 == 0, -1.0)
    found = ep.solve(1e4 * sign.unsqueeze(-1) * sign, 0.0)
    assert bool(found.converged)
    assert torch.allclose(found.z, torch.zeros(40), atol=1e-5)


def test_the_certificate_can_fail_for_one_run_and_hold_for_another():
    easy, hard = case(10, 20, outputscale=1e-9)[2], case(10, 20, outputscale=50.0)[2]
    found = ep.solve(torch.stack([easy, hard]), 0.0, max_iterations=4)
    assert found.converged.tolist() == [True, False]
    assert float(found.mismatch[1]) > laplace.tolerance(torch.float64)
    nothing = ep.solve(torch.full((1, 2, 2), math.nan), 0.0, max_iterations=3)
    assert nothing.converged.tolist() == [False]
