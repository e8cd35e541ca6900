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
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.acquisition import eubo
from kappasharp.acquisition.eubo import NegativeEubo
from kappasharp.inference.features import Lift
from kappasharp.kernels.stationary import Sum
from kappasharp.native import linearised_eubo
from kappasharp.native.eubo import EuboConstants
from kappasharp.native.linearised_eubo import Stages, StraightRuns, Trust, Way
from kappasharp.native.sources import Execute
from kappasharp.numerics import quasi_newton
from kappasharp.numerics.quasi_newton import Descent, Tolerances
from kappasharp.tensors import take

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


# EUBO as a function of designs whose outcomes are computed by somebody's program, and of designs that have limits.
#
# Notation
#     x  (rows, q d)     the q designs of a question end to end
#     J  (rows, q, d, k) the outcomes' derivatives in the design, by differences: nobody gives us gradients
#     v  (rows, q)       how far each design breaks the limits; 0 where it keeps them
#
# EUBO's gradient in the features is exact; J carries it back to the designs. Where outcomes are uncertain EUBO is
# averaged over draws of them. Limits are a penalty while a search moves; what it ends with is pulled inside.


class Looked(NamedTuple):
    """Designs (rows, q, d), their outcomes (rows, q, k), and these outcomes' slopes and bends (rows, q, d, k)."""

    points: Tensor
    outcomes: Tensor
    J: Tensor
    B: Tensor


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


class Region(NamedTuple):
    """How far from each row outcomes are believed to be straight (rows, 1), and of its box middle and half width."""

    radius: Tensor
    middle: Tensor
    half: Tensor


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


Allowed = Callable[[Tensor], Tensor]


class Through:
    """−EUBO of rows of designs and its gradient, as descent wants it."""

    # Whether slopes are learnt from look to look.
    learns = False

    def __init__(
        self, inner: NegativeEubo, lift: Lift | None, allowed: Allowed | None, dimensions: int, free: Sequence[int]
    ) -> None:
        self.inner, self.lift, self.allowed, self.dimensions = inner, lift, allowed, dimensions
        self.uncertain = lift if isinstance(lift, Uncertain) else None
        X = inner.prepared.X
        self.free = torch.tensor(free, dtype=torch.long, device=X.device)
        self.all_free = len(free) == dimensions
        # Where a design goes for its differences: nowhere first, then along each free coordinate (1 + free, d).
        along = torch.eye(dimensions, dtype=X.dtype, device=X.device)[self.free]
        self.ways = torch.nn.functional.pad(along, (0, 0, 1, 0))

    def take(self, rows: Tensor) -> "Through":
        """The same for these rows, which are whole runs."""
        found = copy.copy(self)
        found.inner = self.inner.take(rows)
        return found

    def of_starts(self, starts: int) -> "Through":
        """The same for so many starts of every run."""
        found = copy.copy(self)
        found.inner = NegativeEubo(self.inner.prepared, starts, self.inner.variant, self.inner.anchor)
        return found

    def value(self, x: Tensor) -> Tensor:
        """−EUBO (rows,), and the penalty."""
        points = x.unflatten(-1, (-1, self.dimensions))
        value = self._averaged(points, self._outcomes(points))[0]
        return value if self.allowed is None else value + PENALTY * self.allowed(points).to(x).sum(-1)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """−EUBO (rows,) with the penalty, and the gradient, like x."""
        points = x.unflatten(-1, (-1, self.dimensions))
        around, steps = self._around(points)
        outcomes = self._outcomes(around)
        value, gradient = self._averaged(points, outcomes[..., 0, :])
        if self.lift is None:
            gradient = gradient.squeeze(0)
        else:
            own, bent = gradient.split([self.dimensions, gradient.shape[-1] - self.dimensions], -1)
            # J's products with the gradient in the outcomes: differences, then their quotients.
            along = ((outcomes[..., 1:, :] - outcomes[..., :1, :]) @ bent.unsqueeze(-1)).squeeze(-1) / steps
            gradient = own.index_add(-1, self.free, along).mean(0)
        if self.allowed is not None:
            broken = self.allowed(around).to(x)
            value = value + PENALTY * broken[..., 0].sum(-1)
            slope = (broken[..., 1:] - broken[..., :1]) / steps
            gradient = gradient.index_add(-1, self.free, PENALTY * slope)
        return value, gradient.flatten(-2)

    def look(self, points: Tensor, within: Region | None = None, before: Looked | None = None) -> Looked:
        """Known outcomes of designs (rows, q, d), and their slopes by differences; of bends nothing is known.

        Args:
            points: where to look.
            within: where a program with a budget may be asked; without it differences are as small as they get.
            before: what was known before, which says nothing new where slopes are differences.
        """
        is_bounded = self.lift is not None and self.lift.budget > 0
        around, steps = self._around(points, within if is_bounded else None)
        outcomes = self._outcomes(around).squeeze(0)
        slopes = (outcomes[..., 1:, :] - outcomes[..., :1, :]) / steps.unsqueeze(-1)
        # At the edge of where outcomes are numbers nothing is known of their slopes.
        slopes = slopes.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        J = self._of_all(slopes)
        return Looked(points, outcomes[..., 0, :], J, torch.zeros_like(J))

    def _of_all(self, slopes: Tensor) -> Tensor:
        """Slopes along the free coordinates (…, free, k) as those along all (…, d, k); none along the others."""
        if self.all_free:
            return slopes
        whole = slopes.new_zeros(*slopes.shape[:-2], self.dimensions, slopes.shape[-1])
        return whole.index_copy(-2, self.free, slopes)

    def _along_free(self, points: Tensor) -> Tensor:
        """The free coordinates of points (…, d), which most often are all."""
        return points if self.all_free else points[..., self.free]

    def _outcomes(self, X: Tensor) -> Tensor:
        """Outcomes (draws, …, k) of designs (…, d): one draw where they are known, and none of them without a lift."""
        if self.lift is None:
            return X.new_zeros(1, *X.shape[:-1], 0)
        return (self.lift(X).unsqueeze(0) if self.uncertain is None else self.uncertain.sampled(X)).to(X)

    def _averaged(self, points: Tensor, outcomes: Tensor) -> tuple[Tensor, Tensor]:
        """−EUBO (rows,) of designs (rows, q, d), averaged over outcomes (draws, rows, q, k); its gradient in each."""
        draws, (rows, q, _) = len(outcomes), points.shape
        F = torch.cat([points.expand(draws, *points.shape), outcomes], -1)
        # The draws of a row side by side: to the inner objective they are so many more starts.
        value, gradient = self.inner.widened(draws)(F.transpose(0, 1).reshape(rows * draws, -1))
        gradient = gradient.reshape(rows, draws, q, -1).transpose(0, 1)
        return value.reshape(rows, draws).mean(-1), gradient

    def _around(self, points: Tensor, within: Region | None = None) -> tuple[Tensor, Tensor]:
        """Every design, then the same moved along each free coordinate (rows, q, 1 + free, d); and by how much."""
        # Towards the middle of the cube, or of the region: a step stays inside.
        if within is None:
            steps = STEP - 2.0 * STEP * (points > 0.5)  # noqa: PLR2004
        else:
            length = (SHARE_OF_RADIUS * within.radius).clamp(min=STEP).unsqueeze(-1)
            steps = torch.minimum(length, within.half).copysign(within.middle - points)
        return torch.addcmul(points.unsqueeze(-2), steps.unsqueeze(-2), self.ways), self._along_free(steps)


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
    return quasi_newton.of_kernel(end, way.value, torch.full_like(end, torch.nan), way.ended > 0, way.rounds.long())


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
            limits=quasi_newton.numbers(tolerances),
            max_rounds=tolerances.max_rounds,
        )
        self.execute = self._executor()

    def _executor(self) -> Execute | None:
        """What does it, for all rounds; None where torch has to."""
        return None if self.runs is None else linearised_eubo.executor(self.runs, self.constants, self.inner.starts)

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
        linearised_eubo.advance(self.runs, way, looked, self.constants, RULES, stages=stages, execute=execute)
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
        found = quasi_newton.minimize(StraightEubo(self.inner, Looked(*way[:4])), at, *inside, self.tolerances)
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
    gained = (share > quasi_newton.SUFFICIENT) & goes
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


