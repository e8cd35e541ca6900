"""The command `kappasharp`."""

import importlib
from typing import Any

import click
import torch
from click import shell_completion

from kappasharp.app.cli import arranging, listing, questions, studies
from kappasharp.app.cli.demo import demo
from kappasharp.app.cli.serve import serve
from kappasharp.app.cli.tune import tune


class Later(click.Command):
    """A command whose libraries an extra brings: imported when it is used, named and explained without."""

    def __init__(self, name: str, module: str, extra: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self.module, self.extra = module, extra

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command itself; a sentence where its libraries are missing."""
        try:
            found: click.Command = getattr(importlib.import_module(self.module), str(self.name))
        except ModuleNotFoundError as error:
            sentence = f"`kappasharp {self.name}` needs {error.name!r}: pip install 'kappasharp[{self.extra}]'."
            raise click.UsageError(sentence) from error
        return found.make_context(info_name, args, parent, **extra)


LATER = (
    Later("run", "kappasharp.app.cli.experiments", "lab", "Run what is missing of an EXPERIMENT (a TOML file)."),
    Later("report", "kappasharp.app.cli.reporting", "lab", "Write the tables and figures of a FOLDER of results."),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kappasharp", prog_name="kappasharp")
def main() -> None:
    """Tune anything by answering one question again and again: A or B?"""
    # One thread: the matrices are small, and several processes share a machine better.
    torch.set_num_threads(1)


for command in (
    listing.problems,
    listing.methods,
    *studies.COMMANDS,
    *questions.COMMANDS,
    *arranging.COMMANDS,
    tune,
    serve,
    demo,
    *LATER,
):
    main.add_command(command)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell's completion; `eval "$(kappasharp completion bash)"` turns it on."""
    found = shell_completion.get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "kappasharp", "_KAPPASHARP_COMPLETE").source())
