"""The commands of a study: new, studies, ask, tell, undo, best, log, export, import, diagnose, delete."""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from kappasharp.app import report, study_file
from kappasharp.app.words import columns, in_format, in_words, say, show, text
from kappasharp.errors import InvalidValueError, StalePairError
from kappasharp.study import studies as doors
from kappasharp.study.certainty import Best
from kappasharp.study.events import ANSWERS, DEFAULT_VOTER
from kappasharp.study.history import Pair
from kappasharp.study.study import Study

F = TypeVar("F", bound=Callable[..., Any])
PARTS_OF_A_RANGE = (2, 3)

storage_option = click.option(
    "--storage", envvar=doors.ENVIRONMENT, show_envvar=True,
    help=f"A database: sqlite:///file.db or postgresql+psycopg://…  [default: {doors.DEFAULT_STORAGE}]",
)  # fmt: skip
voter_option = click.option("--voter", default=DEFAULT_VOTER, show_default=True, help="Who is asked, or answers.")


def _names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Study names for the shell's completion."""
    with in_words():
        place = doors.storage_of(context.params.get("storage"))
    return [record.name for record in place.studies() if record.name.startswith(incomplete)]


study_argument = click.argument("study", shell_complete=_names)


def opened(name: str, storage: str | None) -> Study:
    """The study of that name, or of a study file: made if it is not there yet."""
    if name.endswith(".toml"):
        return from_file(Path(name), storage, load_if_exists=True)
    return doors.load_study(name, storage=storage)


def from_file(path: Path, storage: str | None, *, load_if_exists: bool) -> Study:
    """The study that a TOML file defines."""
    given = study_file.read(path)
    return doors.create_study(
        given.space, storage=storage, study_name=given.name, load_if_exists=load_if_exists, **given.options
    )


@click.command()
@click.argument("name")
@click.option("-p", "--param", "params", multiple=True, help="kp=0.2:3, ki=1e-3:2:log, n=int:1:8, mode=soft,hard, c=7.")
@click.option("--seed", type=int, help="Another seed asks other first pairs.")
@click.option("--method", help="A method of `kappasharp methods`.")
@click.option("--preset", help="paper, modern or dimension_scaled.")
@storage_option
def new(storage: str | None, name: str, params: tuple[str, ...], **options: Any) -> None:
    """Make a study: from NAME and parameters, or from a file NAME.toml."""
    with in_words():
        if name.endswith(".toml"):
            if params:
                raise InvalidValueError("`--param` must stand beside a name, but got it beside a file with parameters.")
            study = from_file(Path(name), storage, load_if_exists=False)
        else:
            given = {key: value for key, value in options.items() if value is not None}
            space = dict(_parameter(entry) for entry in params)
            study = doors.create_study(space, storage=storage, study_name=name, **given)
    say(f"Made in {study.storage.url}. `kappasharp ask {study.name}` gives the first pair.")
    click.echo(study.name)


def _parameter(entry: str) -> tuple[str, Any]:
    """One --param: a range low:high, with int: before or :log after it; choices by commas; or one value, fixed."""
    name, equals, given = entry.partition("=")
    if not equals or not name or not given:
        raise InvalidValueError(f"`--param` must be name=low:high or name=choice,choice, but got {entry!r}.")
    kind = "float"
    if given.startswith("int:"):
        kind, given = "int", given.removeprefix("int:")
    if ":" in given:
        parts = given.split(":")
        if len(parts) not in PARTS_OF_A_RANGE or parts[2:] not in ([], ["log"]):
            raise InvalidValueError(f"`--param` must be name=low:high or name=low:high:log, but got {entry!r}.")
        low, high = (_value(part) for part in parts[:2])
        return name, {"type": kind, "low": low, "high": high, "log": parts[2:] == ["log"]}
    choices = [_value(part) for part in given.split(",")]
    return name, choices if len(choices) > 1 else {"value": choices[0]}


def _value(word: str) -> Any:
    """A number where it reads as one."""
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        return number if math.isfinite(number) else word
    return word


@click.command()
@in_format
@storage_option
def studies(storage: str | None, style: str) -> None:
    """List the studies of a database."""
    with in_words():
        place = doors.storage_of(storage)
        found = [doors.load_study(record.name, storage=place) for record in place.studies()]
    rows = [
        {
            "name": one.name,
            "parameters": len(one.space.tuned),
            "answers": len(one.history.counted()),
            "voters": len({each.voter for each in one.history.comparisons.values()}),
            "method": one.definition.method_name,
            "created": one.record.created,
        }
        for one in found
    ]
    if not rows:
        say(f"No studies in {place.url} yet; `kappasharp new` makes one.")
    show(style, rows, columns(rows))


def pair_data(pair: Pair) -> dict[str, Any]:
    """A pair as plain data."""
    return {"pair": pair.number, "voter": pair.voter, "a": pair.a, "b": pair.b, "origin": pair.origin}


