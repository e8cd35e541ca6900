"""Studies in a database, through SQLAlchemy Core: append-only, chained events in SQLite or PostgreSQL.

An event is durable when its transaction has ended: SQLite writes ahead and synchronises fully. In the same transaction
the study's row takes hold of the chain's new end. Writers of one study wait for each other; readers wait for nobody.
"""

import json
import logging
import os
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

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import Pool, StaticPool

from kappasharp.errors import (
    CorruptedError,
    DeletedError,
    DuplicateNameError,
    InvalidValueError,
    LostEventsError,
    ReplacedError,
    StorageError,
    named,
)
from kappasharp.journal import events
from kappasharp.journal.events import Event, Stored
from kappasharp.messages.message import Sentence
from kappasharp.store import acknowledged, database, schema
from kappasharp.store.acknowledged import Acknowledged, Anchor, still_has
from kappasharp.store.database_file import AHEAD_BYTES, DatabaseFile, End, Trace, trace
from kappasharp.store.schema import EVENTS, STUDIES

LOG = logging.getLogger("kappasharp")
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


class Head(NamedTuple):
    """What tells whether something happened to a study: its name, and how many events it has."""

    name: str
    events: int


class GivenUp(NamedTuple):
    """What was given up of a study: how many events were acknowledged, how many are left; None where it is gone."""

    study: str
    had: int
    left: int | None


