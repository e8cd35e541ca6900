"""The commands of a study but those that ask: new, studies, best, log, export, import, rename, delete, check, backup.

What computes is imported where it is used: `--help` and the shell's completion come without torch.
"""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from kappasharp.cli.output import REFUSED, as_voter, best_table, columns, in_format, in_words, say, show, typed
from kappasharp.errors import DuplicateNameError, InvalidValueError, KappaSharpError, needed
from kappasharp.messages.message import count
from kappasharp.settings import DEFAULT_STORAGE, DEFAULT_VOTER, ENVIRONMENT

if TYPE_CHECKING:
    from kappasharp.exchange.tables import Rows
    from kappasharp.journal.definition import Options
    from kappasharp.journal.history import History
    from kappasharp.store.storage import Storage
    from kappasharp.study.study import Study


def _names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Study names for the shell's completion; none, and not a word, where there is no database."""
    from kappasharp.store import schema

    try:
        found = schema.study_names(context.params.get("storage"))
    except KappaSharpError:
        return []
    return [name for name in found if name.startswith(incomplete)]


study_argument = click.argument("study", shell_complete=_names)

storage_option = click.option(
    "--storage", envvar=ENVIRONMENT, show_envvar=True,
    help=f"A database: sqlite:///file.db or postgresql+psycopg://…  [default: {DEFAULT_STORAGE}]",
)  # fmt: skip


@click.command()
@study_argument
@click.argument("name")
@in_format
@storage_option
def rename(storage: str | None, study: str, name: str, style: str) -> None:
    """Give STUDY another NAME; whoever has it open goes on with it."""
    from kappasharp.study.collection import existing, rename_study

    with in_words():
        try:
            found = rename_study(study, name, storage=existing(storage))
        except DuplicateNameError as error:
            raise InvalidValueError(str(error)) from error
    say(f"Renamed {study!r}.")
    show(style, {"study": found.name, "storage": found.storage.url}, [found.name])


@click.command()
@study_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_format
@storage_option
def delete(storage: str | None, study: str, yes: bool, style: str) -> None:
    """Remove a study with all its answers, for good."""
    from kappasharp.study.collection import existing, list_studies

    with in_words():
        database = existing(storage)
        record = database.find(study)
        answers = next(one.answers for one in list_studies(storage=database) if one.name == study)
        if not yes:
            what = "all its answers" if answers is None else count(answers, "answer")
            click.confirm(f"Remove {study!r} with {what} for good?", abort=True, err=True)
        database.delete(record)
    say(f"Removed {study!r}.")
    show(style, {"study": study, "answers": answers}, [])


question_option = click.option(
    "--question", metavar="KIND",
    help="pair, choice, order, slider or rating; order:5 has five, slider:2 is straight.  [default: the study's own]",
)  # fmt: skip
# What our own examples compute, by name: nobody else's code.
OUR_OWN_OUTCOMES = ("kappasharp.app.examples.pid:outcomes",)
outcomes_option = click.option(
    "--outcomes", metavar="MODULE:FUNCTION",
    help="What computes the outcomes of the study: a function that is in no study file is run only when named here.",
)  # fmt: skip
WHO = "Who is asked, or answers."
voter_option = click.option("--voter", default=DEFAULT_VOTER, show_default=True, callback=as_voter, help=WHO)


def opened(name: str, storage: str | None, through: int | None = None, outcomes: str | None = None) -> "Study":
    """The study of that name, or of a study file: made if it is not there yet.

    A function of outcomes is run if the file or `outcomes` names it, never because a database does, unless it is an
    example of our own; where it is missing a sentence says so.
    """
    from kappasharp.simulators import records
    from kappasharp.study.collection import existing, load_study

    if name.endswith(".toml") and through is None:
        found = from_file(Path(name), storage, load_if_exists=True, function=outcomes)
        if not found.history.number:
            say(f"Note: nothing was asked in the study {found.name!r} yet.")
        return found
    found = load_study(name, storage=existing(storage), through=through, outcomes=outcomes)
    named = None if found.definition.outcomes is None else found.definition.outcomes.function
    if outcomes is None and named in OUR_OWN_OUTCOMES:
        found = load_study(name, storage=existing(storage), through=through, outcomes=named)
    if (missing := records.missing_function(found.definition)) is not None:
        say(f"Note: {missing}")
    return found


