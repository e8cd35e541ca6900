"""The file of a SQLite database: whether it is still the one that was opened, and nobody else wrote into it.

It is looked at from outside: a process that opens and closes it beside SQLite loses SQLite's locks on it.
What is written ahead comes into it by our own checkpoints, after which it is looked at again. Any other change of its
size or time is somebody else's, and the database is then read as a whole before anything is acknowledged.
"""

import json
import logging
import os
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from kappasharp.errors import ReplacedError
from kappasharp.files import appending, replacing
from kappasharp.messages.message import Sentence

# The ends of chains, beside a SQLite database: what was acknowledged, so that a tail that is lost shows.
#
# A text file that is only appended to, `FILE-heads`: a line for each thing noted, with a checksum. It is written after
# a commit and not synchronised. Where it is older than the database nothing is wrong; where it knows more, events are
# gone.

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


# What is written ahead is taken into the file when it has grown so far: SQLite's own thousand pages.
AHEAD_BYTES = 1000 * (4096 + 24)


MAGIC = b"SQLite format 3\0"
# Seconds for which a file may be shorter than it says, while another program takes in what is written ahead.
GROWING = 2.0
# A descriptor for each file that was ever read here. They stay open: closing one would end SQLite's locks.
_OPEN: dict[tuple[int, int], int] = {}


class Trace(NamedTuple):
    """What tells a file from another, and from itself once somebody has written to it."""

    device: int
    number: int
    size: int
    written: int

    @property
    def which(self) -> tuple[int, int]:
        """What stays as long as it is the same file."""
        return self.device, self.number


