"""The core's slow twins: C, K and K⁻¹ as plain dense arrays, textbook formulas, NumPy and SciPy only."""

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

Array = np.ndarray


def incidence(pairs: Array, n: int) -> Array:
    """C with one row e_winner − e_loser per comparison."""
    C = np.zeros((len(pairs), n))
    for row, (winner, loser) in enumerate(pairs):
        C[row, winner] += 1.0
        C[row, loser] -= 1.0
    return C


class Answers(NamedTuple):
    """log p, its first derivative and minus its second, answer by answer."""

    log_p: Array
    slope: Array
    omega: Array


def wins(z: Array, margin: float = 0.0) -> Answers:
    """A win is N(z, 1) > margin."""
    t = z - margin
    psi = np.exp(norm.logpdf(t) - log_ndtr(t))
    return Answers(log_ndtr(t), psi, psi * (psi + t))


def ties(z: Array, margin: float) -> Answers:
    """A tie is |N(z, 1)| ≤ margin; the quotient rule on the difference of two normal distribution functions."""
    high, low = margin - z, -margin - z
    P = np.where(z > 0, norm.cdf(high) - norm.cdf(low), norm.cdf(-low) - norm.cdf(-high))
    first = (norm.pdf(low) - norm.pdf(high)) / P
    second = (low * norm.pdf(low) - high * norm.pdf(high)) / P
    return Answers(np.log(P), first, first**2 - second)


def answers(z: Array, margin: float = 0.0, is_tie: Array | None = None) -> Answers:
    """Wins, and ties where the mask says so."""
    if is_tie is None or not is_tie.any():
        return wins(z, margin)
    return Answers(*(np.where(is_tie, t, w) for t, w in zip(ties(z, margin), wins(z, margin), strict=True)))


def kernel(family: str, X: Array, Y: Array, lengthscale: Array, outputscale: float) -> Array:
    """s · k(X, Y), one pair of points at a time."""
    K = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            r = np.sqrt(np.sum(((x - y) / lengthscale) ** 2))
            if family == "rbf":
                K[i, j] = np.exp(-0.5 * r**2)
            else:
                K[i, j] = (1.0 + np.sqrt(5.0) * r + 5.0 * r**2 / 3.0) * np.exp(-np.sqrt(5.0) * r)
    return outputscale * K


def prior_covariance(family: str, X: Array, lengthscale: Array, outputscale: float, nugget: float) -> Array:
    """K of the training points, the nugget on its diagonal."""
    return kernel(family, X, X, lengthscale, outputscale) + outputscale * nugget * np.eye(len(X))


class Problem(NamedTuple):
    """Everything the MAP depends on; `scale` is σ√2, `r` the diagonal of R, `is_tie` marks ties."""

    K: Array
    C: Array
    scale: float = np.sqrt(2.0)
    margin: float = 0.0
    is_tie: Array | None = None
    r: Array | float = 0.0


def objective(problem: Problem, f: Array, precision: Array) -> float:
    """½ fᵀ(K⁻¹ + R) f − Σ log p."""
    z = problem.C @ f / problem.scale
    return 0.5 * f @ precision @ f - answers(z, problem.margin, problem.is_tie).log_p.sum()


def find_map(problem: Problem, steps: int = 200) -> Array:
    """The MAP by damped Newton on f itself, with K⁻¹ written out."""
    n = len(problem.K)
    precision = np.linalg.inv(problem.K) + np.diag(np.broadcast_to(problem.r, n))
    return _newton(problem, np.eye(n), precision, steps)


def find_map_of_singular(problem: Problem, steps: int = 200) -> Array:
    """The MAP where K has no inverse: f = S u with K = S Sᵀ, Newton on u, whose prior is N(0, I)."""
    values, vectors = np.linalg.eigh(problem.K)
    S = vectors[:, values > 1e-12 * values[-1]] * np.sqrt(values[values > 1e-12 * values[-1]])
    R = np.diag(np.broadcast_to(problem.r, len(problem.K)))
    return S @ _newton(problem, S, np.eye(S.shape[1]) + S.T @ R @ S, steps)


def _newton(problem: Problem, S: Array, precision: Array, steps: int) -> Array:
    """argmin over u of ½ uᵀ precision u − Σ log p(C S u/scale), steps halved until it falls."""
    D = problem.C @ S / problem.scale

    def value(u: Array) -> float:
        return 0.5 * u @ precision @ u - answers(D @ u, problem.margin, problem.is_tie).log_p.sum()

    u = np.zeros(S.shape[1])
    for _ in range(steps):
        site = answers(D @ u, problem.margin, problem.is_tie)
        gradient = precision @ u - D.T @ site.slope
        step = np.linalg.solve(precision + D.T @ np.diag(site.omega) @ D, gradient)
        length = 1.0
        while value(u - length * step) > value(u) + 1e-13 * (1.0 + abs(value(u))) and length > 1e-12:
            length *= 0.5
        u = u - length * step
        if np.abs(step).max() < 1e-13 * (1.0 + np.abs(u).max()):
            break
    return u


def weights(problem: Problem, f: Array) -> Array:
    """ω of every answer in units of utility: minus the second derivative of log p in f_winner − f_loser."""
    return answers(problem.C @ f / problem.scale, problem.margin, problem.is_tie).omega / problem.scale**2


def hessian(problem: Problem, f: Array) -> Array:
    """K⁻¹ + Cᵀ W C + R at f."""
    R = np.diag(np.broadcast_to(problem.r, len(f)))
    return np.linalg.inv(problem.K) + problem.C.T @ np.diag(weights(problem, f)) @ problem.C + R


def evidence(problem: Problem) -> float:
    """Laplace's log Z = Σ log p − ½ f̂ᵀK⁻¹f̂ − ½ log|I + K CᵀWC|."""
    f = find_map(problem)
    log_p = answers(problem.C @ f / problem.scale, problem.margin, problem.is_tie).log_p.sum()
    H_lik = problem.C.T @ np.diag(weights(problem, f)) @ problem.C
    sign, log_det = np.linalg.slogdet(np.eye(len(f)) + problem.K @ H_lik)
    assert sign > 0
    return log_p - 0.5 * f @ np.linalg.solve(problem.K, f) - 0.5 * log_det


def predict(problem: Problem, f: Array, k: Array, k_new: Array) -> tuple[Array, Array]:
    """Mean and covariance at new points from k = k(new, training) and the prior k_new there, by explicit inverses."""
    K_inverse = np.linalg.inv(problem.K)
    Sigma = np.linalg.inv(hessian(problem, f))
    return k @ K_inverse @ f, k_new - k @ (K_inverse - K_inverse @ Sigma @ K_inverse) @ k.T
