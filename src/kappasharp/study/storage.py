"""Studies in a database, through SQLAlchemy Core: append-only events in SQLite or PostgreSQL, and their tables.

An event is durable when `append`'s transaction has ended: SQLite writes ahead and synchronises fully. Writers of one
study wait for each other; readers wait for nobody.
"""

import hashlib
import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from kappasharp.errors import CorruptedError, DuplicateNameError, StorageError, named, needed
from kappasharp.study import events
from kappasharp.study.events import Event, Stored

BUSY_SECONDS = 30.0
IN_MEMORY = (None, "", ":memory:")
DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}

SCHEMA_VERSION = 1
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
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("study", "number"),
)

Migration = Callable[[Connection], None]
# Version -> what leads from it to the next. There has been one version so far.
MIGRATIONS: Mapping[int, Migration] = {}


class Record(NamedTuple):
    """A study's row: its number here, its name, an identity that no other study has, and its definition."""

    id: int
    uid: str
    name: str
    created: str
    definition: dict[str, Any]


class Storage:
    """A database of studies."""

    def __init__(self, url: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.url = _readable(url)
        self._alone: AbstractContextManager[Any] = nullcontext()
        with self._in_words():
            self._engine = _engine(url, busy_seconds)
            # Connections go back when nobody holds the storage any more.
            weakref.finalize(self, self._engine.dispose)
            if isinstance(self._engine.pool, StaticPool):
                self._alone = RLock()
            self._writing = self._engine.execution_options(writing=True)
            with self._engine.begin() as connection:
                ready = schema_version(connection) == SCHEMA_VERSION
            if not ready:
                with self._writing.begin() as connection:
                    _prepare(connection)

    def create(self, name: str, definition: dict[str, Any], happened: Sequence[Stored] = ()) -> Record:
        """A new study, with what happened in it elsewhere; a DuplicateNameError if there is one of that name."""
        values = {"uid": uuid4().hex, "name": name, "created": now(), "definition": _text(definition)}
        try:
            with self._in_words(), self._writing.begin() as connection:
                key = connection.execute(insert(STUDIES).values(**values)).inserted_primary_key
                assert key is not None
                record = Record(key[0], values["uid"], name, values["created"], definition)
                transaction = Transaction(self, connection, record)
                for one in happened:
                    transaction.append(one.number, one.voter, one.event, one.time)
                return record
        except IntegrityError as error:
            raise DuplicateNameError(
                f"A study called {name!r} is already in {self.url}; `load_if_exists=True` goes on with it, "
                "`load_study` opens it, `delete_study` removes it."
            ) from error

    def find(self, name: str) -> Record:
        """The study of that name, or an error that suggests the nearest."""
        return named(f"study in {self.url}", name, {record.name: record for record in self.studies()})

    def studies(self) -> list[Record]:
        """Every study, the oldest first."""
        with self._in_words(), self._engine.begin() as connection:
            return [self._record(row) for row in connection.execute(select(STUDIES).order_by(STUDIES.c.id))]

    def delete(self, record: Record) -> None:
        """Remove a study and all its events."""
        with self._in_words(), self._writing.begin() as connection:
            connection.execute(delete(EVENTS).where(EVENTS.c.study == record.id))
            connection.execute(delete(STUDIES).where(STUDIES.c.id == record.id))

    def read(self, record: Record, after: int = 0, through: int | None = None) -> list[Stored]:
        """The study's events after a number, in order."""
        with self._in_words(), self._engine.begin() as connection:
            self._require(connection, record)
            return self._read(connection, record, after, through)

    @contextmanager
    def transaction(self, record: Record) -> Iterator["Transaction"]:
        """The study to oneself, for reading what is new and appending to it; an error leaves nothing written."""
        with self._in_words(), self._writing.begin() as connection:
            self._require(connection, record)
            yield Transaction(self, connection, record)

    def close(self) -> None:
        """Give back the connections."""
        self._engine.dispose()

    def _require(self, connection: Connection, record: Record) -> None:
        """The study is still there; in a transaction that writes, PostgreSQL locks its row as SQLite locks the file."""
        wanted = select(STUDIES.c.id).where(STUDIES.c.uid == record.uid)
        if connection.get_execution_options().get("writing", False):
            wanted = wanted.with_for_update()
        if connection.execute(wanted).scalar() is None:
            raise StorageError(f"The study {record.name!r} is no longer in {self.url}: somebody deleted it.")

    def _read(self, connection: Connection, record: Record, after: int, through: int | None) -> list[Stored]:
        wanted = select(EVENTS).where(EVENTS.c.study == record.id, EVENTS.c.number > after).order_by(EVENTS.c.number)
        if through is not None:
            wanted = wanted.where(EVENTS.c.number <= through)
        found: list[Stored] = []
        for row in connection.execute(wanted):
            found.append(_checked(row, record, after + len(found) + 1))
        return found

    def _record(self, row: Any) -> Record:
        try:
            definition = json.loads(row.definition)
        except ValueError as error:
            raise CorruptedError(
                f"The definition of the study {row.name!r} in {self.url} cannot be read: {error}."
            ) from error
        return Record(row.id, row.uid, row.name, row.created, definition)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """The database's own errors as sentences; in memory, where there is one connection, one thread at a time."""
        try:
            with self._alone:
                yield
        except IntegrityError:
            raise
        except ModuleNotFoundError as error:
            raise StorageError(
                f"The database {self.url} needs the library {error.name!r}, which is not installed. SQLite and "
                "PostgreSQL (extra `postgres`) are the databases that are tested."
            ) from error
        except (ArgumentError, NoSuchModuleError) as error:
            raise StorageError(
                f"`storage` must be a URL such as sqlite:///study.db or postgresql+psycopg://user@host/name, but got "
                f"{self.url!r} ({error})."
            ) from error
        except SQLAlchemyError as error:
            raise StorageError(_sentence(self.url, error)) from error


class Transaction(NamedTuple):
    """What may be done to a study while nobody else writes to it."""

    storage: Storage
    connection: Connection
    record: Record

    def read(self, after: int) -> list[Stored]:
        """The events since a number."""
        return self.storage._read(self.connection, self.record, after, None)

    def append(self, number: int, voter: str, happened: Event, time: str | None = None) -> Stored:
        """Write an event under the next number; it is durable once the transaction has ended."""
        stored = Stored(number, voter, time or now(), happened)
        body = _text(events.body(happened))
        row = {"study": self.record.id, "number": number, "kind": happened.kind, "voter": voter, "time": stored.time}
        digest = _digest(self.record.uid, number, happened.kind, voter, body)
        self.connection.execute(insert(EVENTS).values(**row, body=body, digest=digest))
        return stored


def _prepare(connection: Connection) -> None:
    """Make the tables in an empty database, bring an older one up to date, refuse a newer one."""
    found = schema_version(connection)
    if found is None:
        METADATA.create_all(connection)
        connection.execute(insert(VERSIONS).values(version=SCHEMA_VERSION))
        return
    if found > SCHEMA_VERSION:
        raise StorageError(
            f"The database was written by a newer kappasharp: its schema is version {found}, this one reads up to "
            f"version {SCHEMA_VERSION}. Nothing was changed; `pip install --upgrade kappasharp` brings one that reads "
            "it."
        )
    while found < SCHEMA_VERSION:
        MIGRATIONS[found](connection)
        found += 1
        connection.execute(update(VERSIONS).values(version=found))


def schema_version(connection: Connection) -> int | None:
    """The schema's version; None where there are no tables yet."""
    if not inspect(connection).has_table(VERSIONS.name):
        return None
    return connection.execute(select(VERSIONS.c.version)).scalar()


def exists(url: str) -> bool:
    """Whether there is something to open: no for a file of SQLite that is not there yet."""
    try:
        address = make_url(url)
    except ArgumentError:
        return True  # opening it says what is wrong
    if not address.drivername.startswith("sqlite") or address.database in IN_MEMORY or "uri" in address.query:
        return True
    return Path(str(address.database)).exists()


def now() -> str:
    """The present, UTC, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _engine(url: str, busy_seconds: float) -> Engine:
    address = make_url(url)
    address = address.set(drivername=DRIVERS.get(address.drivername, address.drivername))
    if address.drivername.startswith("postgresql+psycopg"):
        needed("psycopg", "A study in PostgreSQL", "postgres")
    if not address.drivername.startswith("sqlite"):
        return create_engine(address, pool_pre_ping=True)
    memory = address.database in IN_MEMORY
    # One connection holds a database in memory; a file gets as many as there are threads.
    pool: dict[str, Any] = {"poolclass": StaticPool} if memory else {}
    engine = create_engine(address, connect_args={"check_same_thread": False, "timeout": busy_seconds}, **pool)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _: Any) -> None:
    # Transactions are begun by hand, below: the driver's own way begins them too late to hold a lock.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")
    # A database opened for reading only keeps the journal that it has.
    if (
        not connection.execute("PRAGMA query_only").fetchone()[0]
        and cursor.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    ):
        cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _readable(url: Any) -> str:
    """The URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, TypeError, AttributeError):
        return str(url)


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _digest(uid: str, number: int, kind: str, voter: str, body: str) -> str:
    return hashlib.sha256("\x1f".join((uid, str(number), kind, voter, body)).encode()).hexdigest()


