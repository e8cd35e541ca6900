"""The figures of a report: each takes gathered results and returns a figure; what is missing is said below it."""

import math
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from kappasharp.errors import InvalidValueError
from kappasharp.lab.analysis import style
from kappasharp.lab.analysis.results import BASELINE, Results, Setting, paper
from kappasharp.lab.analysis.statistics import SIGNIFICANT, PairedComparison, Verdict
from kappasharp.lab.external.methods import Peer

ROW, LANE = 0.14, 0.15  # inches for a problem, and for each method of it, in a forest
TINY = 7.5
COLUMNS, PANEL = 3, 1.95  # small multiples: how many beside each other, and the inches of one


class Line(NamedTuple):
    """One row of a forest: where it stands, what was found, what the paper says (NaN: nothing)."""

    name: str
    y: float
    found: PairedComparison | None
    stated: float = math.nan


def forest(results: Results, preset: str, methods: Sequence[str] = ("static", "adaptive")) -> Figure:
    """Gains over the baseline with 95 % intervals, problem by problem, and the paper's beside them. [fig:forest]"""
    start = style.initialization_shown(results, preset, methods)
    compared, problems = results.comparisons(preset), results.experiment.problems
    stated = paper()["gains"] if start == style.PAPERS_INITIALIZATION else {}
    lines = {
        method: [
            Line(
                f"{method}:{problem}", row + shift, compared.get(Setting(problem, start, method, preset)),
                _stated_gain(stated.get(problem, {}).get(method)),
            )
            for row, problem in enumerate(problems)
        ]
        for method, shift in zip(methods, _shifts(len(methods)), strict=True)
    }  # fmt: skip
    title = f"Gain over the baseline, preset {preset}: " + "; ".join(f"{m} {_score(lines[m])}" for m in methods)
    figure = _effects(results, lines, title, "gain over the baseline, % of its mean (right is better)")
    settings = [Setting(p, start, m, preset) for p in problems for m in (BASELINE, *methods)]
    style.say(
        figure,
        f"{start}, {len(results.experiment.seeds)} seeds. Bars: 95 % paired bootstrap intervals (arrow: it goes on). "
        "Filled: p < 0.05, paired t-test, uncorrected.",
        style.absent(results, settings),
    )
    return figure


def against_peers(results: Results, preset: str) -> Figure:
    """How our baseline does against other people's software, problem by problem, paired by seed."""
    peers = [name for name, values in results.experiment.methods.items() if isinstance(values, Peer)]
    if not peers:
        raise InvalidValueError(f"The experiment {results.experiment.name!r} has no peer among its methods.")
    start = style.initialization_shown(results, preset, (BASELINE, *peers))
    problems = results.experiment.problems
    lines = {
        peer: [
            Line(
                f"{peer}:{problem}",
                row + shift,
                results.comparisons(preset, peer).get(Setting(problem, start, BASELINE, preset)),
            )
            for row, problem in enumerate(problems)
        ]
        for peer, shift in zip(peers, _shifts(len(peers)), strict=True)
    }
    title = f"Our baseline, preset {preset}: " + "; ".join(f"against {p} {_score(lines[p])}" for p in peers)
    figure = _effects(results, lines, title, "our baseline's gain over the peer, % of its mean (right: ours is better)")
    settings = [Setting(p, start, m, preset) for p in problems for m in (BASELINE, *peers)]
    note = f"{start}, {len(results.experiment.seeds)} seeds. Bars: 95 % paired bootstrap intervals. Filled: p < 0.05."
    style.say(figure, note, style.absent(results, settings))
    return figure


def _effects(results: Results, lines: dict[str, list[Line]], title: str, label: str) -> Figure:
    """Markers and intervals of several methods, a row per problem."""
    problems = results.experiment.problems
    colours = style.palette(lines)
    every = [line for many in lines.values() for line in many]
    handles = [_handle(name, colours[name], marker) for name, marker in zip(lines, cycle(style.MARKERS), strict=False)]
    handles.append(Line2D([], [], ls="", marker="o", color=style.PALE, label="p < 0.05"))
    handles.append(Line2D([], [], ls="", marker="o", color=style.PALE, mfc="white", label="not significant"))
    if any(math.isfinite(line.stated) for line in every):
        handles.append(Line2D([], [], ls="", marker="d", ms=8, mec=style.PALE, mfc="none", label="the paper's"))
    figure, axes = style.canvas((1, 1), (style.WIDTH, 1.3 + (ROW + LANE * len(lines)) * len(problems)), title, handles)
    axis: Axes = axes[0, 0]
    found = [line.found for line in every if line.found is not None]
    ends = [end for one in found for end in (one.gain_percent, one.gain_low, one.gain_high)]
    limits = style.reach([*ends, *(line.stated for line in every)])
    axis.set(xlim=limits, ylim=(len(problems) - 0.4, -0.6), yticks=range(len(problems)))
    axis.set_yticklabels(problems, fontsize=style.LABEL)
    axis.set_xlabel(label, fontsize=style.LABEL, color=style.INK)
    axis.grid(visible=False, axis="y")
    axis.axvline(0, color=style.INK, lw=0.8, zorder=1)
    for row in range(1, len(problems), 2):
        axis.axhspan(row - 0.5, row + 0.5, color=style.FAINT, alpha=0.4, lw=0, zorder=0)
    for (name, many), marker in zip(lines.items(), cycle(style.MARKERS), strict=False):
        for line in many:
            _draw_line(axis, line, colours[name], marker)
    return figure