def shell_words(command: str, study: str, *words: str) -> str:
    """A command as the shell takes it."""
    return f"`kappasharp {command} {shlex.join([study, *words])}`"


def from_file(
    path: Path,
    storage: "str | Storage | None",
    *,
    load_if_exists: bool,
    function: str | None = None,
    **options: "Unpack[Options]",
) -> "Study":
    """The study that a TOML file defines; options, and a function of outcomes, come before those of the file."""
    from kappasharp.exchange import study_toml
    from kappasharp.study.collection import create_study

    given = study_toml.read(path)
    if function is not None:
        said = given.options.get("outcomes")
        options["outcomes"] = {**said, "function": function} if isinstance(said, dict) else function
    found = create_study(
        given.space, storage=storage, study_name=given.name, load_if_exists=load_if_exists, **(given.options | options)
    )
    for sentence in given.unheard(found.name, found.definition) if load_if_exists else ():
        say(f"Note: {sentence}")
    return found


@click.command()
@click.argument("name")
@click.option("-p", "--param", "params", multiple=True, help="kp=0.2:3, ki=1e-3:2:log, n=int:1:8, mode=soft,hard, c=7.")
@click.option("--seed", type=int, help="Another seed asks other first pairs.")
@click.option("--method", help="A method of `kappasharp methods`.")
@click.option("--preset", help="modern, local, paper or dimension_scaled.")
@click.option(
    "--question",
    help="What is usually asked: pair, choice, order, slider, rating or auto; order:5 has five.",
)
@click.option(
    "--favourite", "favourites", multiple=True, metavar="NAME=VALUE,…",
    help="A design to start from, every parameter of it; more than once for several.",
)  # fmt: skip
@click.option("--limit", "limits", multiple=True, help="What no design may break, such as 'a + b <= 1'.")
@click.option(
    "--outcomes",
    metavar="MODULE:FUNCTION|NAMES",
    help="What people judge by: a function that computes it, or names such as comfort,mass that `record` gives.",
)
@click.option("--render", metavar="MODULE:FUNCTION", help="What draws a design on the page: render(params).")
@in_format
@storage_option
def new(
    storage: str | None,
    name: str,
    params: tuple[str, ...],
    style: str,
    *,
    outcomes: str | None,
    limits: tuple[str, ...],
    favourites: tuple[str, ...],
    **options: Any,
) -> None:
    """Make a study: from NAME and parameters, or from a file NAME.toml."""
    from kappasharp.exchange import study_toml

    given = {key: value for key, value in options.items() if value is not None}
    given |= {"limits": list(limits)} if limits else {}
    with in_words():
        given |= {"favourites": [study_toml.design(one) for one in favourites]} if favourites else {}
        if name.endswith(".toml"):
            if params:
                raise InvalidValueError("`--param` must stand beside a name, but got it beside a file with parameters.")
            study = from_file(Path(name), storage, load_if_exists=False, function=outcomes, **given)
        elif not params:
            raise InvalidValueError("A study needs parameters: `--param kp=0.2:3`, more than once, or a NAME.toml.")
        else:
            from kappasharp.study.collection import create_study

            space = study_toml.parameters(params)
            what = outcomes if outcomes is None or ":" in outcomes else [one.strip() for one in outcomes.split(",")]
            study = create_study(space, storage=storage, study_name=name, outcomes=what, **given)
    say(f"Made in {study.storage.url}. {shell_words('ask', study.name)} gives the first {_usual(study)}.")
    declared = study.definition.outcomes
    if declared is not None and not declared.is_computed:
        say(f"Outcomes are measured: {shell_words('record', study.name)} takes {', '.join(declared.names)}.")
    show(style, {"study": study.name, "storage": study.storage.url} | study.definition.plain(), [study.name])


def _usual(study: "Study") -> str:
    """What is usually asked, in a word."""
    return "pair" if study.definition.form.is_pair and not study.definition.is_auto else "question"


@click.command()
@in_format
@storage_option
def studies(storage: str | None, style: str) -> None:
    """List the studies of a database: answers, voters, when the last answer came."""
    from kappasharp.study.collection import list_studies

    with in_words():
        found = list_studies(storage=storage)
    for one in found:
        if one.trouble is not None:
            say(f"Error: {one.trouble}")
    names = ("name", "parameters", "answers", "voters", "programs", "last_answer", "method", "created")
    rows = [{name: getattr(one, name) for name in names} for one in found]
    if not rows:
        say("No studies there yet; `kappasharp new` makes one.")
    show(style, rows, columns(rows))


