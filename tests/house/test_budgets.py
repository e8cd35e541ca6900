"""Guide values that serve reading: files of one idea, short functions, few parameters by position."""

import ast
from collections.abc import Iterator

from tests.sources import SOURCES, nodes

FILE_LINES = 700
BODY_LINES = 40
PARAMETERS = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: str) -> Iterator[Function]:
    return (node for node in nodes(source) if isinstance(node, Function))


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last; blank lines and comments between them count."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return statements[-1].end_lineno - statements[0].lineno + 1 if statements else 0


def parameters(function: Function) -> int:
    """Parameters that may be given by position, without self and cls."""
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    return len([name for name in names if name not in ("self", "cls")])


def over_budget(source: str) -> list[str]:
    found = [(f.name, body_lines(f), parameters(f)) for f in functions(source)]
    long = [f"{name}: a body of {lines} lines" for name, lines, _ in found if lines > BODY_LINES]
    return long + [f"{name}: {count} parameters by position" for name, _, count in found if count > PARAMETERS]


def test_files():
    assert {name: lines for name, text in SOURCES.items() if (lines := len(text.splitlines())) > FILE_LINES} == {}
    assert {name: found for name, text in SOURCES.items() if (found := over_budget(text))} == {}


def test_the_check_bites():
    body = "\n".join(f"    x{i} = {i}" for i in range(BODY_LINES))
    assert over_budget(f'def f(a, b, c, *, d, e, g):\n    """One\n    two."""\n{body}') == []
    assert over_budget(f"def f():\n{body}\n    return 1") == ["f: a body of 41 lines"]
    assert over_budget("class A:\n    def f(self, a, b, c, d, e, f, *, g, **h): ...") == []
    assert over_budget("class A:\n    def f(self, a, b, c, d, e, f, g): ...") == ["f: 7 parameters by position"]
