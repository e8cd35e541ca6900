"""More than two designs in a question: E max over a set, one design after another, by Clark's approximation.

Notation
    points    (runs, k, d)  the designs chosen so far
    share     (runs, k)     how much of the best of them each design is: Clark's weights, which sum to 1
    mean      (runs,)       E max f over the designs chosen; exact for two
    variance  (runs,)       of the same maximum

The maximum of two Gaussians is taken as a Gaussian with its exact mean and variance and its exact covariance with every
other utility, Φ times one's plus 1 − Φ times the other's. So E max(best, f(x)) has EUBO's closed form at every step.
`Preset.exploration` and `.eubo` shape the first pair alone.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import composite, discrete, eubo, maximize
from kappasharp.acquisition.maximize import Proposal, Request
from kappasharp.inference import posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.numerics import normal
from kappasharp.settings import Maximizer

# The best points of the pool go on: copies around each are tried at these distances, and its best copy stands for it.
STARTS, COPIES, DISTANCES = 6, 24, (0.2, 0.1, 0.05, 0.02, 0.01)
# The smallest variance of a difference, in units of EUBO's own floor: four terms of the output scale's size leave more
# rounding than two.
LEAST = 1e4
# Designs whose prior correlation is above this are one.
ALIKE = 0.999


class BestOf(NamedTuple):
    """The best of some designs, as a Gaussian."""

    points: Tensor
    share: Tensor
    mean: Tensor
    variance: Tensor


class Larger(NamedTuple):
    """The larger of two Gaussians: its mean and variance, and how much of it the first and the second are."""

    mean: Tensor
    variance: Tensor
    first: Tensor
    second: Tensor


def clark(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], spread: Tensor) -> Larger:
    """Clark's moments of the larger of two (mean and variance each); `spread` is the deviation of their difference."""
    (mean, variance), (mean_2, variance_2) = one, other
    ratio = (mean - mean_2) / spread
    first, second, height = normal.cdf(ratio), normal.cdf(-ratio), spread * normal.density(ratio)
    middle = mean * first + mean_2 * second + height
    square = (mean.square() + variance) * first + (mean_2.square() + variance_2) * second
    square = square + (mean + mean_2) * height
    return Larger(middle, (square - middle.square()).clamp(min=0.0), first, second)


class _Against(NamedTuple):
    """f(x) beside the best so far: its mean and variance, and the deviation of the difference."""

    mean: Tensor
    variance: Tensor
    spread: Tensor


def of_one(fitted: Posterior, x: Tensor) -> BestOf:
    """One design (runs, 1, d)."""
    return BestOf(x, torch.ones_like(x[..., 0]), posterior.mean(fitted, x)[:, 0], _variance(fitted, x)[:, 0])


def gain(fitted: Posterior, best: BestOf, X: Tensor) -> Tensor:
    """E max(best, f(x)) − E best for every row of X (runs, k, d)."""
    found = _against(fitted, best, X)
    return eubo.closed_form(found.mean - best.mean.unsqueeze(-1), found.spread)


def _new_gain(fitted: Posterior, best: BestOf, X: Tensor, request: Request) -> Tensor:
    """The same, and nothing where a design is there already; less than nothing where it breaks a limit.

    Clark's approximation does not know that the best is at least each of its designs, and would show one twice.
    """
    alike = posterior.prior(fitted, X, best.points).amax(-1) > ALIKE * posterior.variance(fitted).unsqueeze(-1)
    return gain(fitted, best, X).masked_fill(alike, 0.0).masked_fill(composite.broken(request.allowed, X), -1.0)


def joined(fitted: Posterior, best: BestOf, x: Tensor) -> BestOf:
    """The best of those and of one more design (runs, 1, d)."""
    mean, variance, spread = (part[:, 0] for part in _against(fitted, best, x))
    found = clark((best.mean, best.variance), (mean, variance), spread)
    old, new = found.first.unsqueeze(-1), found.second.unsqueeze(-1)
    share = torch.cat([best.share * old, new], -1)
    return BestOf(torch.cat([best.points, x], 1), share, found.mean, found.variance)


def extend(fitted: Posterior, found: Proposal, designs: int, maximizer: Maximizer, request: Request) -> Proposal:
    """The pair found and further designs, each the one that adds most to the best of those before it."""
    best = joined(fitted, of_one(fitted, found.pair[:, :1]), found.pair[:, 1:])
    pool = _allowed(maximize.pool(fitted, maximize.within(maximizer, request.budget(fitted)), request), request)
    for _ in range(designs - 2):
        best = joined(fitted, best, _search(fitted, best, pool, request))
    return found._replace(pair=best.points, value=best.mean)


def _search(fitted: Posterior, best: BestOf, pool: Tensor, request: Request) -> Tensor:
    """The point (runs, 1, d) that adds most: the best of the pool, each moved to copies ever nearer to it."""
    runs, _, d = pool.shape
    starts = min(STARTS, pool.shape[1])
    count = composite.affordable(request.budget(fitted), COPIES, 2 * starts * len(DISTANCES))
    x = _picked(pool, _new_gain(fitted, best, pool, request).topk(starts, -1).indices)
    for distance in DISTANCES:
        numbers = maximize.draw(request, (starts * count, d), x).reshape(runs, starts, count, d)
        copies = (x.unsqueeze(2) + distance * normal.quantile(numbers)).clamp(0.0, 1.0)
        if request.box is not None:
            copies = torch.clamp(copies, *(end[:, None, None] for end in request.box))
        tried = torch.cat([x.unsqueeze(2), _allowed(copies, request)], 2)
        at = _new_gain(fitted, best, tried.flatten(1, 2), request).reshape(tried.shape[:3]).argmax(-1)
        x = tried.gather(2, at[:, :, None, None].expand(-1, -1, 1, d)).squeeze(2)
    return _picked(x, _new_gain(fitted, best, x, request).argmax(-1, keepdim=True))


def _allowed(points: Tensor, request: Request) -> Tensor:
    """The points on the lattice, where there is one."""
    return points if request.lattice is None else discrete.nearest(request.lattice, points)


def _picked(X: Tensor, rows: Tensor) -> Tensor:
    return X.gather(1, rows.unsqueeze(-1).expand(-1, -1, X.shape[-1]))


def _variance(fitted: Posterior, X: Tensor) -> Tensor:
    return posterior.marginal(fitted, X)[1]


def _against(fitted: Posterior, best: BestOf, X: Tensor) -> _Against:
    variance = _variance(fitted, X)
    together = (best.share.unsqueeze(-1) * posterior.between(fitted, best.points, X)).sum(-2)
    floor = LEAST * eubo.VARIANCE_FLOOR[X.dtype] * posterior.variance(fitted).unsqueeze(-1)
    apart = best.variance.unsqueeze(-1) + variance - 2.0 * together
    return _Against(posterior.mean(fitted, X), variance, apart.clamp(min=floor).sqrt())
