"""A report on a folder: all there, unfinished, failed, empty or not ours."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kappasharp.cli.main import main
from kappasharp.lab.analysis import figures, report, results
from kappasharp.lab.store import Store, StoreError

sys.path.insert(0, str(Path(__file__).parent))
import synthetic


def steady(cell):
    return 1.0 + 0.01 * cell.seed + (0.2 if cell.method == "adaptive" else 0.0)


def test_everything_is_written_once_and_stands_alone(tmp_path, monkeypatch):
    synthetic.folder(tmp_path / "r", steady)
    drawn, draw = [], figures.forest
    monkeypatch.setattr(figures, "forest", lambda *given: drawn.append(given) or draw(*given))
    written = report.write(tmp_path / "r")
    assert len(drawn) == 1  # for the page and for its files
    names = {path.name for path in written}
    assert {
        "index.html",
        "tables.md",
        "tables.tex",
        "runs.parquet",
        "made_up_forest.svg",
        "made_up_forest.png",
        "made_up_convergence.png",
    } <= names
    assert all(path.stat().st_size > 200 for path in written)
    page = (tmp_path / "r" / "report" / "index.html").read_text("utf-8")
    assert re.findall(r"""(?:src|href)=(?!"data:image/png)""", page) == []
    assert page.count("data:image/png;base64,") >= 4
    assert "48 of 48 runs" in page and "none (48)" in page


def test_an_unfinished_grid_says_what_is_missing_and_reports_the_rest(tmp_path, monkeypatch):
    synthetic.draws_nothing(monkeypatch, report)
    made, store = synthetic.folder(
        tmp_path, lambda cell: None if cell.problem == "vehicle-5d" and cell.seed > 3 else steady(cell)
    )
    lines = report.summary(results.gather(made, store))
    assert lines[0].startswith("40 of 48 runs")
    assert lines[1].startswith("Missing: 8 runs of vehicle-5d, pool_n6_k15, adaptive, paper;")
    (store.blocks / "bad.parquet").write_bytes(b"not a table")
    page = report.write(tmp_path)[0].read_text("utf-8")
    assert "Missing: 8 runs" in page and re.search(r"bad\.\w+\.broken was damaged and set aside", page)


def test_failed_runs_are_listed_and_leave_their_partners_out(tmp_path):
    made, store = synthetic.folder(
        tmp_path, lambda cell: "ValueError: no" if (cell.method, cell.seed) == ("static", 2) else steady(cell)
    )
    found = results.gather(made, store)
    assert [line for line in report.summary(found) if "hartmann-6d, static, seed 2: ValueError: no" in line]
    one = found.comparisons("paper")[results.Setting("hartmann-6d", "pool_n6_k15", "static", "paper")]
    assert one.pairs == 5 and one.method.missing == (2,)


def test_a_label_comes_from_the_experiment_and_the_run_from_its_values(tmp_path):
    """A run stored under one name is found under another, if its values are the same."""
    _, store = synthetic.folder(tmp_path, steady)
    same = {"another_name": {"method": "adaptive"}}
    other = synthetic.experiment.parse("other", synthetic.plan(methods=["baseline"], variants=same))
    found = results.gather(other, store)
    assert found.missing == []
    assert found.sample(results.Setting("hartmann-6d", "pool_n6_k15", "another_name", "paper")).values[0] == 1.2


def test_the_command_and_its_refusals(tmp_path, monkeypatch):
    synthetic.draws_nothing(monkeypatch, report)
    synthetic.folder(tmp_path / "good", steady, name="made up")  # a name may have a space
    done = CliRunner().invoke(main, ["report", str(tmp_path / "good"), "--out", str(tmp_path / "elsewhere")])
    assert done.exit_code == 0
    assert '<section id="made up">' in (tmp_path / "elsewhere" / "index.html").read_text("utf-8")
    nothing = CliRunner().invoke(main, ["report", str(tmp_path / "nowhere")])
    assert nothing.exit_code == 1 and "holds no kappasharp results" in nothing.output
    Store(tmp_path / "fresh").open()
    with pytest.raises(StoreError, match="remembers no experiment"):
        report.write(tmp_path / "fresh")


def test_pictures_are_chosen_by_what_varies():
    def names(**changes):
        made = synthetic.experiment.parse("x", synthetic.plan(**changes))
        return [picture.name for picture in report.chapter(results.Results(made, {}, [], [], 0)).pictures]

    assert names() == ["x_forest", "x_activation", "x_convergence"]
    assert "x_heatmap" in names(initializations=["pool_n6_k15", "pure_k3"])
    assert names(methods=["baseline", "botorch_0_18"]) == ["x_peers", "x_convergence"]
    assert names(presets=["paper", "modern"]) == ["x_nugget"]
    assert names(methods=["baseline", "connected"], presets=["paper", "modern"]) == [
        "x_paper_convergence",
        "x_modern_convergence",
    ]
