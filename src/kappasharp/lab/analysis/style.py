"""How every figure looks: one colour per method, one canvas, one way to say what is missing.

Figures are made as objects: matplotlib's global state is neither read for a choice nor touched.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from kappasharp.errors import InvalidValueError, named
from kappasharp.lab.analysis.results import Results, Setting

# A figure is 900 pixels wide at 100 dots per inch.
WIDTH, DOTS_PER_INCH = 9.0, 100
TITLE, LABEL, SMALL = 11.0, 9.0, 8.0
HEADER = 0.28  # inches, for a line of the legend
SWATCH = 7  # letters that a line or marker in the legend takes
LETTER, BOLD = 0.062, 0.09  # inches that a letter of a note and of a title takes
INK, PALE, FAINT = "#1f2933", "#7b8794", "#e4e7eb"
# Okabe and Ito's colours, told apart by colour-blind people too, and a brown of another lightness.
BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, BROWN = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a4a1e",
)  # fmt: skip
# Methods that never stand in one figure may share a colour; where they do meet, `palette` moves the later one.
COLOURS = {
    "baseline": INK, "static": ORANGE, "adaptive": BLUE, "fixed20": SKY, "connected": PURPLE,
    "jitter": SKY, "diagonal": PURPLE, "metric_only": GREEN, "cov_only": VERMILLION, "full_augmentation": BROWN,
    "ep_ei": GREEN, "gibbs_ei": VERMILLION, "botorch_0_18": VERMILLION, "optuna_preferential": GREEN,
}  # fmt: skip
SPARE = (GREEN, VERMILLION, SKY, PURPLE, BROWN, ORANGE, BLUE)
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = "osD^vP"
# Where the paper's own numbers of Table 1 belong.
PAPERS_INITIALIZATION = "pool_n6_k15"


def palette(methods: Iterable[str]) -> dict[str, str]:
    """A colour for each method: its own where it has one that is free, a spare one otherwise."""
    chosen: dict[str, str] = {}
    for name in methods:
        wanted = (COLOURS.get(name), *SPARE)
        free = [colour for colour in wanted if colour and colour not in chosen.values()]
        chosen[name] = free[0] if free else PALE
    return chosen


def canvas(
    shape: tuple[int, int], size: tuple[float, float], title: str, handles: Sequence[Line2D] = ()
) -> tuple[Figure, NDArray[Any]]:
    """A figure of (rows, columns) axes and (width, height) inches, with a title, and a legend between the two."""
    rows, columns = shape
    width, height = size
    lengths = [len(str(handle.get_label())) + SWATCH for handle in handles]
    room = 0.88 * width / LETTER
    # Over several lines every column is as wide as its widest label.
    beside = len(handles) if sum(lengths) <= room else max(int(room / max(lengths)), 1)
    lines = -(-len(handles) // beside) if handles else 0
    figure = Figure(figsize=(width, height + HEADER * lines), dpi=DOTS_PER_INCH, layout="constrained")
    figure.suptitle(
        textwrap.fill(title, int(width / BOLD)), x=0.01, ha="left", fontsize=TITLE, color=INK, fontweight="bold"
    )
    head = [HEADER * lines / height * rows] if handles else []
    grid = figure.add_gridspec(rows + len(head), columns, height_ratios=[*head, *[1.0] * rows])
    if handles:
        legend = figure.add_subplot(grid[0, :])
        legend.set_axis_off()
        legend.legend(
            handles=list(handles), loc="center left", ncols=beside, frameon=False, fontsize=SMALL,
            borderaxespad=0, handlelength=2.6, columnspacing=1.4, labelcolor=INK,
        )  # fmt: skip
    axes = [[figure.add_subplot(grid[row + len(head), column]) for column in range(columns)] for row in range(rows)]
    for axis in (axis for line in axes for axis in line):
        tidy(axis)
    return figure, np.array(axes)


def tidy(axis: Axes) -> None:
    """Two thin spines, small numbers, faint lines behind the data."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(PALE)
    axis.tick_params(labelsize=SMALL, color=PALE, labelcolor=INK)
    axis.grid(visible=True, color=FAINT, linewidth=0.6)
    axis.set_axisbelow(True)


def say(figure: Figure, *sentences: str) -> None:
    """The note below a figure, in as many lines as it takes."""
    width = int(figure.get_figwidth() / LETTER)
    text = "\n".join(textwrap.fill(sentence, width) for sentence in sentences if sentence)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=SMALL, color=PALE)


def initialization_shown(results: Results, preset: str, methods: Iterable[str]) -> str:
    """The initialization that a figure shows: the paper's primary one where it is there. Refuses unknown names."""
    named("preset", preset, results.experiment.presets)
    for method in methods:
        named("method", method, results.experiment.methods)
    names = results.experiment.initializations
    return PAPERS_INITIALIZATION if PAPERS_INITIALIZATION in names else names[0]


def absent(results: Results, settings: Iterable[Setting]) -> str:
    """A sentence about the runs of these settings that are not there; empty where all are."""
    lacking: dict[str, dict[str, int]] = {}
    wanted, lost = len(results.experiment.seeds), set()
    for setting in settings:
        one = lacking.setdefault(setting.problem, {})
        lost.add(setting)
        several = [len(results.experiment.initializations) > 1, True, len(results.experiment.presets) > 1]
        name = " ".join(part for part, show in zip(setting[1:], several, strict=True) if show)
        one[name] = wanted - len(results.rows.get(setting, {}))
    parts = [_lacks(problem, runs, wanted) for problem, runs in lacking.items() if any(runs.values())]
    failed = sum(Setting(c.problem, c.initialization, c.method, c.preset) in lost for c, _ in results.failed)
    more = f" {failed} of these runs failed." if failed else ""
    return f"Missing: {'; '.join(parts)}.{more}" if parts else ""


def _lacks(problem: str, runs: dict[str, int], wanted: int) -> str:
    if all(count == wanted for count in runs.values()):
        return f"{problem} (all)"
    some = [name if count == wanted else f"{name} {count} of {wanted} runs" for name, count in runs.items() if count]
    return f"{problem} ({', '.join(some)})"


def empty(axis: Axes, gid: str) -> None:
    """Say in an axes that there is nothing to draw."""
    axis.set_yticks([])
    axis.text(0.5, 0.5, "no runs", transform=axis.transAxes, ha="center", va="center", color=PALE, fontsize=SMALL,
              gid=gid)  # fmt: skip


def reach(values: Iterable[float]) -> tuple[float, float]:
    """Limits of an axis that hold zero and what is not far out: beyond 5 times the 80 % quantile it is cut."""
    finite = np.array([value for value in values if math.isfinite(value)])
    if not len(finite):
        return -1.0, 1.0
    fence = max(5.0 * float(np.quantile(np.abs(finite), 0.8)), 1.0)
    low, high = max(min(finite.min(), 0.0), -fence), min(max(finite.max(), 0.0), fence)
    margin = 0.06 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def pick(wanted: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """The problems to draw: all, or some by name."""
    names = tuple(known) if wanted is None else tuple(wanted)
    for name in names:
        named("problem", name, dict.fromkeys(known))
    if not names:
        raise InvalidValueError("`problems` must name at least one problem of the experiment, but got none.")
    return names
