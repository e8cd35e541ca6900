"""What commands print: data on stdout, as JSON or tables; talk on stderr; errors as one sentence with an exit code."""

import json
import math
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kappasharp.errors import DuplicateNameError, KappaSharpError, StalePairError, install_command
from kappasharp.messages.message import text

if TYPE_CHECKING:
    from kappasharp.journal.question import StudyQuestion
    from kappasharp.results.best import Best
    from kappasharp.space.space import Design
    from kappasharp.study.study import Study

# Beside click's own 0 (done) and 2 (bad input).
REFUSED, STALE = 1, 3

in_format = click.option(
    "-f", "--format", "style", type=click.Choice(["table", "json"]), default="table", show_default=True,
    help="For people, or for programs.",
)  # fmt: skip


# What Python's sentences call otherwise than the shell.
# Two places of a line that are no further apart read alike in a table.
READ_ALIKE = 5e-5
TYPED = (
    (r"`space\['(.+?)'\]`: ", r"`\1`: "),
    (r"`(?:Float|Int)\((low|high|step)=\.\.\.\)`", r"its \1"),
    (r"`(?:Float|Int)\(log=True\)`", "a range with `:log`"),
    (r"`(?:Float|Int)`", "a range"),
    (r"`Categorical`", "a list of choices"),
    (r"`Fixed\(value\)`", "`NAME=VALUE`"),
    (r"`space`", "A study"),
    (r"`study_name`", "NAME"),
    (r"`(narrow|widen)\('(.+?)'\)`", r"`--\1 \2`"),
    (r"`load_study\(\.\.\., outcomes=[^`]*`(?: or )?", ""),
    (r"`create_study\(\.\.\., outcomes=\[\.\.\.\]\)`", "`kappasharp new --outcomes NAMES`"),
    (r", and by `use_seconds`", ""),
    (r"`diagnostics`", "`kappasharp diagnose`"),
    (r"`study\.widen` and `study\.narrow` change", "`kappasharp parameters` changes"),
    (r"`study\.widen\('(.+?)', low=(.+?)\)`", r"`kappasharp parameters STUDY --widen \1=\2:`"),
    (r"`study\.widen\('(.+?)', high=(.+?)\)`", r"`kappasharp parameters STUDY --widen \1=:\2`"),
)  # fmt: skip


def typed(sentence: str) -> str:
    """A sentence of Python's in the words of the command that is run: its options, its arguments, other commands."""
    for python, shell in TYPED:
        sentence = re.sub(python, shell, sentence)
    context = click.get_current_context(silent=True)
    # Favourites of the command come before those of a file.
    from_words = context is None or bool(context.params.get("favourites")) or not _names_a_file(context)
    where = "--favourite" if from_words else "[[favourites]]"
    sentence = re.sub(r"`favourites\[(\d+)\]`", lambda found: f"`{where}` number {int(found[1]) + 1}", sentence)
    if context is not None and "question" in context.params:
        sentence = sentence.replace("`kind`", "`--question`")  # `kind` is an argument of `Study.ask` alone
    if context is None or _names_a_file(context):
        return sentence  # a study file has Python's names
    own: dict[str, str] = {}
    for one in context.command.params:
        spelled = f"`{one.opts[-1]}`" if isinstance(one, click.Option) else (one.metavar or str(one.name).upper())
        own |= {str(one.name): spelled} | {option.lstrip("-"): spelled for option in one.opts if option[:2] == "--"}
    group = context.find_root().command
    others = group.commands if isinstance(group, click.Group) else {}
    return re.sub(
        r"`(\w+)`",
        lambda found: own.get(found[1]) or (f"`kappasharp {found[1]}`" if found[1] in others else found[0]),
        sentence,
    )


def _names_a_file(context: click.Context) -> bool:
    return any(str(given).endswith(".toml") for given in context.params.values())


