"""The line between what is stored and said of a study and what is computed: beyond it torch is needed.

Whoever opens, lists, reads, renames or exports a study stays on this side. A module beyond it is imported when
something of it is first used: `computing.learning.learn(…)`.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kappasharp.findings import agreement, best, diagnosis, outcomes
    from kappasharp.journal import changes, validation
    from kappasharp.model import feasibility, fit, limits, outcomes, voters
    from kappasharp.planning import next_question

__all__ = [
    "agreement",
    "allowing",
    "certainty",
    "changing",
    "constraints",
    "diagnosis",
    "learning",
    "lifting",
    "people",
    "questions",
    "tradeoffs",
    "validation",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = import_module(f"kappasharp.study.{name}")
    return found
