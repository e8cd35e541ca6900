"""Who stands where on a suite: ranks with intervals, paired tests, profiles, every problem, cost; from stored runs.

Runs come from folders of results and from Parquet files, with what made them. A method is ranked where it has run every
task and seed; a run that failed counts as the worst. What cannot be used is counted and said.
"""

import html
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy import stats

from kappasharp.errors import InvalidValueError, named
from kappasharp.files import write_text
from kappasharp.lab import grid, parquet, report, style, tables
from kappasharp.lab.report import Picture
from kappasharp.lab.run import ERROR
from kappasharp.lab.statistics import Family, Sample, Verdict, compare, family
from kappasharp.lab.store import MARKER, SCHEMA, Store
from kappasharp.lab.suite import Scope, Suite, Task
from kappasharp.lab.tables import Entry, Table, number
from kappasharp.problems import initial, oracle
from kappasharp.problems.registry import find_problem
from kappasharp.streams import stream

Row = dict[str, Any]
Cell = tuple[Task, int]
# What is ranked, the higher the better: the best seen, which decides the order, the design told, the area under a curve.
RANKED = ("seen", "told", "area")
MADE_BY = ("kappasharp", "commit", "torch", "python", "machine", "device")
REFERENCE = "baseline"
RESAMPLES, INTERVAL = 2000, (2.5, 97.5)
# Added to the regrets whose ratio a profile shows: below it two methods are as good as each other.
NEGLIGIBLE = 0.01
FACTORS = np.geomspace(1.0, 10.0, 200)
WIDE = 4.2


class Regime(NamedTuple):
    """A table's subject: the whole suite or its quick part, from zero or from given starts."""

    scope: str
    regime: str

    @property
    def words(self) -> str:
        """As a heading."""
        start = "from zero" if self.regime == initial.FROM_ZERO else "from given starts"
        return f"{start}, {self.scope}"


