"""Smallest and largest eigenvalue of positive definite matrices, from Cholesky factors and solves alone.

Notation
    M  (runs, n, n)  symmetric positive definite
    L  (runs, n, n)  Cholesky factor of M, or of σI − M
    u, v (runs, n)   unit vectors of the smallest and largest eigenvalue

The low end of a Hessian is well separated, and inverse iteration settles in a few solves. The high end clusters where
points nearly coincide, as the nugget sets it there: inverse iteration with a shift just above it, drawn closer until
a factorization of σI − M proves that no eigenvalue lies above.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.tensors import apply, take

# Relative accuracy of either end, and of the certificates. Errors of the high end before and after a correction are
# the same to first order, so its part in κ(H + R)/κ(H)^(1−α) is a tenth of this.
LOW_ACCURACY = 1e-8
HIGH_ACCURACY = 1e-6
LOW_STEPS = 60
LANCZOS = 10
MAX_SHIFTS = 16
SOLVES_PER_SHIFT = 3
# A unit vector's part outside a space that is shorter than this is rounding.
ROUNDING = 1e-12


class Low(NamedTuple):
    """Smallest eigenvalue and its vector."""

    value: Tensor
    vector: Tensor


class High(NamedTuple):
    """Largest eigenvalue, its vector, and whether a factorization proved that it is the largest."""

    value: Tensor
    vector: Tensor
    certified: Tensor


def plus(H: Tensor, r: Tensor) -> Tensor:
    """H + diag(r)."""
    M = H.clone()
    M.diagonal(dim1=-2, dim2=-1).add_(r)
    return M


def _solve(L: Tensor, v: Tensor) -> Tensor:
    return torch.cholesky_solve(v.unsqueeze(-1), L).squeeze(-1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)


def _unit(v: Tensor) -> Tensor:
    return v / v.norm(dim=-1, keepdim=True).clamp(min=1e-300)


def find_low(M: Tensor, L: Tensor | None = None) -> Low:
    """The smallest eigenvalue of M (whose factor may be at hand), by inverse iteration from the constant vector."""
    L = torch.linalg.cholesky_ex(M)[0] if L is None else L
    u = _unit(_solve(L, torch.ones_like(M[..., 0])))
    moving = torch.ones_like(u[..., :1], dtype=torch.bool)
    for _ in range(LOW_STEPS):
        w = _solve(L, u)
        # With w = M⁻¹u, 1 − (wᵀu)²/(wᵀw) is the squared distance of u from an eigenvector, as is the value's error.
        spread = 1.0 - _dot(w, u).square() / _dot(w, w)
        # What has settled stays, so that no run depends on its company.
        u = torch.where(moving, _unit(w), u)
        moving = moving & ~(spread <= LOW_ACCURACY)
        if not bool(moving.any()):
            break
    return improve_low(M, L, u, 1)


def improve_low(M: Tensor, L: Tensor, u: Tensor, solves: int) -> Low:
    """A few more inverse iterations from u with the factor L of M."""
    for _ in range(solves):
        u = _unit(_solve(L, u))
    return Low(_dot(u, apply(M, u)).squeeze(-1), u)


def certify_low(M: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """True where no eigenvalue of M lies below `low`, up to the accuracy (and to the rounding of λ_max)."""
    slack = (16.0 * torch.finfo(M.dtype).eps * high).maximum(10.0 * LOW_ACCURACY * low)
    return torch.linalg.cholesky_ex(plus(M, (slack - low).unsqueeze(-1)))[1] == 0


def find_high(M: Tensor, vector: Tensor | None = None) -> High:
    """The largest eigenvalue of M, from a vector near its own if there is one. Certified runs leave the batch."""
    v = _lanczos(M) if vector is None else vector
    value, distance = _rayleigh(M, v)
    out = High(value.clone(), v.clone(), torch.zeros_like(value, dtype=torch.bool))
    rows = torch.arange(len(M), device=M.device)
    margin = distance
    for _ in range(MAX_SHIFTS):
        margin = margin.clamp(min=0.5 * HIGH_ACCURACY)
        L, info = torch.linalg.cholesky_ex(plus(-M, (value * (1.0 + margin)).unsqueeze(-1)))
        above = info == 0
        certified = above & (margin <= HIGH_ACCURACY)
        out.value[rows], out.vector[rows], out.certified[rows] = value, v, certified
        left = (~certified).nonzero().squeeze(-1)
        if not len(left):
            break
        rows, M, L, v, above, margin = take((rows, M, L, v, above, margin), left)
        # Where an eigenvalue lies above the shift, step further out; elsewhere draw closer with what the solves find.
        # A failed factor may hold anything, NaN too; the identity stands in for it, and its result is not used.
        L = torch.where(above[:, None, None], L, torch.eye(M.shape[-1], dtype=M.dtype, device=M.device))
        v = torch.where(above.unsqueeze(-1), _inverse_iteration(M, L, v), v)
        value, distance = _rayleigh(M, v)
        margin = torch.where(above, distance, margin * 16.0)
    return out


def dense(M: Tensor) -> tuple[Low, High]:
    """Both ends by a full eigendecomposition; where a certificate fails."""
    values, vectors = torch.linalg.eigh(M)
    sure = torch.ones_like(values[..., 0], dtype=torch.bool)
    return Low(values[..., 0], vectors[..., 0]), High(values[..., -1], vectors[..., -1], sure)


def _rayleigh(M: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Rayleigh quotient of the unit vector v, and the length of its residual relative to it."""
    image = apply(M, v)
    value = _dot(v, image)
    return value.squeeze(-1), (image - value * v).norm(dim=-1) / value.squeeze(-1)


