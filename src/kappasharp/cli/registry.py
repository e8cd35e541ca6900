"""What there is to choose from, as tables and pages of text."""

from typing import TYPE_CHECKING, Any

import click

from kappasharp.cli.output import columns, in_format, in_words
from kappasharp.cli.output import show as put

if TYPE_CHECKING:
    from kappasharp.problems.problem import Problem
    from kappasharp.settings import Correction, Gate, Method


@click.group(invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="The variants too, which are not in the paper's grid.")
@in_format
@click.pass_context
def problems(context: click.Context, everything: bool, style: str) -> None:
    """The paper's eleven problems and the development set: dimension, bounds, maximum, provenance."""
    if context.invoked_subcommand is not None:
        return
    from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, VARIANTS

    tables = {"The paper's eleven": PROBLEMS, "The development set, to choose methods on": DEVELOPMENT}
    if everything:
        tables["Variants of the paper's"] = VARIANTS
    lines = [f"{'name':<20} {'d':>3}  {'bounds':<14} {'maximum':>13}  provenance"]
    for heading, rows in tables.items():
        lines += ["", f"{heading}:", *map(_line, rows.values())]
    lines += ["", "≥: the best found so far, nothing proves that there is no better."]
    data = [_problem_data(row) for rows in tables.values() for row in rows.values()]
    put(style, data, [*lines, "`kappasharp problems show NAME` prints a definition."])


@problems.command()
@click.argument("name")
@in_format
def show(name: str, style: str) -> None:
    """The definition of one problem."""
    from kappasharp.problems.registry import find_problem

    with in_words():
        row = find_problem(name)
    names = row.parameters or tuple(f"x{i + 1}" for i in range(row.dimensions))
    lines = [
        f"{row.name}  (version {row.version}, {row.provenance.value})",
        "",
        f"utility     {row.formula}",
        f"origin      {row.origin}",
        f"maximum     {_maximum(row).strip()}  ({row.maximum.source})",
        f"attained at {', '.join(f'{value:.6g}' for value in row.maximum.point)}",
        "",
        "parameters",
    ]
    sides = zip(names, row.low, row.high, strict=True)
    put(style, _problem_data(row), lines + [f"  {label:<48} {low:>8.4g} to {high:.4g}" for label, low, high in sides])


def _problem_data(row: "Problem") -> dict[str, Any]:
    names = row.parameters or tuple(f"x{i + 1}" for i in range(row.dimensions))
    return {
        "name": row.name,
        "version": row.version,
        "provenance": row.provenance.value,
        "dimensions": row.dimensions,
        "parameters": {label: [low, high] for label, low, high in zip(names, row.low, row.high, strict=True)},
        "maximum": row.maximum.value,
        "proven": row.maximum.proven,
        "point": list(row.maximum.point),
        "formula": row.formula,
        "origin": row.origin,
    }


@click.command()
@in_format
def methods(style: str) -> None:
    """Every method with its choices."""
    from kappasharp.lab.external.methods import PEERS
    from kappasharp.settings import METHODS

    rows = [
        {
            "name": name,
            "question": _question(row),
            "inference": row.inference.value,
            "correction": _correction(row.correction),
            "gate": _gate(row.gate),
            "query": row.query.value,
            "acquisition": row.acquisition.value,
        }
        for name, row in METHODS.items()
    ]
    peers = [
        {"name": name, **{key: getattr(one, key) for key in ("library", "versions", "summary")}}
        for name, one in PEERS.items()
    ]
    lines = [*columns(rows), "", "Other people's software, for `kappasharp run` (extras `peers`, `ax`):"]
    lines += [f"{one['name']:<20} {one['library']} {one['versions']}: {one['summary']}" for one in peers]
    note = "A new method is one row of settings.py, or `module:factory` of your own; an "
    note += "experiment may change a row's numbers (`variants`)."
    study = "A study takes those that ask a pair; `--question` of `kappasharp new` says what else it asks."
    put(style, {"methods": rows, "peers": peers}, [*lines, "", study, note])


def _question(row: "Method") -> str:
    """What is asked: a pair, the best of several, or another kind."""
    shown = f":{row.designs}" if row.designs > 2 else ""  # noqa: PLR2004
    return f"{row.kind.value}{shown}" if row.kind.value != "pair" or not shown else f"best of {row.designs}"


def _correction(choice: "Correction") -> str:
    from kappasharp.settings import Weights

    if choice.weights is Weights.NONE:
        return "none"
    return f"{choice.weights.value} in {choice.placement.value}, α = {choice.target_exponent:g}"


def _gate(gate: "Gate") -> str:
    from kappasharp.settings import Rule

    match gate.rule:
        case Rule.NEVER:
            return "never"
        case Rule.ALWAYS:
            return f"always, from step {gate.first_step}"
        case Rule.DECISIVE:
            return f"s̄ ≥ {gate.threshold:g}, from step {gate.first_step}"
        case Rule.VALIDATED:
            return f"predicts better, step {gate.first_step}"


def _line(row: "Problem") -> str:
    return f"{row.name:<20} {row.dimensions:>3}  {_box(row):<14} {_maximum(row):>13}  {row.provenance.value}"


def _box(row: "Problem") -> str:
    sides = {(low, high) for low, high in zip(row.low, row.high, strict=True)}
    return "mixed" if len(sides) > 1 else "[{:g}, {:g}]".format(*sides.pop())


def _maximum(row: "Problem") -> str:
    return f"{'' if row.maximum.proven else '≥ '}{row.maximum.value:.6g}"
