"""Who is let into a study: links, each with a role, and the people who came by them.

A link carries a secret, and so does the cookie of whoever came by it. The database holds digests of both and neither
of them: who reads it, or a copy of it, gets in nowhere. Several servers over one database share all of it.
"""

import base64
import binascii
import hashlib
import os
import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from kappasharp.errors import InviteError, UnknownNameError, named
from kappasharp.journal import events
from kappasharp.settings import DEFAULT_VOTER
from kappasharp.store.schema import EVENTS, INVITES, SEATS, STUDIES
from kappasharp.store.storage import Record, Storage, as_record, now

# What somebody may do: each of them all that those before may.
ROLES = ("viewer", "voter", "owner")
# Bytes of a secret, and of a study's identity before it in a link.
SECRET, IDENTITY = 16, 16
# More people than this are let into no study: a link that got into the wrong hands fills no disk.
MOST_PEOPLE = 2000


class Guest(NamedTuple):
    """Somebody who came by a link; a viewer has no name."""

    id: str
    name: str | None
    since: str


class Invite(NamedTuple):
    """A link, without its secret; and who came by it."""

    id: str
    role: str
    created: str
    revoked: str | None
    people: list[Guest]


class Seat(NamedTuple):
    """What somebody may do in a study, and under which name."""

    id: str
    study: str
    invite: str
    role: str
    name: str | None


class OpenedInvite(NamedTuple):
    """Where a link leads, and who its bearer is there already."""

    record: Record
    invite: str
    role: str
    already: Seat | None


def make(storage: Storage, record: Record, role: str) -> tuple[Invite, str]:
    """A new link to a study, and its secret part, which is never to be had again."""
    role = named("role", role, {one: one for one in ROLES})
    secret, made = os.urandom(SECRET), Invite(os.urandom(4).hex(), role, now(), None, [])
    values = {"id": made.id, "study": record.id, "role": role, "created": made.created, "digest": _digest(secret)}
    with storage.writing() as connection:
        connection.execute(insert(INVITES).values(**values))
    return made, base64.urlsafe_b64encode(bytes.fromhex(record.uid) + secret).decode().rstrip("=")


def listed(storage: Storage, record: Record) -> list[Invite]:
    """A study's links, the newest first, with who came by them and was not shut out."""
    with storage.reading() as connection:
        mine = select(INVITES).where(INVITES.c.study == record.id).order_by(INVITES.c.created.desc(), INVITES.c.id)
        links = connection.execute(mine).all()
        inside = and_(SEATS.c.study == record.id, SEATS.c.removed.is_(None))
        people = connection.execute(select(SEATS).where(inside).order_by(SEATS.c.created)).all()
    return [
        Invite(
            link.id, link.role, link.created, link.revoked,
            [Guest(one.id, one.name, one.created) for one in people if one.invite == link.id],
        )
        for link in links
    ]  # fmt: skip


def revoke(storage: Storage, record: Record, invite: str) -> None:
    """End a link and shut out all who came by it. Their answers stay, and their names stay theirs."""
    mine = and_(INVITES.c.study == record.id, INVITES.c.id == invite)
    with storage.writing() as connection:
        if connection.execute(select(INVITES.c.id).where(mine)).first() is None:
            raise UnknownNameError(f"The study {record.name!r} has no link {invite!r}.")
        connection.execute(update(INVITES).where(mine, INVITES.c.revoked.is_(None)).values(revoked=now()))


def remove(storage: Storage, record: Record, person: str) -> None:
    """Shut out one person. Their answers stay; who takes their name after that goes on with them."""
    mine = and_(SEATS.c.study == record.id, SEATS.c.id == person, SEATS.c.removed.is_(None))
    with storage.writing() as connection:
        if connection.execute(update(SEATS).where(mine).values(removed=now(), taken=None)).rowcount != 1:
            raise UnknownNameError(f"Nobody in the study {record.name!r} is {person!r}.")


def identity(code: Any) -> str | None:
    """The identity of the study that a link leads to; None where it is no link of ours."""
    try:
        return _parts(code)[0]
    except InviteError:
        return None


def opened(storage: Storage, code: Any, holds: str | None = None) -> OpenedInvite:
    """Where a link leads.

    Args:
        storage: the database.
        code: the secret part of the link.
        holds: the secret that its bearer got in this study before, if they did.
    """
    uid, digest = _parts(code)
    with storage.reading() as connection:
        return _opened(connection, uid, digest, holds)


def _opened(connection: Connection, uid: str, digest: str, holds: str | None) -> OpenedInvite:
    row = connection.execute(select(STUDIES).where(STUDIES.c.uid == uid)).one_or_none()
    if row is None:
        raise InviteError(
            "The study that this link leads to is not here: it was deleted, or the link is another server's.", "deleted"
        )
    record = as_record(row)
    mine = and_(INVITES.c.study == record.id, INVITES.c.digest == digest)
    link = connection.execute(select(INVITES).where(mine)).one_or_none()
    if link is None:
        raise InviteError("This link is not whole: copy all of it, or scan the code once more.", "unknown")
    if link.revoked is not None:
        raise InviteError(
            "This link was revoked: it lets nobody in any more. Ask whoever sent it for a new one.", "revoked"
        )
    before = None if holds is None else _live(connection, [holds]).get(holds)
    return OpenedInvite(record, link.id, link.role, before if before is not None and before.study == uid else None)


