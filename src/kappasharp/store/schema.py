"""The tables of a database of studies, the digests of their rows, and the steps that bring an older one up to date.

Version 2 chains the events: `chain` covers a row and the chain before it. A study's row has the digest of its
definition, where the chain begins, and holds on to its end: how many `events` there are, and the last one's `chain`.
Digests tell whether what is read is what was written. They find accidents, not forgers: whoever may write to the
database can compute them too.
Version 3 adds who is let in: links to a study and those who came by them, both by digests of their secrets alone.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from kappasharp.errors import CorruptedError, StorageError
from kappasharp.settings import DEFAULT_STORAGE, ENVIRONMENT
from kappasharp.store import database

SCHEMA_VERSION = 3
METADATA = MetaData()

VERSIONS = Table("kappasharp_schema", METADATA, Column("version", Integer, nullable=False))
STUDIES = Table(
    "kappasharp_studies",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("uid", String(32), nullable=False, unique=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created", String(40), nullable=False),
    Column("definition", Text, nullable=False),
    Column("digest", String(64), nullable=False, server_default=""),
    Column("events", Integer, nullable=False, server_default="0"),
    Column("head", String(64), nullable=False, server_default=""),
    # How many events there were when version 2 chained a study of version 1; NULL for one that was chained all along.
    Column("unprotected", Integer),
    # The number of a deleted study is not given again: whoever still holds it must not read another's events.
    sqlite_autoincrement=True,
)
EVENTS = Table(
    "kappasharp_events",
    METADATA,
    Column("study", ForeignKey("kappasharp_studies.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("voter", Text, nullable=False),
    Column("time", String(40), nullable=False),
    Column("body", Text, nullable=False),
    Column("chain", String(64), nullable=False),
    PrimaryKeyConstraint("study", "number"),
)
INVITES = Table(
    "kappasharp_invites",
    METADATA,
    Column("id", String(8), primary_key=True),
    Column("study", ForeignKey("kappasharp_studies.id", ondelete="CASCADE"), nullable=False),
    Column("role", String(10), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("created", String(40), nullable=False),
    Column("revoked", String(40)),
)
SEATS = Table(
    "kappasharp_seats",
    METADATA,
    Column("id", String(8), primary_key=True),
    Column("study", ForeignKey("kappasharp_studies.id", ondelete="CASCADE"), nullable=False),
    Column("invite", ForeignKey("kappasharp_invites.id", ondelete="CASCADE"), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("name", Text),
    # The name as it is compared, as long as it is taken: NULL for who has none, or was shut out.
    Column("taken", Text),
    Column("created", String(40), nullable=False),
    Column("removed", String(40)),
    UniqueConstraint("study", "taken"),
)
# The tables that came with a version; those of the first have been there all along.
NEW_TABLES = {1: (VERSIONS, STUDIES, EVENTS), 3: (INVITES, SEATS)}
# Any number, as long as it is always this one: PostgreSQL's lock for whoever makes or changes the tables.
LOCK = 1_262_703_939


def study_names(url: str | None) -> list[str]:
    """The names of the studies in a database, the oldest first, for the shell's completion: nothing is made or read
    beside them. By default in KAPPASHARP_STORAGE, or else in this folder."""
    place = url or os.environ.get(ENVIRONMENT) or DEFAULT_STORAGE
    if not database.exists(place):
        return []
    made = database.engine(place, busy_seconds=1.0)
    try:
        with made.connect() as connection:
            return [str(name) for name in connection.execute(select(STUDIES.c.name).order_by(STUDIES.c.id)).scalars()]
    except SQLAlchemyError as error:
        raise database.refusal(database.readable(place), error) from error
    finally:
        made.dispose()


def version(connection: Connection) -> int | None:
    """The schema's version; None where there are no tables yet."""
    tables = inspect(connection)
    there = {table.name for table in METADATA.sorted_tables if tables.has_table(table.name)}
    if not there:
        return None
    found: list[Any] = []
    if VERSIONS.name in there:
        found = list(connection.execute(select(VERSIONS.c.version)).scalars())
    if len(found) == 1 and isinstance(found[0], int) and found[0] >= 1:
        wanted = {table.name for since, new in NEW_TABLES.items() if since <= found[0] for table in new}
        if wanted <= there:
            return found[0]
    raise CorruptedError(
        "The database is damaged: it must have one schema version and the tables of it, but it has "
        f"{', '.join(sorted(there))} and the version {found}. Nothing was changed; restore a copy."
    )