@click.command()
@study_argument
@outcomes_option
@click.option("--for", "voter", help="The best for one voter, told apart from the others by their own answers.")
@in_format
@storage_option
def best(storage: str | None, study: str, style: str, *, outcomes: str | None, voter: str | None) -> None:
    """The best design so far, how sure that is, and what to do next."""
    from kappasharp.simulators import records

    with in_words():
        held = opened(study, storage, outcomes=outcomes).moment()
        found, notes = held.best if voter is None else held.best_for(voter), held.notes()
    already = records.missing_function(held.definition)  # which `opened` has said
    for note in [*(note for note in notes if note != already), *found.notes]:
        say(f"Note: {typed(str(note))}")
    show(style, asdict(found), best_table(found))


@click.command()
@study_argument
@in_format
@storage_option
def log(storage: str | None, study: str, style: str) -> None:
    """Every answer, the oldest first.

    An answer about several designs counts them from 1, as they were shown; with `-f json` from 0. A column for each of
    them, and `first`, hold their numbers in the study, which `note` and `record --option` take.
    """
    with in_words():
        found = opened(study, storage)
        now = found.moment()
        rows = now.rows("comparisons")
        short = _log_table(rows, now.history)
    if not rows:
        say(f"No answers yet; {shell_words('ask', study)} gives the first {_usual(found)}.")
    if style == "table" and any(row.get("kind") in ("choice", "order") for row in rows):
        say("An answer counts designs from 1; their columns, and `first`, hold their numbers in the study, from 0.")
    show(style, rows, columns(short))


def _log_table(rows: "Rows", history: "History") -> "Rows":
    """The rows as people read them, with the designs of a question in columns that are called as its answers do."""
    from kappasharp.cli import answer_keys

    told = history.comparisons
    heads = answer_keys.heads([told[row["event"]].form for row in rows])
    names = ("event", "pair", "time", "voter", "program", "kind", "answer", "first")
    return [
        {key: row[key] for key in names if key in row}
        | {"answer": answer_keys.short(told[row["event"]].form, told[row["event"]].answer)}
        | {head: row[letter] for letter, head in heads.items()}
        | {
            f"{heads[letter]} {outcome}": value
            for letter, mark, outcome, value in ((*key.partition("_outcomes_"), value) for key, value in row.items())
            if mark and letter in heads
        }
        for row in rows
    ]


@click.command()
@study_argument
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--table", type=click.Choice(["comparisons", "options"]), default="comparisons", show_default=True)
@click.option("--through", type=int, help="As it was after this event; also opens a study that is damaged later on.")
@outcomes_option
@click.option("--render", metavar="MODULE:FUNCTION", help="What draws the designs for a report: render(params).")
@in_format
@storage_option
def export(
    storage: str | None, study: str, path: Path, style: str, *, table: str, through: int | None, outcomes: str | None,
    render: str | None,
) -> None:  # fmt: skip
    """Write a study: .json all of it, .csv and .parquet one table, .html a report with pictures."""
    with in_words():
        found = opened(study, storage, through, outcomes)
        # A study file that is named here is allowed with all that it names; a name in a database is not run by itself.
        drawn = render or (found.definition.render if study.endswith(".toml") else None)
        pictures = path.suffix == ".html" and drawn is not None
        written = _drawn_report(found, path, str(drawn)) if pictures else found.export(path, table=table)
    show(style, {"study": found.name, "path": str(written)}, [str(written)])


def _drawn_report(study: "Study", path: Path, renderer: str) -> Path:
    """A report with the pictures of the designs."""
    from kappasharp.processes import stdout_apart
    from kappasharp.views import report
    from kappasharp.web import pictures as web_pictures

    with stdout_apart():
        now = study.moment()
        pictures = {option: web_pictures.draw(renderer, design) for option, design in report.pictured(now).items()}
    return report.write_html(now, path, pictures=pictures)


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", help="Of the study that is made; by default the name in the file.")
@click.option("--study", shell_complete=_names, help="Of a CSV file: the study that its comparisons are added to.")
@voter_option
@in_format
@storage_option
def import_(storage: str | None, path: Path, style: str, *, name: str | None, study: str | None, voter: str) -> None:
    """Make a study of a JSON file that `export` wrote, or add past comparisons from a CSV file to a STUDY.

    A CSV file has columns a.NAME and b.NAME for each parameter, and answer: a, b or tie; what `export` wrote is read
    too. Every bad line is named, and nothing is stored unless all are right.

    \b
    kappasharp import chair.json
    kappasharp import past.csv --study chair
    """
    if path.suffix == ".csv" or study is not None:
        _import_csv(storage, path, study, voter, style)
        return
    from kappasharp.study.collection import import_json

    with in_words():
        try:
            found = import_json(path, storage=storage, study_name=name)
        except DuplicateNameError as error:
            raise InvalidValueError(
                "A study of that name is already there; `--name` gives the imported one another."
            ) from error
    answers = len(found.history.counted())
    say(f"Made in {found.storage.url}, with {count(answers, 'answer')}.")
    show(style, {"study": found.name, "storage": found.storage.url, "answers": answers}, [found.name])


