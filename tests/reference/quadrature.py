"""E max of two jointly normal numbers as the double integral that defines it."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

Array = np.ndarray
REACH = 9.0


def expected_max(mean: Array, cov: Array) -> float:
    """∫∫ max(a, b) p(b | a) p(a) db da, the inner integral broken at its kink b = a."""
    deviation = np.sqrt(cov[0, 0])
    slope = cov[0, 1] / cov[0, 0]
    rest = np.sqrt(cov[1, 1] - slope * cov[0, 1])

    def inner(a: float) -> float:
        centre = mean[1] + slope * (a - mean[0])
        low, high = centre - REACH * rest, centre + REACH * rest
        kink = min(max(a, low), high)

        def integrand(b: float) -> float:
            return max(a, b) * np.exp(-0.5 * ((b - centre) / rest) ** 2) / (rest * np.sqrt(2.0 * np.pi))

        pieces = [(low, kink), (kink, high)]
        return sum(quad(integrand, *piece, epsabs=1e-11, epsrel=1e-11)[0] for piece in pieces if piece[0] < piece[1])

    low, high = mean[0] - REACH * deviation, mean[0] + REACH * deviation
    return quad(lambda a: inner(a) * norm.pdf(a, mean[0], deviation), low, high, epsabs=1e-9, epsrel=1e-9)[0]
