"""A study in figures with matplotlib: `study.plot.progress()`, `.slices()`, `.designs()` and `.agreement()`.

The report and the page draw without it: `charts.py`.
"""

import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

from kappasharp.analysis import Moment, ToldStudy
from kappasharp.engine import engine
from kappasharp.errors import InvalidValueError, needed
from kappasharp.messages.message import count, text
from kappasharp.results.best import Slice
from kappasharp.views import report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, INK, PALE = "#0072b2", "#d55e00", "#1f2933", "#7b8794"
# Figures in inches; small ones stand side by side.
WIDE, SMALL, ACROSS = (7.5, 3.6), (3.0, 2.4), 3
# A name or a value at an axis is cut after this many letters.
LETTERS = 18


class Plots:
    """The figures of one study, each of one moment. A notebook shows them, `savefig` writes them."""

    def __init__(self, study: ToldStudy) -> None:
        self._study = study

    def progress(self) -> "Figure":
        """How sure the model was after how many answers: what the best design beats, and the room that is left."""
        now = self._answered()
        found = report.past(now)
        figure, (axes,) = _canvas(1, WIDE)
        at = [one.answers for one in found]
        axes.plot(at, [one.preferred for one in found], "o-", color=BLUE, label="beats a random design")
        axes.plot(at, [one.room for one in found], "s--", color=ORANGE, label="room left")
        axes.set(xlabel="answers", ylim=(-0.02, 1.02), title=_cut(now.name, 60))
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.locator_params(axis="x", integer=True)
        axes.legend(frameon=False)
        return figure

    def slices(self) -> "Figure":
        """Utility above or below the best design's while one parameter moves, with a band of one deviation."""
        now = self._answered()
        found = engine().slices(now.definition, now.of_all, now.best_params)
        figure, panels = _canvas(len(found), SMALL)
        for axes, one in zip(panels, found, strict=False):
            _slice(axes, one, is_log=getattr(now.space.tuned[one.name], "log", False))
        bottom = min(min(one.low) for one in found)
        top = max(max(one.high) for one in found)
        for axes in panels[: len(found)]:
            axes.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))
        figure.supylabel("utility above the best design's", fontsize=9, color=INK)
        return figure

    def designs(self) -> "Figure":
        """Every design seen as a line through its parameters, darker where it is liked more; the best in orange."""
        now = self._answered()
        rows, best, seen = now.rows("options"), now.best.option, now.history.options
        known = [row["utility"] for row in rows if row["utility"] is not None]
        low, span = min(known), (max(known) - min(known)) or 1.0
        tuned = now.space.tuned
        size = (max(WIDE[0], 1.3 * len(tuned)), WIDE[1])
        figure, (axes,) = _canvas(1, size)
        colours = needed("matplotlib", "`study.plot`", "lab").colormaps["Blues"]
        for row in sorted(rows, key=lambda row: (row["option"] == best, row["utility"] or low)):
            liked = 0.0 if row["utility"] is None else (row["utility"] - low) / span
            first = row["option"] == best
            heights = [_share(part, seen[row["option"]][name]) for name, part in tuned.items()]
            style = (
                {"color": ORANGE, "lw": 2.6, "zorder": 3}
                if first
                else {"color": colours(0.2 + 0.75 * liked), "lw": 1.1}
            )
            axes.plot(range(len(tuned)), heights, marker="o", ms=5 if first else 3, **style)
        for place, part in enumerate(tuned.values()):
            axes.axvline(place, color=PALE, lw=0.6, zorder=0)
            low_end, high_end = _ends(part)
            axes.annotate(low_end, (place, 0), (0, -4), textcoords="offset points", ha="center", va="top", fontsize=7)
            axes.annotate(
                high_end, (place, 1), (0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=7
            )
        axes.set_xticks(range(len(tuned)), [_cut(name) for name in tuned])
        axes.tick_params(axis="x", pad=14, length=0)
        axes.set(yticks=[], ylim=(-0.02, 1.02))
        axes.set_title(f"{_cut(now.name, 60)}: {count(len(rows), 'design')}, darker is liked more", pad=18)
        axes.spines[:].set_visible(False)
        return figure

    def agreement(self) -> "Figure":
        """How many answers of each voter the model of all shares, and how many two voters share with each other."""
        now = self._answered()
        voters, couples = engine().voter_counts(now.history, now.model()), engine().couples(now.history)
        shown = [one for one in voters if one.decided]
        if not shown:
            raise InvalidValueError(f"There is nothing to agree on: every answer in {now.name!r} is a tie or a skip.")
        bars = [(f"{one.name} with all", one.shared, one.decided, BLUE) for one in shown]
        bars += [(f"{one.first} with {one.second}", one.agreed, one.met, ORANGE) for one in couples]
        figure, (axes,) = _canvas(1, (WIDE[0], 1.0 + 0.34 * len(bars)))
        for place, (_, same, of, colour) in enumerate(bars):
            axes.barh(place, same / of, color=colour, height=0.62)
            axes.annotate(
                f"{same} of {of}", (same / of, place), (5, 0), textcoords="offset points", va="center", fontsize=8
            )
        axes.set_yticks(range(len(bars)), [_cut(name, 40) for name, *_ in bars])
        axes.axvline(0.5, color=PALE, lw=0.8, ls=":", zorder=0)
        axes.set_xticks([0, 0.5, 1], ["0 %", "50 %, a coin", "100 %"])
        axes.set(xlim=(0, 1.12), title="the same answer")
        axes.invert_yaxis()
        return figure

    def _answered(self) -> Moment:
        now = self._study.moment()
        if not now.history.counted():
            raise InvalidValueError(f"There is nothing to draw: the study {now.name!r} has no answers yet.")
        return now


def _canvas(panels: int, size: tuple[float, float]) -> tuple["Figure", list["Axes"]]:
    """A figure with that many panels, some side by side, made without matplotlib's global state."""
    figures = needed("matplotlib.figure", "`study.plot`", "lab")
    across = min(panels, ACROSS)
    rows = math.ceil(panels / across)
    # A notebook shows what has a picture of itself; without pyplot a plain figure has none.
    made = type("StudyFigure", (figures.Figure,), {"_repr_png_": _png})
    figure = made(figsize=(size[0] * across, size[1] * rows), layout="constrained", facecolor="white")
    found = [figure.add_subplot(rows, across, i + 1) for i in range(panels)]
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=INK)
        axes.title.set_size(10)
        axes.xaxis.label.set_size(9)
    return figure, found