def _import_csv(storage: str | None, path: Path, study: str | None, voter: str, style: str) -> None:
    with in_words():
        if study is None:
            raise InvalidValueError(f"A CSV file is added to a study: `kappasharp import {path} --study NAME`.")
        held = opened(study, storage)
        found = held.import_csv(path, voter=voter)
    skipped = f"; {count(found.skips, 'skip')} left out" if found.skips else ""
    say(f"Added {count(found.comparisons, 'comparison')} from {count(found.answers, 'answer')}{skipped}.")
    show(style, {"study": held.name} | found._asdict(), [held.name])


@click.command()
@study_argument
@outcomes_option
@in_format
@storage_option
def diagnose(storage: str | None, study: str, style: str, *, outcomes: str | None) -> None:
    """What the answers determine, how the model stands, where they contradict each other."""
    with in_words():
        found = opened(study, storage, outcomes=outcomes).diagnostics()
    show(style, asdict(found), str(found).splitlines())


@click.command()
@click.argument("study", required=False, shell_complete=_names)
@click.option("--accept", is_flag=True, help="Take an older copy that was put back as it is, once, and note it.")
@in_format
@storage_option
def check(storage: str | None, study: str | None, style: str, *, accept: bool) -> None:
    """Read every event of STUDY, or of all studies, and say what is damaged; nothing is changed without --accept.

    STUDY may also be a Parquet file that `export` wrote.
    """
    from kappasharp.study import collection
    from kappasharp.study.collection import existing

    if accept:
        _accept(storage, study)
    if study is not None and study.endswith(".parquet") and Path(study).is_file():
        with in_words():
            needed("kappasharp.parquet", "A Parquet file", "lab").check_parquet(Path(study))
        return show(style, {"file": study, "whole": True}, [f"{study} is whole."])
    with in_words():
        database = existing(storage)
        troubles = database.troubles()
        found = collection.check(database, study)
    for sentence in [f"The file: {one}" for one in troubles] + [one.damage for one in found if one.damage]:
        say(f"Error: {sentence}")
    for note in (one.note for one in found if one.note):
        say(f"Note: {note}")
    rows = [{"study": one.study, "events": one.events, "whole": one.damage is None} for one in found]
    show(style, {"file": troubles, "studies": [asdict(one) for one in found]}, columns(rows))
    if troubles or any(one.damage for one in found):
        raise click.exceptions.Exit(REFUSED)


def _accept(storage: str | None, study: str | None) -> None:
    """Say what is given up of a copy that is taken as it is."""
    from kappasharp.study.collection import accept_copy

    with in_words():
        if study is not None:
            raise InvalidValueError("`--accept` takes the whole database as it is: it must stand without a study.")
        found = accept_copy(storage=storage)
    for one in found:
        left = "nothing of it is left" if one.left is None else f"{one.left} are left"
        say(f"Accepted: the study {one.study!r} had {count(one.had, 'event')}, {left}. That is noted.")
    if not found:
        say("Nothing is missing: there is nothing to accept.")


@click.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@in_format
@storage_option
def backup(storage: str | None, path: Path, style: str) -> None:
    """Copy the whole database (SQLite) to the new file PATH, while others go on answering."""
    from kappasharp.study.collection import existing

    with in_words():
        database = existing(storage)
        database.back_up(path)
    say(f"Copied. `kappasharp check --storage sqlite:///{path}` checks the copy.")
    show(style, {"path": str(path), "storage": database.url}, [str(path)])


COMMANDS = (new, studies, best, log, export, import_, diagnose, check, backup)
