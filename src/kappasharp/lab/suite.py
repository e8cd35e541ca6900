"""A suite: experiments that any method is run on by the same rules, under a name that stands for one definition.

Its TOML file has parts (problems, starts, people, questions), the seeds, and a fingerprint of every problem: version,
dimensions, and what the first pairs of the first seed are worth and were answered. The checksum is of all of that. It
is stored with every run; and before a run the fingerprint is taken anew, so that a changed problem, person or stream of
chance is noticed. `python -m kappasharp.lab.suite FILE` writes the fingerprint and checksum of a new suite.
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from kappasharp.errors import InvalidValueError, named
from kappasharp.files import write_text
from kappasharp.lab import experiment, grid
from kappasharp.lab.experiment import Experiment
from kappasharp.lab.external import methods as external_methods
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.registry import find_problem
from kappasharp.settings import METHODS

SUITES = ("pbo-1", "pbo-juries-1")
# Those that others have run: their files are never written again.
PUBLISHED = {"pbo-1": "f84337a9f1cf6fea", "pbo-juries-1": "e35eea7e392ecb1f"}
FINGERPRINT, PEOPLE = "fingerprint", "simulated"
# Of every problem: how many first pairs, and how far their utilities may differ, in units of the largest of them. From
# one machine to the next they do in the last digits, and torch's first Sobol design has single precision at times.
PAIRS, RELATIVE, SIMULATED = 2, 1e-5, 1e-3
DIGITS = 12
# Our model of ties has a threshold, which a study finds by itself and a run is given.
THRESHOLD = 0.7
# Runs of a method from outside that are stored together: they run one after another.
OUTSIDE = 5
# How much of a suite: all of it; a few of its tasks with every seed, for methods that think for a minute a run; and the
# same tasks with a few seeds.
EXTENTS = ("whole", "core", "quick")


class Task(NamedTuple):
    """What a method is ranked on: the runs of all seeds together."""

    part: str
    problem: str
    initialization: str
    person: str

    @property
    def regime(self) -> str:
        """Whether every question counts, or the first answers are free."""
        return initial_designs.FROM_ZERO if self.initialization == initial_designs.FROM_ZERO else "given_starts"


class Scope(NamedTuple):
    """A suite, or as much of it as an extent has."""

    seeds: tuple[int, ...]
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Suite:
    """A suite as its file has it."""

    name: str
    table: Mapping[str, Any]

    @property
    def checksum(self) -> str:
        """Of everything that the file says, but for itself."""
        return grid.digest({key: value for key, value in self.table.items() if key != "checksum"})[:16]

    @property
    def label(self) -> str:
        """What stands with every run."""
        return f"{self.name} {self.checksum}"

    def experiments(
        self, methods: Sequence[str], commands: Mapping[str, str], *, extent: str = "whole"
    ) -> Iterator[tuple[Experiment, str]]:
        """What the methods have to run, each with its text: an experiment for every method, part and person."""
        for label in dict.fromkeys(
            (*methods, *commands, *(self.table["quick"]["beside"] if extent == "quick" else ()))
        ):
            chosen: dict[str, Any] = (
                {"methods": [label]} if label not in commands else {"commands": {label: commands[label]}}
            )
            if label in commands or isinstance(
                external_methods.find(label, METHODS | external_methods.PEERS), external_methods.Peer
            ):
                chosen["block_size"] = OUTSIDE
            for part, person, table in self._tables(extent):
                word = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in label)
                name = "-".join(
                    [self.name, *[extent] * (extent != "whole"), part, *[person] * (person != "paper"), word]
                )
                whole = table | chosen
                yield experiment.parse(name, whole), as_toml(whole)

    def scope(self, extent: str = "whole") -> Scope:
        """The tasks and seeds of the suite, or of a part of it."""
        tasks: list[Task] = []
        seeds: tuple[int, ...] = ()
        for part, person, table in self._tables(extent):
            plan = experiment.parse(part, table | {"methods": ["baseline"]})
            seeds = plan.seeds
            tasks += [Task(part, problem, start, person) for problem in plan.problems for start in plan.initializations]
        return Scope(seeds, tuple(tasks))

    def _tables(self, extent: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Part, person, and the experiment's table without its methods."""
        named("extent", extent, dict.fromkeys(EXTENTS))
        fewer, seeds, cut = self.table["quick"], self.table["seeds"], extent != "whole"
        if extent == "quick":
            seeds = seeds | {"count": fewer["seeds"]}
        for part, given in self.table["parts"].items():
            if cut and part not in fewer:
                continue
            chosen = given | fewer[part] if cut else given
            for person in chosen["people"]:
                table = {key: chosen[key] for key in ("problems", "initializations", "queries")}
                table |= {"title": f"{self.name}: {part}, {person}", "person": person, "limit": self.table["limit"]}
                table |= {"seeds": seeds, "suite": self.label}
                yield part, person, table | _preset(self.table["preset"], person)

    def check(self, names: Iterable[str] | None = None) -> None:
        """Refuse to go on where the checksum, or the fingerprint of these problems, is not what the file says."""
        if not self.table.get("checksum"):
            raise InvalidValueError(
                f"The file of the suite {self.name} must have a fingerprint and a checksum, but has none; "
                f"`python -m kappasharp.lab.suite {self.name}.toml`, in its folder, writes them."
            )
        if self.table.get("checksum") != self.checksum:
            raise InvalidValueError(
                f"The file of the suite {self.name} must have the checksum that it states, "
                f"{self.table.get('checksum')}, but has {self.checksum}; a changed suite needs another name, and "
                f"`python -m kappasharp.lab.suite {self.name}.toml`, in its folder, writes the checksum of a new one."
            )
        for name, numbers in self.table[PEOPLE].items():
            if grid.chosen(simulated_voters.person(name)) != numbers:
                raise InvalidValueError(
                    f"The simulated person {name} is not the one of the suite {self.name}, {numbers}, but "
                    f"{grid.chosen(simulated_voters.person(name))}; a changed person needs another name."
                )
        stored = self.table[FINGERPRINT]
        for name in stored if names is None else names:
            now = fingerprint(name, self.table["seeds"]["first"])
            if not _alike(stored[name], now, SIMULATED if find_problem(name).is_simulated else RELATIVE):
                raise InvalidValueError(
                    f"The problem {name} is not the one of the suite {self.name}: its first designs were "
                    f"{stored[name]} and are {now}; runs would not be comparable. Undo the change, or count "
                    "the problem's version up and put it into another suite."
                )


