"""Where EUBO is largest: batched multi-start ascent over pairs in the unit cube.

Two presets. `paper`: 4 starts drawn from 32 uniform pairs, as the paper and BoTorch's tutorials have it. `default`:
starts are the best pairs out of a pool of single points (uniform ones, designs seen, points around the best of them,
the last question's pair); a few rounds sort them, and only the best go on to convergence.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import composite, discrete, eubo, secants
from kappasharp.acquisition.composite import Allowed, Through
from kappasharp.acquisition.discrete import Lattice
from kappasharp.acquisition.eubo import NegativeEubo, Predicted, Prepared
from kappasharp.acquisition.secants import Believed, BySecants
from kappasharp.inference import features, posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.native import launch
from kappasharp.numerics import normal, quasi_newton
from kappasharp.randomness import uniform
from kappasharp.settings import Maximizer, Variant

# Points around the best designs seen: around how many of them, and at which distances.
INCUMBENTS = 6
DISTANCES = (0.02, 0.2)
# How many promising pool points are paired with one another, and with how many unknown ones.
SHORTLIST, UNKNOWN = 48, 8
# A start has converged when its model promises less than this, in units of the prior deviation.
GAIN_LEFT = 2e-5
# How often, and how far away, a better pair is tried for where there are limits.
TRIES, TRIED_AT = 64, (0.1, 0.04, 0.015, 0.005)
# Below every promise, in prior deviations.
WORST = -1e6
# How many other rounds one through straight outcomes stands for, which is an ascent by itself.
IN_ONE = 4
# There a start costs 2 (1 + d) designs a round. Of the usual starts there are this number by 1 + d, in these bounds.
AS_MANY, SHARES = 10.5, (0.67, 2.0)
# Of a budget of simulations so much goes to the points that a search starts from. Two starts at least: one where two
# promising points lie side by side, one with an unknown point. More of them where each has this many rounds.
TO_START, LEAST_STARTS, ROUNDS = 0.4, 2, 20


class Proposal(NamedTuple):
    """The pair found in every run, its EUBO, and whether the ascent converged."""

    pair: Tensor
    value: Tensor
    converged: Tensor
    rounds: Tensor


class Request(NamedTuple):
    """What a search needs beside the posterior: one generator per run, the form of EUBO, what is fixed or known."""

    generators: list[torch.Generator]
    variant: Variant = "expected_max"
    anchor: Tensor | None = None
    hints: Tensor | None = None
    lattice: Lattice | None = None
    # The posterior deviation is multiplied by `exploration`; and where the search is confined to, (runs, d) each.
    exploration: float = 1.0
    box: tuple[Tensor, Tensor] | None = None
    # How far designs (…, d) break the limits (…), 0 where they keep them.
    allowed: Allowed | None = None

    def budget(self, fitted: Posterior) -> int:
        """How many designs this search may have computed; 0 for as many as it likes."""
        return composite.budget(fitted.lift, self.allowed)


def propose(fitted: Posterior, maximizer: Maximizer, request: Request) -> Proposal:
    """The pair with the largest EUBO found, for one flat batch of runs."""
    maximizer = within(maximizer, request.budget(fitted))
    whole = eubo.prepare(fitted)
    # In units of each run's prior deviation, so that one tolerance means the same in every run.
    unit = whole.outputscale.sqrt()
    prepared = whole._replace(outputscale=torch.ones_like(unit), weights=whole.weights.div_(unit.unsqueeze(-1)))
    if request.exploration != 1.0:
        prepared = eubo.explored(prepared, request.exploration)
    choose = _from_pool if maximizer.from_pool else _from_pairs
    search = Search(fitted, prepared, request)
    sorts = maximizer.finalists < maximizer.starts
    maximizer = straightened(maximizer, fitted.X.shape[-1]) if sorts and search.is_straight else maximizer
    search, x = choose(search, maximizer)
    last = _ascended(search, x, maximizer)
    ends = last.x.reshape(len(x), -1, x.shape[-1])
    value, best = last.value.nan_to_num(nan=torch.inf).reshape(ends.shape[:2]).min(-1)
    at = torch.arange(len(x), device=x.device)
    winner, value = _polished(search, ends[at, best], value)
    if request.anchor is not None:
        winner = torch.cat([winner, request.anchor], -1)
    return Proposal(
        winner.unflatten(-1, (2, -1)),
        -value * unit.squeeze(-1),
        last.converged.reshape(ends.shape[:2])[at, best],
        last.rounds.reshape(len(x), -1).amax(-1),
    )


def within(maximizer: Maximizer, budget: int) -> Maximizer:
    """The search that a budget of designs pays for; the usual one where there is none."""
    if not budget:
        return maximizer
    for_pool = max(int(TO_START * budget), INCUMBENTS + 2)
    raw = min(maximizer.raw, max(for_pool // 2, 4))
    copies = min(maximizer.copies, max((for_pool - raw) // INCUMBENTS, 1))
    rounds = max((budget - for_pool) // 2, LEAST_STARTS)
    starts = min(maximizer.starts, max(rounds // ROUNDS, LEAST_STARTS))
    max_rounds = min(maximizer.max_rounds, rounds // starts)
    return replace(maximizer, raw=raw, copies=copies, starts=starts, finalists=starts, max_rounds=max_rounds)


def straightened(maximizer: Maximizer, dimensions: int) -> Maximizer:
    """The same through outcomes that are nearly straight: starts that cost as much in any dimension, few go on."""
    if maximizer.finalists >= maximizer.starts:
        return maximizer
    low, high = SHARES
    share = min(max(AS_MANY / (1 + dimensions), low), high)
    starts = min(round(share * maximizer.starts), maximizer.raw)
    return replace(maximizer, starts=starts, finalists=max(maximizer.finalists // 2, 1))


class Search(NamedTuple):
    """One search: the posterior, the same in units of its prior deviation, what is asked, and what it knows before."""

    fitted: Posterior
    prepared: Prepared
    request: Request
    known: Believed | None = None

    def objective(self, starts: int) -> NegativeEubo | Through:
        """−EUBO of rows of designs; through their outcomes, and with their limits, where there are any."""
        request, lift, d = self.request, self.fitted.lift, self.fitted.X.shape[-1]
        anchor = None if request.anchor is None else features.lifted(lift, request.anchor)
        inner = NegativeEubo(self.prepared, starts, request.variant, anchor)
        if lift is None and request.allowed is None:
            return inner
        free = discrete.free(request.lattice, d)
        if request.budget(self.fitted):
            return BySecants(inner, lift, request.allowed, d, free, known=self.known)
        return Through(inner, lift, request.allowed, d, free)

    @property
    def guessed(self) -> "Search":
        """The same with outcomes that are believed, and without limits that a program tells: it computes no design."""
        allowed = None if composite.budget(None, self.request.allowed) else self.request.allowed
        return Search(self.fitted._replace(lift=self.known), self.prepared, self.request._replace(allowed=allowed))

    @property
    def is_straight(self) -> bool:
        """Whether outcomes alone bend the objective, and cost next to nothing."""
        objective = self.objective(1)
        return isinstance(objective, Through) and composite.applies(objective)

    def value(self, points: Tensor) -> Tensor:
        """−EUBO of rows (runs, starts, p)."""
        objective, flat = self.objective(points.shape[1]), points.reshape(-1, points.shape[-1])
        value = objective.value(flat) if isinstance(objective, Through) else objective(flat)[0]
        return value.reshape(points.shape[:2])


def _ascended(search: Search, x: Tensor, maximizer: Maximizer) -> quasi_newton.Descent:
    """Every start (runs, starts, p) goes some way up, then the finalists to the end; the rounds are those of both."""
    finalists, sorting, rounds = maximizer.finalists, maximizer.sorting_rounds, maximizer.max_rounds
    if finalists >= x.shape[1]:
        return _gone_up(search, x, rounds)
    objective = search.objective(x.shape[1])
    if search.request.lattice is None and isinstance(objective, Through) and composite.applies(objective):
        tolerances = _tolerances(x, -(-rounds // IN_ONE))
        return composite.ascend(objective, x, _cube(x, search.request), tolerances, (-(-sorting // IN_ONE), finalists))
    first = _gone_up(search, x, sorting)
    best = first.value.reshape(x.shape[:2]).topk(finalists, -1, largest=False).indices
    x = first.x.reshape(x.shape).gather(1, best.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    last = _gone_up(search, x, rounds)
    before = first.rounds.reshape(len(x), -1).amax(-1, keepdim=True)
    return last._replace(rounds=(before + last.rounds.reshape(x.shape[:2])).reshape(-1))


def _gone_up(search: Search, x: Tensor, rounds: int) -> quasi_newton.Descent:
    """So many rounds up from every start (runs, starts, p), on a lattice where there is one, and within the limits."""
    return _inside(search, x, (_ascend if search.request.lattice is None else _climb)(search, x, rounds))


def _inside(search: Search, x: Tensor, found: quasi_newton.Descent) -> quasi_newton.Descent:
    """What was found from starts (runs, starts, p), each end that breaks a limit moved back towards its start."""
    if search.request.allowed is None:
        return found
    d, on = search.fitted.X.shape[-1], search.request.lattice
    start, end = (part.reshape(*x.shape[:2], -1, d) for part in (x, found.x))
    if on is not None:
        start = discrete.nearest(on, start)
    kept = composite.pulled(search.request.allowed, end, start)
    if on is not None:
        kept = discrete.nearest(on, kept)
        kept = torch.where(composite.broken(search.request.allowed, kept).unsqueeze(-1), start, kept)
    kept = kept.flatten(-2)
    return found._replace(x=kept.reshape(found.x.shape), value=search.value(kept).reshape(-1))


def _polished(search: Search, x: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The best rows (runs, p) and −EUBO after tries ever nearer to them, where there are limits.

    A limit bends the objective: an ascent that comes to it slides along it by luck alone.
    """
    if search.request.allowed is None:
        return x, value
    d = search.fitted.X.shape[-1]
    copies = composite.affordable(search.request.budget(search.fitted), TRIES, 2 * x.shape[-1] // d * len(TRIED_AT))
    for distance in TRIED_AT:
        steps = distance * normal.quantile(draw(search.request, (copies, x.shape[-1]), x))
        low, high = _cube(steps, search.request)
        tried = torch.clamp(x.unsqueeze(1) + steps, low, high).unflatten(-1, (-1, d))
        tried = kept_inside(search.request, tried, x.unflatten(-1, (-1, d)).unsqueeze(1))
        outside = composite.broken(search.request.allowed, tried).any(-1)
        found, which = search.value(tried.flatten(-2)).masked_fill(outside, torch.inf).min(-1)
        better = found < value
        chosen = tried.flatten(-2)[torch.arange(len(x), device=x.device), which]
        x, value = torch.where(better.unsqueeze(-1), chosen, x), torch.where(better, found, value)
    return x, value


def _climb(search: Search, x: Tensor, max_rounds: int) -> quasi_newton.Descent:
    """The same on a lattice: exchange there, then ascend where coordinates are free."""
    request, d = search.request, search.fitted.X.shape[-1]
    assert request.lattice is not None
    whole = discrete.over(request.lattice, x.shape[-1] // d, d)
    if request.budget(search.fitted):
        x, max_rounds = secants.exchange(whole, x, search.value, search.guessed.value, max_rounds)
    else:
        x = discrete.exchange(whole, x, search.value)
    return _ascend(search, x, max_rounds, discrete.held(whole, x, _cube(x, request)))


def _ascend(
    search: Search, x: Tensor, max_rounds: int, box: tuple[Tensor, Tensor] | None = None
) -> quasi_newton.Descent:
    """Quasi-Newton ascent of every start (runs, starts, p) in a box, by default the unit cube.

    One kernel does it where there is one for these runs; which way was taken is counted in kernels.launch.taken.
    """
    request, (_, starts, p) = search.request, x.shape
    tolerances = _tolerances(x, max_rounds)
    objective = search.objective(starts)
    ends = _cube(x, request) if box is None else box
    if isinstance(objective, BySecants) and composite.applies(objective):
        return secants.ascend(objective, x, ends, tolerances)
    if isinstance(objective, Through) and composite.applies(objective):
        return composite.ascend(objective, x, ends, tolerances._replace(max_rounds=-(-max_rounds // IN_ONE)))
    if isinstance(objective, Through):
        launch.passed_by("eubo", composite.NO_LAUNCH)
    elif found := eubo.fused_ascent(objective, x, None if box is request.box is None else ends, tolerances):
        return found
    low, high = (end.reshape(-1, p) for end in ends)
    found = quasi_newton.minimize(objective, x.reshape(-1, p), low, high, tolerances)
    if isinstance(objective, Through):
        # Slopes are differences there, or learnt: where no step goes up any more is as near as they lead.
        found = found._replace(converged=found.converged | (found.rounds < max_rounds))
    return found


def _tolerances(x: Tensor, max_rounds: int) -> quasi_newton.Tolerances:
    """Where the ascent of starts (runs, starts, p) ends."""
    return quasi_newton.Tolerances(
        gradient=1e-2 * GAIN_LEFT, decrease=GAIN_LEFT, max_rounds=max_rounds, longest_step=0.25, group=x.shape[1]
    )


def _cube(x: Tensor, request: Request) -> tuple[Tensor, Tensor]:
    """Where the starts (runs, starts, p) may go: the unit cube, or the request's box for every design of a row."""
    if request.box is None:
        return torch.zeros_like(x), torch.ones_like(x)
    low, high = (end.repeat(1, x.shape[-1] // end.shape[-1]).unsqueeze(1) for end in request.box)
    return low.expand_as(x), high.expand_as(x)


def draw(request: Request, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Uniform numbers, every run's from its own generator; one transfer for all."""
    on_host = torch.empty(0, dtype=torch.float64)
    return torch.stack([uniform(shape, generator, on_host) for generator in request.generators]).to(like)


def _placed(request: Request, points: Tensor) -> Tensor:
    """Points (runs, k, p) of the unit cube, moved into the request's box; p holds one design or two."""
    if request.box is None:
        return points
    low, high = (end.repeat(1, points.shape[-1] // end.shape[-1]).unsqueeze(1) for end in request.box)
    return low + (high - low) * points


def _from_pairs(search: Search, maximizer: Maximizer) -> tuple[Search, Tensor]:
    """Starts out of uniform pairs: the best one, and others with odds that grow with their EUBO (Boltzmann)."""
    fitted, request = search.fitted, search.request
    d = fitted.X.shape[-1]
    width = d if request.anchor is not None else 2 * d
    raw = _placed(request, draw(request, (maximizer.raw, width), fitted.X))
    if request.allowed is not None:
        best = _in_box(request, _best_seen(fitted, 1)).repeat(1, 1, width // d)
        raw = composite.pulled(request.allowed, raw.unflatten(-1, (-1, d)), best.unflatten(-1, (-1, d))).flatten(-2)
    value = -search.value(raw)
    standard = (value - value.mean(-1, keepdim=True)) / value.std(-1, keepdim=True).clamp(min=1e-12)
    # Gumbel's trick: the largest of log-odds plus Gumbel noise is a draw without replacement.
    noise = -(-draw(request, (maximizer.raw,), fitted.X).clamp(min=1e-12).log()).log()
    order = standard + noise
    order.scatter_(-1, value.argmax(-1, keepdim=True), torch.inf)
    chosen = order.topk(maximizer.starts, -1).indices
    starts = raw.gather(1, chosen.unsqueeze(-1).expand(-1, -1, width))
    return search._replace(known=secants.believed(fitted)), starts


def _from_pool(search: Search, maximizer: Maximizer) -> tuple[Search, Tensor]:
    """Starts out of all pairs of a shortlist of promising single points."""
    fitted, prepared, request, _ = search
    designs = pool(fitted, maximizer, request)
    points = features.lifted(fitted.lift, designs)
    search = search._replace(known=secants.believed(fitted, points))
    mean, known = eubo.predicted(prepared, points)
    deviation = (prepared.outputscale - known.square().sum(-1)).clamp(min=0.0).sqrt().nan_to_num(nan=WORST)
    # Both kinds of best pair: two promising points side by side, or a promising one and a far, unknown one.
    # What breaks a limit although it was pulled inside, as on a lattice, comes last; so does what is no number.
    last = WORST * composite.broken(request.allowed, designs).to(mean)
    near = (mean + deviation + last).nan_to_num(nan=WORST).topk(min(SHORTLIST, points.shape[1]), -1).indices
    far = (deviation + last).topk(min(UNKNOWN, points.shape[1]), -1).indices
    short = torch.cat([near, far], -1)
    designs, points, known = (
        part.gather(1, short.unsqueeze(-1).expand(-1, -1, part.shape[-1])) for part in (designs, points, known)
    )
    here = Predicted(points, (mean + last).gather(1, short), known)
    if request.anchor is not None:
        anchors = features.lifted(fitted.lift, request.anchor.unsqueeze(1))
        there = Predicted(anchors, *eubo.predicted(prepared, anchors))
        score = eubo.of_pairs(prepared, here, there, request.variant)
        best = score.squeeze(-1).topk(min(maximizer.starts, score.shape[1]), -1).indices
        return search, designs.gather(1, best.unsqueeze(-1).expand(-1, -1, designs.shape[-1]))
    score = eubo.of_pairs(prepared, here, here, request.variant)
    first, second = eubo.spread_out(score, near.shape[-1], maximizer.starts)
    at = torch.arange(len(points), device=points.device).unsqueeze(-1)
    return search, torch.cat([designs[at, first], designs[at, second]], -1)


def pool(fitted: Posterior, maximizer: Maximizer, request: Request) -> Tensor:
    """Uniform points, the best designs seen by posterior mean, points around them, and the hints."""
    runs, n, d = fitted.X.shape
    count, copies = min(INCUMBENTS, n), maximizer.copies
    numbers = draw(request, (maximizer.raw + INCUMBENTS * copies, d), fitted.X)
    incumbents = _in_box(request, _best_seen(fitted, count))
    low, high = DISTANCES
    sizes = torch.logspace(0, 1, copies, base=high / low, dtype=torch.float64).to(fitted.X) * low
    offsets = normal.quantile(numbers[:, maximizer.raw : maximizer.raw + count * copies])
    around = incumbents.unsqueeze(2) + offsets.reshape(runs, count, copies, d) * sizes.unsqueeze(-1)
    parts = [_placed(request, numbers[:, : maximizer.raw]), incumbents, around.reshape(runs, -1, d).clamp(0.0, 1.0)]
    if request.hints is not None:
        parts.append(request.hints)
    return kept_inside(request, _in_box(request, torch.cat(parts, 1)), incumbents[:, :1])


def _in_box(request: Request, points: Tensor) -> Tensor:
    """Points (runs, k, d), each moved to the nearest in the request's box."""
    return points if request.box is None else torch.clamp(points, *(end.unsqueeze(1) for end in request.box))


def kept_inside(request: Request, points: Tensor, inside: Tensor) -> Tensor:
    """Points (…, d) that keep the limits, if there are any: on the lattice, and pulled towards a design seen."""
    if request.allowed is None:
        return points
    points = points if request.lattice is None else discrete.nearest(request.lattice, points)
    points = composite.pulled(request.allowed, points, inside)
    return points if request.lattice is None else discrete.nearest(request.lattice, points)


def _best_seen(fitted: Posterior, count: int) -> Tensor:
    """The designs seen (runs, count, d) with the highest means."""
    best = posterior.own_mean(fitted).topk(count, -1).indices
    return fitted.X.gather(1, best.unsqueeze(-1).expand(-1, -1, fitted.X.shape[-1]))
