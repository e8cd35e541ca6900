"""Proposition 3: how many directions the comparisons inform, and the ceiling of one half. [prop:info_dim]"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kappasharp.correction import diagnostics
from kappasharp.inference import comparison_space, comparisons
from tests.paper import dense, examples


def effective_dof(problem, weights):
    return float(diagnostics.effective_dof(problem.K, problem.C, torch.as_tensor(weights)))


def by_eigenvalues(problem, added):
    """Σ μ/(1 + μ) over the eigenvalues of K^½ (added) K^½."""
    half = dense.symmetric_root(problem.dense_K)
    mu = np.linalg.eigvalsh(half @ added @ half).clip(0.0)
    return float((mu / (1.0 + mu)).sum())


def with_pairs(problem, pairs, seed):
    """The same prior over as many new points as these answers speak of."""
    pairs = np.array(pairs)
    X = np.random.default_rng(seed).random((int(pairs.max()) + 1, problem.X.shape[1]))
    return examples.Problem(problem.family, X, problem.theta, problem.nugget, problem.noise, pairs)


@examples.fewer(2)
@given(examples.problems())
def test_effective_dof_is_the_sum_over_the_eigenvalues(problem):
    weights = problem.weights(problem.find_map())
    C = problem.dense_C
    expected = by_eigenvalues(problem, C.T @ np.diag(weights.numpy()) @ C)
    assert effective_dof(problem, weights) == pytest.approx(expected, abs=1e-10 * problem.n)


@examples.fewer(2)
@given(examples.problems(), examples.powers(-3.0, 4.0))
def test_effective_dof_stays_below_the_rank(problem, strength):
    """Part (a), for the weights of a fit and for weights far stronger."""
    rank = problem.n - int(comparisons.count_components(torch.tensor(problem.pairs), problem.n))
    weights = problem.weights(problem.find_map())
    assert 0.0 < effective_dof(problem, weights) < rank
    assert effective_dof(problem, strength * torch.ones_like(weights)) < rank


@examples.fewer(2)
@given(examples.problems(nugget=(-3.0, -1.0)))
def test_effective_dof_tends_to_the_rank_as_the_answers_dominate(problem):
    """Part (a): equality in the limit μ → ∞, approached from below."""
    rank = problem.n - int(comparisons.count_components(torch.tensor(problem.pairs), problem.n))
    gaps = [rank - effective_dof(problem, np.full(len(problem.pairs), w)) for w in (1e2, 1e4, 1e6)]
    assert gaps[0] > gaps[1] > gaps[2] > -1e-9
    # Σ 1/(1 + μ) falls like the inverse of the weights; μ ≥ w · s · nugget · (smallest eigenvalue of CᵀC, ≥ 2/n²).
    assert gaps[2] <= rank * problem.n**2 / (2e6 * problem.outputscale * problem.nugget)


@examples.fewer(2)
@given(examples.problems(), st.integers(1, 20), examples.seeds())
def test_under_fresh_pairs_the_informed_share_stays_below_the_ceiling(problem, T, seed):
    """Part (b): N = N₀ + 2T, N_cc = N_cc,0 + T and the ceiling (N₀ + T − N_cc,0)/(N₀ + 2T)."""
    N_0 = problem.n
    first = int(comparisons.count_components(torch.tensor(problem.pairs), N_0))
    fresh = N_0 + np.arange(2 * T).reshape(T, 2)
    grown = with_pairs(problem, np.concatenate([problem.pairs, fresh]), seed)
    assert grown.n == N_0 + 2 * T
    assert int(comparisons.count_components(torch.tensor(grown.pairs), grown.n)) == first + T
    ceiling = (N_0 + T - first) / (N_0 + 2 * T)
    assert effective_dof(grown, grown.weights(grown.find_map())) / grown.n < ceiling
    assert effective_dof(grown, np.full(len(grown.pairs), 1e4)) / grown.n < ceiling


@examples.fewer(2)
@given(examples.problems(max_points=6, max_answers=6), examples.seeds())
def test_under_fresh_pairs_the_informed_share_approaches_one_half(problem, seed):
    """Part (b): the ceiling's distance from ½ is |N₀/2 − N_cc,0|/(N₀ + 2T); strong answers on rough priors reach it."""
    N_0 = problem.n
    first = int(comparisons.count_components(torch.tensor(problem.pairs), N_0))
    rough = examples.Problem(
        "matern52", problem.X, np.log([0.02] * problem.X.shape[1] + [1.0]), 0.1, 1.0, problem.pairs
    )
    for T in (5, 20, 60):
        fresh = N_0 + np.arange(2 * T).reshape(T, 2)
        grown = with_pairs(rough, np.concatenate([problem.pairs, fresh]), seed)
        share = effective_dof(grown, np.full(len(grown.pairs), 1e8)) / grown.n
        ceiling = 1.0 - int(comparisons.count_components(torch.tensor(grown.pairs), grown.n)) / grown.n
        assert share == pytest.approx(ceiling, abs=1e-5)
        assert ceiling - 0.5 == pytest.approx((N_0 / 2 - first) / (N_0 + 2 * T), abs=1e-12)