def pair_table(pair: Pair) -> list[str]:
    """A pair side by side; parameters in which the two differ carry a mark."""
    rows = [
        {
            "": "≠" if pair.a[name] != pair.b[name] else " ",
            "parameter": name,
            "A": text(pair.a[name]),
            "B": text(pair.b[name]),
        }
        for name in pair.a
    ]
    return columns(rows)


@click.command()
@study_argument
@voter_option
@in_format
@storage_option
def ask(storage: str | None, study: str, voter: str, style: str) -> None:
    """The pair to compare: the same again until it is answered."""
    with in_words():
        pair = opened(study, storage).ask(voter)
    say(f"Pair {pair.number}. `kappasharp tell {study} a|b|tie|skip` answers it.")
    show(style, pair_data(pair), pair_table(pair))


@click.command()
@study_argument
@click.argument("answer", type=click.Choice(ANSWERS, case_sensitive=False))
@click.option("--pair", type=int, help="The pair's number; by default the voter's open pair.")
@voter_option
@in_format
@storage_option
def tell(storage: str | None, study: str, answer: str, pair: int | None, voter: str, style: str) -> None:
    """Answer a pair: a, b, tie or skip. It is stored for good when the command ends."""
    with in_words():
        found = opened(study, storage)
        if pair is None:
            waiting = found.history.open_pair(voter)
            if waiting is None:
                raise StalePairError(f"No pair is open for {voter!r}; `kappasharp ask {study}` gives one.")
            pair = waiting.number
        done = found.tell(pair, answer)
    say("Saved.")
    data = {"event": done.event, "pair": done.pair, "voter": done.voter, "answer": done.answer}
    show(style, data, [f"pair {done.pair}: {done.answer}"])


@click.command()
@study_argument
@voter_option
@in_format
@storage_option
def undo(storage: str | None, study: str, voter: str, style: str) -> None:
    """Take back the voter's last answer; its pair is open again."""
    with in_words():
        pair = opened(study, storage).undo(voter)
    say("Taken back." if pair is None else f"Taken back; pair {pair.number} is open again.")
    show(style, None if pair is None else pair_data(pair), [] if pair is None else pair_table(pair))


def best_data(best: Best) -> dict[str, Any]:
    """The best design as plain data."""
    return asdict(best)


def best_table(best: Best) -> list[str]:
    """The best design for people."""
    width = max(len(name) for name in best.params)
    return [
        *(f"{name:<{width}}  {text(value)}" for name, value in best.params.items()),
        "",
        f"preferred to  {best.beats_random:.0%} of designs (the model's estimate)",
        f"room left     {best.room_left:.0%} of the way up",
        f"answers       {best.n_comparisons}",
        *([] if best.status == "ok" else [f"certificate   {best.status}"]),
        "",
        str(best.advice),
    ]


@click.command()
@study_argument
@in_format
@storage_option
def best(storage: str | None, study: str, style: str) -> None:
    """The best design so far, how sure that is, and what to do next."""
    with in_words():
        found = opened(study, storage).best
    show(style, best_data(found), best_table(found))


@click.command()
@study_argument
@in_format
@storage_option
def log(storage: str | None, study: str, style: str) -> None:
    """Every answer, the oldest first."""
    with in_words():
        rows = opened(study, storage).rows("comparisons")
    short = [{key: row[key] for key in ("event", "pair", "time", "voter", "answer", "a", "b")} for row in rows]
    show(style, rows, columns(short))


@click.command()
@study_argument
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--table", type=click.Choice(["comparisons", "options"]), default="comparisons", show_default=True)
@click.option("--through", type=int, help="As it was after this event; also opens a study that is damaged later on.")
@storage_option
def export(storage: str | None, study: str, path: Path, table: str, through: int | None) -> None:
    """Write a study: .json all of it, .csv and .parquet one table, .html a report with pictures."""
    with in_words():
        found = opened(study, storage) if through is None else doors.load_study(study, storage=storage, through=through)
        written = report.write_html(found, path) if path.suffix == ".html" else found.export(path, table=table)
    click.echo(written)


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", help="By default the name in the file.")
@storage_option
def import_(storage: str | None, path: Path, name: str | None) -> None:
    """Make a study of a JSON file that `export` wrote."""
    with in_words():
        found = doors.import_json(path, storage=storage, study_name=name)
    say(f"{len(found.history.counted())} answers.")
    click.echo(found.name)


@click.command()
@study_argument
@in_format
@storage_option
def diagnose(storage: str | None, study: str, style: str) -> None:
    """What the answers determine, how the model stands, where they contradict each other."""
    with in_words():
        found = opened(study, storage).diagnostics()
    show(style, asdict(found), str(found).splitlines())


@click.command()
@study_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@storage_option
def delete(storage: str | None, study: str, yes: bool) -> None:
    """Remove a study with all its answers, for good."""
    with in_words():
        found = doors.load_study(study, storage=storage)
        count = len(found.history.counted())
        if not yes:
            click.confirm(f"Remove {study!r} with {count} answers for good?", abort=True, err=True)
        doors.delete_study(study, storage=storage)
    say(f"Removed {study!r}.")


COMMANDS = (new, studies, ask, tell, undo, best, log, export, import_, diagnose, delete)
