"""The page about the command line: every line of it would be understood, every command of a study is on it."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from kappasharp.cli import questions, studies
from kappasharp.cli.main import main
from kappasharp.exchange import study_toml
from kappasharp.journal.definition import Options

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    DOCS / "command-line.md",
    DOCS / "judge.md",
    DOCS / "lab.md",
    DOCS / "benchmark.md",
    DOCS / "scale.md",
    DOCS / "team.md",
    DOCS.parent / "README.md",
]


def lines(page):
    """The shell's lines that call the command, as words."""
    code = "\n".join(re.findall(r"^```bash\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    calls = (line.split("|")[0].split("2>")[0] for line in code.splitlines() if line.startswith("kappasharp "))
    return [shlex.split(call.split(">")[0], comments=True)[1:] for call in calls]


CALLS = [call for page in PAGES for call in lines(page)]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_line_is_understood(words):
    context = click.Context(main)
    command = main.get_command(context, words[0])
    assert command is not None
    if isinstance(command, click.Group):
        return
    # Reads the words, and refuses what the command does not take; nothing is done.
    command.make_context(words[0], words[1:], parent=context)


def test_every_command_of_a_study_is_shown():
    shown = {words[0] for words in lines(DOCS / "command-line.md")}
    commands = {command.name for command in (*studies.COMMANDS, *questions.COMMANDS)}
    assert (
        commands
        | {"parameters", "note", "invite", "rename", "delete", "tune", "simulate", "judge", "demo", "completion"}
        <= shown
    )


def test_the_study_file_of_the_page_is_one():
    (code,) = re.findall(
        r"^```toml\n(.*?)^```", (DOCS / "command-line.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    found = study_toml.parse(tomllib.loads(code), "x")
    assert found.name == "espresso" and len(found.space.parameters) == 7
    assert set(found.options) == set(Options.__annotations__) - {"outcomes", "limits", "render"}  # told beside it


def test_every_exit_code_is_explained():
    text = (DOCS / "command-line.md").read_text("utf-8")
    assert re.findall(r"^\| (\d) \|", text, re.MULTILINE) == ["0", "1", "2", "3"]
