"""`kappasharp simulate`: a rehearsal with a simulated person, in memory, to see how many answers a study needs."""

from pathlib import Path

import click

from kappasharp.app.cli.output import in_format, in_words, say, show
from kappasharp.app.cli.studies import storage_option, study_argument
from kappasharp.app.tables import columns
from kappasharp.problems import oracle
from kappasharp.study import studies, toml_file
from kappasharp.study.definition import define
from kappasharp.study.rehearsal import rehearse


def _persons(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in oracle.PERSONS if name.startswith(incomplete)]


@click.command()
@study_argument
@click.option("--questions", default=30, show_default=True, type=click.IntRange(1, 500), help="How many to answer.")
@click.option(
    "--person",
    default="paper",
    show_default=True,
    shell_complete=_persons,
    help=f"One of {', '.join(oracle.PERSONS)}.",
)
@click.option("--seed", default=0, show_default=True, help="Another seed is another person.")
@in_format
@storage_option
def simulate(storage: str | None, study: str, questions: int, person: str, seed: int, style: str) -> None:
    """Rehearse a STUDY (a name or a TOML file) with a simulated person: how sure after how many answers, and how true.

    The rehearsal runs in memory; the study itself is not touched.
    """
    with in_words():
        who = oracle.person(person)
        if study.endswith(".toml"):
            given = toml_file.read(Path(study))
            definition = define(given.space, **given.options)
        else:
            definition = studies.load_study(study, storage=studies.existing(storage)).definition
        say(f"A simulated person ({person}) with a hidden ideal answers {questions} pairs.")
        rows = []
        for row in rehearse(definition, questions, who, seed):
            say(f"{row.answers:>4} answers: preferred to {row.preferred:.0%} (truly {row.truly_preferred:.0%})")
            rows.append(row._asdict())
    show(style, rows, columns([{name: _percent(name, value) for name, value in row.items()} for row in rows]))


def _percent(name: str, value: float) -> object:
    return value if name == "answers" else f"{value:.0%}"
