"""The ends of chains, beside a SQLite database: what was acknowledged, so that a tail that is lost shows.

A text file that is only appended to, `FILE-heads`: a line for each thing noted, with a checksum. It is written after a
commit and not synchronised. Where it is older than the database nothing is wrong; where it knows more, events are gone.
"""

import json
import logging
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kappasharp.files import appending, replacing

LOG = logging.getLogger("kappasharp")
# Whenever it has grown by so many bytes, the file is written anew with what still counts.
LONGEST = 128 * 1024
PRIVATE = 0o600


class End(NamedTuple):
    """How far a study was acknowledged: where its chain begins, how many events it has, and the last one's digest."""

    name: str
    digest: str
    events: int
    head: str


@dataclass
class HeadNotes:
    """What the file says: the end of every study, what was lost and what was accepted."""

    ends: dict[str, End] = field(default_factory=dict)
    # Those that somebody was about to delete: nobody misses them, and where they are still there their end counts.
    deleted: set[str] = field(default_factory=set)
    # Losses and what was accepted of them, the oldest first.
    losses: list[list[Any]] = field(default_factory=list)
    # Device and number of the database's file, and of the one that is written ahead, as they were last seen together.
    files: list[Any] = field(default_factory=list)
    # Lines that are not as they were written.
    spoiled: int = 0

    def take(self, row: list[Any]) -> None:
        """Take in one more line."""
        word, *rest = row
        if word == "files":
            self.files = rest
        elif word in ("lost", "accepted"):
            self.losses.append(row)
            if word == "accepted":
                self.ends.pop(rest[1], None)
                self.deleted |= {rest[1]} if rest[-1] is None else set()
        elif word == "end":
            uid, end = rest[0], End(*rest[1:])
            # Two programs may note the ends of two transactions the other way round.
            if uid not in self.ends or end.events >= self.ends[uid].events:
                self.ends[uid] = end
        elif word == "deleted":
            self.deleted.add(rest[0])
        else:
            self.spoiled += 1

    @property
    def expected(self) -> dict[str, End]:
        """The ends of studies that nobody has deleted."""
        return {uid: end for uid, end in self.ends.items() if uid not in self.deleted}

    def is_ahead_of_another(self, main: tuple[int, int], ahead: tuple[int, int]) -> bool:
        """Whether what is written ahead was last seen beside another file than this one."""
        return bool(self.files) and self.files[2:] == [*ahead] and self.files[:2] != [*main]

    def rows(self) -> list[list[Any]]:
        """The same in as few lines as say it."""
        deleted, ends = (["deleted", uid] for uid in self.deleted), self.expected.items()
        files = [["files", *self.files]] if self.files else []
        return [*self.losses, *deleted, *(["end", uid, *end] for uid, end in ends), *files]


class Heads:
    """The file beside a database."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-heads")
        self._told: set[str] = set()

    def read(self) -> HeadNotes:
        """What was noted; nothing where there is no file, or none that can be read, which is said once."""
        try:
            return _parsed(self.path.read_bytes())
        except FileNotFoundError:
            return HeadNotes()
        except OSError as error:
            self._tell("read", error)
            return HeadNotes()

    def note(self, *rows: list[Any]) -> bool:
        """Add lines; whether the file could be written. What is in the database is safe without: it is said once."""
        text = _text(rows)
        try:
            with appending(self.path, PRIVATE) as file:
                # A line that was torn by a crash ends where the next begins.
                os.write(file, text)
                size = os.fstat(file).st_size
                if size // LONGEST > (size - len(text)) // LONGEST:
                    self._shorten()
        except OSError as error:
            self._tell("written", error)
            return False
        self._told.discard("written")
        return True

    def _tell(self, what: str, error: OSError) -> None:
        if what not in self._told:
            why = error.strerror or error
            LOG.warning(
                "%s cannot be %s (%s): what is stored is safe, but lost events would not show.", self.path, what, why
            )
        self._told.add(what)

    def _shorten(self) -> None:
        """Write the file anew, for as long as this process alone may append."""
        found = _parsed(self.path.read_bytes())
        with replacing(self.path) as temporary:
            made = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE)
            try:
                os.write(made, _text(found.rows()))
            finally:
                os.close(made)


def _text(rows: Any) -> bytes:
    found = b""
    for row in rows:
        text = json.dumps(row, separators=(",", ":")).encode()
        found += b"\n%b %08x" % (text, zlib.crc32(text))
    return found


def _parsed(data: bytes) -> HeadNotes:
    found = HeadNotes()
    for line in filter(None, data.split(b"\n")):
        text, _, checksum = line.rpartition(b" ")
        if checksum == b"%08x" % zlib.crc32(text):
            found.take(json.loads(text))
        else:
            found.spoiled += 1
    return found
