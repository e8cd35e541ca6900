"""The exact posterior of one or two differences, as sums over a fine grid of their prior."""

from itertools import product
from typing import NamedTuple

import numpy as np

from tests.reference import dense

Array = np.ndarray
# The trapezoidal rule is exact to rounding for such smooth integrands, at this reach and distance of its nodes.
NODES = np.linspace(-9.0, 9.0, 361)


class Moments(NamedTuple):
    """log Z, mean and covariance of z."""

    log_evidence: float
    mean: Array
    cov: Array


def exact(A: Array, margin: float = 0.0, is_tie: Array | None = None) -> Moments:
    """z ~ N(0, A), A positive definite of one or two rows, given its answers."""
    x = np.array(list(product(NODES, repeat=len(A))))
    z = x @ np.linalg.cholesky(A).T
    log_p = dense.answers(z, margin, None if is_tie is None else np.broadcast_to(is_tie, z.shape)).log_p.sum(-1)
    density = np.exp(log_p - 0.5 * (x**2).sum(-1)) * ((NODES[1] - NODES[0]) / np.sqrt(2.0 * np.pi)) ** len(A)
    weight = density / density.sum()
    mean = weight @ z
    return Moments(float(np.log(density.sum())), mean, (z - mean).T @ ((z - mean) * weight[:, None]))
