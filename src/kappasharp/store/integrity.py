"""Whether a database is whole, read afresh: the pages of its file, and every study's chain."""

from typing import Any

from sqlalchemy import Connection, select

from kappasharp.errors import KappaSharpError
from kappasharp.store import schema
from kappasharp.store.schema import EVENTS, STUDIES


def troubles(connection: Connection, *, thorough: bool = True) -> list[str]:
    """What SQLite itself finds wrong with its file: nothing, if it is whole."""
    words = "integrity_check" if thorough else "quick_check"
    found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {words}")]
    return [] if found == ["ok"] else found


def evidence(connection: Connection) -> str | None:
    """What shows that the file is no database of studies any more, in a few words; None where nothing does."""
    found = troubles(connection, thorough=False)
    if found:
        return found[0].strip().splitlines()[-1]
    try:
        version = schema.version(connection)
    except KappaSharpError as error:
        return str(error)
    return None if version == schema.SCHEMA_VERSION else f"its schema is version {version}"


def broken(connection: Connection) -> dict[str, int]:
    """Of every study whose chain is broken, by its identity, the first event that is not as it was written."""
    found = {}
    for study in connection.execute(select(STUDIES)).all():
        number = _first_broken(connection, study)
        if number is not None:
            found[str(study.uid)] = number
    return found


def _first_broken(connection: Connection, study: Any) -> int | None:
    head, number = study.digest, 0
    mine = select(EVENTS).where(EVENTS.c.study == study.id).order_by(EVENTS.c.number)
    for number, row in enumerate(connection.execute(mine), 1):
        if row.number != number or row.chain != schema.digest_of_event(head, row):
            return number
        head = row.chain
    return None if (number, head) == (study.events, study.head) else number + 1
