"""What was acknowledged of each study: whether the database still has it, and what is said where it has not."""

from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, select

from kappasharp.errors import KappaSharpError, LostEventsError, StorageError
from kappasharp.messages.message import Sentence
from kappasharp.store import schema
from kappasharp.store.database_file import End, HeadNotes, Heads
from kappasharp.store.schema import EVENTS, STUDIES

# What to do about a copy, of a file and on a server.
FILE = (
    "Put the right file back; or, if this copy is meant, `kappasharp check --accept` takes it as it is, once, and "
    "notes what was given up (in Python `kappasharp.accept_copy(storage=…)`)."
)
SERVER = "Put the right database back; or, if this copy is meant, start this program again."


class Anchor(NamedTuple):
    """What a study's row knows of its chain: where it begins, how many events it has, and its end."""

    digest: str
    events: int
    head: str


class Named(Protocol):
    """A study's row, as far as is needed here."""

    @property
    def id(self) -> int:
        """Its number in this database."""

    @property
    def uid(self) -> str:
        """Its identity."""

    @property
    def name(self) -> str:
        """Its name."""


def still_has(connection: Connection, key: int, anchor: Anchor, end: End | None) -> bool:
    """Whether a study has all that was acknowledged of it: as many events, and where that ended the same one."""
    if end is None or (anchor.events, anchor.head) == (end.events, end.head):
        return True
    if anchor.events < end.events:
        return False
    if anchor.digest != end.digest:
        # It was renamed meanwhile, and its chain made anew.
        return True
    if end.events == 0:
        return True
    there = select(EVENTS.c.chain).where(EVENTS.c.study == key, EVENTS.c.number == end.events)
    return bool(connection.execute(there).scalar() == end.head)


class Acknowledged:
    """The ends of the studies of one database: in this process, and beside a file of SQLite's."""

    def __init__(self, url: str, heads: Heads | None) -> None:
        self.url, self.heads = url, heads
        self._ends = dict(self.noted().ends)
        # Studies of which events were given up since this was opened: who holds more of them opens them again.
        self._accepted = len(self.noted().losses)
        self._overtaken: set[str] = set()

    def noted(self) -> HeadNotes:
        """What stands beside the database."""
        return HeadNotes() if self.heads is None else self.heads.read()

    def end(self, uid: str) -> End | None:
        """How far a study was acknowledged, as far as this process knows."""
        return self._ends.get(uid)

    def end_for_all(self, uid: str) -> End | None:
        """The same as all processes know it; what was given up since then is known after it."""
        noted = self.noted()
        for row in noted.losses[self._accepted :]:
            if row[0] == "accepted":
                self._overtaken.add(row[2])
        self._accepted = len(noted.losses)
        if uid in noted.ends or uid in self._overtaken:
            self._ends = {one: end for one, end in self._ends.items() if one != uid} | noted.ends
        return self._ends.get(uid)

    def is_overtaken(self, uid: str) -> bool:
        """Whether events were given up that somebody here may still hold."""
        return uid in self._overtaken

    def reached(self, record: Named, anchor: Anchor) -> None:
        """Keep a study's new end, which is in the database."""
        self._ends[record.uid] = End(record.name, *anchor)

    def note(self, *rows: list[Any]) -> None:
        """Add to what stands beside the database."""
        if self.heads is not None:
            self.heads.note(*rows)

    def note_end(self, uid: str) -> None:
        """Note where a study ends now."""
        self.note(["end", uid, *self._ends[uid]])

    def forget(self, uid: str) -> None:
        """A study is about to be deleted."""
        self._ends.pop(uid, None)
        self.note(["deleted", uid])

    def accept(self, uid: str, end: End, now: End | None, time: str) -> None:
        """Go on with a study as it is now, or without it where there is none; an error where that cannot be noted."""
        rows: list[list[Any]] = [["accepted", time, uid, end.name, end.events, None if now is None else now.events - 1]]
        rows += [] if now is None else [["end", uid, *now]]
        if self.heads is None or not self.heads.note(*rows):
            raise StorageError(
                f"What stands beside {self.url} could not be written: the copy of {end.name!r} is not accepted. Give "
                "write access to its folder, and accept it again."
            )

    def noticed(self, uid: str) -> str | None:
        """When it was first seen that a study lacks what was acknowledged."""
        return next((str(one[1]) for one in reversed(self.noted().losses) if one[2] == uid and one[0] == "lost"), None)

    def lost(self, uid: str, end: End, anchor: Anchor | None, time: str) -> LostEventsError:
        """What to say of a study that lacks what was acknowledged; it is noted beside the database, once."""
        has = None if anchor is None else anchor.events
        row = ["lost", uid, end.name, end.events, has]
        if all([one[0], *one[2:]] != row for one in self.noted().losses):
            self.note(["lost", time, *row[1:]])
        return LostEventsError(_sentence(self.url, end, has, SERVER if self.heads is None else FILE))


def _sentence(url: str, end: End, has: int | None, how: str) -> Sentence:
    if has is None:
        words = f"The study {end.name!r} with {end.events} acknowledged events is not in {url} any more. {how}"
        return Sentence(words, "fault.lost_study", {"name": end.name, "count": end.events})
    if has < end.events:
        words = (
            f"{end.events - has} of the {end.events} events of the study {end.name!r} that were acknowledged are "
            f"missing in {url}, which has {has}: the file is an older one, or what was written ahead of it is damaged. "
            f"{how} `load_study({end.name!r}, through={has})` reads what is there."
        )
        values = {"name": end.name, "count": end.events, "missing": end.events - has, "has": has}
        return Sentence(words, "fault.lost_events", values)
    words = (
        f"Event {end.events} of the study {end.name!r} in {url} is not the one that was acknowledged: the file is "
        f"another copy, which went its own way. {how}"
    )
    return Sentence(words, "fault.lost_way", {"name": end.name, "count": end.events})


# Whether a database is whole, read afresh: the pages of its file, and every study's chain.


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