def join(storage: Storage, code: Any, name: Any, holds: str | None = None) -> tuple[Seat, str]:
    """Let the bearer of a link in, under a name that nobody else has there; and the secret by which they are known.

    Who comes again, by another link perhaps, keeps their name and gets the role of the new one.
    """
    uid, digest = _parts(code)
    with storage.writing() as connection:
        link = _opened(connection, uid, digest, None)
        before = None if holds is None else _held(connection, link.record, holds)
        called = None if before is None else before.name
        if called is None and link.role != "viewer":
            called = _free(connection, link.record, events.voter(name.strip() if isinstance(name, str) else name))
        seat, secret = os.urandom(4).hex(), os.urandom(SECRET).hex()
        values = {"invite": link.invite, "name": called, "taken": None if called is None else _key(called)}
        try:
            if before is not None:
                seat, secret = before.id, str(holds)
                connection.execute(update(SEATS).where(SEATS.c.id == seat).values(**values))
            else:
                mine = {"id": seat, "study": link.record.id, "digest": _digest(bytes.fromhex(secret)), "created": now()}
                connection.execute(insert(SEATS).values(**mine, **values))
        except IntegrityError as error:
            raise _taken(str(called)) from error
    return Seat(seat, uid, link.invite, link.role, called), secret


def seats(storage: Storage, secrets: Iterable[str]) -> dict[str, Seat]:
    """Who the bearers of these secrets are; those that let nobody in, or no longer, are left out."""
    with storage.reading() as connection:
        return _live(connection, secrets)


def _live(connection: Connection, secrets: Iterable[str]) -> dict[str, Seat]:
    digests = {_digest(secret): one for one in secrets if (secret := _bytes(one)) is not None}
    if not digests:
        return {}
    wanted = (
        select(SEATS.c.digest, SEATS.c.id, STUDIES.c.uid, SEATS.c.invite, INVITES.c.role, SEATS.c.name)
        .join(INVITES, SEATS.c.invite == INVITES.c.id)
        .join(STUDIES, SEATS.c.study == STUDIES.c.id)
        .where(SEATS.c.digest.in_(digests), SEATS.c.removed.is_(None), INVITES.c.revoked.is_(None))
    )
    return {digests[row[0]]: Seat(*row[1:]) for row in connection.execute(wanted)}


def _held(connection: Connection, record: Record, secret: str) -> Row[Any] | None:
    """Somebody's own row, also where their link was revoked since: by another one they come back as who they are."""
    found = _bytes(secret)
    if found is None:
        return None
    mine = and_(SEATS.c.study == record.id, SEATS.c.digest == _digest(found), SEATS.c.removed.is_(None))
    return connection.execute(select(SEATS).where(mine)).one_or_none()


def _free(connection: Connection, record: Record, name: str) -> str:
    """That name, if it is nobody else's: of those who were let in, or answered without; one freed as it was spelt."""
    rows = connection.execute(select(SEATS.c.name, SEATS.c.taken, SEATS.c.removed).where(SEATS.c.study == record.id))
    there = rows.all()
    if len(there) >= MOST_PEOPLE:
        raise InviteError(f"No more than {MOST_PEOPLE} people are let into a study.", "full")
    voters = connection.execute(select(EVENTS.c.voter).where(EVENTS.c.study == record.id).distinct()).scalars()
    # Whoever takes a freed name goes on with its answers, and those stand under the name as it was spelt.
    freed = {_key(row.name): row.name for row in there if row.removed is not None and row.name is not None}
    answered = {_key(str(one)) for one in voters} - freed.keys()
    if _key(name) in {_key(DEFAULT_VOTER), *answered, *(row.taken for row in there)}:
        raise _taken(name)
    return str(freed.get(_key(name), name))


def _taken(name: str) -> InviteError:
    return InviteError(
        f"Somebody answers as {name!r} here already; take another name, say {name + ' 2'!r}. If that is you, in "
        "another browser, ask the owner to free your name.", "taken",
    )  # fmt: skip


def _key(name: str) -> str:
    """A name as people tell it from others: not by capitals, nor by how a letter is encoded."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _parts(code: Any) -> tuple[str, str]:
    """The study's identity and the secret's digest, of what a link carries."""
    try:
        content = base64.urlsafe_b64decode(f"{code}==") if isinstance(code, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != IDENTITY + SECRET:
        raise InviteError("This link is not whole: copy all of it, or scan the code once more.", "unknown")
    return content[:IDENTITY].hex(), _digest(content[IDENTITY:])


def _bytes(secret: str) -> bytes | None:
    try:
        return bytes.fromhex(secret) if len(secret) == 2 * SECRET else None
    except ValueError:
        return None


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()
