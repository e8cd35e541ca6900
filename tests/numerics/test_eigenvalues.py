"""Both ends of the spectrum against NumPy, and certificates that refuse what is wrong."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from kappasharp.numerics import eigenvalues
from kappasharp.numerics.eigenvalues import HIGH_ACCURACY, LOW_ACCURACY
from tests.reference import dense


def spectrum(values, seed=0):
    """A symmetric matrix with these eigenvalues."""
    n = len(values)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    M = basis * np.asarray(values) @ basis.T
    return torch.as_tensor(0.5 * (M + M.T))


def hessian_of_clusters(n, nugget, seed=0):
    """K⁻¹ plus a little: points in tight clusters, so that the nugget alone sets a whole bundle of top eigenvalues."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(size=(max(n // 5, 1), 3))
    X = centres[rng.integers(len(centres), size=n)] + 1e-6 * rng.standard_normal((n, 3))
    K = dense.prior_covariance("rbf", X, np.full(3, 0.4), 2.0, nugget)
    inverse = np.linalg.inv(K)
    return torch.as_tensor(0.5 * (inverse + inverse.T))


MATRICES = {
    "well separated": spectrum([0.1, 1.0, 2.0, 5.0, 40.0]),
    "one by one": torch.tensor([[3.0]], dtype=torch.float64),
    "two by two": spectrum([0.5, 7.0]),
    "three by three": spectrum([1e-3, 0.5, 9.0]),
    "identity": torch.eye(6, dtype=torch.float64),
    "clustered top": spectrum([0.3, *np.linspace(99.0, 100.0, 19)]),
    "top within 1e-7": spectrum([0.3, 5.0, *(100.0 * (1.0 - 1e-7 * np.arange(12)))]),
    "clustered bottom": spectrum([*(0.5 + 1e-4 * np.arange(8)), 30.0]),
    "wide": spectrum(np.geomspace(1e-4, 1e6, 30)),
    "nugget 1e-4": hessian_of_clusters(40, 1e-4),
    "nugget 1e-6": hessian_of_clusters(40, 1e-6),
}


@pytest.mark.parametrize("name", list(MATRICES))
def test_the_top_is_numpys_and_proved(name):
    M = MATRICES[name]
    found = eigenvalues.find_high(M.unsqueeze(0))
    top = np.linalg.eigvalsh(M.numpy())[-1]
    assert bool(found.certified)
    assert float(found.value) == pytest.approx(top, rel=2 * HIGH_ACCURACY)
    assert float(found.value) <= top * (1.0 + 1e-9), "a Rayleigh quotient cannot exceed the largest eigenvalue"
    assert float(found.vector.norm()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in MATRICES if name != "clustered bottom"])
def test_the_bottom_is_numpys(name):
    """To LOW_ACCURACY, or to what the rounding of λ_max leaves of λ_min."""
    M = MATRICES[name]
    found = eigenvalues.find_low(M.unsqueeze(0))
    values = np.linalg.eigvalsh(M.numpy())
    allowed = 10 * LOW_ACCURACY * values[0] + 1e-14 * values[-1]
    assert float(found.value) == pytest.approx(values[0], abs=allowed)
    assert bool(eigenvalues.certify_low(M.unsqueeze(0), found.value, torch.as_tensor(values[-1:])))


def test_a_bundle_of_lowest_eigenvalues_is_found_or_refused():
    """Inverse iteration creeps where neighbours are 2e-4 apart: its result is right, or the certificate says no."""
    M = MATRICES["clustered bottom"].unsqueeze(0)
    values = np.linalg.eigvalsh(M[0].numpy())
    found = eigenvalues.find_low(M)
    right = abs(float(found.value) / values[0] - 1.0) <= 20 * LOW_ACCURACY
    assert bool(eigenvalues.certify_low(M, found.value, torch.as_tensor(values[-1:]))) == right


def test_a_start_that_is_blind_to_the_lowest_vector_is_refused():
    """(1, 1) is orthogonal to the lowest eigenvector (1, −1): inverse iteration cannot see it, the certificate does."""
    M = torch.tensor([[[1.0, 0.5], [0.5, 1.0]]])
    found = eigenvalues.find_low(M)
    certified = bool(eigenvalues.certify_low(M, found.value, torch.tensor([1.5])))
    assert certified == (abs(float(found.value) - 0.5) <= 1e-6)
    assert not bool(eigenvalues.certify_low(M, torch.tensor([1.5]), torch.tensor([1.5])))


@pytest.mark.parametrize(
    ("name", "excess"),
    [
        (name, excess)
        # Where κ is 1e10 the rounding of λ_max hides an error of 1e-6 in λ_min.
        for name, smallest in (("well separated", 1e-6), ("clustered top", 1e-6), ("nugget 1e-4", 1e-6), ("wide", 1e-3))
        for excess in (1e-6, 1e-3, 1.0)
        if excess >= smallest
    ],
)
def test_a_lowest_eigenvalue_that_is_too_high_is_refused(name, excess):
    M = MATRICES[name]
    values = np.linalg.eigvalsh(M.numpy())
    wrong = torch.as_tensor(values[:1] * (1.0 + excess))
    assert not bool(eigenvalues.certify_low(M.unsqueeze(0), wrong, torch.as_tensor(values[-1:])))


