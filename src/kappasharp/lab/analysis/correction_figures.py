"""The correction in figures: what it does to one Hessian, when it acts in the runs, and how strongly."""

import math
from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor

from kappasharp.algorithm import fit
from kappasharp.correction import strength
from kappasharp.inference import comparisons, laplace
from kappasharp.inference.evidence import model_from
from kappasharp.kernels import stationary
from kappasharp.lab.analysis import style
from kappasharp.lab.analysis.results import BASELINE, Results, Setting, paper
from kappasharp.lab.analysis.statistics import SIGNIFICANT
from kappasharp.settings import KAPPASHARP, PRESETS, Gate, Method, Rule

# Six designs and four answers, winner first; x₅ and x₆ are close, so the prior knows most there.
POINTS = ((0.04, 0.62), (0.30, 0.97), (0.46, 0.58), (0.66, 0.02), (0.78, 0.40), (0.99, 0.30))
ANSWERS = ((1, 0), (1, 2), (4, 3), (5, 4))
LENGTHSCALE, OUTPUTSCALE = 0.3, 4.0
PRIOR, FIRST, SECOND, CORRECTION = style.BLUE, style.ORANGE, style.VERMILLION, style.GREEN
FULL = 0.96  # side of the largest square in its cell
NEGATIVE = 0.2  # share of colour in a negative number's square
SUBSCRIPTS = "₁₂₃₄₅₆"
STRENGTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # ticks
ROW = 0.56  # inches for a problem
ASIDE = 1.35  # factor between two methods at the same nugget


class WorkedExample(NamedTuple):
    """All that is drawn, as the package computes it."""

    points: Tensor
    pairs: Tensor
    component: Tensor
    prior: Tensor
    likelihood: Tensor
    correction: Tensor
    strength: float
    condition_before: float
    condition_after: float


def example() -> WorkedExample:
    """Algorithm 1, lines 3 and 7 to 9, for the example with fixed hyperparameters, under preset `paper`."""
    model = model_from(PRESETS["paper"])
    points = torch.tensor(POINTS, dtype=torch.float64)
    pairs = torch.tensor(ANSWERS)
    theta = torch.tensor([LENGTHSCALE, LENGTHSCALE, OUTPUTSCALE], dtype=torch.float64).log()
    C = comparisons.incidence(pairs, len(points))
    K = stationary.covariance(model.family, points, theta, model.nugget)
    omega = fit.weights(model, laplace.find_map(K, C, model.likelihood), None)
    H_lik = comparisons.laplacian(C, omega)
    H, a, _ = strength.precision(K, H_lik)
    found = strength.calibrate(H, a, KAPPASHARP.target_exponent)
    return WorkedExample(
        points, pairs, comparisons.components(pairs, len(points)), H - H_lik, H_lik,
        strength.spread(KAPPASHARP.weights, found.eta, a),
        float(found.eta), float(found.kappa_before), float(found.kappa_after),
    )  # fmt: skip


def hero() -> Figure:
    """The graph, H = K⁻¹ + H_lik, and H + R: areas of squares are the sizes of the numbers. [fig:hero]"""
    shown = example()
    pieces = len(shown.component.unique())
    parts = (
        (PRIOR, "prior precision K⁻¹"),
        (FIRST, "likelihood, component 1"),
        (SECOND, "component 2"),
        (CORRECTION, "correction R"),
    )
    handles = [Line2D([], [], ls="", marker="s", ms=9, color=colour, label=label) for colour, label in parts]
    handles.append(
        Line2D([], [], ls="", marker="s", ms=8, mfc=_mix(style.INK, NEGATIVE), mec=style.INK, label="pale: negative")
    )
    title = f"{pieces} groups of designs that no answer links: the correction is strongest where the prior is weakest"
    figure, axes = style.canvas((1, 3), (style.WIDTH, 3.6), title, handles)
    graph, before, after = axes[0]
    _graph(graph, shown)
    _matrix(before, shown, corrected=False)
    _matrix(after, shown, corrected=True)
    rank = int(torch.linalg.matrix_rank(shown.likelihood))
    style.say(
        figure,
        f"{len(shown.points)} designs, {len(shown.pairs)} answers (arrows run from winner to loser), {pieces} "
        f"components: the likelihood's part has rank {rank} of {len(shown.points)} and nothing outside a component "
        "(shaded). Squares and rings have the area of their numbers, on one scale. Beside the rows: the diagonal's "
        "prior precision a and correction r.",
        f"RBF kernel, length scale {LENGTHSCALE}, output scale {OUTPUTSCALE:g}, preset paper; "
        f"η* = {shown.strength:.3g} brings κ from {shown.condition_before:.1f} to "
        f"{shown.condition_after:.1f} = κ(H)^{1 - KAPPASHARP.target_exponent:g}.",
    )
    return figure


