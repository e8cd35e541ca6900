"""docs/problems.md says what the registry says: every name, dimension, box, maximum and provenance."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from kappasharp.problems.initial_designs import INITIALIZATIONS
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, VARIANTS
from kappasharp.problems.simulated_voters import PERSONS

PAGE = (Path(__file__).parents[2] / "docs" / "problems.md").read_text("utf-8")
ALL = PROBLEMS | VARIANTS | DEVELOPMENT
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
OVERVIEW = {cells[0].strip("`"): cells for cells in ROWS if len(cells) == 6 and cells[0].strip("`") in ALL}


def section(anchor: str) -> str:
    """What stands under the heading with that anchor."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [part for part in parts if part.split("\n")[0].lower().replace(" ", "-") == anchor]
    return found


def test_every_problem_has_a_row_and_no_other():
    assert list(OVERVIEW) == list(ALL)


@pytest.mark.parametrize("name", ALL)
def test_a_row_says_what_the_registry_says(name):
    row = ALL[name]
    _, dimensions, box, maximum, proven, provenance = OVERVIEW[name]
    assert int(dimensions) == row.dimensions
    assert maximum == f"{row.maximum.value:.6g}"
    assert proven == ("yes" if row.maximum.proven else "no")
    assert provenance == row.provenance.value
    sides = set(zip(row.low, row.high, strict=True))
    if len(sides) == 1:
        assert box == "[{:g}, {:g}]".format(*sides.pop())
    else:
        text = section(re.fullmatch(r"\[mixed\]\(#([\w-]+)\)", box)[1])
        assert [side for side in sides if "[{:g}, {:g}]".format(*side) not in text] == []


SPREADS = {cells[0].strip("`"): cells for cells in ROWS if len(cells) == 5 and cells[0].strip("`") in DEVELOPMENT}


def test_the_development_set_has_its_spreads():
    assert list(SPREADS) == list(DEVELOPMENT)


@pytest.mark.parametrize("name", DEVELOPMENT)
def test_a_spread_is_what_uniform_points_give(name):
    row = DEVELOPMENT[name]
    _, median, spread, stake, noise = SPREADS[name]
    generator = torch.Generator().manual_seed(0)
    found = row.unit_utility(torch.rand(40_000, row.dimensions, generator=generator, dtype=torch.float64))
    assert float(spread) == pytest.approx(float(found.std()), rel=0.03)
    assert float(median) == pytest.approx(float(found.median()), abs=0.03 * float(found.std()))
    assert float(stake) == pytest.approx(row.maximum.value - float(found.median()), rel=0.03)
    assert float(noise.removesuffix(" %")) == pytest.approx(10.0 / float(stake), rel=0.05)


def test_noise_is_neither_nothing_nor_everything_on_the_development_set():
    shares = sorted(float(cells[4].removesuffix(" %")) for cells in SPREADS.values())
    assert 0.05 < shares[0] < 0.15 and 4.0 < shares[-1] < 6.0
    assert all(after <= 3.0 * before for before, after in pairwise(shares))


def test_every_parameter_of_plasma_has_its_range():
    row, text = ALL["plasma-16d"], section("plasma-16d")
    for parameter, low, high in zip(row.parameters, row.low, row.high, strict=True):
        assert f"| {parameter} | [{low:g}, {high:g}] |" in text


def test_every_initialization_has_a_row():
    rows = {cells[0].strip("`"): cells for cells in ROWS if cells[0].strip("`") in INITIALIZATIONS}
    assert list(rows) == list(INITIALIZATIONS)
    for name, plan in INITIALIZATIONS.items():
        assert rows[name][1:3] == [str(plan.n_points), str(plan.n_comparisons)]


def test_every_person_has_a_row():
    rows = {cells[0].strip("`"): cells for cells in ROWS if cells[0].strip("`") in PERSONS}
    assert list(rows) == list(PERSONS)
    for name, who in PERSONS.items():
        values = [who.noise, who.lapse, who.just_noticeable, who.position_bias]
        assert rows[name][1:5] == [f"{value:g}" for value in values]
