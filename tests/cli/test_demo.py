"""The demonstration from its command: progress, a best design better than where it began, clear errors."""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

from click.testing import CliRunner

import kappasharp as ks
from kappasharp.app.examples import pid
from kappasharp.cli import demo
from kappasharp.cli.demo import plot
from kappasharp.cli.main import main


def test_the_demo_tunes_and_reports(tmp_path):
    result = CliRunner().invoke(main, ["demo", "--questions", "12", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Best controller found" in result.output
    assert "Every fit carried its certificate" in result.output
    lines = [line for line in result.output.splitlines() if "hidden score" in line]
    words = lines[0].replace("(", " ").replace(").", "").split()
    numbers = [float(word) for word in words if word.startswith("-")]
    assert numbers[0] > numbers[1]


def test_an_unknown_method_is_a_usage_error_with_a_suggestion(tmp_path):
    result = CliRunner().invoke(main, ["demo", "--method", "adaptve", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "Did you mean 'adaptive'?" in result.output


def test_the_version_is_printed():
    assert "kappasharp, version" in CliRunner().invoke(main, ["--version"]).output


def test_the_package_is_the_command_line_too():
    words = [sys.executable, "-m", "kappasharp", "--version"]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.startswith("kappasharp, version")


def demonstrate(folder, *words):
    return CliRunner().invoke(main, ["demo", "--out", str(folder), *words])


def test_the_demo_leaves_a_study_and_its_report(tmp_path):
    out = tmp_path / "deep" / "demo"
    result = demonstrate(out, "--questions", "6", "--seed", "2")
    assert result.exit_code == 0, result.output
    assert f"The study is in {out / 'study.db'}, its report in {out / 'report.html'}." in result.stdout
    assert "comparing" in result.stderr and "comparing" not in result.stdout
    study = ks.load_study("pid", storage=f"sqlite:///{out / 'study.db'}", outcomes=pid.outcomes)
    given = list(study.history.comparisons.values())
    assert [one.answer for one in given] == [demo.answer(study.history.asked[one.pair][0], 2) for one in given]
    advice = str(study.best.advice).replace("`diagnostics`", "`kappasharp diagnose`")
    assert len(given) == 6 and advice in result.stdout
    text = (out / "report.html").read_text("utf-8")
    (picture,) = re.findall(r"<svg[^>]*Step responses.*?</svg>", text, re.DOTALL)
    kinds = [one.get("class") for one in ElementTree.fromstring(picture).findall("path")]
    assert kinds == ["line faint", "line faint", "line first"]


def test_another_demonstration_takes_the_place_of_the_last(tmp_path):
    first, again = (demonstrate(tmp_path, "--questions", "2") for _ in range(2))
    assert first.exit_code == again.exit_code == 0 and first.stdout == again.stdout
    assert len(ks.load_study("pid", storage=f"sqlite:///{tmp_path / 'study.db'}").history.comparisons) == 2


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    result = demonstrate(tmp_path / "file" / "demo")
    assert result.exit_code == 1 and "could not be made: Not a directory." in result.stderr


def test_the_curve_in_text_rises_to_its_target():
    lines = plot([0.0, 0.5, 1.0, 1.0])
    assert lines[0].startswith(" 1.20") and lines[-2].startswith(" 0.00 ┤█") and "█" not in lines[0]
    assert sum(line.count("█") for line in lines) == 64


def test_the_demo_answers_other_kinds(tmp_path):
    result = demonstrate(tmp_path, "--questions", "3", "--question", "slider", "-f", "json")
    assert result.exit_code == 0 and "3 questions (slider:4)" in result.stderr
    told = json.loads(result.stdout)
    assert told["report"] == str(tmp_path / "report.html") and set(told["best"]["params"]) == set(pid.SPACE)
    assert told["score"] < 0.0 and told["certified"] in (True, False)
    study = ks.load_study("pid", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [one.kind for one in study.history.counted()] == ["slider"] * 3
