"""The standard normal's log Φ and hazard ψ = φ/Φ with their derivatives, exact in both tails.

Notation
    z      any shape    standardised difference                                     [prop:graph_laplacian]
    psi    like z       hazard ψ(z) = φ(z)/Φ(z), the first derivative of log Φ
    e      like z       ψ(z) + z > 0; the curvature −(log Φ)″ is ψ e
    slope  like z       d log(ψ e)/dz, so that (log Φ)‴ = −ψ e · slope

For z → −∞, ψ ≈ −z and ψ + z cancels. There, with t = −z, the Laplace continued fraction
e = 1/(t + 2/(t + 3/(t + …))) has only positive terms; its third tail e₃ = 1/(t + 4/(t + …)) is one rational function.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import torch

from kappasharp.tensors import AnyFloat

SQRT_2 = math.sqrt(2.0)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
# Below this z the continued fraction takes over: late enough that DEPTH levels are exact in the precision at hand,
# early enough that ψ + z has not lost its digits.
TAIL = {torch.float64: 8.0, torch.float32: 4.0}
DEPTH = 12


class Derivatives(NamedTuple):
    """ψ, the curvature ψ(ψ + z), and the curvature's logarithmic derivative."""

    psi: AnyFloat
    curvature: AnyFloat
    slope: AnyFloat


def quantile(u: AnyFloat) -> AnyFloat:
    """Standard normal numbers from uniform ones; none is farther out than one in a million."""
    return torch.special.ndtri(u.clamp(1e-6, 1.0 - 1e-6))


def log_cdf(z: AnyFloat) -> AnyFloat:
    """log Φ(z)."""
    return torch.special.log_ndtr(z)


def log_density(z: AnyFloat) -> AnyFloat:
    """log φ(z)."""
    return -0.5 * z.square() - 0.5 * math.log(2.0 * math.pi)


def density(z: AnyFloat) -> AnyFloat:
    """φ(z)."""
    return (z.square() * -0.5).exp() * (1.0 / math.sqrt(2.0 * math.pi))


def cdf(z: AnyFloat) -> AnyFloat:
    """Φ(z)."""
    return torch.special.erfc(z * (-1.0 / SQRT_2)) * 0.5


def hazard(z: AnyFloat) -> AnyFloat:
    """ψ(z) = φ(z)/Φ(z), to machine precision for every z."""
    return _Hazard.apply(z) if z.requires_grad and torch.is_grad_enabled() else _hazard(z)  # type: ignore[no-untyped-call]


def _hazard(z: AnyFloat) -> AnyFloat:
    return torch.special.erfcx(z * (-1.0 / SQRT_2)).reciprocal() * SQRT_2_OVER_PI


class _Hazard(torch.autograd.Function):
    """ψ with its derivative −ψ(ψ + z): that of the scaled error function is 0 · ∞ where ψ underflows (z > 38)."""

    @staticmethod
    def forward(ctx: Any, z: AnyFloat) -> AnyFloat:
        psi = _hazard(z)
        ctx.save_for_backward(z, psi)
        return psi

    @staticmethod
    def backward(ctx: Any, *upstream: AnyFloat) -> AnyFloat:
        z, psi = ctx.saved_tensors
        return -upstream[0] * psi * (psi + z)


def derivatives(z: AnyFloat) -> Derivatives:
    """ψ, ψ(ψ + z) and its logarithmic derivative, without cancellation in either tail."""
    psi = hazard(z)
    e = psi + z
    slope = e.reciprocal() - e - psi
    tail = TAIL[z.dtype]
    if z.numel() == 0 or float(z.detach().min()) >= -tail:
        return Derivatives(psi, psi * e, slope)
    t = (-z).clamp(min=tail)
    e_2 = 1.0 / (t + 3.0 * _third_tail(t))
    e_1 = 1.0 / (t + 2.0 * e_2)
    in_tail = z < -tail
    # There 1/e = t + 2 e₂ and ψ = t + e leave 2 (e₂ − e) of the slope.
    slope = torch.where(in_tail, 2.0 * (e_2 - e_1), slope)
    return Derivatives(psi, psi * torch.where(in_tail, e_1, e), slope)


def excess(z: AnyFloat) -> AnyFloat:
    """ψ(z) + z, positive and exact in both tails."""
    psi, curvature, _ = derivatives(z)
    return torch.where(z < 0, curvature / psi, psi + z)


def _third_tail(t: AnyFloat) -> AnyFloat:
    """e₃ = 1/(t + 4/(t + 5/(t + …))) for t in the tail."""
    s = t.reciprocal().square().unsqueeze(-1)
    # Numerator and denominator go through Horner's rule side by side, in the last dimension.
    highest, *others = _coefficients(t.dtype, t.device)
    both = highest.expand(*t.shape, 2)
    for coefficient in others:
        both = torch.addcmul(coefficient, both, s)
    return both[..., 0] / (both[..., 1] * t)


@cache
def _coefficients(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, ...]:
    """The coefficients of _continued_fraction(3, DEPTH), highest power first, as tensors."""
    pairs = zip(*_continued_fraction(3, DEPTH), strict=True)
    # Kept between calls, so it must not be tied to the mode it happens to be made in.
    with torch.inference_mode(mode=False):
        return tuple(torch.tensor(pair, dtype=dtype, device=device) for pair in reversed(list(pairs)))


def _continued_fraction(first: int, depth: int) -> tuple[list[float], list[float]]:
    """Coefficients in s = 1/t² of p and q with e_first = p(s) / (t q(s)), cut after `depth` levels.

    From e_k = 1/(t + (k+1) e_{k+1}): p_k = q_{k+1} and q_k = q_{k+1} + (k+1) s p_{k+1}.
    """
    p, q = [1], [1]
    for k in range(first + depth - 1, first - 1, -1):
        shifted = [0] + [(k + 1) * c for c in p]
        size = max(len(shifted), len(q))
        padded = q + [0] * (size - len(q))
        p, q = q, [a + b for a, b in zip(padded, shifted + [0] * (size - len(shifted)), strict=True)]
    p = p + [0] * (len(q) - len(p))
    return [float(c) for c in p], [float(c) for c in q]
