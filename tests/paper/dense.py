"""The slow, obvious NumPy and SciPy twins that the paper's statements are checked against."""

import math

import mpmath
import numpy as np
from scipy import special
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components


def incidence(pairs, n):
    """C in full: +1 in the winner's column, −1 in the loser's."""
    C = np.zeros((len(pairs), n))
    for row, (winner, loser) in enumerate(pairs):
        C[row, winner] += 1.0
        C[row, loser] -= 1.0
    return C


def count_components(pairs, n):
    ones = np.ones(len(pairs))
    graph = csr_matrix((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[0]


def null_and_range(C):
    """Orthonormal bases Q0 of the kernel of C and Q1 of the range of Cᵀ, both from one SVD."""
    _, values, right = np.linalg.svd(C, full_matrices=True)
    rank = int((values > 1e-10).sum())
    return right[rank:].T, right[:rank].T


def hazard(z):
    """ψ = φ/Φ through logarithms; good for z above −30 or so."""
    z = np.asarray(z)
    return np.exp(-0.5 * z**2 - 0.5 * math.log(2.0 * math.pi) - special.log_ndtr(z))


def omega(z):
    """ψ(ψ + z), the curvature in z; good for moderate z."""
    psi = hazard(z)
    return psi * (psi + z)


def omega_by_mpmath(z):
    """ψ(ψ + z) of one z to sixty digits more than cancellation and underflow can cost."""
    with mpmath.workdps(80):
        x = mpmath.mpf(z)
        # erfc and not ncdf: the lower tail must not come out as a difference.
        psi = mpmath.npdf(x) / (mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
        return psi * (psi + x)


def log_likelihood(f, C, noise):
    return float(special.log_ndtr(C @ f / (noise * math.sqrt(2.0))).sum())


def kernel(family, X, Y, theta):
    """k(X, Y) without nugget, from plain differences."""
    lengthscale, outputscale = np.exp(theta[:-1]), math.exp(theta[-1])
    squared = (((X[:, None, :] - Y[None, :, :]) / lengthscale) ** 2).sum(-1)
    if family == "rbf":
        return outputscale * np.exp(-0.5 * squared)
    r = np.sqrt(5.0 * squared)
    return outputscale * (1.0 + r + r**2 / 3.0) * np.exp(-r)


def symmetric_root(M):
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(values.clip(0.0))) @ vectors.T


def relative_eigenvalues(R, H):
    """Eigenvalues of H^−½ R H^−½, ascending."""
    values, vectors = np.linalg.eigh(H)
    half = (vectors / np.sqrt(values)) @ vectors.T
    return np.linalg.eigvalsh(half @ R @ half)


def condition_number(M):
    values = np.linalg.eigvalsh(M)
    return values[-1] / values[0]


def calibrate(H, a, target_exponent):
    """η* as the paper computes it: 60 log-spaced points, the first interval that crosses, 30 bisections; or None."""
    target = condition_number(H) ** (1.0 - target_exponent)

    def meets(eta):
        return condition_number(H + np.diag(eta**2 / (eta + a))) <= target

    if meets(0.0):
        return 0.0
    low = 0.0
    for high in np.logspace(-6, 8, 60):
        if meets(high):
            break
        low = high
    else:
        return None
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def find_map(K, C, noise, r=None):
    """argmin J₀ + ½ fᵀRf by a damped Newton method on f itself, with K⁻¹ in full."""
    precision = np.linalg.inv(K) + (0.0 if r is None else np.diag(r))
    scale = noise * math.sqrt(2.0)
    f = np.zeros(len(K))

    def objective(g):
        return 0.5 * g @ precision @ g - log_likelihood(g, C, noise)

    for _ in range(200):
        z = C @ f / scale
        gradient = precision @ f - C.T @ hazard(z) / scale
        step = np.linalg.solve(precision + C.T @ np.diag(omega(z) / scale**2) @ C, gradient)
        if np.abs(step).max() <= 1e-13 * (1.0 + np.abs(f).max()):
            break
        length = 1.0
        while objective(f - length * step) > objective(f) + 1e-12 and length > 1e-8:
            length *= 0.5
        f = f - length * step
    return f


def conditional(cov, Q0, Q1):
    """Of ξ given ζ under f ~ N(·, cov): the matrix that multiplies ζ, and the covariance."""
    if Q1.shape[1] == 0:
        return np.zeros((Q0.shape[1], 0)), Q0.T @ cov @ Q0
    coefficient = np.linalg.solve(Q1.T @ cov @ Q1, Q1.T @ cov @ Q0).T
    return coefficient, Q0.T @ cov @ Q0 - coefficient @ (Q1.T @ cov @ Q0)