def _png(figure: "Figure") -> bytes:
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    return stream.getvalue()


def _slice(axes: "Axes", one: Slice, *, is_log: bool) -> None:
    axes.axhline(0.0, color=PALE, lw=0.6, ls=":")
    here = one.values.index(one.here) if one.here in one.values else None
    if one.ordered:
        axes.fill_between(one.values, one.low, one.high, color=BLUE, alpha=0.18, lw=0)  # type: ignore[arg-type]
        axes.plot(one.values, one.mean, color=BLUE)  # type: ignore[arg-type]
        axes.plot([one.here], [0.0], "o", mfc="white", mec=ORANGE, mew=1.8)  # type: ignore[arg-type]
        axes.set_xscale("log" if is_log else "linear")
    else:
        at = range(len(one.values))
        spread = [
            [m - l for m, l in zip(one.mean, one.low, strict=True)],
            [h - m for h, m in zip(one.high, one.mean, strict=True)],
        ]
        axes.errorbar(at, one.mean, spread, fmt="o", color=BLUE, capsize=3)
        if here is not None:
            axes.plot([here], [0.0], "o", mfc="white", mec=ORANGE, mew=1.8, zorder=3)
        axes.set_xticks(at, [_cut(text(value)) for value in one.values])
        axes.margins(x=0.2)
    axes.set_title(_cut(one.name, 30))


def _share(part: Any, value: Any) -> float:
    """How far up its axis a value stands: numbers as the cube has them, choices one after the other."""
    if part.values is not None and not hasattr(part, "low"):
        return part.values.index(value) / max(len(part.values) - 1, 1)
    return float(part.encode(value)[0])


def _ends(part: Any) -> tuple[str, str]:
    if hasattr(part, "low"):
        return text(part.low), text(part.high)
    return _cut(text(part.values[0])), _cut(text(part.values[-1]))


def _cut(words: str, most: int = LETTERS) -> str:
    """Words at an axis: not too long, and never read as a formula."""
    short = words if len(words) <= most else f"{words[: most - 1]}…"
    return short.replace("$", r"\$")
