"""Which line to ask about: the one whose best place promises most.

Notation
    ends   (…, runs, 2, d)  a line from one end to the other
    mean, covariance        of the utilities at PLACES places of it

E max over the places is Clark's approximation, as in several.py, one place after another from one end to the other. The
search begins with lines through the pairs that EUBO finds and through the best designs seen, lengthened to where they
leave the cube, and moves their ends by ever smaller steps.
"""

import torch
from torch import Tensor

from kappasharp.acquisition import eubo, lattice, maximize, several, through
from kappasharp.acquisition.lattice import Lattice
from kappasharp.acquisition.maximize import Maximizer, Proposal, Request
from kappasharp.core import normal, posterior
from kappasharp.core.posterior import Posterior

# Places of a line whose best is expected; how many lines go on, copies around each, and at which distances.
PLACES, STARTS, COPIES, DISTANCES = 8, 4, 16, (0.3, 0.15, 0.08, 0.04, 0.02)
# How many times their distance a line through two points is lengthened by on both sides; it is cut at the cube.
LENGTHENED = 1.0
# At how many places of a line limits are looked at; how often one that breaks them is halved.
CHECKED, HALVINGS = 21, 8


def at(ends: Tensor, places: Tensor, on: Lattice | None = None) -> Tensor:
    """The designs (…, k, d) at these places (…, k) of lines (…, 2, d); on a lattice a line goes in steps."""
    share = places.unsqueeze(-1)
    points = ends[..., :1, :] * (1.0 - share) + ends[..., 1:, :] * share
    return points if on is None else lattice.nearest(on, points)


def can_move(dimensions: int, on: Lattice | None) -> bool:
    """Whether a coordinate is free."""
    return on is None or len({j for group in on.groups for j in group.at}) < dimensions


def expected_best(fitted: Posterior, ends: Tensor, on: Lattice | None = None) -> Tensor:
    """E max f over the places of every line (…, runs, 2, d), by Clark's approximation."""
    places = torch.linspace(0.0, 1.0, PLACES, dtype=ends.dtype, device=ends.device)
    mean, covariance = posterior.joint(fitted, at(ends, places.expand(*ends.shape[:-2], PLACES), on))
    floor = several.LEAST * eubo.VARIANCE_FLOOR[ends.dtype] * posterior.variance(fitted)
    best, variance, along = mean[..., 0], covariance[..., 0, 0], covariance[..., 0, :]
    for k in range(1, PLACES):
        own = covariance[..., k, k]
        spread = (variance + own - 2.0 * along[..., k]).clamp(min=floor).sqrt()
        best, variance, old, new = several.clark((best, variance), (mean[..., k], own), spread)
        along = old.unsqueeze(-1) * along + new.unsqueeze(-1) * covariance[..., k, :]
    return best


