"""Imports run downwards only: read from the syntax tree, those inside functions and under TYPE_CHECKING included."""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from tests.sources import SOURCES, nodes

FRONT_DOOR = "kappasharp"
FLOORS = {
    "errors": 1, "faces": 1, "sentences": 1, "shapes": 1, "streams": 1, "batches": 1, "files": 1, "processes": 1,
    "kernels": 2, "parquet": 2,
    "core": 3, "problems": 3,
    "acquisition": 4,
    "methods": 5,
    "study": 6, "lab": 6, "drop_in": 6,
    "botorch_model": 7, "ax_surrogate": 7, "optuna_sampler": 7,
    "app": 7, "app.examples": 7, "app.web": 8, "app.cli": 9, FRONT_DOOR: 10, "__main__": 10,
}  # fmt: skip
# What a room may import from outside, beside the standard library.
LIBRARIES = {
    FRONT_DOOR: (), "__main__": (),
    "errors": (), "faces": (), "sentences": (), "shapes": ("torch", "jaxtyping"), "streams": ("torch",),
    "batches": ("torch",), "files": (), "parquet": ("pyarrow",), "processes": ("torch",), "kernels": ("torch",),
    "problems": ("torch", "numpy"), "core": ("torch",), "acquisition": ("torch",), "methods": ("torch",),
    "lab": ("torch", "numpy", "scipy", "pyarrow", "matplotlib"), "study": ("torch", "sqlalchemy"),
    "drop_in": ("torch", "botorch", "gpytorch", "linear_operator"),
    "botorch_model": (), "ax_surrogate": ("ax", "botorch"), "optuna_sampler": ("torch", "optuna", "optuna_dashboard"),
    "app": ("torch", "matplotlib"), "app.examples": ("torch",), "app.web": ("torch", "starlette", "uvicorn", "segno"),
    "app.cli": ("torch", "click", "uvicorn", "segno"),
}  # fmt: skip
DYNAMIC = ("import_module", "__import__")
# Time, files, logs and a second source of chance have no place among the equations.
NOT_AMONG_EQUATIONS = {"time", "datetime", "logging", "os", "io", "pathlib", "tempfile", "random", "secrets"}


def read_modules() -> dict[str, str]:
    names = {name: Path(FRONT_DOOR, name).with_suffix("").parts for name in SOURCES}
    return {".".join(parts).removesuffix(".__init__"): SOURCES[name] for name, parts in names.items()}


def room(module: str) -> str:
    """The room a module stands in; a room within a room where that has a floor of its own."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in FLOORS else parts[0] if parts else FRONT_DOOR


def imports(source: str, modules: dict[str, str]) -> set[str]:
    """Every module that this source names in an import; "from p import m" counts as p.m where that is a module."""
    found = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            inner = {f"{base}.{alias.name}" for alias in node.names} & set(modules)
            # The package's face is never the way to a module of it.
            found |= {base} if base == FRONT_DOOR else inner or {base}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in DYNAMIC:
            found |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return found


def complaint(module: str, target: str) -> str | None:
    """Why this module may not import that one; None where it may."""
    here, top = room(module), target.split(".", maxsplit=1)[0]
    if target.startswith("."):
        return "is relative"
    if top != FRONT_DOOR:
        if here in ("core", "acquisition") and top in NOT_AMONG_EQUATIONS:
            return "has no place among the equations"
        known = top in sys.stdlib_module_names or here not in LIBRARIES or top in LIBRARIES[here]
        return None if known else "is not one of the room's libraries"
    there = room(target)
    if there == FRONT_DOOR:
        return "goes through the package's face"
    if there != here and FLOORS[there] >= FLOORS[here]:
        return "runs up, or to a stranger on the same floor"
    return None


def complaints(modules: dict[str, str]) -> list[str]:
    pairs = [(module, target) for module, source in modules.items() for target in imports(source, modules)]
    return sorted(f"{m} -> {t} {why}" for m, t in pairs if (why := complaint(m, t)))


def test_every_room_has_a_floor():
    assert {room(module) for module in read_modules()} <= set(FLOORS)


def test_imports_run_downwards():
    assert complaints(read_modules()) == []


def reach(start: str, modules: dict[str, str]) -> set[str]:
    """Every module and library that importing a room's modules may bring, from one import to the next."""
    waiting, found = {module for module in modules if room(module) == start}, set()
    while waiting:
        found |= waiting
        waiting = {target for module in waiting & set(modules) for target in imports(modules[module], modules)} - found
    return found


def test_the_page_is_read_without_the_command_line():
    found = reach("app.web", read_modules())
    assert [name for name in sorted(found) if room(name) == "app.cli" or name.split(".")[0] == "click"] == []
    assert {"kappasharp.web.server", "kappasharp.study.study", "starlette.applications"} <= found


def test_no_circles():
    modules = read_modules()
    graph = {module: imports(source, modules) & set(modules) for module, source in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle in it


def test_rooms_have_no_face():
    modules = read_modules()
    rooms = [Path(name).parent for name in SOURCES if name.endswith("/__init__.py")]
    faces = {".".join((FRONT_DOOR, *room.parts)) for room in rooms}
    assert {"kappasharp.core", "kappasharp.app", "kappasharp.app.web", "kappasharp.cli"} <= faces
    assert [name for name in sorted(faces) if modules[name].strip()] == []


def test_the_check_bites():
    bad = {
        "kappasharp.core.a": "def f():\n    from kappasharp.methods import b",
        "kappasharp.methods.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import kappasharp.app.c",
        "kappasharp.app.c": "from kappasharp import fit",
        "kappasharp.errors": "from kappasharp.tensors import Points",
        "kappasharp.tensors": "import importlib\nimportlib.import_module('kappasharp.core.a')",
        "kappasharp.core.d": "import logging\nimport gpytorch\nfrom . import a",
        "kappasharp.study.e": "from kappasharp.lab import run",
    }
    assert len(complaints(bad)) == 9
    assert complaints({"kappasharp.app.web.a": "from kappasharp.app.cli import b\nimport click"}) == [
        "kappasharp.app.web.a -> click is not one of the room's libraries",
        "kappasharp.app.web.a -> kappasharp.cli runs up, or to a stranger on the same floor",
    ]
    roundabout = {"kappasharp.app.web.a": "from kappasharp.app import b", "kappasharp.app.b": "import click"}
    assert reach("app.web", roundabout) == {*roundabout, "click"}
