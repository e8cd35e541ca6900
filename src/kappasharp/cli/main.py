"""The command `kappasharp`: its commands by name, each imported when it is used, and torch only where it computes."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import click
from click import shell_completion

from kappasharp.cli.output import in_format
from kappasharp.settings import DEFAULT_METHOD, DEFAULT_PRESET

# Every command: its module in this folder, and the line that `--help` has of it.
COMMANDS = {
    "ask": ("questions", "The question to answer: the same again until it is answered."),
    "backup": ("studies", "Copy the whole database (SQLite) to the new file PATH, while others go on answering."),
    "best": ("studies", "The best design so far, how sure that is, and what to do next."),
    "check": ("studies", "Read every event of STUDY, or of all studies, and say what is damaged; or accept a copy."),
    "check-method": ("lab", "Say whether a method of your own can be run: every rule, kept or broken."),
    "delete": ("studies", "Remove a study with all its answers, for good."),
    "diagnose": ("studies", "What the answers determine, how the model stands, where they contradict each other."),
    "doctor": ("doctor", "What is installed, how the model computes on this machine and why, and what is missing."),
    "export": ("studies", "Write a study: .json all of it, .csv and .parquet one table, .html a report with pictures."),
    "import": ("studies", "Make a study of a JSON file that `export` wrote, or add past comparisons from a CSV file."),
    "invite": ("team", "Make a link that lets others into STUDY, with a role; list such links, or revoke one."),
    "judge": ("judge", "Have a program answer as a voter: a script that asks a vision or language model, or computes."),
    "leaderboard": ("lab", "Rank the methods in folders of runs of a suite: one page, tables, data."),
    "log": ("studies", "Every answer, the oldest first."),
    "methods": ("registry", "Every method with its choices."),
    "new": ("studies", "Make a study: from NAME and parameters, or from a file NAME.toml."),
    "note": ("team", "Say something of a design that was seen, by its number; or list what was said."),
    "parameters": ("parameters", "What is open of each parameter; narrow, lock or widen one."),
    "problems": ("registry", "The paper's eleven problems and the development set: dimension, bounds, and more."),
    "record": ("questions", "Store outcomes that were measured: every parameter of the design, then its outcomes."),
    "rename": ("studies", "Give STUDY another NAME; whoever has it open goes on with it."),
    "report": ("lab", "Write the tables and figures of a FOLDER of results: HTML, Markdown, LaTeX, SVG, PNG."),
    "run": ("lab", "Run what is missing of an EXPERIMENT (a TOML file), or of a SUITE."),
    "serve": ("serve", "Compare two designs in the browser."),
    "simulate": ("rehearsal", "Rehearse a STUDY with a simulated person: how sure after how many answers, how true."),
    "studies": ("studies", "List the studies of a database: answers, voters, when the last answer came."),
    "team": ("team", "What several voters have in common: who agrees with whom, what suits all and each."),
    "tell": ("questions", "Answer a question."),
    "tune": ("tune", "Answer in the terminal, pairs with the arrow keys."),
    "undo": ("questions", "Take back the voter's last answer, to ask it again; or change of a parameter."),
}  # fmt: skip


class Later(click.Command):
    """A command that is imported when it is used; until then it has a name and a line of help."""

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.module = f"kappasharp.cli.{module}"

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command itself."""
        name = f"{self.name}_" if self.name == "import" else str(self.name).replace("-", "_")  # Python's own, and signs
        found: click.Command = getattr(importlib.import_module(self.module), str(name))
        return found.make_context(info_name, args, parent, **extra)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kappasharp", prog_name="kappasharp")
def main() -> None:
    """Tune anything by answering one question again and again: A or B?"""
    # One thread: the matrices are small, and several processes share a machine better. torch reads this at its import.
    os.environ["OMP_NUM_THREADS"] = "1"
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


for name, (module, summary) in COMMANDS.items():
    main.add_command(Later(name, module, summary))


@main.command()
@click.option("--questions", default=30, show_default=True, type=click.IntRange(1, 500), help="How many to ask.")
@click.option("--seed", default=0, show_default=True, help="Another seed is another person.")
@click.option("--method", default=DEFAULT_METHOD, show_default=True, help="A method of the registry.")
@click.option("--preset", default=DEFAULT_PRESET, show_default=True, help="A preset of the registry.")
@click.option("--question", default="pair", show_default=True, help="pair, choice, order, slider or rating; order:5.")
@click.option(
    "--out", default="kappasharp-demo", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Where the database and the report go.",
)  # fmt: skip
@in_format
def demo(questions: int, seed: int, method: str, preset: str, out: Path, style: str, *, question: str) -> None:
    """A simulated person tunes a PID controller by comparing step responses."""
    run = importlib.import_module("kappasharp.cli.demo").run
    run(questions, seed, method, preset, out, style, question=question)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell's completion; `eval "$(kappasharp completion bash)"` turns it on."""
    found = shell_completion.get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "kappasharp", "_KAPPASHARP_COMPLETE").source())
