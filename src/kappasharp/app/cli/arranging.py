"""The commands that change a study beside answering it: parameters, team, note, invite, rename, delete.

What computes is imported where it is used: `--help` and the shell's completion come without torch.
"""

from dataclasses import asdict
from io import StringIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from kappasharp.app.cli.output import columns, in_format, in_words, say, show
from kappasharp.app.cli.studies import opened, shell_words, storage_option, study_argument, voter_option
from kappasharp.errors import DuplicateNameError, InvalidValueError, KappaSharpError
from kappasharp.sentences import count, text

if TYPE_CHECKING:
    from kappasharp.study.agreement import VoterTaste
    from kappasharp.study.bounds import Bounds
    from kappasharp.study.moment import Moment
    from kappasharp.study.storage import Record, Storage
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
    from kappasharp.study.parameters import SLACK

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
    from kappasharp.study import toml_file

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


def _value(study: "Study", name: str, word: str) -> Any:
    """A value as it is typed: a choice by its own text, else a number where it reads as one."""
    from kappasharp.study import toml_file

    part = study.space.tuned.get(name)
    texts = {} if part is None or part.values is None else {str(value): value for value in part.values}
    return texts.get(word, toml_file.value(word))


def _rows(now: "Moment", *, with_best: bool) -> list[dict[str, Any]]:
    """What is open of each tuned parameter; if wanted the best design's value, and how far it might be widened."""
    from kappasharp.study import computing
    from kappasharp.study.bounds import everything

    rows: dict[str, dict[str, Any]] = {}
    for name, part in now.space.tuned.items():
        bounds = now.space.open_to(name)
        rows[name] = {"name": name, "open": bounds.plain(), "words": _words(bounds), "ever": _words(everything(part))}
    if with_best and now.history.counted():
        best = now.best_params
        for name, row in rows.items():
            row |= {"best": best[name], "further": None}
        for edge in computing.changing.edges(now.space, best):
            rows[edge.name]["further"] = (edge.side, edge.further)
    return list(rows.values())


def _words(bounds: "Bounds") -> str:
    return str(bounds).removeprefix("one of ")


@click.command()
@study_argument
@click.option("--weigh", multiple=True, metavar="VOTER=NUMBER", help="How much a voter counts; the others keep theirs.")
@click.option("--count-alike", is_flag=True, help="Let all voters count alike again.")
@voter_option
@in_format
@storage_option
def team(storage: str | None, study: str, style: str, *, weigh: tuple[str, ...], count_alike: bool, voter: str) -> None:
    """What several voters have in common: who agrees with whom, what suits all and each.

    `--weigh` says how much a voter counts towards the best for all: 1 is usual, 0 not at all. It stays in the study.

    \b
    kappasharp team chair
    kappasharp team chair --weigh anna=2 --weigh ben=0.5
    """
    with in_words():
        held = opened(study, storage)
        if weigh and count_alike:
            raise InvalidValueError("`team` takes `--weigh` or `--count-alike`, but got both.")
        if weigh or count_alike:
            given = dict(_weight(word) for word in weigh)
            if len(given) < len(weigh):
                raise InvalidValueError(f"`--weigh` must name every voter once, but got {', '.join(weigh)}.")
            held.weigh(held.history.weights | given if weigh else None, voter=voter)
        found = held.agreement()
    rows = [
        {"voter": one.voter, "": _kind(one), "answers": one.answers, "weight": f"{one.weight:g}"}
        | {"group": None if one.group is None else one.group + 1, "best": one.best.option}
        | {"beats": f"{one.best.beats_random:.0%}", "common": f"{one.likes_best:.0%}"}
        | {"fairest": f"{one.likes_fairest:.0%}"}
        for one in found.voters
    ]
    sizes = (
        "beats, common, fairest: the designs that this voter likes less than their best, the common best, the fairest."
    )
    designs = {"best for all": found.best.params, "fairest": found.fairest.params}
    differing = [
        {"": name} | {word: text(design[name]) for word, design in designs.items()} for name in found.best.params
    ]
    lines = [*found.sentences, "", *columns(rows), sizes, "", *columns(differing)]
    show(style, asdict(found) | {"sentences": found.sentences}, lines)


def _weight(word: str) -> tuple[str, float]:
    name, _, number = word.rpartition("=")
    try:
        return name, float(number)
    except ValueError as error:
        raise InvalidValueError(f"`--weigh` must be VOTER=NUMBER, but got {word!r}.") from error


