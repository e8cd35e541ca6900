"""Theorem 7: a correction inside the covariance claims to know what no answer told. [thm:pseudo_confidence]"""

import numpy as np
import torch
from hypothesis import given

from kappasharp.algorithm import surrogate
from kappasharp.inference import comparisons
from tests.paper import dense, examples


def prior_precision(problem, Q0):
    """A = Q₀ᵀ K⁻¹ Q₀."""
    return Q0.T @ np.linalg.inv(problem.dense_K) @ Q0


@examples.fewer(2)
@given(examples.corrected_problems())
def test_map_only_keeps_the_prior_covariance_of_the_null_space(drawn):
    problem, r, _ = drawn
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    _, cov = dense.conditional(problem.covariance(problem.find_map(r)), Q0, Q1)
    expected = np.linalg.inv(prior_precision(problem, Q0))
    np.testing.assert_allclose(cov, expected, atol=1e-7 * problem.outputscale)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_full_augmentation_adds_the_correction_to_the_precision_of_the_null_space(drawn):
    problem, r, _ = drawn
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    _, cov = dense.conditional(problem.covariance(problem.find_map(r), r), Q0, Q1)
    expected = np.linalg.inv(prior_precision(problem, Q0) + Q0.T @ np.diag(r.numpy()) @ Q0)
    np.testing.assert_allclose(cov, expected, atol=1e-7 * problem.outputscale)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_full_augmentation_shrinks_the_null_space_in_every_direction(drawn):
    """Relative to A⁻¹ no eigenvalue of the shrunken covariance exceeds 1/(1 + ρ), ρ the least of R₀₀ relative to A."""
    problem, r, _ = drawn
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    found = problem.find_map(r)
    _, honest = dense.conditional(problem.covariance(found), Q0, Q1)
    _, shrunken = dense.conditional(problem.covariance(found, r), Q0, Q1)
    rho = dense.relative_eigenvalues(Q0.T @ np.diag(r.numpy()) @ Q0, prior_precision(problem, Q0))[0]
    assert rho > 0.0
    largest = dense.relative_eigenvalues(shrunken, honest)[-1]
    assert largest <= 1.0 / (1.0 + rho) + 1e-7
    assert np.trace(shrunken) < np.trace(honest)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_augmented_covariance_is_the_inverse_of_the_dense_augmented_hessian(drawn):
    problem, r, _ = drawn
    found = problem.find_map(r)
    omega = dense.omega(problem.dense_C @ found.f.numpy() / problem.probit.scale) / (2.0 * problem.noise**2)
    H = np.linalg.inv(problem.dense_K) + problem.dense_C.T @ np.diag(omega) @ problem.dense_C
    expected = np.linalg.inv(H + np.diag(r.numpy()))
    np.testing.assert_allclose(problem.covariance(found, r), expected, atol=1e-7 * problem.outputscale)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_common_level_of_each_component_becomes_falsely_certain(drawn):
    """The contrast of two components' levels is what EUBO would explore: only full augmentation makes it smaller."""
    problem, r, _ = drawn
    found = problem.find_map(r)
    label = comparisons.components(torch.tensor(problem.pairs), problem.n).numpy()
    honest, augmented = problem.covariance(found), problem.covariance(found, r)
    for own in np.unique(label):
        level = (label == own) / (label == own).sum()
        assert level @ augmented @ level < level @ honest @ level


@examples.fewer(4)
@given(examples.problems())
def test_whole_fits_differ_in_their_covariance_alone(problem):
    """The methods of the two columns of the theorem share f̂_η and the predictions' means."""
    map_only, full = (
        surrogate.fit(problem.X, problem.pairs, method=name, preset="paper") for name in ("static", "full_augmentation")
    )
    fresh = np.random.default_rng(0).random((6, problem.X.shape[1]))
    honest, augmented = map_only.posterior(fresh), full.posterior(fresh)
    torch.testing.assert_close(augmented.mean, honest.mean, rtol=1e-9, atol=1e-9)
    gap = np.linalg.eigvalsh((honest.covariance - augmented.covariance).numpy())
    outputscale = float(map_only.outputscale)
    assert gap[0] >= -1e-9 * outputscale
    assert gap[-1] > 1e-6 * outputscale