def _preset(name: str, person: str) -> dict[str, Any]:
    if not simulated_voters.person(person).just_noticeable:
        return {"presets": [name]}
    return {"preset_variants": {name: {"preset": name, "threshold": THRESHOLD}}}


def find(name: str) -> Suite:
    """The suite of that name."""
    named("suite", name, dict.fromkeys(SUITES))
    return _read(name)


@cache
def _read(name: str) -> Suite:
    return Suite(name, tomllib.loads(resources.files("kappasharp.lab").joinpath(f"{name}.toml").read_text("utf-8")))


def fingerprint(name: str, seed: int) -> dict[str, Any]:
    """A problem's version and dimensions, and the worth and answers of its first pairs from zero."""
    problem = find_problem(name)
    start = initial_designs.start(problem, initial_designs.FROM_ZERO, [seed], "paper", PAIRS)
    values = [float(f"{value:.{DIGITS}g}") for value in start.utility[0].tolist()]
    return {
        "version": problem.version, "dimensions": problem.dimensions, "worth": values,
        "won": start.comparisons[0, :, 0].tolist(),
    }  # fmt: skip


def _alike(stored: Mapping[str, Any], now: Mapping[str, Any], relative: float) -> bool:
    same = all(stored[key] == now[key] for key in ("version", "dimensions", "won"))
    slack = relative * max(map(abs, stored["worth"]))
    return same and all(abs(a - b) <= slack for a, b in zip(stored["worth"], now["worth"], strict=True))


def as_toml(table: Mapping[str, Any]) -> str:
    """A table as the text of a TOML file."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def stamp(path: Path) -> Suite:
    """Write the fingerprint and the checksum into the file of a new suite."""
    text = path.read_text("utf-8").partition("\n# Written by")[0].rstrip() + "\n"
    table = tomllib.loads(text)
    suite = Suite(path.stem, table)
    names = dict.fromkeys(task.problem for task in suite.scope().tasks)
    prints = {name: fingerprint(name, table["seeds"]["first"]) for name in names}
    people = sorted({task.person for task in suite.scope().tasks})
    written = f"\n# Written by `python -m kappasharp.lab.suite {path.name}`.\n[{PEOPLE}]\n"
    written += as_toml({name: grid.chosen(simulated_voters.person(name)) for name in people})
    written += f"\n[{FINGERPRINT}]\n" + as_toml(prints)
    done = Suite(path.stem, tomllib.loads(text + written))
    if done.checksum != PUBLISHED.get(done.name, done.checksum):
        raise InvalidValueError(
            f"The suite {done.name} is published with the checksum {PUBLISHED[done.name]} and never changes, but this "
            f"file would have {done.checksum}; give it another name."
        )
    lines = [line for line in (text + written).splitlines() if not line.startswith("checksum")]
    at = next(number for number, line in enumerate(lines) if line.startswith("title"))
    lines.insert(at, f'checksum = "{done.checksum}"')
    write_text(path, "\n".join(lines) + "\n")
    return done


if __name__ == "__main__":
    try:
        sys.stdout.write(stamp(Path(sys.argv[1])).label + "\n")
    except InvalidValueError as error:
        sys.exit(str(error))
