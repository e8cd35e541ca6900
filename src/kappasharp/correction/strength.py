"""The KappaSharp correction: a diagonal R(η) that shapes the condition number of the Hessian.

Notation
    H      (*batch, n, n)  Hessian of the negative log-posterior at the plain MAP            [eq:precision]
    a      (*batch, n)     prior precision: the diagonal of K⁻¹
    r      (*batch, n)     the diagonal of R(η)                                              [eq:filter]
    eta    (*batch,)       correction strength η
    kappa  (*batch,)       condition number λ_max/λ_min
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import comparisons
from kappasharp.inference.comparisons import Incidence
from kappasharp.native import calibration
from kappasharp.native import precision as native_precision
from kappasharp.numerics import eigenvalues
from kappasharp.settings import Weights
from kappasharp.tensors import Indices, PerComparison, PerRun, PerRunMask, PointMatrix, Utilities, apply, put, take

# The paper's search grid: 60 log-spaced points from 1e-6 to 1e8, then 30 bisections of the first interval that crosses.
GRID_LOW, GRID_HIGH, GRID_SIZE = -6.0, 8.0, 60
# The search may look this far below the grid: a root there is the first.
BELOW = 1e-3
BISECTIONS = 30
# Newton steps on the model of κ, none changing η by more than a factor e^STRIDE.
MODEL_STEPS, STRIDE = 3, 3.0
MAX_ROUNDS = 40
# Inverse iterations at each η: more would outrun the model's own error.
SOLVES = 3
# κ(H + R(η*)) meets its target to this relative accuracy.
ACCURACY = 3e-8


class Calibration(NamedTuple):
    """η* with the condition numbers on either side; `found` is false where the grid holds no crossing (η* is NaN).

    `fallbacks` counts the eigenvalue problems whose certificate failed and that were solved densely instead.
    """

    eta: PerRun
    kappa_before: PerRun
    kappa_after: PerRun
    found: PerRunMask
    fallbacks: Indices


def prior_weighted(eta: PerRun, a: Utilities) -> Utilities:
    """Correction weights η²/(η + a): strongest where the prior is weakest. [eq:filter]"""
    eta = eta.unsqueeze(-1)
    return eta.square() / (eta + a)


def spread(weights: Weights, eta: PerRun, a: Utilities) -> Utilities:
    """The diagonal of R for a calibrated η: the paper's weights, ηI, or cI of the same trace as the paper's."""
    r = prior_weighted(eta, a)
    if weights is Weights.UNIFORM:
        return eta.unsqueeze(-1).expand_as(r)
    if weights is Weights.TRACE_MATCHED:
        return r.mean(-1, keepdim=True).expand_as(r)
    return r if weights is Weights.PRIOR_WEIGHTED else torch.zeros_like(r)


def precision(K: PointMatrix, H_lik: PointMatrix) -> tuple[PointMatrix, Utilities, PerRunMask]:
    """H = K⁻¹ + H_lik, the prior precision a = diag K⁻¹, and whether K was positive definite. [eq:precision]"""
    L, info = torch.linalg.cholesky_ex(K)
    # Where K is not positive definite the factor is meaningless: the identity stands in and `usable` says so.
    usable = info == 0
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    K_inverse = torch.cholesky_inverse(torch.where(usable[..., None, None], L, eye))
    return K_inverse + H_lik, K_inverse.diagonal(dim1=-2, dim2=-1), usable


def hessian(K: PointMatrix, C: Incidence, omega: PerComparison) -> tuple[PointMatrix, Utilities, PerRunMask]:
    """The same for H_lik = Cᵀ diag(ω) C; as one launch for a flat batch of pairs, where there is a kernel."""
    execute = native_precision.executor(K) if C.detail is None and K.shape[:-2].numel() == len(K) else None
    if execute is None:
        return precision(K, comparisons.laplacian(C, omega))
    return native_precision.invert(K, C.pairs, omega, execute)


def calibrate(H: PointMatrix, a: Utilities, target_exponent: float) -> Calibration:
    """The smallest η with κ(H + R(η)) ≤ κ(H)^(1−α); NaN where the paper's grid holds none. [eq:calibration]

    Always in double precision. The extreme eigenvectors at one η give a model of κ at every other (their Rayleigh
    quotients); its root is the next η, so the search converges like Newton's method. The same quotients bound κ from
    below, which proves for the whole grid before η* that none of its points meets the target.
    """
    shape, n = H.shape[:-2], H.shape[-1]
    H64, a64 = H.reshape(-1, n, n).double(), a.reshape(-1, n).double()
    found = _by_kernel(H64, a64, target_exponent)
    if found is None:
        found = _by_torch(H64, a64, target_exponent)
    eta, before, after, fallbacks = found
    return Calibration(
        eta.reshape(shape).to(H),
        before.reshape(shape).to(H),
        after.reshape(shape).to(H),
        eta.isfinite().reshape(shape),
        fallbacks.reshape(shape),
    )


def _by_kernel(H: Tensor, a: Tensor, target_exponent: float) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """η*, κ before and after, and fallbacks, by a kernel if there is one; where that proves nothing torch searches."""
    execute = calibration.executor(H)
    if execute is None:
        return None
    least = 10.0**GRID_LOW * BELOW
    rules = {"rounds": MAX_ROUNDS, "accuracy": ACCURACY, "least": least}
    found = calibration.search(H, a, _grid(a), target_exponent, execute, **rules)
    parts = (*found[:3], torch.zeros(len(H), dtype=torch.long, device=H.device))
    left = (~found.sure).nonzero().squeeze(-1)
    if not len(left):
        return parts
    # A few runs, matrix by matrix: a device would wait for every launch.
    rest = _by_torch(H[left].cpu(), a[left].cpu(), target_exponent)
    eta, before, after, fallbacks = (part.to(H.device) for part in rest)
    return put(parts, (eta, before, after, fallbacks), left)


def _by_torch(H64: Tensor, a64: Tensor, target_exponent: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same by torch."""
    n = H64.shape[-1]
    L, info = torch.linalg.cholesky_ex(H64)
    # A Hessian that is not finite and positive definite has no condition number; the identity keeps its place.
    broken = (info != 0) | ~(H64.sum((-2, -1)) + a64.sum(-1)).isfinite()
    if bool(broken.any()):
        eye = torch.eye(n, dtype=H64.dtype, device=H64.device)
        H64, L = (torch.where(broken[:, None, None], eye, part) for part in (H64, L))
        a64 = torch.where(broken[:, None], 1.0, a64)
    search = _Search(H64, a64, L, target_exponent)
    eta, after = (part.masked_fill_(broken, torch.nan) for part in search.run())
    return eta, search.kappa_before.masked_fill_(broken, torch.nan), after, search.fallbacks


