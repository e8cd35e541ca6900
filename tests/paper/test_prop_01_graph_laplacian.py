"""Proposition 1: the likelihood Hessian is a weighted graph Laplacian of rank N − N_cc. [prop:graph_laplacian]"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kappasharp.inference import comparisons, likelihood
from tests.paper import dense, examples


@st.composite
def weighted_graphs(draw, low=-4.0, high=2.0):
    n, pairs = draw(examples.graphs())
    weights = draw(hnp.arrays(float, len(pairs), elements=examples.powers(low, high)))
    return n, pairs, weights


@given(weighted_graphs())
def test_laplacian_is_the_dense_product_of_incidence_and_weights(graph):
    n, pairs, weights = graph
    ours = comparisons.laplacian(comparisons.incidence(torch.tensor(pairs), n), torch.tensor(weights))
    C = dense.incidence(pairs, n)
    np.testing.assert_allclose(ours, C.T @ np.diag(weights) @ C, rtol=1e-13, atol=1e-13 * weights.max())


@given(weighted_graphs())
def test_rows_of_the_laplacian_sum_to_zero_and_off_diagonals_are_never_positive(graph):
    n, pairs, weights = graph
    H_lik = comparisons.laplacian(comparisons.incidence(torch.tensor(pairs), n), torch.tensor(weights)).numpy()
    assert np.abs(H_lik.sum(1)).max() <= 1e-13 * weights.sum()
    assert (H_lik - np.diag(np.diag(H_lik))).max() <= 0.0
    np.testing.assert_allclose(H_lik, H_lik.T, rtol=1e-14)


@st.composite
def utilities_on_graphs(draw):
    n, pairs = draw(examples.graphs(max_points=6, max_answers=8))
    f = draw(hnp.arrays(float, n, elements=st.floats(-2.0, 2.0)))
    return n, pairs, f, draw(st.floats(0.5, 2.0))


@given(utilities_on_graphs())
def test_laplacian_is_minus_the_hessian_of_the_log_likelihood(drawn):
    n, pairs, f, noise = drawn
    model = likelihood.Probit(noise)
    incidence, C = comparisons.incidence(torch.tensor(pairs), n), dense.incidence(pairs, n)
    z = comparisons.differences(incidence, torch.tensor(f)) / model.scale
    H_lik = comparisons.laplacian(incidence, likelihood.curvature(z).omega / model.scale**2).numpy()

    def value(g):
        return dense.log_likelihood(g, C, noise)

    step = 3e-4 * np.eye(n)
    numerical = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            corners = [value(f + s * step[i] + t * step[j]) * s * t for s in (1, -1) for t in (1, -1)]
            numerical[i, j] = sum(corners) / (4.0 * 3e-4**2)
    np.testing.assert_allclose(H_lik, -numerical, atol=1e-6 * len(pairs) / min(noise, 1.0) ** 4)


@given(utilities_on_graphs())
def test_gradient_of_the_log_likelihood_is_the_pull_of_the_slopes(drawn):
    n, pairs, f, noise = drawn
    model = likelihood.Probit(noise)
    incidence, C = comparisons.incidence(torch.tensor(pairs), n), dense.incidence(pairs, n)
    z = comparisons.differences(incidence, torch.tensor(f)) / model.scale
    gradient = comparisons.transpose(incidence, likelihood.sites(z).slope / model.scale).numpy()
    step = 1e-5 * np.eye(n)
    numerical = [(dense.log_likelihood(f + h, C, noise) - dense.log_likelihood(f - h, C, noise)) / 2e-5 for h in step]
    np.testing.assert_allclose(gradient, numerical, atol=1e-8 * len(pairs))


@given(examples.graphs(max_points=14, max_answers=20))
def test_components_are_counted_as_scipy_counts_them(graph):
    n, pairs = graph
    assert int(comparisons.count_components(torch.tensor(pairs), n)) == dense.count_components(pairs, n)


@given(examples.graphs(max_points=14, max_answers=20), st.data())
def test_each_point_is_labelled_with_the_lowest_index_it_is_linked_to(graph, data):
    n, pairs = graph
    label = comparisons.components(torch.tensor(pairs), n).tolist()
    assert all(label[i] == label[j] for i, j in pairs)
    assert all(label[label[i]] == label[i] <= i for i in range(n))
    relabel = np.array(data.draw(st.permutations(range(n))))
    moved = comparisons.components(torch.tensor(relabel[pairs]), n).tolist()
    assert len(set(moved)) == len(set(label))


@given(weighted_graphs(low=-2.0, high=1.0))
def test_rank_is_the_number_of_points_minus_the_number_of_components(graph):
    n, pairs, weights = graph
    incidence = comparisons.incidence(torch.tensor(pairs), n)
    values = np.linalg.eigvalsh(comparisons.laplacian(incidence, torch.tensor(weights)).numpy())
    rank = int((values > 1e-10 * values.max()).sum())
    assert rank == n - int(comparisons.count_components(torch.tensor(pairs), n))


@pytest.mark.parametrize(
    ("pairs", "n", "n_components"),
    [([(0, 1), (2, 3), (4, 5)], 6, 3), ([(0, 1), (1, 2), (2, 0)], 3, 1), ([(5, 4), (4, 3), (3, 2), (2, 1)], 7, 3)],
)
def test_component_counts_known_by_hand(pairs, n, n_components):
    assert int(comparisons.count_components(torch.tensor(pairs), n)) == n_components


def test_curvature_at_a_coin_flip_is_two_over_pi():
    assert float(likelihood.curvature(torch.zeros(1)).omega) == pytest.approx(2.0 / math.pi, rel=1e-15, abs=0.0)
    assert float(likelihood.sites(torch.zeros(1)).omega) == pytest.approx(2.0 / math.pi, rel=1e-15, abs=0.0)


@given(st.floats(-40.0, 37.0) | st.floats(-1e6, -40.0))
def test_curvature_is_positive_and_exact_for_answers_however_surprising(z):
    omega = float(likelihood.curvature(torch.tensor([z])).omega)
    assert 0.0 < omega <= 1.0
    assert omega == pytest.approx(float(dense.omega_by_mpmath(z)), rel=1e-11, abs=0.0)


@given(st.floats(-40.0, 37.0) | st.floats(-1e3, -40.0))
def test_curvature_that_newton_steps_use_is_positive_too(z):
    omega = float(likelihood.sites(torch.tensor([z])).omega)
    assert omega > 0.0
    # ψ + z loses the digits that z² has; the gradient does not suffer, so a Newton step may.
    assert omega == pytest.approx(float(dense.omega_by_mpmath(z)), rel=1e-13 * (1.0 + z * z), abs=0.0)


@given(st.floats(-30.0, 30.0), st.floats(1e-3, 5.0))
def test_curvature_falls_as_an_answer_becomes_less_surprising(z, step):
    omega = likelihood.curvature(torch.tensor([z, z + step])).omega
    assert float(omega[1]) < float(omega[0])
