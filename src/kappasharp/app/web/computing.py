"""The line between the page's server and what its workers compute: beyond it torch is needed, and the server has none.

A study goes over it as bytes, and a job by its name, which is found where it is done.
"""

import asyncio
import logging
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from typing import Any

from kappasharp.app.web.workers import (
    NICENESS,
    DroppedError,
    GaveWayError,
    NotStartedError,
    TooLateError,
    Turn,
    WorkerError,
    Workers,
)
from kappasharp.study import schema
from kappasharp.study.definition import Definition
from kappasharp.study.events import Stored
from kappasharp.study.history import History
from kappasharp.study.simulation import Simulator
from kappasharp.study.storage import Record, Storage
from kappasharp.study.study import Study

LOG = logging.getLogger("kappasharp")
Plain = dict[str, Any]
# Where the jobs are.
JOBS = "kappasharp.app.web.jobs"
# A job that takes longer, in seconds, is given up.
LIMIT = 120.0
# One that nobody answers by has longer: it stands behind questions, and on a busy machine behind much else.
PATIENT_LIMIT = 300.0
# Who waits for a question comes before who waits for anything else.
BEHIND_QUESTIONS = NICENESS + 5


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
    simulator: Simulator | None

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


class Job(Enum):
    """What is computed, by the name of its function; a call computes it here."""

    READY = "ready"
    NEXT_PAIRS = "next_pairs"
    NEXT_PAIR_AFTER = "next_pair_after"
    STOCK = "stock"
    STANDING = "standing"
    TEAM = "team_view"
    BEST = "best_view"
    WHY = "why_view"
    MODEL = "model_view"
    OUTCOMES = "outcomes_view"
    REHEARSED = "rehearsed"
    CHANGED = "changed"
    PICTURED = "pictured"
    EXPORTED = "exported"

    def __call__(self, *given: Any) -> Any:
        """Do it, and import what that takes."""
        return getattr(import_module(JOBS), self.value)(*given)


def workers(size: int, niceness: int = NICENESS) -> Workers:
    """Worker processes that have all that the jobs need."""
    return Workers(size, preload=(JOBS,), first=Job.READY, niceness=niceness)


async def computed(workers: Workers, job: Callable[..., Any], *given: Any, turn: Turn) -> Any:
    """What a question's job comes to, or a WorkerError.

    It is done by a worker. It is done here where that is sooner, because none has started and torch is here, and where
    none starts: nobody can answer without questions.
    """
    if workers.is_warm or "torch" not in sys.modules:
        try:
            return await elsewhere(workers, job, *given, turn=turn, limit=LIMIT)
        except NotStartedError as error:
            LOG.warning("A question is computed in the server: %s", error)
    return await asyncio.to_thread(job, *given)


async def elsewhere(workers: Workers, job: Callable[..., Any], *given: Any, turn: Turn, limit: float) -> Any:
    """What a job comes to that is never done in the server, or a WorkerError.

    It is done by another worker if the first one died of it, and begun again where it gave way to others. What took too
    long would take too long again.
    """
    has_failed = False
    while True:
        try:
            return await workers.run(job, *given, limit=limit, turn=turn)
        except GaveWayError:
            continue
        except (NotStartedError, TooLateError, DroppedError):
            raise
        except WorkerError:
            if has_failed:
                raise
            has_failed = True
