"""What there is to choose from, as tables and pages of text."""

import click

from kappasharp.errors import UnknownNameError
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS, VARIANTS, problem


@click.group(invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="The variants too, which are not in the paper's grid.")
@click.pass_context
def problems(context: click.Context, everything: bool) -> None:
    """The paper's eleven problems: dimension, bounds, maximum, provenance."""
    if context.invoked_subcommand is not None:
        return
    rows = PROBLEMS | VARIANTS if everything else PROBLEMS
    click.echo(f"{'name':<20} {'d':>3}  {'bounds':<14} {'maximum':>13}  provenance")
    for row in rows.values():
        click.echo(f"{row.name:<20} {row.dimensions:>3}  {_box(row):<14} {_maximum(row):>13}  {row.provenance.value}")
    click.echo("\n≥: the best found so far, nothing proves that there is no better.")
    click.echo("`kappasharp problems show NAME` prints a definition.")


@problems.command()
@click.argument("name")
def show(name: str) -> None:
    """The definition of one problem."""
    try:
        row = problem(name)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from error
    click.echo(f"{row.name}  (version {row.version}, {row.provenance.value})")
    click.echo(f"\nutility     {row.formula}")
    click.echo(f"origin      {row.origin}")
    click.echo(f"maximum     {_maximum(row).strip()}  ({row.maximum.source})")
    click.echo(f"attained at {', '.join(f'{value:.6g}' for value in row.maximum.point)}")
    click.echo("\nparameters")
    names = row.parameters or tuple(f"x{i + 1}" for i in range(row.dimensions))
    for label, low, high in zip(names, row.low, row.high, strict=True):
        click.echo(f"  {label:<48} {low:>8.4g} to {high:.4g}")


def _box(row: Problem) -> str:
    sides = {(low, high) for low, high in zip(row.low, row.high, strict=True)}
    return "mixed" if len(sides) > 1 else "[{:g}, {:g}]".format(*sides.pop())


def _maximum(row: Problem) -> str:
    return f"{'' if row.maximum.proven else '≥ '}{row.maximum.value:.6g}"