def _grid(like: Tensor) -> Tensor:
    return torch.logspace(GRID_LOW, GRID_HIGH, GRID_SIZE, dtype=like.dtype, device=like.device)


class _Point(NamedTuple):
    """κ at one η, with what bounds it elsewhere: squared vectors and their Rayleigh quotients with H alone."""

    kappa: Tensor
    u: Tensor
    v: Tensor
    of_u: Tensor
    of_v: Tensor


class _Search:
    """One batch's search for η*; runs that are done leave it."""

    def __init__(self, H: Tensor, a: Tensor, L: Tensor, target_exponent: float) -> None:
        self.H, self.a = H, a
        self.fallbacks = torch.zeros(len(H), dtype=torch.long, device=H.device)
        self.rows = torch.arange(len(H), device=H.device)
        low, high = self._certified(H, eigenvalues.find_low(H, L), None)
        self.u, self.v = low.vector, high.vector
        self.points = [_point(low, high, torch.zeros_like(a))]
        self.kappa_before = self.points[0].kappa
        self.target = self.kappa_before ** (1.0 - target_exponent)
        self.bend = torch.zeros_like(self.target)

    def run(self) -> tuple[Tensor, Tensor]:
        """η* (NaN where there is none) and κ(H + R(η*))."""
        eta_out = torch.zeros_like(self.target).masked_fill_(self.kappa_before > self.target, torch.nan)
        kappa_out = self.kappa_before.clone()
        self._keep(eta_out.isnan().nonzero().squeeze(-1))
        eta = torch.ones_like(self.target)
        for count in range(MAX_ROUNDS):
            if not len(self.rows):
                break
            before, eta = eta, self._model_root(eta)
            r = prior_weighted(eta, self.a)
            M = eigenvalues.plus(self.H, r)
            L = torch.linalg.cholesky_ex(M)[0]
            low = eigenvalues.improve_low(M, L, self.u, SOLVES)
            high = eigenvalues.High(_quotient(M, self.v), self.v, self.rows >= 0)
            done = self._close(_point(low, high, r).kappa).nonzero().squeeze(-1)
            if len(done):
                low, high = self._finish(M, low, high, done)
            self.u, self.v = low.vector, high.vector
            self.points.append(_point(low, high, r))
            if count:
                self.bend = self._missed(before, eta)
            close = self._close(self.points[-1].kappa)
            if bool(close.any()):
                self._store(eta_out, kappa_out, eta, close)
                eta = eta[~close]
                self._keep((~close).nonzero().squeeze(-1))
        self._by_definition(eta_out, kappa_out, torch.arange(len(self.rows)))
        return eta_out, kappa_out

    def _store(self, eta_out: Tensor, kappa_out: Tensor, eta: Tensor, close: Tensor) -> None:
        """Write the results of runs that met their target; one that is not proved to be first is done by definition."""
        sure = close & self._is_first(eta)
        at = self.rows[sure]
        eta_out[at], kappa_out[at] = eta[sure], self.points[-1].kappa[sure]
        self._by_definition(eta_out, kappa_out, (close & ~sure).nonzero().squeeze(-1))

    def _by_definition(self, eta_out: Tensor, kappa_out: Tensor, rows: Tensor) -> None:
        """Do these runs as the paper does, and count them."""
        for row in rows.tolist():
            place = self.rows[row]
            self.fallbacks[place] += 1
            eta_out[place], kappa_out[place] = _by_definition(self.H[row], self.a[row], self.target[row])

    def _keep(self, rows: Tensor) -> None:
        """Go on with these runs only."""
        if len(rows) == len(self.rows):
            return
        self.rows, self.H, self.a, self.u, self.v, self.target, self.bend = take(
            (self.rows, self.H, self.a, self.u, self.v, self.target, self.bend), rows
        )
        self.points = [take(point, rows) for point in self.points]

    def _close(self, kappa: Tensor) -> Tensor:
        return (kappa / self.target - 1.0).abs() <= ACCURACY

    def _finish(
        self, M: Tensor, low: eigenvalues.Low, high: eigenvalues.High, rows: Tensor
    ) -> tuple[eigenvalues.Low, eigenvalues.High]:
        """The same ends, certified for these rows."""
        exact = self._certified(M[rows], take(low, rows), high.vector[rows], self.rows[rows])
        return put((low, high), exact, rows)

    def _certified(
        self, M: Tensor, low: eigenvalues.Low, v: Tensor | None, places: Tensor | None = None
    ) -> tuple[eigenvalues.Low, eigenvalues.High]:
        """Both ends of M, from a dense decomposition where a certificate fails."""
        high = eigenvalues.find_high(M, v)
        sure = high.certified & eigenvalues.certify_low(M, low.value, high.value)
        failed = (~sure).nonzero().squeeze(-1)
        if len(failed):
            self.fallbacks[failed if places is None else places[failed]] += 1
            low, high = put((low, high), eigenvalues.dense(M[failed]), failed)
        return low, high

    def _model_root(self, eta: Tensor) -> Tensor:
        """Where the Rayleigh quotients of the last point's vectors, as a model of κ(η), meet the target.

        Newton's method on log κ over log η; the model touches κ at the point and has its derivative there. By `bend`
        times the square of the distance it is too low elsewhere.
        """
        point, begin = self.points[-1], eta.log()
        for _ in range(MODEL_STEPS):
            column = eta.unsqueeze(-1)
            whole = column + self.a
            r = column.square() / whole
            growth = r * (column + 2.0 * self.a) / whole  # dr/d log η
            low, high = point.of_u + (point.u * r).sum(-1), point.of_v + (point.v * r).sum(-1)
            away = eta.log() - begin
            slope = (point.v * growth).sum(-1) / high - (point.u * growth).sum(-1) / low + 2.0 * self.bend * away
            gap = (high / (low * self.target)).log() + self.bend * away.square()
            eta = eta * (-gap / slope.clamp(max=-1e-12)).clamp(-STRIDE, STRIDE).exp()
        return eta.clamp(10.0**GRID_LOW * BELOW, 10.0**GRID_HIGH)

    def _missed(self, before: Tensor, eta: Tensor) -> Tensor:
        """By how much the last point's model was too low at the point before, over the distance's square."""
        r = prior_weighted(before, self.a)
        last, away = self.points[-1], (before / eta).log()
        modelled = (last.of_v + (last.v * r).sum(-1)) / (last.of_u + (last.u * r).sum(-1))
        missed = (self.points[-2].kappa / modelled).log() / away.square()
        return torch.where(away != 0.0, missed, 0.0)

    def _is_first(self, eta: Tensor) -> Tensor:
        """Whether every point of the paper's grid before η is proved to miss the target.

        Every vector found bounds κ from below at every η, so one sweep over the grid nearly always proves it.
        """
        grid = _grid(self.a)
        r = prior_weighted(grid.expand(len(self.a), -1), self.a.unsqueeze(-2).expand(-1, GRID_SIZE, -1))
        u, v, of_u, of_v = (torch.stack(parts, -1) for parts in list(zip(*self.points, strict=True))[1:])
        bound = (r @ v + of_v.unsqueeze(-2)).amax(-1) / (r @ u + of_u.unsqueeze(-2)).amin(-1)
        return ((bound > self.target.unsqueeze(-1)) | (grid >= eta.unsqueeze(-1))).all(-1)


def _point(low: eigenvalues.Low, high: eigenvalues.High, r: Tensor) -> _Point:
    u, v = low.vector.square(), high.vector.square()
    return _Point(high.value / low.value, u, v, low.value - (u * r).sum(-1), high.value - (v * r).sum(-1))


def _quotient(M: Tensor, v: Tensor) -> Tensor:
    return (v * apply(M, v)).sum(-1)


def _by_definition(H: Tensor, a: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """η* and κ there of one run, exactly as the paper has them: dense eigenvalues on the grid, then 30 bisections."""

    def kappa(eta: Tensor) -> Tensor:
        values = torch.linalg.eigvalsh(eigenvalues.plus(H, eta.square() / (eta + a)))
        return values[-1] / values[0]

    low = torch.zeros_like(target)
    for high in _grid(a):
        if bool(kappa(high) <= target):
            break
        low = high
    else:
        return torch.full_like(target, torch.nan), kappa(low)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if bool(kappa(middle) <= target) else (middle, high)
    return high, kappa(high)
