"""Stored runs as samples and comparisons: what the tables and figures are made of."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

from kappasharp.lab import grid
from kappasharp.lab.analysis.statistics import PairedComparison, Sample, compare, family
from kappasharp.lab.experiment import Experiment
from kappasharp.lab.grid import Cell
from kappasharp.lab.run import ERROR, OK
from kappasharp.lab.store import Store

BASELINE = "baseline"


class Setting(NamedTuple):
    """A cell without its seed."""

    problem: str
    initialization: str
    method: str
    preset: str


@dataclass(frozen=True)
class Results:
    """One experiment's runs, by setting and seed, and what is not there."""

    experiment: Experiment
    rows: dict[Setting, dict[int, dict[str, Any]]]
    missing: list[Cell]
    failed: list[tuple[Cell, str]]
    troubled: int
    _cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def sample(self, setting: Setting) -> Sample:
        """The final best utilities of one setting."""
        return Sample(
            {seed: row["final_best"] for seed, row in self.rows.get(setting, {}).items()}, self.experiment.seeds
        )

    def comparisons(self, preset: str, baseline: str = BASELINE) -> dict[Setting, PairedComparison]:
        """Every method against the baseline of its own problem, initialization and preset; corrected by `FAMILY`."""
        if (preset, baseline) not in self._cache:
            self._cache[preset, baseline] = self._compared(preset, baseline)
        found: dict[Setting, PairedComparison] = self._cache[preset, baseline]
        return found

    def _compared(self, preset: str, baseline: str) -> dict[Setting, PairedComparison]:
        found: dict[Setting, PairedComparison] = {}
        others = [method for method in self.experiment.methods if method != baseline]
        for method, initialization in product(others, self.experiment.initializations):
            tests = {
                setting: compare(self.sample(setting._replace(method=baseline)), self.sample(setting))
                for problem in self.experiment.problems
                if self.rows.get(setting := Setting(problem, initialization, method, preset))
            }
            found |= family(tests).members
        return found

    def traces(self, setting: Setting, name: str) -> list[list[float]]:
        """One trace of every run of a setting, in the order of the seeds."""
        return [row[name] for _, row in sorted(self.rows.get(setting, {}).items())]

    def provenance(self) -> dict[str, dict[str, int]]:
        """How many runs each version, machine and commit made."""
        counted: dict[str, dict[str, int]] = {}
        for name in ("kappasharp", "commit", "torch", "python", "machine", "device"):
            counts: dict[str, int] = defaultdict(int)
            for row in self._all():
                counts[row[name]] += 1
            counted[name] = dict(counts)
        return counted

    def _all(self) -> Iterable[dict[str, Any]]:
        return (row for runs in self.rows.values() for row in runs.values())


def gather(experiment: Experiment, store: Store) -> Results:
    """Join what an experiment wants with what is stored, by key."""
    stored = {row["key"]: row for row in store.read().to_pylist()}
    rows: dict[Setting, dict[int, dict[str, Any]]] = defaultdict(dict)
    missing, failed, troubled = [], [], 0
    for cell in grid.cells(experiment):
        row = stored.get(cell.key)
        if row is None:
            missing.append(cell)
        elif row["status"] == ERROR or row["final_best"] is None or math.isnan(row["final_best"]):
            failed.append((cell, row["error"] or row["status"]))
        else:
            troubled += row["status"] != OK
            rows[Setting(cell.problem, cell.initialization, cell.method, cell.preset)][cell.seed] = row
    return Results(experiment, dict(rows), missing, failed, troubled)


@cache
def paper() -> dict[str, Any]:
    """The numbers that the paper states."""
    return tomllib.loads(resources.files("kappasharp.lab").joinpath("paper.toml").read_text("utf-8"))
