"""kappasharp: preferential optimisation from answers to one question, A or B?"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from kappasharp._moved import OldNames as _OldNames

if _TYPE_CHECKING:
    from kappasharp.algorithm.loop import Info, ask, init, tell
    from kappasharp.algorithm.state import Question, State
    from kappasharp.algorithm.surrogate import Surrogate, fit
    from kappasharp.errors import KappaSharpError
    from kappasharp.journal.question import Pair
    from kappasharp.problems.problem import Problem
    from kappasharp.problems.registry import PROBLEMS
    from kappasharp.problems.registry import find_problem as problem
    from kappasharp.settings import METHODS, PRESETS, Method, Preset
    from kappasharp.space.outcomes import AtLeast, AtMost, Less, More
    from kappasharp.space.parameters import Categorical, Fixed, Float, Int
    from kappasharp.study.collection import (
        accept_copy,
        create_study,
        delete_study,
        import_json,
        list_studies,
        load_study,
        optimize,
        rename_study,
    )
    from kappasharp.study.judge import JudgeQuestion, JudgeRules
    from kappasharp.study.study import Study

__version__ = "0.2.0"

_sys.meta_path.append(_OldNames())

# Everything is imported when it is first used: torch takes two seconds, and studies need a database library, which a
# machine that only computes may lack.
_PLACES = {
    "kappasharp.errors": ("KappaSharpError",),
    "kappasharp.algorithm.loop": ("Info", "ask", "init", "tell"),
    "kappasharp.settings": ("Method", "Preset", "METHODS", "PRESETS"),
    "kappasharp.algorithm.state": ("Question", "State"),
    "kappasharp.algorithm.surrogate": ("Surrogate", "fit"),
    "kappasharp.problems.problem": ("Problem",),
    "kappasharp.problems.registry": ("PROBLEMS", "problem"),
    "kappasharp.study.judge": ("JudgeQuestion", "JudgeRules"),
    "kappasharp.journal.question": ("Pair",),
    "kappasharp.space.outcomes": ("AtLeast", "AtMost", "Less", "More"),
    "kappasharp.space.parameters": ("Categorical", "Fixed", "Float", "Int"),
    "kappasharp.study.collection": (
        "accept_copy",
        "create_study",
        "delete_study",
        "import_json",
        "list_studies",
        "load_study",
        "optimize",
        "rename_study",
    ),
    "kappasharp.study.study": ("Study",),
}
_WHERE = {name: module for module, names in _PLACES.items() for name in names}
_CALLED_THERE = {"problem": "find_problem"}


def __getattr__(name: str) -> _Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(_import_module(_WHERE[name]), _CALLED_THERE.get(name, name))
    return found


def __dir__() -> list[str]:
    return list(__all__)


__all__ = [
    "METHODS",
    "PRESETS",
    "PROBLEMS",
    "AtLeast",
    "AtMost",
    "Categorical",
    "Fixed",
    "Float",
    "Info",
    "Int",
    "JudgeQuestion",
    "JudgeRules",
    "KappaSharpError",
    "Less",
    "Method",
    "More",
    "Pair",
    "Preset",
    "Problem",
    "Question",
    "State",
    "Study",
    "Surrogate",
    "__version__",
    "accept_copy",
    "ask",
    "create_study",
    "delete_study",
    "fit",
    "import_json",
    "init",
    "list_studies",
    "load_study",
    "optimize",
    "problem",
    "rename_study",
    "tell",
]
