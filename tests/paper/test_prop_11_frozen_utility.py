"""Proposition 11: at fixed utilities, an answer less is less curvature. [prop:weak_mode_mass]"""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kappasharp.correction import diagnostics
from kappasharp.inference import comparison_space, comparisons, likelihood
from tests.paper import dense, examples


def laplacian(n, pairs, omega):
    return comparisons.laplacian(comparisons.incidence(torch.tensor(pairs), n), omega).numpy()


@st.composite
def removals(draw):
    """Answers at fixed utilities with their weights, and the number of the one to remove."""
    n, pairs = draw(examples.graphs())
    f = draw(hnp.arrays(float, n, elements=st.floats(-3.0, 3.0)))
    omega = likelihood.curvature(torch.tensor(f[pairs[:, 0]] - f[pairs[:, 1]])).omega
    return n, pairs, omega, draw(st.integers(0, len(pairs) - 1))


def without(pairs, omega, removed):
    keep = np.arange(len(pairs)) != removed
    return pairs[keep], omega[torch.tensor(keep)]


@given(removals())
def test_removing_an_answer_takes_away_its_own_rank_one_term(drawn):
    n, pairs, omega, removed = drawn
    taken = laplacian(n, pairs, omega) - laplacian(n, *without(pairs, omega, removed))
    row = dense.incidence(pairs, n)[removed]
    np.testing.assert_allclose(taken, float(omega[removed]) * np.outer(row, row), atol=1e-14 * len(pairs))


@given(removals())
def test_no_direction_and_no_eigenvalue_gains_curvature(drawn):
    n, pairs, omega, removed = drawn
    full, reduced = laplacian(n, pairs, omega), laplacian(n, *without(pairs, omega, removed))
    slack = 1e-13 * len(pairs)
    assert np.linalg.eigvalsh(full - reduced)[0] >= -slack
    assert np.all(np.linalg.eigvalsh(reduced) <= np.linalg.eigvalsh(full) + slack)
    lost = np.trace(full) - np.trace(reduced)
    assert abs(lost - 2.0 * float(omega[removed])) <= slack


@given(removals())
def test_rank_falls_by_one_just_where_the_answer_was_a_bridge(drawn):
    n, pairs, omega, removed = drawn
    fewer, _ = without(pairs, omega, removed)
    before, after = (int(comparisons.count_components(torch.tensor(p), n)) for p in (pairs, fewer))
    C = dense.incidence(pairs, n)
    ranks = [np.linalg.matrix_rank(M) if len(M) else 0 for M in (C, np.delete(C, removed, 0))]
    assert after - before == ranks[0] - ranks[1]
    assert after - before in (0, 1)


@examples.fewer(2)
@given(examples.problems(), st.data())
def test_at_frozen_weights_fewer_answers_leave_more_variance_and_inform_less(problem, data):
    weights = problem.weights(problem.find_map())
    removed = data.draw(st.integers(0, len(problem.pairs) - 1))
    pairs, kept = without(problem.pairs, weights, removed)
    C = comparisons.incidence(torch.tensor(pairs), problem.n)
    less, more = (comparison_space.information_root(problem.K, *args) for args in ((C, kept), (problem.C, weights)))
    gap = np.linalg.eigvalsh((more @ more.mT - less @ less.mT).numpy())
    assert gap[0] >= -1e-9 * float((more @ more.mT).diagonal().max())
    assert gap[-1] > 0.0
    informed = [float(diagnostics.effective_dof(problem.K, *args)) for args in ((C, kept), (problem.C, weights))]
    assert informed[0] < informed[1]


@given(st.floats(1e-3, 0.05), examples.powers(-0.5, 1.5), examples.powers(-0.5, 0.3))
def test_after_a_refit_the_order_fails_for_two_answers_that_say_the_same(near, outputscale, noise):
    """The statement is one of frozen curvature: refitting makes the remaining answer less clear, so it bends more.

    Points 0 and 1 are neighbours, and so are 2 and 3; (0 ≻ 2) stays, (1 ≻ 3) goes, and v = e₀ − e₂ sees only the first.
    """
    X, theta = np.array([[0.1], [0.1 + near], [0.9], [0.9 - near]]), np.log([0.3, outputscale])
    both = examples.Problem("rbf", X, theta, 1e-4, noise, np.array([[0, 2], [1, 3]]))
    one = examples.Problem("rbf", X, theta, 1e-4, noise, np.array([[0, 2]]))
    at_both = both.weights(both.find_map())
    refitted = comparisons.laplacian(one.C, one.weights(one.find_map())).numpy()
    frozen = comparisons.laplacian(one.C, at_both[:1]).numpy()
    full = comparisons.laplacian(both.C, at_both).numpy()
    v = np.array([1.0, 0.0, -1.0, 0.0])
    assert v @ frozen @ v <= v @ full @ v * (1.0 + 1e-14)
    assert v @ refitted @ v > v @ full @ v
