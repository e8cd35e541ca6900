"""The tables of a database of studies, their version, and the way from an older version to this one."""

from collections.abc import Callable, Mapping

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
    insert,
    inspect,
    select,
    update,
)

from kappasharp.errors import StorageError

VERSION = 1
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


def prepare(connection: Connection) -> None:
    """Make the tables in an empty database, bring an older one up to date, refuse a newer one."""
    found = version(connection)
    if found is None:
        METADATA.create_all(connection)
        connection.execute(insert(VERSIONS).values(version=VERSION))
        return
    if found > VERSION:
        raise StorageError(
            f"The database was written by a newer kappasharp: its schema is version {found}, this one reads up to "
            f"version {VERSION}. Nothing was changed; `pip install --upgrade kappasharp` brings one that reads it."
        )
    while found < VERSION:
        MIGRATIONS[found](connection)
        found += 1
        connection.execute(update(VERSIONS).values(version=found))


def version(connection: Connection) -> int | None:
    """The schema's version; None where there are no tables yet."""
    if not inspect(connection).has_table(VERSIONS.name):
        return None
    return connection.execute(select(VERSIONS.c.version)).scalar()
