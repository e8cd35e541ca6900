"""Proposition 8: a correction inside the covariance lowers the EUBO of every pair. [prop:conservative]"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from kappasharp.acquisition import eubo
from kappasharp.correction import diagnostics
from kappasharp.inference import posterior
from tests.paper import dense, examples

VARIANTS = ("expected_max", "improvement")


@st.composite
def queries(draw):
    """A corrected problem with its two posteriors, and pairs of candidates: fresh points, training points, mixed."""
    problem, r, _ = draw(examples.corrected_problems())
    found = problem.find_map(r)
    fresh = np.random.default_rng(draw(examples.seeds())).random((8, problem.X.shape[1]))
    points = np.concatenate([fresh, problem.X])
    a, b = np.triu_indices(len(points), 1)
    pair = torch.tensor(points[a]), torch.tensor(points[b])
    return problem, r, found, problem.posterior(found), problem.posterior(found, r), pair


@examples.fewer(2)
@given(queries())
def test_contrasts_are_those_of_the_papers_formula(drawn):
    """δ = k_differenceᵀ K⁻¹ f̂ and s² = ν + k_differenceᵀ K⁻¹ Σ K⁻¹ k_difference, for both covariances."""
    problem, r, found, honest, augmented, (X_a, X_b) = drawn
    H, _ = problem.precision(found)
    K_inverse = np.linalg.inv(problem.dense_K)

    def cross(X):
        return dense.kernel(problem.family, X.numpy(), problem.X, problem.theta)

    k_difference = cross(X_a) - cross(X_b)
    own = np.diag(dense.kernel(problem.family, X_a.numpy(), X_b.numpy(), problem.theta))
    nu = 2.0 * problem.outputscale - 2.0 * own - ((k_difference @ K_inverse) * k_difference).sum(1)
    weights = k_difference @ K_inverse
    for fitted, precision in ((honest, H.numpy()), (augmented, H.numpy() + np.diag(r.numpy()))):
        contrast = posterior.contrast(fitted, X_a, X_b)
        variance = nu + ((weights @ np.linalg.inv(precision)) * weights).sum(1)
        scale = problem.outputscale
        np.testing.assert_allclose(contrast.mean, weights @ found.f.numpy(), atol=1e-7 * (1.0 + math.sqrt(scale)))
        np.testing.assert_allclose(contrast.variance, variance, atol=1e-8 * scale)


@examples.fewer(2)
@given(queries())
def test_means_agree_and_variances_are_ordered_for_every_pair(drawn):
    problem, _, _, honest, augmented, (X_a, X_b) = drawn
    of_honest, of_augmented = posterior.contrast(honest, X_a, X_b), posterior.contrast(augmented, X_a, X_b)
    torch.testing.assert_close(of_augmented.mean, of_honest.mean, rtol=1e-12, atol=1e-12)
    assert bool((of_augmented.variance <= of_honest.variance + 1e-12 * problem.outputscale).all())
    assert float((of_honest.variance - of_augmented.variance).max()) > 0.0


@examples.fewer(2)
@given(queries(), st.sampled_from(VARIANTS))
def test_eubo_under_full_augmentation_is_lower_for_every_pair(drawn, variant):
    problem, _, _, honest, augmented, (X_a, X_b) = drawn
    gain = eubo.value(honest, X_a, X_b, variant) - eubo.value(augmented, X_a, X_b, variant)
    # Where two points nearly coincide s² is rounding of the prior's, and s its root.
    assert float(gain.min()) >= -1e-7 * math.sqrt(problem.outputscale)
    assert float(gain.max()) > 0.0


@examples.fewer(2)
@given(queries())
def test_distortion_is_bounded_by_the_difference_of_the_spreads(drawn):
    problem, _, _, honest, augmented, (X_a, X_b) = drawn
    distortion = eubo.value(honest, X_a, X_b) - eubo.value(augmented, X_a, X_b)
    spreads = [posterior.contrast(fitted, X_a, X_b).variance.sqrt() for fitted in (honest, augmented)]
    bound = (spreads[0] - spreads[1]) / math.sqrt(2.0 * math.pi)
    assert bool((distortion <= bound + 1e-7 * math.sqrt(problem.outputscale)).all())


@examples.fewer(2)
@given(queries())
def test_variances_shrink_at_most_by_one_plus_the_relative_size_of_the_correction(drawn):
    """Spectral control: s²_MO ≤ (1 + λ₁) s²_aug."""
    problem, r, found, honest, augmented, (X_a, X_b) = drawn
    lambda_1 = float(diagnostics.relative_size(problem.precision(found)[0], r))
    of_honest, of_augmented = (posterior.contrast(fitted, X_a, X_b).variance for fitted in (honest, augmented))
    slack = 1e-10 * problem.outputscale * (1.0 + lambda_1)
    assert bool((of_honest <= (1.0 + lambda_1) * of_augmented + slack).all())


@examples.fewer(2)
@given(examples.corrected_problems())
def test_in_sample_the_covariances_of_the_training_points_are_ordered(drawn):
    """The case x_a, x_b ∈ X with the nugget in f: Σ_aug ⪯ Σ_MO."""
    problem, r, _ = drawn
    found = problem.find_map(r)
    gap = np.linalg.eigvalsh(problem.covariance(found) - problem.covariance(found, r))
    assert gap[0] >= -1e-10 * problem.outputscale
    assert gap[-1] > 0.0


@given(st.floats(-8.0, 8.0), examples.powers(-3.0, 2.0))
def test_eubo_grows_with_the_spread_at_the_rate_of_the_density(ratio, spread):
    """∂EUBO/∂s = φ(δ/s) at fixed δ, by a five-point difference."""
    delta, h = torch.tensor(ratio * spread), 2e-3 * spread
    near, far = (
        float(
            eubo.closed_form(delta, torch.tensor(spread + step)) - eubo.closed_form(delta, torch.tensor(spread - step))
        )
        for step in (h, 2.0 * h)
    )
    rate = (8.0 * near - far) / (12.0 * h)
    assert rate == pytest.approx(float(stats.norm.pdf(ratio)), abs=1e-10 * (1.0 + abs(ratio)))


@given(st.floats(-3.0, 3.0), st.floats(0.1, 3.0))
def test_closed_form_is_the_expected_gain_of_the_better_design(delta, spread):
    def integrand(t):
        return (delta + spread * t) * stats.norm.pdf(t)

    expected, _ = integrate.quad(integrand, -delta / spread, 40.0, epsabs=1e-13, epsrel=1e-12, limit=200)
    ours = eubo.closed_form(torch.tensor(delta), torch.tensor(spread))
    assert float(ours) == pytest.approx(expected, rel=1e-9, abs=1e-11)


@given(st.floats(-5.0, 5.0), examples.powers(-1.0, 1.0), st.floats(1.01, 5.0))
def test_a_larger_spread_gives_a_higher_score_at_the_same_mean(delta, spread, factor):
    d, small, large = torch.tensor(delta), torch.tensor(spread), torch.tensor(spread * factor)
    gain = float(eubo.closed_form(d, large) - eubo.closed_form(d, small))
    assert -1e-15 * (1.0 + abs(delta)) <= gain <= (factor - 1.0) * spread / math.sqrt(2.0 * math.pi) * (1.0 + 1e-12)
    if abs(delta) / (spread * factor) < 5.0:
        assert gain > 0.0
