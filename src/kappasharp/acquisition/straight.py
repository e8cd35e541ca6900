"""The ascent of EUBO through outcomes: EUBO is known as a function of outcomes, and these are nearly straight.

Notation
    x        (rows, 2d)      the two designs of a question end to end
    o        (rows, 2, k)    their outcomes, J (rows, 2, d, k) their slopes
    B        (rows, 2, d, k) their bends: the second derivative along each coordinate
    radius   (rows, 1)       how far from x the outcomes are believed to be straight, in every coordinate

Every round maximises EUBO with outcomes o + Jᵀs + ½ Bᵀs² at x′ = x + s in a box about x, which costs no design and is
one launch where there is a kernel; then looks at what is really there. What gains moves x. The box grows where the gain
is what was promised, and shrinks where it is not (a trust region: Conn, Gould and Toint 2000). Bends are nothing at
first; then each is what the slopes of two looks differ by over the step along its coordinate.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import eubo
from kappasharp.acquisition.eubo import NegativeEubo
from kappasharp.acquisition.through import Looked, Region, Through
from kappasharp.batches import take
from kappasharp.core import descent
from kappasharp.core.descent import Descent, Tolerances
from kappasharp.core.kernel import Sum
from kappasharp.kernels import straight as kernels
from kappasharp.kernels.eubo import EuboConstants
from kappasharp.kernels.sources import Execute
from kappasharp.kernels.straight import StraightRuns

# Where outcomes are believed first; below the least no step goes up any more.
RADIUS, LEAST_RADIUS = 0.25, 1e-4
# Of the promised gain: too little, as good as promised; and what then becomes of the box.
POOR, GOOD, SHORTER, LONGER = 0.25, 0.75, 0.35, 2.0
# A step along a coordinate that is shorter says nothing of the bend there.
LEAST_STEP = 1e-3
# Parameters and outcomes: as many kernels are summed where there is a launch.
BOTH = 2
# Rounds of the ascent within a box.
INNER_ROUNDS = 20


class StraightEubo:
    """−EUBO of rows of two designs whose outcomes are nearly straight, and its gradient, as descent wants it."""

    def __init__(self, inner: NegativeEubo, here: Looked) -> None:
        self.inner, self.here = inner, here

    def take(self, rows: Tensor) -> "StraightEubo":
        """The same for these rows, which are whole runs."""
        return StraightEubo(self.inner.take(rows), take(self.here, rows))

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """−EUBO (rows,) and its gradient, like x."""
        d = self.here.points.shape[-1]
        points = x.unflatten(-1, (-1, d))
        step = (points - self.here.points).unsqueeze(-1)
        outcomes = self.here.outcomes + (step * (self.here.J + 0.5 * step * self.here.B)).sum(-2)
        value, gradient = self.inner(torch.cat([points, outcomes], -1).flatten(-2))
        gradient = gradient.unflatten(-1, (points.shape[-2], -1))
        along = ((self.here.J + step * self.here.B) @ gradient[..., d:].unsqueeze(-1)).squeeze(-1)
        return value, (gradient[..., :d] + along).flatten(-2)


class _Ends(NamedTuple):
    """The box of every row, and its middle and half width design by design."""

    low: Tensor
    high: Tensor
    middle: Tensor
    half: Tensor

    def about(self, radius: Tensor) -> Region:
        """The same with how far outcomes are believed."""
        return Region(radius, self.middle, self.half)


def _ends(low: Tensor, high: Tensor, d: int) -> _Ends:
    return _Ends(low, high, *((0.5 * part).unflatten(-1, (-1, d)) for part in (low + high, high - low)))


class _Way(NamedTuple):
    """Where every row is, −EUBO there, how far outcomes are believed, whether it has ended, and its rounds."""

    here: Looked
    value: Tensor
    radius: Tensor
    ended: Tensor
    rounds: Tensor


def applies(objective: Through) -> bool:
    """Whether outcomes alone bend the objective: known ones, of both designs, without limits."""
    known = objective.lift is not None and objective.uncertain is None
    return known and objective.allowed is None and objective.inner.anchor is None


def ascend(
    objective: Through,
    x: Tensor,
    box: tuple[Tensor, Tensor],
    tolerances: Tolerances,
    sorting: tuple[int, int] = (0, 0),
) -> Descent:
    """Ascent of every start (runs, starts, p) in a box like the starts; a round looks at each row's designs once.

    With `sorting`, a number of rounds before the others, as many starts of every run go on as it says.
    """
    d, p = objective.dimensions, x.shape[-1]
    ends = _ends(box[0].reshape(-1, p), box[1].reshape(-1, p), d)
    points = x.reshape(-1, p).clamp(ends.low, ends.high).unflatten(-1, (-1, d))
    radius = torch.full_like(points[:, 0, :1], RADIUS)
    here = objective.look(points, ends.about(radius))
    none = torch.zeros(len(points), dtype=torch.long, device=x.device)
    inner = tolerances._replace(max_rounds=INNER_ROUNDS)
    runs = arranged(objective.inner, d)
    way = _Way(here, _value(objective, here, inner, runs), radius, none > 0, none)
    first, finalists = sorting
    for number in range(first + tolerances.max_rounds):
        if finalists and number == first:
            rows = best(way.value, objective.inner.starts, finalists)
            objective, way, ends = objective.of_starts(finalists), take(way, rows), take(ends, rows)
            inner, finalists = inner._replace(group=finalists), 0
        at = way.here.points.flatten(-2)
        reach = way.radius.masked_fill(way.ended.unsqueeze(-1), 0.0)
        inside = torch.maximum(at - reach, ends.low), torch.minimum(at + reach, ends.high)
        found = minimize(objective.inner, way.here, inside, inner, runs)
        promised = way.value - found.value
        way = way._replace(
            ended=way.ended | (promised <= tolerances.decrease) | (way.radius < LEAST_RADIUS).squeeze(-1)
        )
        if bool(way.ended.all()):
            break
        trial = torch.where(way.ended.unsqueeze(-1), at, found.x).unflatten(-1, (-1, d))
        there = objective.look(trial, ends.about(way.radius), way.here)
        way = _moved(way, there, _value(objective, there, inner, runs), promised, learns=objective.learns)
    if finalists:
        # All had ended before.
        way = take(way, best(way.value, objective.inner.starts, finalists))
    end = way.here.points.flatten(-2)
    return descent.of_kernel(end, way.value, torch.full_like(end, torch.nan), way.ended, way.rounds)


def best(value: Tensor, starts: int, count: int) -> Tensor:
    """The rows of as many starts of every run as go on: those with the least −EUBO; what is no number comes last."""
    best = value.nan_to_num(nan=torch.inf).reshape(-1, starts).topk(count, -1, largest=False).indices
    return (best + starts * torch.arange(len(best), device=best.device).unsqueeze(-1)).reshape(-1)


def _moved(way: _Way, there: Looked, value: Tensor, promised: Tensor, *, learns: bool) -> _Way:
    """The way after a look: rows that gained are there now, and every row knows better how far to believe.

    Slopes that are learnt hold for both places, and their bends are unknown.
    """
    share = (way.value - value) / promised.clamp(min=torch.finfo(value.dtype).tiny)
    gained = (share > descent.SUFFICIENT) & ~way.ended
    share = share.unsqueeze(-1)
    B = there.B if learns else _bends(way.here, there)
    step = (there.points - way.here.points).flatten(-2).abs().amax(-1, keepdim=True)
    # Outcomes that are no number are as poor as it gets.
    good = (share > GOOD) & (step >= GOOD * way.radius)
    radius = torch.where(share >= POOR, torch.where(good, LONGER * way.radius, way.radius), SHORTER * step)
    rounds = way.rounds + ~way.ended
    if gained.device.type == "cpu" and bool(gained.all()):
        return way._replace(here=there._replace(B=B), value=value, radius=radius, rounds=rounds)
    moves = gained[:, None, None]
    here = Looked(
        torch.where(moves, there.points, way.here.points),
        torch.where(moves, there.outcomes, way.here.outcomes),
        there.J if learns else torch.where(moves.unsqueeze(-1), there.J, way.here.J),
        B,
    )
    return way._replace(here=here, value=torch.where(gained, value, way.value), radius=radius, rounds=rounds)


def _bends(here: Looked, there: Looked) -> Tensor:
    """How outcomes bend along each coordinate, after slopes at two places; as before where nothing new is known."""
    step = (there.points - here.points).unsqueeze(-1)
    known = (step.abs() >= LEAST_STEP) & there.outcomes.isfinite().unsqueeze(-2)
    return torch.where(known, (there.J - here.J) / torch.where(known, step, 1.0), here.B)


def _value(objective: Through, here: Looked, tolerances: Tolerances, runs: StraightRuns | None) -> Tensor:
    """−EUBO (rows,) of the designs with the outcomes that they have."""
    at = here.points.flatten(-2)
    found = fused(objective.inner, here, (at, at), tolerances._replace(max_rounds=0), runs)
    if found is not None:
        return found.value
    return objective.inner(torch.cat([here.points, here.outcomes], -1).flatten(-2))[0]


def minimize(
    objective: NegativeEubo,
    here: Looked,
    box: tuple[Tensor, Tensor],
    tolerances: Tolerances,
    runs: StraightRuns | None = None,
) -> Descent:
    """The minimum of −EUBO with straight outcomes in a box (rows, p), from every row's own place."""
    found = fused(objective, here, box, tolerances, runs)
    if found is not None:
        return found
    return descent.minimize(StraightEubo(objective, here), here.points.flatten(-2), *box, tolerances)