def _kind(one: "VoterTaste") -> str:
    return "program" if one.program else "predicted" if one.predicted else ""


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
    """Say something of a design that was seen, by its number; or list what was said.

    `kappasharp log` shows the numbers.

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
        history = found.history
        rows = [
            {"option": number, "voter": who, "note": said}
            for number, design in enumerate(history.options)
            for who, said in history.said_of(design).items()
        ]
    if not rows:
        say("There are no notes.")
    show(style, rows, columns(rows))


@click.command()
@study_argument
@click.option(
    "--role", type=click.Choice(["voter", "viewer", "owner"]), default="voter", show_default=True,
    help="A voter answers and changes own answers; a viewer looks on; an owner may change everything of the study.",
)  # fmt: skip
@click.option("--revoke", metavar="ID", help="End a link, and shut out those who came by it.")
@click.option("--list", "listing", is_flag=True, help="The links there are, and who came by them.")
@click.option("--address", metavar="URL", help="Where others find the page.  [default: where it was last served]")
@in_format
@storage_option
def invite(
    storage: str | None, study: str, style: str, *, role: str, revoke: str | None, listing: bool, address: str | None
) -> None:
    """Make a link that lets others into STUDY, with a role; list such links, or revoke one.

    The link is shown once: the database keeps no more than a digest of it. It works as long as the page is served.

    \b
    kappasharp invite chair
    kappasharp invite chair --role viewer --address https://taste.example.org
    kappasharp invite chair --list
    kappasharp invite chair --revoke 1f0c9a2b
    """
    from kappasharp.study import invites
    from kappasharp.study.studies import existing

    with in_words():
        if listing and revoke is not None:
            raise InvalidValueError("`invite` takes `--list` or `--revoke`, but got both.")
        database = existing(storage)
        record = opened(study, storage).stored if study.endswith(".toml") else database.find(study)
        if revoke is not None:
            invites.revoke(database, record, revoke)
            say("Revoked: it lets nobody in any more, and whoever came by it is shut out. Their answers are kept.")
            show(style, {"study": study, "revoked": revoke}, [])
        elif listing:
            found = invites.listed(database, record)
            rows = [one._asdict() | {"people": [person.name for person in one.people]} for one in found]
            if not rows:
                say(f"Nobody was invited to {study!r} yet.")
            show(style, rows, columns([row | {"people": _who(row["people"])} for row in rows]))
        else:
            _invite(database, record, role, address, style)


def _who(people: list[str | None]) -> str:
    """Those who came by a link, in few words; viewers have no names."""
    names = [text(one) for one in people if one is not None]
    nameless = len(people) - len(names)
    return ", ".join([*names, *([count(nameless, "viewer")] if nameless else [])]) or "–"


def _invite(database: "Storage", record: "Record", role: str, address: str | None, style: str) -> None:
    """Make a link and show it, for people as a QR code too."""
    import segno

    from kappasharp.app.cli.serve import served_at
    from kappasharp.app.web import access, connections
    from kappasharp.study import invites

    known = connections.checked_address(address) if address is not None else served_at(database)
    usual = f"http://127.0.0.1:{connections.PORT}"
    made, code = invites.make(database, record, role)
    link = access.link(known or usual, code)
    if style == "table":
        drawn = StringIO()
        segno.make_qr(link, error="l").terminal(out=drawn, border=2, compact=True)
        say(drawn.getvalue().rstrip("\n"))
    if known is None:
        say(f"Note: the page was not served from here yet, so this link is for {usual}; `--address` names another.")
    elif connections.is_local(urlsplit(known).hostname or ""):
        say("Note: this link works on this machine alone; `kappasharp serve --expose` lets others in.")
    say(
        f"Whoever has this link comes in as {'an' if role == 'owner' else 'a'} {role}. It is not shown again; "
        f"{shell_words('invite', record.name, '--revoke', made.id)} ends it."
    )
    show(style, {"study": record.name, "id": made.id, "role": role, "link": link}, [link])


@click.command()
@study_argument
@click.argument("name")
@in_format
@storage_option
def rename(storage: str | None, study: str, name: str, style: str) -> None:
    """Give STUDY another NAME; whoever has it open goes on with it."""
    from kappasharp.study.studies import existing, rename_study

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
    from kappasharp.study.studies import existing, list_studies

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
