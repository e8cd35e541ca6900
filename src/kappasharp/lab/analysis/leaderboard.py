"""The leaderboard of a suite as a page, as Markdown and as data: ranks, profiles, every task, what made the runs."""

import html
import json
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kappasharp.errors import InvalidValueError, named
from kappasharp.files import write_text
from kappasharp.lab.analysis import report, style, tables
from kappasharp.lab.analysis.ranking import RANKED, REFERENCE, Board, Standing, SuiteRuns, boards, read, verdicts
from kappasharp.lab.analysis.report import Picture
from kappasharp.lab.analysis.statistics import Family, Verdict
from kappasharp.lab.analysis.tables import Entry, Table, number
from kappasharp.lab.run import ERROR
from kappasharp.lab.suite import Suite
from kappasharp.parquet import write_parquet

MADE_BY = ("kappasharp", "commit", "torch", "python", "machine", "device")
# Added to the regrets whose ratio a profile shows: below it two methods are as good as each other.
NEGLIGIBLE = 0.01
FACTORS = np.geomspace(1.0, 10.0, 200)
WIDE = 4.2


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
    tasks = "1 task" if len(board.tasks) == 1 else f"{len(board.tasks)} tasks"
    note = (
        f"Mean rank over {tasks}, {len(board.seeds)} seeds each, 1 is the best, by the best design "
        "seen, the design told, and the area under the curve of the best seen; in brackets its 95 % interval by "
        "resampling tasks (seeds, where there is one task). W / L / N: tasks won, lost and neither against "
        f"{board.reference}, paired t-tests by seed at p < 0.05 after Holm's correction, in brackets without it. "
        f"{said}, here the tasks of the table below. A failed run has the "
        "last rank, and is not in the tests. Seconds are one run's, on the machines named below."
    )
    return Table(f"Ranks {board.subject.words}", note, (*header, "failed", "designs", "seconds"), tuple(rows))


def _rank(found: tuple[float, float, float] | None) -> Entry:
    return Entry("–" if found is None else "{:.2f} ({:.2f} to {:.2f})".format(*found))


def _against(found: Family | None) -> Entry:
    return Entry("–" if found is None else f"{verdicts(found)} ({verdicts(found, corrected=False)})")


def task_table(board: Board) -> Table:
    """Every task: what is left of what there was to gain, in per cent."""
    rows = []
    tests = {one.method: one.tests["seen"].members for one in board.standings if one.tests}
    for task in board.tasks:
        row = [Entry(f"{task.problem}, {task.initialization}, {task.person}")]
        for method in board.methods:
            left = board.regrets(method, task)
            test = tests[method][task].verdict_holm if method in tests else None
            mark = {Verdict.WIN: "†", Verdict.LOSS: "‡"}.get(test, "") if test else ""
            row.append(Entry(f"{100.0 * math.fsum(left) / len(left):.1f}{mark}".replace("-", "−"), test))
        rows.append(tuple(row))
    note = (
        "Mean over seeds of what is left at the end between the best design seen and the known maximum, in per cent of "
        f"what was left after {board.reference}'s start, the start of all who ask pairs. † better and ‡ worse than "
        f"{board.reference} after Holm's correction, as in the ranks."
    )
    return Table(f"Every task {board.subject.words}", note, ("task", *board.methods), tuple(rows))


def profile(board: Board) -> Figure:
    """The share of tasks on which a method's mean regret is within a factor of the best method's."""
    table = np.array([[np.mean(board.regrets(name, task)) for task in board.tasks] for name in board.methods])
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


def made_by(runs: SuiteRuns) -> Table:
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


def remarks(runs: SuiteRuns, found: Sequence[Board]) -> list[str]:
    """What was left out, and who is not ranked, in sentences."""
    said = [f"{count} runs {why} were left out." for why, count in sorted(runs.left_out.items())]
    if any(not why.startswith("of no ") for why in runs.left_out):
        said.append("`--suite NAME` ranks those of another suite.")
    said += [
        f"{count} runs of {name} were given twice, with other numbers: those of the first folder or file count."
        for name, count in sorted(runs.twice.items())
        if count
    ]
    said += [
        f"{name} was run from different sources or versions, which are ranked apart: {', '.join(labels)}."
        for name, labels in runs.versions.items()
        if len(labels) > 1
    ]
    for board in found:
        lacking = [f"{name} lacks {count} runs" for name, count in board.lacking.items()]
        lacking += [f"{name} has none" for name in runs.rows if name not in (*board.methods, *board.lacking)]
        said += [f"Not ranked {board.subject.words}: {'; '.join(lacking)}."] if lacking else []
    for name, rows in runs.rows.items():
        errors = Counter(row["error"] for row in rows.values() if row["status"] == ERROR)
        said += [f"{name} failed {count} times: {error}" for error, count in errors.most_common(2)]
    return said


def as_data(runs: SuiteRuns, found: Sequence[Board]) -> dict[str, Any]:
    """Entrants with their ranks, wins and losses, as plain data."""
    return {
        "suite": runs.suite.label,
        "boards": [
            {
                "scope": board.subject.scope, "regime": board.subject.regime, "reference": board.reference,
                "tasks": len(board.tasks), "seeds": len(board.seeds),
                "entrants": [_standing(one) for one in board.standings],
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
    sources: Sequence[Path], suite: Suite, out: Path, reference: str | None = None
) -> tuple[list[Path], list[Board]]:
    """The page, the tables as Markdown, the standings as JSON and the runs themselves, in one folder."""
    runs = read(sources, suite)
    if reference is not None:
        named("method", reference, runs.rows)
    found = boards(runs, reference or REFERENCE)
    if not found:
        lacking = ", ".join(f"{name}: {len(rows)} runs" for name, rows in runs.rows.items()) or "there are no runs"
        raise InvalidValueError(
            f"A leaderboard needs a method that has run all of {suite.label} from zero, or from given starts, or "
            f"its core or quick part; {lacking}. " + " ".join(remarks(runs, found))
        )
    out.mkdir(parents=True, exist_ok=True)
    shown = [table for board in found for table in (rank_table(board), task_table(board))]
    paths = [out / name for name in ("index.html", "leaderboard.md", "leaderboard.json", "runs.parquet")]
    write_text(paths[0], page(runs, found))
    text = "\n".join([*map(tables.markdown, [*shown, made_by(runs)]), *remarks(runs, found)])
    write_text(paths[1], f"Suite {suite.label}.\n\n{text}\n")
    write_text(paths[2], json.dumps(as_data(runs, found), indent=1) + "\n")
    write_parquet(runs.table(), paths[3])
    return paths, found


def page(runs: SuiteRuns, found: Sequence[Board]) -> str:
    """The leaderboard as one HTML document that needs nothing else."""
    body = f"<p>Suite <code>{html.escape(runs.suite.label)}</code>: {html.escape(str(runs.suite.table['title']))}.</p>"
    body += "".join(f"<p class=missing>{html.escape(line)}</p>" for line in remarks(runs, found))
    for board in found:
        drawn = Picture("profile", f"Performance profile {board.subject.words}", partial(profile, board))
        body += f"<h2>{html.escape(board.subject.words.capitalize())}</h2>" + tables.hypertext(rank_table(board))
        body += report.image(drawn) + tables.hypertext(task_table(board))
    body += f"<h2>Provenance</h2>{tables.hypertext(made_by(runs))}"
    return report.document("kappasharp: leaderboard", f"<h1>Leaderboard</h1>{body}")
