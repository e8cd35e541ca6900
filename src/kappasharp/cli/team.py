"""The commands about people: `team` (who agrees with whom, weights), `note` on a design, and `invite` to the page.

What computes is imported where it is used: `--help` and the shell's completion come without torch.
"""

from dataclasses import asdict
from io import StringIO
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from kappasharp.cli.output import columns, in_format, in_words, say, show
from kappasharp.cli.studies import opened, shell_words, storage_option, study_argument, voter_option
from kappasharp.errors import InvalidValueError
from kappasharp.messages.message import count, text

if TYPE_CHECKING:
    from kappasharp.results.agreement import VoterTaste
    from kappasharp.store.storage import Record, Storage


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
    from kappasharp.store import invites
    from kappasharp.study.collection import existing

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

    from kappasharp.cli.serve import served_at
    from kappasharp.store import invites
    from kappasharp.web import access, connections

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
