"""Pictures as plain marks, drawn by hand so that a report and the page need no library: slices, curves, a graph.

All geometry is here. A chart is a list of lines, circles, paths and words with numbers and a class each: the report
writes it as SVG text, the page places the same marks as elements. Colours and strokes are in charts.css.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kappasharp.messages.message import Sentence, figures, said, share
from kappasharp.space.parameters import Value
from kappasharp.space.space import Space

if TYPE_CHECKING:
    from kappasharp.results.best import Checkpoint, Slice


# Marks: the plain shapes that a chart is a list of, and how they are written down, as data or as HTML.

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


def axis_label(x: Number, y: Number, words: str, anchor: str = "middle", title: str = "") -> Mark:
    """Words of an axis."""
    return Mark("text", "axis", {"x": round(x, 1), "y": round(y, 1), "text-anchor": anchor}, words, title)


def path(places: Sequence[tuple[Number, Number]], kind: str, *, closed: bool = False) -> Mark:
    """A line through places; closed, a shape."""
    steps = " L".join(f"{x:g},{y:g}" for x, y in places)
    return Mark("path", kind, {"d": f"M{steps}{'Z' if closed else ''}"})


__all__ = ["Box", "Chart", "Mark", "Words", "html", "plain"]

# The width of a letter of an axis, in a picture's own units.
LETTER = 6.2
LEAST_LETTERS = 3
# The height of a line of words.
LINE = 12.0
# As many as the style sheet has for groups; where there are more, they come again.
COLOURS = 8
# Up to this many designs carry their number in the graph; of more, the best alone.
MOST_NUMBERS = 40
# Radii of a design in the graph, of the best one, and of the ring around the best value of a slice.
NODE, BEST_NODE, BEST_RING = 5.5, 9.0, 5.5
ARROW_LENGTH, ARROW_WIDTH = 8.0, 3.5
# What runs across a course.
ANSWERS = said("chart.answers", "answers")
# Utilities closer than this are one.
SAME = 1e-6


class Curve(NamedTuple):
    """Points of a line, its label and its CSS class."""

    label: str
    kind: str
    points: Sequence[tuple[Number, Number]]


def _three_digits(value: Number) -> Sentence:
    return figures(f"{value:.3g}")


class Scale(NamedTuple):
    """What runs up: from where to where, the levels that have a line and a name, and how any value is said."""

    low: Number
    high: Number
    levels: Sequence[tuple[Number, str]]
    say: Callable[[Number], str] = _three_digits


def shares(low: Number = 0.0) -> Scale:
    """Shares up to 100 %."""
    return Scale(low, 1.0, [(value, share(value)) for value in ticks(low, 1.0, 5)], share)


def powers(exponents: Sequence[Number]) -> Scale:
    """Powers of ten with a little room around them."""
    pad = 0.12 * (max(exponents) - min(exponents) or 1.0)
    low, high = min(exponents) - pad, max(exponents) + pad
    levels = [(value, f"10{_superscript(value)}") for value in ticks(low, high, 5)]
    return Scale(low, high, levels, lambda value: figures(f"{10.0**value:.2g}"))


def _superscript(value: Number) -> str:
    return f"{round(value, 1):g}".translate(str.maketrans("-.0123456789", "⁻·⁰¹²³⁴⁵⁶⁷⁸⁹"))


def ticks(low: Number, high: Number, count: int) -> list[float]:
    """Round numbers between two ends, about as many as asked for."""
    rough = (high - low) / count or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((one * power for one in (1, 2, 5) if one * power >= rough), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def curves(
    given: Sequence[Curve], up: Scale, *, label: str, across: str, shaded: Mapping[Number, str] | None = None
) -> Chart:
    """Lines with the key to them; what is `shaded` has a title each."""
    xs = [x for curve in given for x, _ in curve.points]
    box = Box(560, 220, min(xs), max(xs), up.low, up.high)
    floor, right = box.height - box.bottom, box.width - box.right
    drawn = [
        Mark(
            "rect", "shaded", {"x": round(at - 4, 1), "y": box.top, "width": 8, "height": floor - box.top}, title=title
        )
        for at, title in ((box.x(x), title) for x, title in (shaded or {}).items())
    ]
    for value, name in up.levels:
        drawn += [line(box.left, box.y(value), right, box.y(value), "grid")]
        drawn += [axis_label(box.left - 6, box.y(value) + 4, name, "end")]
    whole = [value for value in ticks(box.x_low, box.x_high, 6) if value.is_integer()]
    drawn += [axis_label(box.x(value), floor + 16, f"{value:g}") for value in whole]
    drawn += [axis_label(right, box.height - 1, across, "end")]
    places = [(curve.kind, [(box.x(x), box.y(y)) for x, y in curve.points]) for curve in given]
    drawn += [path(line, f"line {kind}") for kind, line in places]
    drawn += [circle(*line[-1], 4, f"end {kind}") for kind, line in places]
    caption = [Words(one.label, f"key {one.kind}") for one in given]
    return Chart(box.width, box.height, label, drawn, caption, _course_readings(box, given, up, across))


def _course_readings(box: Box, given: Sequence[Curve], up: Scale, across: str) -> list[Reading]:
    """The values of all curves wherever one has a point."""
    found = []
    for x in sorted({x for curve in given for x, _ in curve.points}):
        here = [(curve.label, y) for curve in given for at, y in curve.points if at == x]
        values = [said("chart.value", "{label} {value}", label=label, value=up.say(y)) for label, y in here]
        unit = across.removesuffix("s") if x == 1 else across
        words, places = f"{x:g} {unit}: {', '.join(values)}", [box.y(y) for _, y in here]
        if across is ANSWERS:
            named = dict(zip(("first", "second"), [*values, ""], strict=False))
            words = Sentence(words, f"chart.reading.{len(values)}", {"count": x} | named)
        found.append(Reading(box.x(x), places, words))
    return found


def course(found: "Sequence[Checkpoint]") -> Chart:
    """How sure the model was after how many answers."""
    given = [
        Curve(said("chart.beats", "beats a random design"), "first", [(one.answers, one.preferred) for one in found]),
        Curve(said("chart.room", "room left"), "second", [(one.answers, one.room) for one in found]),
    ]
    label = said("chart.course", "Certainty over the number of answers")
    return curves(given, shares(), label=label, across=ANSWERS)


def slices(found: "Sequence[Slice]", space: Space | None = None) -> list[Chart]:
    """Better or worse along each parameter of a space, or along each outcome; on one scale, so that they compare."""
    low = min(0.0, *(value for one in found for value in one.low))
    high = max(0.0, *(value for one in found for value in one.high))
    tuned = {} if space is None else space.tuned
    return [_slice(one, (low, high), log=getattr(tuned.get(one.name), "log", False)) for one in found]


def _slice(found: "Slice", up: tuple[float, float], *, log: bool) -> Chart:
    """A curve with its band, or a whisker for each choice."""
    if found.ordered:
        places, edge = [math.log(value) if log else float(value) for value in found.values], 0.0  # type: ignore[arg-type]
    else:
        places, edge = [float(i) for i in range(len(found.values))], 0.5
    box = Box(280, 150, min(places) - edge, max(places) + edge, *up, left=12, right=12, top=10, bottom=24)
    drawn = [line(box.left, box.y(0.0), box.width - box.right, box.y(0.0), "grid")]
    drawn += _band(box, places, found) if found.ordered else _whiskers(box, places, found)
    here = _short(found.here)
    ends = {"low": _short(found.values[0]), "high": _short(found.values[-1])}
    along = "Utility along {name}, from {low} to {high}, best at {here}"
    label = said("chart.slice", along, name=found.name, here=here, **ends)
    caption = [Words(found.name, "name"), Words(here, "")]
    readings = [Reading(box.x(x), [box.y(found.mean[i])], _reading(found, i)) for i, x in enumerate(places)]
    return Chart(box.width, box.height, label, drawn, caption, readings)


def _reading(found: "Slice", i: int) -> str:
    """What the model expects at one value."""
    value = _short(found.values[i])
    mean, deviation = found.mean[i], found.high[i] - found.mean[i]
    if deviation < SAME and abs(mean) < SAME:
        return said("chart.own", "{value}: the best design's own", value=value)
    chance = 0.5 * math.erfc(-mean / (math.sqrt(2.0) * max(deviation, SAME)))
    side = "above" if mean >= 0 else "below"
    words = f"{{value}}: {{far}} {side} the best ± {{deviation}}; better with a chance of {{chance}}"
    numbers = {"far": figures(f"{abs(mean):.2g}"), "deviation": figures(f"{deviation:.2g}"), "chance": share(chance)}
    return said(f"chart.{side}", words, value=value, **numbers)


def _band(box: Box, places: Sequence[float], found: "Slice") -> list[Mark]:
    across = [box.x(value) for value in places]
    upper, lower, line = (list(zip(across, map(box.y, ys), strict=True)) for ys in (found.high, found.low, found.mean))
    here = min(range(len(places)), key=lambda i: abs(float(found.values[i]) - float(found.here)))  # type: ignore[arg-type]
    return [
        path([*upper, *reversed(lower)], "band", closed=True),
        path(line, "line first"),
        circle(*line[here], BEST_RING, "ring"),
        *(
            axis_label(across[i], box.height - 4, _short(found.values[i]), side)
            for i, side in ((0, "start"), (-1, "end"))
        ),
    ]


def _whiskers(box: Box, places: Sequence[float], found: "Slice") -> list[Mark]:
    """Names stand below the choices as far as there is room; where there is none, only the design's own."""
    room = (box.width - box.left - box.right) / len(places)
    crowded = room < LEAST_LETTERS * LETTER
    drawn = []
    for place, value, mean, low, high in zip(places, found.values, found.mean, found.low, found.high, strict=True):
        x, here = box.x(place), _is(value, found.here)
        drawn.append(line(x, box.y(low), x, box.y(high), "whisker"))
        drawn.append(circle(x, box.y(mean), BEST_RING if here else 4, "ring" if here else "end first"))
        if here or not crowded:
            short = cut(_short(value), box.width / 2 if crowded else room)
            drawn.append(axis_label(x, box.height - 4, short, title=_short(value)))
    return drawn


