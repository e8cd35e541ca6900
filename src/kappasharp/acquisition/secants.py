"""EUBO through outcomes of which every one counts against a budget: slopes are believed first, then learnt on the way.

Notation
    X, Y  (runs, n, d), (runs, n, k)  designs whose outcomes are known before the ascent, and these
    J     (rows, q, free, k)          the outcomes' slopes at each design of a row, along its free coordinates
    s, y  (rows, q, free), (…, k)     the last step of every design, and what it changed

Differences would cost 1 + d designs a slope. The first J is that of a Gaussian process of what is known, whose one
length scale and noise are the best of a few by the evidence. Every step then corrects it along the step and nowhere
else: J⁺ = J + s (y − Jᵀs)ᵀ / sᵀs (Broyden 1965), so that a round costs the designs of a question and no more. Where
outcomes alone bend the objective these slopes are good enough to sort the starts; the few best are worth differences.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import composite, discrete
from kappasharp.acquisition.composite import NO_LAUNCH, PENALTY, Allowed, Looked, Region, Through
from kappasharp.acquisition.discrete import Lattice, Objective
from kappasharp.acquisition.eubo import NegativeEubo
from kappasharp.inference.features import Lift
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.native import launch
from kappasharp.numerics import quasi_newton
from kappasharp.numerics.quasi_newton import Descent, Tolerances
from kappasharp.settings import Family
from kappasharp.tensors import AnyFloat, take

FAMILY: Family = "matern52"
# Length scales in units of √d, and noise variances in units of an outcome's own.
SCALES, NOISES = (0.5, 1.0, 2.0, 4.0), (1e-6, 1e-3, 0.1)
# How many of the designs seen count, the last ones; and how many of those a search starts from, evenly.
MOST = 128
# How many of them choose the length scale and the noise.
MOST_TRIED = 64
# Rounds that sort the starts; how many starts go on; looks for each that make differences worth while.
SORTING, FINALISTS, LEAST_LOOKS = 3, 2, 4
# A squared step, or a spread, below this is none.
NOTHING = 1e-18


class _Fitted(NamedTuple):
    """Of every run and outcome the best length scale (runs, k), and the weights (runs, n, k) of what is known."""

    scale: Tensor
    alpha: Tensor


class Believed:
    """`features.Lift` by designs X (runs, n, d) with outcomes Y (runs, n, k): the mean of a Gaussian process for each.

    It has nothing computed. An outcome that never varies, or is no number somewhere, is the same everywhere.
    """

    budget = 0

    def __init__(self, X: Tensor, Y: Tensor) -> None:
        self.X, Y = X.double(), Y.double()
        self.Y, self.size = torch.where(Y.isfinite().all(-2, keepdim=True), Y, 0.0), Y.shape[-1]
        self.centre, self.spread = self.Y.mean(-2, keepdim=True), self.Y.std(-2, keepdim=True, correction=0)

    @cached_property
    def _Z(self) -> Tensor:
        """What is known, in units of √d about the middle of the cube."""
        return self._scaled(self.X)

    @cached_property
    def fitted(self) -> _Fitted:
        """The processes, fitted when they are needed first."""
        y = (self.Y - self.centre) / torch.where(self.spread > NOTHING, self.spread, 1.0)
        return _fitted(stationary.half_distances(self._Z, self._Z), y)

    def __call__(self, X: Tensor) -> Tensor:
        """Designs (rows, …, d), those of a run side by side, to outcomes (rows, …, k)."""
        at = self._scaled(X.reshape(len(self.X), -1, X.shape[-1]).double())
        found = at.new_zeros(*at.shape[:2], self.size)
        for _, near, alpha in self._scales(at):
            found += near.value @ alpha
        return (self.centre + self.spread * found).reshape(*X.shape[:-1], self.size).to(X)

    def slopes(self, at: Tensor) -> Tensor:
        """The slopes (runs, m, d, k) of the same at designs (runs, m, d)."""
        Z_at, root = self._scaled(at.double()), at.shape[-1] ** 0.5
        found = Z_at.new_zeros(*Z_at.shape[:2], self.size, at.shape[-1])
        for scale, near, alpha in self._scales(Z_at):
            # Of every outcome the sums over what is known of its weights times the designs, and of its weights.
            columns = alpha.unsqueeze(-1) * torch.nn.functional.pad(self._Z, (0, 1), value=1.0).unsqueeze(-2)
            sums = (near.slope @ columns.flatten(-2)).unflatten(-1, columns.shape[-2:])
            found += (sums[..., :-1] - Z_at.unsqueeze(-2) * sums[..., -1:]) / (scale**2 * root)
        return (found.mT * self.spread.unsqueeze(-2)).to(at)

    def _scales(self, Z_at: Tensor) -> Iterator[tuple[float, stationary.Profile, Tensor]]:
        """Every length scale that is best for an outcome, the kernel between there and what is known, and weights."""
        half = stationary.half_distances(Z_at, self._Z)
        for scale in SCALES:
            alpha = torch.where((self.fitted.scale == scale).unsqueeze(-2), self.fitted.alpha, 0.0)
            if bool(alpha.any()):
                yield scale, stationary.profile(FAMILY, half / scale**2), alpha

    @staticmethod
    def _scaled(X: Tensor) -> Tensor:
        return (X - 0.5) / X.shape[-1] ** 0.5


class _Memory(NamedTuple):
    """Where each row was last, what was found there, and the slopes."""

    points: Tensor
    found: Tensor
    J: Tensor


class BySecants(Through):
    """−EUBO of rows of designs and a gradient without differences; it learns with every call, or from look to look."""

    learns = True

    def __init__(
        self,
        inner: NegativeEubo,
        lift: Lift | None,
        allowed: Allowed | None,
        dimensions: int,
        free: Sequence[int],
        *,
        known: Believed | None = None,
    ) -> None:
        super().__init__(inner, lift, allowed, dimensions, free)
        self.known = known
        self.memory: _Memory | None = None

    def take(self, rows: Tensor) -> "BySecants":
        """The same for these rows, which are whole runs."""
        found = super().take(rows)
        assert isinstance(found, BySecants)
        found.memory = take(self.memory, rows)
        return found

    @property
    def by_differences(self) -> Through:
        """The same with slopes by differences."""
        return Through(self.inner, self.lift, self.allowed, self.dimensions, self.free.tolist())

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """−EUBO (rows,) with the penalty, and the gradient, like x."""
        points = x.unflatten(-1, (-1, self.dimensions))
        outcomes = self._outcomes(points).squeeze(0)
        broken = None if self.allowed is None else self.allowed(points).to(x).unsqueeze(-1)
        found = outcomes if broken is None else torch.cat([outcomes, broken], -1)
        J = self._slopes(points, found)
        self.memory = _Memory(points, found, J)
        value, (gradient,) = self._averaged(points, outcomes.unsqueeze(0))
        own, pull = gradient.split([self.dimensions, gradient.shape[-1] - self.dimensions], -1)
        if broken is not None:
            value = value + PENALTY * broken.sum((-2, -1))
            # Inside the limits there is nothing to slope.
            pull = torch.cat([pull, PENALTY * (broken > 0.0)], -1)
        along = (J @ pull.unsqueeze(-1)).squeeze(-1)
        return value, own.index_add(-1, self.free, along).flatten(-2)

    def look(self, points: Tensor, within: Region | None = None, before: Looked | None = None) -> Looked:
        """Known outcomes of designs (rows, q, d), and the slopes that are believed after what was known before."""
        outcomes = self._outcomes(points).squeeze(0)
        if before is None:
            J = self._of_all(self._first(points, outcomes))
        else:
            J = corrected(before.J, points - before.points, outcomes - before.outcomes)
        return Looked(points, outcomes, J, torch.zeros_like(J))

    def _slopes(self, points: Tensor, found: Tensor) -> Tensor:
        if self.memory is None:
            return self._first(points, found)
        before, values, J = self.memory
        return corrected(J, (points - before)[..., self.free], found - values)

    def _first(self, points: Tensor, found: Tensor) -> Tensor:
        """Slopes by what is known of the run; none where nothing is, and of limits, which every known design keeps."""
        rows, q, d = points.shape
        J = found.new_zeros(rows, q, len(self.free), found.shape[-1])
        if self.known is not None and self.lift is not None:
            at = points.reshape(len(self.known.X), -1, d)
            believed = self.known.slopes(at).reshape(rows, q, d, -1)
            J[..., : believed.shape[-1]] = believed[:, :, self.free]
        return J


def ascend(objective: BySecants, x: Tensor, box: tuple[Tensor, Tensor], tolerances: Tolerances) -> Descent:
    """Ascent of every start (runs, starts, p) in a box like the starts, with two designs for each start and round.

    All go some rounds with slopes that are believed. The best go on with true ones, by differences, where what is left
    pays for enough looks; else with those that are believed where they are, which was better than what was learnt.
    """
    (runs, starts, p), rounds = x.shape, tolerances.max_rounds
    first = composite.ascend(objective, x, box, tolerances._replace(max_rounds=min(SORTING, rounds)))
    left = max(2 * starts * (rounds - SORTING - 1), 0)
    looks = left // (2 * (1 + len(objective.free)))
    pays = looks // LEAST_LOOKS
    finalists = min(FINALISTS, pays or starts, starts)
    if left < 2 * finalists:
        return first
    rows = composite.best(first.value, starts, finalists)
    going = (objective.by_differences if pays else objective).of_starts(finalists)
    x = first.x[rows].reshape(runs, finalists, p)
    low, high = (end.reshape(-1, p)[rows] for end in box)
    tolerances = tolerances._replace(
        group=finalists, max_rounds=looks // finalists - 1 if pays else left // (2 * finalists)
    )
    if pays:
        last = composite.ascend(going, x, (low, high), tolerances)
    else:
        launch.passed_by("eubo", NO_LAUNCH)
        last = quasi_newton.minimize(going, x.reshape(-1, p), low, high, tolerances)
        last = last._replace(converged=last.converged | (last.rounds < tolerances.max_rounds))
    return last._replace(rounds=last.rounds + first.rounds[rows])


def exchange(on: Lattice, x: Tensor, value: Objective, guess: Objective, rounds: int) -> tuple[Tensor, int]:
    """Rows (runs, starts, p) on a lattice after exchanges, and how many rounds of two designs a start are left.

    By a guess first, which computes no design; then by true values for half of the rounds, where these pay for it.
    """
    before, after = discrete.nearest(on, x), discrete.exchange(on, x, guess)
    x = torch.where((value(after) < value(before)).unsqueeze(-1), after, before)
    sweeps = rounds // discrete.sweep_cost(on)
    return (discrete.exchange(on, x, value, sweeps), rounds // 2) if sweeps else (x, rounds)


def believed(fitted: Posterior, points: Tensor | None = None) -> Believed | None:
    """Outcomes by the designs seen and by points (runs, k, D) given as features: all that is known before a search."""
    if fitted.lift is None:
        return None
    n, d = fitted.X.shape[-2:]
    known = fitted.features[:, max(n - MOST, 0) : n]
    if points is not None:
        known = torch.cat([known, points[:, :: 1 + points.shape[1] // MOST]], 1)
    return Believed(known[..., :d], known[..., d:])


def corrected(J: AnyFloat, s: AnyFloat, y: AnyFloat) -> AnyFloat:
    """Slopes (…, d, k) that agree with the last step s (…, d) and the change y (…, k), else as they were.

    A step of no length teaches nothing, nor does one to or from where an outcome is no number.
    """
    length = s.square().sum(-1, keepdim=True)
    missed = y - (s.unsqueeze(-2) @ J).squeeze(-2)
    missed = torch.where((length > NOTHING) & missed.isfinite(), missed / length.clamp(min=NOTHING), 0.0)
    return J + s.unsqueeze(-1) * missed.unsqueeze(-2)


def _fitted(half: Tensor, y: Tensor) -> _Fitted:
    """Length scale and noise of a Gaussian process for each outcome y (runs, n, k), by the evidence of some designs.

    All kernels are made of one table (runs, n, n) of −½ the squared distances in units of √d.
    """
    step = -(-y.shape[-2] // MOST_TRIED)
    some, of_some = half[:, None, ::step, ::step], y[:, ::step].unsqueeze(1)
    tried = half.new_tensor([(scale, noise) for scale in SCALES for noise in NOISES])
    K = stationary.value(FAMILY, some / half.new_tensor(SCALES).square()[:, None, None])
    L, alpha, usable = _solved(K.repeat_interleave(len(NOISES), 1), tried[:, 1:], of_some)
    # The evidence under the output scale that is best for it.
    s = (of_some * alpha).mean(-2).clamp(min=NOTHING)
    evidence = -0.5 * of_some.shape[-2] * s.log() - L.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
    value, best = evidence.masked_fill(~usable, -torch.inf).max(1)
    best = best.masked_fill(~(value > -torch.inf), -1)
    alpha = torch.zeros_like(y)
    for at in best.unique().tolist():
        if at >= 0:
            scale, noise = tried[at].tolist()
            _, found, usable = _solved(stationary.value(FAMILY, half / scale**2), noise, y)
            alpha = torch.where(((best == at) & usable).unsqueeze(-2), found, alpha)
    return _Fitted(torch.where(best >= 0, tried[best, 0], 0.0), alpha)


def _solved(K: Tensor, noise: Tensor | float, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Factor and weights under a noise, which is added to K, and whether they can be had (…, 1)."""
    K.diagonal(dim1=-2, dim2=-1).add_(noise)
    L, failed = torch.linalg.cholesky_ex(K)
    return L, torch.cholesky_solve(y.expand(*L.shape[:-2], -1, -1), L), (failed == 0).unsqueeze(-1)
