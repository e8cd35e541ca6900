"""Which line to ask about: the one whose best place promises most.

Notation
    corners (…, runs, q, d)  a line from the first of q designs to the last, through the others; straight between two
    mean, covariance         of the utilities at some places of it

E max over the places is Clark's approximation (batch_eubo.py), one place after another from one end to the other. The
search begins with lines through the pairs that EUBO finds and through the best designs seen, lengthened to where they
leave the cube, and, where a line may bend, with those through the designs of a gallery, in every order. It moves their
corners by ever smaller steps.
"""

from itertools import permutations

import torch
from torch import Tensor

from kappasharp.acquisition import batch_eubo, composite, discrete, eubo, maximize
from kappasharp.acquisition.discrete import Lattice
from kappasharp.acquisition.maximize import Proposal, Request
from kappasharp.inference import posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.numerics import normal
from kappasharp.settings import Maximizer

# Designs of a line that does not bend.
STRAIGHT = 2
# Places of a line whose best is expected: at least, and of every further part.
PLACES, PLACES_OF_PART = 8, 4
# How many lines go on, copies around each, and at which distances.
STARTS, COPIES, DISTANCES = 4, 16, (0.3, 0.15, 0.08, 0.04, 0.02)
# How many times their distance a line through two points is lengthened by on both sides; it is cut at the cube.
LENGTHENED = 1.0
# At how many places of a line limits are looked at: at least, and of every further part; how often one that breaks them
# is halved.
CHECKED, CHECKED_OF_PART, HALVINGS = 21, 12, 8


def at(corners: Tensor, places: Tensor, on: Lattice | None = None) -> Tensor:
    """The designs (…, k, d) at these places (…, k) of lines (…, q, d); on a lattice a line goes in steps.

    Every part of a line, from one corner to the next, takes as much of it as any other: between four designs, a third.
    """
    last = corners.shape[-2] - 1
    along = (places * last).unsqueeze(-1)
    part = along.floor().clamp(max=last - 1)
    number, share = torch.arange(last + 1, dtype=along.dtype, device=along.device), along - part
    weight = (number == part) * (1.0 - share) + (number == part + 1) * share
    points = (weight.unsqueeze(-1) * corners.unsqueeze(-3)).sum(-2)
    return points if on is None else discrete.nearest(on, points)


def can_move(dimensions: int, on: Lattice | None) -> bool:
    """Whether a coordinate is free."""
    return on is None or len({j for group in on.groups for j in group.at}) < dimensions


def expected_best(fitted: Posterior, corners: Tensor, on: Lattice | None = None) -> Tensor:
    """E max f over the places of every line (…, runs, q, d), by Clark's approximation."""
    mean, covariance = posterior.joint(fitted, _along(corners, _looked_at(corners), on))
    floor = batch_eubo.LEAST * eubo.VARIANCE_FLOOR[corners.dtype] * posterior.variance(fitted)
    best, variance, along = mean[..., 0], covariance[..., 0, 0], covariance[..., 0, :]
    for k in range(1, mean.shape[-1]):
        own = covariance[..., k, k]
        spread = (variance + own - 2.0 * along[..., k]).clamp(min=floor).sqrt()
        best, variance, old, new = batch_eubo.clark((best, variance), (mean[..., k], own), spread)
        along = old.unsqueeze(-1) * along + new.unsqueeze(-1) * covariance[..., k, :]
    return best


def _looked_at(corners: Tensor) -> int:
    """At how many places of such a line its best is expected."""
    return max(PLACES, PLACES_OF_PART * (corners.shape[-2] - 1) + 1)


def _along(corners: Tensor, count: int, on: Lattice | None) -> Tensor:
    """So many designs (…, count, d) from one end of lines to the other."""
    places = torch.linspace(0.0, 1.0, count, dtype=corners.dtype, device=corners.device)
    return at(corners, places.expand(*corners.shape[:-2], count), on)


def through_any(points: Tensor) -> Tensor:
    """Lines (…, q, d) through designs that nobody has chosen: through two of them it goes on beyond."""
    return lengthened(points) if points.shape[-2] == STRAIGHT else points


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


