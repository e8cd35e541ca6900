"""An experiment is a TOML file: which problems, initializations, methods, presets and seeds. No code in it.

```toml
title = "How the gate's threshold matters"
problems = ["ackley-8d", "levy-10d"]      # or "all": the paper's eleven; or "development"; or a generated
                                          # set, { set = 2, count = 30 }
initializations = ["pool_n6_k15"]         # or "all": the paper's five; or "from_zero": no answers for free
methods = ["baseline"]
presets = ["paper"]
seeds = 60                                # 0 to 59; or a list; or { first = 100, count = 60 }
queries = 50
settling = 0                              # how many of the last questions are duels between designs seen
person = "paper"
block_size = 60                           # runs in lockstep
limit = 600                               # seconds that a method from outside has for one reply

[commands]                                # methods that are programs (`lab/external/contract.py`)
mine = "node mine.js"

[variants.adaptive_tau_0_25]              # a method with another number
method = "adaptive"
gate.threshold = 0.25

[preset_variants.paper_nugget_1e-2]
preset = "paper"
nugget = 1e-2
```
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from kappasharp import settings
from kappasharp.errors import InvalidValueError, KappaSharpError, named
from kappasharp.lab.external import contract
from kappasharp.lab.external import methods as external_methods
from kappasharp.problems import random_problems, simulated_voters
from kappasharp.problems.initial_designs import FROM_ZERO, INITIALIZATIONS, STARTS
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, VARIANTS, find_problem, is_made
from kappasharp.problems.simulated_voters import Person
from kappasharp.settings import METHODS, PRESETS, Method, Preset

ALL = "all"
# Problems that one word chooses.
PROBLEM_SETS = {ALL: PROBLEMS, "development": DEVELOPMENT}
DEFAULTS = {
    "title": "", "seeds": 60, "queries": 50, "settling": 0, "person": "paper", "block_size": 60,
    "variants": {}, "preset_variants": {}, "methods": [], "presets": [], "commands": {}, "suite": "",
    "limit": contract.SECONDS,
}  # fmt: skip
REQUIRED = ("problems", "initializations")
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a name"}
T = TypeVar("T")


@dataclass(frozen=True)
class Experiment:
    """What is to be run; every choice by the name that results carry, with its values."""

    name: str
    title: str
    problems: tuple[str, ...]
    initializations: tuple[str, ...]
    methods: Mapping[str, "Method | external_methods.Peer"]
    presets: Mapping[str, Preset]
    seeds: tuple[int, ...]
    queries: int
    person: str
    block_size: int
    settling: int = 0
    suite: str = ""
    limit: int = contract.SECONDS

    @property
    def who(self) -> Person:
        """The simulated person."""
        return simulated_voters.person(self.person)

    @property
    def n_runs(self) -> int:
        """How many runs it takes."""
        sides = (self.problems, self.initializations, self.methods, self.presets, self.seeds)
        count = 1
        for side in sides:
            count *= len(side)
        return count


def read(path: Path) -> Experiment:
    """The experiment of a TOML file, or a sentence that says where it is wrong."""
    try:
        return parse(path.stem, tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise InvalidValueError(f"There is no experiment file at `{path}`.") from error
    except OSError as error:
        raise InvalidValueError(f"`{path}` cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"`{path}` is not valid TOML: {error}.") from error
    except KappaSharpError as error:
        raise type(error)(f"`{path.name}`: {error}") from error


def parse(name: str, given: Mapping[str, Any]) -> Experiment:
    """The experiment of a parsed TOML table."""
    for key in given:
        named("key of an experiment", key, dict.fromkeys((*REQUIRED, *DEFAULTS)))
    for key in REQUIRED:
        if key not in given:
            raise InvalidValueError(f"`{key}` is missing: a list of names, or {ALL!r}.")
    table = DEFAULTS | dict(given)
    methods = _methods(table)
    presets = _presets(table)
    experiment = Experiment(
        name=name,
        title=str(table["title"]),
        problems=_problems(table["problems"]),
        initializations=_chosen(
            "initialization", "initializations", table["initializations"], {ALL: INITIALIZATIONS}, dict.fromkeys(STARTS)
        ),
        methods=methods,
        presets=presets,
        seeds=_seeds(table["seeds"]),
        queries=_count("queries", table["queries"]),
        person=str(table["person"]),
        block_size=_count("block_size", table["block_size"]),
        settling=_settling(table["settling"], table["queries"]),
        suite=str(table["suite"]),
        limit=_count("limit", table["limit"]),
    )
    _check_lengths(experiment)
    _check_outcomes(experiment)
    simulated_voters.person(experiment.person)
    return experiment


def _problems(given: Any) -> tuple[str, ...]:
    if isinstance(given, Mapping):
        for key in given:
            named("key of a generated set", key, {"set": None, "count": None})
        number, count = _count("set", given.get("set", 0)), _count("count", given.get("count", random_problems.SIZE))
        return random_problems.names(number, count)
    drawn = {name: None for name in given if is_made(str(name))} if isinstance(given, list) else {}
    for name in drawn:
        find_problem(name)
    return _chosen("problem", "problems", given, PROBLEM_SETS, PROBLEMS | VARIANTS | DEVELOPMENT | drawn)


def _settling(given: Any, queries: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < queries:
        raise InvalidValueError(f"`settling` must be a whole number from 0 to below `queries`, but got {given!r}.")
    return given


def _check_lengths(experiment: Experiment) -> None:
    """From zero the first pairs are part of the questions."""
    for name, preset in experiment.presets.items():
        left = experiment.queries - experiment.settling
        if FROM_ZERO in experiment.initializations and preset.first_pairs >= left:
            raise InvalidValueError(
                f"`queries` must leave questions to the model from zero, but the preset {name!r} has "
                f"{preset.first_pairs} first pairs, and {left} questions come before settling."
            )


def _check_outcomes(experiment: Experiment) -> None:
    """Who learns on outcomes must have some."""
    wanting = [name for name, method in experiment.methods.items() if _needs_outcomes(method)]
    without = [name for name in experiment.problems if not find_problem(name).outcome_names] if wanting else []
    if without:
        raise InvalidValueError(
            f"`problems` must have outcomes for the method {wanting[0]}, but {without[0]} has none; leave one of the "
            "two out."
        )


def _needs_outcomes(method: "Method | external_methods.Peer") -> bool:
    return method.sees_outcomes if isinstance(method, external_methods.Peer) else method.use_outcomes


def _methods(table: Mapping[str, Any]) -> dict[str, "Method | external_methods.Peer"]:
    known = METHODS | external_methods.PEERS
    chosen: dict[str, Method | external_methods.Peer] = {
        name: external_methods.find(name, known) for name in _distinct("methods", table["methods"])
    }
    for label, command in _table("commands", table["commands"]).items():
        if not isinstance(command, str):
            raise InvalidValueError(f"`commands.{label}` must be a program as text, but got {command!r}.")
        # By their names results are compared with everybody's: none may look like another.
        chosen[_fresh(label, chosen | known)] = external_methods.spoken(command)
    for label, variant in _variants("method", "variants", table["variants"], METHODS):
        chosen[_fresh(label, chosen)] = settings.method(variant)
    if not chosen:
        raise InvalidValueError("An experiment needs `methods`, `variants` or `commands`; this one has none of them.")
    return chosen


def _presets(table: Mapping[str, Any]) -> dict[str, Preset]:
    chosen = {name: named("preset", name, PRESETS) for name in _distinct("presets", table["presets"])}
    for label, variant in _variants("preset", "preset_variants", table["preset_variants"], PRESETS):
        chosen[_fresh(label, chosen)] = settings.preset(variant)
    if not chosen:
        raise InvalidValueError("An experiment needs `presets`, `preset_variants`, or both; this one has neither.")
    return chosen


def _variants(kind: str, key: str, given: Any, known: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    """Every variant with its label: the row it starts from, with some of its values replaced."""
    for label, changes in _table(key, given).items():
        values = dict(_table(f"{key}.{label}", changes))
        if kind not in values:
            raise InvalidValueError(f"`{key}.{label}` must name the {kind} that it changes: `{kind} = ...`.")
        base = named(kind, values.pop(kind), known)
        yield label, _changed(base, values, f"{key}.{label}")


def _changed(base: T, values: Any, where: str) -> T:
    """The dataclass with some of its values replaced, nested ones by tables."""
    known = {part.name: getattr(base, part.name) for part in fields(base)}  # type: ignore[arg-type]
    new = {}
    for key, value in _table(where, values).items():
        before = named(f"value in `{where}`", key, known)
        new[key] = _alike(before, value, f"{where}.{key}")
    return replace(base, **new)  # type: ignore[type-var]


def _alike(before: Any, value: Any, where: str) -> Any:
    """The new value as one of the old one's kind: equal choices must have equal keys, 1 and 1.0 among them."""
    if is_dataclass(before):
        return _changed(before, value, where)
    if isinstance(before, Enum):
        return named(f"choice for `{where}`", value, {row.value: row for row in type(before)})
    if isinstance(before, float) and type(value) is int:
        return float(value)
    if type(value) is not type(before):
        raise InvalidValueError(f"`{where}` must be {KINDS[type(before)]}, but got {value!r}.")
    return value


