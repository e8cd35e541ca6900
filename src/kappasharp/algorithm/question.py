"""Line 14 of Algorithm 1: the question that a method and its preset ask of a posterior. [alg:adaptive_ks]"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import batch_eubo, eubo, incumbent, line, maximize
from kappasharp.acquisition.maximize import Proposal, Request
from kappasharp.errors import InvalidValueError
from kappasharp.inference import posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.questions.kind import PAIR, Kind
from kappasharp.settings import MAXIMIZERS, Acquisition, Method, Preset, Query
from kappasharp.tensors import where

NEW = -1


class Shown(NamedTuple):
    """The designs (runs, q, d) of every run's question, and which of them are known: an index, or −1 for a new one."""

    proposal: Proposal
    known: Tensor


def question(method: Method, preset: Preset, fitted: Posterior, chance: Request, anchor: Tensor | None = None) -> Shown:
    """The question with the largest EUBO.

    `chance` has the generators, and hints and a lattice if there are any; `anchor` the index of the design that
    connected querying holds on to in every run; without one both designs are new.
    """
    if method.query is Query.BRIDGING:
        return _bridged(method, preset, fitted, chance)
    held = anchor if method.query is Query.ANCHORED else _best_seen(method, fitted)
    found = _search(method, preset, fitted, chance, held)
    wanted = request(method, preset, fitted, chance)
    if method.kind is Kind.SLIDER:
        if not line.can_move(fitted.X.shape[-1], chance.lattice):
            raise InvalidValueError(
                "`Method.kind` must not be SLIDER where no parameter is continuous: there is no line to move along."
            )
        corners = line.propose(fitted, found.proposal, method.designs, MAXIMIZERS[preset.maximizer], wanted)
        return Shown(corners, torch.full(corners.pair.shape[:2], NEW, device=corners.pair.device))
    if method.designs > PAIR:
        more = batch_eubo.extend(fitted, found.proposal, method.designs, MAXIMIZERS[preset.maximizer], wanted)
        return Shown(more, torch.full(more.pair.shape[:2], NEW, device=more.pair.device))
    return found


def settle(
    fitted: Posterior, leader: Tensor, pairs: Tensor, eligible: Tensor | None = None, designs: int = PAIR
) -> Shown:
    """The design told and its likeliest betters among those seen, so many designs; no EUBO is maximised."""
    rivals = incumbent.challengers(fitted, leader, pairs, eligible, count=designs - 1)
    known = torch.cat([leader.unsqueeze(-1), rivals], -1)
    points = fitted.X.gather(1, known.unsqueeze(-1).expand(-1, -1, fitted.X.shape[-1]))
    value = eubo.value(fitted, points[:, :1], points[:, 1:PAIR]).squeeze(-1)
    nothing = torch.zeros(len(points), dtype=torch.long, device=points.device)
    return Shown(Proposal(points, value, nothing == 0, nothing), known)


def _best_seen(method: Method, fitted: Posterior) -> Tensor | None:
    """The index of the best design seen in every run, where the method asks against it."""
    against = method.acquisition is Acquisition.EXPECTED_IMPROVEMENT or method.query is Query.INCUMBENT
    return incumbent.find(fitted) if against else None


def _bridged(method: Method, preset: Preset, fitted: Posterior, chance: Request) -> Shown:
    """The best design seen again, where that promises more for what it costs; else two new designs.

    By designs alone it always does, since E max(f_a, f_b) gains at most what a and b gain against the best by
    themselves; by questions alone it hardly ever does. So the two are weighed.
    """
    fresh = _search(method, preset, fitted, chance, None)
    against = _search(method, preset, fitted, chance, incumbent.find(fitted))
    best = posterior.own_mean(fitted).amax(-1)
    gains = [eubo.value(fitted, *found.proposal.pair.split(1, 1)).squeeze(-1) - best for found in (fresh, against)]
    again = (1.0 + 2.0 * method.design_cost) * gains[1] >= (1.0 + method.design_cost) * gains[0]
    return where(again, against, fresh)


def _search(method: Method, preset: Preset, fitted: Posterior, chance: Request, held: Tensor | None) -> Shown:
    """The pair with the largest EUBO, or the best partner of the design that is held."""
    rows = torch.arange(len(fitted.X), device=fitted.X.device)
    anchored = chance._replace(anchor=None if held is None else fitted.X[rows, held])
    wanted = request(method, preset, fitted, anchored)
    proposal = maximize.propose(fitted, MAXIMIZERS[preset.maximizer], wanted)
    known = torch.full(proposal.pair.shape[:2], NEW, device=proposal.pair.device)
    if held is not None:
        known[:, 1] = held
    return Shown(proposal, known)


def request(method: Method, preset: Preset, fitted: Posterior, chance: Request) -> Request:
    """All that a search needs: to what `chance` has, the method and the preset add how and where it searches."""
    around = incumbent.box_around(fitted, preset.reach, preset.reach_least, chance.box)
    return chance._replace(
        variant="improvement" if method.acquisition is Acquisition.EXPECTED_IMPROVEMENT else preset.eubo,
        exploration=preset.exploration,
        box=around if _is_confined(preset, fitted) else chance.box,
    )


def _is_confined(preset: Preset, fitted: Posterior) -> bool:
    """Whether this question keeps to the box: in enough dimensions, and each time so many pairs have been seen."""
    n, d = fitted.X.shape[-2:]
    return d >= preset.reach_from and (n // PAIR) % preset.reach_every == 0
