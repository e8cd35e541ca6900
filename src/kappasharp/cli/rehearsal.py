"""`kappasharp simulate`: a rehearsal of a study with a simulated person."""

from pathlib import Path

import click

from kappasharp.cli.output import columns, in_format, in_words, say, show
from kappasharp.cli.studies import question_option, storage_option, study_argument
from kappasharp.settings import PERSONS


def _persons(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in PERSONS if name.startswith(incomplete)]


@click.command()
@study_argument
@click.option("--questions", default=30, show_default=True, type=click.IntRange(1, 500), help="How many to answer.")
@click.option(
    "--person",
    default="paper",
    show_default=True,
    shell_complete=_persons,
    help=f"One of {', '.join(PERSONS)}.",
)
@click.option("--seed", default=0, show_default=True, help="Another seed is another person.")
@question_option
@in_format
@storage_option
def simulate(
    storage: str | None, study: str, questions: int, person: str, seed: int, style: str, *, question: str | None
) -> None:
    """Rehearse a STUDY with a simulated person: how sure after how many answers, how true.

    STUDY is a name or a TOML file; `--question` rehearses it with another kind than its own.

    The rehearsal runs in memory; the study itself is not touched.
    """
    from kappasharp.exchange import study_toml
    from kappasharp.problems import simulated_voters
    from kappasharp.rehearsal import rehearse
    from kappasharp.study.collection import existing, load_study
    from kappasharp.study.creation import asked_otherwise, define

    with in_words():
        who = simulated_voters.person(person)
        if study.endswith(".toml"):
            given = study_toml.read(Path(study))
            definition = define(given.space, **(given.options | ({} if question is None else {"question": question})))
        else:
            definition = load_study(study, storage=existing(storage)).definition
            definition = definition if question is None else asked_otherwise(definition, question)
        asked = "pairs" if definition.form.is_pair else f"questions ({definition.form})"
        say(f"A simulated person ({person}) with a hidden ideal answers {questions} {asked}.")
        rows = []
        for row in rehearse(definition, questions, who, seed):
            say(f"{row.answers:>4} answers: preferred to {row.preferred:.0%} (truly {row.truly_preferred:.0%})")
            rows.append(row._asdict())
    show(style, rows, columns([{name: _percent(name, value) for name, value in row.items()} for row in rows]))


def _percent(name: str, value: float) -> object:
    return value if name == "answers" else f"{value:.0%}"
