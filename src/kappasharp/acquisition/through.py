"""EUBO as a function of designs whose outcomes are computed by somebody's program, and of designs that have limits.

Notation
    x  (rows, q d)     the q designs of a question end to end
    J  (rows, q, d, k) the outcomes' derivatives in the design, by differences: nobody gives us gradients
    v  (rows, q)       how far each design breaks the limits; 0 where it keeps them

EUBO's gradient in the features is exact; J carries it back to the designs. Where outcomes are uncertain EUBO is
averaged over draws of them. Limits are a penalty while a search moves; what it ends with is pulled inside.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.acquisition.eubo import NegativeEubo
from kappasharp.core.features import Lift

# How far a coordinate is moved for a difference: little beside any length scale, much beside rounding. A program with a
# budget may round its own numbers: there it is this share of how far outcomes are believed, where that is more.
STEP, SHARE_OF_RADIUS = 1e-3, 0.1
# What a limit broken by one unit costs, in prior deviations.
PENALTY = 10.0
# Why no kernel ascends there.
NO_LAUNCH = "through limits, or outcomes that are uncertain or count against a budget"
# How often the way back inside is halved.
HALVINGS = 8

Allowed = Callable[[Tensor], Tensor]


@runtime_checkable
class Uncertain(Lift, Protocol):
    """A lift whose outcomes are believed, not known."""

    def sampled(self, X: Tensor, /) -> Tensor:
        """What the outcomes may be: (draws, …, k) of designs (…, d), smooth in the design."""
        ...


class Looked(NamedTuple):
    """Designs (rows, q, d), their outcomes (rows, q, k), and these outcomes' slopes and bends (rows, q, d, k)."""

    points: Tensor
    outcomes: Tensor
    J: Tensor
    B: Tensor


class Region(NamedTuple):
    """How far from each row outcomes are believed to be straight (rows, 1), and of its box middle and half width."""

    radius: Tensor
    middle: Tensor
    half: Tensor


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
