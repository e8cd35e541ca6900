"""What there is to choose from, as tables and pages of text."""

import click

from kappasharp.core.activation import Gate, Rule
from kappasharp.core.correction import Correction, Weights
from kappasharp.errors import UnknownNameError
from kappasharp.lab.peers import PEERS
from kappasharp.methods.method import PAIR, Method
from kappasharp.methods.registry import METHODS
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, VARIANTS, find_problem


@click.group(invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="The variants too, which are not in the paper's grid.")
@click.pass_context
def problems(context: click.Context, everything: bool) -> None:
    """The paper's eleven problems and the development set: dimension, bounds, maximum, provenance."""
    if context.invoked_subcommand is not None:
        return
    tables = {"The paper's eleven": PROBLEMS, "The development set, to choose methods on": DEVELOPMENT}
    if everything:
        tables["Variants of the paper's"] = VARIANTS
    click.echo(f"{'name':<20} {'d':>3}  {'bounds':<14} {'maximum':>13}  provenance")
    for heading, rows in tables.items():
        click.echo(f"\n{heading}:")
        for row in rows.values():
            click.echo(_line(row))
    click.echo("\n≥: the best found so far, nothing proves that there is no better.")
    click.echo("`kappasharp problems show NAME` prints a definition.")


@problems.command()
@click.argument("name")
def show(name: str) -> None:
    """The definition of one problem."""
    try:
        row = find_problem(name)
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


@click.command()
def methods() -> None:
    """Every method with its choices."""
    click.echo(f"{'name':<18} {'inference':<9} {'correction':<38} {'gate':<24} {'query':<11} acquisition")
    for name, row in METHODS.items():
        click.echo(
            f"{name:<18} {row.inference.value:<9} {_correction(row.correction):<38} {_gate(row.gate):<24} "
            f"{_query(row):<11} {row.acquisition.value}"
        )
    click.echo("\nOther people's software, for `kappasharp run` (extra `peers`):")
    for name, peer in PEERS.items():
        click.echo(f"{name:<20} {peer.library} {peer.versions}: {peer.summary}")
    click.echo(
        "\nA new method is one row of methods/registry.py; an experiment may change a row's numbers (`variants`)."
    )


def _query(row: Method) -> str:
    return row.query.value if row.designs == PAIR else f"best of {row.designs}"


def _correction(choice: Correction) -> str:
    if choice.weights is Weights.NONE:
        return "none"
    return f"{choice.weights.value} in {choice.placement.value}, α = {choice.target_exponent:g}"


def _gate(gate: Gate) -> str:
    match gate.rule:
        case Rule.NEVER:
            return "never"
        case Rule.ALWAYS:
            return f"always, from step {gate.first_step}"
        case Rule.DECISIVE:
            return f"s̄ ≥ {gate.threshold:g}, from step {gate.first_step}"
        case Rule.VALIDATED:
            return f"predicts better, step {gate.first_step}"


def _line(row: Problem) -> str:
    return f"{row.name:<20} {row.dimensions:>3}  {_box(row):<14} {_maximum(row):>13}  {row.provenance.value}"


def _box(row: Problem) -> str:
    sides = {(low, high) for low, high in zip(row.low, row.high, strict=True)}
    return "mixed" if len(sides) > 1 else "[{:g}, {:g}]".format(*sides.pop())


def _maximum(row: Problem) -> str:
    return f"{'' if row.maximum.proven else '≥ '}{row.maximum.value:.6g}"