def _inverse_iteration(M: Tensor, L: Tensor, v: Tensor) -> Tensor:
    """The best vector in the span of v and its next few inverse iterates with the factor L of σI − M."""
    columns = [v]
    for _ in range(SOLVES_PER_SHIFT):
        columns.append(_unit(_solve(L, columns[-1])))
    V = columns[-1].unsqueeze(-1)
    for column in columns[-2::-1]:
        V = _widened(V, column.unsqueeze(-1))
    return _best_high(M, V)


def _widened(V: Tensor, w: Tensor) -> Tensor:
    """Orthonormal columns V with the part of w that they lack; where it is rounding alone, with a zero column.

    Gram and Schmidt, twice, which is enough. (A batched QR factorization takes a GPU a hundred times as long.)
    """
    for _ in range(2):
        w = w - torch.bmm(V, torch.bmm(V.mT, w))
        size = w.norm(dim=-2, keepdim=True)
        w = torch.where(size > ROUNDING, w / size, 0.0)
    return torch.cat([V, w], -1)


def _lanczos(M: Tensor) -> Tensor:
    """A rough vector of the largest eigenvalue: the best in a Krylov space from the heaviest column."""
    heaviest = M.diagonal(dim1=-2, dim2=-1).argmax(-1)
    v = _unit(M.gather(-1, heaviest[:, None, None].expand(-1, M.shape[-1], 1)).squeeze(-1))
    V = v.unsqueeze(-1)
    for _ in range(min(LANCZOS, M.shape[-1]) - 1):
        w = torch.bmm(M, V[..., -1:])
        V = _widened(V, w / w.norm(dim=-2, keepdim=True).clamp(min=1e-300))
    return _best_high(M, V)


def _best_high(M: Tensor, V: Tensor) -> Tensor:
    """The unit vector with the largest Rayleigh quotient in the span of the orthonormal columns V."""
    small = torch.bmm(V.mT, torch.bmm(M, V))
    # A row that is not finite gets a vector that no certificate will pass, and the others theirs.
    broken = ~small.isfinite().all(-1).all(-1)
    small = torch.where(broken[:, None, None], torch.eye(V.shape[-1], dtype=V.dtype, device=V.device), small)
    try:
        y = torch.linalg.eigh(small)[1]
    except RuntimeError:
        # The device's solver gives up on a batch that LAPACK has no trouble with.
        y = torch.linalg.eigh(small.cpu())[1].to(V)
    return _unit(torch.bmm(V, y[..., -1:]).squeeze(-1))
