"""Databases by their URL: SQLite or PostgreSQL, opened so that what is committed is durable; refusals in words."""

import os
import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from kappasharp.errors import CorruptedError, InvalidValueError, StorageError, needed
from kappasharp.files import replacing
from kappasharp.store.database_file import DatabaseFile

IN_MEMORY = (None, "", ":memory:")
DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
# Connections to PostgreSQL that are kept, and how many there may be at a time.
POOL, CONNECTIONS = 5, 20
# What PostgreSQL calls the news of all studies.
CHANNEL = "kappasharp"
# For how long a new database's journal is asked for while others make the same one, and how often: seconds.
JOURNAL_SECONDS, JOURNAL_PAUSE = 20.0, 0.1
# What is said where PostgreSQL does not answer: whether what was under way is stored, nobody knows then.
GONE = "its server does not answer. What was under way was not acknowledged; start the server, and this goes on."
# Where a connection keeps which files it has open.
BESIDE = "kappasharp files"
# Nobody but the owner: answers have names on them.
PRIVATE = 0o600


def address(url: Any) -> URL:
    """The parts of a URL, or a sentence."""
    try:
        # Half a character is no name of a file.
        str(url).encode("utf-8")
        return make_url(url)
    except (ArgumentError, ValueError, TypeError, AttributeError) as error:
        raise no_url(url, error) from error


def no_url(url: Any, error: Exception) -> StorageError:
    """The sentence for what is no URL of a database."""
    return StorageError(
        f"`storage` must be a URL such as sqlite:///study.db or postgresql+psycopg://user@host/name, but got "
        f"{readable(url)!r} ({error})."
    )


def readable(url: Any) -> str:
    """The URL without its password."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", str(url))


def opened_file(url: str) -> DatabaseFile | None:
    """The file of SQLite's behind a URL, to look after; None where there is none, or it may only be read."""
    file = _file(address(url))
    return None if file is None or _frozen(file) else DatabaseFile(file.absolute())


def exists(url: str) -> bool:
    """Whether there is something to open: no for a file of SQLite that is not there yet."""
    file = _file(address(url))
    return file is None or file.exists()


def _file(found: URL) -> Path | None:
    """The file of SQLite's, where the URL gives it as a path."""
    if not found.drivername.startswith("sqlite") or found.database in IN_MEMORY or "uri" in found.query:
        return None
    return Path(str(found.database))


def engine(url: str, busy_seconds: float, opened: DatabaseFile | None = None) -> Engine:
    """Connections to a database, which SQLite makes where it is missing; each to the file that is looked after."""
    found = address(url)
    found = found.set(drivername=DRIVERS.get(found.drivername, found.drivername))
    if found.drivername.startswith("postgresql+psycopg"):
        needed("psycopg", "A study in PostgreSQL", "postgres")
    if not found.drivername.startswith("sqlite"):
        # More would be too many for a server with several pages; whoever finds none waits half a minute for one.
        return create_engine(found, pool_pre_ping=True, max_overflow=CONNECTIONS - POOL, pool_size=POOL)
    file = _file(found)
    if file is not None and _frozen(file):
        # SQLite reads what is written ahead only where it may put a file beside it, or knows that none is needed.
        name = f"file:{quote(str(file.absolute()))}"
        found = found.set(database=name, query={"mode": "ro", "immutable": "1", "uri": "true"})
    elif file is not None and file.parent.is_dir():
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
    if opened is None:
        return _sqlite(found, busy_seconds)
    # Which file a relative name means would depend on the folder at the time.
    made = _sqlite(found.set(database=str(opened.path)), busy_seconds)
    _look_after(made, opened)
    return made


def _look_after(made: Engine, opened: DatabaseFile) -> None:
    """Let no connection have another file than the one that is looked after."""

    def check(*_: Any) -> None:
        opened.check_openable()

    def note(connection: sqlite3.Connection, record: Any) -> None:
        # What is written ahead is taken in by `Storage`, which knows then who changed the file.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # The file that is written ahead is cut where it begins anew: its size tells how much is in it.
        connection.execute("PRAGMA journal_size_limit=0")
        opened.check_openable()
        record.info[BESIDE] = opened.beside()

    event.listen(made, "do_connect", check)
    event.listen(made, "connect", note)


class _Lasting(sqlite3.Connection):
    """The one connection that holds a database in memory: an interrupted call makes SQLAlchemy throw it away."""

    def close(self) -> None:
        """Forget what was not committed; all else ends with the engine."""
        if self.in_transaction:
            self.rollback()


def _sqlite(found: URL, busy_seconds: float = 0.0) -> Engine:
    if found.database in IN_MEMORY:
        kept = sqlite3.connect(":memory:", check_same_thread=False, timeout=busy_seconds, factory=_Lasting)
        made = create_engine(found, poolclass=StaticPool, creator=lambda: kept)
        weakref.finalize(made, sqlite3.Connection.close, kept)
    else:
        # A file gets as many connections as there are threads: who reads never waits for those who wait to write.
        patience = {"check_same_thread": False, "timeout": busy_seconds}
        made = create_engine(found, connect_args=patience, max_overflow=-1)
    event.listen(made, "connect", _set_up_sqlite)
    event.listen(made, "begin", _begin_sqlite)
    return made


