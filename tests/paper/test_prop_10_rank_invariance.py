"""Proposition 10: moving the MAP never changes what the comparisons can see. [prop:rank_invariance_statement]"""

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse.csgraph import connected_components

from kappasharp.algorithm import surrogate
from kappasharp.inference import comparisons, likelihood
from tests.paper import dense, examples


def laplacian(n, pairs, z):
    return comparisons.laplacian(comparisons.incidence(torch.tensor(pairs), n), likelihood.curvature(z).omega).numpy()


@st.composite
def utilities_on_graphs(draw, size):
    n, pairs = draw(examples.graphs())
    f = draw(hnp.arrays(float, n, elements=st.floats(-size, size)))
    return n, pairs, torch.tensor(f[pairs[:, 0]] - f[pairs[:, 1]])


@given(utilities_on_graphs(2.0))
def test_rank_is_the_same_for_every_utility(drawn):
    n, pairs, z = drawn
    rank = n - dense.count_components(pairs, n)
    for scale in (0.0, 0.5, 1.0, -1.0):
        values = np.linalg.eigvalsh(laplacian(n, pairs, scale * z))
        assert int((values > 1e-11 * values.max()).sum()) == rank


@given(utilities_on_graphs(2.0))
def test_kernel_of_the_hessian_is_the_kernel_of_the_incidence_matrix(drawn):
    n, pairs, z = drawn
    H_lik = laplacian(n, pairs, z)
    Q0, Q1 = dense.null_and_range(dense.incidence(pairs, n))
    assert np.abs(H_lik @ Q0).max() <= 1e-13 * len(pairs)
    weakest = float(likelihood.curvature(z).omega.min())
    # A connected graph of n points with unit weights has no eigenvalue but 0 below 4/n².
    assert np.linalg.eigvalsh(Q1.T @ H_lik @ Q1)[0] >= 0.99 * weakest * 4.0 / n**2 - 1e-14 * len(pairs)


@given(utilities_on_graphs(18.0))
def test_no_answer_loses_its_edge_however_clear_or_surprising(drawn):
    """Up to |z| = 36: the off-diagonals alone, each a sum of weights, still link the same components.

    The rank of a Laplacian is N minus the components that its off-diagonals link, so this is exact where
    eigenvalues would drown in rounding.
    """
    n, pairs, z = drawn
    H_lik = laplacian(n, pairs, z)
    linked = -H_lik > 0.0
    np.fill_diagonal(linked, False)
    expected = np.zeros((n, n), dtype=bool)
    expected[pairs[:, 0], pairs[:, 1]] = expected[pairs[:, 1], pairs[:, 0]] = True
    np.testing.assert_array_equal(linked, expected)
    count = connected_components(linked, directed=False)[0]
    assert count == int(comparisons.count_components(torch.tensor(pairs), n))


@examples.fewer(2)
@given(examples.corrected_problems())
def test_the_corrected_map_moves_the_weights_and_not_the_rank(drawn):
    problem, r, _ = drawn
    plain, shifted = problem.find_map(), problem.find_map(r)
    before, after = problem.weights(plain), problem.weights(shifted)
    # Answers that cancel leave the MAP at zero, where nothing moves.
    assume(float(plain.f.abs().max()) > 1e-6)
    assert float((before - after).abs().max()) > 0.0
    Q0, _ = dense.null_and_range(problem.dense_C)
    for weights in (before, after):
        H_lik = comparisons.laplacian(problem.C, weights).numpy()
        values = np.linalg.eigvalsh(H_lik)
        assert int((values > 1e-11 * values.max()).sum()) == problem.n - Q0.shape[1]
        assert np.abs(H_lik @ Q0).max() <= 1e-13 * float(weights.sum())


@examples.fewer(4)
@given(examples.problems())
def test_diagnostics_report_the_same_rank_with_and_without_correction(problem):
    plain, corrected = (
        surrogate.fit(problem.X, problem.pairs, method=name, preset="paper").diagnostics()
        for name in ("baseline", "static")
    )
    n_components = dense.count_components(problem.pairs, problem.n)
    assert int(plain.n_components) == int(corrected.n_components) == n_components
    assert int(plain.rank) == int(corrected.rank) == problem.n - n_components
    assert float(corrected.strength) > float(plain.strength) == 0.0
