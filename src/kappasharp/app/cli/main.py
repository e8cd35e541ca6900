"""The command `kappasharp`."""

import importlib
import sys
from pathlib import Path
from typing import Any

import click
import torch
from click import shell_completion

from kappasharp.app import report, tables
from kappasharp.app.cli import demo as demonstration
from kappasharp.app.cli import listing, simulate, studies, tune
from kappasharp.app.cli.output import in_words, say
from kappasharp.app.cli.serve import serve
from kappasharp.study.definition import DEFAULT_METHOD, DEFAULT_PRESET
from kappasharp.study.study import Study

PLOT_WIDTH, PLOT_HEIGHT = 64, 9


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
    Later("report", "kappasharp.app.cli.experiments", "lab", "Write the tables and figures of a FOLDER of results."),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kappasharp", prog_name="kappasharp")
def main() -> None:
    """Tune anything by answering one question again and again: A or B?"""
    # One thread: the matrices are small, and several processes share a machine better.
    torch.set_num_threads(1)


for command in (listing.problems, listing.methods, *studies.COMMANDS, tune.tune, simulate.simulate, serve, *LATER):
    main.add_command(command)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell's completion; `eval "$(kappasharp completion bash)"` turns it on."""
    found = shell_completion.get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "kappasharp", "_KAPPASHARP_COMPLETE").source())


@main.command()
@click.option("--questions", default=30, show_default=True, type=click.IntRange(1, 500), help="How many to ask.")
@click.option("--seed", default=0, show_default=True, help="Another seed is another person.")
@click.option("--method", default=DEFAULT_METHOD, show_default=True, help="A method of the registry.")
@click.option("--preset", default=DEFAULT_PRESET, show_default=True, help="A preset of the registry.")
@click.option(
    "--out", default="kappasharp-demo", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Where the database and the report go.",
)  # fmt: skip
def demo(questions: int, seed: int, method: str, preset: str, out: Path) -> None:
    """A simulated person tunes a PID controller by comparing step responses."""
    with in_words():
        study = demonstration.start(out, seed, method=method, preset=preset)
        say(f"A simulated person compares {questions} pairs of step responses. It never sees a number.")
        latest = demonstration.Progress(0, True, 0.0)
        certified = True
        with click.progressbar(
            demonstration.tune(study, questions),
            length=questions,
            label="comparing",
            item_show_func=lambda item: None if item is None else f"best score so far {item.best_score:.3f}",
            file=sys.stderr,
        ) as bar:
            for latest in bar:
                certified = certified and latest.certified
        _report(study, certified=certified)
        written = report.write_html(study, out / demonstration.REPORT, [demonstration.responses(study)])
    click.echo(f"\nThe study is in {out / demonstration.DATABASE}, its report in {written}.")


def _report(study: Study, *, certified: bool) -> None:
    best = study.best
    click.echo("\nBest controller found")
    for line in tables.best(best):
        click.echo(f"  {line}".rstrip())
    first = next(iter(study.history.asked.values()))[0]
    scores = [float(demonstration.score(demonstration.gains_of(one))) for one in (best.params, first.a, first.b)]
    click.echo(f"\nThe person's hidden score: {scores[0]:.3f} (the first pair's better one: {max(scores[1:]):.3f}).")
    solves = "Every solve carried" if certified and best.status == "ok" else "NOT every solve carried"
    click.echo(f"{solves} its certificate of convergence.")
    click.echo("\nIts step response (target 1):")
    response = demonstration.step_response(demonstration.gains_of(best.params))[0]
    for line in plot(response.tolist()):
        click.echo(line)


def plot(values: list[float]) -> list[str]:
    """A curve as lines of text, from 0 to a little above its highest point."""
    top = max(1.2, *values)
    columns = [values[int(i * (len(values) - 1) / (PLOT_WIDTH - 1))] for i in range(PLOT_WIDTH)]
    level = [round(min(max(value, 0.0), top) / top * (PLOT_HEIGHT - 1)) for value in columns]
    target = round(1.0 / top * (PLOT_HEIGHT - 1))
    lines = []
    for height in range(PLOT_HEIGHT - 1, -1, -1):
        blank = "·" if height == target else " "
        row = "".join("█" if at == height else blank for at in level)
        lines.append(f"{height / (PLOT_HEIGHT - 1) * top:5.2f} ┤{row}")
    return [*lines, "      └" + "─" * PLOT_WIDTH]
