"""The ascent of EUBO through outcomes: EUBO is known as a function of outcomes, and these are nearly straight.

Notation
    x        (rows, 2d)      the two designs of a question end to end
    o        (rows, 2, k)    their outcomes, J (rows, 2, d, k) their slopes
    B        (rows, 2, d, k) their bends: the second derivative along each coordinate
    radius   (rows, 1)       how far from x the outcomes are believed to be straight, in every coordinate

Every round maximises EUBO with outcomes o + Jᵀs + ½ Bᵀs² at x′ = x + s in a box about x, which costs no design; then
looks at what is really there. What gains moves x. The box grows where the gain is what was promised, and shrinks where
it is not (a trust region: Conn, Gould and Toint 2000). Bends are nothing at first; then each is what the slopes of two
looks differ by over the step along its coordinate. What lies between two looks is one launch where there is a kernel.
"""

import copy
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
from kappasharp.kernels.straight import Stages, StraightRuns, Trust, Way

# Where outcomes are believed first; below the least no step goes up any more.
RADIUS, LEAST_RADIUS = 0.25, 1e-4
# Of the promised gain: too little, as good as promised; and what then becomes of the box.
POOR, GOOD, SHORTER, LONGER = 0.25, 0.75, 0.35, 2.0
# A step along a coordinate that is shorter says nothing of the bend there.
LEAST_STEP = 1e-3
RULES = Trust(LEAST_RADIUS, POOR, GOOD, SHORTER, LONGER, LEAST_STEP)
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
    inner = tolerances._replace(max_rounds=INNER_ROUNDS)
    between = Between(objective.inner, d, inner, bends=not objective.learns)
    there = objective.look(points, ends.about(torch.full_like(points[:, 0, :1], RADIUS)))
    way = begun(there)
    first, finalists = sorting
    last = first + tolerances.max_rounds
    for number in range(last + 1):
        way = between.advanced(way, there, (ends.low, ends.high), moves=number > 0, solves=number < last)
        if finalists and number == first:
            rows = best(way.value, objective.inner.starts, finalists)
            objective, way, ends = objective.of_starts(finalists), take(way, rows), take(ends, rows)
            between, finalists = between.of(objective.inner, inner._replace(group=finalists)), 0
        if number == last or all(way.ended.tolist()):
            break
        there = objective.look(way.trial, ends.about(way.radius), Looked(*way[:4]))
    if finalists:
        # All had ended before.
        way = take(way, best(way.value, objective.inner.starts, finalists))
    end = way.points.flatten(-2)
    return descent.of_kernel(end, way.value, torch.full_like(end, torch.nan), way.ended > 0, way.rounds.long())


def begun(here: Looked) -> Way:
    """The way of rows that are where they looked."""
    here = Looked(*(part.contiguous() for part in here))
    rows = len(here.points)
    none = torch.zeros(rows, dtype=torch.int32, device=here.points.device)
    numbers = here.points.new_tensor([torch.inf, RADIUS, 0.0]).unsqueeze(-1).repeat(1, rows)
    return Way(*here, here.points.clone(), numbers[0], numbers[1].unsqueeze(-1), numbers[2], none, none.clone())


