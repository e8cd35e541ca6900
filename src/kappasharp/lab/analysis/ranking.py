"""Who stands where on a suite: ranks with intervals, paired tests and cost, from stored runs.

Runs come from folders of results and from Parquet files, with what made them. A method is ranked where it has run every
task and seed; a run that failed counts as the worst. What cannot be used is counted.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy import stats

from kappasharp.errors import InvalidValueError
from kappasharp.lab import grid
from kappasharp.lab.analysis.statistics import Family, Sample, compare, family, tally
from kappasharp.lab.run import ERROR
from kappasharp.lab.store import MARKER, SCHEMA, Store
from kappasharp.lab.suite import EXTENTS, Scope, Suite, Task
from kappasharp.parquet import read_parquet
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.registry import find_problem
from kappasharp.randomness import stream

Row = dict[str, Any]
Cell = tuple[Task, int]
# What is ranked, the higher the better: the best seen, which decides the order, the design told, the area.
RANKED = ("seen", "told", "area")
REFERENCE = "baseline"
# What a ranking takes of a run, and what made it: a tenth of what is stored.
KEPT = (
    "key", "problem", "initialization", "method", "preset", "method_values", "person", "status", "error", "device",
    "machine", "python", "torch", "kappasharp", "commit", "suite", "seed", "problem_version", "queries", "failed_steps",
    "seconds", "best_utility", "told_utility", "n_points",
)  # fmt: skip
RESAMPLES, INTERVAL = 2000, (2.5, 97.5)
# Where the methods of other libraries are, up to version 0.2.0 and now: runs of either are of the same method.
MOVED = ("kappasharp.lab.entrants:", "kappasharp.lab.libraries:")
# To about how many digits two machines give the same run.
ROUNDING = 1e-9


class Regime(NamedTuple):
    """A table's subject: the whole suite, its core or its quick part, from zero or from given starts."""

    scope: str
    regime: str

    @property
    def words(self) -> str:
        """As a heading."""
        start = "from zero" if self.regime == initial_designs.FROM_ZERO else "from given starts"
        return f"{start}, {self.scope}"


