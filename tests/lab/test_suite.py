"""The suite pbo-1: its checksum, what it asks of a method; and the leaderboard, from runs made up by hand."""

import json
import math
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from kappasharp.cli.main import main
from kappasharp.errors import InvalidValueError
from kappasharp.lab import experiment, grid, suite
from kappasharp.lab.analysis import leaderboard, ranking
from kappasharp.lab.analysis.statistics import FAMILY
from kappasharp.lab.external.methods import PEERS
from kappasharp.lab.store import Store
from kappasharp.lab.suite import Suite
from kappasharp.parquet import read_parquet, write_parquet
from kappasharp.problems.registry import find_problem
from tests.lab import synthetic

PBO = suite.find("pbo-1")
# What stands in every run and never changes: a change of the definition needs another name.
CHECKSUMS = {"pbo-1": "f84337a9f1cf6fea", "pbo-juries-1": "e35eea7e392ecb1f"}


@pytest.mark.parametrize("name", suite.SUITES)
def test_the_definition_has_not_changed_and_neither_have_its_problems(name):
    found = suite.find(name)
    assert found.checksum == CHECKSUMS[name]
    found.check()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"limit": 121}, "must have the checksum that it states"),
        (
            {"fingerprint": {"hartmann-6d": {"worth": [0.2964, 0.0, 0.0, 0.0]}}},
            "The problem hartmann-6d is not the one",
        ),
        ({"fingerprint": {"hartmann-6d": {"won": [1, 3]}}}, "The problem hartmann-6d is not the one"),
        ({"simulated": {"careless": {"lapse": 0.2}}}, "The simulated person careless is not the one"),
    ],
)
def test_a_change_is_noticed(table, words):
    """Of the file, of a problem's utility, of the chance in answers, of a person."""
    changed = json.loads(json.dumps(PBO.table))
    for key, value in table.items():
        for name, part in value.items() if isinstance(value, dict) else ():
            changed[key][name] |= part
        changed[key] = changed[key] if isinstance(value, dict) else value
    made = Suite("pbo-1", changed)
    if "checksum" not in words:  # somebody stamped it
        changed["checksum"] = made.checksum
    with pytest.raises(InvalidValueError, match=words):
        made.check(["hartmann-6d"])


def test_a_published_suite_is_not_written_again(tmp_path):
    assert suite.PUBLISHED == CHECKSUMS
    path = tmp_path / "pbo-1.toml"
    original = resources.files("kappasharp.lab").joinpath("pbo-1.toml").read_text("utf-8")
    path.write_text(original.replace("limit = 600", "limit = 60"), "utf-8")
    changed = path.read_text("utf-8")
    with pytest.raises(InvalidValueError, match="published with the checksum f84337a9f1cf6fea and never changes"):
        suite.stamp(path)
    assert path.read_text("utf-8") == changed
    mine = path.rename(tmp_path / "mine-1.toml")
    assert suite.stamp(mine).checksum != CHECKSUMS["pbo-1"]


def test_a_run_of_a_suite_is_none_of_an_experiment():
    """Else what an experiment had run before would be missing from the ranking."""
    (plan, text), *_ = small().experiments(["sobol_king"], {})
    table = {key: value for key, value in tomllib.loads(text).items() if key != "suite"}
    alone = experiment.parse("alone", table)
    assert not {cell.key for cell in grid.cells(plan)} & {cell.key for cell in grid.cells(alone)}


def test_nobody_else_is_called_baseline():
    with pytest.raises(InvalidValueError, match="The name 'baseline' stands for two different things"):
        list(PBO.experiments([], {"baseline": "true"}, extent="quick"))


def test_a_new_suite_is_told_to_be_stamped():
    new = Suite("mine-1", {key: value for key, value in PBO.table.items() if key != "checksum"})
    with pytest.raises(InvalidValueError, match=r"has none; `python -m kappasharp.lab.suite mine-1.toml`"):
        new.check()


def test_what_a_method_has_to_run():
    """Every problem, start and person that was promised; the core and the quick part are parts of it, run by run."""
    whole, core, quick = map(PBO.scope, suite.EXTENTS)
    assert len(whole.tasks) == 78 and len(whole.seeds) == 30 and len({*whole.tasks}) == 78
    assert {task.regime for task in whole.tasks} == {"from_zero", "given_starts"}
    assert {task.person for task in whole.tasks} == {"paper", "exact", "careless", "hesitant", "biased", "human"}
    assert len({task.initialization for task in whole.tasks}) == 6
    assert {*quick.tasks} < {*whole.tasks} and {*quick.seeds} < {*whole.seeds}
    assert core == (whole.seeds, quick.tasks)
    keys = [
        {cell.key for plan, _ in PBO.experiments(["baseline"], {}, extent=part) for cell in grid.cells(plan)}
        for part in suite.EXTENTS
    ]
    assert len(keys[0]) == 78 * 30
    assert keys[1] < keys[0] and len(keys[1]) == len(core.tasks) * len(core.seeds)
    assert len(keys[2] & keys[1]) == len(quick.tasks) * len(quick.seeds)
    # What a folder remembers of it is the experiment itself.
    for plan, text in PBO.experiments(["cma_by_rank"], {"mine": "true"}):
        assert experiment.parse(plan.name, tomllib.loads(text)) == plan
        assert plan.suite == f"pbo-1 {CHECKSUMS['pbo-1']}" and plan.limit == 600


