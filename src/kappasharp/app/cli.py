"""The command `kappasharp`."""

import importlib

import click
import torch

from kappasharp.app import demo as demonstration
from kappasharp.app import listing
from kappasharp.app.serve import serve

PLOT_WIDTH, PLOT_HEIGHT = 64, 9
# Command -> its module, and the extra that brings its libraries.
FROM_AN_EXTRA = {name: ("kappasharp.app.experiments", "lab") for name in ("run", "report")}


class Commands(click.Group):
    """The commands, of which some need libraries that the default install leaves out: those are imported when used."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All names, in the order of the alphabet."""
        return sorted({*super().list_commands(context), *FROM_AN_EXTRA})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of that name; a sentence where its libraries are missing."""
        if name not in FROM_AN_EXTRA:
            return super().get_command(context, name)
        module, extra = FROM_AN_EXTRA[name]
        try:
            found: click.Command = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            return _unavailable(name, f"`kappasharp {name}` needs {error.name!r}: pip install 'kappasharp[{extra}]'.")
        return found


def _unavailable(name: str, sentence: str) -> click.Command:
    def refuse(words: tuple[str, ...]) -> None:
        raise click.UsageError(sentence)

    anything = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(name, callback=refuse, params=[anything], help=sentence, context_settings=settings)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kappasharp", prog_name="kappasharp")
def main() -> None:
    """Tune anything by answering one question again and again: A or B?"""
    # One thread: the matrices are small, and several processes share a machine better.
    torch.set_num_threads(1)


main.add_command(listing.problems)
main.add_command(listing.methods)
main.add_command(serve)


@main.command()
@click.option("--questions", default=30, show_default=True, type=click.IntRange(1, 500), help="How many to ask.")
@click.option("--seed", default=0, show_default=True, help="Another seed is another person.")
@click.option("--method", default="adaptive", show_default=True, help="A method of the registry.")
@click.option("--preset", default="modern", show_default=True, help="A preset of the registry.")
def demo(questions: int, seed: int, method: str, preset: str) -> None:
    """A simulated person tunes a PID controller by comparing step responses."""
    try:
        state = demonstration.start(seed, method, preset)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"A simulated person compares {questions} pairs of step responses. It never sees a number.", err=True)
    certified = True
    with click.progressbar(
        demonstration.tune(state, questions),
        length=questions,
        label="comparing",
        item_show_func=lambda item: None if item is None else f"best score so far {item[1].best_score:.3f}",
    ) as bar:
        for after, latest in bar:
            state = after
            certified = certified and latest.certified
    outcome = demonstration.conclude(state)
    _report(outcome, certified=certified and outcome.certified)


def _report(outcome: demonstration.Outcome, *, certified: bool) -> None:
    click.echo("\nBest controller found")
    for name, value in outcome.gains.items():
        click.echo(f"  {name:<14}{value:8.3f}")
    click.echo(f"\nAgainst a random design it wins with probability {outcome.beats_random:.1%}, says the model.")
    click.echo(
        f"The person's hidden score: {outcome.score:.3f} (best of the first {demonstration.FIRST_POINTS} "
        f"random ones: {outcome.first_score:.3f})."
    )
    solves = "Every solve carried" if certified else "NOT every solve carried"
    click.echo(f"{solves} its certificate of convergence.")
    click.echo("\nIts step response (target 1):")
    for line in plot(outcome.response.tolist()):
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