class Storage:
    """A database of studies."""

    def __init__(self, url: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.url = database.readable(url)
        # Told of every study that this process has just written to, from whichever thread wrote.
        self.told: Callable[[str], None] | None = None
        # Told once of what keeps the database or a study of it from being written, and once that it can be again.
        self.alarmed: Callable[[str], None] | None = None
        self._alone: AbstractContextManager[Any] = nullcontext()
        # Counts how often the file was read anew since others had written to it; what was found broken then.
        self._generation, self._broken = 0, dict[str, int]()
        self._left: list[Pool] = []
        # Studies that this process has found whole: where one is broken after that, somebody overwrote the file.
        self._intact: set[str] = set()
        self._trouble: str | None = None
        self._alarms: set[str] = set()
        with self._in_words():
            self._file = database.opened_file(url)
            if self._file is not None:
                self._file.check_openable()
            self._use(database.engine(url, busy_seconds, self._file))
            try:
                with self._reading.begin() as connection:
                    found = schema.version(connection)
                if found != schema.SCHEMA_VERSION:
                    self._prepare(found)
                self._acknowledged = Acknowledged(self.url, self._file.heads if self._file else None)
                if self._file is not None:
                    self._file.known = trace(self._file.path)
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
            old, self._file = self._engine, None
            self._use(database.in_memory(old))
            old.dispose()
            with self._writing.begin() as connection:
                schema.prepare(connection)
            with self._engine.begin() as connection:
                connection.exec_driver_sql("PRAGMA query_only=ON")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The database as of one moment."""
        with self._in_words():
            self._look_after()
            with self._reading.begin() as connection:
                self._check_beside(connection)
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: all of it or nothing. When this ends, it is in the file that was opened."""
        with self._in_words():
            with self._begun() as connection:
                before = self._generation
                if self._file is not None:
                    self._file.note_files()
                yield connection
                self._check_beside(connection)
            self._look_after(again=self._generation != before)
            self._take_in()

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """A transaction that writes to a file into which nobody else has written since it was looked at."""
        while True:
            self._look_after()
            with self._writing.begin() as connection:
                # While this waited for its turn, others may have written.
                if self._file is None or trace(self._file.path) == self._file.known:
                    self._check_beside(connection)
                    yield connection
                    return

    def _check_beside(self, connection: Connection) -> None:
        if self._file is not None:
            self._file.check_beside(connection.info[database.BESIDE])

    def _look_after(self, *, again: bool = False) -> None:
        """Return if the file is the one that was opened, and whole where others have written to it; else a sentence."""
        file = self._file
        if file is None or (not again and self._trouble is None and trace(file.path) == file.known is not None):
            return
        with file.lock:
            try:
                self._go_over(file, trace(file.path), again)
            except StorageError as error:
                self._alarm(str(error))
                raise
            self._alarm(None)

    def _alarm(self, trouble: str | None) -> None:
        """Tell of what is wrong with the file, once, and once that it is right again."""
        before, self._trouble = self._trouble, trouble
        if trouble != before and self.alarmed is not None:
            self.alarmed(trouble or f"The database {self.url} is there and whole again: this goes on.")

    def _go_over(self, file: DatabaseFile, found: Trace | None, again: bool) -> None:
        """Go on with the file as it is now, if it is whole."""
        if found is None:
            raise file.gone()
        if found == file.known and not again:
            return
        if found.size == 0:
            raise file.emptied()
        if file.is_ahead_of_another(found):
            raise file.another()
        if file.refused is not None and file.refused[0] == found:
            raise ReplacedError(file.refused[1])
        before, file.known = file.known, found
        try:
            self._read_anew(file)
        except ReplacedError as error:
            file.known, file.refused = before, (found, error.sentence)
            raise
        file.refused = None

    def _read_anew(self, file: DatabaseFile) -> None:
        """Read all of the file over connections that know nothing of what was in it; the others are given up."""
        # Not closed before it is known that the file is theirs: the last one to close takes in what is written ahead.
        if (trouble := file.trouble()) is not None:
            raise file.overwritten(trouble)
        self._left.append(self._engine.pool)
        self._engine.dispose(close=False)
        try:
            with self._reading.begin() as connection:
                evidence = acknowledged.evidence(connection)
                broken = {} if evidence else acknowledged.broken(connection)
        except SQLAlchemyError as error:
            raise file.overwritten(str(error.__cause__ or error)) from error
        except UnicodeDecodeError as error:  # SQLite quotes a damaged table's own words in its error
            raise file.overwritten("its tables cannot be read") from error
        if not evidence and broken.keys() & self._intact:
            evidence = "a study in it is not as it was written any more"
        if evidence:
            raise file.overwritten(evidence)
        self._broken = broken
        self._generation += 1
        for pool in self._left:
            pool.dispose()
        self._left.clear()

    def _take_in(self) -> None:
        """Have SQLite take what is written ahead into the file, when that is much; and know the file after it."""
        file = self._file
        waiting = None if file is None else trace(file.ahead)
        if file is None or waiting is None or waiting.size < AHEAD_BYTES:
            return
        with file.lock:
            if trace(file.path) != file.known:
                return
            try:
                database.take_in(self._engine)
            except StorageError as error:
                # It is durable where it is; the next to write tries again.
                LOG.info("%s", error)
            file.known = trace(file.path)

    def create(self, name: str, definition: dict[str, Any], happened: Iterable[Stored] = ()) -> Record:
        """A new study, with what happened in it elsewhere; a DuplicateNameError if there is one of that name."""
        uid, created, text = uuid4().hex, now(), _text(definition)
        digest = schema.digest_of_study(uid, name, created, text)
        values = {"uid": uid, "name": name, "created": created, "definition": text, "digest": digest, "head": digest}
        self._check_not_lost(name)
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
        self._keep(record, transaction.reached)
        return record

    def find(self, name: str) -> Record:
        """The study of that name, or an error that suggests the nearest."""
        self._check_not_lost(name)
        found = self._row(STUDIES.c.name == name) if isinstance(name, str) and name.isprintable() else None
        # Only an error looks at the others: it suggests the nearest of them.
        return found or named(f"study in {self.url}", name, {record.name: record for record in self.studies()})

    def studies(self) -> list[Record]:
        """Every study, the oldest first; a damaged one is among them, and says so when its definition is read."""
        with self.reading() as connection:
            return [as_record(row) for row in connection.execute(select(STUDIES).order_by(STUDIES.c.id))]

    def latest(self, record: Record) -> Record:
        """The study's row as it is now, under whatever name; a DeletedError if it is gone."""
        found = self._row(STUDIES.c.id == record.id, STUDIES.c.uid == record.uid)
        if found is None:
            raise self._missing(record)
        return found

    def _row(self, *conditions: ColumnElement[bool]) -> Record | None:
        with self.reading() as connection:
            row = connection.execute(select(STUDIES).where(*conditions)).first()
        return None if row is None else as_record(row)

    def rename(self, record: Record, name: str) -> Record:
        """The study under another name; a DuplicateNameError if there is one of that name.

        The chain of its events begins with its name, and so it is made anew, once it was found to be whole. Whoever
        has the study open goes on with it: it is known by its identity.
        """
        with self.writing() as connection:
            anchor = self._held(connection, record)
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
        renamed = replace(record, name=name, digest=digest)
        self._keep(renamed, Anchor(digest, anchor.events, head))
        self._wrote(record.uid)
        return renamed

    def delete(self, record: Record) -> None:
        """Remove a study and all its events."""
        with self.writing() as connection:
            connection.execute(delete(EVENTS).where(EVENTS.c.study == record.id))
            connection.execute(delete(STUDIES).where(STUDIES.c.id == record.id))
            # Before it is done: a study that is gone and not known to be deleted would be missed.
            self._acknowledged.forget(record.uid)
            database.notify(connection, record.uid)
        self._wrote(record.uid)

    def _wrote(self, uid: str) -> None:
        if self.told is not None:
            self.told(uid)

    def heads(self) -> dict[str, Head]:
        """Every study by its identity, as far as tells whether something happened to it."""
        wanted = select(STUDIES.c.uid, STUDIES.c.name, STUDIES.c.events)
        with self.reading() as connection:
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
        # What this process knows was acknowledged before the moment that is read; then what all of them know.
        for known in (self._acknowledged.end, self._acknowledged.end_for_all):
            end = known(record.uid)
            with self.reading() as connection:
                anchor = self._anchor(connection, record)
                is_there = through is not None or still_has(connection, record.id, anchor, end)
                if is_there or after <= anchor.events:
                    found = _read(connection, record, anchor, after, through)
            if is_there:
                self._check_reads_on(record, after)
                if through is None and not after:
                    self._intact.add(record.uid)
                return found
        assert end is not None
        raise self._lost(record.uid, end, anchor)

    @contextmanager
    def transaction(self, record: Record) -> Iterator["Transaction"]:
        """The study to oneself, for reading what is new and appending to it; an error leaves nothing written."""
        with self.writing() as connection:
            before = self._generation
            transaction = Transaction(connection, record, self._held(connection, record), self._check_reads_on)
            yield transaction
            transaction.anchor()
            if transaction.has_written:
                database.notify(connection, record.uid)
        if transaction.has_written:
            self._keep(record, transaction.reached)
            if self._generation != before:
                # Others wrote to the file just then: it is asked for once more.
                self.read(record, transaction.reached.events)
            self._wrote(record.uid)

    def _keep(self, record: Record, reached: Anchor) -> None:
        """What is in the database now counts as acknowledged."""
        self._alarms.clear()
        self._acknowledged.reached(record, reached)
        self._acknowledged.note_end(record.uid)

    def _held(self, connection: Connection, record: Record) -> Anchor:
        """What the study's row knows, in a transaction that writes; a sentence where it lacks what was acknowledged."""
        anchor = self._anchor(connection, record)
        for known in (self._acknowledged.end, self._acknowledged.end_for_all):
            end = known(record.uid)
            if still_has(connection, record.id, anchor, end):
                return anchor
        assert end is not None
        raise self._lost(record.uid, end, anchor)

    def _check_reads_on(self, record: Record, after: int) -> None:
        """A sentence where whoever has read so far may hold what is no more, or not know that it was broken since."""
        if after and self._acknowledged.is_overtaken(record.uid):
            words = (
                f"An older copy of the study {record.name!r} was put back and accepted while this program had it open. "
                "Nothing was acknowledged; start the program again, which opens the copy."
            )
            raise ReplacedError(Sentence(words, "fault.put_back", {"name": record.name}))
        if after and record.uid in self._broken:
            raise _damaged(record, self._broken[record.uid])

    def _lost(self, uid: str, end: End, anchor: Anchor | None) -> LostEventsError:
        found = self._acknowledged.lost(uid, end, anchor, now())
        self._tell(str(found))
        return found

    def _tell(self, words: str) -> None:
        """Tell of what is wrong once, until something is written again."""
        # The driver's own words, at the end, are others each time.
        what = words.partition(" (")[0]
        if what not in self._alarms and self.alarmed is not None:
            self.alarmed(words)
        self._alarms.add(what)

    def _missing(self, record: Record) -> StorageError:
        """Why a study has no row: somebody deleted it, or the file is another."""
        try:
            self.check_deleted(record.uid)
        except LostEventsError as error:
            return error
        return DeletedError(f"The study {record.name!r} is no longer in {self.url}: somebody deleted it.")

    def check_deleted(self, uid: str) -> None:
        """A sentence where a study that is not there was acknowledged, and nobody has deleted it."""
        end = self._acknowledged.noted().expected.get(uid)
        if end is not None:
            raise self._lost(uid, end, None)

    def _check_not_lost(self, name: str) -> None:
        """A sentence where a study of that name was acknowledged and is not there."""
        for uid, end in self._acknowledged.noted().expected.items():
            if end.name == name and uid not in self.heads():
                raise self._lost(uid, end, None)

    def missing(self) -> dict[str, LostEventsError]:
        """Studies that were acknowledged and are not there, by their names, and what is to be said of each."""
        ends, there = self._acknowledged.noted().expected, self.heads()
        return {end.name: self._lost(uid, end, None) for uid, end in ends.items() if uid not in there}

    def accept(self, voter: str) -> list[GivenUp]:
        """Take every study as it is that lacks what was acknowledged, once; what was given up of each."""
        there, noted = {record.uid: record for record in self.studies()}, self._acknowledged.noted()
        ends = {uid: end for uid, end in noted.ends.items() if uid in there or uid in noted.expected}
        found = [self._accept(uid, end, there.get(uid), voter) for uid, end in ends.items()]
        return [one for one in found if one is not None]

    def _accept(self, uid: str, end: End, record: Record | None, voter: str) -> GivenUp | None:
        if record is None:
            self._lost(uid, end, None)
            self._acknowledged.accept(uid, end, None, now())
            return GivenUp(end.name, end.events, None)
        with self.writing() as connection:
            anchor = self._anchor(connection, record)
            if still_has(connection, record.id, anchor, end):
                return None
            _read(connection, record, anchor, 0, None)
            self._lost(uid, end, anchor)
            transaction = Transaction(connection, record, anchor)
            noticed = self._acknowledged.noticed(uid)
            transaction.append(voter, events.Restored(end.events, anchor.events, end.head, noticed))
            transaction.anchor()
            database.notify(connection, uid)
        self._acknowledged.accept(uid, end, End(record.name, *transaction.reached), now())
        self._wrote(uid)
        return GivenUp(record.name, end.events, anchor.events)

    def back_up(self, path: Path) -> None:
        """Copy the whole database to a new file while others go on writing; SQLite only."""
        with self._in_words():
            database.back_up(self._engine, path)

    def troubles(self) -> list[str]:
        """What the database itself finds wrong with its file: nothing, if it is whole."""
        if self._engine.dialect.name != "sqlite":
            return []
        with self.reading() as connection:
            return acknowledged.troubles(connection)

    def hidden(self, words: str) -> str:
        """Words about the database without where it is."""
        plain = words.replace(self.url, "the database")
        plain = plain if self._file is None else plain.replace(f"{self._file.path.parent}{os.sep}", "")
        return Sentence(plain, words.key, words.values) if isinstance(words, Sentence) else plain

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
            raise self._missing(record)
        if not isinstance(row.events, int):
            raise CorruptedError(f"The row of the study {record.name!r} is damaged: it counts {row.events!r} events.")
        return Anchor(*row)

    def _refused(self, error: SQLAlchemyError) -> StorageError:
        """What the database's own error says; of a server that does not answer, whoever listens to it tells."""
        found = database.refusal(self.url, error)
        if self.alarmed is not None and self._engine.dialect.name == "sqlite":
            self._tell(str(found))
        return found

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
            raise self._refused(error) from error
        except UnicodeDecodeError as error:  # SQLite quotes a damaged table's own words in its error
            raise CorruptedError(
                f"The database {self.url} refused: the file is damaged. Restore a copy, or try SQLite's `.recover`."
            ) from error
        except PermissionError as error:
            raise StorageError(f"The database {self.url} cannot be opened: {error.strerror}.") from error


class Transaction:
    """What may be done to a study while nobody else writes to it."""

    def __init__(
        self, connection: Connection, record: Record, found: Anchor, check: Callable[[Record, int], None] | None = None
    ) -> None:
        self.connection, self.record, self._check = connection, record, check
        self.found = self.reached = found

    @property
    def has_written(self) -> bool:
        """Whether something was appended."""
        return self.reached != self.found

    def read(self, after: int) -> list[Stored]:
        """The events since a number."""
        if self._check is not None:
            self._check(self.record, after)
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