def cut(content: str, room: Number) -> str:
    """As much of a text as fits."""
    letters = max(1, int(room / LETTER))
    return content if len(content) <= letters else content[: letters - 1] + "…"


def _is(value: Value, other: Value) -> bool:
    # True is 1 to Python, and not to whoever offers both.
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _short(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as the page and TOML write it
    return figures(f"{value:.4g}") if isinstance(value, float) else str(value)


class Dot(NamedTuple):
    """A design over two outcomes: its place, its CSS class, the words beside it, and a title."""

    x: Number
    y: Number
    kind: Literal["seen", "front", "best"]
    words: str
    title: str


class Axis(NamedTuple):
    """An outcome as an axis: its name, what is better, and where limits are."""

    name: str
    way: str
    limits: Sequence[Number]


def scatter(dots: Sequence[Dot], across: Axis, up: Axis, *, label: str, joined: bool) -> Chart:
    """Designs over two outcomes; those on the front are joined by a line where these two are all that counts."""
    box = Box(340, 250, *_padded([dot.x for dot in dots]), *_padded([dot.y for dot in dots]), left=54, bottom=40)
    floor, right = box.height - box.bottom, box.width - box.right
    drawn = []
    for value in ticks(box.y_low, box.y_high, 4):
        drawn += [line(box.left, box.y(value), right, box.y(value), "grid")]
        drawn += [axis_label(box.left - 6, box.y(value) + 4, figures(f"{value:.6g}"), "end")]
    for value in ticks(box.x_low, box.x_high, 4):
        drawn += [line(box.x(value), box.top, box.x(value), floor, "grid")]
        drawn += [axis_label(box.x(value), floor + 15, figures(f"{value:.6g}"))]
    drawn += [line(box.x(v), box.top, box.x(v), floor, "limit") for v in across.limits if box.x_low <= v <= box.x_high]
    drawn += [line(box.left, box.y(v), right, box.y(v), "limit") for v in up.limits if box.y_low <= v <= box.y_high]
    drawn += [axis_label(right, box.height - 6, _across_words(across, box.width - box.left), "end", across.name)]
    places = {dot: (box.x(dot.x), box.y(dot.y)) for dot in sorted(dots, key=lambda dot: (_ORDER[dot.kind], dot.x))}
    on_front = sorted(place for dot, place in places.items() if dot.kind != "seen")
    drawn += [path(on_front, "front-line")] if joined and len(on_front) > 1 else []
    drawn += [circle(*at, _RADIUS[dot.kind], f"dot {dot.kind}", dot.title) for dot, at in places.items()]
    drawn += _labels(box, places)
    caption = [Words("↑ " + up.name, "name"), *([Words(up.way, "")] if up.way else [])]
    return Chart(box.width, box.height, label, drawn, caption)


_ORDER, _RADIUS = {"seen": 0, "front": 1, "best": 2}, {"seen": 3.2, "front": 4.6, "best": 7.5}


def _padded(values: Sequence[Number]) -> tuple[float, float]:
    pad = 0.08 * (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
    return min(values) - pad, max(values) + pad


def _across_words(axis: Axis, room: Number) -> str:
    """What runs across, and which way is better where that is known; the name is cut to the room beside that."""
    if not axis.way:
        return f"{cut(axis.name, room - LETTER * 2)} →"
    name = cut(axis.name, room - LETTER * (len(axis.way) + 4))
    return said("chart.axis", "{name}, {way} →", name=name, way=axis.way)


def _labels(box: Box, places: Mapping[Dot, tuple[float, float]]) -> list[Mark]:
    """The words of the dots, the best one's first; where they would cover others they are left to the title."""
    drawn: list[Mark] = []
    covered = [(x - r, y - r, x + r, y + r) for dot, (x, y) in places.items() for r in (_RADIUS[dot.kind],)]
    for dot, (x, y) in reversed(list(places.items())):
        spots = _spots(box, dot, x, y) if dot.words else []
        free = [spot for spot in spots if not any(_overlap(spot[0], other) for other in covered)]
        # The best one's words stand whatever they cover.
        for room, begin, base, anchor in (free or (spots if dot.kind == "best" else []))[:1]:
            covered.append(room)
            drawn.append(axis_label(begin, base, dot.words, anchor, dot.title)._replace(kind=f"axis {dot.kind}"))
    return drawn


Room = tuple[float, float, float, float]


def _spots(box: Box, dot: Dot, x: float, y: float) -> list[tuple[Room, float, float, str]]:
    """Where a dot's words may stand: the room that they take, where they begin, their base line and their anchor."""
    gap, wide = _RADIUS[dot.kind] + 3, LETTER * len(dot.words)
    sides = ((x + gap, "start"), (x - gap, "end"))
    found = []
    for begin, anchor in sides if x <= box.width / 2 else sides[::-1]:
        left = begin if anchor == "start" else begin - wide
        for base in (y - gap, y + gap + LINE / 2):
            found.append(((left, base - LINE + 3, left + wide, base + 1), begin, base, anchor))
    return [spot for spot in found if spot[0][0] >= box.left and spot[0][2] <= box.width]


def _overlap(one: Room, other: Room) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


class Node(NamedTuple):
    """A design in the graph: its number, its utility, its group, whether it is the best."""

    option: int
    utility: Number
    group: int
    best: bool


class Edge(NamedTuple):
    """An answer in the graph."""

    winner: int
    loser: int
    tie: bool


def group_numbers(labels: Sequence[int]) -> list[int]:
    """Groups numbered 0, 1, 2 … in the order in which they are first seen."""
    order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return [order[label] for label in labels]


def graph(nodes: Sequence[Node], edges: Sequence[Edge], *, label: str) -> Chart:
    """Designs by group and age, higher where the utility is; each answer points to its loser, a tie is dashed."""
    heights = [node.utility for node in nodes]
    last = max(len(nodes) - 1, 1)
    box = Box(640, 420, 0, last, min(heights), max(heights), left=24, right=24, top=34, bottom=34)
    ordered = sorted(nodes, key=lambda node: (node.group, node.option))
    places = {node.option: (box.x(i), box.y(node.utility)) for i, node in enumerate(ordered)}
    size = {node.option: BEST_NODE if node.best else NODE for node in nodes}
    losers = {edge.loser for edge in edges if not edge.tie}
    drawn = []
    for winner, loser, tie in edges:
        drawn.append(line(*places[winner], *places[loser], "edge tie" if tie else "edge"))
        drawn += [] if tie else _arrow(places[winner], places[loser], size[loser])
    for node in ordered:
        x, y = places[node.option]
        words = f"Design {{option}}, utility {{utility}}{', the best' if node.best else ''}"
        key = "chart.best" if node.best else "chart.node"
        title = said(key, words, option=node.option, utility=figures(f"{node.utility:.4g}"))
        kind = f"node group-{node.group % COLOURS}{' best' if node.best else ''}"
        drawn.append(circle(x, y, size[node.option], kind, title))
        if node.best or len(nodes) <= MOST_NUMBERS:
            # Lines come to a loser mostly from above: its number stands below it.
            gap = size[node.option] + 12 if node.option in losers else -size[node.option] - 5
            drawn.append(axis_label(x, y + gap, str(node.option), title=title))
    return Chart(box.width, box.height, label, drawn, [])


def _arrow(start: tuple[float, float], end: tuple[float, float], gap: Number) -> list[Mark]:
    """The head of an arrow that ends at the rim of a node; none where the two nodes touch."""
    across, down = end[0] - start[0], end[1] - start[1]
    length = math.hypot(across, down)
    if length <= gap + ARROW_LENGTH:
        return []
    across, down = across / length, down / length
    tip = end[0] - gap * across, end[1] - gap * down
    back = tip[0] - ARROW_LENGTH * across, tip[1] - ARROW_LENGTH * down
    wings = [(back[0] - side * down, back[1] + side * across) for side in (ARROW_WIDTH, -ARROW_WIDTH)]
    return [path([(round(x, 1), round(y, 1)) for x, y in (wings[0], tip, wings[1])], "arrow", closed=True)]