def _table(key: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidValueError(f"`{key}` must be a table, but got {given!r}.")
    return given


def _chosen(
    kind: str, key: str, given: Any, sets: Mapping[str, Mapping[str, Any]], known: Mapping[str, Any]
) -> tuple[str, ...]:
    names = tuple(sets[given]) if isinstance(given, str) and given in sets else _distinct(key, given)
    for name in names:
        named(kind, name, known)
    if not names:
        raise InvalidValueError(f"`{key}` must name at least one {kind}, but got none.")
    return names


def _distinct(key: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidValueError(f"`{key}` must be a list of names, but got {given!r}.")
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise InvalidValueError(f"`{key}` must name each cell once, but {', '.join(twice)} stands there twice.")
    return tuple(given)


def _fresh(label: str, taken: Mapping[str, Any]) -> str:
    if label in taken:
        raise InvalidValueError(f"The name {label!r} stands for two different things; give the variant another one.")
    return label


def _seeds(given: Any) -> tuple[int, ...]:
    if type(given) is int:
        return tuple(range(_count("seeds", given)))
    if isinstance(given, Mapping) and set(given) == {"first", "count"}:
        first = given["first"]
        if type(first) is not int:
            raise InvalidValueError(f"`seeds.first` must be a whole number, but got {first!r}.")
        return tuple(range(first, first + _count("seeds.count", given["count"])))
    if not isinstance(given, list) or not all(type(seed) is int for seed in given) or not given:
        raise InvalidValueError(f"`seeds` must be a number of seeds or a list of whole numbers, but got {given!r}.")
    twice = sorted({seed for seed in given if given.count(seed) > 1})
    if twice:
        raise InvalidValueError(f"`seeds` must name each cell once, but {twice[0]} stands there twice.")
    return tuple(given)


def _count(key: str, given: Any) -> int:
    if type(given) is not int or given < 1:
        raise InvalidValueError(f"`{key}` must be a whole number from 1 up, but got {given!r}.")
    return given