def _checked(row: Any, record: Record, expected: int) -> Stored:
    """The event of a row, or a sentence if anything about it is not as it was written."""
    if row.number == expected and row.digest == _digest(record.uid, row.number, row.kind, row.voter, row.body):
        return Stored(row.number, row.voter, row.time, events.read(row.kind, json.loads(row.body)))
    raise CorruptedError(
        f"Event {expected} of the study {record.name!r} is damaged or missing: what is stored is not what was written. "
        f"The {expected - 1} events before it are intact: `load_study({record.name!r}, through={expected - 1})` opens "
        "the study as it was then, for reading and exporting."
    )


def _sentence(url: str, error: SQLAlchemyError) -> str:
    """What happened, what it means, what to do."""
    cause = str(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error).strip()
    for sign, means in (
        ("locked", "another program is writing to it and did not finish in time. Nothing was lost; try again."),
        ("readonly", "it may only be read. Nothing was written; give write access to the file and its folder."),
        ("disk is full", "the disk is full. Nothing was written and nothing before it was lost; make room, try again."),
        ("disk I/O error", "the disk could not be written. Nothing before it was lost; check the disk, try again."),
        ("malformed", "the file is damaged. Restore a copy, or try SQLite's `.recover`."),
        ("not a database", "the file is not a database. Nothing was changed; give another file name."),
        ("unable to open", "the file cannot be opened. Check that its folder exists and may be written."),
    ):
        if sign in cause:
            return f"The database {url} refused: {means} ({cause})"
    return f"The database {url} refused; nothing was written. ({cause})"
