"""Gains, tests, intervals and verdicts against scipy and against cases computed by hand."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kappasharp.lab.analysis import statistics
from kappasharp.lab.analysis.statistics import Sample, Verdict, compare, gain_percent, holm, paired_t, tally


def sample(values, wanted=None):
    return Sample(dict(enumerate(values)), tuple(range(len(values))) if wanted is None else wanted)


def test_the_papers_gains():
    """Table 1 of the paper: the stated gains follow from the stated means, to the rounding of these."""
    for base, method, gain in (
        (-1.031, -0.778, 24.5),
        (2.959, 2.818, -4.8),
        (-17.193, -13.069, 24.0),
        (3.576, 2.691, -24.8),
    ):
        assert gain_percent(base, method) == pytest.approx(gain, abs=0.1)
    assert math.isnan(gain_percent(0.0, 1.0))


def test_mean_and_deviation_by_hand():
    one = sample([1.0, 2.0, 6.0])
    assert one.mean == 3.0
    assert one.sd == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert math.isnan(sample([]).mean) and math.isnan(sample([1.0]).sd)


def test_paired_t_is_scipys():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=60), rng.normal(0.3, 1.0, size=60)
    found = paired_t(torch.from_numpy(before), torch.from_numpy(after))
    wanted = stats.ttest_rel(after, before)
    assert found == pytest.approx((wanted.statistic, wanted.pvalue), rel=1e-12)


def test_paired_t_by_hand():
    """Differences 1, 2, 3: t = 2/(1/√3) = 2√3 with two degrees of freedom."""
    t, p = paired_t(torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]))
    assert t == pytest.approx(2 * math.sqrt(3))
    # For two degrees of freedom the two-sided p is 1 − t/√(t² + 2).
    assert p == pytest.approx(1 - t / math.sqrt(t * t + 2))


def test_degenerate_tests_have_words_for_numbers():
    assert paired_t(torch.ones(5), torch.ones(5)) == (0.0, 1.0)
    assert all(math.isnan(value) for value in paired_t(torch.ones(1), torch.ones(1)))
    assert math.isnan(compare(sample([]), sample([])).gain_percent)


def test_holm_by_hand():
    """Holm's (1979) step-down: sorted p times what is left, never falling."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    with_gap = holm([0.01, math.nan, 0.02])
    assert with_gap[0] == pytest.approx(0.02) and math.isnan(with_gap[1]) and with_gap[2] == pytest.approx(0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_keeps_order_and_never_helps(values):
    adjusted = holm(values)
    assert all(a >= p for a, p in zip(adjusted, values, strict=True))
    assert all(a <= min(1.0, p * len(values)) + 1e-12 for a, p in zip(adjusted, values, strict=True))
    pairs = sorted(zip(values, adjusted, strict=True))
    assert all(second >= first for (_, first), (_, second) in pairwise(pairs))


def test_verdicts():
    base, better, worse = sample([1.0, 1.1, 0.9, 1.0]), sample([2.0, 2.2, 1.9, 2.1]), sample([0.1, 0.2, 0.0, 0.3])
    assert compare(base, better).verdict is Verdict.WIN
    assert compare(base, worse).verdict is Verdict.LOSS
    assert compare(base, sample([1.1, 1.0, 1.0, 0.9])).verdict is Verdict.NEUTRAL
    assert compare(base, better).verdict_holm is Verdict.NEUTRAL  # not yet corrected: unknown is not significant
    assert compare(base, better).stars == "**"
    assert tally([Verdict.WIN, Verdict.LOSS, Verdict.LOSS, Verdict.NEUTRAL]) == "1 / 2 / 1"


def test_pairs_are_by_seed_and_what_is_missing_is_counted():
    base = Sample({0: 1.0, 1: 2.0, 2: 3.0}, (0, 1, 2))
    method = Sample({2: 4.0, 0: 1.5}, (0, 1, 2))
    found = compare(base, method)
    assert found.pairs == 2
    assert found.difference == pytest.approx((0.5 + 1.0) / 2)
    assert found.gain_percent == pytest.approx(100 * 0.75 / 2.0)
    assert method.missing == (1,) and base.missing == ()


def test_bootstrap_covers():
    """Of intervals for a known gain of 10 %, about 95 % hold it (percentile intervals of 60 pairs: a little fewer)."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        before = torch.from_numpy(10 + rng.normal(size=60))
        after = torch.from_numpy(11 + rng.normal(size=60))
        low, high = statistics.bootstrap_gain(before, after)
        held += low <= 10.0 <= high
    assert 0.89 <= held / 200 <= 0.99


def test_bootstrap_is_near_the_normal_interval_and_repeats():
    rng = np.random.default_rng(2)
    before = torch.from_numpy(100 + rng.normal(size=60))
    after = before + torch.from_numpy(rng.normal(1.0, 0.5, size=60))
    low, high = statistics.bootstrap_gain(before, after)
    difference = (after - before).numpy()
    half = 1.96 * difference.std(ddof=1) / math.sqrt(60)
    assert (low, high) == pytest.approx((difference.mean() - half, difference.mean() + half), abs=0.05)
    assert statistics.bootstrap_gain(before, after) == (low, high)