# How far a coordinate is moved for a difference: little beside any length scale, much beside rounding. A program with a
# budget may round its own numbers: there it is this share of how far outcomes are believed, where that is more.
STEP, SHARE_OF_RADIUS = 1e-3, 0.1
# What a limit broken by one unit costs, in prior deviations.
PENALTY = 10.0
# Why no kernel ascends there.
NO_LAUNCH = "through limits, or outcomes that are uncertain or count against a budget"
# How often the way back inside is halved.
HALVINGS = 8


@runtime_checkable
class Uncertain(Lift, Protocol):
    """A lift whose outcomes are believed, not known."""

    def sampled(self, X: Tensor, /) -> Tensor:
        """What the outcomes may be: (draws, …, k) of designs (…, d), smooth in the design."""
        ...


def budget(lift: Lift | None, allowed: Allowed | None) -> int:
    """How many designs one question may have computed, for outcomes or for limits alone; 0 for as many as it likes."""
    of_limits: int = getattr(allowed, "budget", 0)
    return of_limits if lift is None else lift.budget


def affordable(budget: int, usual: int, cost: int) -> int:
    """How many copies of something a budget pays for, each of which has so many designs computed; one at least."""
    return min(usual, max(budget // cost, 1)) if budget else usual


def broken(allowed: Allowed | None, X: Tensor) -> Tensor:
    """Which designs (…, d) break a limit."""
    if allowed is None:
        return torch.zeros(X.shape[:-1], dtype=torch.bool, device=X.device)
    return allowed(X).to(X) > 0.0


def pulled(allowed: Allowed | None, X: Tensor, inside: Tensor) -> Tensor:
    """Designs (…, d), each that breaks a limit moved towards one that breaks none until it breaks none either."""
    outside = broken(allowed, X)
    if allowed is None or not bool(outside.any()):
        return X
    far, near = X[outside], inside.expand_as(X)[outside]
    low, high = torch.zeros_like(far[..., :1]), torch.ones_like(far[..., :1])
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        keeps = ~broken(allowed, near + middle * (far - near)).unsqueeze(-1)
        low, high = torch.where(keeps, middle, low), torch.where(keeps, high, middle)
    X = X.clone()
    X[outside] = near + low * (far - near)
    return X
