"""Outcomes through the commands: from a file or an option, shown everywhere, recorded by hand; code if allowed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import kappasharp as ks
from kappasharp.app.examples import pid
from kappasharp.cli import output, studies
from tests.cli.shell import Shell
from tests.study.simulators import simulate

MAIN = "from kappasharp.cli.main import main; main()"
ROOT = Path(__file__).parents[2]
FUNCTION = "tests.study.simulators:simulate"
PARAMETERS = ("-p", "kp=0.2:3", "-p", "ki=0:2")
FILE = f"""
limits = ["kp + ki <= 4"]
outcomes = "{FUNCTION}"
[parameters]
kp = {{low = 0.2, high = 3.0}}
ki = {{low = 0.0, high = 2.0}}
"""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path)


def test_a_study_from_a_file(shell, tmp_path):
    (tmp_path / "pid.toml").write_text(FILE)
    made = shell.json("new", "pid.toml")
    assert made["outcomes"]["function"] == FUNCTION and made["limits"] == ["kp + ki <= 4"]
    asked = shell.json("ask", "pid.toml")
    assert asked["outcomes"] == [simulate(design) for design in asked["designs"]]
    table = shell("ask", "pid.toml").stdout
    assert "→ overshoot" in table and "→ settling" in table
    shell("tell", "pid.toml", "a")
    best = shell.json("best", "pid.toml")
    assert best["outcomes"] == simulate(best["params"]) and "→ overshoot" in shell("best", "pid.toml").stdout
    (row,) = shell.json("log", "pid")
    assert row["a_outcomes_overshoot"] == asked["outcomes"][0]["overshoot"]
    assert "a overshoot" in shell("log", "pid").stdout


def test_a_place_of_a_slider_has_outcomes_too(shell, tmp_path):
    (tmp_path / "pid.toml").write_text(FILE)
    there = shell.json("ask", "pid.toml", "--question", "slider", "--place", "0.3")["at"]
    assert there["outcomes"] == simulate(there["params"])
    head, *rows = shell("ask", "pid.toml", "--place", "0.3").stdout.splitlines()
    assert head.split()[1:] == ["at", "0", "at", "0.3", "at", "0.3333", "at", "0.6667", "at", "1"]
    assert [row.split()[-4:] for row in rows if "–" in row] == [] and any("→ overshoot" in row for row in rows)


def test_a_database_alone_runs_nothing(shell, monkeypatch):
    shell("new", "pid", *PARAMETERS, "--outcomes", FUNCTION)
    monkeypatch.setattr("kappasharp.simulators.simulator.Simulator.compute", lambda *_: pytest.fail("it was run"))
    said = shell("ask", "pid")
    assert (
        said.stderr.count(f"The function of the outcomes is not here; `load_study(..., outcomes='{FUNCTION}')` or") == 1
    )
    assert f"`--outcomes {FUNCTION}` gives it" in said.stderr and "–" in said.stdout
    shell("tell", "pid", "a")
    assert shell("best", "pid").stderr.count("The function of the outcomes is not here") == 1
    monkeypatch.undo()
    assert shell.json("best", "pid", "--outcomes", FUNCTION)["outcomes"] is not None


def test_the_packages_own_example_needs_no_word(shell):
    assert pid.OUTCOMES["function"] in studies.OUR_OWN_OUTCOMES
    ks.create_study(pid.SPACE, storage=shell.url, study_name="pid", outcomes=pid.OUTCOMES)
    said = shell("ask", "pid")
    assert "→ overshoot" in said.stdout and "Note" not in said.stderr


def test_limits_and_mistakes(shell):
    shell("new", "pid", *PARAMETERS, "--limit", "kp + ki <= 1")
    asked = shell.json("ask", "pid")
    assert all(design["kp"] + design["ki"] <= 1.0 for design in asked["designs"]) and "outcomes" not in asked
    shell.refused("new", "q", *PARAMETERS, "--limit", "kp <= 0", code=2, says="must leave a design to propose")
    shell.refused("new", "q", *PARAMETERS, "--outcomes", "nothing_like_it:f", code=2, says="cannot be loaded")
    shell.refused("ask", "pid", "--outcomes", FUNCTION, code=2, says="was made without")
    shell.refused("record", "pid", "kp=1", "ki=1", "mass=2", code=2, says="this one has none")


def test_record(shell):
    study = ks.create_study(
        {"width": (10.0, 60.0)}, storage=shell.url, study_name="chair", outcomes=["mass", "comfort"]
    )
    found = shell.json("record", "chair", "width=40", "mass=3.1", "comfort=-7")
    assert found["outcomes"] == {"mass": 3.1, "comfort": -7.0} and found["runs"] == 1
    found = shell.json("record", "chair", "width=40", "mass=3.3", "--repeat")
    assert found["outcomes"]["mass"] == pytest.approx(3.2) and found["runs"] == 2 and found["spread"]["mass"] > 0.0
    asked = shell.json("ask", "chair")
    assert asked["outcomes"] == [None, None]
    assert shell("record", "chair", "--option", "0", "mass=1").stdout.split() == ["mass", "1"]
    assert study.outcomes(asked["a"]) == {"mass": 1.0} and "→ mass" in shell("ask", "chair").stdout
    shell("record", "chair", "width=40", "--forget")
    assert study.outcomes({"width": 40.0}) is None
    for words, says in (
        (("width=40",), "takes outcomes as NAME=VALUE, or `--forget`"),
        (("width=40", "mass"), "takes NAME=VALUE, each name once"),
        (("width=40", "mass=1", "mass=2"), "each name once"),
        (("mass=1",), "must name every parameter"),
        (("width=40", "mas=1"), "Did you mean 'mass'?"),
        (("width=40", "mass=much"), "must be a number"),
        (("--option", "7", "mass=1"), "must be one of the 2 designs seen"),
    ):
        shell.refused("record", "chair", *words, code=2, says=says)


def test_export_and_import(shell, tmp_path):
    ks.create_study({"width": (10.0, 60.0)}, storage=shell.url, study_name="chair", outcomes=["mass"])
    shell("record", "chair", "width=40", "mass=3.1")
    shell("export", "chair", "chair.json")
    assert json.loads((tmp_path / "chair.json").read_text())["version"] == 4
    shell("import", "chair.json", "--name", "copy")
    assert ks.load_study("copy", storage=shell.url).outcomes({"width": 40.0}) == {"mass": 3.1}
    assert "learns on the parameters alone: outcomes are known of one design at most" in " ".join(
        ks.load_study("copy", storage=shell.url).notes()
    )


def test_names_alone_are_measured(shell):
    said = shell("new", "chair", "-p", "width=10:60", "--outcomes", "mass, comfort")
    assert "Outcomes are measured: `kappasharp record chair` takes mass, comfort." in said.stderr
    assert shell.json("record", "chair", "width=40", "mass=3.1")["outcomes"] == {"mass": 3.1}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("no_such_module:f", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("tests.study.simulators:raising", "raised ZeroDivisionError: the pole is at zero."),
    ],
)
def test_why_there_are_no_outcomes_is_said_once(shell, function, why):
    shell("new", "pid", *PARAMETERS, "--outcomes", FUNCTION)
    for _ in range(2):  # that it failed is stored by the second time
        said = shell("ask", "pid", "--outcomes", function, "-f", "json")
        assert json.loads(said.stdout)["outcomes"] == [None, None]
        assert said.stderr.count("Note: there are no outcomes here.") == said.stderr.count(why) == 1
    assert shell("tell", "pid", "a", "--outcomes", function).stderr.count(why) == 1
    assert "Note" not in shell("ask", "pid", "--outcomes", FUNCTION).stderr


def test_why_the_model_does_without_outcomes(shell):
    shell("new", "pid", *PARAMETERS, "--outcomes", FUNCTION)
    shell("ask", "pid")
    shell("tell", "pid", "a")
    said = shell("best", "pid", "--outcomes", "no_such_module:f").stderr
    assert "outcomes of 0 of 128 designs" in said and "No module named 'no_such_module'" in said


def test_what_a_function_prints_past_python_is_in_no_json(shell, tmp_path):
    shell("new", "pid", *PARAMETERS, "--outcomes", FUNCTION)
    command = [sys.executable, "-c", MAIN, "ask", "pid", "-f", "json", "--storage", shell.url]
    told = subprocess.run(
        [*command, "--outcomes", "tests.study.simulators:writing"], check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert None not in json.loads(told.stdout)["outcomes"] and "raw\n" in told.stderr and "simulating" in told.stderr


def test_undo_shows_the_outcomes_of_what_is_open_again(shell):
    shell("new", "pid", *PARAMETERS, "--outcomes", FUNCTION)
    asked = shell("ask", "pid").stdout
    shell("tell", "pid", "a")
    assert "→ " in asked and [line for line in asked.splitlines() if "→ " in line] == [
        line for line in shell("undo", "pid").stdout.splitlines() if "→ " in line
    ]


def test_which_design_has_no_outcomes_is_said(capsys):
    """Of two designs shown one failed."""
    found = SimpleNamespace(failure="It raised.", runs=0), SimpleNamespace(failure=None, runs=1)
    study = SimpleNamespace(
        definition=SimpleNamespace(simulator=True), history=SimpleNamespace(outcomes=lambda design: found[design])
    )
    with click.Context(click.Command("ask")):
        output.say_failures(study, [0, 1])
    assert capsys.readouterr().err == "Note: there are no outcomes of design 1 of 2 here. It raised.\n"


def test_limits_that_are_left_aside_are_said_with_the_question(shell, tmp_path):
    limit = '[outcomes]\nfunction = "{}"\novershoot = {{at_most = {}}}\n'
    for name, most in (("hard", -5.0), ("easy", 5.0)):
        text = FILE.replace(f'outcomes = "{FUNCTION}"', "") + limit.format(FUNCTION, most)
        (tmp_path / f"{name}.toml").write_text(text, "utf-8")
    said = shell("ask", "hard.toml")
    assert "Note: No design was found that keeps overshoot <= -5" in said.stderr and "goes on without" in said.stderr
    assert "keeps" not in shell("ask", "easy.toml").stderr