def _graph(axis: Axes, shown: WorkedExample) -> None:
    colours = _component_colours(shown)
    for number, (winner, loser) in enumerate(shown.pairs.tolist()):
        axis.annotate(
            "", _xy(shown, loser), _xy(shown, winner), gid=f"arrow:{number}",
            arrowprops={"arrowstyle": "-|>", "color": colours[winner], "lw": 1.8, "shrinkA": 11, "shrinkB": 11},
        )  # fmt: skip
    for number, colour in enumerate(colours):
        x, y = _xy(shown, number)
        axis.plot([x], [y], "o", ms=20, mfc="white", mec=colour, mew=2, gid=f"design:{number}")
        axis.text(x, y, _name(number), ha="center", va="center", fontsize=style.LABEL, color=style.INK)
    axis.set(xlim=(-0.09, 1.09), ylim=(-0.09, 1.09), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axis.set_xlabel("first parameter", fontsize=style.SMALL, color=style.INK)
    axis.set_ylabel("second parameter", fontsize=style.SMALL, color=style.INK)
    axis.set_title("The comparison graph", loc="left", fontsize=style.LABEL + 1, color=style.INK)


def _matrix(axis: Axes, shown: WorkedExample, *, corrected: bool) -> None:
    n = len(shown.points)
    for row, column in np.ndindex(n, n):
        _nest(axis, shown, (row, column), corrected=corrected)
    apart = shown.component[:, None] != shown.component[None, :]
    axis.imshow(0.07 * apart.double().numpy(), cmap="Greys", vmin=0, vmax=1, zorder=-1)
    axis.set(xticks=range(n), yticks=range(n), xlim=(-0.55, n - 0.45), ylim=(n - 0.45, -0.55), aspect="equal")
    axis.set_xticklabels([_name(number) for number in range(n)])
    axis.set_yticklabels([_name(number) for number in range(n)])
    axis.grid(visible=False)
    axis.tick_params(length=0, pad=2)
    axis.spines[["left", "bottom"]].set_visible(False)
    sign, kappa = (
        ("$H + R$", shown.condition_after) if corrected else (r"$H = K^{-1} + H_\mathrm{lik}$", shown.condition_before)
    )
    axis.set_title(f"{sign},   κ = {kappa:.1f}", loc="left", fontsize=style.LABEL + 1, color=style.INK)
    letter, colour, values = ("r", CORRECTION, shown.correction) if corrected else ("a", PRIOR, shown.prior.diagonal())
    for number, value in enumerate(values.tolist()):
        text = f"{letter}{SUBSCRIPTS[number]} = {value:.3f}"
        axis.text(n - 0.4, number, text, va="center", fontsize=style.SMALL, color=colour, gid=f"{letter}:{number}")


def _nest(axis: Axes, shown: WorkedExample, at: tuple[int, int], *, corrected: bool) -> None:
    """A cell's numbers as areas: the prior's a square, the likelihood's the ring around it, the correction's on top."""
    prior, likelihood = float(shown.prior[at]), float(shown.likelihood[at])
    colour = _component_colours(shown)[at[0]]
    fade = 0.35 if corrected else 1.0
    parts = [("likelihood", colour, likelihood, abs(prior) + abs(likelihood)), ("prior", PRIOR, prior, abs(prior))]
    if corrected and at[0] == at[1]:
        parts.append(("correction", CORRECTION, r := float(shown.correction[at[0]]), r))
    largest = float((shown.prior + shown.likelihood).diagonal().max())
    for name, colour, value, area in (part for part in parts if part[2] != 0):
        side = FULL * (area / largest) ** 0.5
        share = fade if name != "correction" else 1.0
        patch = Rectangle(
            (at[1] - side / 2, at[0] - side / 2), side, side, gid=f"{name}:{at[0]}:{at[1]}",
            edgecolor=_mix(colour, share), facecolor=_mix(colour, share if value > 0 else share * NEGATIVE),
            linewidth=0.8 * (value < 0),
        )  # fmt: skip
        axis.add_patch(patch)


def _mix(colour: str, share: float) -> tuple[float, float, float]:
    """A share of the colour, the rest white."""
    red, green, blue = to_rgb(colour)
    return 1 - share * (1 - red), 1 - share * (1 - green), 1 - share * (1 - blue)


def _component_colours(shown: WorkedExample) -> list[str]:
    order = shown.component.unique().tolist()
    return [(FIRST, SECOND)[order.index(label)] for label in shown.component.tolist()]


def _xy(shown: WorkedExample, number: int) -> tuple[float, float]:
    return float(shown.points[number, 0]), float(shown.points[number, 1])


def _name(number: int) -> str:
    return "x" + SUBSCRIPTS[number]


def activation(results: Results, preset: str, method: str = "adaptive") -> Figure:
    """How often the correction acted, run by run, and the mean decisiveness that decides it. [fig:gate]"""
    start = style.initialization_shown(results, preset, (method,))
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
        setting = Setting(problem, start, method, preset)
        _draw_shares(left, results, setting, colour)
        if paper_here and problem in stated:
            left.plot([stated[problem]], [0.5], "d", ms=8, mfc="none", mec=style.PALE, gid=f"paper:{problem}")
        _draw_decisiveness(right, results, setting, colour, gate)
        for axis in (left, right):
            axis.tick_params(labelbottom=problem == problems[-1])
    axes[-1, 0].set_xlabel("steps at which the correction acted, % of a run", fontsize=style.SMALL, color=style.INK)
    axes[-1, 1].set_xlabel("step (grey: the gate cannot open yet)", fontsize=style.SMALL, color=style.INK)
    note = f"{start}, {len(results.experiment.seeds)} seeds, {results.experiment.queries} steps each. "
    note += "Right: the moving average of the decisiveness, median and quartiles over the runs."
    style.say(figure, note, style.absent(results, [Setting(p, start, method, preset) for p in problems]))
    return figure


def _draw_shares(axis: Axes, results: Results, setting: Setting, colour: str) -> None:
    axis.set(xlim=(-2, 102), ylim=(0, 1), yticks=[])
    axis.set_ylabel(setting.problem, rotation=0, ha="right", va="center", fontsize=style.LABEL, color=style.INK)
    axis.spines["left"].set_visible(False)
    runs = [run for run in acting(results, setting) if run]  # a peer has no such trace
    if not runs:
        style.empty(axis, f"none:{setting.problem}")
        return
    shares = np.array([100.0 * np.mean(run) for run in runs])
    # Runs stand above each other by their seeds: no chance in it, and no two on one spot.
    heights = 0.12 + 0.76 * (np.arange(len(shares)) * 0.618034 % 1.0)
    axis.plot(shares, heights, "o", ms=3.5, color=colour, alpha=0.5, mew=0, gid=f"shares:{setting.problem}", zorder=3)
    middle = float(np.median(shares))
    axis.plot(
        [middle, middle],
        [0, 1],
        color=style.INK,
        lw=2.5,
        solid_capstyle="butt",
        gid=f"median:{setting.problem}",
        zorder=2,
    )
    axis.text(102, 0.5, f"{middle:.0f} %", va="center", fontsize=style.SMALL, color=style.INK)


def _draw_decisiveness(axis: Axes, results: Results, setting: Setting, colour: str, gate: Gate) -> None:
    axis.set(xlim=(1, results.experiment.queries), ylim=(0, 1), yticks=(0, 1))
    runs = [run for run in results.traces(setting, "mean_decisiveness") if run]
    if gate.rule is not Rule.NEVER:
        axis.axvspan(1, float(gate.first_step), color=style.FAINT, lw=0, zorder=0)
    if gate.rule is Rule.DECISIVE:
        axis.axhline(float(gate.threshold), color=style.VERMILLION, ls="--", lw=1.2)
    if not runs:
        style.empty(axis, f"none:{setting.problem}")
        return
    low, middle, high = np.quantile(np.array(runs), (0.25, 0.5, 0.75), axis=0)
    steps = np.arange(1, len(middle) + 1)
    axis.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0)
    axis.plot(steps, middle, color=colour, lw=1.8, gid=f"decisiveness:{setting.problem}")