def lengthened(ends: Tensor, times: float = LENGTHENED, box: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Lines (…, 2, d) made longer on both sides, as far as the cube, or the box (…, d), lets them."""
    first, second = ends[..., 0, :], ends[..., 1, :]
    low, high = (torch.zeros_like(first), torch.ones_like(first)) if box is None else box
    step = second - first
    ends = torch.stack(
        [first - _far(first, -step, low, high, times) * step, second + _far(second, step, low, high, times) * step], -2
    )
    # Rounding may take an end past the face that it was cut at.
    return torch.clamp(ends, low.unsqueeze(-2), high.unsqueeze(-2))


def _far(start: Tensor, step: Tensor, low: Tensor, high: Tensor, most: float) -> Tensor:
    """How many steps (…, 1) one may go from a start in a box, `most` at most."""
    room = torch.where(step > 0, high - start, start - low) / step.abs().clamp(min=1e-300)
    return torch.where(step == 0, torch.inf, room).amin(-1, keepdim=True).clamp(0.0, most)


def propose(fitted: Posterior, found: Proposal, maximizer: Maximizer, request: Request) -> Proposal:
    """The ends (runs, 2, d) of the line with the largest expected best, given the pair that EUBO found."""
    runs, _, d = found.pair.shape
    ends = _first_lines(fitted, found, maximizer, request)
    ends = ends[: through.affordable(request.budget(fitted), len(ends), 2 * PLACES)]
    value = _promise(fitted, ends, request)
    count = through.affordable(request.budget(fitted), COPIES, 2 * PLACES * STARTS * len(DISTANCES))
    for distance in DISTANCES:
        keep = value.topk(min(STARTS, len(value)), 0).indices
        ends, value = _picked(ends, keep), value.gather(0, keep)
        numbers = maximize.draw(request, (STARTS * count * 2, d), fitted.X)
        steps = normal.quantile(numbers).reshape(runs, STARTS, count, 2, d).permute(1, 2, 0, 3, 4)
        copies = _allowed((ends.unsqueeze(1) + distance * steps[: len(ends)]).flatten(0, 1), request)
        ends, value = torch.cat([ends, copies]), torch.cat([value, _promise(fitted, copies, request)])
    best, which = value.max(0)
    line = _picked(ends, which.unsqueeze(0))[0]
    return found._replace(pair=_shortened(line, request), value=best)


def _promise(fitted: Posterior, ends: Tensor, request: Request) -> Tensor:
    """The expected best of every line; next to nothing where a place of it breaks a limit."""
    value = expected_best(fitted, ends, request.lattice)
    return value if request.allowed is None else value.masked_fill(_breaks(ends, request), maximize.WORST)


def _breaks(ends: Tensor, request: Request) -> Tensor:
    """Which lines (…, 2, d) have a place that breaks a limit."""
    places = torch.linspace(0.0, 1.0, CHECKED, dtype=ends.dtype, device=ends.device)
    points = at(ends, places.expand(*ends.shape[:-2], CHECKED), request.lattice)
    return through.broken(request.allowed, points).any(-1)


def _shortened(ends: Tensor, request: Request) -> Tensor:
    """Lines (runs, 2, d), the second end brought nearer to the first until no place between them breaks a limit."""
    for _ in range(HALVINGS):
        if request.allowed is None or not bool((outside := _breaks(ends, request)).any()):
            break
        nearer = torch.stack([ends[..., 0, :], ends.mean(-2)], -2)
        ends = _allowed(torch.where(outside[..., None, None], nearer, ends), request)
    return ends


def _picked(ends: Tensor, rows: Tensor) -> Tensor:
    return ends.gather(0, rows[..., None, None].expand(-1, -1, *ends.shape[-2:]))


def _first_lines(fitted: Posterior, found: Proposal, maximizer: Maximizer, request: Request) -> Tensor:
    """Lines (k, runs, 2, d): through EUBO's pair, and through each of the best designs seen and each of that pair."""
    d = fitted.X.shape[-1]
    mean = posterior.own_mean(fitted)
    best = mean.topk(min(3, mean.shape[-1]), -1).indices
    seen = fitted.X.gather(1, best.unsqueeze(-1).expand(-1, -1, d)).unbind(1)
    maximizer = maximize.within(maximizer, request.budget(fitted))
    pool = maximize.pool(fitted, maximizer, request)[:, : maximizer.raw].unbind(1)[:6]
    a, b = found.pair.unbind(1)
    lines = [(a, b), *((one, other) for one in seen for other in (a, b)), *((seen[0], far) for far in pool)]
    ends = torch.stack([torch.stack(line, 1) for line in lines])
    ends = torch.cat([ends, lengthened(ends, box=request.box)])
    return _allowed(ends, request)


def _allowed(ends: Tensor, request: Request) -> Tensor:
    """The lines in the cube, or the box; their ends on the lattice."""
    low, high = (ends.new_zeros(1), ends.new_ones(1)) if request.box is None else (e.unsqueeze(-2) for e in request.box)
    ends = torch.maximum(torch.minimum(ends, high), low)
    return ends if request.lattice is None else lattice.nearest(request.lattice, ends)