def prepare(connection: Connection) -> None:
    """Make the tables in an empty database, bring an older one up to date, refuse a newer one: all of it or nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
    found = version(connection)
    if found is None:
        METADATA.create_all(connection)
        connection.execute(insert(VERSIONS).values(version=SCHEMA_VERSION))
        return
    if found > SCHEMA_VERSION:
        raise StorageError(
            f"The database was written by a newer kappasharp: its schema is version {found}, this one reads up to "
            f"version {SCHEMA_VERSION}. Nothing was changed; a newer clone, installed with `python -m pip install "
            ".`, reads it."
        )
    while found < SCHEMA_VERSION:
        MIGRATIONS[found](connection)
        found += 1
        connection.execute(update(VERSIONS).values(version=found))


def _chain(connection: Connection) -> None:
    """From version 1 to 2: every study is chained as it stands."""
    for column in (
        "digest VARCHAR(64) DEFAULT '' NOT NULL",
        "events INTEGER DEFAULT 0 NOT NULL",
        "head VARCHAR(64) DEFAULT '' NOT NULL",
        "unprotected INTEGER",
    ):
        connection.execute(text(f"ALTER TABLE kappasharp_studies ADD COLUMN {column}"))
    # A name of its own: an older program that still has the database open is refused, and does not break the chain.
    connection.execute(text("ALTER TABLE kappasharp_events RENAME COLUMN digest TO chain"))
    for study in connection.execute(text("SELECT id, uid, name, created, definition FROM kappasharp_studies")).all():
        _chain_one(connection, study)


def _chain_one(connection: Connection, study: Any) -> None:
    start = head = digest_of_study(study.uid, study.name, study.created, study.definition)
    rows = connection.execute(
        text("SELECT number, kind, voter, time, body, chain FROM kappasharp_events WHERE study = :id ORDER BY number"),
        {"id": study.id},
    ).all()
    links = []
    for row in rows:
        # A row that was damaged before keeps the digest that shows it.
        head = digest_of_event(head, row) if row.chain == _digest_1(study.uid, row) else str(row.chain)
        links.append({"id": study.id, "number": row.number, "chain": head})
    if links:
        connection.execute(
            text("UPDATE kappasharp_events SET chain = :chain WHERE study = :id AND number = :number"), links
        )
    connection.execute(
        text(
            "UPDATE kappasharp_studies SET digest = :digest, events = :count, head = :head, unprotected = :count "
            "WHERE id = :id"
        ),
        {"digest": start, "count": len(rows), "head": head, "id": study.id},
    )


def _digest_1(uid: Any, row: Any) -> str | None:
    """What version 1 wrote beside an event: without its time, and without what came before."""
    parts = (uid, str(row.number), row.kind, row.voter, row.body)
    if not all(isinstance(part, str) for part in parts):
        return None
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()


def _let_in(connection: Connection) -> None:
    """From version 2 to 3: nobody is let in yet."""
    METADATA.create_all(connection, tables=NEW_TABLES[3])


Migration = Callable[[Connection], None]
# Version -> what leads from it to the next.
MIGRATIONS: Mapping[int, Migration] = {1: _chain, 2: _let_in}


def digest(*parts: Any) -> str:
    """The SHA-256 of plain data, whatever the order of its mappings."""
    # A damaged database may hold bytes where there was text: they have a digest too, just not that of the text.
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_study(uid: Any, name: Any, created: Any, definition: Any) -> str:
    """The digest of a study's row, where its chain begins."""
    return digest("study", uid, name, created, definition)


def digest_of_event(before: Any, row: Any) -> str:
    """The next of the chain: an event's row, with its time, after the digest before it."""
    return digest("event", before, row.number, row.kind, row.voter, row.time, row.body)