def arranged(objective: NegativeEubo, d: int) -> StraightRuns | None:
    """What a launch needs of the posterior over d parameters and outcomes; None where it is another sum, or none."""
    p = objective.prepared
    if not isinstance(p.family, Sum) or p.share is None or len(p.family.sizes) != BOTH:
        return None
    parts = (p.lengthscale[..., :d], p.lengthscale[..., d:], p.share, p.outputscale, p.X[..., :d], p.X[..., d:])
    return StraightRuns(*(part.contiguous() for part in (*parts, p.weights)))


def fused(
    objective: NegativeEubo,
    here: Looked,
    box: tuple[Tensor, Tensor],
    tolerances: Tolerances,
    runs: StraightRuns | None,
    *,
    execute: Execute | None = None,
) -> Descent | None:
    """The same as one launch, of `execute` if given; None where no kernel can."""
    if runs is None:
        return None
    family = objective.prepared.family
    constants = EuboConstants(
        matern=isinstance(family, Sum) and family.family == "matern52",
        improvement=objective.variant == "improvement",
        least_variance=eubo.VARIANCE_FLOOR[here.points.dtype],
        limits=descent.numbers(tolerances),
        max_rounds=tolerances.max_rounds,
    )
    start = here.points.flatten(-2).unflatten(0, (-1, objective.starts))
    execute = execute or kernels.executor(runs, constants, start)
    if execute is None:
        return None
    lines = kernels.Lines(start, here.outcomes, here.J, here.B, *box)
    return descent.of_kernel(*kernels.minimize(runs, lines, constants, execute)[:5])
