"""docs/paper-map.md holds: labels of the paper, functions that exist, tests that exist, and nothing left out."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper-map.md").read_text("utf-8")
SOURCES = {path: path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
LABEL = r"(?:eq|prop|thm|alg|sec|app|tab|fig):\w+"
# What the paper states and computes; its sections, tables and figures are not code.
STATED = ("eq:", "prop:", "thm:", "alg:")


class Row(NamedTuple):
    label: str
    functions: list[str]
    tests: list[str]


def read_rows() -> list[Row]:
    """Rows of the page's tables: the label's cell, and after one of prose the functions' and the tests'."""
    rows = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        at = next((i for i, cell in enumerate(cells) if re.fullmatch(f"`{LABEL}`", cell)), None)
        if at is not None:
            functions, tests = (re.findall(r"`([^`]+)`", cell) for cell in cells[at + 2 : at + 4])
            rows.append(Row(cells[at].strip("`"), functions, tests))
    return rows


ROWS = read_rows()
PAPER = set(re.findall(LABEL, PAGE.split("## Labels of the paper")[1]))


def test_the_page_is_read():
    assert len(PAPER) == 62
    assert len(ROWS) == len({row.label for row in ROWS}) == 35


def exists(name: str) -> bool:
    """Whether a name is that of a module and something in it."""
    parts = name.split(".")
    for count in range(1, len(parts)):
        try:
            reduce(getattr, parts[count:], import_module(".".join(["kappasharp", *parts[:count]])))
        except (ImportError, AttributeError):
            continue
        return True
    return False


def test_labels_are_the_papers():
    assert [row.label for row in ROWS if row.label not in PAPER] == []


def test_functions_exist():
    assert [row.label for row in ROWS if not row.functions] == []
    assert [(row.label, name) for row in ROWS for name in row.functions if not exists(name)] == []


def test_tests_exist():
    assert [row.label for row in ROWS if not row.tests] == []
    assert [(row.label, test) for row in ROWS for test in row.tests if not (ROOT / test).is_file()] == []


def test_every_statement_has_a_row():
    assert {label for label in PAPER if label.startswith(STATED)} <= {row.label for row in ROWS}


def test_every_test_of_the_paper_has_a_row():
    mapped = {test for row in ROWS for test in row.tests}
    assert [path.name for path in ROOT.glob("tests/paper/test_*.py") if f"tests/paper/{path.name}" not in mapped] == []


def test_labels_in_the_source_are_mapped():
    named = {(label, path.name) for path, source in SOURCES.items() for label in re.findall(rf"\[({LABEL})\]", source)}
    mapped = {row.label for row in ROWS}
    assert len(named) > 20
    assert [(label, file) for label, file in sorted(named) if label not in mapped] == []


def test_the_checks_bite():
    assert exists("correction.strength.calibrate")
    assert [name for name in ("correction.strength.calbrate", "correction.strenght.calibrate") if exists(name)] == []
    assert re.findall(rf"\[({LABEL})\]", "weights [eq:filter], not eq:other") == ["eq:filter"]


def test_departures_in_the_source_have_headings():
    headings = re.findall(r"^## (\d+)\. ", (ROOT / "docs" / "departures.md").read_text("utf-8"), re.MULTILINE)
    named = {number for source in SOURCES.values() for number in re.findall(r"Departure (\d+)", source)}
    assert headings == [str(number + 1) for number in range(len(headings))]
    assert named <= set(headings)
