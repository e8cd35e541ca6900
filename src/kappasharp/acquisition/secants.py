"""EUBO through outcomes of which every one counts against a budget: slopes are believed first, then learnt on the way.

Notation
    X, Y  (runs, n, d), (runs, n, k)  designs whose outcomes are known before the ascent, and these
    J     (rows, q, free, k)          the outcomes' slopes at each design of a row, along its free coordinates
    s, y  (rows, q, free), (…, k)     the last step of every design, and what it changed

Differences would cost 1 + d designs a slope. The first J is that of a Gaussian process of what is known, whose one
length scale and noise are the best of a few by the evidence. Every step then corrects it along the step and nowhere
else: J⁺ = J + s (y − Jᵀs)ᵀ / sᵀs (Broyden 1965), so that a round costs the designs of a question and no more. Where
outcomes alone bend the objective these slopes are good enough to sort the starts; the few best are worth differences.
And where designs of a sample foresee each other's outcomes, the process itself sorts them: that costs no design.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import lattice, straight
from kappasharp.acquisition.eubo import NegativeEubo
from kappasharp.acquisition.lattice import Lattice, Objective
from kappasharp.acquisition.through import NO_LAUNCH, PENALTY, Allowed, Looked, Region, Through, budget
from kappasharp.batches import take
from kappasharp.core import descent, kernel
from kappasharp.core.choices import Family
from kappasharp.core.descent import Descent, Tolerances
from kappasharp.core.features import Lift
from kappasharp.core.kernel import Profile
from kappasharp.core.posterior import Posterior
from kappasharp.kernels import launch
from kappasharp.shapes import AnyFloat

FAMILY: Family = "matern52"
# Length scales in units of √d, and noise variances in units of an outcome's own.
SCALES, NOISES = (0.5, 1.0, 2.0, 4.0), (1e-6, 1e-3, 0.1)
# Of the designs seen so many count, the last ones; and of those a search starts from as many, evenly.
MOST = 128
# So many rounds sort the starts; so many go on, by differences where there are so many looks for each. Where outcomes
# are foreseen these are nearly there: so many looks at most, which in kinks are worth their time.
SORTING, FINALISTS, LEAST_LOOKS, MOST_LOOKS = 3, 2, 4, 10
# Outcomes are foreseen where designs of a sample, so many or more, foresee each other's to this share of the variance.
LEAST_SAMPLE, FORESEEN = 32, 0.9
# A squared step, or a spread, below this is none.
NOTHING = 1e-18


class Kernels(NamedTuple):
    """Of every outcome, of each run or of all alike, the length scale and the noise of its process (…, k)."""

    scale: Tensor
    noise: Tensor


class _Process(NamedTuple):
    """The length scale of some outcomes, what is known in its units (runs, n, d), and their weights (runs, n, k)."""

    scale: float
    Z: Tensor
    alpha: Tensor


class Believed:
    """`features.Lift` by designs X (runs, n, d) with outcomes Y (runs, n, k): the mean of a Gaussian process for each.

    It has nothing computed. An outcome that never varies, or is no number somewhere, is the same everywhere. Without
    `kernels` these are the best for what is known of each run.
    """

    budget, sample = 0, None

    def __init__(self, X: Tensor, Y: Tensor, kernels: Kernels | None = None) -> None:
        self.X, Y = X.double(), Y.double()
        self.Y, self.size = torch.where(Y.isfinite().all(-2, keepdim=True), Y, 0.0), Y.shape[-1]
        self.centre, self.spread = self.Y.mean(-2, keepdim=True), self.Y.std(-2, keepdim=True, correction=0)
        self.kernels = kernels

    @cached_property
    def processes(self) -> list[_Process]:
        """One for all outcomes of a length scale, fitted when they are needed first."""
        y = (self.Y - self.centre) / torch.where(self.spread > NOTHING, self.spread, 1.0)
        kernels = best_kernels(self.X, y) if self.kernels is None else self.kernels
        weights, found = _weights(self.X, y, kernels), []
        for scale in set(kernels.scale.flatten().tolist()):
            alpha = torch.where((kernels.scale == scale).unsqueeze(-2), weights, 0.0)
            found.append(_Process(scale, _scaled(self.X, scale), alpha))
        return found

    def __call__(self, X: Tensor) -> Tensor:
        """Designs (…, rows, q, d), the rows of a run side by side, to outcomes (…, rows, q, k)."""
        found = torch.stack([K.value @ alpha for _, _, K, alpha in self._near(X)]).sum(0)
        return self._like(X, self.centre + self.spread * found, self.size)

    def about(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and its slopes (…, rows, q, d, k)."""
        value, slopes = torch.zeros_like(self.spread), torch.zeros_like(self.spread).unsqueeze(-2)
        for scale, Z_at, K, alpha in self._near(X):
            Z = _scaled(self.X, scale)
            # Σ_j k′(z, z_j) α_j (z_j − z), over every outcome.
            along = K.slope @ (alpha.unsqueeze(-2) * Z.unsqueeze(-1)).flatten(-2)
            along = along.unflatten(-1, (-1, self.size)) - (K.slope @ alpha).unsqueeze(-2) * Z_at.unsqueeze(-1)
            value, slopes = value + K.value @ alpha, slopes + along / _length(scale, X)
        value, slopes = self.centre + self.spread * value, self.spread.unsqueeze(-2) * slopes
        return self._like(X, value, self.size), self._like(X, slopes, X.shape[-1], self.size)

    def _near(self, X: Tensor) -> Iterator[tuple[float, Tensor, Profile, Tensor]]:
        """Of every process its length scale, designs in its units (runs, m, d), their covariances, and its weights."""
        at = X.movedim(-3, 0).reshape(len(self.X), -1, X.shape[-1]).double()
        for scale, Z, alpha in self.processes:
            Z_at = _scaled(at, scale)
            yield scale, Z_at, kernel.profile(FAMILY, kernel.half_distances(Z_at, Z)), alpha

    @staticmethod
    def _like(X: Tensor, found: Tensor, *sizes: int) -> Tensor:
        """What was found of every design (runs, m, …), arranged as the designs are."""
        first = X.movedim(-3, 0).shape[:-1]
        return found.reshape(*first, *sizes).movedim(0, X.ndim - 3).to(X)


