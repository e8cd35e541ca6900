"""`kappasharp problems`: the table, a definition for every name, a suggestion for a wrong one; and `doctor`."""

import json
import re

import pytest
from click.testing import CliRunner

from kappasharp.cli import doctor
from kappasharp.cli.main import main
from kappasharp.native import compiler, launch
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, VARIANTS

ALL = PROBLEMS | DEVELOPMENT | VARIANTS


def run(*words):
    return CliRunner().invoke(main, ["problems", *words])


def rows(output):
    """Cells of the table's lines: name, dimension, bounds, maximum, provenance."""
    lines = [line for line in output.splitlines() if re.match(r"[a-z0-9]+-\d+d", line)]
    return {line.split()[0]: line for line in lines}


def value_in(text):
    return float(text.replace("≥ ", ""))


def test_the_tables_are_the_papers_eleven_and_the_development_set():
    result = run()
    assert result.exit_code == 0, result.output
    paper, development = result.output.split("The development set, to choose methods on:")
    assert list(rows(paper)) == list(PROBLEMS) and "The paper's eleven:" in paper
    assert list(rows(development)) == list(DEVELOPMENT)
    assert "kappasharp problems show NAME" in result.output


def test_all_has_the_variants_too():
    result = run("--all")
    assert result.exit_code == 0, result.output
    assert list(rows(result.output)) == list(ALL)
    assert list(rows(result.output.split("Variants of the paper's:")[1])) == list(VARIANTS)


@pytest.mark.parametrize("name", ALL)
def test_a_line_says_dimension_bounds_maximum_and_provenance(name):
    row, line = ALL[name], rows(run("--all").output)[name]
    cells = re.fullmatch(r"(\S+)\s+(\d+)\s+(\[.*\]|mixed)\s+((?:≥ )?-?[\d.e+-]+)\s+(\w+)", line)
    assert cells is not None, line
    assert cells[1] == name and int(cells[2]) == row.dimensions and cells[5] == row.provenance.value
    sides = set(zip(row.low, row.high, strict=True))
    assert (cells[3] == "mixed") == (len(sides) > 1)
    if cells[3] != "mixed":
        assert list(map(float, cells[3].strip("[]").split(","))) == pytest.approx(sides.pop(), rel=1e-5)
    assert value_in(cells[4]) == pytest.approx(row.maximum.value, rel=1e-5)
    assert cells[4].startswith("≥") == (not row.maximum.proven)


@pytest.mark.parametrize("name", ALL)
def test_show_prints_the_definition(name):
    row, result = ALL[name], run("show", name)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{name}  (version {row.version}, {row.provenance.value})")
    for text in (row.formula, row.origin, row.maximum.source, *row.parameters):
        assert text in result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("maximum")]
    assert value_in(re.search(r"(≥ )?-?[\d.e+]+", line)[0]) == pytest.approx(row.maximum.value, rel=1e-5)
    assert ("≥" in line) == (not row.maximum.proven)
    (line,) = [line for line in result.output.splitlines() if line.startswith("attained at")]
    point = [float(word) for word in line.removeprefix("attained at").split(",")]
    assert point == pytest.approx(row.maximum.point, rel=1e-5, abs=1e-6)
    ranges = re.findall(r"(-?[\d.]+) to (-?[\d.]+)$", result.output.split("\nparameters\n")[1], re.MULTILINE)
    assert [float(low) for low, _ in ranges] == pytest.approx(row.low, rel=1e-3)
    assert [float(high) for _, high in ranges] == pytest.approx(row.high, rel=1e-3)


def test_an_unknown_name_is_a_usage_error_with_a_suggestion():
    result = run("show", "hartman-6d")
    assert result.exit_code == 2
    assert "No problem is called 'hartman-6d'. Did you mean 'hartmann-6d'?" in " ".join(result.output.split())


def test_a_name_is_needed():
    assert run("show").exit_code == 2


def test_doctor_says_how_it_computes_here_and_why(monkeypatch):
    def found():
        return json.loads(CliRunner().invoke(main, ["doctor", "-f", "json"], catch_exceptions=False).stdout)

    cpu = found()["kernels"]["cpu"]
    assert (cpu["way"], cpu["why"]) == ("compiled", None) if compiler.compiler() else cpu["way"] == "torch"
    assert all(extra["version"] for extra in found()["extras"].values())
    monkeypatch.setenv(launch.SWITCH, "0")
    assert found()["kernels"]["cpu"]["why"] == f"{launch.SWITCH}=0"
    said = CliRunner().invoke(main, ["doctor"], catch_exceptions=False).stdout
    assert f"by torch, several times slower, because {launch.SWITCH}=0." in said
    monkeypatch.setitem(doctor.EXTRAS, "lab", ("no-such-library", "experiments"))
    said = CliRunner().invoke(main, ["doctor"], catch_exceptions=False).stdout
    assert "not installed: `python -m pip install" in said
