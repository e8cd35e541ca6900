"""What a study tells while somebody answers beside: each look is at one moment, however many answers come meanwhile."""

import re

import pytest

import kappasharp as ks
from kappasharp.views import report
from tests.beside import between_readings
from tests.cli.shell import Shell

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
HEAD = re.compile(r"Up to answer (\d+) \(event (\d+)\); answers that count: (\d+)\.")


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A study of two people, measured outcomes and a note."""
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path)
    study = ks.create_study(SPACE, storage=shell.url, study_name="s", outcomes=["cost", "gain"])
    for turn, word in enumerate(["a", "b", "tie", "b"]):
        study.tell(study.ask(["anna", "ben"][turn % 2]), word)
    # Of two designs alone: a model that learnt on outcomes would take its time.
    for cost, design in enumerate(study.history.options[:2]):
        study.record(design, {"cost": cost, "gain": 2.0})
    study.note(study.history.options[0], "too low")
    return shell


VIEWS = {
    "best": lambda study: study.best,
    "best_params": lambda study: study.best_params,
    "best_for": lambda study: study.best_for("anna"),
    "agreement": lambda study: str(study.agreement()),
    "diagnostics": lambda study: str(study.diagnostics()),
    "predict": lambda study: study.predict({"x": 0.1, "y": 0.2}, {"x": 0.3, "y": 0.2}),
    "tradeoffs": lambda study: study.tradeoffs(),
    "taste": lambda study: study.taste(),
    "directions": lambda study: study.directions(),
    "notes": lambda study: study.notes(),
    "notes_on": lambda study: study.notes_on({"x": 0.0, "y": 0.9}),
    "outcomes": lambda study: study.outcomes({"x": 0.0, "y": 0.9}),
    "html": lambda study: study._repr_html_(),
    "progress": lambda study: study.plot.progress(),
    "slices": lambda study: study.plot.slices(),
    "designs": lambda study: study.plot.designs(),
    "shares": lambda study: study.plot.agreement(),
    "report": lambda study: study.export("s.html"),
    "table": lambda study: study.export("s.csv"),
    "design table": lambda study: study.export("s.csv", table="options"),
    "whole": lambda study: study.export("s.json"),
}


def test_every_view_reads_the_study_once(shell, monkeypatch):
    """So that nothing in it is of another moment than the rest."""
    study = ks.load_study("s", storage=shell.url)
    readings = {}
    with between_readings(monkeypatch, "s", shell.url) as other:
        for name, look in VIEWS.items():
            before = other.done
            look(study)
            readings[name] = other.done - before
    assert readings == dict.fromkeys(VIEWS, 1)


def test_a_report_names_the_answer_up_to_which_it_speaks_and_is_all_of_that_moment(shell, monkeypatch, tmp_path):
    """It is, to the letter, the report of the study opened as it was after the event that it names."""
    study = ks.load_study("s", storage=shell.url)
    with between_readings(monkeypatch, "s", shell.url):
        text = study.export(tmp_path / "s.html").read_text()
    answer, event, counted = map(int, HEAD.search(text).groups())
    then = ks.load_study("s", storage=shell.url, through=event).moment()
    assert text == report.html(then) and event < study.history.number
    assert (answer, counted) == (max(then.history.answer_numbers().values()), len(then.history.counted()))


def test_pictures_are_those_of_the_report_s_own_designs(shell, monkeypatch, tmp_path):
    with between_readings(monkeypatch, "s", shell.url):
        shell("export", "s", tmp_path / "s.html", "--render", "tests.web.renderers:svg")
    text = (tmp_path / "s.html").read_text()
    now = ks.load_study("s", storage=shell.url, through=int(HEAD.search(text)[2])).moment()
    shown = [int(number) for number in re.findall(r"<figcaption>Design <b>(\d+)</b>", text)]
    assert shown == list(report.pictured(now))


COMMANDS = [
    ["best", "s"], ["best", "s", "--for", "anna"], ["diagnose", "s"], ["team", "s"], ["log", "s"], ["parameters", "s"],
    ["parameters", "s", "--best"], ["note", "s"], ["studies"], ["check", "s"], ["export", "s", "s.csv"],
    ["export", "s", "s.csv", "--table", "options"], ["export", "s", "s.json"],
]  # fmt: skip


def test_commands_that_only_look_are_undisturbed(shell, monkeypatch):
    with between_readings(monkeypatch, "s", shell.url) as other:
        for words in COMMANDS:
            assert shell(*words).stdout
    assert other.done > len(COMMANDS), "somebody has answered meanwhile"