@examples.fewer(2)
@given(examples.problems(), st.integers(3, 12), examples.seeds(), examples.powers(-2.0, 4.0))
def test_connected_querying_informs_at_most_all_directions_but_one(problem, n, seed, strength):
    """Part (c), for a chain in which each new point meets an older one."""
    rng = np.random.default_rng(seed)
    chain = np.array([(new, int(rng.integers(new))) for new in range(1, n)])
    connected = with_pairs(problem, chain, seed)
    assert int(comparisons.count_components(torch.tensor(chain), n)) == 1
    assert effective_dof(connected, np.full(n - 1, strength)) < n - 1


@given(st.integers(4, 12), examples.seeds())
def test_connected_querying_breaks_the_ceiling_of_fresh_pairs(n, seed):
    """Part (c): as many strong answers as a chain has inform more than half of the directions."""
    rng = np.random.default_rng(seed)
    chain = np.array([(new, int(rng.integers(new))) for new in range(1, n)])
    connected = examples.Problem("rbf", rng.random((n, 2)), np.log([0.2, 0.2, 1.0]), 0.1, 1.0, chain)
    assert effective_dof(connected, np.full(n - 1, 1e4)) == pytest.approx(n - 1, abs=0.02 * n)


def augmented_dof(problem, weights, r):
    """d_eff of H + R through the package: the trace of K (K⁻¹ − K⁻¹ Σ K⁻¹)."""
    root = comparison_space.information_root(problem.K, problem.C, weights, r)
    return float((root * (problem.K @ root)).sum())


@examples.fewer(2)
@given(examples.corrected_problems())
def test_augmentation_adds_apparent_information_in_every_null_direction(drawn):
    """Part (d): d_eff^aug ≥ d_eff + N_cc β/(1 + β) with β the smallest eigenvalue of K^½ R K^½. [eq:deff_recovery]"""
    problem, r, _ = drawn
    weights = problem.weights(problem.find_map())
    half = dense.symmetric_root(problem.dense_K)
    beta = np.linalg.eigvalsh(half @ np.diag(r.numpy()) @ half)[0]
    assert beta > 0.0
    n_components = int(comparisons.count_components(torch.tensor(problem.pairs), problem.n))
    gained = augmented_dof(problem, weights, r) - effective_dof(problem, weights)
    assert gained >= n_components * beta / (1.0 + beta) - 1e-10 * problem.n


@examples.fewer(2)
@given(examples.corrected_problems())
def test_augmented_dof_is_the_sum_over_the_eigenvalues_with_the_correction_in_it(drawn):
    problem, r, _ = drawn
    weights = problem.weights(problem.find_map())
    C = problem.dense_C
    H_lik = C.T @ np.diag(weights.numpy()) @ C
    tolerance = 1e-9 * problem.n
    expected = by_eigenvalues(problem, H_lik + np.diag(r.numpy()))
    assert augmented_dof(problem, weights, r) == pytest.approx(expected, abs=tolerance)
    assert augmented_dof(problem, weights, None) == pytest.approx(effective_dof(problem, weights), abs=tolerance)


@examples.fewer(2)
@given(examples.problems(), examples.powers(-2.0, 2.0))
def test_part_d_is_an_equality_for_a_correction_proportional_to_the_prior(problem, beta):
    """With K = kI and R = (β/k)I every eigenvalue moves by β; without answers in it the bound is then met exactly."""
    X, theta = np.linspace(0.0, 1.0, problem.n)[:, None], np.array([np.log(1e-3), problem.theta[-1]])
    far = examples.Problem("rbf", X, theta, problem.nugget, problem.noise, problem.pairs)
    r = torch.full((far.n,), beta / (far.outputscale * (1.0 + far.nugget)))
    silent = torch.full((len(far.pairs),), 1e-300)
    assert augmented_dof(far, silent, r) == pytest.approx(far.n * beta / (1.0 + beta), rel=1e-9, abs=0.0)
