"""The demonstration from its command: progress, a best design better than where it began, clear errors."""

from click.testing import CliRunner

from kappasharp.app.cli import main


def test_the_demo_tunes_and_reports(tmp_path):
    result = CliRunner().invoke(main, ["demo", "--questions", "20", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "Best controller found" in result.output
    assert "Every solve carried its certificate" in result.output
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
