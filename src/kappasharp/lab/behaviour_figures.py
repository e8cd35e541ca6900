"""What the correction does in the runs: when it acts, and how strongly, as figures."""

import math
from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kappasharp.core.activation import Gate, Rule
from kappasharp.lab import style
from kappasharp.lab.results import BASELINE, Place, Results, paper
from kappasharp.lab.statistics import SIGNIFICANT
from kappasharp.methods.method import Method

STRENGTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # ticks
ROW = 0.56  # inches for a problem
ASIDE = 1.35  # factor between two methods at the same nugget


def activation(results: Results, preset: str, method: str = "adaptive") -> Figure:
    """How often the correction acted, run by run, and the mean decisiveness that decides it. [fig:gate]"""
    start = style.place_of(results, preset, (method,))
    values, problems = results.experiment.methods[method], results.experiment.problems
    gate = values.gate if isinstance(values, Method) else Gate()
    colour = style.palette([method])[method]
    handles = [
        Line2D([], [], ls="", marker="o", ms=3.5, color=colour, alpha=0.5, label="a run"),
        Line2D([], [], ls="", marker="|", ms=13, mew=2.5, color=style.INK, label="median"),
        Line2D([], [], color=colour, lw=1.8, label="mean decisiveness s̄"),
    ]
    if gate.rule is Rule.DECISIVE:
        handles.append(
            Line2D([], [], color=style.VERMILLION, ls="--", lw=1.2, label=f"threshold τ = {gate.threshold:g}")
        )
    stated = paper()["active_share"]
    paper_here = start == style.PAPERS_INITIALIZATION and method == "adaptive" and stated.keys() & set(problems)
    if paper_here:
        handles.append(Line2D([], [], ls="", marker="d", ms=8, mec=style.PALE, mfc="none", label="the paper's median"))
    title = f"When the correction of {method} acts, preset {preset}"
    figure, axes = style.canvas((len(problems), 2), (style.WIDTH, 1.3 + ROW * len(problems)), title, handles)
    for problem, (left, right) in zip(problems, axes, strict=True):
        place = Place(problem, start, method, preset)
        _draw_shares(left, results, place, colour)
        if paper_here and problem in stated:
            left.plot([stated[problem]], [0.5], "d", ms=8, mfc="none", mec=style.PALE, gid=f"paper:{problem}")
        _draw_decisiveness(right, results, place, colour, gate)
        for axis in (left, right):
            axis.tick_params(labelbottom=problem == problems[-1])
    axes[-1, 0].set_xlabel("steps at which the correction acted, % of a run", fontsize=style.SMALL, color=style.INK)
    axes[-1, 1].set_xlabel("step (grey: the gate cannot open yet)", fontsize=style.SMALL, color=style.INK)
    note = f"{start}, {len(results.experiment.seeds)} seeds, {results.experiment.queries} steps each. "
    note += "Right: the moving average of the decisiveness, median and quartiles over the runs."
    style.say(figure, note, style.absent(results, [Place(p, start, method, preset) for p in problems]))
    return figure


def _draw_shares(axis: Axes, results: Results, place: Place, colour: str) -> None:
    axis.set(xlim=(-2, 102), ylim=(0, 1), yticks=[])
    axis.set_ylabel(place.problem, rotation=0, ha="right", va="center", fontsize=style.LABEL, color=style.INK)
    axis.spines["left"].set_visible(False)
    runs = [run for run in acting(results, place) if run]  # a peer has no such trace
    if not runs:
        style.empty(axis, f"none:{place.problem}")
        return
    shares = np.array([100.0 * np.mean(run) for run in runs])
    # Runs stand above each other by their seeds: no chance in it, and no two on one spot.
    heights = 0.12 + 0.76 * (np.arange(len(shares)) * 0.618034 % 1.0)
    axis.plot(shares, heights, "o", ms=3.5, color=colour, alpha=0.5, mew=0, gid=f"shares:{place.problem}", zorder=3)
    middle = float(np.median(shares))
    axis.plot(
        [middle, middle],
        [0, 1],
        color=style.INK,
        lw=2.5,
        solid_capstyle="butt",
        gid=f"median:{place.problem}",
        zorder=2,
    )
    axis.text(102, 0.5, f"{middle:.0f} %", va="center", fontsize=style.SMALL, color=style.INK)


def _draw_decisiveness(axis: Axes, results: Results, place: Place, colour: str, gate: Gate) -> None:
    axis.set(xlim=(1, results.experiment.queries), ylim=(0, 1), yticks=(0, 1))
    runs = [run for run in results.traces(place, "mean_decisiveness") if run]
    if gate.rule is not Rule.NEVER:
        axis.axvspan(1, float(gate.first_step), color=style.FAINT, lw=0, zorder=0)
    if gate.rule is Rule.DECISIVE:
        axis.axhline(float(gate.threshold), color=style.VERMILLION, ls="--", lw=1.2)
    if not runs:
        style.empty(axis, f"none:{place.problem}")
        return
    low, middle, high = np.quantile(np.array(runs), (0.25, 0.5, 0.75), axis=0)
    steps = np.arange(1, len(middle) + 1)
    axis.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
    axis.plot(steps, middle, color=colour, lw=1.8, gid=f"decisiveness:{place.problem}")


