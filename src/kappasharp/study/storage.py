"""Studies in a database, through SQLAlchemy Core: append-only, chained events in SQLite or PostgreSQL.

An event is durable when its transaction has ended: SQLite writes ahead and synchronises fully. In the same transaction
the study's row takes hold of the chain's new end. Writers of one study wait for each other; readers wait for nobody.
"""

import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from kappasharp.errors import CorruptedError, DeletedError, DuplicateNameError, InvalidValueError, StorageError, named
from kappasharp.sentences import Sentence
from kappasharp.study import database, events, schema
from kappasharp.study.events import Event, Stored
from kappasharp.study.schema import EVENTS, STUDIES

BUSY_SECONDS = 30.0


@dataclass(frozen=True)
class Record:
    """A study's row: its number here, its name, an identity that no other study has, and its definition as text."""

    id: int
    uid: str
    name: str
    created: str
    text: str
    digest: str
    # Of a study from before events were chained: how many it had then.
    unprotected: int | None = None
    # How many events it had when the row was read.
    events: int = 0

    @property
    def definition(self) -> dict[str, Any]:
        """The definition, or a sentence if the row is not as it was written."""
        try:
            if self.digest != schema.digest_of_study(self.uid, self.name, self.created, self.text):
                raise ValueError("what is stored is not what was written")
            return dict(json.loads(self.text))
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptedError(
                f"The definition of the study {self.name!r} is damaged: {error}. The other studies can be opened; "
                f"restore this one from a copy, or `delete_study({self.name!r})` removes it."
            ) from error


def as_record(row: Any) -> Record:
    """A study of its row."""
    name, created = str(row.name), str(row.created)
    return Record(row.id, row.uid, name, created, row.definition, row.digest, row.unprotected, row.events)


class Anchor(NamedTuple):
    """What a study's row knows of its chain: where it begins, how many events it has, and its end."""

    digest: str
    events: int
    head: str


class Head(NamedTuple):
    """What tells whether something happened to a study: its name, and how many events it has."""

    name: str
    events: int


