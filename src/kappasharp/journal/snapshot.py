"""The line between the page's server and what its workers compute: beyond it torch is needed, and the server has none.

A study goes over it as bytes, and a job by its name, which is found where it is done.
"""

import pickle
from dataclasses import dataclass
from typing import Any

from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History

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
