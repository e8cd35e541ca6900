"""The mathematics that `benchmarks/botorch_0_6.py` adds to BoTorch 0.6.0 is the package's own, by another way."""

import numpy as np
import pytest
import torch

from benchmarks import botorch_0_6
from kappasharp.correction import activation, strength


def hessian(seed: int, n: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """H = K⁻¹ + Cᵀ W C of clustered points, each compared with the next, and the diagonal of K⁻¹."""
    random = np.random.default_rng(seed)
    X = random.random((n, 2))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / 0.2**2) + 1e-5 * np.eye(n)
    K_inverse = np.linalg.inv(K)
    C = np.eye(n)[::2] - np.eye(n)[1::2]
    return K_inverse + C.T @ (random.random(len(C))[:, None] * C), K_inverse.diagonal()


@pytest.mark.parametrize("seed", range(8))
def test_calibration_is_the_packages(seed: int) -> None:
    H, a = hessian(seed)
    eta, before, after = botorch_0_6.calibrate(H, a)
    ours = strength.calibrate(torch.tensor(H), torch.tensor(a), botorch_0_6.TARGET_EXPONENT)
    assert eta == pytest.approx(float(ours.eta), rel=1e-5)
    assert before == pytest.approx(float(ours.kappa_before), rel=1e-6)
    assert after == pytest.approx(before**0.9, rel=1e-5)
    assert after == pytest.approx(float(ours.kappa_after), rel=1e-5)


def test_a_matrix_that_is_not_positive_definite_has_no_strength() -> None:
    H, a = hessian(0)
    assert botorch_0_6.calibrate(H - 2.0 * np.trace(H) * np.eye(len(H)), a)[0] is None


@pytest.mark.parametrize(("difference", "variance"), [(0.0, 1.0), (-0.7, 0.2), (2.5, 1.3), (40.0, 0.1)])
def test_decisiveness_is_the_packages(difference: float, variance: float) -> None:
    p = activation.agreement(torch.tensor(difference).double(), torch.tensor(variance).double(), botorch_0_6.NOISE)
    assert botorch_0_6.decisiveness(difference, variance) == pytest.approx(float(activation.decisiveness(p)), abs=1e-12)