@pytest.mark.parametrize("shifts", [1, 2, 3])
@pytest.mark.parametrize("name", list(MATRICES))
def test_a_search_cut_short_never_certifies_a_wrong_top(monkeypatch, name, shifts):
    monkeypatch.setattr(eigenvalues, "MAX_SHIFTS", shifts)
    M = MATRICES[name].unsqueeze(0)
    top = np.linalg.eigvalsh(M[0].numpy())[-1]
    start = torch.as_tensor(np.random.default_rng(1).standard_normal((1, M.shape[-1])))
    for found in (eigenvalues.find_high(M), eigenvalues.find_high(M, start / start.norm())):
        close = abs(float(found.value) / top - 1.0) <= 2 * HIGH_ACCURACY
        assert close or not bool(found.certified)


def test_a_second_eigenvector_as_start_is_not_mistaken_for_the_first():
    """An exact eigenvector has no residual, but a larger eigenvalue exists, and the factorization knows."""
    M = torch.diag(torch.tensor([1.0, 5.0, 9.0])).unsqueeze(0)
    found = eigenvalues.find_high(M, torch.tensor([[0.0, 1.0, 0.0]]))
    assert not bool(found.certified) or float(found.value) == pytest.approx(9.0, rel=1e-5)


def test_a_warm_vector_leads_to_the_same_top():
    M = MATRICES["clustered top"].unsqueeze(0)
    near = eigenvalues.find_high(M).vector
    shifted = eigenvalues.plus(M, torch.linspace(0.0, 0.01, 20).unsqueeze(0))
    found = eigenvalues.find_high(shifted, near)
    assert bool(found.certified)
    assert float(found.value) == pytest.approx(np.linalg.eigvalsh(shifted[0].numpy())[-1], rel=2 * HIGH_ACCURACY)


def test_more_inverse_iterations_never_raise_the_quotient():
    M = MATRICES["clustered bottom"].unsqueeze(0)
    L = torch.linalg.cholesky(M)
    u = torch.ones(1, 9) / 3.0
    values = [float(eigenvalues.improve_low(M, L, u, solves).value) for solves in (1, 2, 4, 8, 100)]
    assert all(after <= before + 1e-14 for before, after in pairwise(values))


def test_a_batch_equals_its_matrices_one_by_one():
    M = torch.stack([hessian_of_clusters(25, 1e-4, seed) for seed in range(4)])
    high, low = eigenvalues.find_high(M), eigenvalues.find_low(M)
    for run in range(4):
        alone = eigenvalues.find_high(M[run : run + 1])
        assert float(high.value[run]) == pytest.approx(float(alone.value), rel=2 * HIGH_ACCURACY)
        assert float(low.value[run]) == pytest.approx(float(eigenvalues.find_low(M[run : run + 1]).value), rel=1e-7)
        assert bool(high.certified[run])


@pytest.mark.parametrize("name", list(MATRICES))
def test_the_dense_way_out_is_numpys(name):
    M = MATRICES[name]
    low, high = eigenvalues.dense(M.unsqueeze(0))
    values = np.linalg.eigvalsh(M.numpy())
    assert float(low.value) == pytest.approx(values[0], abs=1e-13 * values[-1])
    assert float(high.value) == pytest.approx(values[-1], rel=1e-12)
    residual = M @ low.vector[0] - low.value * low.vector[0]
    assert float(residual.norm()) <= 1e-12 * values[-1]


def test_adding_a_diagonal_leaves_the_original():
    M = torch.eye(3).unsqueeze(0)
    assert torch.equal(
        eigenvalues.plus(M, torch.tensor([[1.0, 2.0, 3.0]])), torch.diag(torch.tensor([2.0, 3.0, 4.0])).unsqueeze(0)
    )
    assert torch.equal(M[0], torch.eye(3))


def test_a_solver_that_gives_up_or_a_row_that_is_not_finite_costs_nobody_else_the_answer(monkeypatch):
    generator = torch.Generator().manual_seed(4)
    half = torch.randn(3, 12, 12, generator=generator, dtype=torch.float64)
    M = half @ half.mT + torch.eye(12, dtype=torch.float64)
    usual = eigenvalues.find_high(M)
    eigh, calls = torch.linalg.eigh, []

    def refuse_first(matrix):
        calls.append(matrix)
        if len(calls) % 2:
            raise torch.linalg.LinAlgError
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", refuse_first)
    assert torch.allclose(eigenvalues.find_high(M).value, usual.value, rtol=1e-12)
    monkeypatch.setattr(torch.linalg, "eigh", eigh)
    M[1] = torch.nan
    found = eigenvalues.find_high(M)
    assert not bool(found.certified[1])
    assert torch.allclose(found.value[[0, 2]], usual.value[[0, 2]], rtol=1e-9)


def test_the_low_end_does_not_depend_on_the_company():
    """One that settles at once beside one that takes long: to the last digit what each finds alone."""
    together = torch.stack([spectrum([0.1, 5.0, 6.0, 9.0]), spectrum([1.0, 1.02, 1.05, 9.0], seed=1)])
    alone = [eigenvalues.find_low(one.unsqueeze(0)) for one in together]
    found = eigenvalues.find_low(together)
    assert torch.equal(found.value, torch.cat([one.value for one in alone]))
    assert torch.equal(found.vector, torch.cat([one.vector for one in alone]))
