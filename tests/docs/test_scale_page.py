"""The page about scale shows what the simulation says with the rates that are stored."""

import re
from pathlib import Path

from benchmarks import estimate

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
SEEDS, RUNS = 20, 1_000_000


def test_the_estimate_is_that_of_the_stored_rates():
    assert estimate.table(RUNS, SEEDS) == re.search(r"<!-- estimate -->\n\n((?:\|.*\n)+)", PAGE)[1].splitlines()
