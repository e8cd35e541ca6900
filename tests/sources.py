"""The package's sources, read once, and parsed once in a process however many rules look at them."""

import ast
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "kappasharp"
# By the path below the package.
SOURCES = {str(path.relative_to(SRC)): path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))}


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a text; nobody may change it."""
    return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of that tree."""
    return tuple(ast.walk(parsed(source)))