def test_ties_have_a_threshold():
    plans = {plan.person: plan for plan, _ in PBO.experiments(["baseline"], {})}
    assert plans["hesitant"].presets["modern"].threshold == 0.7 and plans["human"].presets["modern"].threshold == 0.0


def small(**changes):
    """The suite cut to two tasks from zero and one given start, two of them quick."""
    table = json.loads(json.dumps(PBO.table))
    table["seeds"] = {"first": 20000, "count": 4}
    parts = {"eleven": ["hartmann-6d", "vehicle-5d"], "starts": ["hartmann-6d"]}
    table["parts"] = {name: PBO.table["parts"][name] | {"problems": some} for name, some in parts.items()}
    table["parts"]["starts"] |= {"initializations": ["pure_k3"]}
    table["quick"] = {"seeds": 2, "beside": [], "eleven": {"problems": ["hartmann-6d"], "people": ["paper"]}}
    return Suite("pbo-1", table | changes)


def stored(path, made, finals, lacking=()):
    """A folder of runs that end at finals[method](problem, seed); text is a failed run."""
    store, rows = Store(path).open(), []
    for plan, _ in made.experiments(list(finals), {}):
        for block in grid.blocks(plan):
            for cell in grid.cells_of(block):
                final = finals[cell.method](cell.problem, cell.seed)
                person = json.dumps(grid.plain(plan.who), sort_keys=True)
                shared = {"suite": plan.suite, "person": person, "method_values": json.dumps({"method": cell.method})}
                shared["told_utility"] = [final] if cell.method != "static" and not isinstance(final, str) else []
                failed = {"status": "error", "error": final, "final_best": None, "best_utility": [], "n_points": []}
                more = shared | (failed if isinstance(final, str) else {})
                value = 0.0 if isinstance(final, str) else final
                if (cell.method, cell.initialization, cell.seed) not in lacking:
                    rows.append(synthetic.row(cell, plan.queries, value, **more))
    store.write("block", rows)
    return path


def better(by):
    """Final values that differ from seed to seed, and are better than another's by so much, about."""
    return lambda problem, seed: 1.0 + by + 0.01 * math.sin(seed * (1.0 + by)) + (problem == "vehicle-5d")


@pytest.fixture
def ranked(tmp_path):
    made = small()
    finals = {"baseline": better(0.0), "static": better(0.5), "adaptive": better(-0.5), "connected": better(0.1)}
    failing = lambda problem, seed: "it died" if seed == 20001 else better(-1.0)(problem, seed)  # noqa: E731
    lacking = {("connected", "from_zero", 20003)}
    one = stored(tmp_path / "one", made, finals, lacking)
    two = stored(tmp_path / "two", made, {"fixed20": failing})
    return made, [one, two]


def test_ranks_tests_and_failures(ranked):
    made, folders = ranked
    runs = ranking.read(folders, made)
    found = {board.subject: board for board in ranking.boards(runs)}
    assert [tuple(key) for key in found] == [
        ("whole", "from_zero"), ("whole", "given_starts"), ("core", "from_zero"), ("quick", "from_zero"),
    ]  # fmt: skip
    board = found["whole", "from_zero"]
    # One lacks a run and is not ranked; on the quick part, which has fewer seeds, it is.
    assert board.methods == ["static", "baseline", "adaptive", "fixed20"] and board.lacking == {"connected": 2}
    assert found["quick", "from_zero"].methods == ["static", "connected", "baseline", "adaptive", "fixed20"]
    first, base, third, last = board.standings
    assert [one.ranks["seen"][0] for one in board.standings] == [1.0, 2.0, 3.0, 4.0]
    assert first.ranks["seen"] == (1.0, 1.0, 1.0) and "told" not in first.ranks and base.ranks["told"][0] == 1.0
    assert (first.tests["seen"].corrected, third.tests["seen"].corrected) == ("2 / 0 / 0", "0 / 2 / 0")
    assert base.tests == {} and (last.failed, first.failed) == (2, 0)
    # Two tests in the family: the larger p stays, the smaller is doubled.
    family = first.tests["seen"]
    low, high = sorted(family.members.values(), key=lambda one: one.p)
    assert (low.p_holm, high.p_holm) == pytest.approx((min(2 * low.p, 1.0), max(2 * low.p, high.p)))
    assert family.words == FAMILY and low.pairs == 4
    assert next(iter(last.tests["seen"].members.values())).pairs == 3


