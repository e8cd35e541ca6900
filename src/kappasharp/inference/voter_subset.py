"""Which answers of several people a search begins with: those of whole voters, whatever order they came in.

Notation
    voter  (m,)  who gave each answer, 0 to V − 1; −1 for what nobody said
    rank   (V,)  each voter's place in the line
    rows   (m,)  the answers in the order of the line: what nobody said, then voter after voter

Two answers by one person carry what is known of ρ, so a share of the answers is one of voters. Every so-manieth answer
is not: where people answer in turn it may hear only one of them. A voter's place in the line, and an answer's among its
voter's, is a hash of what was answered. It has nothing to do with the order in which answers or voters came, and two
lines of the same answers are the same to the last digit. Coordinates are hashed to 2⁻²⁰: one that was computed in
another order of sums is still the same.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference.comparisons import Answers

# Hashes are numbers modulo a prime below 2³¹, so that a product of two has 62 bits; the factor is Park and Miller's.
PRIME, FACTOR, ROUNDS, FINE = 2**31 - 1, 48271, 3, 2.0**20
# A share is one of this many voters at least: where they do not fit in whole, of an equal count of answers from each.
LEAST_VOTERS = 10


class VoterLine(NamedTuple):
    """All answers of one run in line, and of each its voter's rank (−1 for nobody) and its place among its voter's."""

    rows: Tensor
    rank: Tensor
    place: Tensor
    voters: Tensor

    def share(self, size: int) -> Tensor:
        """Places in the line of the answers of the first voters: so many or a few less, or all if there are no more."""
        if size >= len(self.rows):
            return torch.arange(len(self.rows), device=self.rows.device)
        people = len(self.voters)
        heard = self.place < max(size // max(min(people, LEAST_VOTERS), 1), 1)
        told = torch.bincount(self.rank[heard & (self.rank >= 0)], minlength=people).cumsum(0)
        fits = int((told <= size - int((self.rank < 0).sum())).sum())
        return ((self.rank < max(fits, 1)) & (heard | (self.rank < 0))).nonzero().squeeze(-1)


def line_up(answers: Answers, voter: Tensor, people: int) -> VoterLine:
    """The line of one run's answers (a batch of one)."""
    content = _content(answers)
    known = voter >= 0
    told = torch.zeros(people, dtype=torch.long, device=voter.device)
    told = told.scatter_add(0, voter[known], content[known])
    voters = _mixed(told % PRIME).argsort(stable=True)
    rank = torch.full_like(voter, -1)
    rank[known] = voters.argsort()[voter[known]]
    rows = (rank * PRIME + content).argsort(stable=True)
    rank = rank[rows]
    count = torch.bincount(rank + 1, minlength=people + 1)
    place = torch.arange(len(rows), device=rows.device) - (count.cumsum(0) - count)[rank + 1]
    return VoterLine(rows, rank, place, voters)


def _content(answers: Answers) -> Tensor:
    """A hash of every answer: of the coordinates of its winner and its loser, and of whether it was a tie."""
    X, pairs = answers.X[0], answers.pairs[0]
    parts = [*X[pairs[:, 0]].unbind(-1), *X[pairs[:, 1]].unbind(-1)]
    found = torch.zeros(len(pairs), dtype=torch.long, device=pairs.device)
    for part in parts:
        found = (found * FACTOR + (part.double() * FINE).round().long()) % PRIME
    if isinstance(answers.ties, Tensor):
        found = (found * FACTOR + answers.ties[0]) % PRIME
    return _mixed(found)


def _mixed(value: Tensor) -> Tensor:
    """Numbers that look like chance, from numbers modulo the prime."""
    for _ in range(ROUNDS):
        value = (value * value + FACTOR * value + 1) % PRIME
    return value