@contextmanager
def in_words() -> Iterator[None]:
    """Our own errors as a sentence without a traceback: 1 something outside refused, 2 bad input, 3 a stale pair."""
    try:
        yield
    except StalePairError as error:
        _end(str(error), STALE)
    except DuplicateNameError as error:
        # Its own sentence names Python's ways out.
        taken = str(error).partition(";")[0]
        raise click.UsageError(f"{taken}; take another name, or `kappasharp delete` that one first.") from error
    except KappaSharpError as error:
        if isinstance(error, OSError):
            # A database, a folder of results, a scheduler: nothing was wrong with how the command was used.
            _end(str(error), REFUSED)
        raise click.UsageError(typed(str(error))) from error
    except OSError as error:
        if error.filename is None:
            raise
        _end(f"{error.filename!r} cannot be read or written: {error.strerror}.", REFUSED)


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM, by which a cluster wants its node back or a system stops a service, ends what runs as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def with_extra(command: str, extra: str) -> Iterator[None]:
    """The sentence where a library of an extra is missing that a command imports here."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise click.UsageError(f"`kappasharp {command}` needs {error.name!r}: {install_command(extra)}.") from error


def _end(sentence: str, code: int) -> None:
    click.echo(f"Error: {typed(sentence)}", err=True)
    sys.exit(code)


def say(sentence: str) -> None:
    """Talk: never part of the data."""
    click.echo(sentence, err=True)


def show(style: str, data: Any, table: Sequence[str]) -> None:
    """The data: as JSON, or as lines for people."""
    if style == "json":
        click.echo(json.dumps(_finite(data), ensure_ascii=False, allow_nan=False))
        return
    for line in table:
        click.echo(line)


def _finite(data: Any) -> Any:
    """The same with null for what is no number: JSON has no word for it."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as a table of text, numbers to the right."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *([text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    return [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in cells
    ]


def question_table(shown: "StudyQuestion", study: "Study | None" = None, place: float | None = None) -> list[str]:
    """The designs of a question side by side; parameters in which they differ carry a mark. Then their outcomes.

    Args:
        shown: the question.
        study: where its outcomes are looked up; None for a table without.
        place: of a slider, one more to show than its designs, and the middle between two.
    """
    match shown.kind:
        case "slider":
            parts = len(shown.designs) - 1
            places = {number / parts for number in range(parts + 1)} | ({0.5} if parts == 1 else set())
            # A place that reads like that of a design is meant to be it.
            asked = {place} if place is not None and all(abs(place - one) > READ_ALIKE for one in places) else set()
            designs = {f"at {one:.4g}": shown.at(one) for one in sorted(places | asked)}
        case "choice" | "order":
            designs = {str(i): design for i, design in enumerate(shown.designs, 1)}
        case _:
            designs = {"A": shown.a, "B": shown.b}
    rows = [
        {"": "≠" if any(one[name] != shown.a[name] for one in shown.designs) else " ", "parameter": name}
        | {head: text(design[name]) for head, design in designs.items()}
        for name in shown.a
    ]
    return columns(rows + _outcome_rows(designs, study))


def _outcome_rows(designs: Mapping[str, "Design"], study: "Study | None") -> list[dict[str, str]]:
    """A row for each outcome; those that differ carry a mark, those that nobody knows a dash."""
    if study is None or study.definition.outcomes is None:
        return []
    found = {head: study.outcomes(design) or {} for head, design in designs.items()}
    rows = []
    for name in study.definition.outcomes.names:
        values = [one.get(name) for one in found.values()]
        cells = ["–" if value is None else text(value) for value in values]
        mark = {"": "≠" if len(set(values)) > 1 else " ", "parameter": f"→ {name}"}
        rows.append(mark | dict(zip(found, cells, strict=True)))
    return rows


def best_table(found: "Best") -> list[str]:
    """The best design, how sure that is, and what to do next."""
    width = max(len(name) for name in found.params)
    return [
        *(f"{name:<{width}}  {text(value)}" for name, value in found.params.items()),
        *(f"→ {name}  {text(value)}" for name, value in (found.outcomes or {}).items()),
        "",
        f"preferred to  {found.beats_random:.0%} of designs (the model's estimate)",
        f"room left     {found.room_left:.0%} of the way up",
        f"answers       {found.n_comparisons}",
        *([] if found.status == "ok" else [f"certificate   {found.status}"]),
        "",
        typed(str(found.advice)),
    ]


def as_voter(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A voter's name as studies know it: without the spaces around it."""
    return value and value.strip(" ")


def say_limits(study: "Study") -> None:
    """What is to be known of limits on outcomes before anybody answers: that they are left aside, or hardly kept."""
    if study.definition.outcomes is not None and study.definition.outcomes.limited:
        for note in study.notes():
            if note.key.startswith("note.limits"):
                say(f"Note: {note}")


def say_failures(study: "Study", designs: Sequence["Design"]) -> None:
    """Why designs have no outcomes though a function is to give them: each reason once in a command."""
    if study.definition.simulator is None:
        return
    said = click.get_current_context().meta.setdefault(f"{__name__}.said", set())
    known = [study.history.outcomes(design) for design in designs]
    reasons = [one.failure if one is not None and not one.runs else None for one in known]
    for reason in dict.fromkeys(filter(None, reasons)):
        if reason not in said:
            said.add(reason)
            lacking = [str(number) for number, own in enumerate(reasons, 1) if own == reason]
            whose = "" if len(lacking) == len(reasons) else f"of design {', '.join(lacking)} of {len(reasons)} "
            say(f"Note: there are no outcomes {whose}here. {reason}")
