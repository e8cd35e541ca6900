"""The commands that change a study beside answering it: parameters, note, rename, delete."""

from typing import Any

import click

from kappasharp.app.cli.output import columns, in_format, in_words, say, show, text
from kappasharp.app.cli.studies import opened, storage_option, study_argument, voter_option
from kappasharp.app.report import count
from kappasharp.errors import DuplicateNameError, InvalidValueError
from kappasharp.study import changing, toml_file
from kappasharp.study.bounds import Bounds, everything
from kappasharp.study.studies import existing, list_studies, rename_study
from kappasharp.study.study import Study


@click.command()
@study_argument
@click.option("--narrow", multiple=True, metavar="NAME=LOW:HIGH", help="Ask about this part only; choices by commas.")
@click.option("--lock", multiple=True, metavar="NAME=VALUE", help="Ask about one value only.")
@click.option("--widen", multiple=True, metavar="NAME=LOW:HIGH", help="Open more; NAME alone opens all that ever was.")
@voter_option
@in_format
@storage_option
def parameters(
    storage: str | None,
    study: str,
    style: str,
    *,
    narrow: tuple[str, ...],
    lock: tuple[str, ...],
    widen: tuple[str, ...],
    voter: str,
) -> None:
    """What is open of each parameter, and changes of it: answers stay, `kappasharp undo` takes a change back.

    \b
    kappasharp parameters chair --narrow width=38:44 --lock material=oak
    kappasharp parameters chair --widen width=:60
    """
    with in_words():
        found = opened(study, storage)
        for word in narrow:
            name, given = _range(found, word)
            found.narrow(name, **given, voter=voter)
        for word in lock:
            name, equals, value = word.partition("=")
            if not equals:
                raise InvalidValueError(f"`--lock` must be NAME=VALUE, but got {word!r}.")
            found.lock(name, _value(found, name, value), voter=voter)
        for word in widen:
            name, given = _range(found, word)
            found.widen(name, **given, voter=voter)
        rows = _rows(found)
    for row in rows:
        if row["further"] is not None:
            side, end = row["further"]
            ends = f"{end}:" if side == "low" else f":{end}"
            say(
                f"Note: the best design has {row['name']} = {text(row['best'])}, at the end of what is open; "
                f"`kappasharp parameters {study} --widen {row['name']}={ends}` opens more."
            )
    short = [{"parameter": row["name"], "open": row["words"], "ever open": row["ever"]} for row in rows]
    with_best = [one | {"best": text(row["best"])} for one, row in zip(short, rows, strict=True)]
    show(style, [_data(row) for row in rows], columns(with_best if found.history.counted() else short))


def _range(study: Study, word: str) -> tuple[str, dict[str, Any]]:
    """What name=low:high, name=:high or name=a,b says; a name alone says nothing more."""
    name, equals, given = word.partition("=")
    if not equals:
        return name, {}
    part = study.space.tuned.get(name)
    if part is not None and part.values is not None and ":" not in given:
        return name, {"choices": [_value(study, name, one.strip()) for one in given.split(",")]}
    low, colon, high = given.partition(":")
    if not colon or not (low or high):
        raise InvalidValueError(f"A range must be NAME=LOW:HIGH, one of the two left out or not, but got {word!r}.")
    return name, {key: toml_file.value(end) for key, end in (("low", low), ("high", high)) if end}


def _value(study: Study, name: str, word: str) -> Any:
    """A value as it is typed: a choice by its own text, else a number where it reads as one."""
    part = study.space.tuned.get(name)
    texts = {} if part is None or part.values is None else {str(value): value for value in part.values}
    return texts.get(word, toml_file.value(word))


def _rows(study: Study) -> list[dict[str, Any]]:
    """What is open of each tuned parameter, the best design's value, and how far it might be widened."""
    best = study.best_params if study.history.counted() else None
    edges = {} if best is None else {edge.name: edge for edge in changing.edges(study.space, best)}
    rows = []
    for name, part in study.space.tuned.items():
        now, edge = study.space.open_to(name), edges.get(name)
        ever = _words(everything(part))
        rows.append(
            {"name": name, "open": now.plain(), "words": _words(now), "ever": ever}
            | {"best": None if best is None else best[name]}
            | {"further": None if edge is None else (edge.side, edge.further)}
        )
    return rows


def _words(bounds: Bounds) -> str:
    return str(bounds).removeprefix("one of ")


def _data(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": row["name"], "open": row["open"], "best": row["best"], "further": row["further"]}


@click.command()
@study_argument
@click.argument("option", type=int, required=False)
@click.argument("words", required=False)
@click.option("--forget", is_flag=True, help="Take back what this voter said of the design.")
@voter_option
@in_format
@storage_option
def note(
    storage: str | None, study: str, option: int | None, words: str | None, style: str, *, forget: bool, voter: str
) -> None:
    """Say something of a design that was seen, by its number (`kappasharp log` shows them); without, list all notes.

    \b
    kappasharp note chair 7 "too low for the desk"
    kappasharp note chair
    """
    with in_words():
        found = opened(study, storage)
        options = found.history.options
        if option is not None:
            if not 0 <= option < len(options):
                raise InvalidValueError(f"OPTION must be one of the {len(options)} designs seen, but got {option}.")
            if forget == (words is not None):
                raise InvalidValueError("`note` takes a text, or `--forget`, but got both or neither.")
            found.note(options[option], None if forget else words, voter=voter)
            say("Taken back." if forget else "Noted.")
        rows = [
            {"option": number, "voter": who, "note": said}
            for number, design in enumerate(options)
            for who, said in found.history.said_of(design).items()
        ]
    if not rows:
        say("There are no notes.")
    show(style, rows, columns(rows))


@click.command()
@study_argument
@click.argument("name")
@in_format
@storage_option
def rename(storage: str | None, study: str, name: str, style: str) -> None:
    """Give STUDY another NAME; whoever has it open goes on with it."""
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


COMMANDS = (parameters, note, rename, delete)
