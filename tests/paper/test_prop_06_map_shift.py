"""Proposition 6: how far the correction can shift the MAP. [prop:bias_bound]"""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate

from kappasharp.algorithm import surrogate
from kappasharp.correction import diagnostics, strength
from kappasharp.inference import comparisons
from tests.paper import dense, examples


def path_average(z_0, z_1):
    """The mean of ω over the straight path, by adaptive quadrature."""
    value, _ = integrate.quad(
        lambda t: dense.omega(z_0 + t * (z_1 - z_0)), 0.0, 1.0, epsabs=0.0, epsrel=1e-11, limit=200
    )
    return value


def contradictory(f):
    """Whether the answers cancel, so that the MAP is zero and has nowhere to move."""
    return float(f.abs().max()) < 1e-6


def averaged_hessian(problem, plain, shifted):
    """H̄ of J₀ between two MAPs, from the package's path weights."""
    weights = diagnostics.path_weights(plain.dual.z, shifted.dual.z, 0.0, None) / problem.probit.scale**2
    return strength.precision(problem.K, comparisons.laplacian(problem.C, weights))[0]


@given(st.floats(-8.0, 8.0), st.floats(-8.0, 8.0))
def test_path_weights_are_the_average_curvature_along_the_path(z_0, z_1):
    ours = diagnostics.path_weights(torch.tensor([z_0]), torch.tensor([z_1]), 0.0, None)
    assert float(ours) == pytest.approx(path_average(z_0, z_1), rel=1e-8, abs=0.0)


@given(st.floats(-8.0, 8.0), examples.powers(-12.0, -3.0), st.sampled_from([-1.0, 1.0]))
def test_path_weights_stay_exact_over_the_shortest_paths(z, length, sign):
    ours = diagnostics.path_weights(torch.tensor([z]), torch.tensor([z + sign * length]), 0.0, None)
    assert float(ours) == pytest.approx(path_average(z, z + sign * length), rel=1e-8, abs=0.0)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_both_maps_are_the_minima_that_a_dense_newton_method_finds(drawn):
    problem, r, _ = drawn
    for weights in (None, r):
        ours = problem.find_map(weights).f.numpy()
        expected = dense.find_map(problem.dense_K, problem.dense_C, problem.noise, weights)
        np.testing.assert_allclose(ours, expected, atol=1e-7 * (1.0 + np.abs(expected).max()))


@examples.fewer(2)
@given(examples.corrected_problems())
def test_shift_solves_the_linear_equation_of_the_path_averaged_hessian(drawn):
    """(H̄ + R) Δ = −R f̂₀, the step of the proof that the bound rests on."""
    problem, r, _ = drawn
    plain, shifted = problem.find_map(), problem.find_map(r)
    H_bar = averaged_hessian(problem, plain, shifted).numpy()
    expected = -np.linalg.solve(H_bar + np.diag(r.numpy()), r.numpy() * plain.f.numpy())
    np.testing.assert_allclose(shifted.f - plain.f, expected, atol=1e-6 * (1.0 + float(plain.f.abs().max())))


@examples.fewer(2)
@given(examples.corrected_problems())
def test_shift_stays_within_its_bound(drawn):
    problem, r, _ = drawn
    plain, shifted = problem.find_map(), problem.find_map(r)
    assume(not contradictory(plain.f))
    shift, bound = diagnostics.map_shift(averaged_hessian(problem, plain, shifted), plain.f, shifted.f, r)
    assert 0.0 < float(shift) <= float(bound) * (1.0 + 1e-9)


@examples.fewer(2)
@given(examples.corrected_problems())
def test_shift_and_bound_are_those_of_dense_algebra_with_quadrature(drawn):
    problem, r, _ = drawn
    plain, shifted = problem.find_map(), problem.find_map(r)
    ours = diagnostics.map_shift(averaged_hessian(problem, plain, shifted), plain.f, shifted.f, r)
    ends = zip(plain.dual.z.tolist(), shifted.dual.z.tolist(), strict=True)
    averaged = np.array([path_average(*pair) for pair in ends]) / (2.0 * problem.noise**2)
    H_bar = np.linalg.inv(problem.dense_K) + problem.dense_C.T @ np.diag(averaged) @ problem.dense_C
    delta, f = (shifted.f - plain.f).numpy(), plain.f.numpy()
    mu = dense.relative_eigenvalues(np.diag(r.numpy()), H_bar)[-1]
    expected = np.sqrt([delta @ H_bar @ delta, f @ H_bar @ f]) * [1.0, mu / (1.0 + mu)]
    np.testing.assert_allclose([float(part) for part in ours], expected, rtol=1e-6)


@given(st.floats(0.05, 0.95), examples.powers(-1.0, 1.5), examples.powers(-3.0, -1.0), examples.powers(-2.0, 2.0))
def test_shift_after_one_answer_between_two_points_has_a_closed_form(distance, outputscale, nugget, strength):
    """f̂₀ is then antisymmetric, an eigenvector of H̄, and shrinks by μ/(1 + μ) of that direction exactly."""
    X, theta = np.array([[0.0], [distance]]), np.log([0.5, outputscale])
    problem = examples.Problem("rbf", X, theta, nugget, 1.0, np.array([[0, 1]]))
    r = torch.full((2,), strength)
    plain, shifted = problem.find_map(), problem.find_map(r)
    shift, bound = diagnostics.map_shift(averaged_hessian(problem, plain, shifted), plain.f, shifted.f, r)
    prior = 1.0 / (outputscale * (1.0 + nugget - np.exp(-0.5 * (distance / 0.5) ** 2)))
    eigenvalue = prior + 2.0 * path_average(float(plain.dual.z), float(shifted.dual.z)) / 2.0
    expected = strength / (eigenvalue + strength) * np.sqrt(eigenvalue) * float(plain.f.norm())
    assert float(shift) == pytest.approx(expected, rel=1e-6, abs=0.0)
    assert float(shift) < float(bound)


@examples.fewer(2)
@given(examples.problems())
def test_without_correction_the_map_does_not_move(problem):
    r = torch.zeros(problem.n)
    plain, shifted = problem.find_map(), problem.find_map(r)
    torch.testing.assert_close(shifted.f, plain.f, rtol=1e-8, atol=1e-10)
    _, bound = diagnostics.map_shift(averaged_hessian(problem, plain, shifted), plain.f, shifted.f, r)
    assert float(bound) == 0.0


@examples.fewer(4)
@given(examples.problems(), st.sampled_from(["static", "diagonal", "jitter", "full_augmentation"]))
def test_bound_is_kept_by_the_calibrated_correction_of_a_whole_fit(problem, method):
    model = surrogate.fit(problem.X, problem.pairs, method=method, preset="paper")
    assume(not contradictory(model.utility))
    found = model.diagnostics()
    assert float(found.strength) > 0.0
    assert 0.0 < float(found.map_shift) <= float(found.map_shift_bound) * (1.0 + 1e-9)