class Between:
    """What happens between two looks: every row moves or not, and finds where to look next."""

    def __init__(self, inner: NegativeEubo, d: int, tolerances: Tolerances, *, bends: bool) -> None:
        self.inner, self.tolerances, self.bends = inner, tolerances, bends
        family = inner.prepared.family
        self.runs = arranged(inner, d)
        self.constants = EuboConstants(
            matern=isinstance(family, Sum) and family.family == "matern52",
            improvement=inner.variant == "improvement",
            least_variance=eubo.VARIANCE_FLOOR[inner.prepared.X.dtype],
            limits=descent.numbers(tolerances),
            max_rounds=tolerances.max_rounds,
        )
        self.execute = self._executor()

    def _executor(self) -> Execute | None:
        """What does it, for all rounds; None where torch has to."""
        return None if self.runs is None else kernels.executor(self.runs, self.constants, self.inner.starts)

    def of(self, inner: NegativeEubo, tolerances: Tolerances) -> "Between":
        """The same for other starts of the same runs."""
        found = copy.copy(self)
        found.inner, found.tolerances = inner, tolerances
        found.execute = found._executor()
        return found

    def advanced(
        self,
        way: Way,
        there: Looked,
        box: tuple[Tensor, Tensor],
        *,
        moves: bool,
        solves: bool = True,
        execute: Execute | None = None,
    ) -> Way:
        """The way after a look; its tensors are written to where a launch does it, of `execute` if given.

        Args:
            way: where every row was.
            there: what was found where it looked.
            box: where its designs may be (rows, p).
            moves: whether that was a step; else it is where rows begin.
            solves: whether there will be another look.
            execute: what runs the launch.
        """
        execute = execute or self.execute
        if self.runs is None or execute is None:
            return self.by_torch(way, there, box, moves=moves, solves=solves)
        looked = (*(end.contiguous() for end in box), there.outcomes.contiguous(), there.J.contiguous())
        stages = Stages(moves, solves, self.bends)
        kernels.advance(self.runs, way, looked, self.constants, RULES, stages=stages, execute=execute)
        return way

    def by_torch(self, way: Way, there: Looked, box: tuple[Tensor, Tensor], *, moves: bool, solves: bool = True) -> Way:
        """The same by torch."""
        value = self.inner(torch.cat([there.points, there.outcomes], -1).flatten(-2))[0]
        way = _moved(way, there, value, bends=self.bends) if moves else way._replace(value=value)
        return self._aimed(way, *box) if solves else way._replace(trial=way.points)

    def _aimed(self, way: Way, low: Tensor, high: Tensor) -> Way:
        """Where every row looks next, and what that promises."""
        at = way.points.flatten(-2)
        reach = way.radius.masked_fill((way.ended > 0).unsqueeze(-1), 0.0)
        inside = torch.maximum(at - reach, low), torch.minimum(at + reach, high)
        found = descent.minimize(StraightEubo(self.inner, Looked(*way[:4])), at, *inside, self.tolerances)
        promised = (way.value - found.value).masked_fill(way.ended > 0, 0.0)
        ends = (promised <= self.tolerances.decrease) | (way.radius < LEAST_RADIUS).squeeze(-1)
        ended = ((way.ended > 0) | ends).int()
        trial = torch.where(ended.unsqueeze(-1) > 0, at, found.x).reshape(way.points.shape)
        return way._replace(trial=trial, promised=promised, ended=ended)


def best(value: Tensor, starts: int, count: int) -> Tensor:
    """The rows of as many starts of every run as go on: those with the least −EUBO; what is no number comes last."""
    best = value.nan_to_num(nan=torch.inf).reshape(-1, starts).topk(count, -1, largest=False).indices
    return (best + starts * torch.arange(len(best), device=best.device).unsqueeze(-1)).reshape(-1)


def _moved(way: Way, there: Looked, value: Tensor, *, bends: bool) -> Way:
    """The way after a look: rows that gained are there now, and every row knows better how far to believe.

    Without `bends` slopes are learnt: they hold for both places, and their bends are unknown.
    """
    goes = way.ended == 0
    share = (way.value - value) / way.promised.clamp(min=torch.finfo(value.dtype).tiny)
    gained = (share > descent.SUFFICIENT) & goes
    share, moves = share.unsqueeze(-1), gained[:, None, None]
    step = (there.points - way.points).flatten(-2).abs().amax(-1, keepdim=True)
    # Outcomes that are no number are as poor as it gets.
    good = (share > GOOD) & (step >= GOOD * way.radius)
    radius = torch.where(share >= POOR, torch.where(good, LONGER * way.radius, way.radius), SHORTER * step)
    return way._replace(
        points=torch.where(moves, there.points, way.points),
        outcomes=torch.where(moves, there.outcomes, way.outcomes),
        J=torch.where(moves.unsqueeze(-1), there.J, way.J) if bends else there.J,
        B=_bends(way, there) if bends else way.B,
        value=torch.where(gained, value, way.value),
        radius=torch.where(goes.unsqueeze(-1), radius, way.radius),
        rounds=way.rounds + goes,
    )


def _bends(here: Way, there: Looked) -> Tensor:
    """How outcomes bend along each coordinate, after slopes at two places; as before where nothing new is known."""
    step = (there.points - here.points).unsqueeze(-1)
    known = (step.abs() >= LEAST_STEP) & there.outcomes.isfinite().unsqueeze(-2)
    return torch.where(known, (there.J - here.J) / torch.where(known, step, 1.0), here.B)


def arranged(objective: NegativeEubo, d: int) -> StraightRuns | None:
    """What a launch needs of the posterior over d parameters and outcomes; None where it is another sum, or none."""
    p = objective.prepared
    if not isinstance(p.family, Sum) or p.share is None or len(p.family.sizes) != BOTH:
        return None
    parts = (p.lengthscale[..., :d], p.lengthscale[..., d:], p.share, p.outputscale, p.X[..., :d], p.X[..., d:])
    return StraightRuns(*(part.contiguous() for part in (*parts, p.weights)))