def nugget(results: Results, methods: Sequence[str] = ("static", "adaptive")) -> Figure:
    """Gain and strength of the correction against the nugget, problem by problem; presets differ in it."""
    presets = sorted(results.experiment.presets.items(), key=lambda named: named[1].nugget)
    start = style.initialization_shown(results, presets[0][0], methods)
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
            series = [(row.nugget, Setting(problem, start, method, name)) for name, row in presets]
            aside = ASIDE ** (at - (len(methods) - 1) / 2)
            _draw_gains(upper, results, series, colours[method], markers[method], aside)
            _draw_strengths(lower, results, series, colours[method], markers[method], aside)
        _finish_column(upper, lower, [row.nugget for _, row in presets], problem)
    axes[0, 0].set_ylabel("gain, %", fontsize=style.LABEL, color=style.INK)
    axes[1, 0].set_ylabel("strength η*", fontsize=style.LABEL, color=style.INK)
    _share_scale(list(axes[1]))
    settings = [Setting(p, start, m, name) for p in problems for m in (BASELINE, *methods) for name, _ in presets]
    note = (
        f"{start}, {len(results.experiment.seeds)} seeds. Above: 95 % paired bootstrap intervals, each problem on its "
    )
    note += "own scale. Below: median and quartiles over the runs of a run's median η* where the correction acted. "
    style.say(figure, note + "Markers of one nugget stand side by side.", style.absent(results, settings))
    return figure


