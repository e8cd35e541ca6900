"""The tables say what the runs say: numbers, stars, tallies, and the paper's own values beside them."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kappasharp.lab.analysis import results, statistics, tables
from kappasharp.lab.analysis.results import Setting
from kappasharp.lab.analysis.statistics import FAMILY, Verdict

sys.path.insert(0, str(Path(__file__).parent))
import synthetic

GAINS = {"baseline": 0.0, "static": -1.0, "connected": 0.0, "adaptive": 0.5}


def value(cell):
    spread = 0.01 * ((cell.seed * 7) % 5)
    return 2.0 + GAINS[cell.method] + spread + (0.001 * cell.seed if cell.method == "static" else 0.0)


@pytest.fixture
def found(tmp_path):
    return results.gather(*synthetic.folder(tmp_path, value, queries=50))


def cells(table, row):
    return [cell.text for cell in next(line for line in table.rows if line[0].text.startswith(row))]


def test_main_table_by_hand(found):
    table = tables.main_table(found, "paper", "pool_n6_k15")
    line = dict(zip(enumerate(table.header), cells(table, "hartmann-6d"), strict=True))
    base = 2.0 + 0.01 * (0 + 2 + 4 + 1 + 3 + 0) / 6
    assert line[2, "baseline"].startswith(f"{base:.3f} ± ")
    assert line[3, "paper's"] == "2.959 ± 0.341"
    assert line[5, "gain %"] == f"{100 * (-1.0 + 0.0025) / base:+.1f}".replace("-", "−") + "**†"
    assert line[6, "paper's"] == "−4.8**"
    assert line[8, "gain %"] == "+0.0"
    assert cells(table, "W / L / N")[5:7] == ["0 / 2 / 0", "0 / 2 / 0"]
    assert cells(table, "vehicle")[0] == "vehicle-5d‡" and "not comparable" in table.note


@pytest.mark.parametrize(("mean", "text"), [(0.0, "Δ −0.25**"), (10.0, "−2.5**")])
def test_of_a_mean_that_may_be_zero_the_difference_is_told_and_no_percentage(mean, text):
    before = {seed: mean + (-1) ** seed * 0.3 for seed in range(30)}
    after = {seed: value - 0.25 - 0.001 * (seed % 3) for seed, value in before.items()}
    pair = (statistics.Sample(values, tuple(values)) for values in (before, after))
    assert tables.gain(statistics.compare(*pair)).text == text
    assert "Δ the difference itself" in tables.STARS


def test_no_difference_is_neutral(found):
    one = found.comparisons("paper")[Setting("hartmann-6d", "pool_n6_k15", "connected", "paper")]
    assert (one.t, one.p, one.verdict) == (0.0, 1.0, Verdict.NEUTRAL)


def test_every_stated_gain_of_table_one_is_its_means():
    """The paper's Table 1 was transcribed without a slip: its gains follow from its means up to their rounding."""
    stated = results.paper()
    for problem, row in stated["table1"].items():
        for method in ("static", "fixed20", "connected", "adaptive"):
            computed = statistics.gain_percent(row["baseline"][0], row[method][0])
            text = stated["gains"][problem][method]
            assert float(text.rstrip("*")) == pytest.approx(computed, abs=0.9 if problem == "dtlz2-8d" else 0.1)


def test_robustness_and_time(found, tmp_path):
    table = tables.robustness_table(found, "paper", "adaptive")
    assert table.header == ("problem", "pool_n6_k15")
    assert "2 / 0 / 0 uncorrected" in table.note
    times = tables.time_table(found, "paper", "pool_n6_k15")
    assert cells(times, "hartmann-6d") == ["hartmann-6d", "1.50", "1.50", "1.50", "1.50", "118, 102"]


def test_a_variant_stands_beside_the_papers_value(tmp_path):
    gate = {"adaptive_tau_0_25": {"method": "adaptive", "gate": {"threshold": 0.25}}}
    made = synthetic.experiment.parse(
        "tau", synthetic.plan(methods=["baseline"], variants=gate, problems=["ackley-8d"], queries=50)
    )
    store = synthetic.Store(tmp_path).open()
    rows = [synthetic.row(cell, 50, -1.0 - 0.001 * cell.seed) for cell in synthetic.grid.cells(made)]
    store.write("block", rows)
    table = tables.gain_table(results.gather(made, store), "paper", "pool_n6_k15", "Threshold")
    assert cells(table, "ackley-8d")[1:] == ["+0.0", "−2.3"]


def test_markdown_escapes_and_lines_up(found):
    text = tables.markdown(tables.main_table(found, "paper", "pool_n6_k15"))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert r"\*\*†**" in text and "−49" in text


def test_latex_is_balanced_and_escaped(found):
    text = tables.latex(tables.main_table(found, "paper", "pool_n6_k15"))
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({line.count("&") for line in body}) == 1
    assert text.count("{") == text.count("}") and re.search(r"(?<!\\)[%_]", text) is None
    assert text.count(r"\begin") == text.count(r"\end")


def test_html_is_well_formed(found):
    open_tags, seen = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_data(self, data):
            seen.append(data)

    Reader().feed(tables.hypertext(tables.main_table(found, "paper", "pool_n6_k15")))
    assert open_tags == [] and any("hartmann-6d" in text for text in seen)


def test_the_papers_values_stand_only_beside_the_papers_setting(tmp_path):
    table = tables.main_table(results.gather(*synthetic.folder(tmp_path, value)), "paper", "pool_n6_k15")
    assert {cells(table, "hartmann-6d")[at] for at in (3, 6, 9, 12)} == {"–"}  # four questions, not fifty


def test_a_run_out_of_a_batch_has_no_time_of_its_own(found):
    for row in found.rows[Setting("hartmann-6d", "pool_n6_k15", "static", "paper")].values():
        row["block_runs"] = 60
    assert cells(tables.time_table(found, "paper", "pool_n6_k15"), "hartmann-6d")[1:3] == ["1.50", "–"]


def test_the_same_rows_have_the_same_verdicts_in_every_table(tmp_path):
    """Holm's family is the rows of a column: more starts beside them change nothing, and every table says so."""
    both = results.gather(*synthetic.folder(tmp_path / "a", value, initializations=["pool_n6_k15", "pure_k3"]))
    alone = results.gather(*synthetic.folder(tmp_path / "b", value))
    one, other = (tables.main_table(found, "paper", "pool_n6_k15") for found in (both, alone))
    assert one.rows == other.rows and FAMILY in one.note
    assert FAMILY in tables.robustness_table(both, "paper", "adaptive").note
