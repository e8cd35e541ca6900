"""Every diagnostic against its dense formula."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from kappasharp.correction import diagnostics
from kappasharp.inference import comparisons
from tests.reference import dense
from tests.reference.data import answered


def case(seed=0, n=9, m=12, r=0.0, threshold=0.0):
    data = answered(seed, n, m, 2, threshold=threshold)
    K = dense.prior_covariance("rbf", data.X, np.full(2, 0.5), 2.0, 1e-3)
    is_tie = data.is_tie if threshold else None
    twin = dense.Problem(
        K, dense.incidence(data.pairs, n), 0.5 * np.sqrt(2.0), threshold / (0.5 * np.sqrt(2.0)), is_tie, r
    )
    return data, twin, dense.find_map(twin)


@pytest.mark.parametrize("m", [3, 12, 40])
def test_effective_degrees_of_freedom_are_the_spectral_sum(m):
    """Σ μ/(1 + μ) over the eigenvalues μ of K^½ H_lik K^½."""
    data, twin, f = case(m=m)
    weights = dense.weights(twin, f)
    values, vectors = np.linalg.eigh(twin.K)
    root = vectors * np.sqrt(values) @ vectors.T
    mu = np.linalg.eigvalsh(root @ twin.C.T @ np.diag(weights) @ twin.C @ root)
    C = comparisons.incidence(torch.as_tensor(data.pairs), 9)
    found = diagnostics.effective_dof(torch.as_tensor(twin.K), C, torch.as_tensor(weights))
    assert float(found) == pytest.approx(np.sum(mu / (1.0 + mu)), rel=1e-9)
    assert float(found) < min(m, 9)


def test_without_answers_nothing_is_determined():
    C = comparisons.incidence(torch.empty(2, 0, 2).long(), 4)
    assert torch.equal(diagnostics.effective_dof(torch.eye(4).expand(2, 4, 4), C, torch.empty(2, 0)), torch.zeros(2))


@pytest.mark.parametrize("tie", [False, True])
def test_path_weights_are_the_mean_curvature_along_the_path(tie):
    z_0, z_1 = np.array([-3.0, 0.0, 1.0, 2.0, -8.0]), np.array([2.0, 0.5, -4.0, 2.1, -7.0])
    margin, is_tie = 0.4, np.full(5, tie)
    expected = [
        quad(
            lambda t, a=a, b=b: dense.answers(np.array([a + t * (b - a)]), margin, np.array([tie])).omega[0], 0.0, 1.0
        )[0]
        for a, b in zip(z_0, z_1, strict=True)
    ]
    ours = diagnostics.path_weights(
        torch.as_tensor(z_0), torch.as_tensor(z_1), margin, torch.as_tensor(is_tie) if tie else None
    )
    assert np.allclose(ours.numpy(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("step", [0.0, 1e-12, 1e-8, 1e-5])
def test_path_weights_of_a_tiny_step_are_the_curvature_there(step):
    z = torch.linspace(-6.0, 4.0, 21)
    expected = torch.as_tensor(dense.wins(z.numpy() + 0.5 * step).omega)
    assert torch.allclose(diagnostics.path_weights(z, z + step, 0.0, None), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("r", [np.zeros(9), np.linspace(0.0, 5.0, 9), np.full(9, 1e6)])
def test_the_relative_size_is_the_largest_generalised_eigenvalue(r):
    _, twin, f = case()
    H = dense.hessian(twin, f)
    expected = np.linalg.eigvals(np.linalg.solve(H, np.diag(r))).real.max()
    assert float(diagnostics.relative_size(torch.as_tensor(H), torch.as_tensor(r))) == pytest.approx(
        expected, rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("strength", [0.0, 0.1, 3.0, 100.0])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_the_map_shift_is_measured_in_the_averaged_hessian_and_stays_below_its_bound(strength, threshold):
    """f̂_η − f̂₀ = −(H̄ + R)⁻¹ R f̂₀ exactly, with H̄ averaged along the path: norm and bound follow."""
    r = strength * np.linspace(0.2, 1.0, 9)
    _, twin, f_0 = case(threshold=threshold)
    f_1 = dense.find_map(twin._replace(r=r))
    z_0, z_1 = (torch.as_tensor(twin.C @ f / twin.scale) for f in (f_0, f_1))
    ties = None if twin.is_tie is None else torch.as_tensor(twin.is_tie)
    averaged = diagnostics.path_weights(z_0, z_1, twin.margin, ties).numpy() / twin.scale**2
    H_bar = np.linalg.inv(twin.K) + twin.C.T @ np.diag(averaged) @ twin.C
    exact = -np.linalg.solve(H_bar + np.diag(r), r * f_0)
    assert np.allclose(f_1 - f_0, exact, rtol=0.0, atol=1e-6)
    shift, bound = diagnostics.map_shift(*(torch.as_tensor(part) for part in (H_bar, f_0, f_1, r)))
    assert float(shift) == pytest.approx(math.sqrt(max(exact @ H_bar @ exact, 0.0)), abs=1e-5)
    mu = np.linalg.eigvals(np.linalg.solve(H_bar, np.diag(r))).real.max()
    assert float(bound) == pytest.approx(mu / (1.0 + mu) * math.sqrt(f_0 @ H_bar @ f_0), rel=1e-8)
    assert float(shift) <= float(bound) + 1e-6


def test_the_acquisition_gap_is_its_formula():
    lambda_1, outputscale = torch.tensor([0.5, 2.0]), torch.tensor([4.0, 0.25])
    expected = [2.0 * 2.0 * 0.5 / math.sqrt(2 * math.pi), 2.0 * 0.5 * 2.0 / math.sqrt(2 * math.pi)]
    assert diagnostics.acquisition_gap_bound(lambda_1, outputscale).tolist() == pytest.approx(expected, rel=1e-14)


def test_the_condition_number_is_numpys():
    _, twin, f = case()
    H = dense.hessian(twin, f)
    low, high, kappa = diagnostics.condition_number(torch.as_tensor(H))
    values = np.linalg.eigvalsh(H)
    assert [float(low), float(high)] == pytest.approx([values[0], values[-1]], rel=1e-9)
    assert float(kappa) == pytest.approx(np.linalg.cond(H), rel=1e-8)


def test_near_duplicates_are_counted_in_length_scales():
    """Two points 4e-4 apart are near in a dimension with ℓ = 1 and far in one with ℓ = 0.1."""
    X = torch.tensor([[0.5, 0.5], [0.5004, 0.5], [0.2, 0.2], [0.2, 0.2004], [0.9, 0.1]])
    assert int(diagnostics.near_duplicates(X, torch.tensor([1.0, 1.0]))) == 4
    assert int(diagnostics.near_duplicates(X, torch.tensor([1.0, 0.1]))) == 2
    assert int(diagnostics.near_duplicates(X, torch.tensor([0.1, 0.1]))) == 0


def test_exact_duplicates_count_and_a_point_is_not_its_own():
    X = torch.tensor([[[0.1], [0.1], [0.1], [0.7]], [[0.1], [0.3], [0.5], [0.7]]])
    assert diagnostics.near_duplicates(X, torch.ones(2, 1)).tolist() == [3, 0]
    assert int(diagnostics.near_duplicates(torch.tensor([[0.5]]), torch.ones(1))) == 0


def test_the_saturated_share_counts_what_was_expected_and_not_what_surprised():
    """An answer far out on its own side (z > 3) no longer bends the likelihood; one against the model does, fully."""
    z = torch.tensor([[-3.5, -2.9, 0.0, 3.1], [0.0, 1.0, 2.0, 3.0]])
    assert diagnostics.saturated_share(z).tolist() == [0.25, 0.0]
    assert diagnostics.saturated_share(torch.empty(2, 0)).tolist() == [0.0, 0.0]
