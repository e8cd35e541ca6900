"""Shell completion and `--help`: what they offer, and that neither brings a library that computes."""

import shutil
import subprocess

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from kappasharp import settings
from kappasharp.cli.main import COMMANDS, main
from kappasharp.problems.simulated_voters import PERSONS
from tests.cli.shell import Shell

# torch takes two seconds of every call, SQLAlchemy a third of one; the rest comes with extras.
HEAVY = [
    "torch",
    "numpy",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "pyarrow",
    "scipy",
    "matplotlib",
    "dask",
    "distributed",
]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = Shell(tmp_path)
    monkeypatch.setenv("KAPPASHARP_STORAGE", found.url)
    return found


def completed(*words):
    """What the shell offers for the last word."""
    *before, last = words
    complete = ShellComplete(main, {}, "kappasharp", "_KAPPASHARP_COMPLETE")
    return [item.value for item in complete.get_completions(list(before), last)]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_calls_the_command_back(name):
    result = CliRunner().invoke(main, ["completion", name])
    assert result.exit_code == 0 and f"_KAPPASHARP_COMPLETE={name}_complete" in result.stdout
    if shutil.which(name):
        read = subprocess.run([name, "-n"], input=result.stdout, capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, "")


def test_another_shell_is_refused():
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def test_commands_and_options_complete():
    assert completed("di") == ["diagnose"]
    for name in (
        "new",
        "studies",
        "ask",
        "tell",
        "undo",
        "best",
        "log",
        "export",
        "import",
        "simulate",
        "demo",
        "tune",
    ):
        assert name in completed(name[:2])
    assert completed("tell", "pid", "") == ["a", "b", "tie", "skip"]
    assert "--voter" in completed("ask", "pid", "--")
    assert completed("simulate", "pid", "--person", "he") == ["hesitant"]


@pytest.mark.parametrize(
    "command", ["ask", "tell", "undo", "best", "log", "export", "diagnose", "simulate", "tune", "delete"]
)
def test_study_names_complete(shell, command):
    for name in ("pid", "pizza", "other"):
        shell("new", name, "-p", "x=0:1")
    assert completed(command, "pi") == ["pid", "pizza"]


def test_names_come_from_the_database_that_the_line_names(shell):
    other = f"sqlite:///{shell.folder / 'other.db'}"
    shell("new", "elsewhere", "-p", "x=0:1", "--storage", other)
    assert completed("ask", "--storage", other, "") == ["elsewhere"]
    assert completed("ask", "") == []


def test_completion_makes_no_database_and_never_fails(shell, monkeypatch):
    assert completed("ask", "") == [] and list(shell.folder.iterdir()) == []
    monkeypatch.setenv("KAPPASHARP_STORAGE", "nonsense")
    assert completed("ask", "") == []


def test_the_shell_gets_its_words_from_the_command(shell):
    shell("new", "pid", "-p", "x=0:1")
    words = {"_KAPPASHARP_COMPLETE": "bash_complete", "COMP_WORDS": "kappasharp ask p", "COMP_CWORD": "2"}
    # Names need the database; the model's library would fail to be imported.
    done = shell.process(without=["torch", "numpy"], **words)
    assert done.returncode == 0 and done.stdout == "plain,pid\n", done.stderr


def test_help_and_completion_import_nothing_that_computes(shell):
    """Every command's help, the script, commands and options, where none of the libraries can be imported."""
    code = """
from click.shell_completion import ShellComplete
others = [["--help"], ["completion", "bash"], ["problems", "show", "-h"]]
for words in others + [[one, "--help"] for one in main.commands]:
    try:
        main(words, prog_name="kappasharp")
    except SystemExit as end:
        assert not end.code, words
complete = ShellComplete(main, {}, "kappasharp", "_KAPPASHARP_COMPLETE").get_completions
offered = complete([], "s") + complete(["run"], "--eng") + complete(["tell", "pid"], "t")
print("OFFERED", *(item.value for item in offered))
"""
    done = shell.process(without=HEAVY, code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == [
        "OFFERED", "serve", "simulate", "studies", "--engine", "tie"
    ]  # fmt: skip
    assert done.stdout.count("Usage: kappasharp") == len(main.commands) + 2


def test_what_only_reads_or_stores_imports_nothing_that_computes(shell):
    """Every such command in one process that has the database's library and no other."""
    shell("new", "pid", "-p", "kp=0.2:3", "-p", "mode=p,pi", "--limit", "kp <= 2 or mode == 'pi'")
    shell("ask", "pid")
    shell("tell", "pid", "a")
    shell("ask", "pid")
    commands = [
        "studies", "log pid", "note pid 0 good", "note pid", "parameters pid", "export pid x.json", "export pid x.csv",
        "ask pid", "tell pid b", "undo pid", "check", "check pid", "backup copy.db", "rename pid other",
        "delete other --yes",
    ]  # fmt: skip
    code = f"""
for words in {commands}:
    try:
        main(words.split(), prog_name="kappasharp")
    except SystemExit as end:
        assert not end.code, words
"""
    done = shell.process(without=[name for name in HEAVY if name != "sqlalchemy"], code=code)
    assert done.returncode == 0, done.stderr
    assert "Removed 'other'" in done.stderr and (shell.folder / "x.csv").exists()


def test_commands_are_listed_as_they_describe_themselves():
    with click.Context(main) as context:
        for name in COMMANDS:
            itself = main.get_command(context, name).make_context(name, [], parent=context, resilient_parsing=True)
            assert itself.command.name == name
            shown, own = (one.get_short_help_str(64) for one in (main.get_command(context, name), itself.command))
            assert shown == own, name


def test_the_simulated_people_are_those_there_are():
    assert tuple(PERSONS) == settings.PERSONS
