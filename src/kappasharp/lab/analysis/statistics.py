"""Gains, paired tests, intervals, verdicts: as the paper has them, and corrected for their number.

Runs are paired by seed: same first designs, same moods of the simulated person. A run that failed or is missing takes
its partner out of the comparison, and both are counted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch
from scipy import stats

from kappasharp.randomness import stream

SIGNIFICANT, VERY = 0.05, 0.01
RESAMPLES = 4000
INTERVAL = (0.025, 0.975)


class Verdict(StrEnum):
    """What a comparison says at the 5 % level."""

    WIN = "win"
    LOSS = "loss"
    NEUTRAL = "neutral"


@dataclass(frozen=True)
class Sample:
    """The final values of one cell's runs, by seed; `wanted` seeds that are not there failed or were not run."""

    values: Mapping[int, float]
    wanted: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Seeds without a value."""
        return tuple(seed for seed in self.wanted if seed not in self.values)

    @property
    def mean(self) -> float:
        """Mean of what there is; NaN where there is nothing."""
        return math.fsum(self.values.values()) / len(self.values) if self.values else math.nan

    @property
    def sd(self) -> float:
        """Standard deviation over the seeds, n − 1 in the denominator."""
        n = len(self.values)
        return math.sqrt(math.fsum((v - self.mean) ** 2 for v in self.values.values()) / (n - 1)) if n > 1 else math.nan


@dataclass(frozen=True)
class PairedComparison:
    """A method against the baseline on one cell, over the seeds that both have."""

    baseline: Sample
    method: Sample
    pairs: int
    gain_percent: float
    gain_low: float
    gain_high: float
    difference: float
    t: float
    p: float
    p_holm: float = math.nan

    @property
    def verdict(self) -> Verdict:
        """As the paper counts: each test by itself."""
        return _verdict(self.difference, self.p)

    @property
    def verdict_holm(self) -> Verdict:
        """With Holm's correction for all tests of the family."""
        return _verdict(self.difference, self.p_holm)

    @property
    def stars(self) -> str:
        """The paper's stars: * p < 0.05, ** p < 0.01, uncorrected."""
        return "**" if self.p < VERY else "*" if self.p < SIGNIFICANT else ""


def _verdict(difference: float, p: float) -> Verdict:
    if not p < SIGNIFICANT:  # NaN is not significant
        return Verdict.NEUTRAL
    return Verdict.WIN if difference > 0 else Verdict.LOSS


def gain_percent(baseline: float, method: float) -> float:
    """The paper's gain: the difference of the means in per cent of the baseline's size."""
    return 100.0 * (method - baseline) / abs(baseline) if baseline != 0 else math.nan


def compare(baseline: Sample, method: Sample) -> PairedComparison:
    """Everything about one method and one baseline on one cell."""
    seeds = sorted(set(baseline.values) & set(method.values))
    before = torch.tensor([baseline.values[seed] for seed in seeds], dtype=torch.float64)
    after = torch.tensor([method.values[seed] for seed in seeds], dtype=torch.float64)
    t, p = paired_t(before, after)
    low, high = bootstrap_gain(before, after)
    empty = not seeds
    return PairedComparison(
        baseline=baseline,
        method=method,
        pairs=len(seeds),
        gain_percent=math.nan if empty else gain_percent(float(before.mean()), float(after.mean())),
        gain_low=low,
        gain_high=high,
        difference=math.nan if empty else float((after - before).mean()),
        t=t,
        p=p,
    )


def paired_t(before: torch.Tensor, after: torch.Tensor) -> tuple[float, float]:
    """Student's t of the differences and its two-sided p; where no pair differs t = 0 and p = 1."""
    difference = after - before
    if len(difference) < 2:  # noqa: PLR2004 - one difference has no spread
        return math.nan, math.nan
    if not bool(difference.any()):
        return 0.0, 1.0
    error = difference.std() / math.sqrt(len(difference))
    t = float(difference.mean() / error)  # infinite where all pairs differ by the same
    return t, 2.0 * float(stats.t.sf(abs(t), len(difference) - 1))


def bootstrap_gain(before: torch.Tensor, after: torch.Tensor) -> tuple[float, float]:
    """The 95 % percentile interval of the gain, resampling pairs."""
    n = len(before)
    if n < 2:  # noqa: PLR2004 - nothing to resample
        return math.nan, math.nan
    index = torch.randint(n, (RESAMPLES, n), generator=stream(0, "bootstrap", str(n)))
    base, other = before[index].mean(1), after[index].mean(1)
    gains = 100.0 * (other - base) / base.abs()
    low, high = torch.quantile(gains, torch.tensor(INTERVAL, dtype=torch.float64)).tolist()
    return low, high


def holm(values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values; NaN stays NaN and does not count."""
    order = sorted((p, i) for i, p in enumerate(values) if not math.isnan(p))
    adjusted, running = [math.nan] * len(values), 0.0
    for rank, (p, i) in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p))
        adjusted[i] = running
    return adjusted


@dataclass(frozen=True)
class Family:
    """Comparisons that are corrected together, and the words that say which they are."""

    words: str
    members: Mapping[Any, PairedComparison]

    @property
    def plain(self) -> str:
        """Wins / losses / neutral, each test by itself."""
        return tally([one.verdict for one in self.members.values()])

    @property
    def corrected(self) -> str:
        """Wins / losses / neutral after Holm's correction."""
        return tally([one.verdict_holm for one in self.members.values()])


# The one rule for which tests are corrected together; every table says it in these words.
FAMILY = "Holm's correction is over the rows of a column: one method against one other, by one measure"


def family(members: Mapping[Any, PairedComparison], words: str = FAMILY) -> Family:
    """The comparisons with their corrected p-values: the one place where tests become a family."""
    adjusted = holm([one.p for one in members.values()])
    pairs = zip(members.items(), adjusted, strict=True)
    return Family(words, {key: replace(one, p_holm=p) for (key, one), p in pairs})


def tally(verdicts: Sequence[Verdict]) -> str:
    """Wins / losses / neutral."""
    return " / ".join(str(sum(v is kind for v in verdicts)) for kind in Verdict)
