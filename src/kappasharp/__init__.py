"""kappasharp: preferential optimisation from answers to one question, A or B?"""

import importlib
import typing

from kappasharp.errors import KappaSharpError
from kappasharp.methods.loop import Info, ask, init, tell
from kappasharp.methods.method import Method, Preset
from kappasharp.methods.registry import METHODS, PRESETS
from kappasharp.methods.state import Question, State
from kappasharp.methods.surrogate import Surrogate, fit
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS
from kappasharp.problems.registry import find_problem as problem

if typing.TYPE_CHECKING:
    from kappasharp.study.history import Pair
    from kappasharp.study.outcomes import AtLeast, AtMost, Less, More
    from kappasharp.study.parameters import Categorical, Fixed, Float, Int
    from kappasharp.study.studies import create_study, delete_study, import_json, load_study, optimize
    from kappasharp.study.study import Study

__version__ = "0.2.0"

# Studies are imported when first used: they need a database library, which a machine that only computes may lack.
_WHEN_USED = {
    "Pair": "kappasharp.study.history",
    "AtLeast": "kappasharp.study.outcomes",
    "AtMost": "kappasharp.study.outcomes",
    "Less": "kappasharp.study.outcomes",
    "More": "kappasharp.study.outcomes",
    "Categorical": "kappasharp.study.parameters",
    "Fixed": "kappasharp.study.parameters",
    "Float": "kappasharp.study.parameters",
    "Int": "kappasharp.study.parameters",
    "create_study": "kappasharp.study.studies",
    "delete_study": "kappasharp.study.studies",
    "import_json": "kappasharp.study.studies",
    "load_study": "kappasharp.study.studies",
    "optimize": "kappasharp.study.studies",
    "Study": "kappasharp.study.study",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHEN_USED[name]), name)


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
    "ask",
    "create_study",
    "delete_study",
    "fit",
    "import_json",
    "init",
    "load_study",
    "optimize",
    "problem",
    "tell",
]
