"""Pictures as SVG text, drawn by hand so that a report needs no library: curves, slices, the graph of answers.

Colours are CSS variables of the page they stand in, so that they follow its light or dark mode.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from kappasharp.study.certainty import Slice
from kappasharp.study.parameters import Value

Number = float | int
# The height of a line of text, and the width of a letter of an axis, in a picture's own units.
LINE, LETTER = 15.0, 6.2
LEAST_LETTERS = 3
# As many as the style sheet has for groups.
COLOURS = 8


class Box(NamedTuple):
    """The frame of a chart: size, margins, and the ranges of its axes."""

    width: Number
    height: Number
    x_low: Number
    x_high: Number
    y_low: Number
    y_high: Number
    left: Number = 44.0
    right: Number = 12.0
    top: Number = 12.0
    bottom: Number = 28.0

    def x(self, value: Number) -> float:
        """A value's place across."""
        share = (value - self.x_low) / ((self.x_high - self.x_low) or 1.0)
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: Number) -> float:
        """A value's place down."""
        share = (value - self.y_low) / ((self.y_high - self.y_low) or 1.0)
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)


class Curve(NamedTuple):
    """Points of a line, its label and its CSS class."""

    label: str
    kind: str
    points: Sequence[tuple[Number, Number]]


def svg(box: Box, label: str, parts: Sequence[str]) -> str:
    """A picture with a name for those who do not see it."""
    inside = "\n".join(parts)
    size = f'viewBox="0 0 {box.width:g} {box.height:g}"'
    return f'<svg {size} role="img" aria-label="{escape(label, quote=True)}">\n{inside}\n</svg>'


def words(x: Number, y: Number, content: str, *, anchor: str = "middle", kind: str = "axis") -> str:
    """A piece of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(content)}</text>'


def path(box: Box, points: Sequence[tuple[Number, Number]], kind: str) -> str:
    """A line through points."""
    steps = " ".join(f"{'M' if i == 0 else 'L'}{box.x(x):.1f},{box.y(y):.1f}" for i, (x, y) in enumerate(points))
    return f'<path d="{steps}" class="line {kind}"/>'


def axes(
    box: Box, *, across: str, ticks: Sequence[tuple[Number, str]], levels: Sequence[tuple[Number, str]]
) -> list[str]:
    """Grid lines with their numbers, and what runs across."""
    parts = []
    for value, name in levels:
        y = box.y(value)
        parts.append(f'<line x1="{box.left:g}" x2="{box.width - box.right:g}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(words(box.left - 6, y + 4, name, anchor="end"))
    for value, name in ticks:
        parts.append(words(box.x(value), box.height - box.bottom + 15, name))
    if across:
        parts.append(words(box.width - box.right, box.height - 2, across, anchor="end"))
    return parts


def curves(given: Sequence[Curve], *, label: str, across: str, width: Number = 640.0, height: Number = 240.0) -> str:
    """Shares from 0 to 100 % over a count, each line with its name at its end."""
    last = max(x for curve in given for x, _ in curve.points)
    box = Box(width, height, 0.0, max(last, 1.0), 0.0, 1.0, right=150.0)
    step = max(1, round(last / 6))
    ticks = [(float(i), str(i)) for i in range(0, int(last) + 1, step)]
    parts = axes(box, across=across, ticks=ticks, levels=[(s / 4, f"{s * 25} %") for s in range(5)])
    names = _apart([box.y(curve.points[-1][1]) + 4 for curve in given])
    for curve, name in zip(given, names, strict=True):
        x, y = curve.points[-1]
        parts.append(path(box, curve.points, curve.kind))
        parts.append(f'<circle cx="{box.x(x):.1f}" cy="{box.y(y):.1f}" r="3.5" class="end {curve.kind}"/>')
        parts.append(words(box.x(x) + 10, name, curve.label, anchor="start", kind=f"label {curve.kind}"))
    return svg(box, label, parts)


def _apart(places: Sequence[float]) -> list[float]:
    """The same places, moved down where a line of text would cover the one above it."""
    moved, lowest = list(places), -math.inf
    for i in sorted(range(len(places)), key=lambda i: places[i]):
        moved[i] = lowest = max(places[i], lowest + LINE)
    return moved


def slice_chart(found: Slice, *, width: Number = 300.0, height: Number = 170.0) -> str:
    """Better or worse along one parameter: a curve with its band, or bars for choices."""
    low, high = min(0.0, *found.low), max(0.0, *found.high)
    pad = 0.05 * (high - low or 1.0)
    count = len(found.values)
    places = _spread(found.values) if found.ordered else [float(i) for i in range(count)]
    edge = 0.0 if found.ordered else 0.5
    box = Box(width, height, min(places) - edge, max(places) + edge, low - pad, high + pad, left=14.0, bottom=36.0)
    parts = [
        f'<line x1="{box.left:g}" x2="{width - box.right:g}" y1="{box.y(0.0):.1f}" y2="{box.y(0.0):.1f}" class="grid"/>'
    ]
    parts += _band(box, places, found) if found.ordered else _whiskers(box, places, found)
    parts += _ends(box, places, found) if found.ordered else _choices(box, places, found)
    parts.append(words(width / 2, height - 5, cut(found.name, width), kind="label"))
    return svg(box, f"Utility along {found.name}", parts)


def _spread(values: Sequence[Any]) -> list[float]:
    """Numbers as places: on their logarithms where they are evenly spread there."""
    low, high = float(values[0]), float(values[-1])
    middle = float(values[len(values) // 2])
    even = abs(middle - (low + high) / 2)
    if low > 0 and high / low > 10 and abs(middle - math.sqrt(low * high)) < even:  # noqa: PLR2004
        return [math.log(value) for value in values]
    return [float(value) for value in values]


def _band(box: Box, places: Sequence[float], found: Slice) -> list[str]:
    upper = [f"{box.x(x):.1f},{box.y(y):.1f}" for x, y in zip(places, found.high, strict=True)]
    lower = [f"{box.x(x):.1f},{box.y(y):.1f}" for x, y in zip(places, found.low, strict=True)]
    here = min(range(len(places)), key=lambda i: abs(float(found.values[i]) - float(found.here)))  # type: ignore[arg-type]
    return [
        f'<polygon points="{" ".join([*upper, *reversed(lower)])}" class="band"/>',
        path(box, list(zip(places, found.mean, strict=True)), "first"),
        f'<circle cx="{box.x(places[here]):.1f}" cy="{box.y(0.0):.1f}" r="4" class="here"/>',
    ]


def _whiskers(box: Box, places: Sequence[float], found: Slice) -> list[str]:
    parts = []
    for x, value, mean, low, high in zip(places, found.values, found.mean, found.low, found.high, strict=True):
        at = f"{box.x(x):.1f}"
        kind = "here" if _is(value, found.here) else "dot"
        parts.append(f'<line x1="{at}" x2="{at}" y1="{box.y(low):.1f}" y2="{box.y(high):.1f}" class="whisker"/>')
        parts.append(f'<circle cx="{at}" cy="{box.y(mean):.1f}" r="4" class="{kind}"/>')
    return parts


def _ends(box: Box, places: Sequence[float], found: Slice) -> list[str]:
    return [
        words(box.x(places[i]), box.height - 20, _short(found.values[i]), anchor=anchor)
        for i, anchor in ((0, "start"), (-1, "end"))
    ]


def _choices(box: Box, places: Sequence[float], found: Slice) -> list[str]:
    """Names below the choices, as long as there is room; where there is none, only the design's own."""
    room = (box.width - box.left - box.right) / len(places)
    crowded = room < LEAST_LETTERS * LETTER
    return [
        words(box.x(x), box.height - 20, cut(_short(value), box.width / 2 if crowded else room))
        for x, value in zip(places, found.values, strict=True)
        if not crowded or _is(value, found.here)
    ]


