"""A study on its way to another process: `Snapshot` is definition and history as bytes, `Copied` its row and events.

The first is enough to compute with; the second becomes the whole study again, in memory.
"""

import pickle
from dataclasses import dataclass, replace
from typing import Any

from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Stored
from kappasharp.journal.history import History
from kappasharp.space.outcomes import OutcomeFunction
from kappasharp.store import schema
from kappasharp.store.storage import Record, Storage
from kappasharp.study.study import Study

Plain = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment, as bytes that go to another process; `number` is its last event."""

    number: int
    content: bytes

    def opened(self) -> tuple[Definition, History]:
        """Definition and history."""
        found: tuple[Definition, History] = pickle.loads(self.content)
        return found


def snapshot(study: Study) -> Snapshot:
    """The study now."""
    return Snapshot(*study.packed())


@dataclass(frozen=True)
class Copied:
    """A study's row and events as of one moment, which become the same study in another process."""

    record: Record
    events: list[Stored]
    simulator: OutcomeFunction | None

    @property
    def number(self) -> int:
        """That of its last event."""
        return self.events[-1].number if self.events else 0

    def opened(self) -> Study:
        """The study, in memory: of the same name, made at the same time, with the same events."""
        storage, of = Storage("sqlite://"), self.record
        made = storage.create(of.name, of.definition, self.events)
        digest = schema.digest_of_study(made.uid, of.name, of.created, made.text)
        return Study(storage, replace(made, created=of.created, digest=digest), simulator=self.simulator)


def copied(study: Study) -> Copied:
    """The study now; it holds up nobody who answers meanwhile."""
    return Copied(study.stored, study.storage.read(study.stored), study.definition.simulator)
