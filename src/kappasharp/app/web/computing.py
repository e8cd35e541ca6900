"""The line between the page's server and what its workers compute: beyond it torch is needed, and the server has none.

A study goes over it as bytes, and a job by its name, which is found where it is done.
"""

import asyncio
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kappasharp.app.web.workers import NotStartedError, TooLateError, Turn, WorkerError, Workers
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.study import Study

if TYPE_CHECKING:
    from kappasharp.app import report

__all__ = ["LIMIT", "Job", "Plain", "Snapshot", "computed", "report", "snapshot", "workers"]
Plain = dict[str, Any]
# Where the jobs are.
JOBS = "kappasharp.app.web.jobs"
# A job that takes longer, in seconds, is given up.
LIMIT = 120.0


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

    def __call__(self, *given: Any) -> Any:
        """Do it, and import what that takes."""
        return getattr(import_module(JOBS), self.value)(*given)


def workers(size: int) -> Workers:
    """Worker processes that have all that the jobs need."""
    return Workers(size, preload=(JOBS,), first=Job.READY)


async def computed(workers: Workers, job: Callable[..., Any], *given: Any, wish: int = 0) -> Any:
    """What a job comes to, or a WorkerError.

    It is done by a worker, by another if the first one died of it. It is done here where that is sooner, because none
    has started and torch is here, and where none starts: what took too long there would take too long here, and what
    kills a process must not be done in this one.
    """
    if workers.is_warm or "torch" not in sys.modules:
        for is_last in (False, True):
            try:
                return await workers.run(job, *given, limit=LIMIT, turn=Turn(wish=wish))
            except NotStartedError:
                break
            except WorkerError as error:
                if is_last or isinstance(error, TooLateError):
                    raise
    return await asyncio.to_thread(job, *given)


def __getattr__(name: str) -> ModuleType:
    # A report is made by the server itself, once in a while.
    if name != "report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("kappasharp.app.report")
