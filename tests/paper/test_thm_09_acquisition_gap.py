"""Theorem 9: what MAP-only can lose in EUBO against full augmentation is bounded. [thm:one_step_regret]"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kappasharp.acquisition import eubo
from kappasharp.algorithm import surrogate
from kappasharp.correction import diagnostics
from kappasharp.inference import posterior
from tests.paper import dense, examples


@st.composite
def comparisons_of_maximizers(draw):
    """A corrected problem and both EUBO scores of all ordered pairs among many candidates."""
    problem, r, eta = draw(examples.corrected_problems())
    found = problem.find_map(r)
    fresh = np.random.default_rng(draw(examples.seeds())).random((24, problem.X.shape[1]))
    points = torch.tensor(np.concatenate([fresh, problem.X]))
    a, b = (~torch.eye(len(points), dtype=torch.bool)).nonzero().T
    return problem, found, r, eta, (points[a], points[b])


@examples.fewer(2)
@given(comparisons_of_maximizers(), st.sampled_from(["expected_max", "improvement"]))
def test_gap_between_the_maximizers_stays_within_the_bound(drawn, variant):
    problem, found, r, _, (X_a, X_b) = drawn
    honest, augmented = problem.posterior(found), problem.posterior(found, r)
    scores = eubo.value(honest, X_a, X_b, variant)
    of_augmented = eubo.value(augmented, X_a, X_b, variant)
    gap = float(scores.max() - scores[of_augmented.argmax()])
    lambda_1 = diagnostics.relative_size(problem.precision(found)[0], r)
    spread = posterior.contrast(honest, X_a, X_b).variance.sqrt().max()
    sharp = float(spread * lambda_1) / math.sqrt(2.0 * math.pi)
    bound = float(diagnostics.acquisition_gap_bound(lambda_1, torch.tensor(problem.outputscale)))
    assert 0.0 <= gap <= sharp + 1e-9 * math.sqrt(problem.outputscale)
    assert sharp <= bound


@examples.fewer(2)
@given(comparisons_of_maximizers())
def test_every_step_of_the_telescoped_bound_holds_pair_by_pair(drawn):
    """s²_aug ≥ s²_MO/(1 + λ₁), hence s_MO − s_aug ≤ s_MO λ₁/2, hence a pointwise gap of half the bound."""
    problem, found, r, _, (X_a, X_b) = drawn
    honest, augmented = problem.posterior(found), problem.posterior(found, r)
    lambda_1 = float(diagnostics.relative_size(problem.precision(found)[0], r))
    slack = 1e-7 * math.sqrt(problem.outputscale)
    s_honest, s_augmented = (posterior.contrast(fit, X_a, X_b).variance.sqrt() for fit in (honest, augmented))
    assert bool((s_augmented >= s_honest / math.sqrt(1.0 + lambda_1) - slack).all())
    assert bool((s_honest - s_augmented <= 0.5 * lambda_1 * s_honest + slack).all())
    gap = eubo.value(honest, X_a, X_b) - eubo.value(augmented, X_a, X_b)
    assert bool((gap <= 0.5 * lambda_1 * s_honest / math.sqrt(2.0 * math.pi) + slack).all())


@examples.fewer(2)
@given(comparisons_of_maximizers())
def test_spread_of_any_pair_is_at_most_twice_the_priors_deviation(drawn):
    problem, found, _, _, (X_a, X_b) = drawn
    variance = posterior.contrast(problem.posterior(found), X_a, X_b).variance
    assert float(variance.max()) <= 4.0 * problem.outputscale


@examples.fewer(2)
@given(examples.corrected_problems())
def test_relative_size_is_the_largest_eigenvalue_of_the_dense_quotient(drawn):
    problem, r, _ = drawn
    H, _ = problem.precision(problem.find_map(r))
    expected = dense.relative_eigenvalues(np.diag(r.numpy()), H.numpy())[-1]
    assert float(diagnostics.relative_size(H, r)) == pytest.approx(expected, rel=1e-7, abs=0.0)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_relative_size_is_below_strength_over_the_smallest_eigenvalue(drawn):
    """λ₁ ≤ ‖R‖/λ_min(H_η) < η/λ_min(H_η)."""
    problem, r, eta = drawn
    H, _ = problem.precision(problem.find_map(r))
    lowest = np.linalg.eigvalsh(H.numpy())[0]
    lambda_1 = float(diagnostics.relative_size(H, r))
    assert 0.0 < lambda_1 <= float(r.max()) / lowest * (1.0 + 1e-9)
    assert lambda_1 < eta / lowest


@examples.fewer(2)
@given(examples.problems(), examples.powers(-4.0, 2.0))
def test_relative_size_of_a_uniform_correction_is_known_exactly(problem, c):
    H, _ = problem.precision(problem.find_map())
    expected = c / np.linalg.eigvalsh(H.numpy())[0]
    assert float(diagnostics.relative_size(H, torch.full((problem.n,), c))) == pytest.approx(
        expected, rel=1e-8, abs=0.0
    )


def test_bound_known_by_hand():
    """λ₁ = 3 and k(x, x) = 4 give 2 · 2 · 3/√(2π)."""
    bound = diagnostics.acquisition_gap_bound(torch.tensor(3.0), torch.tensor(4.0))
    assert float(bound) == pytest.approx(12.0 / math.sqrt(2.0 * math.pi), rel=1e-15, abs=0.0)


@examples.fewer(4)
@given(examples.problems(), examples.seeds())
def test_bound_reported_by_a_whole_fit_holds_between_the_two_methods(problem, seed):
    map_only, full = (
        surrogate.fit(problem.X, problem.pairs, method=name, preset="paper") for name in ("static", "full_augmentation")
    )
    points = np.random.default_rng(seed).random((20, problem.X.shape[1]))
    a, b = (~np.eye(20, dtype=bool)).nonzero()
    scores, of_augmented = (model.eubo(points[a], points[b]) for model in (map_only, full))
    gap = float(scores.max() - scores[of_augmented.argmax()])
    assert 0.0 <= gap <= float(map_only.diagnostics().acquisition_gap_bound) + 1e-9