class Foreseen(Through):
    """−EUBO of rows of designs with outcomes that are believed, for straight ascents: nothing is computed."""

    def look(self, points: Tensor, within: Region | None = None, before: Looked | None = None) -> Looked:
        """Believed outcomes of designs (rows, q, d), and their slopes."""
        assert isinstance(self.lift, Believed)
        outcomes, slopes = self.lift.about(points)
        J = self._of_all(slopes[:, :, self.free])
        return Looked(points, outcomes, J, torch.zeros_like(J))


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

    @property
    def foreseen(self) -> Foreseen:
        """The same with outcomes that are believed."""
        return Foreseen(self.inner, self.known, self.allowed, self.dimensions, self.free.tolist())

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
        rows, q, _ = points.shape
        J = found.new_zeros(rows, q, len(self.free), found.shape[-1])
        if self.known is not None and self.lift is not None:
            believed = self.known.about(points)[1]
            J[..., : believed.shape[-1]] = believed[:, :, self.free]
        return J


def ascend(
    objective: BySecants, x: Tensor, box: tuple[Tensor, Tensor], tolerances: Tolerances, *, foresees: bool = False
) -> Descent:
    """Ascent of every start (runs, starts, p) in a box like the starts, with two designs for each start and round.

    All go some rounds with slopes that are believed. The best go on with true ones, by differences, where what is left
    pays for enough looks; else with those that are believed where they are, which was better than what was learnt.
    Where outcomes are foreseen the first rounds cost nothing, and a round's two designs are for all starts together.
    """
    (runs, starts, p), rounds = x.shape, tolerances.max_rounds
    sorting = tolerances._replace(max_rounds=SORTING if foresees else min(SORTING, rounds))
    first = straight.ascend(objective.foreseen if foresees else objective, x, box, sorting)
    left = 2 * (rounds if foresees else starts * max(rounds - SORTING - 1, 0))
    looks = left // (2 * (1 + len(objective.free)))
    pays = looks // LEAST_LOOKS
    finalists = min(FINALISTS, pays or starts, starts)
    if left < 2 * finalists:
        return first
    rows = straight.best(first.value, starts, finalists)
    going = (objective.by_differences if pays else objective).of_starts(finalists)
    x = first.x[rows].reshape(runs, finalists, p)
    low, high = (end.reshape(-1, p)[rows] for end in box)
    looks = min(looks // finalists, MOST_LOOKS if foresees else looks)
    tolerances = tolerances._replace(group=finalists, max_rounds=looks - 1 if pays else left // (2 * finalists))
    if pays:
        last = straight.ascend(going, x, (low, high), tolerances)
    else:
        launch.passed_by("eubo", NO_LAUNCH)
        last = descent.minimize(going, x.reshape(-1, p), low, high, tolerances)
        last = last._replace(converged=last.converged | (last.rounds < tolerances.max_rounds))
    return last._replace(rounds=last.rounds + first.rounds[rows])


def exchange(on: Lattice, x: Tensor, value: Objective, guess: Objective, rounds: int) -> tuple[Tensor, int]:
    """Rows (runs, starts, p) on a lattice after exchanges, and how many rounds of two designs a start are left.

    By a guess first, which computes no design; then by true values for half of the rounds, where these pay for it.
    """
    before, after = lattice.nearest(on, x), lattice.exchange(on, x, guess)
    x = torch.where((value(after) < value(before)).unsqueeze(-1), after, before)
    sweeps = rounds // lattice.sweep_cost(on)
    return (lattice.exchange(on, x, value, sweeps), rounds // 2) if sweeps else (x, rounds)


def believed(fitted: Posterior, points: Tensor | None = None) -> Believed | None:
    """Outcomes by the designs seen and by points (runs, k, D) given as features: all that is known before a search."""
    if fitted.lift is None:
        return None
    n, d = fitted.X.shape[-2:]
    known = fitted.features[:, max(n - MOST, 0) : n]
    if points is not None:
        known = torch.cat([known, points[:, :: 1 + points.shape[1] // MOST]], 1)
    return Believed(known[..., :d], known[..., d:])


def foreseen(fitted: Posterior) -> Believed | None:
    """Outcomes by the designs seen and those of the sample, where the sample foresees its own and theirs; else None.

    Of one run: others have seen other designs.
    """
    lift = fitted.lift
    if lift is None or not lift.budget or lift.sample is None or len(fitted.X) > 1:
        return None
    n, d = fitted.X.shape[-2:]
    sample = lift.sample[lift.sample.isfinite().all(-1)]
    found = _foreseeing(sample.double().contiguous().cpu().numpy().tobytes(), d, d + lift.size)
    seen = fitted.features[:, max(n - MOST, 0) : n].double().cpu()
    if found is None or not _is_foreseen(seen[..., d:] - found(seen[..., :d]), found.spread):
        return None
    known = torch.cat([seen, sample.to(seen).unsqueeze(0)], 1).to(fitted.X.device)
    kernels = Kernels(*(part.to(known.device) for part in found.kernels or ()))
    return Believed(known[..., :d], known[..., d:], kernels)


def _is_foreseen(missed: Tensor, spread: Tensor) -> bool:
    """Whether outcomes (1, n, k) are missed by little of their variance."""
    return bool((missed.square().mean(-2, keepdim=True) <= (1.0 - FORESEEN) * spread.square() + NOTHING).all())


def guess(fitted: Posterior, allowed: Allowed | None) -> Posterior:
    """The same posterior through foreseen outcomes, which cost nothing; itself where there are none.

    Limits that a program tells have all outcomes computed anyway.
    """
    known = None if budget(None, allowed) else foreseen(fitted)
    return fitted if known is None else fitted._replace(lift=known)


@lru_cache(maxsize=8)
def _foreseeing(sample: bytes, d: int, size: int) -> Believed | None:
    """The process of a sample, the same at every question; None where it foresees less of an outcome, or one is rough.

    What all others foresee of a design misses it by (R y)_i / R_ii, R the inverse of their covariance. An outcome with
    noise, or of the shortest length scale, may have kinks: a smooth process leads past what lies in one.
    """
    known = torch.frombuffer(bytearray(sample), dtype=torch.float64).reshape(1, -1, size)
    if known.shape[1] < LEAST_SAMPLE:
        return None
    X, y = known[..., :d], known[..., d:] - known[..., d:].mean(-2, keepdim=True)
    found = Believed(X, known[..., d:], kernels := best_kernels(X, y))
    rough = (kernels.noise > NOISES[0]) | (kernels.scale <= SCALES[0])
    if bool((rough.unsqueeze(-2) & (found.spread > NOTHING)).any()):
        return None
    for k, scale in enumerate(kernels.scale[0].tolist()):
        L, alpha = _solved(_covariance(X, scale), NOISES[0], y[..., k : k + 1])
        missed = alpha / torch.cholesky_inverse(L).diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        if not _is_foreseen(missed, found.spread[..., k : k + 1]):
            return None
    return found


def corrected(J: AnyFloat, s: AnyFloat, y: AnyFloat) -> AnyFloat:
    """Slopes (…, d, k) that agree with the last step s (…, d) and the change y (…, k), else as they were.

    A step of no length teaches nothing, nor does one to or from where an outcome is no number.
    """
    length = s.square().sum(-1, keepdim=True)
    missed = y - (s.unsqueeze(-2) @ J).squeeze(-2)
    missed = torch.where((length > NOTHING) & missed.isfinite(), missed / length.clamp(min=NOTHING), 0.0)
    return J + s.unsqueeze(-1) * missed.unsqueeze(-2)


def best_kernels(X: Tensor, y: Tensor) -> Kernels:
    """Length scale and noise (runs, k) of a Gaussian process for each outcome y (runs, n, k), by the evidence."""
    n, best = y.shape[-2], y.new_full((len(y), y.shape[-1]), -torch.inf)
    found = Kernels(torch.full_like(best, SCALES[0]), torch.full_like(best, NOISES[0]))
    for scale in SCALES:
        K = _covariance(X, scale)
        for noise in NOISES:
            L, alpha = _solved(K, noise, y)
            # The evidence under the output scale that is best for it.
            s = (y * alpha).mean(-2).clamp(min=NOTHING)
            evidence = -0.5 * n * s.log() - L.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
            better = evidence > best
            best = torch.where(better, evidence, best)
            found = Kernels(found.scale.masked_fill(better, scale), found.noise.masked_fill(better, noise))
    return found


def _weights(X: Tensor, y: Tensor, kernels: Kernels) -> Tensor:
    """The weights (runs, n, k) of what is known; none where they cannot be had."""
    found = torch.zeros_like(y)
    for scale in set(kernels.scale.flatten().tolist()):
        K, alike = _covariance(X, scale), kernels.scale == scale
        for noise in set(kernels.noise[alike].tolist()):
            mine = (alike & (kernels.noise == noise)).unsqueeze(-2)
            found = torch.where(mine, _solved(K, noise, y)[1].nan_to_num(nan=0.0), found)
    return found


def _covariance(X: Tensor, scale: float) -> Tensor:
    Z = _scaled(X, scale)
    return kernel.profile(FAMILY, kernel.half_distances(Z, Z)).value


def _solved(K: Tensor, noise: float, y: Tensor) -> tuple[Tensor, Tensor]:
    """The root of a covariance with noise, and its inverse times y; NaN where there is none."""
    L, failed = torch.linalg.cholesky_ex(K + noise * torch.eye(K.shape[-1], dtype=K.dtype, device=K.device))
    L = L.masked_fill((failed != 0)[:, None, None], torch.nan)
    return L, torch.cholesky_solve(y, L)


def _scaled(X: Tensor, scale: float) -> Tensor:
    """Points about the middle of the cube, in units of a length scale that is given in units of √d."""
    return (X - 0.5) / _length(scale, X)


def _length(scale: float, X: Tensor) -> float:
    return scale * X.shape[-1] ** 0.5