def test_other_runs_are_left_out_and_two_versions_are_two_methods(ranked, tmp_path):
    made, folders = ranked
    other = stored(tmp_path / "other", small(limit=60), {"static": better(2.0)})
    runs = ranking.read([*folders, other], made)
    assert runs.left_out == {f"of {small(limit=60).label}": 12}
    # The packed runs of a board are as good as the folders.
    pack = tmp_path / "runs.parquet"
    write_parquet(runs.table(), pack)
    again = ranking.read([pack], made)
    assert ranking.boards(again)[0].standings == ranking.boards(runs)[0].standings
    rows = [row | {"method_values": '{"changed": 1}'} for row in runs.rows["static"].values()]
    (tmp_path / "new").mkdir()
    Store(tmp_path / "changed").open().write("block", rows)
    names = ranking.read([*folders, tmp_path / "changed"], made).rows
    assert "static" not in names and len([name for name in names if name.startswith("static (")]) == 2


def test_runs_from_before_a_module_moved_are_of_the_same_method(tmp_path):
    pack = Path(__file__).parents[2] / "docs" / "results" / "leaderboard" / "optuna.parquet"
    _, table = read_parquet(pack)
    first, second, *_ = table.to_pylist()
    assert "kappasharp.lab.entrants:Optuna" in first["method_values"] == second["method_values"]
    now = grid.plain(PEERS["optuna_preferential"]) | {"installed": json.loads(first["method_values"])["installed"]}
    second["method_values"] = json.dumps(now, sort_keys=True)
    write_parquet(pa.Table.from_pylist([first, second], schema=table.schema), tmp_path / "both.parquet")
    found = ranking.read([tmp_path / "both.parquet"], suite.find("pbo-1"))
    assert [(name, len(runs)) for name, runs in found.rows.items()] == [("optuna_preferential", 2)]


def test_what_counts_twice_is_said_and_the_first_source_counts(ranked, tmp_path):
    made, folders = ranked
    luckier = stored(tmp_path / "luckier", made, {"static": better(3.0), "fixed20": better(3.0)})
    first = ranking.read([*folders, luckier], made)
    assert first.twice["static"] == 12 and first.twice["fixed20"] == 12 and not first.twice["baseline"]
    # A run that failed stays failed, however often it is tried.
    assert ranking.boards(first)[0].standings == ranking.boards(ranking.read(folders, made))[0].standings
    later = ranking.read([luckier, *folders], made)
    assert {row["status"] for row in later.rows["fixed20"].values()} == {"ok"}
    said = leaderboard.remarks(first, ranking.boards(first))
    assert "12 runs of static were given twice, with other numbers: those of the first folder or file count." in said
    assert not ranking.read([*folders, *folders], made).twice["static"]
    first.rows["elsewhere"] = {}
    said = leaderboard.remarks(first, ranking.boards(first))
    assert any(line.startswith("Not ranked from zero, whole:") and "elsewhere has none" in line for line in said)


def test_a_method_that_always_fails_has_no_verdicts_and_is_no_reference(tmp_path):
    made = small()
    finals = {"adaptive": lambda problem, seed: "it died", "static": better(0.5), "connected": better(0.1)}
    board = ranking.boards(ranking.read([stored(tmp_path / "one", made, finals)], made))[0]
    assert board.methods[-1] == "adaptive" and board.reference == "connected"
    failed = board.standings[-1]
    assert ranking.verdicts(failed.tests["seen"]) == "0 / 0 / 0, 2 not tested" and failed.failed == 8
    assert ranking.verdicts(board.standings[0].tests["seen"]) == "2 / 0 / 0"
    assert "0 / 0 / 0, 2 not tested" in leaderboard.rank_table(board).rows[-1][4].text


def test_rounding_makes_no_other_run():
    row = {"best_utility": [1.0, 2.0]}
    assert not ranking._is_other(row, {"best_utility": [1.0 + 1e-14, 2.0]})
    assert ranking._is_other(row, {"best_utility": [1.0, 2.1]}) and ranking._is_other(row, {"best_utility": None})