def cut(content: str, room: Number) -> str:
    """As much of a text as fits."""
    letters = max(1, int(room / LETTER))
    return content if len(content) <= letters else content[: letters - 1] + "…"


def _is(value: Value, other: Value) -> bool:
    # True is 1 to Python, and not to whoever offers both.
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _short(value: Value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class Node(NamedTuple):
    """A design in the graph: when it was first seen, its utility, its group, whether it is the best."""

    number: int
    utility: Number
    group: int
    best: bool


def graph(
    nodes: Sequence[Node], edges: Sequence[tuple[int, int, bool]], *, width: Number = 640.0, height: Number = 300
) -> str:
    """Designs by age and utility, coloured by group; a line for every answer, dashed for a tie."""
    place = {node.number: i for i, node in enumerate(nodes)}
    low, high = min(node.utility for node in nodes), max(node.utility for node in nodes)
    pad = 0.08 * (high - low or 1.0)
    box = Box(width, height, -0.5, len(nodes) - 0.5, low - pad, high + pad, left=20.0)
    parts = []
    for winner, loser, tie in edges:
        one, other = nodes[place[winner]], nodes[place[loser]]
        ends = f'x1="{box.x(float(place[winner])):.1f}" y1="{box.y(one.utility):.1f}"'
        ends += f' x2="{box.x(float(place[loser])):.1f}" y2="{box.y(other.utility):.1f}"'
        parts.append(f'<line {ends} class="answer{" tie" if tie else ""}"/>')
    for i, node in enumerate(nodes):
        at = f'cx="{box.x(float(i)):.1f}" cy="{box.y(node.utility):.1f}"'
        title = f"<title>option {node.number}, utility {node.utility:.2f}</title>"
        kind = "here" if node.best else f"group{node.group % COLOURS}"
        parts.append(f'<circle {at} r="{6 if node.best else 4}" class="{kind}">{title}</circle>')
    parts.append(words(width - box.right, height - 6, "first seen earlier → later", anchor="end"))
    parts.append(words(4.0, 12.0, "utility ↑", anchor="start"))
    return svg(box, "The comparison graph: designs by age and utility, a line for every answer", parts)
