"""The paper's calibration, read literally: dense eigenvalues on a grid, then bisection of the first crossing."""

import numpy as np

Array = np.ndarray


def condition_number(M: Array) -> float:
    """λ_max/λ_min."""
    values = np.linalg.eigvalsh(M)
    return values[-1] / values[0]


def corrected(H: Array, a: Array, eta: float) -> Array:
    """H + diag(η²/(η + a))."""
    return H + np.diag(eta**2 / (eta + a))


def calibrate(H: Array, a: Array, target_exponent: float) -> float:
    """The first η of the paper's grid with κ(H + R(η)) ≤ κ(H)^(1−α), bisected 30 times; NaN if there is none."""
    target = condition_number(H) ** (1.0 - target_exponent)
    low = 0.0
    for high in np.logspace(-6, 8, 60):
        if condition_number(corrected(H, a, high)) <= target:
            break
        low = high
    else:
        return np.nan
    for _ in range(30):
        middle = 0.5 * (low + high)
        if condition_number(corrected(H, a, middle)) <= target:
            high = middle
        else:
            low = middle
    return high
