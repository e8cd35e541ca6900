"""`kappasharp parameters`: shows them, and narrows, locks or widens several in one call.

What computes is imported where it is used: `--help` and the shell's completion come without torch.
"""

from typing import TYPE_CHECKING, Any

import click

from kappasharp.cli.output import columns, in_format, in_words, say, show
from kappasharp.cli.studies import opened, shell_words, storage_option, study_argument, voter_option
from kappasharp.errors import InvalidValueError, KappaSharpError
from kappasharp.messages.message import text

if TYPE_CHECKING:
    from kappasharp.analysis import Moment
    from kappasharp.space.bounds import Bounds
    from kappasharp.study.study import Study


@click.command()
@study_argument
@click.option("--narrow", multiple=True, metavar="NAME=LOW:HIGH", help="Ask about this part only; choices by commas.")
@click.option("--lock", multiple=True, metavar="NAME=VALUE", help="Ask about one value only.")
@click.option("--widen", multiple=True, metavar="NAME=LOW:HIGH", help="Open more; NAME alone opens all that ever was.")
@click.option("--best", is_flag=True, help="Say too what the best design has, and where that is at an end.")
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
    best: bool,
    voter: str,
) -> None:
    """What is open of each parameter; narrow, lock or widen one.

    Answers stay, and `kappasharp undo` takes a change back, of several in one command one at a time.

    \b
    kappasharp parameters chair --narrow width=38:44 --lock material=oak
    kappasharp parameters chair --widen width=:60
    """
    with in_words():
        found = opened(study, storage)
        _change(found, {"narrow": narrow, "lock": lock, "widen": widen}, voter)
        many = len(narrow) + len(lock) + len(widen)
        between = _between_steps(found, (*narrow, *widen))
        rows = _rows(found.moment(), with_best=best)
    if many > 1:
        # Each is an event of its own, in the history and for whoever looks on.
        say(f"Made {many} changes; {shell_words('undo', study)} takes back one at a time, the last first.")
    for sentence in between:
        say(f"Note: {sentence}")
    for row in rows:
        if row.get("further") is not None:
            side, end = row["further"]
            ends = f"{end}:" if side == "low" else f":{end}"
            say(
                f"Note: the best design has {row['name']} = {text(row['best'])}, at or close to the end of what is "
                f"open; `kappasharp parameters {study} --widen {row['name']}={ends}` opens more."
            )
    short = [
        {"parameter": row["name"], "open": row["words"], "ever open": row["ever"]}
        | ({"best": text(row["best"])} if "best" in row else {})
        for row in rows
    ]
    show(style, [{key: row[key] for key in row if key not in ("words", "ever")} for row in rows], columns(short))


def _change(study: "Study", wanted: dict[str, tuple[str, ...]], voter: str) -> None:
    """Make every change, or none: where one is refused, those before it are taken back."""
    done = 0
    try:
        for word in wanted["narrow"]:
            name, given = _range(study, word)
            study.narrow(name, **given, voter=voter)
            done += 1
        for word in wanted["lock"]:
            name, equals, value = word.partition("=")
            if not equals:
                raise InvalidValueError(f"`--lock` must be NAME=VALUE, but got {word!r}.")
            study.lock(name, _value(study, name, value), voter=voter)
            done += 1
        for word in wanted["widen"]:
            name, given = _range(study, word)
            study.widen(name, **given, voter=voter)
            done += 1
    except KappaSharpError:
        for _ in range(done):
            study.undo(voter)
        raise


def _between_steps(study: "Study", words: tuple[str, ...]) -> list[str]:
    """A sentence for each end that was given between two steps of its parameter: the step inside of it is the end."""
    from kappasharp.space.parameters import SLACK

    given = {(name, side): end for name, ends in (_range(study, word) for word in words) for side, end in ends.items()}
    told = []
    for (name, side), end in given.items():
        step = getattr(study.space.tuned[name], "step", None)
        now = study.space.open_to(name)
        # A choice has no steps; and what a later word of the same command moved further is not this one's doing.
        if side == "choices" or step is None or not SLACK * step < abs(getattr(now, side) - end) < step:
            continue
        where = f"from {now.low:g}, the first after" if side == "low" else f"to {now.high:g}, the last before"
        told.append(f"{name} goes in steps of {step:g}: it is open {where} {end:g}.")
    return told


def _range(study: "Study", word: str) -> tuple[str, dict[str, Any]]:
    """What name=low:high, name=:high or name=a,b says; a name alone says nothing more."""
    from kappasharp.exchange import study_toml

    name, equals, given = word.partition("=")
    if not equals:
        return name, {}
    part = study.space.tuned.get(name)
    if part is not None and part.values is not None and ":" not in given:
        return name, {"choices": [_value(study, name, one.strip()) for one in given.split(",")]}
    low, colon, high = given.partition(":")
    if not colon or not (low or high):
        raise InvalidValueError(f"A range must be NAME=LOW:HIGH, one of the two left out or not, but got {word!r}.")
    return name, {key: study_toml.value(end) for key, end in (("low", low), ("high", high)) if end}


def _value(study: "Study", name: str, word: str) -> Any:
    """A value as it is typed: a choice by its own text, else a number where it reads as one."""
    from kappasharp.exchange import study_toml

    part = study.space.tuned.get(name)
    texts = {} if part is None or part.values is None else {str(value): value for value in part.values}
    return texts.get(word, study_toml.value(word))


def _rows(now: "Moment", *, with_best: bool) -> list[dict[str, Any]]:
    """What is open of each tuned parameter; if wanted the best design's value, and how far it might be widened."""
    from kappasharp.space.bounds import everything
    from kappasharp.space.space import edges

    rows: dict[str, dict[str, Any]] = {}
    for name, part in now.space.tuned.items():
        bounds = now.space.open_to(name)
        rows[name] = {"name": name, "open": bounds.plain(), "words": _words(bounds), "ever": _words(everything(part))}
    if with_best and now.history.counted():
        best = now.best_params
        for name, row in rows.items():
            row |= {"best": best[name], "further": None}
        for edge in edges(now.space, best):
            rows[edge.name]["further"] = (edge.side, edge.further)
    return list(rows.values())


def _words(bounds: "Bounds") -> str:
    return str(bounds).removeprefix("one of ")