@dataclass
class Runs:
    """The runs of a suite by method, task and seed; and why others were left out."""

    suite: Suite
    rows: dict[str, dict[Cell, Row]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def table(self) -> pa.Table:
        """All of them, for others to rank again."""
        return pa.Table.from_pylist([row for runs in self.rows.values() for row in runs.values()], schema=SCHEMA)


def read(sources: Iterable[Path], suite: Suite) -> Runs:
    """The runs of folders of results, and of Parquet files."""
    found, cells = Runs(suite), _cells(suite)
    by_identity: dict[tuple[str, str], dict[Cell, Row]] = defaultdict(dict)
    for row in (row for source in sources for row in _stored(source)):
        cell = cells.get((row["problem"], row["initialization"], row["person"], row["queries"], row["seed"]))
        if row["suite"] != suite.label or cell is None:
            theirs = row["suite"] or "no suite"
            found.left_out[f"of {theirs}" if theirs != suite.label else "of no task of the suite"] += 1
            continue
        runs = by_identity[row["method"], row["method_values"]]
        if cell not in runs or runs[cell]["status"] == ERROR:
            runs[cell] = row
    names = Counter(name for name, _ in by_identity)
    for (name, values), runs in sorted(by_identity.items()):
        # Two versions of one method are two methods.
        found.rows[name if names[name] == 1 else f"{name} ({grid.digest(values)[:4]})"] = runs
    return found


def _stored(source: Path) -> list[Row]:
    if source.is_dir() and (source / MARKER).exists():
        found: list[Row] = Store(source).existing().read().to_pylist()
        return found
    if not source.is_file():
        raise InvalidValueError(f"`{source}` is neither a folder of results nor a Parquet file of runs.")
    _, table = parquet.read(source)
    return [dict.fromkeys(SCHEMA.names) | row for row in table.to_pylist()]


def _cells(suite: Suite) -> dict[tuple[Any, ...], Cell]:
    scope, queries = suite.scope(), {part: given["queries"] for part, given in suite.table["parts"].items()}
    people = {task.person: json.dumps(grid.plain(oracle.person(task.person)), sort_keys=True) for task in scope.tasks}
    return {
        (task.problem, task.initialization, people[task.person], queries[task.part], seed): (task, seed)
        for task in scope.tasks
        for seed in scope.seeds
    }


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
    return 4 if task.initialization == initial.FROM_ZERO else 0


def regret(row: Row, task: Task) -> float:
    """What is left at the end of what there was to gain after the start: 1 is nothing gained, 0 the known maximum."""
    if row["status"] == ERROR:
        return 1.0
    most, course = find_problem(task.problem).maximum.value, row["best_utility"]
    left = most - course[_start(task)]
    return (most - course[-1]) / left if left > 0.0 else 0.0


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
    runs: Runs

    @property
    def methods(self) -> list[str]:
        """Who is ranked, the best first."""
        return [one.method for one in self.standings]


def boards(runs: Runs, reference: str = REFERENCE) -> list[Board]:
    """A board for every regime of the whole suite, and of its quick part, that a method has run."""
    found = []
    for name in ("whole", "quick"):
        scope = runs.suite.scope(quick=name == "quick")
        for regime in dict.fromkeys(task.regime for task in scope.tasks):
            board = _board(runs, scope, Regime(name, regime), reference)
            found += [board] if board.standings else []
    return found


def _board(runs: Runs, scope: Scope, subject: Regime, reference: str) -> Board:
    tasks = tuple(task for task in scope.tasks if task.regime == subject.regime)
    cells = [(task, seed) for task in tasks for seed in scope.seeds]
    there = {name: sum(cell in rows for cell in cells) for name, rows in runs.rows.items()}
    methods = [name for name, count in there.items() if count == len(cells)]
    values = {
        name: [measured(runs.rows[name][cell], cell[0]) for cell in cells] for name in methods
    }  # by method, in the order of the cells
    against = reference if reference in methods else (methods[0] if methods else "")
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
    """Mean rank of every method in every task, 1 the best; who lacks a measure is not ranked by it."""
    table = {name: np.array([one[measure] for one in of]) for name, of in values.items()}
    table = {name: of for name, of in table.items() if not np.isnan(of).any()}
    if not table:
        return {}
    ranks = stats.rankdata(-np.stack(list(table.values())), axis=0)
    return dict(zip(table, ranks.reshape(len(table), n_tasks, -1).mean(-1), strict=True))


def _with_interval(by_task: NDArray[np.float64]) -> tuple[float, float, float]:
    """The mean over tasks, and its 95 % interval by resampling tasks."""
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


def _cost(rows: Sequence[Row]) -> tuple[int, float, float]:
    """Failed runs; and of the others, mean designs made and seconds."""
    done = [row for row in rows if row["status"] != ERROR]
    count = max(len(done), 1)
    designs = math.fsum(row["n_points"][-1] for row in done) / count
    return len(rows) - len(done), designs, math.fsum(row["seconds"] for row in done) / count


def rank_table(board: Board) -> Table:
    """Who stands where."""
    rows = [
        (
            Entry(one.method),
            *(_rank(one.ranks.get(measure)) for measure in RANKED),
            *(_against(one.tests.get(measure)) for measure in ("seen", "told")),
            Entry(str(one.failed)), Entry(number(one.designs, 1)), Entry(number(one.seconds, 2)),
        )
        for one in board.standings
    ]  # fmt: skip
    header = ["method", "rank: seen", "told", "area", "W / L / N: seen", "told"]
    words = board.standings[0].tests or board.standings[-1].tests
    said = next(iter(words.values())).words if words else "There is nothing to test"
    note = (
        f"Mean rank over {len(board.tasks)} tasks, {len(board.seeds)} seeds each, 1 is the best, by the best design "
        "seen, the design told, and the area under the curve of the best seen; in brackets its 95 % interval by "
        f"resampling tasks. W / L / N: tasks won, lost and neither against {board.reference}, paired "
        f"t-tests by seed at p < 0.05 after Holm's correction, in brackets without it. {said}, here the tasks of the table below. A failed run has the "
        "last rank, and is not in the tests. Seconds are one run's, on the machines named below."
    )
    return Table(f"Ranks {board.subject.words}", note, (*header, "failed", "designs", "seconds"), tuple(rows))


def _rank(found: tuple[float, float, float] | None) -> Entry:
    return Entry("–" if found is None else "{:.2f} ({:.2f} to {:.2f})".format(*found))


def _against(found: Family | None) -> Entry:
    return Entry("–" if found is None else f"{found.corrected} ({found.plain})")


def task_table(board: Board) -> Table:
    """Every task: what is left of what there was to gain, in per cent."""
    rows = []
    tests = {one.method: one.tests["seen"].members for one in board.standings if one.tests}
    for task in board.tasks:
        row = [Entry(f"{task.problem}, {task.initialization}, {task.person}")]
        for method in board.methods:
            left = [regret(board.runs.rows[method][task, seed], task) for seed in board.seeds]
            test = tests[method][task].verdict_holm if method in tests else None
            mark = {Verdict.WIN: "†", Verdict.LOSS: "‡"}.get(test, "") if test else ""
            row.append(Entry(f"{100.0 * math.fsum(left) / len(left):.1f}{mark}".replace("-", "−"), test))
        rows.append(tuple(row))
    note = (
        "Mean over seeds of what is left at the end between the best design seen and the known maximum, in per cent of "
        f"what was left after the start that all have alike. † better and ‡ worse than {board.reference} after Holm's "
        "correction, as in the ranks."
    )
    return Table(f"Every task {board.subject.words}", note, ("task", *board.methods), tuple(rows))


def profile(board: Board) -> Figure:
    """The share of tasks on which a method's mean regret is within a factor of the best method's."""
    table = np.array([
        [np.mean([regret(board.runs.rows[name][task, seed], task) for seed in board.seeds]) for task in board.tasks]
        for name in board.methods
    ])  # fmt: skip
    ratio = (np.maximum(table, 0.0) + NEGLIGIBLE) / (np.maximum(table, 0.0).min(0) + NEGLIGIBLE)
    colours = style.palette(board.methods)
    dashes = [style.DASHES[at % len(style.DASHES)] for at in range(len(board.methods))]
    handles = [
        Line2D([], [], color=colours[name], linestyle=dash, label=name)
        for name, dash in zip(board.methods, dashes, strict=True)
    ]
    title = f"Tasks solved nearly as well as by the best method, {board.subject.words}"
    figure, axes = style.canvas((1, 1), (style.WIDTH, WIDE), title, handles)
    axis = axes[0][0]
    for name, own, dash in zip(board.methods, ratio, dashes, strict=True):
        share = (own[:, None] <= FACTORS).mean(0)
        axis.step(FACTORS, 100.0 * share, where="post", color=colours[name], linestyle=dash, linewidth=1.8)
    axis.set_xscale("log")
    axis.set_xticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
    axis.set_xticks([], minor=True)
    axis.set_xlim(1.0, float(FACTORS[-1]))
    axis.set_ylim(0.0, 102.0)
    axis.set_xlabel("factor of the best method's regret", fontsize=style.LABEL, color=style.INK)
    axis.set_ylabel("tasks within it, %", fontsize=style.LABEL, color=style.INK)
    style.say(figure, f"Mean regret of a task over its seeds, {NEGLIGIBLE:g} of what there was to gain added to each.")
    return figure


def made_by(runs: Runs) -> Table:
    """Versions, commits and machines of every method's runs."""
    rows = []
    for name, of in runs.rows.items():
        counts = {part: Counter(str(row[part]) for row in of.values()) for part in MADE_BY}
        words = [", ".join(f"{word} ({count})" for word, count in counts[part].items()) for part in MADE_BY]
        installed = {json.loads(row["method_values"]).get("installed", "–") for row in of.values()}
        rows.append((Entry(name), Entry(str(len(of))), Entry(", ".join(sorted(installed))), *map(Entry, words)))
    return Table(
        "What made the runs", "Number of runs in brackets.", ("method", "runs", "library", *MADE_BY), tuple(rows)
    )


def remarks(runs: Runs, found: Sequence[Board]) -> list[str]:
    """What was left out, and who is not ranked, in sentences."""
    said = [f"{count} runs {why} were left out." for why, count in sorted(runs.left_out.items())]
    for board in found:
        lacking = [f"{name} lacks {count} runs" for name, count in board.lacking.items()]
        said += [f"Not ranked {board.subject.words}: {'; '.join(lacking)}."] if lacking else []
    for name, rows in runs.rows.items():
        errors = Counter(row["error"] for row in rows.values() if row["status"] == ERROR)
        said += [f"{name} failed {count} times: {error}" for error, count in errors.most_common(2)]
    return said


def as_data(runs: Runs, found: Sequence[Board]) -> dict[str, Any]:
    """Entrants with their ranks, wins and losses, as plain data."""
    return {
        "suite": runs.suite.label,
        "boards": [
            {
                "scope": board.subject.scope, "regime": board.subject.regime, "reference": board.reference,
                "tasks": len(board.tasks), "seeds": len(board.seeds), "entrants": [_standing(one) for one in board.standings],
            }
            for board in found
        ],
    }  # fmt: skip


def _standing(one: Standing) -> dict[str, Any]:
    tests = {
        measure: Counter(str(test.verdict_holm.value) for test in of.members.values())
        for measure, of in one.tests.items()
    }
    return {
        "method": one.method, "ranks": {name: [round(value, 3) for value in of] for name, of in one.ranks.items()},
        "against_reference": {name: dict(of) for name, of in tests.items()},
        "failed": one.failed, "designs": round(one.designs, 2), "seconds": round(one.seconds, 3),
    }  # fmt: skip


def write(
    sources: Sequence[Path], suite: Suite, out: Path, reference: str = REFERENCE
) -> tuple[list[Path], list[Board]]:
    """The page, the tables as Markdown, the standings as JSON and the runs themselves, in one folder."""
    runs = read(sources, suite)
    if reference != REFERENCE:
        named("method", reference, runs.rows)
    found = boards(runs, reference)
    if not found:
        lacking = ", ".join(f"{name}: {len(rows)} runs" for name, rows in runs.rows.items()) or "there are no runs"
        raise InvalidValueError(
            f"A leaderboard needs a method that has run a whole regime of {suite.label}, or its quick part; {lacking}. "
            + " ".join(remarks(runs, found))
        )
    out.mkdir(parents=True, exist_ok=True)
    shown = [table for board in found for table in (rank_table(board), task_table(board))]
    paths = [out / name for name in ("index.html", "leaderboard.md", "leaderboard.json", "runs.parquet")]
    write_text(paths[0], page(runs, found))
    text = "\n".join([*map(tables.markdown, [*shown, made_by(runs)]), *remarks(runs, found)])
    write_text(paths[1], f"Suite {suite.label}.\n\n{text}\n")
    write_text(paths[2], json.dumps(as_data(runs, found), indent=1) + "\n")
    parquet.write(runs.table(), paths[3])
    return paths, found


def page(runs: Runs, found: Sequence[Board]) -> str:
    """The leaderboard as one HTML document that needs nothing else."""
    body = f"<p>Suite <code>{html.escape(runs.suite.label)}</code>: {html.escape(str(runs.suite.table['title']))}.</p>"
    body += "".join(f"<p class=missing>{html.escape(line)}</p>" for line in remarks(runs, found))
    for board in found:
        drawn = Picture("profile", f"Performance profile {board.subject.words}", partial(profile, board))
        body += f"<h2>{html.escape(board.subject.words.capitalize())}</h2>" + tables.hypertext(rank_table(board))
        body += report.image(drawn) + tables.hypertext(task_table(board))
    body += f"<h2>Provenance</h2>{tables.hypertext(made_by(runs))}"
    return report.document("kappasharp: leaderboard", f"<h1>Leaderboard</h1>{body}")
