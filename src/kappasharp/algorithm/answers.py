"""Line 15 of Algorithm 1: what an answer, and its seconds, add to a state, by its question's kind. [alg:adaptive_ks]"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import line
from kappasharp.algorithm import checks
from kappasharp.algorithm.question import NEW
from kappasharp.algorithm.state import FIRST, TIE, Question, State
from kappasharp.inference import comparisons
from kappasharp.inference.comparisons import Detail
from kappasharp.inference.likelihood import DRIFT
from kappasharp.questions.comparisons import Said, best_of, order_of
from kappasharp.questions.kind import PAIR, Kind


class Told(NamedTuple):
    """What an answer adds: designs, comparisons (runs, k, 2), which are ties (runs, k), what they share, an anchor."""

    points: Tensor
    pairs: Tensor
    ties: Tensor
    detail: Detail | None
    anchor: Tensor


def told(state: State, question: Question, answer: Any) -> Told:
    """What the answers add."""
    return _BY_KIND[state.method.asks](state, question, answer)


def _told_pair(state: State, question: Question, answer: Any) -> Told:
    """A pair; or the best of several, as answers of their own."""
    q = question.points.shape[1]
    W = checks.winners(answer, len(state.points), q).to(state.points.device)
    is_tie = (W == TIE) & (q == PAIR)
    if bool(is_tie.any()):
        checks.allows_ties(state.preset.threshold)
    points, index = _indexed(state, question)
    pairs = _answers(index, torch.where(is_tie, FIRST, W))
    return Told(points, pairs, is_tie.unsqueeze(-1).expand(pairs.shape[:-1]), None, index[:, 0])


def _told_choice(state: State, question: Question, answer: Any) -> Told:
    told = _told_pair(state, question, answer)
    return told._replace(detail=_shared(best_of(question.points.shape[1], 0), state))


def _told_order(state: State, question: Question, answer: Any) -> Told:
    """Each design against the next; those that are not named against the last that is."""
    q = question.points.shape[1]
    line, named, equal = (part.to(state.points.device) for part in checks.orders(answer, len(state.points), q))
    if bool(equal.any()):
        checks.allows_ties(state.preset.threshold)
    points, index = _indexed(state, question)
    line_up = index.gather(1, line)
    above = torch.minimum(torch.arange(q - 1, device=line.device), named.unsqueeze(-1) - 1)
    pairs = torch.stack([line_up.gather(1, above), line_up[:, 1:]], -1)
    return Told(points, pairs, equal, _of_orders(q, named), line_up[:, 0])


def _of_orders(q: int, named: Tensor) -> Detail:
    """What the comparisons of orders share in which so many designs are named, run by run."""
    several, which = named.unique(return_inverse=True)
    found = [detail for count in several.tolist() if (detail := comparisons.detail([order_of(q, range(count))]))]
    return Detail(*(torch.cat(parts).to(named.device)[which] for parts in zip(*found, strict=True)))


def _told_slider(state: State, question: Question, answer: Any) -> Told:
    """The chosen place against others of its line; only it and they are designs of the model, the chosen one first."""
    place = checks.places(answer, len(state.points), state.points)
    method = state.method
    others = comparisons.other_places(place, method.designs, method.others, method.near)
    places = torch.cat([place.unsqueeze(-1), others], -1)
    index = state.points.shape[1] + torch.arange(places.shape[-1], device=place.device).expand(len(place), -1)
    pairs = _answers(index, torch.zeros_like(index[:, 0]))
    none = torch.zeros_like(pairs[..., 0], dtype=torch.bool)
    detail = _shared(best_of(places.shape[-1], 0), state)
    return Told(line.at(question.points, places, state.lattice), pairs, none, detail, index[:, 0])


def _told_rating(state: State, question: Question, answer: Any) -> Told:
    rating = checks.ratings(answer, len(state.points)).to(state.points.device)
    points, index = _indexed(state, question)
    pairs = torch.where((rating < 0)[:, None], index.flip(-1), index).unsqueeze(1)
    detail = comparisons.none_of((len(rating),), 1, state.points)._replace(level=rating.abs().unsqueeze(-1))
    return Told(points, pairs, (rating == 0).unsqueeze(-1), detail, index[:, 0])


def _indexed(state: State, question: Question) -> tuple[Tensor, Tensor]:
    """The designs that are new, and the index (runs, q) of every design of the question."""
    fresh = question.known[0] == NEW  # the same for every run of a block
    numbers = state.points.shape[1] + fresh.cumsum(0) - 1
    return question.points[:, fresh], torch.where(question.known == NEW, numbers, question.known)


def _answers(index: Tensor, best: Tensor) -> Tensor:
    """The best design of every run's question (runs, q) against each of the others: (runs, q − 1, 2)."""
    winner = index.gather(1, best.unsqueeze(-1))
    is_other = torch.arange(index.shape[1], device=index.device) != best.unsqueeze(-1)
    others = index[is_other].reshape(len(index), -1)
    return torch.stack([winner.expand_as(others), others], -1)


def _shared(said: Said, state: State) -> Detail | None:
    """What the comparisons of every run's answer share: the same in all runs."""
    found = comparisons.detail([said])
    return (
        None
        if found is None
        else Detail(*(part.to(state.points.device).expand(len(state.points), *part.shape[1:]) for part in found))
    )


