"""Rules of the source that no tool knows: short files, nouns, whole sentences, no silent failure, no clamped z."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator

import torch

from kappasharp.inference import likelihood
from tests.sources import SOURCES, nodes

FILE_LINES = 700
# Nouns of the field that end like a gerund.
NOUNS = {"rating", "ranking"}
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


def test_the_checks_bite():
    assert len(glued("x = ('one'\n     'two')\ny = (f'{a}'  # why\n     f'{b}')\nz = 'a ' 'b'\nw = ['a', 'b']")) == 2
    assert silent("try:\n    f()\nexcept ValueError:\n    pass") == [3]
    assert clamped_z("def f(z):\n    return g((-z).clamp(min=-3.0))") == ["f"]
    assert {"__init__.py", "errors.py", "inference/laplace.py"} <= set(SOURCES)