@dataclass
class SuiteRuns:
    """The runs of a suite by method, task and seed; and why others were left out."""

    suite: Suite
    rows: dict[str, dict[Cell, Row]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    # Of how many runs there were others with other numbers, by method; and methods of several sources.
    twice: Counter[str] = field(default_factory=Counter)
    versions: dict[str, list[str]] = field(default_factory=dict)

    def table(self) -> pa.Table:
        """All of them, for others to rank again."""
        rows = [row for runs in self.rows.values() for row in runs.values()]
        return pa.Table.from_pylist(rows, schema=pa.schema([SCHEMA.field(name) for name in KEPT]))


def read(sources: Iterable[Path], suite: Suite) -> SuiteRuns:
    """The runs of folders of results, and of Parquet files."""
    found, cells = SuiteRuns(suite), _cells(suite)
    by_identity: dict[tuple[str, str], dict[Cell, Row]] = defaultdict(dict)
    for row in (row for source in sources for row in _stored(source)):
        cell = cells.get((row["problem"], row["initialization"], row["person"], row["queries"], row["seed"]))
        if row["suite"] != suite.label or cell is None:
            theirs = row["suite"] or "no suite"
            found.left_out[f"of {theirs}" if theirs != suite.label else "of no task of the suite"] += 1
            continue
        runs = by_identity[row["method"], row["method_values"].replace(*MOVED)]
        # What was named first counts, whether it is better or worse.
        found.twice[row["method"]] += _is_other(runs.setdefault(cell, row), row)
    names = Counter(name for name, _ in by_identity)
    for (name, values), runs in sorted(by_identity.items()):
        # Two versions of one method are two methods.
        label = name if names[name] == 1 else f"{name} ({grid.digest(values)[:4]})"
        found.rows[label] = runs
        found.versions.setdefault(name, []).append(label)
    return found


def _stored(source: Path) -> list[Row]:
    if source.is_dir() and (source / MARKER).exists():
        found: list[Row] = Store(source).existing().read().to_pylist()
        return found
    if not source.is_file():
        raise InvalidValueError(f"`{source}` is neither a folder of results nor a Parquet file of runs.")
    try:
        _, table = read_parquet(source)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidValueError(f"`{source}` is no Parquet file of runs, or a damaged one: {error}") from error
    return [dict.fromkeys(SCHEMA.names) | row for row in table.to_pylist()]


def _cells(suite: Suite) -> dict[tuple[Any, ...], Cell]:
    scope, queries = suite.scope(), {part: given["queries"] for part, given in suite.table["parts"].items()}
    people = {
        task.person: json.dumps(grid.plain(simulated_voters.person(task.person)), sort_keys=True)
        for task in scope.tasks
    }
    return {
        (task.problem, task.initialization, people[task.person], queries[task.part], seed): (task, seed)
        for task in scope.tasks
        for seed in scope.seeds
    }


def _is_other(one: Row, two: Row) -> bool:
    """Whether two runs of a cell have other numbers, beyond what sums in another order differ by."""
    first, second = (row["best_utility"] or [] for row in (one, two))
    return len(first) != len(second) or not np.allclose(first, second, rtol=ROUNDING, atol=ROUNDING)


def measured(row: Row, task: Task) -> dict[str, float]:
    """What is ranked of a run; −∞ where it failed, NaN where a method tells no design."""
    if row["status"] == ERROR:
        return dict.fromkeys(RANKED, -math.inf)
    told = row["told_utility"][-1] if row["told_utility"] else None
    course = row["best_utility"][_start(task) :]
    return {
        "seen": row["best_utility"][-1],
        "told": math.nan if told is None else told,
        "area": math.fsum(course) / len(course),
    }


def _start(task: Task) -> int:
    """Where a course leaves the start that all methods have alike."""
    return 4 if task.initialization == initial_designs.FROM_ZERO else 0


def regret(row: Row, task: Task, usual: Row | None = None) -> float:
    """What is left at the end of what there was to gain after the start: 1 is nothing gained, 0 the known maximum.

    The start is that of `usual`, another method's run: who asks other questions than pairs has one of their own, and
    would be measured by it.
    """
    if row["status"] == ERROR:
        return 1.0
    most, start = find_problem(task.problem).maximum.value, row if usual is None or usual["status"] == ERROR else usual
    left = most - start["best_utility"][_start(task)]
    return (most - row["best_utility"][-1]) / left if left > 0.0 else 0.0


@dataclass(frozen=True)
class Standing:
    """One method in one table: mean ranks with intervals, and its tests against the reference."""

    method: str
    ranks: Mapping[str, tuple[float, float, float]]
    tests: Mapping[str, Family]
    failed: int
    designs: float
    seconds: float


@dataclass(frozen=True)
class Board:
    """The standings of one regime, the best first; `lacking` has how many runs the others have, of how many."""

    subject: Regime
    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    reference: str
    standings: tuple[Standing, ...]
    lacking: Mapping[str, int]
    runs: SuiteRuns

    @property
    def methods(self) -> list[str]:
        """Who is ranked, the best first."""
        return [one.method for one in self.standings]

    def regrets(self, method: str, task: Task) -> list[float]:
        """A method's regret of every seed, measured from where the reference starts."""
        own, usual = self.runs.rows[method], self.runs.rows[self.reference]
        return [regret(own[task, seed], task, usual[task, seed]) for seed in self.seeds]


def boards(runs: SuiteRuns, reference: str = REFERENCE) -> list[Board]:
    """A board for every regime of the whole suite, of its core and of its quick part, that a method has run.

    Who has not run it all is no reference: then it is the first by name that has, without a failure.
    """
    found = []
    for name in EXTENTS:
        scope = runs.suite.scope(name)
        for regime in dict.fromkeys(task.regime for task in scope.tasks):
            board = _board(runs, scope, Regime(name, regime), reference)
            found += [board] if board.standings else []
    return found


def _board(runs: SuiteRuns, scope: Scope, subject: Regime, reference: str) -> Board:
    tasks = tuple(task for task in scope.tasks if task.regime == subject.regime)
    cells = [(task, seed) for task in tasks for seed in scope.seeds]
    there = {name: sum(cell in rows for cell in cells) for name, rows in runs.rows.items()}
    methods = [name for name, count in there.items() if count == len(cells)]
    values = {
        name: [measured(runs.rows[name][cell], cell[0]) for cell in cells] for name in methods
    }  # by method, in the order of the cells
    sound = [name for name in methods if all(runs.rows[name][cell]["status"] != ERROR for cell in cells)]
    against = reference if reference in methods else (sound or methods or [""])[0]
    ranks = {measure: _ranks(values, measure, len(tasks)) for measure in RANKED}
    standings = [
        Standing(
            name,
            {measure: _with_interval(of[name]) for measure, of in ranks.items() if name in of},
            {measure: _tests(values, cells, name, against, measure) for measure in RANKED if name != against},
            *_cost([runs.rows[name][cell] for cell in cells]),
        )
        for name in methods
    ]
    ordered = sorted(standings, key=lambda one: one.ranks["seen"][0])
    lacking = {name: len(cells) - count for name, count in there.items() if 0 < count < len(cells)}
    return Board(subject, tasks, scope.seeds, against, tuple(ordered), lacking, runs)


def _ranks(
    values: Mapping[str, Sequence[Mapping[str, float]]], measure: str, n_tasks: int
) -> dict[str, NDArray[np.float64]]:
    """The rank of every method in every task and seed, 1 the best; who lacks a measure is not ranked by it."""
    table = {name: np.array([one[measure] for one in of]) for name, of in values.items()}
    table = {name: of for name, of in table.items() if not np.isnan(of).any()}
    if not table:
        return {}
    ranks = stats.rankdata(-np.stack(list(table.values())), axis=0)
    return dict(zip(table, ranks.reshape(len(table), n_tasks, -1), strict=True))


def _with_interval(ranks: NDArray[np.float64]) -> tuple[float, float, float]:
    """The mean over tasks, and its 95 % interval by resampling tasks; or seeds, where there is one task."""
    by_task = ranks.mean(-1) if len(ranks) > 1 else ranks[0]
    index = torch.randint(len(by_task), (RESAMPLES, len(by_task)), generator=stream(0, "leaderboard")).numpy()
    low, high = np.percentile(by_task[index].mean(-1), INTERVAL)
    return float(by_task.mean()), float(low), float(high)


def _tests(
    values: Mapping[str, Sequence[Mapping[str, float]]],
    cells: Sequence[Cell],
    name: str,
    against: str,
    measure: str,
) -> Family:
    """A method against the reference on every task, seed by seed; a pair without two numbers is left out."""
    samples: dict[str, dict[Task, dict[int, float]]] = {one: defaultdict(dict) for one in (name, against)}
    for one, by_task in samples.items():
        for (task, seed), value in zip(cells, values[one], strict=True):
            if math.isfinite(value[measure]):
                by_task[task][seed] = value[measure]
    seeds = tuple(dict.fromkeys(seed for _, seed in cells))
    tasks = dict.fromkeys(task for task, _ in cells)
    return family({task: compare(*(Sample(samples[one][task], seeds) for one in (against, name))) for task in tasks})


def verdicts(found: Family, *, corrected: bool = True) -> str:
    """Tasks won, lost and neither; a task on which too few runs of a method came to their end is none of these."""
    tested = [one for one in found.members.values() if not math.isnan(one.p)]
    words = tally([one.verdict_holm if corrected else one.verdict for one in tested])
    lacking = len(found.members) - len(tested)
    return f"{words}, {lacking} not tested" if lacking else words


def _cost(rows: Sequence[Row]) -> tuple[int, float, float]:
    """Failed runs; and of the others, mean designs made and seconds."""
    done = [row for row in rows if row["status"] != ERROR]
    count = max(len(done), 1)
    designs = math.fsum(row["n_points"][-1] for row in done) / count
    return len(rows) - len(done), designs, math.fsum(row["seconds"] for row in done) / count