_BY_KIND = {
    Kind.PAIR: _told_pair,
    Kind.CHOICE: _told_choice,
    Kind.ORDER: _told_order,
    Kind.SLIDER: _told_slider,
    Kind.RATING: _told_rating,
}


def joined_ties(state: State, said: Told) -> Tensor | None:
    """Which of all comparisons are ties; None where none is."""
    if state.ties is None and not bool(said.ties.any()):
        return None
    old = state.ties
    old = torch.zeros(state.comparisons.shape[:-1], dtype=torch.bool, device=said.ties.device) if old is None else old
    return torch.cat([old, said.ties], 1)


def joined_detail(state: State, said: Told) -> Detail | None:
    """What all comparisons have beside winner and loser; None where that is nothing."""
    if state.detail is None and said.detail is None:
        return None
    like, runs = state.points, (len(state.points),)
    old, new = (
        comparisons.none_of(runs, pairs.shape[1], like) if known is None else known
        for known, pairs in ((state.detail, state.comparisons), (said.detail, said.pairs))
    )
    return comparisons.joined(old, Detail(*(part.to(like) if part.is_floating_point() else part for part in new)))


def joined_seconds(state: State, said: Told, seconds: Any) -> Tensor | None:
    """The seconds of every comparison, NaN where they are not known; None where none are."""
    if state.seconds is None and seconds is None:
        return None
    like = state.points
    old = state.seconds
    old = like.new_full(state.comparisons.shape[:-1], torch.nan) if old is None else old
    new = like.new_full(said.pairs.shape[:-1], torch.nan)
    taken = None if seconds is None else checks.seconds(seconds, len(like), like)
    if taken is not None and said.pairs.shape[1] == 1:
        new = taken.unsqueeze(-1)
    return torch.cat([old, new], 1)


def joined_voters(state: State, said: Told, voter: int | None) -> Tensor | None:
    """Who gave each comparison (m,), the first voter where nobody said; None where nobody ever did."""
    if state.voters is None and voter is None:
        return None
    where = state.comparisons.device
    old = state.voters
    old = torch.zeros(state.comparisons.shape[1], dtype=torch.long, device=where) if old is None else old
    return torch.cat([old, torch.full((said.pairs.shape[1],), voter or 0, device=where)])


def are_several(voters: Tensor | None) -> bool:
    """Whether more than one person has answered."""
    return voters is not None and len(voters) > 0 and int(voters.max()) > 0


# What the seconds of an answer say: a quick one is clear, unless times have nothing to do with answers.
#
# Notation
#     seconds   (runs, m)  how long each answer took; NaN where nobody measured it, or it was no pair
#     strength  (runs, m)  |z|, how clear each difference is to a model that knows no times
#     time      (runs, m)  decision times in units of an indifferent one's mean (likelihood.py); 0 where none is used
#
# Whether times mean anything is asked of the answers themselves: they are used where they fall with the strength, by a
# rank correlation that chance alone seldom has. What took many times the usual has been left lying, and says nothing.

# Times are used from so many on; a longer one than so many medians is none; the normal quantile that the rank
# correlation must pass; how small and how large a decision time may be; the share of the shortest time that goes to
# seeing and moving.
FEWEST, LONGEST, SURE, LEAST, MOST, BEFORE = 8, 5.0, 1.64, 0.02, 3.0, 0.8


def decision_times(seconds: Tensor, strength: Tensor, voters: Tensor | None = None) -> Tensor:
    """The decision times of one person in every run; or of several, each by their own, where `voters` (m,) tells."""
    if voters is None:
        rows = [_of_one(one, clear) for one, clear in zip(seconds.cpu(), strength.cpu(), strict=True)]
        return torch.stack(rows).to(strength)
    time = torch.zeros_like(strength)
    for number in voters.unique():
        own = voters == number
        time[:, own] = decision_times(seconds[:, own], strength[:, own])
    return time


def _of_one(seconds: Tensor, strength: Tensor) -> Tensor:
    time = torch.zeros_like(strength)
    known = seconds.isfinite() & (seconds > 0.0)
    if int(known.sum()) < FEWEST:
        return time
    known &= seconds <= LONGEST * float(seconds[known].median())
    spent, clear = seconds[known].to(strength), strength[known]
    if not _falls(spent, clear):
        return time
    decided = spent - BEFORE * spent.min()
    # The mean decision time of a diffusion is tanh(v a)/(v a) of an indifferent one's.
    drift = (DRIFT * clear).clamp(min=1e-6)
    usual = decided.median() / (drift.tanh() / drift).median()
    time[known] = (decided / usual).clamp(LEAST, MOST)
    return time


def _falls(spent: Tensor, clear: Tensor) -> bool:
    """Whether times fall with the strength, by Spearman's rank correlation."""
    ranks = torch.stack([_ranks(spent), _ranks(clear)])
    correlation = float(torch.corrcoef(ranks)[0, 1])
    return correlation < -SURE / math.sqrt(len(spent) - 1)


def _ranks(values: Tensor) -> Tensor:
    return values.argsort(stable=True).argsort(stable=True).to(values)
