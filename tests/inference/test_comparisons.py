"""Every product with C against the dense matrix, and the connected components against SciPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from kappasharp.inference import comparisons
from tests.reference import dense

# (runs in front, n, m): no run in front, one, two dimensions of them; fewer and more answers than points; repeats.
SHAPES = [((), 2, 1), ((), 6, 4), ((), 5, 17), ((3,), 7, 5), ((2, 3), 4, 9)]


def random_pairs(rng, batch, n, m):
    first = rng.integers(n, size=(*batch, m))
    second = (first + rng.integers(1, n, size=(*batch, m))) % n
    return np.stack([first, second], -1)


def case(batch, n, m):
    """Incidence and its dense twins, one per run, with the generator to draw more from."""
    rng = np.random.default_rng(n * 100 + m)
    pairs = random_pairs(rng, batch, n, m)
    C = comparisons.incidence(torch.as_tensor(pairs), n)
    flat = [dense.incidence(part, n) for part in pairs.reshape(-1, m, 2)]
    return rng, C, np.stack(flat).reshape(*batch, m, n)


def agree(ours, expected):
    assert np.allclose(ours.numpy(), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_differences_are_c_times_f(batch, n, m):
    rng, C, full = case(batch, n, m)
    f = rng.standard_normal((*batch, n))
    agree(comparisons.differences(C, torch.as_tensor(f)), np.einsum("...mn,...n->...m", full, f))


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_rows_are_c_times_a_matrix(batch, n, m):
    rng, C, full = case(batch, n, m)
    M = rng.standard_normal((*batch, n, 3))
    agree(comparisons.rows(C, torch.as_tensor(M)), full @ M)


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_transpose_is_c_transposed_times_a_vector(batch, n, m):
    rng, C, full = case(batch, n, m)
    v = rng.standard_normal((*batch, m))
    agree(comparisons.transpose(C, torch.as_tensor(v)), np.einsum("...mn,...m->...n", full, v))


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_transpose_rows_are_c_transposed_times_a_matrix(batch, n, m):
    rng, C, full = case(batch, n, m)
    M = rng.standard_normal((*batch, m, 3))
    agree(comparisons.transpose_rows(C, torch.as_tensor(M)), np.swapaxes(full, -1, -2) @ M)


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_congruence_is_c_k_c_transposed(batch, n, m):
    rng, C, full = case(batch, n, m)
    root = rng.standard_normal((*batch, n, n))
    K = root @ np.swapaxes(root, -1, -2)
    agree(comparisons.congruence(C, torch.as_tensor(K)), full @ K @ np.swapaxes(full, -1, -2))


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_spread_is_c_transposed_g_c(batch, n, m):
    rng, C, full = case(batch, n, m)
    root = rng.standard_normal((*batch, m, m))
    G = root + np.swapaxes(root, -1, -2)
    agree(comparisons.spread(C, torch.as_tensor(G)), np.swapaxes(full, -1, -2) @ G @ full)


@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_the_laplacian_is_c_transposed_omega_c(batch, n, m):
    rng, C, full = case(batch, n, m)
    omega = rng.uniform(size=(*batch, m))
    agree(comparisons.laplacian(C, torch.as_tensor(omega)), np.swapaxes(full, -1, -2) @ (omega[..., None] * full))


def test_a_batch_equals_its_runs_one_by_one():
    rng, C, _ = case((3,), 7, 5)
    f, omega = torch.as_tensor(rng.standard_normal((3, 7))), torch.as_tensor(rng.uniform(size=(3, 5)))
    together = comparisons.differences(C, f), comparisons.transpose(C, omega), comparisons.laplacian(C, omega)
    for run in range(3):
        alone = comparisons.incidence(C.pairs[run], 7)
        assert torch.equal(together[0][run], comparisons.differences(alone, f[run]))
        assert torch.equal(together[1][run], comparisons.transpose(alone, omega[run]))
        assert torch.equal(together[2][run], comparisons.laplacian(alone, omega[run]))


def test_turning_an_answer_round_turns_its_difference_round_and_leaves_the_laplacian():
    rng, C, _ = case((), 6, 4)
    turned = comparisons.incidence(C.pairs.flip(-1), 6)
    f, omega = torch.as_tensor(rng.standard_normal(6)), torch.as_tensor(rng.uniform(size=4))
    assert torch.equal(comparisons.differences(turned, f), -comparisons.differences(C, f))
    assert torch.allclose(comparisons.laplacian(turned, omega), comparisons.laplacian(C, omega), rtol=0, atol=1e-15)


def test_the_order_of_the_answers_does_not_matter_to_the_laplacian():
    rng, C, _ = case((), 5, 17)
    order = torch.as_tensor(rng.permutation(17))
    omega = torch.as_tensor(rng.uniform(size=17))
    mixed = comparisons.laplacian(comparisons.incidence(C.pairs[order], 5), omega[order])
    assert torch.allclose(mixed, comparisons.laplacian(C, omega), rtol=0, atol=1e-14)


def test_relabelled_points_permute_the_laplacian():
    rng, C, _ = case((), 6, 4)
    new_place = torch.as_tensor(rng.permutation(6))
    omega = torch.as_tensor(rng.uniform(size=4))
    moved = comparisons.laplacian(comparisons.incidence(new_place[C.pairs], 6), omega)
    assert torch.allclose(moved[new_place][:, new_place], comparisons.laplacian(C, omega), rtol=0, atol=1e-15)


def test_without_answers_every_product_is_empty_or_zero():
    C = comparisons.incidence(torch.empty(2, 0, 2, dtype=torch.long), 4)
    assert comparisons.differences(C, torch.ones(2, 4)).shape == (2, 0)
    assert torch.equal(comparisons.transpose(C, torch.empty(2, 0)), torch.zeros(2, 4))
    assert torch.equal(comparisons.laplacian(C, torch.empty(2, 0)), torch.zeros(2, 4, 4))
    assert comparisons.count_components(C.pairs, 4).tolist() == [4, 4]


def scipy_components(pairs, n):
    """For every point the lowest index of its component."""
    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    count, label = connected_components(graph, directed=False)
    lowest = np.array([np.flatnonzero(label == part).min() for part in range(count)])
    return count, lowest[label]


@st.composite
def graphs(draw):
    n = draw(st.integers(2, 30))
    pair = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1)).map(lambda p: (p[0], (p[0] + p[1]) % n))
    return n, np.array(draw(st.lists(pair, min_size=1, max_size=40)))


@given(graphs())
def test_components_are_scipys(graph):
    n, pairs = graph
    count, lowest = scipy_components(pairs, n)
    assert comparisons.components(torch.as_tensor(pairs), n).tolist() == lowest.tolist()
    assert int(comparisons.count_components(torch.as_tensor(pairs), n)) == count


def test_a_long_chain_under_random_labels_is_one_component():
    rng = np.random.default_rng(0)
    labels = rng.permutation(300)
    chain = np.stack([labels[:-1], labels[1:]], -1)[rng.permutation(299)]
    assert comparisons.components(torch.as_tensor(chain), 300).tolist() == [0] * 300


def test_components_of_a_batch_are_those_of_its_runs():
    rng = np.random.default_rng(1)
    pairs = random_pairs(rng, (4,), 12, 6)
    together = comparisons.components(torch.as_tensor(pairs), 12)
    for run in range(4):
        assert together[run].tolist() == scipy_components(pairs[run], 12)[1].tolist()


@given(graphs())
def test_the_laplacians_rank_is_points_minus_components(graph):
    n, pairs = graph
    C = comparisons.incidence(torch.as_tensor(pairs), n)
    H_lik = comparisons.laplacian(C, torch.ones(len(pairs)))
    assert np.linalg.matrix_rank(H_lik.numpy(), tol=1e-9) == n - scipy_components(pairs, n)[0]
