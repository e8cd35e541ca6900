"""What `import kappasharp` gives and what it costs: an exact list of names, and nothing at all until one is used."""

import subprocess
import sys
from pathlib import Path

import pytest

import kappasharp

DOCS = Path(__file__).parents[2] / "docs"
NAMES = {
    "METHODS", "PRESETS", "PROBLEMS", "Info", "KappaSharpError", "Method",
    "Preset", "Problem", "Question", "State", "Surrogate",
    "__version__", "ask", "fit", "init", "problem", "tell",
}  # fmt: skip
# Those of a study: they need more than torch.
OF_STUDIES = {
    "AtLeast", "AtMost", "Categorical", "Fixed", "Float", "Int", "Less", "More", "Pair", "Study",
    "JudgeQuestion", "JudgeRules",
    "accept_copy", "create_study", "delete_study", "import_json", "list_studies", "load_study", "optimize",
    "rename_study",
}  # fmt: skip
# Names of methods and presets are written into results: one may be added, none may change.
METHODS = [
    "baseline", "static", "fixed20", "adaptive", "connected",
    "jitter", "diagonal", "metric_only", "cov_only", "full_augmentation",
    "spectral", "aligned", "auto", "incumbent", "bridging", "best_of_3", "best_of_4",
    "choice_3", "choice_4", "order_3", "order_4", "slider", "slider_4", "rating", "timed", "people", "outcomes",
    "ep", "ep_ei", "gibbs_ei",
]  # fmt: skip
PRESETS = ["paper", "modern", "modern_0_2", "local", "dimension_scaled"]
LIBRARIES = ["numpy", "scipy", "pyarrow", "sqlalchemy", "starlette", "uvicorn", "dask"]
OPTIONAL = [
    "ax",
    "beartype",
    "botorch",
    "click",
    "gpytorch",
    "jaxtyping",
    "matplotlib",
    "mpmath",
    "optuna",
    "pandas",
    "scipy",
]


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_exact_names():
    assert set(kappasharp.__all__) == set(dir(kappasharp)) == NAMES | OF_STUDIES
    assert all(getattr(kappasharp, name).__name__ == name for name in OF_STUDIES)
    assert all(getattr(kappasharp, name) is not None for name in NAMES)
    # What a shell offers after `ks.` before anything is used, whether it asks `dir` or looks into the module.
    code = "import kappasharp; print(*(n for n in [*vars(kappasharp), *dir(kappasharp)] if not n.startswith('_')))"
    assert set(python(code).split()) == (NAMES | OF_STUDIES) - {"__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'importlib'"):
        kappasharp.importlib  # noqa: B018


def test_exact_registry():
    assert list(kappasharp.METHODS) == METHODS
    assert list(kappasharp.PRESETS) == PRESETS


def test_every_method_and_preset_is_explained():
    page = (DOCS / "how-to-choose.md").read_text("utf-8")
    assert [name for name in METHODS + PRESETS if f"`{name}`" not in page] == []


def test_import_brings_nothing_and_use_brings_torch():
    """Only the standard library, torch and what torch itself imports: whatever else happens to be installed."""
    code = """
import sys
def brought(before): return sorted({name.partition(".")[0] for name in sys.modules} - before)
known = set(sys.stdlib_module_names) | {name.partition(".")[0] for name in sys.modules}
import kappasharp
print(*brought(known), sep=",")
import torch
known |= set(brought(known))
kappasharp.fit, kappasharp.PROBLEMS, kappasharp.ask
print(*brought(known), sep=",")
"""
    assert python(code).split("\n") == ["kappasharp", "", ""]


def test_a_question_and_a_block_of_the_lab_need_nothing_but_torch():
    """They run on a bare GPU machine: NumPy, too, is only a simulation's. (An entry of None makes an import fail.)"""
    code = f"""
import sys
sys.modules.update(dict.fromkeys({[*OPTIONAL, *LIBRARIES]}))
import kappasharp as ks
state = ks.init([[0.1], [0.9]], [[0, 1]])
question, state, info = ks.ask(state)
print(len(ks.tell(state, question, 0).points[0]), *info.status)
from kappasharp.lab import experiment; from kappasharp.lab import grid; from kappasharp.lab import run
table = {{"problems": ["hartmann-6d"], "initializations": ["pure_k3"], "methods": ["static"], "presets": ["paper"]}}
blocks = grid.blocks(experiment.parse("bare", table | {{"seeds": 2, "queries": 9}}))
print(*(row["status"] for row in run.run_together(blocks)[0]))
"""
    assert python(code).split() == ["4", "ok", "ok", "ok"]
