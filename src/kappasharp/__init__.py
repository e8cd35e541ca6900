"""kappasharp: preferential optimisation from answers to one question, A or B?"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from kappasharp.faces import offer as _offer

if _TYPE_CHECKING:
    from kappasharp.errors import KappaSharpError
    from kappasharp.methods.loop import Info, ask, init, tell
    from kappasharp.methods.method import Method, Preset
    from kappasharp.methods.registry import METHODS, PRESETS
    from kappasharp.methods.state import Question, State
    from kappasharp.methods.surrogate import Surrogate, fit
    from kappasharp.problems.problem import Problem
    from kappasharp.problems.registry import PROBLEMS
    from kappasharp.problems.registry import find_problem as problem
    from kappasharp.study.calling import JudgeQuestion
    from kappasharp.study.history import Pair
    from kappasharp.study.judging import JudgeRules
    from kappasharp.study.outcomes import AtLeast, AtMost, Less, More
    from kappasharp.study.parameters import Categorical, Fixed, Float, Int
    from kappasharp.study.studies import (
        accept_copy,
        create_study,
        delete_study,
        import_json,
        list_studies,
        load_study,
        optimize,
        rename_study,
    )
    from kappasharp.study.study import Study

__version__ = "0.2.0"

# Everything is imported when it is first used: torch takes two seconds, and studies need a database library, which a
# machine that only computes may lack.
_PLACES = {
    "kappasharp.errors": ("KappaSharpError",),
    "kappasharp.methods.loop": ("Info", "ask", "init", "tell"),
    "kappasharp.methods.method": ("Method", "Preset"),
    "kappasharp.methods.registry": ("METHODS", "PRESETS"),
    "kappasharp.methods.state": ("Question", "State"),
    "kappasharp.methods.surrogate": ("Surrogate", "fit"),
    "kappasharp.problems.problem": ("Problem",),
    "kappasharp.problems.registry": ("PROBLEMS", "problem"),
    "kappasharp.study.calling": ("JudgeQuestion",),
    "kappasharp.study.history": ("Pair",),
    "kappasharp.study.judging": ("JudgeRules",),
    "kappasharp.study.outcomes": ("AtLeast", "AtMost", "Less", "More"),
    "kappasharp.study.parameters": ("Categorical", "Fixed", "Float", "Int"),
    "kappasharp.study.studies": (
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

# What the floors above do for a study that is asked for it.
_offer(
    report="kappasharp.app.report:write_html",
    plots="kappasharp.app.notebook:Plots",
    study_html="kappasharp.app.notebook:study_html",
    best_html="kappasharp.app.notebook:best_html",
    question_html="kappasharp.app.notebook:question_html",
    frame="kappasharp.app.web.frame:show",
)


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
