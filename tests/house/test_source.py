"""Rules of the source that no tool knows: short files, nouns, whole sentences, no silent failure, no clamped z."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator

import torch

from kappasharp.inference import likelihood
from tests.sources import SOURCES, nodes, parsed

FILE_LINES = 700
# Nouns of the field that end like a gerund.
NOUNS = {"rating", "ranking"}
FORBIDDEN = {"util", "utils", "helper", "helpers", "misc", "common", "manager"}
# Draw from a generator if they are given one, and from the global one if not.
DRAWS = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial"}
DRAWS |= {"uniform_", "normal_", "bernoulli_", "random_", "exponential_", "poisson"}
# The tail's formula is computed for every z and chosen only below −tail; the clamp keeps it finite elsewhere.
# A tie's quadrature is cut where its interval holds no mass; z itself goes on.
MAY_CLAMP = {("numerics/normal.py", "derivatives"), ("inference/likelihood.py", "_tie_moments")}


def offenders(rule: Callable[[str], list]) -> dict[str, list]:
    """What a rule finds, by file."""
    return {name: found for name, source in SOURCES.items() if (found := rule(source))}


def test_a_file_is_one_idea():
    assert [name for name, source in SOURCES.items() if source.count("\n") > FILE_LINES] == []


def test_a_module_is_a_noun():
    stems = {name.rpartition("/")[2].removesuffix(".py") for name in SOURCES}
    assert {stem for stem in stems if stem.endswith("ing")} <= NOUNS


def words(name: str) -> set[str]:
    """Snake, camel and kebab case taken apart, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)}


def given_names(tree: ast.AST) -> Iterator[str]:
    """Every name that this source coins; names that it only uses are others' business."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def drawer_words(source: str) -> list[str]:
    return [name for name in given_names(parsed(source)) if words(name) & FORBIDDEN]


def test_no_drawer_words():
    assert [name for name in SOURCES if words(name.removesuffix(".py")) & FORBIDDEN] == []
    assert offenders(drawer_words) == {}


def class_names(source: str) -> list[str]:
    return [node.name for node in nodes(source) if isinstance(node, ast.ClassDef)]


def test_a_class_name_stands_for_one_class():
    counts = Counter(name for source in SOURCES.values() for name in class_names(source))
    assert {name for name, count in counts.items() if count > 1} == set()


def chance(source: str) -> list[str]:
    """Uses of a global generator: NumPy's, Python's, torch's."""
    found = []
    for node in nodes(source):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name in ("random", "numpy.random", "secrets")]
            case ast.ImportFrom(module="random" | "numpy.random" | "secrets" as module):
                found.append(module)
            case ast.Attribute(value=ast.Name(id="np" | "numpy" | "torch"), attr="random" as name):
                found.append(name)
            case ast.Attribute(attr="manual_seed" | "seed_all" | "manual_seed_all" | "set_rng_state" as name):
                found.append(name)
            case ast.Call(func=ast.Attribute(attr=name), keywords=keywords) if name in DRAWS:
                found += [name] if "generator" not in {keyword.arg for keyword in keywords} else []
    return found


def test_chance_has_a_name():
    # Processes of other people's software draw from any generator, and are seeded where they begin.
    others = {"lab/external/server.py": ["random", "manual_seed", "random"]}
    assert offenders(chance) == {"randomness.py": ["manual_seed"]} | others


def left_to_do(source: str) -> list[str]:
    """Lines that put something off without naming an issue."""
    marked = [line.strip() for line in source.splitlines() if re.search(r"\b(TODO|FIXME|XXX)\b", line)]
    return [line for line in marked if not re.search(r"#\d+", line)]


def test_no_todo_without_an_issue():
    assert offenders(left_to_do) == {}


def literals(source: str) -> Iterator[tuple[tokenize.TokenInfo, tokenize.TokenInfo]]:
    """First and last token of every string literal, None where something else stands between two of them."""
    start, depth = None, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind.endswith("_START"):  # f-strings are several tokens from Python 3.12 on
            start, depth = (token if depth == 0 else start), depth + 1
        elif kind.endswith("_END") and depth:
            depth -= 1
            if depth == 0:
                yield start, token
        elif depth == 0 and kind == "STRING":
            yield token, token
        elif depth == 0 and kind not in ("NL", "COMMENT"):
            yield None, None