class Storage:
    """A database of studies."""

    def __init__(self, url: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.url = database.readable(url)
        # Told of every study that this process has just written to, from whichever thread wrote.
        self.told: Callable[[str], None] | None = None
        self._alone: AbstractContextManager[Any] = nullcontext()
        with self._in_words():
            self._use(database.engine(url, busy_seconds))
            try:
                with self._reading.begin() as connection:
                    found = schema.version(connection)
                if found != schema.SCHEMA_VERSION:
                    self._prepare(found)
            except BaseException:
                self.close()
                raise

    def _use(self, engine: Engine) -> None:
        self._engine = engine
        # Connections go back when nobody holds the storage any more.
        weakref.finalize(self, engine.dispose)
        if isinstance(engine.pool, StaticPool):
            self._alone = RLock()
        # A study's row and its events are read as of one moment, which PostgreSQL has to be told.
        postgres = engine.dialect.name == "postgresql"
        self._reading = engine.execution_options(isolation_level="REPEATABLE READ") if postgres else engine
        self._writing = engine.execution_options(writing=True)

    def _prepare(self, found: int | None) -> None:
        """Make the tables, or bring them up to date: of an older file that may only be read, those of a copy."""
        try:
            with self._writing.begin() as connection:
                schema.prepare(connection)
        except OperationalError as error:
            if found is None or "readonly" not in str(error.orig):
                raise
            old = self._engine
            self._use(database.in_memory(old))
            old.dispose()
            with self._writing.begin() as connection:
                schema.prepare(connection)
            with self._engine.begin() as connection:
                connection.exec_driver_sql("PRAGMA query_only=ON")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The database as of one moment."""
        with self._in_words(), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: all of it or nothing."""
        with self._in_words(), self._writing.begin() as connection:
            yield connection

    def create(self, name: str, definition: dict[str, Any], happened: Iterable[Stored] = ()) -> Record:
        """A new study, with what happened in it elsewhere; a DuplicateNameError if there is one of that name."""
        uid, created, text = uuid4().hex, now(), _text(definition)
        digest = schema.digest_of_study(uid, name, created, text)
        values = {"uid": uid, "name": name, "created": created, "definition": text, "digest": digest, "head": digest}
        with self.writing() as connection:
            try:
                key = connection.execute(insert(STUDIES).values(**values)).inserted_primary_key
            except IntegrityError as error:
                there = (
                    f"A study called {name!r} is already in {self.url}; `load_if_exists=True` goes on with it, "
                    "`load_study` opens it, `delete_study` removes it."
                )
                raise DuplicateNameError(Sentence(there, "fault.taken", {"name": name})) from error
            assert key is not None
            record = Record(key[0], uid, name, created, text, digest)
            transaction = Transaction(connection, record, Anchor(digest, 0, digest))
            for one in happened:
                transaction.append(one.voter, one.event, one.time)
            transaction.anchor()
            return record

    def find(self, name: str) -> Record:
        """The study of that name, or an error that suggests the nearest."""
        return named(f"study in {self.url}", name, {record.name: record for record in self.studies()})

    def studies(self) -> list[Record]:
        """Every study, the oldest first; a damaged one is among them, and says so when its definition is read."""
        with self.reading() as connection:
            return [as_record(row) for row in connection.execute(select(STUDIES).order_by(STUDIES.c.id))]

    def latest(self, record: Record) -> Record:
        """The study's row as it is now, under whatever name; a DeletedError if it is gone."""
        found = next((one for one in self.studies() if one.uid == record.uid), None)
        if found is None:
            raise DeletedError(f"The study {record.name!r} is no longer in {self.url}: somebody deleted it.")
        return found

    def rename(self, record: Record, name: str) -> Record:
        """The study under another name; a DuplicateNameError if there is one of that name.

        The chain of its events begins with its name, and so it is made anew, once it was found to be whole. Whoever
        has the study open goes on with it: it is known by its identity.
        """
        with self.writing() as connection:
            anchor = self._anchor(connection, record)
            _read(connection, record, anchor, 0, None)
            head = digest = schema.digest_of_study(record.uid, name, record.created, record.text)
            mine = EVENTS.c.study == record.id
            for row in connection.execute(select(EVENTS).where(mine).order_by(EVENTS.c.number)).all():
                head = schema.digest_of_event(head, row)
                connection.execute(update(EVENTS).where(mine, EVENTS.c.number == row.number).values(chain=head))
            try:
                connection.execute(
                    update(STUDIES).where(STUDIES.c.id == record.id).values(name=name, digest=digest, head=head)
                )
            except IntegrityError as error:
                another = (
                    f"A study must have a name of its own, but another in {self.url} is called {name!r} already. "
                    "Nothing was changed."
                )
                raise DuplicateNameError(Sentence(another, "fault.taken", {"name": name})) from error
            database.notify(connection, record.uid)
        self._wrote(record.uid)
        return replace(record, name=name, digest=digest)

    def delete(self, record: Record) -> None:
        """Remove a study and all its events."""
        with self.writing() as connection:
            connection.execute(delete(EVENTS).where(EVENTS.c.study == record.id))
            connection.execute(delete(STUDIES).where(STUDIES.c.id == record.id))
            database.notify(connection, record.uid)
        self._wrote(record.uid)

    def _wrote(self, uid: str) -> None:
        if self.told is not None:
            self.told(uid)

    def heads(self) -> dict[str, Head]:
        """Every study by its identity, as far as tells whether something happened to it."""
        wanted = select(STUDIES.c.uid, STUDIES.c.name, STUDIES.c.events)
        with self._in_words(), self._reading.begin() as connection:
            return {row.uid: Head(str(row.name), row.events) for row in connection.execute(wanted)}

    @contextmanager
    def listening(self) -> Iterator[Callable[[float], set[str] | None]]:
        """A function that waits so many seconds for others' writes and names the studies; None where nobody tells."""
        if self._engine.dialect.name != "postgresql":
            yield lambda _: None
            return
        with self._in_words(), database.listening(self._engine) as heard:
            yield heard

    def read(self, record: Record, after: int = 0, through: int | None = None) -> list[Stored]:
        """The study's events after a number, in order."""
        with self.reading() as connection:
            return _read(connection, record, self._anchor(connection, record), after, through)

    @contextmanager
    def transaction(self, record: Record) -> Iterator["Transaction"]:
        """The study to oneself, for reading what is new and appending to it; an error leaves nothing written."""
        with self.writing() as connection:
            transaction = Transaction(connection, record, self._anchor(connection, record))
            yield transaction
            transaction.anchor()
            if transaction.has_written:
                database.notify(connection, record.uid)
        if transaction.has_written:
            self._wrote(record.uid)

    def back_up(self, path: Path) -> None:
        """Copy the whole database to a new file while others go on writing; SQLite only."""
        with self._in_words():
            database.back_up(self._engine, path)

    def troubles(self) -> list[str]:
        """What the database itself finds wrong with its file: nothing, if it is whole."""
        if self._engine.dialect.name != "sqlite":
            return []
        with self.reading() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Give back the connections; in memory, after whoever writes."""
        with self._alone:
            self._engine.dispose()

    def _anchor(self, connection: Connection, record: Record) -> Anchor:
        """What the study's row knows; in a transaction that writes, PostgreSQL locks it as SQLite locks the file."""
        wanted = select(STUDIES.c.digest, STUDIES.c.events, STUDIES.c.head).where(STUDIES.c.id == record.id)
        wanted = wanted.where(STUDIES.c.uid == record.uid)
        if connection.get_execution_options().get("writing", False):
            wanted = wanted.with_for_update()
        row = connection.execute(wanted).one_or_none()
        if row is None:
            raise DeletedError(f"The study {record.name!r} is no longer in {self.url}: somebody deleted it.")
        if not isinstance(row.events, int):
            raise CorruptedError(f"The row of the study {record.name!r} is damaged: it counts {row.events!r} events.")
        return Anchor(*row)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """The database's own errors as sentences; in memory, where there is one connection, one thread at a time."""
        try:
            with self._alone:
                yield
        except ModuleNotFoundError as error:
            raise StorageError(
                f"The database {self.url} needs the library {error.name!r}, which is not installed. SQLite and "
                "PostgreSQL (extra `postgres`) are the databases that are tested."
            ) from error
        except (ArgumentError, NoSuchModuleError) as error:
            raise database.no_url(self.url, error) from error
        except SQLAlchemyError as error:
            raise database.refusal(self.url, error) from error
        except UnicodeDecodeError as error:  # SQLite quotes a damaged table's own words in its error
            raise CorruptedError(
                f"The database {self.url} refused: the file is damaged. Restore a copy, or try SQLite's `.recover`."
            ) from error
        except PermissionError as error:
            raise StorageError(f"The database {self.url} cannot be opened: {error.strerror}.") from error


class Transaction:
    """What may be done to a study while nobody else writes to it."""

    def __init__(self, connection: Connection, record: Record, found: Anchor) -> None:
        self.connection, self.record = connection, record
        self.found = self.reached = found

    @property
    def has_written(self) -> bool:
        """Whether something was appended."""
        return self.reached != self.found

    def read(self, after: int) -> list[Stored]:
        """The events since a number."""
        return _read(self.connection, self.record, self.reached, after, None)

    def append(self, voter: str, happened: Event, time: str | None = None) -> Stored:
        """Write an event under the next number; it is durable once the transaction has ended."""
        return self.append_all(voter, [happened], time)[0]

    def append_all(self, voter: str, several: Sequence[Event], time: str | None = None) -> list[Stored]:
        """The same of several, in one statement."""
        found, rows, head = [], [], self.reached.head
        for number, happened in enumerate(several, self.reached.events + 1):
            found.append(Stored(number, voter, time or now(), happened))
            row = {"number": number, "kind": happened.kind, "voter": voter, "time": found[-1].time}
            row["body"] = _text(events.body(happened))
            head = schema.digest_of_event(head, SimpleNamespace(**row))
            rows.append(row | {"study": self.record.id, "chain": head})
        if rows:
            self.connection.execute(insert(EVENTS), rows if len(rows) > 1 else rows[0])
            self.reached = Anchor(self.found.digest, found[-1].number, head)
        return found

    def anchor(self) -> None:
        """Let the study's row take hold of the new end, if it still holds the one that was found."""
        if not self.has_written:
            return
        mine = STUDIES.c.id == self.record.id
        found = (STUDIES.c.events == self.found.events, STUDIES.c.head == self.found.head)
        new = {"events": self.reached.events, "head": self.reached.head}
        if self.connection.execute(update(STUDIES).where(mine, *found).values(**new)).rowcount != 1:
            raise StorageError(
                f"Somebody else wrote to {self.record.name!r} meanwhile. Nothing was written; try again."
            )


def _read(connection: Connection, record: Record, anchor: Anchor, after: int, through: int | None) -> list[Stored]:
    """The events after a number, each of them the next of the chain, which ends where the study's row says."""
    wanted = select(EVENTS).where(EVENTS.c.study == record.id, EVENTS.c.number >= after).order_by(EVENTS.c.number)
    if through is not None:
        wanted = wanted.where(EVENTS.c.number <= through)
    rows = connection.execute(wanted).all()
    head, number = anchor.digest, after
    if after:
        if not rows or rows[0].number != after:
            raise _damaged(record, after)
        head, rows = rows[0].chain, rows[1:]
    found = []
    for row in rows:
        number += 1
        if row.number != number or row.chain != schema.digest_of_event(head, row):
            raise _damaged(record, number)
        found.append(_event(row, record))
        head = row.chain
    if number < (anchor.events if through is None else min(anchor.events, through)):
        raise _damaged(record, number + 1)
    if through is None and (number, head) != (anchor.events, anchor.head):
        raise _damaged(record, max(min(number, anchor.events + 1), 1))
    return found


def _event(row: Any, record: Record) -> Stored:
    try:
        return Stored(row.number, row.voter, row.time, events.read(row.kind, json.loads(row.body)))
    except (KeyError, TypeError, InvalidValueError) as error:
        raise StorageError(
            f"Event {row.number} of the study {record.name!r} is from a newer kappasharp: this one cannot read "
            f"{row.kind!r} with {row.body}. A newer clone, installed with `python -m pip install .`, can."
        ) from error


def _damaged(record: Record, number: int) -> CorruptedError:
    return CorruptedError(
        f"Event {number} of the study {record.name!r} is damaged or missing: what is stored is not what was written. "
        f"The {number - 1} events before it are intact: `load_study({record.name!r}, through={number - 1})` opens "
        "the study as it was then, for reading and exporting."
    )


def now() -> str:
    """The present, UTC, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