def _draw_line(axis: Axes, line: Line, colour: str, marker: str) -> None:
    low, high = axis.get_xlim()
    if low <= line.stated <= high:
        axis.plot([line.stated], [line.y], "d", ms=8, mfc="none", mec=style.PALE, gid=f"paper:{line.name}", zorder=2)
    elif math.isfinite(line.stated):
        _draw_beyond(axis, line._replace(name=f"paper:{line.name}"), f"{line.stated:+.0f} %", line.stated, style.PALE)
    one = line.found
    if one is None or math.isnan(one.gain_percent):
        axis.text(
            0.01, line.y, "no runs", va="center", fontsize=TINY, color=style.PALE, gid=f"none:{line.name}",
            transform=axis.get_yaxis_transform(),
        )  # fmt: skip
        return
    ends = np.clip([one.gain_low, one.gain_high], low, high)
    axis.plot(ends, [line.y] * 2, color=colour, lw=1.8, solid_capstyle="butt", gid=f"interval:{line.name}", zorder=3)
    for beyond, bound, arrow in ((one.gain_low < low, low, "<"), (one.gain_high > high, high, ">")):
        if beyond:
            axis.plot([bound], [line.y], arrow, color=colour, ms=6, clip_on=False, gid=f"arrow:{line.name}", zorder=5)
    if low <= one.gain_percent <= high:
        face = colour if one.p < SIGNIFICANT else "white"
        axis.plot([one.gain_percent], [line.y], marker, ms=6, mec=colour, mfc=face, gid=f"gain:{line.name}", zorder=4)
    else:
        _draw_beyond(axis, line, f"{one.gain_percent:+.0f} %{one.stars}", one.gain_percent, colour)


def _draw_beyond(axis: Axes, line: Line, text: str, value: float, colour: str) -> None:
    """A number that lies outside the frame, written at its edge."""
    right = value > axis.get_xlim()[1]
    axis.text(
        0.985 if right else 0.015, line.y, text.replace("-", "−"), ha="right" if right else "left", va="center",
        fontsize=TINY, color=colour, gid=f"beyond:{line.name}", transform=axis.get_yaxis_transform(), zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
    )  # fmt: skip


