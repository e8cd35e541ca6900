"""Batched quasi-Newton minimisation in a box: each row at its own pace, finished rows dropped from the batch.

Notation
    x   (rows, p)     the variables
    f   (rows,)       the objective, g its gradient
    H   (rows, p, p)  BFGS approximation of the inverse Hessian
    s,y (rows, p)     the last step and the change of the gradient along it

Every round evaluates each remaining row once, at that row's own trial point. A row whose trial descends enough moves
and takes a new direction; another shortens its step. So no row waits for another's line search. Variables at a bound
with the gradient pushing outwards are held (two-metric projection, Bertsekas 1982).
"""

from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.tensors import apply, take

SUFFICIENT = 1e-4
SHORTEST_STEP = 1e-10
# After this many updates H's promises are believed.
LEARNT = 2
# Rows are dropped once this share of the batch has finished: dropping copies the data, so not after each one.
DROP_SHARE = 0.2


@runtime_checkable
class Objective(Protocol):
    """Value and gradient of every row, and the same objective restricted to some rows."""

    def __call__(self, x: Tensor, /) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, p) at x (rows, p)."""
        ...

    def take(self, rows: Tensor, /) -> "Objective":
        """The objective of these rows only."""
        ...


class Descent(NamedTuple):
    """Where each row ended, and why: converged, or out of rounds, or stalled (neither); H as it was learnt by then."""

    x: Tensor
    value: Tensor
    gradient: Tensor
    converged: Tensor
    rounds: Tensor
    H: Tensor


def of_kernel(x: Tensor, value: Tensor, gradient: Tensor, converged: Tensor, rounds: Tensor) -> Descent:
    """What a kernel found; it keeps its H to itself, and the identity stands in."""
    H = _identity(x.shape[-1], x.dtype, x.device).expand(len(x), -1, -1)
    return Descent(x, value, gradient, converged, rounds, H)


@lru_cache(maxsize=64)
def _identity(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    # Kept between calls, so it must not be tied to the mode it happens to be made in.
    with torch.inference_mode(mode=False):
        return torch.eye(size, dtype=dtype, device=device)


class Tolerances(NamedTuple):
    """A row has converged when its projected gradient, or the decrease its model still promises, is this small.

    Rows leave the batch in groups of `group` neighbours that share their data.
    """

    gradient: float
    decrease: float
    max_rounds: int
    longest_step: float
    group: int = 1


def numbers(tolerances: Tolerances) -> tuple[float, float, float, float, float]:
    """What decides a row's way, for a kernel that goes it: tolerances and this module's own constants."""
    return tolerances.gradient, tolerances.decrease, tolerances.longest_step, SUFFICIENT, SHORTEST_STEP


class _Rows(NamedTuple):
    x: Tensor
    f: Tensor
    g: Tensor
    H: Tensor
    step: Tensor
    updates: Tensor
    one: Tensor
    low: Tensor
    high: Tensor
    place: Tensor
    rounds: Tensor


def minimize(
    objective: Objective, x: Tensor, low: Tensor, high: Tensor, tolerances: Tolerances, H: Tensor | None = None
) -> Descent:
    """Minimise every row of x inside [low, high]; H is what is known of the inverse Hessian, if anything is."""
    rows = _begin(objective, x.clamp(low, high), low, high)
    if H is not None:
        rows = rows._replace(H=H, updates=rows.updates + LEARNT)
    out = Descent(rows.x.clone(), rows.f.clone(), rows.g.clone(), rows.f.isnan(), rows.rounds.clone(), rows.H.clone())
    for done in range(tolerances.max_rounds + 1):
        free = torch.where(rows.g > 0, rows.x - rows.low, rows.high - rows.x) > 0
        projected = rows.g * free
        direction = _direction(rows, projected, free, tolerances.longest_step)
        converged = _converged(rows, projected, (direction * projected).sum(-1), tolerances)
        still = converged | (rows.step < SHORTEST_STEP)
        finished = _whole_groups(still, tolerances.group)
        ended = int(finished.sum())
        last = done == tolerances.max_rounds
        if last or ended > DROP_SHARE * len(finished):
            _store(out, rows, torch.ones_like(finished) if last else finished, converged)
            if last or ended == len(finished):
                break
            keep = (~finished).nonzero().squeeze(-1)
            rows, direction, free, still = take((rows, direction, free, still), keep)
            objective = objective.take(keep)
        # A finished row that waits for its neighbours stays where it is: its result must not depend on company.
        direction.masked_fill_(still.unsqueeze(-1), 0.0)
        before = rows.step
        rows = _advance(objective, rows._replace(rounds=rows.rounds + ~still), direction, free)
        if ended or tolerances.group > 1:
            rows = rows._replace(step=torch.where(still, before, rows.step))
    return out


def _begin(objective: Objective, x: Tensor, low: Tensor, high: Tensor) -> _Rows:
    """Every row at its start, with the identity for H."""
    count, p = x.shape
    f, g = objective(x)
    H = torch.eye(p, dtype=x.dtype, device=x.device).expand(count, p, p)
    one, none = torch.ones_like(f), torch.zeros_like(f)
    place = torch.arange(count, device=x.device)
    return _Rows(x, f, g, H, one, none, one, low, high, place, torch.zeros_like(place))


def _whole_groups(finished: Tensor, group: int) -> Tensor:
    """True where all rows of a group have finished."""
    if group == 1:
        return finished
    return finished.reshape(-1, group).all(-1, keepdim=True).expand(-1, group).reshape(-1)


def _converged(rows: _Rows, projected: Tensor, slope: Tensor, tolerances: Tolerances) -> Tensor:
    """A small gradient; or, once H has learnt something, a small promised decrease ½ gᵀHg."""
    small = projected.abs().amax(-1) <= tolerances.gradient
    promised = (slope * -0.5 <= tolerances.decrease) & (rows.updates >= LEARNT)
    return small | promised


def _direction(rows: _Rows, projected: Tensor, free: Tensor, longest: float) -> Tensor:
    """−H g on the free variables, no longer than `longest` in any of them."""
    direction = apply(rows.H, projected) * free
    length = direction.abs().amax(-1, keepdim=True)
    return direction * -(longest / length.clamp(min=longest))


def _advance(objective: Objective, rows: _Rows, direction: Tensor, free: Tensor) -> _Rows:
    """One evaluation per row: rows that descend move and learn, the others shorten their step."""
    trial = torch.clamp(torch.addcmul(rows.x, rows.step.unsqueeze(-1), direction), rows.low, rows.high)
    f, g = objective(trial)
    s = trial - rows.x
    # The promise along the clamped step; at most the promise along the direction, so bounds never force a rejection.
    promise = (rows.g * s).sum(-1)
    accepted = f <= torch.add(rows.f, promise, alpha=SUFFICIENT)
    y, all_accepted = (g - rows.g) * free, bool(accepted.all())
    if not all_accepted:
        # A rejected trial may have any gradient, NaN too: it must not reach H.
        y = torch.where(accepted.unsqueeze(-1), y, 0.0)
    H, learnt = _update(rows, s, y, accepted)
    updates = rows.updates + learnt
    if all_accepted:
        return rows._replace(x=trial, f=f, g=g, H=H, step=rows.one, updates=updates)
    moved = accepted.unsqueeze(-1)
    return rows._replace(
        x=torch.where(moved, trial, rows.x),
        f=torch.where(accepted, f, rows.f),
        g=torch.where(moved, g, rows.g),
        H=H,
        step=torch.where(accepted, rows.one, rows.step * _shrink(rows.f, f, promise)),
        updates=updates,
    )


def _shrink(f: Tensor, f_trial: Tensor, promise: Tensor) -> Tensor:
    """The factor that minimises the parabola through what is known, kept in [0.1, 0.5]; 0.1 where f is not finite."""
    parabola = -0.5 * promise / (f_trial - f - promise)
    return parabola.nan_to_num(nan=0.1, posinf=0.5, neginf=0.1).clamp(0.1, 0.5)


def _update(rows: _Rows, s: Tensor, y: Tensor, accepted: Tensor) -> tuple[Tensor, Tensor]:
    """BFGS update of H where the curvature along s is positive; the first one also sets H's scale."""
    sy = (s * y).sum(-1)
    yy = (y * y).sum(-1)
    learnt = accepted & (sy > 1e-10 * yy)
    rho = learnt / sy.clamp(min=torch.finfo(s.dtype).tiny)
    H = rows.H
    first = learnt & (rows.updates == 0)
    H = H * torch.where(first, sy / yy, rows.one).reshape(-1, 1, 1)
    Hy = apply(H, y)
    u = s * rho.unsqueeze(-1)
    # H⁺ = H − u (Hy)ᵀ − (Hy) uᵀ + (1 + ρ yᵀHy) s uᵀ = H + u vᵀ + v uᵀ
    half = 0.5 + 0.5 * rho * (y * Hy).sum(-1)
    v = torch.addcmul(-Hy, half.unsqueeze(-1), s)
    H = torch.addcmul(H, u.unsqueeze(-1), v.unsqueeze(-2))
    return H.addcmul_(v.unsqueeze(-1), u.unsqueeze(-2)), learnt


def _store(out: Descent, rows: _Rows, leaving: Tensor, converged: Tensor) -> None:
    """Write the leaving rows' results to their places."""
    where = rows.place[leaving]
    out.x[where], out.value[where], out.gradient[where] = rows.x[leaving], rows.f[leaving], rows.g[leaving]
    out.converged[where] = converged[leaving] & rows.f[leaving].isfinite()
    out.rounds[where], out.H[where] = rows.rounds[leaving], rows.H[leaving]
