"""Marks: the plain shapes that a chart is a list of, and how they are written down, as data or as HTML."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any, Literal, NamedTuple

Number = float | int


class Mark(NamedTuple):
    """One shape: its SVG tag, its class, its attributes, its words, and a title that the pointer brings up."""

    tag: Literal["line", "path", "rect", "circle", "text"]
    kind: str
    at: dict[str, Number | str]
    words: str = ""
    title: str = ""


class Words(NamedTuple):
    """A piece of a caption, and its class."""

    words: str
    kind: str


class Reading(NamedTuple):
    """What stands at a place across: where its lines are there, and the values in words."""

    x: Number
    ys: list[Number]
    words: str


class Chart(NamedTuple):
    """A picture: its size, a name for those who do not see it, its marks from back to front, the caption above it.

    Where it has readings, the values at the pointer's place can be read; on the page by keyboard and touch too.
    """

    width: Number
    height: Number
    label: str
    marks: list[Mark]
    caption: list[Words]
    readings: Sequence[Reading] = ()


class Box(NamedTuple):
    """The frame of a chart: size, margins, and the ranges of its axes."""

    width: Number
    height: Number
    x_low: Number
    x_high: Number
    y_low: Number
    y_high: Number
    left: Number = 48.0
    right: Number = 14.0
    top: Number = 14.0
    bottom: Number = 30.0

    def x(self, value: Number) -> float:
        """A value's place across."""
        return round(self.left + _share(value, self.x_low, self.x_high) * (self.width - self.left - self.right), 1)

    def y(self, value: Number) -> float:
        """A value's place down."""
        high = self.height - self.top - self.bottom
        return round(self.height - self.bottom - _share(value, self.y_low, self.y_high) * high, 1)


def _share(value: Number, low: Number, high: Number) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def plain(chart: Chart) -> dict[str, Any]:
    """A chart as plain data, for JSON."""
    lists: dict[str, Sequence[Any]] = {"marks": chart.marks, "caption": chart.caption, "readings": chart.readings}
    return chart._asdict() | {name: [one._asdict() for one in found] for name, found in lists.items()}


def html(chart: Chart) -> str:
    """A chart as HTML with SVG in it."""
    caption = "".join(f'<span class="{one.kind}">{escape(one.words)}</span>' for one in chart.caption)
    marks = "\n".join(_svg(one) for one in [*chart.marks, *_bands(chart)])
    size = f'viewBox="0 0 {chart.width:g} {chart.height:g}"'
    return (
        f'<figure class="chart">{f"<figcaption>{caption}</figcaption>" if caption else ""}'
        f'<svg {size} role="img" aria-label="{escape(chart.label, quote=True)}">\n{marks}\n</svg></figure>'
    )


def _bands(chart: Chart) -> list[Mark]:
    """Strips without colour that have the readings as their titles."""
    xs = [one.x for one in chart.readings]
    edges = [*((one + other) / 2 for one, other in pairwise(xs)), chart.width]
    found, left = [], 0.0
    for one, right in zip(chart.readings, edges, strict=False):
        at: dict[str, Number | str] = {"x": round(left, 1), "y": 0, "width": round(right - left, 1)}
        found.append(Mark("rect", "reading", at | {"height": chart.height}, title=one.words))
        left = right
    return found


def _svg(mark: Mark) -> str:
    at = "".join(f' {name}="{value}"' for name, value in mark.at.items())
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    return f'<{mark.tag}{at} class="{mark.kind}">{title}{escape(mark.words)}</{mark.tag}>'


def line(x1: Number, y1: Number, x2: Number, y2: Number, kind: str) -> Mark:
    """A straight line."""
    return Mark("line", kind, {"x1": x1, "y1": y1, "x2": x2, "y2": y2})


def circle(x: Number, y: Number, r: Number, kind: str, title: str = "") -> Mark:
    """A circle; its title comes up under the pointer."""
    return Mark("circle", kind, {"cx": x, "cy": y, "r": r}, title=title)


def label(x: Number, y: Number, words: str, anchor: str = "middle", title: str = "") -> Mark:
    """Words of an axis."""
    return Mark("text", "axis", {"x": round(x, 1), "y": round(y, 1), "text-anchor": anchor}, words, title)


def path(places: Sequence[tuple[Number, Number]], kind: str, *, closed: bool = False) -> Mark:
    """A line through places; closed, a shape."""
    steps = " L".join(f"{x:g},{y:g}" for x, y in places)
    return Mark("path", kind, {"d": f"M{steps}{'Z' if closed else ''}"})