def nugget(results: Results, methods: Sequence[str] = ("static", "adaptive")) -> Figure:
    """Gain and strength of the correction against the nugget, problem by problem; presets differ in it."""
    presets = sorted(results.experiment.presets.items(), key=lambda named: named[1].nugget)
    start = style.place_of(results, presets[0][0], methods)
    colours, problems = style.palette(methods), results.experiment.problems
    markers = dict(zip(methods, cycle(style.MARKERS), strict=False))
    handles = [Line2D([], [], color=colours[m], marker=markers[m], lw=1.5, label=m) for m in methods]
    handles.append(Line2D([], [], ls="", marker="o", color=style.PALE, label="p < 0.05"))
    handles.append(Line2D([], [], ls="", marker="o", color=style.PALE, mfc="white", label="not significant"))
    title = "Gain over the baseline, and strength of the correction, against the nugget"
    figure, axes = style.canvas((2, len(problems)), (style.WIDTH, 5.2), title, handles)
    for column, problem in enumerate(problems):
        upper, lower = axes[:, column]
        for at, method in enumerate(methods):
            series = [(row.nugget, Place(problem, start, method, name)) for name, row in presets]
            aside = ASIDE ** (at - (len(methods) - 1) / 2)
            _draw_gains(upper, results, series, (colours[method], markers[method], aside))
            _draw_strengths(lower, results, series, (colours[method], markers[method], aside))
        _finish_column(upper, lower, [row.nugget for _, row in presets], problem)
    axes[0, 0].set_ylabel("gain, %", fontsize=style.LABEL, color=style.INK)
    axes[1, 0].set_ylabel("strength η*", fontsize=style.LABEL, color=style.INK)
    _share_scale(list(axes[1]))
    places = [Place(p, start, m, name) for p in problems for m in (BASELINE, *methods) for name, _ in presets]
    note = (
        f"{start}, {len(results.experiment.seeds)} seeds. Above: 95 % paired bootstrap intervals, each problem on its "
    )
    note += "own scale. Below: median and quartiles over the runs of a run's median η* where the correction acted. "
    style.say(figure, note + "Markers of one nugget stand side by side.", style.absent(results, places))
    return figure


def _draw_gains(axis: Axes, results: Results, series: list[tuple[float, Place]], look: tuple[str, str, float]) -> None:
    colour, marker, aside = look
    found = [(value * aside, place, results.comparisons(place.preset).get(place)) for value, place in series]
    there = [(x, place, one) for x, place, one in found if one is not None and not math.isnan(one.gain_percent)]
    axis.plot([x for x, _, _ in there], [one.gain_percent for _, _, one in there], color=colour, lw=1, alpha=0.6)
    for x, place, one in there:
        axis.plot([x, x], [one.gain_low, one.gain_high], color=colour, lw=1.6, solid_capstyle="butt")
        face = colour if one.p < SIGNIFICANT else "white"
        name = f"gain:{place.method}:{place.problem}:{place.preset}"
        axis.plot([x], [one.gain_percent], marker, ms=6, mec=colour, mfc=face, gid=name, zorder=4)


def _draw_strengths(
    axis: Axes, results: Results, series: list[tuple[float, Place]], look: tuple[str, str, float]
) -> None:
    colour, marker, aside = look
    found = [(value * aside, np.quantile(each, (0.25, 0.5, 0.75))) for value, place in series
             if len(each := strengths(results, place))]  # fmt: skip
    for x, (low, _, high) in found:
        axis.plot([x, x], [low, high], color=colour, lw=1.6, solid_capstyle="butt")
    name = f"strength:{series[0][1].method}:{series[0][1].problem}"
    axis.plot([x for x, _ in found], [q[1] for _, q in found], color=colour, marker=marker, ms=6, lw=1, gid=name)


def strengths(results: Results, place: Place) -> list[float]:
    """Each run's median η* over the steps at which the correction acted; runs in which it never did are left out."""
    pairs = zip(results.traces(place, "strength"), acting(results, place), strict=True)
    chosen = [[value for value, flag in zip(*pair, strict=True) if flag and value > 0] for pair in pairs]
    return [float(np.median(values)) for values in chosen if values]


def acting(results: Results, place: Place) -> list[list[bool]]:
    """Whether the correction acted, step by step, of every run of a place in the order of the seeds."""
    return [row["active"] for _, row in sorted(results.rows.get(place, {}).items())]


def _finish_column(upper: Axes, lower: Axes, values: list[float], problem: str) -> None:
    upper.axhline(0, color=style.INK, lw=0.8, zorder=1)
    for axis in (upper, lower):
        axis.set_xscale("log")
        axis.set_xlim(min(values) / 3, max(values) * 3)
        axis.set_xticks(values)
        axis.tick_params(axis="x", labelsize=7)
        axis.minorticks_off()
    upper.tick_params(labelbottom=False)
    lower.set_yscale("log")
    upper.set_title(problem, loc="left", fontsize=style.LABEL, color=style.INK)
    lower.set_xlabel("nugget / output scale", fontsize=style.SMALL, color=style.INK)


def _share_scale(axes: Sequence[Axes]) -> None:
    """The same scale for all, so that strengths compare across problems."""
    limits = [ends for axis in axes if min(ends := axis.get_ylim()) > 0] or [(0.1, 10.0)]  # empty ones reach below 0
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    ticks = [tick for tick in STRENGTHS if low <= tick <= high]
    for axis in axes:
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_ylim(low, high)
        axis.minorticks_off()
        axis.tick_params(labelleft=axis is axes[0])
