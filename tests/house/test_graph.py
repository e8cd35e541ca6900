"""The graph of imports stays shallow: every import statement counts, those in functions and for types too."""

from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter

import grimp

from tests.sources import SOURCES

LONGEST_CHAIN, MOST_LEVELS, MOST_MODULES = 30, 8, 215


@cache
def imports() -> dict[str, set[str]]:
    """The modules that each one imports."""
    graph = grimp.build_graph("kappasharp", cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def depths(below: dict[str, set[str]]) -> dict[str, int]:
    """How many modules the longest chain of imports from each one down has; a circle raises CycleError."""
    found: dict[str, int] = {}
    for module in TopologicalSorter(below).static_order():
        found[module] = 1 + max((found[one] for one in below.get(module, ())), default=0)
    return found


def test_no_chain_of_imports_is_long():
    assert max(depths(imports()).values()) <= LONGEST_CHAIN


def test_no_package_has_many_levels():
    packages = defaultdict(dict)
    for module, targets in imports().items():
        package = module.rpartition(".")[0]
        packages[package][module] = {one for one in targets if one.rpartition(".")[0] == package}
    levels = {name: max(depths(below).values()) for name, below in packages.items() if "." in name}
    assert {name: count for name, count in levels.items() if count > MOST_LEVELS} == {}


def test_there_are_no_more_modules_than_needed():
    assert len([name for name, text in SOURCES.items() if text.strip()]) <= MOST_MODULES


def test_the_depth_is_counted():
    assert depths({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": 3, "b": 2, "c": 1}