def _frozen(file: Path) -> bool:
    """Whether neither the file nor its folder may be written, and nothing waits beside it to be taken in."""
    ahead = file.with_name(f"{file.name}-wal")
    if not file.exists() or (ahead.exists() and ahead.stat().st_size):
        return False
    return not _writable(file) and not _writable(file.parent)


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _set_up_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    # Transactions are begun by hand, below: the driver's own way begins them too late to hold a lock.
    connection.isolation_level = None
    # Bytes that are no text make one row differ from its digest; they must not keep the others from being read.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA synchronous=FULL")
    end = time.monotonic() + JOURNAL_SECONDS
    while True:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "delete":
            return
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            # A file that is opened as unchangeable keeps the journal that it has, without a word.
            return
        except sqlite3.OperationalError as error:
            # So does a database that is opened for reading only, with one.
            if "readonly" in str(error):
                return
            # Another process changes it at this moment; here SQLite itself does not wait.
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(JOURNAL_PAUSE)


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def notify(connection: Connection, uid: str) -> None:
    """Tell other programs, once this transaction has ended, that a study was written to; SQLite cannot."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(CHANNEL, uid)))


@contextmanager
def listening(source: Engine) -> Iterator[Callable[[float], set[str]]]:
    """A function that waits so many seconds for what `notify` tells, over a connection of its own to PostgreSQL."""
    with source.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.detach()
        connection.exec_driver_sql(f"LISTEN {CHANNEL}")
        raw: Any = connection.connection.dbapi_connection

        def heard(seconds: float) -> set[str]:
            try:
                found = {one.payload for one in raw.notifies(timeout=seconds, stop_after=1)}
                # What came at the same time, without waiting for more.
                return found | {one.payload for one in raw.notifies(timeout=0.0)} if found else found
            except source.dialect.loaded_dbapi.Error as error:
                raise StorageError(f"The database {readable(source.url)} tells nothing any more. ({error})") from error

        yield heard


def take_in(source: Engine) -> None:
    """Have SQLite take what is written ahead into its file, as far as nobody reads what was there before."""
    connection = source.raw_connection()
    try:
        connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")
    except sqlite3.Error as error:
        raise StorageError(f"{readable(source.url)}: what is written ahead was not taken in. ({error})") from error
    finally:
        connection.close()


def in_memory(source: Engine) -> Engine:
    """A copy of SQLite's database in memory."""
    made = _sqlite(make_url("sqlite://"))
    with source.connect() as old, made.connect() as new:
        _raw(old).backup(_raw(new))
    return made


def back_up(source: Engine, path: Path) -> None:
    """Copy a database of SQLite's to a new file, by its online backup: while others write, all of it or nothing."""
    if source.dialect.name != "sqlite":
        raise StorageError(
            "`backup` copies databases of SQLite; for PostgreSQL its own tool does it: "
            f"`pg_dump --format=custom --file={path} URL`, and `pg_restore` brings it back."
        )
    if path.exists():
        raise InvalidValueError(f"`path` must be a new file, but {path} is there; no copy is written over another.")
    try:
        with replacing(path) as temporary, source.connect() as old:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
            with closing(sqlite3.connect(temporary)) as new:
                _raw(old).backup(new)
                # One file, whole by itself, that can be read where nothing may be written.
                new.execute("PRAGMA journal_mode=DELETE")
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"{path} could not be written: {getattr(error, 'strerror', None) or error}.") from error


def _raw(connection: Connection) -> sqlite3.Connection:
    found = connection.connection.driver_connection
    assert isinstance(found, sqlite3.Connection)
    return found


def refusal(url: str, error: SQLAlchemyError) -> StorageError:
    """What happened, what it means, what to do."""
    cause = str(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error).strip()
    for sign, means in (
        ("locked", "another program is writing to it and did not finish in time. Nothing was lost; try again."),
        (
            "readonly",
            "it may only be read. Nothing was written; give write access to file and folder, then restart the program.",
        ),
        ("disk is full", "the disk is full. Nothing was written and nothing before it was lost; make room, try again."),
        ("disk I/O error", "the disk could not be written. Nothing before it was lost; check the disk, try again."),
        ("malformed", "the file is damaged. Restore a copy, or try SQLite's `.recover`."),
        (
            "not a database",
            "the file is not a database. Nothing was changed; restore a copy if it was one, or give another name.",
        ),
        ("terminating connection", GONE),
        ("closed the connection", GONE),
        ("connection is closed", GONE),
        ("connection is lost", GONE),
        ("connection failed", GONE),
        ("connection is bad", GONE),
        ("unable to open", "the file cannot be opened. Check that its folder exists and may be written."),
    ):
        if sign in cause:
            kind = CorruptedError if sign == "malformed" else StorageError
            return kind(f"The database {url} refused: {means} ({cause})")
    return StorageError(f"The database {url} refused; nothing was written. ({cause})")
