"""Certainty with hints and limits: what is said of the best design beside the truth that consistent people hide.

The same people as in docs/results/outcomes.md#certainty-with-hints, others of them.
"""

import pytest

from benchmarks import hints

SEED, ANSWERS = 41, 10


@pytest.fixture(scope="module", params=["hints", "hints and limits", "two hints false"])
def row(request):
    """After ten answers what was said, what is true, and the advice."""
    ((_, (*_, said, true, _, _, advice)),) = hints.studied(request.param, SEED, (ANSWERS,))
    return said, true, advice


def test_the_figure_is_near_the_truth(row):
    said, true, _ = row
    assert abs(said - true) < 0.1


def test_no_contradiction_is_claimed_where_none_is(row):
    assert row[-1] != "not_enough_signal"
