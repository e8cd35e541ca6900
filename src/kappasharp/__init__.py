"""kappasharp: preferential optimisation from answers to one question, A or B?"""

from kappasharp.errors import KappaSharpError
from kappasharp.methods.fitted import Surrogate, fit
from kappasharp.methods.loop import Info, Question, State, ask, init, tell
from kappasharp.methods.method import Method, Preset
from kappasharp.methods.registry import METHODS, PRESETS
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS, problem

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "PRESETS",
    "PROBLEMS",
    "Info",
    "KappaSharpError",
    "Method",
    "Preset",
    "Problem",
    "Question",
    "State",
    "Surrogate",
    "__version__",
    "ask",
    "fit",
    "init",
    "problem",
    "tell",
]