def test_of_one_task_the_seeds_are_resampled(ranked):
    made, folders = ranked
    board = next(one for one in ranking.boards(ranking.read(folders, made)) if one.subject.scope == "quick")
    assert len(board.tasks) == 1
    ranks = ranking._with_interval(np.array([[1.0, 2.0, 3.0, 4.0]]))
    assert ranks[0] == 2.5 and ranks[1] < 2.0 and ranks[2] > 3.0


def test_regret_is_what_is_left_of_what_there_was_to_gain():
    task = PBO.scope().tasks[5]
    most = find_problem(task.problem).maximum.value
    row = {"status": "ok", "best_utility": [most - 9.0] * 4 + [most - 4.0, most - 2.0, most - 1.0]}
    assert task.problem == "hartmann-6d" and ranking.regret(row, task) == pytest.approx(0.25)
    assert ranking.regret(row | {"status": "error"}, task) == 1.0
    # Who starts better than the reference is measured from where that one starts.
    later = row | {"best_utility": [value - 1.0 for value in row["best_utility"]]}
    assert ranking.regret(row, task, later) < ranking.regret(row, task)
    assert ranking.regret(row, task, later | {"status": "error"}) == ranking.regret(row, task)


def test_the_page_and_the_files(ranked, tmp_path, monkeypatch):
    made, folders = ranked
    monkeypatch.setattr(suite, "find", lambda name: made)
    words = ["leaderboard", *map(str, folders), "--out", str(tmp_path / "page"), "--against", "adaptive"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    page, text, data = (
        (tmp_path / "page" / name).read_text("utf-8") for name in ("index.html", "leaderboard.md", "leaderboard.json")
    )
    assert page.count("data:image/png;base64,") == 4 and "http" not in page.replace("http-equiv", "")
    for shown in (page, text):
        assert "connected lacks 2 runs" in shown and "fixed20 failed 3 times: it died" in shown
        assert FAMILY.replace("'", "&#x27;") in shown or FAMILY in shown
    board = json.loads(data)["boards"][0]
    assert (board["reference"], board["tasks"], board["seeds"]) == ("adaptive", 2, 4)
    assert board["entrants"][0]["against_reference"]["seen"] == {"win": 2}
    assert json.loads(data)["suite"] == made.label
    assert "connected lacks 2 runs" in result.output and "fixed20 failed 3 times: it died" in result.output
    missing = CliRunner().invoke(
        main, ["leaderboard", str(folders[1]), "--against", "baseline", "--out", str(tmp_path)]
    )
    assert missing.exit_code and "fixed20" in missing.output
    (tmp_path / "text.parquet").write_text("no runs")
    text = CliRunner().invoke(main, ["leaderboard", str(tmp_path / "text.parquet")])
    assert text.exit_code and "is no Parquet file of runs, or a damaged one" in text.output
    nothing = CliRunner().invoke(main, ["leaderboard", str(tmp_path)])
    assert nothing.exit_code and "neither a folder of results nor a Parquet file" in nothing.output


def test_a_suite_runs_from_the_command_line(tmp_path, monkeypatch):
    """Two kings on a cut suite: the runs carry its checksum, and the quick ranking comes with them."""
    made = small(limit=60)
    for name in ("eleven", "starts"):
        made.table["parts"][name]["queries"] = 7
    made.table["checksum"] = made.checksum
    monkeypatch.setattr(suite, "find", lambda name: made)
    words = [
        "run",
        "pbo-1",
        "--quick",
        "--method",
        "random_king",
        "--method",
        "sobol_king",
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(main, [*words, "--engine", "serial"])
    assert result.exit_code == 0, result.output
    rows = Store(tmp_path / "out").existing().read().to_pylist()
    assert len(rows) == 4 and {row["suite"] for row in rows} == {made.label}
    assert {row["problem"] for row in rows} == {"hartmann-6d"} and all(len(row["best_utility"]) == 7 for row in rows)
    assert "Ranks by the best design seen, from zero, quick: 1 task, 2 seeds" in result.output
    assert "1. " in result.output
    for bad, why in (
        (["run", "pbo-1", "--out", "x"], "needs `--method` or `--method-command`"),
        (["run", "some.toml", "--quick", "--out", "x"], "are for a suite"),
        (["run", "pbo-2", "--quick", "--out", "x"], "No suite and no file is called 'pbo-2'. Suites: pbo-1"),
        (["run", "pbo-1", "--core", "--quick", "--method", "static", "--out", "x"], "choose one"),
        (
            ["run", "pbo-1", "--method-command", "node hill.js", "--out", "x"],
            'write NAME=COMMAND, for example "mine=node',
        ),
        (["run", "pbo-1", "--method", "hill.py", "--out", "x"], "One of your own is `module:factory`"),
    ):
        refused = CliRunner().invoke(main, bad)
        assert refused.exit_code and why in " ".join(refused.output.split())