def trace(path: Path) -> Trace | None:
    """The file as it is now; None where there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        words = f"The file {path} cannot be reached: {error.strerror}. Nothing was acknowledged; see to its disk."
        raise ReplacedError(Sentence(words, "fault.unreachable", {"name": path.name})) from error
    return Trace(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class DatabaseFile:
    """The file of a database, and those that SQLite keeps beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ahead, self.index = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
        self.heads = Heads(path)
        # Whoever goes over to a changed file is alone.
        self.lock = RLock()
        self.known: Trace | None = None
        # The file, and the one that is written ahead of it.
        self.together: tuple[Any, Any] | None = None
        # What was refused, and why: as long as it is the same, nobody reads it once more.
        self.refused: tuple[Trace, str] | None = None

    def check_openable(self) -> Trace | None:
        """The file as it is, where SQLite may open it; else a sentence. None where there is none and never was one."""
        waiting, found = trace(self.ahead), trace(self.path)
        if found is None:
            if self.known is not None or self.heads.read().expected:
                raise self.gone()
            return None
        if self.known is not None and found.which != self.known.which:
            raise self.another()
        if waiting is None or not waiting.size:
            waiting = None
        if found.size == 0 and (waiting or self.heads.read().expected):
            # SQLite would take it for a new database, and delete what was written ahead.
            raise self.emptied()
        if self.known is None and waiting and self.heads.read().is_ahead_of_another(found.which, waiting.which):
            raise self.stale()
        return found

    def beside(self) -> tuple[Any, ...]:
        """Which files a connection has open, beside the database itself; those that are not there are None."""
        return tuple(found and found.which for found in map(trace, (self.path, self.ahead, self.index)))

    def check_beside(self, opened: tuple[Any, ...]) -> None:
        """A sentence if these are not the files that a connection has open."""
        now = self.beside()
        if now[0] is None:
            raise self.gone()
        if now[0] != opened[0]:
            raise self.another()
        for path, before, found in zip((self.ahead, self.index), opened[1:], now[1:], strict=True):
            if before is not None and before != found:
                raise self.apart(path)

    def trouble(self) -> str | None:
        """What is wrong with the file itself, whatever is written ahead of it; None where nothing is."""
        end = time.monotonic() + GROWING
        while True:
            found = trace(self.path)
            if found is None:
                return "it is gone"
            head = self._head(found)
            if head[:16] != MAGIC:
                return "it does not begin as a database does"
            page, pages = int.from_bytes(head[16:18], "big"), int.from_bytes(head[28:32], "big")
            said = pages * (65536 if page == 1 else page) if head[24:28] == head[92:96] else 0
            if found.size >= said:
                return None
            if time.monotonic() > end:
                return f"it has {found.size} bytes, and must have {said}"
            time.sleep(0.05)

    def _head(self, found: Trace) -> bytes:
        if found.which not in _OPEN:
            _OPEN[found.which] = os.open(self.path, os.O_RDONLY)
        return os.pread(_OPEN[found.which], 100, 0)

    def note_files(self) -> None:
        """Keep which files belong together, for whoever opens them after a crash."""
        main, ahead, _ = self.beside()
        if main and ahead and (main, ahead) != self.together:
            self.together = main, ahead
            if self.heads.read().files != [*main, *ahead]:
                self.heads.note(["files", *main, *ahead])

    def is_ahead_of_another(self, found: Trace) -> bool:
        """Whether what is written ahead beside this file belongs to the one that was in its place before."""
        waiting = trace(self.ahead)
        return bool(
            self.together and waiting and waiting.size and waiting.which == self.together[1]
            and found.which != self.together[0]
        )  # fmt: skip

    def gone(self) -> ReplacedError:
        """It is not there."""
        return self._refusal(
            Sentence(
                (
                    "The database file {path} is gone. Nothing was acknowledged; put it back, and this goes on. To "
                    "begin anew without it, remove {name}-heads beside it, which knows what was stored."
                ),
                "fault.gone",
            )
        )

    def another(self) -> ReplacedError:
        """Another file has its name."""
        return self._refusal(
            Sentence(
                (
                    "The database file {path} is not the one that was opened: another was put in its place. Nothing "
                    "was acknowledged; put the right file back, and this goes on. If the new one is meant, stop every"
                    " program that has the database open, move {name}-wal and {name}-shm away, and start again."
                ),
                "fault.another",
            )
        )

    def emptied(self) -> ReplacedError:
        """It has no bytes any more."""
        return self._refusal(
            Sentence(
                (
                    "The database file {path} is empty, but studies were stored in it. Nothing was acknowledged; stop"
                    " every program that has it open, put a copy in its place, and start again."
                ),
                "fault.emptied",
            )
        )

    def stale(self) -> ReplacedError:
        """What was written ahead is another file's."""
        return self._refusal(
            Sentence(
                (
                    "The database file {path} was put in the place of another, to which {name}-wal beside it belongs."
                    " Nothing was changed; stop every program that has the database open, move {name}-wal and "
                    "{name}-shm away, and start again; or put the other file back."
                ),
                "fault.stale",
            )
        )

    def overwritten(self, evidence: str) -> ReplacedError:
        """Somebody wrote into it, and it is no longer whole."""
        return self._refusal(
            Sentence(
                (
                    "The database file {path} was overwritten or cut off by another program while it was open "
                    "({evidence}). Nothing was acknowledged; stop every program that has it open, put a copy in its "
                    "place, move {name}-wal and {name}-shm away, and start again."
                ),
                "fault.overwritten",
            ),
            evidence=evidence,
        )

    def apart(self, path: Path) -> ReplacedError:
        """One of those that SQLite keeps beside it is another, or gone."""
        words = (
            "The file {path} beside the database was removed or replaced while it was in use. Nothing was "
            "acknowledged; stop every program that has the database open, then start them again."
        )
        return self._refusal(Sentence(words, "fault.beside"), path)

    def _refusal(self, said: Sentence, path: Path | None = None, **more: str) -> ReplacedError:
        given = {"path": str(path or self.path), "name": (path or self.path).name} | more
        return ReplacedError(Sentence(said.format(**given), said.key, {"name": given["name"]} | more))
