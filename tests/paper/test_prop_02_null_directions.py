"""Proposition 2: what the comparisons cannot see stays as the prior has it. [prop:pbo_vulnerable]"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kappasharp.inference import comparisons, likelihood
from tests.paper import dense, examples


@examples.fewer(2)
@given(examples.problems())
def test_null_space_has_one_dimension_per_component(problem):
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    n_components = int(comparisons.count_components(torch.tensor(problem.pairs), problem.n))
    assert Q0.shape[1] == n_components
    assert Q1.shape[1] == problem.n - n_components
    images = comparisons.rows(problem.C, torch.tensor(Q0.copy()))
    assert float(images.abs().max()) <= 1e-12


@examples.fewer(2)
@given(examples.problems(), st.data())
def test_a_shift_of_whole_components_leaves_every_answer_as_likely(problem, data):
    shifts = data.draw(hnp.arrays(float, problem.n, elements=st.floats(-10.0, 10.0)))
    f = torch.tensor(data.draw(hnp.arrays(float, problem.n, elements=st.floats(-3.0, 3.0))))
    constant = torch.tensor(shifts)[comparisons.components(torch.tensor(problem.pairs), problem.n)]
    scale = problem.probit.scale

    def log_probability(g):
        return likelihood.log_probability(comparisons.differences(problem.C, g) / scale)

    torch.testing.assert_close(log_probability(f + constant), log_probability(f), rtol=1e-12, atol=1e-12)


@examples.fewer(2)
@given(examples.problems(), st.data())
def test_likelihood_is_a_function_of_the_range_coordinates_alone(problem, data):
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    zeta = data.draw(hnp.arrays(float, Q1.shape[1], elements=st.floats(-3.0, 3.0)))
    xi = data.draw(hnp.arrays(float, Q0.shape[1], elements=st.floats(-10.0, 10.0)))
    f = torch.tensor(Q0 @ xi + Q1 @ zeta)
    ours = likelihood.log_probability(comparisons.differences(problem.C, f) / problem.probit.scale).sum()
    expected = dense.log_likelihood(Q1 @ zeta, problem.dense_C, problem.noise)
    assert float(ours) == pytest.approx(expected, rel=1e-11, abs=1e-12)


@examples.fewer(2)
@given(examples.problems())
def test_posterior_covariance_of_xi_given_zeta_is_the_priors(problem):
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    cov = problem.covariance(problem.find_map())
    _, of_posterior = dense.conditional(cov, Q0, Q1)
    _, of_prior = dense.conditional(problem.dense_K, Q0, Q1)
    np.testing.assert_allclose(of_posterior, of_prior, atol=1e-8 * problem.outputscale)


@examples.fewer(2)
@given(examples.problems())
def test_posterior_mean_of_xi_given_zeta_is_the_priors(problem):
    found = problem.find_map()
    Q0, Q1 = dense.null_and_range(problem.dense_C)
    prior_coefficient, _ = dense.conditional(problem.dense_K, Q0, Q1)
    coefficient, _ = dense.conditional(problem.covariance(found), Q0, Q1)
    np.testing.assert_allclose(coefficient, prior_coefficient, rtol=1e-6, atol=1e-6)
    # E[ξ | ζ] = ξ̂ + coefficient (ζ − ζ̂) equals the prior's coefficient ζ for every ζ just if ξ̂ = coefficient ζ̂.
    f = found.f.numpy()
    np.testing.assert_allclose(Q0.T @ f, prior_coefficient @ (Q1.T @ f), atol=1e-7 * (1.0 + np.abs(f).max()))


@examples.fewer(2)
@given(examples.problems())
def test_covariance_without_the_inverse_of_k_is_the_inverse_of_the_dense_hessian(problem):
    found = problem.find_map()
    K_inverse = np.linalg.inv(problem.dense_K)
    C, omega = problem.dense_C, dense.omega(problem.dense_C @ found.f.numpy() / problem.probit.scale)
    H = K_inverse + C.T @ np.diag(omega / (2.0 * problem.noise**2)) @ C
    np.testing.assert_allclose(problem.covariance(found), np.linalg.inv(H), atol=1e-8 * problem.outputscale)


@examples.fewer(2)
@given(examples.problems())
def test_with_independent_points_the_null_space_keeps_its_prior_covariance_unconditionally(problem):
    X, theta = np.linspace(0.0, 1.0, problem.n)[:, None], np.array([np.log(1e-3), problem.theta[-1]])
    far = examples.Problem(problem.family, X, theta, problem.nugget, problem.noise, problem.pairs)
    Q0, _ = dense.null_and_range(far.dense_C)
    cov = far.covariance(far.find_map())
    expected = far.outputscale * (1.0 + far.nugget) * np.eye(Q0.shape[1])
    np.testing.assert_allclose(Q0.T @ cov @ Q0, expected, atol=1e-10 * far.outputscale)