def heatmap(results: Results, preset: str, method: str = "adaptive") -> Figure:
    """A method's gain in every problem and initialization; bold with an asterisk where p < 0.05. [fig:heatmap]"""
    style.initialization_shown(results, preset, (method,))
    plan, compared = results.experiment, results.comparisons(preset)
    cells = [[compared.get(Setting(p, i, method, preset)) for i in plan.initializations] for p in plan.problems]
    gains = np.array([[math.nan if one is None else one.gain_percent for one in row] for row in cells])
    sizes = np.abs(gains[np.isfinite(gains)])
    # A few huge gains must not pale the rest; the number in the cell tells them.
    bound = max(min(1.3 * float(sizes.max()), 4.0 * float(np.median(sizes))), 1.0) if len(sizes) else 1.0
    every = [one for row in cells for one in row if one is not None]
    title = f"Gain of {method} over the baseline, preset {preset}: {_counts(every)} cells"
    size = (3.6 + 1.1 * len(plan.initializations), 1.4 + 0.36 * len(plan.problems))
    figure, axes = style.canvas((1, 1), size, title)
    axis: Axes = axes[0, 0]
    axis.set_facecolor(style.FAINT)
    image = axis.imshow(np.ma.masked_invalid(gains), cmap="RdBu", norm=Normalize(-bound, bound), aspect="auto")
    for row, column in np.ndindex(gains.shape):
        _write_cell(axis, row, column, cells[row][column], dark=bool(abs(gains[row, column]) > 0.6 * bound))
    axis.set_xticks(range(len(plan.initializations)), plan.initializations, fontsize=style.SMALL)
    axis.set_yticks(range(len(plan.problems)), plan.problems, fontsize=style.LABEL)
    axis.grid(visible=False)
    axis.tick_params(length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
    bar = figure.colorbar(image, ax=axis, extend="both", shrink=0.8, pad=0.03)
    bar.set_label("gain, % (blue is better)", fontsize=style.SMALL, color=style.INK)
    bar.ax.tick_params(labelsize=style.SMALL)
    settings = [
        Setting(p, i, m, preset) for p in plan.problems for i in plan.initializations for m in (BASELINE, method)
    ]
    note = f"Means over {len(plan.seeds)} seeds. Bold and *: p < 0.05 in a paired t-test, uncorrected."
    style.say(figure, note, style.absent(results, settings))
    return figure


def _write_cell(axis: Axes, row: int, column: int, one: PairedComparison | None, *, dark: bool) -> None:
    if one is None or math.isnan(one.gain_percent):
        text, strong = "no runs", False
    else:
        strong = one.p < SIGNIFICANT
        text = f"{one.gain_percent:+.1f}".replace("-", "−") + "*" * strong
    axis.text(
        column, row, text, ha="center", va="center", fontsize=style.LABEL, gid=f"cell:{row}:{column}",
        color="white" if dark else style.INK, fontweight="bold" if strong else "normal",
    )  # fmt: skip


def convergence(results: Results, preset: str, problems: Sequence[str] | None = None) -> Figure:
    """The best utility found so far against questions: mean ± standard error, all methods. [fig:convergence]"""
    chosen = style.pick(problems, results.experiment.problems)
    methods = tuple(results.experiment.methods)
    start = style.initialization_shown(results, preset, methods)
    colours = style.palette(methods)
    dashes = dict(zip(methods, cycle(style.DASHES), strict=False))
    handles = [Line2D([], [], color=colours[m], ls=dashes[m], lw=1.8, label=m) for m in methods]
    rows, columns = -(-len(chosen) // COLUMNS), min(COLUMNS, len(chosen))
    title = f"Best utility found so far, preset {preset} (higher is better)"
    figure, axes = style.canvas((rows, columns), (style.WIDTH, 0.9 + PANEL * rows), title, handles)
    for axis in axes.flat[len(chosen) :]:
        axis.set_axis_off()
    for problem, axis in zip(chosen, axes.flat, strict=False):
        drawn = [
            _draw_course(axis, results, Setting(problem, start, m, preset), colours[m], dashes[m]) for m in methods
        ]
        if not any(drawn):
            style.empty(axis, f"none:{problem}")
        axis.set_title(problem, loc="left", fontsize=style.LABEL, color=style.INK)
        axis.set_xlim(0, results.experiment.queries)
    for axis in axes.flat[max(len(chosen) - columns, 0) : len(chosen)]:
        axis.set_xlabel("questions answered", fontsize=style.SMALL, color=style.INK)
    settings = [Setting(p, start, m, preset) for p in chosen for m in methods]
    note = (
        f"{start}, {len(results.experiment.seeds)} seeds. Lines: means; bands: ± one standard error; each problem in "
    )
    style.say(figure, note + "its own unit.", style.absent(results, settings))
    return figure


def _draw_course(axis: Axes, results: Results, setting: Setting, colour: str, dash: Any) -> bool:
    """One method's mean and band; false where there is nothing to draw."""
    runs = results.traces(setting, "best_utility")
    if not runs:
        return False
    best: NDArray[np.float64] = np.array(runs)
    questions = np.arange(best.shape[1])
    mean = best.mean(0)
    axis.plot(questions, mean, color=colour, ls=dash, lw=1.5, gid=f"mean:{setting.method}:{setting.problem}")
    if len(best) > 1:
        error = best.std(0, ddof=1) / math.sqrt(len(best))
        axis.fill_between(questions, mean - error, mean + error, color=colour, alpha=0.18, lw=0)
    return True


def _handle(name: str, colour: str, marker: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, mfc=colour, lw=1.8, label=name)


def _shifts(count: int) -> list[float]:
    """Where the methods of a problem stand around its row."""
    lane = LANE / (ROW + LANE * count)
    return [lane * (number - (count - 1) / 2) for number in range(count)]


def _stated_gain(text: str | None) -> float:
    """The paper's gain as a number, its stars left out."""
    return math.nan if text is None else float(text.rstrip("*"))


def _score(lines: Iterable[Line]) -> str:
    return _counts([line.found for line in lines if line.found is not None])


def _counts(found: Sequence[PairedComparison]) -> str:
    wins, losses = (sum(one.verdict is kind for one in found) for kind in (Verdict.WIN, Verdict.LOSS))
    return f"better on {wins}, worse on {losses} of {len(found)}"
