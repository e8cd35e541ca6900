"""The normal distribution's logarithms and their derivatives to machine precision and far beyond, from mpmath."""

import mpmath

# Φ(40) differs from 1 in the 350th digit, and its logarithm should still carry fifty.
mp = mpmath.mp.clone()
mp.dps = 420
Number = mpmath.mpf


def _density(x: Number) -> Number:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def normal(z: float) -> dict[str, float]:
    """log Φ(z), ψ = φ/Φ, the curvature ψ(ψ + z) and its logarithmic derivative."""
    z = mp.mpf(z)
    cdf = mp.erfc(-z / mp.sqrt(2)) / 2
    psi = _density(z) / cdf
    e = psi + z
    exact = {"log_cdf": mp.log(cdf), "psi": psi, "curvature": psi * e, "slope": 1 / e - e - psi}
    return {name: float(value) for name, value in exact.items()}


def tie(z: float, margin: float) -> dict[str, float]:
    """log P(|y| ≤ margin), y ~ N(z, 1): value, first, minus second and third derivative in z, by the quotient rule."""
    z, margin = mp.mpf(z), mp.mpf(margin)
    high, low = margin - z, -margin - z
    P = (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
    a = (_density(low) - _density(high)) / P
    b = (low * _density(low) - high * _density(high)) / P
    c = ((low**2 - 1) * _density(low) - (high**2 - 1) * _density(high)) / P
    exact = {"log_p": mp.log(P), "slope": a, "omega": a**2 - b, "third": c - 3 * a * b + 2 * a**3}
    return {name: float(value) for name, value in exact.items()}