def propose(fitted: Posterior, found: Proposal, designs: int, maximizer: Maximizer, request: Request) -> Proposal:
    """The corners (runs, designs, d) of the line with the largest expected best, given the pair that EUBO found."""
    runs, _, d = found.pair.shape
    lines = _first_lines(fitted, found, designs, maximizer, request)
    looked_at = _looked_at(lines) + (0 if request.allowed is None else _checked(lines))
    lines = lines[: composite.affordable(request.budget(fitted), len(lines), 2 * looked_at)]
    value = _promise(fitted, lines, request)
    count = composite.affordable(request.budget(fitted), COPIES, 2 * looked_at * STARTS * len(DISTANCES))
    for distance in DISTANCES:
        keep = value.topk(min(STARTS, len(value)), 0).indices
        lines, value = _picked(lines, keep), value.gather(0, keep)
        numbers = maximize.draw(request, (STARTS * count * designs, d), fitted.X)
        steps = normal.quantile(numbers).reshape(runs, STARTS, count, designs, d).permute(1, 2, 0, 3, 4)
        copies = _allowed((lines.unsqueeze(1) + distance * steps[: len(lines)]).flatten(0, 1), request)
        lines, value = torch.cat([lines, copies]), torch.cat([value, _promise(fitted, copies, request)])
    best, which = value.max(0)
    line = _picked(lines, which.unsqueeze(0))[0]
    return found._replace(pair=_shortened(line, request), value=best)


def _first_lines(fitted: Posterior, found: Proposal, designs: int, maximizer: Maximizer, request: Request) -> Tensor:
    """Where the search begins (k, runs, designs, d)."""
    lines = _straight_lines(fitted, found, maximizer, request)
    if designs > STRAIGHT:
        gallery = batch_eubo.extend(fitted, found, designs, maximizer, request).pair
        lines = torch.cat([_in_every_order(gallery), _along(lines, designs, None)])
    return _allowed(lines, request)


def _in_every_order(gallery: Tensor) -> Tensor:
    """Lines (orders, runs, q, d) through designs (runs, q, d); there and back is one line."""
    orders = [order for order in permutations(range(gallery.shape[1])) if order[0] < order[-1]]
    return gallery[:, torch.tensor(orders, device=gallery.device)].movedim(1, 0)


def _promise(fitted: Posterior, lines: Tensor, request: Request) -> Tensor:
    """The expected best of every line; next to nothing where a place of it breaks a limit."""
    value = expected_best(fitted, lines, request.lattice)
    return value if request.allowed is None else value.masked_fill(_breaks(lines, request), maximize.WORST)


def _breaks(lines: Tensor, request: Request) -> Tensor:
    """Which lines (…, q, d) have a place that breaks a limit."""
    return composite.broken(request.allowed, _along(lines, _checked(lines), request.lattice)).any(-1)


def _checked(lines: Tensor) -> int:
    """At how many places of such lines limits are looked at."""
    return max(CHECKED, CHECKED_OF_PART * (lines.shape[-2] - 1) + 1)


def _shortened(line: Tensor, request: Request) -> Tensor:
    """Lines (runs, q, d), their corners brought nearer to the first until no place between them breaks a limit."""
    for _ in range(HALVINGS):
        if request.allowed is None or not bool((outside := _breaks(line, request)).any()):
            break
        nearer = (line[..., :1, :] + line) / 2.0
        line = _allowed(torch.where(outside[..., None, None], nearer, line), request)
    return line


def _picked(lines: Tensor, rows: Tensor) -> Tensor:
    return lines.gather(0, rows[..., None, None].expand(-1, -1, *lines.shape[-2:]))


def _straight_lines(fitted: Posterior, found: Proposal, maximizer: Maximizer, request: Request) -> Tensor:
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
    return torch.cat([ends, lengthened(ends, box=request.box)])


def _allowed(lines: Tensor, request: Request) -> Tensor:
    """The lines in the cube, or the box; their corners on the lattice."""
    low, high = (
        (lines.new_zeros(1), lines.new_ones(1)) if request.box is None else (e.unsqueeze(-2) for e in request.box)
    )
    lines = torch.maximum(torch.minimum(lines, high), low)
    return lines if request.lattice is None else discrete.nearest(request.lattice, lines)