def glued(source: str) -> list[str]:
    """Neighbouring literals whose join is a word against a word."""
    lines = source.splitlines()
    found, before = [], None
    for start, end in literals(source):
        if before is not None and start is not None:
            left = re.sub(r"[\"']+$", "", lines[before.end[0] - 1][: before.end[1]])
            right = re.sub(r"^[a-zA-Z]{0,2}[\"']+", "", lines[start.start[0] - 1][start.start[1] :])
            if re.search(r"(?<!\\n)[\w}.,;:!?)`%]$", left) and re.match(r"[\w{`(]", right):
                found.append(f"line {start.start[0]}: {left[-12:]}|{right[:12]}")
        before = end
    return found


def test_no_glued_sentences():
    assert offenders(glued) == {}


def silent(source: str) -> list[int]:
    """Lines where an error is caught by no name, or by any name and then dropped."""
    handlers = [node for node in nodes(source) if isinstance(node, ast.ExceptHandler)]
    return [h.lineno for h in handlers if h.type is None or all(isinstance(s, ast.Pass) for s in h.body)]


def test_nothing_fails_in_silence():
    assert offenders(silent) == {}


def clamped_z(source: str) -> list[str]:
    """Functions that clamp an expression in z."""
    found = []
    for function in (node for node in nodes(source) if isinstance(node, ast.FunctionDef)):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if getattr(call.func, "attr", "") not in ("clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_max"):
                continue
            inside = {
                node.id for part in (call.func, *call.args) for node in ast.walk(part) if isinstance(node, ast.Name)
            }
            found += [function.name] if inside & {"z", "z_0", "z_1", "z_trial", "shifted"} else []
    return found


def test_z_is_never_clamped():
    found = {(name, function) for name, functions in offenders(clamped_z).items() for function in functions}
    assert {(name, function) for name, function in found if name.startswith(("inference/", "numerics/"))} == MAY_CLAMP


def test_the_likelihood_goes_on_beyond_three():
    z = torch.linspace(-60.0, 6.0, 67)
    slope, omega = likelihood.sites(z)
    log_slope = likelihood.curvature(z).log_slope
    for falling in (-likelihood.log_probability(z), slope, omega[55:], log_slope):
        assert bool((falling.diff() < 0).all())


def test_packages_are_entered_by_their_modules():
    """An `__init__` is empty, but for the package's own and the drop-in's; nobody imports relatively."""
    full = {name for name, source in SOURCES.items() if name.endswith("__init__.py") and source.strip()}
    assert full == {"__init__.py", "integrations/botorch/__init__.py"}
    found = {
        name: [node for node in nodes(source) if isinstance(node, ast.ImportFrom)] for name, source in SOURCES.items()
    }
    assert [name for name, all_of_them in found.items() if any(node.level for node in all_of_them)] == []


def test_the_checks_bite():
    assert words("KernelUtils_v2") & FORBIDDEN and words("communal") & FORBIDDEN == set()
    assert drawer_words("def f(misc):\n    run_helper = communal = 1") == ["misc", "run_helper"]
    assert chance("np.random.seed(1)\ntorch.rand(2)\ntorch.rand(2, generator=g)") == ["rand", "random"]
    assert chance("import random\ntorch.manual_seed(1)") == ["random", "manual_seed"]
    assert left_to_do("f()  # TODO\ng()  # TODO #3") == ["f()  # TODO"]
    assert len(glued("x = ('one'\n     'two')\ny = (f'{a}'  # why\n     f'{b}')\nz = 'a ' 'b'\nw = ['a', 'b']")) == 2
    assert silent("try:\n    f()\nexcept ValueError:\n    pass") == [3]
    assert clamped_z("def f(z):\n    return g((-z).clamp(min=-3.0))") == ["f"]
    assert {"__init__.py", "errors.py", "inference/laplace.py"} <= set(SOURCES)