def _draw_gains(
    axis: Axes, results: Results, series: list[tuple[float, Setting]], colour: str, marker: str, aside: float
) -> None:
    found = [(value * aside, setting, results.comparisons(setting.preset).get(setting)) for value, setting in series]
    there = [(x, setting, one) for x, setting, one in found if one is not None and not math.isnan(one.gain_percent)]
    axis.plot([x for x, _, _ in there], [one.gain_percent for _, _, one in there], color=colour, lw=1, alpha=0.6)
    for x, setting, one in there:
        axis.plot([x, x], [one.gain_low, one.gain_high], color=colour, lw=1.6, solid_capstyle="butt")
        face = colour if one.p < SIGNIFICANT else "white"
        name = f"gain:{setting.method}:{setting.problem}:{setting.preset}"
        axis.plot([x], [one.gain_percent], marker, ms=6, mec=colour, mfc=face, gid=name, zorder=4)


def _draw_strengths(
    axis: Axes, results: Results, series: list[tuple[float, Setting]], colour: str, marker: str, aside: float
) -> None:
    found = [(value * aside, np.quantile(each, (0.25, 0.5, 0.75))) for value, setting in series
             if len(each := strengths(results, setting))]  # fmt: skip
    for x, (low, _, high) in found:
        axis.plot([x, x], [low, high], color=colour, lw=1.6, solid_capstyle="butt")
    name = f"strength:{series[0][1].method}:{series[0][1].problem}"
    axis.plot([x for x, _ in found], [q[1] for _, q in found], color=colour, marker=marker, ms=6, lw=1, gid=name)


def strengths(results: Results, setting: Setting) -> list[float]:
    """Each run's median η* over the steps at which the correction acted; runs in which it never did are left out."""
    pairs = zip(results.traces(setting, "strength"), acting(results, setting), strict=True)
    chosen = [[value for value, flag in zip(*pair, strict=True) if flag and value > 0] for pair in pairs]
    return [float(np.median(values)) for values in chosen if values]


def acting(results: Results, setting: Setting) -> list[list[bool]]:
    """Whether the correction acted, step by step, of every run of a setting in the order of the seeds."""
    return [row["active"] for _, row in sorted(results.rows.get(setting, {}).items())]


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
