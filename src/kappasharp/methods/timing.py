"""What the seconds of an answer say: a quick one is clear, unless times have nothing to do with answers.

Notation
    seconds   (runs, m)  how long each answer took; NaN where nobody measured it, or it was no pair
    strength  (runs, m)  |z|, how clear each difference is to a model that knows no times
    time      (runs, m)  decision times in units of an indifferent one's mean, as in likelihood.py; 0 where none is used

Whether times mean anything is asked of the answers themselves: they are used where they fall with the strength, by a
rank correlation that chance alone seldom has. What took many times the usual has been left lying, and says nothing.
"""

import math

import torch
from torch import Tensor

from kappasharp.core.likelihood import DRIFT

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
