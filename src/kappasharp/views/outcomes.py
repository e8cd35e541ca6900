"""Outcomes in words and pictures, for the page and the report: values, the taste along each, the front, the trades."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from kappasharp.journal.events import Source
from kappasharp.journal.history import History
from kappasharp.messages.message import Sentence, figures, in_a_row, said
from kappasharp.space.outcomes import Better, StudyOutcome, Values
from kappasharp.views import charts
from kappasharp.views.charts import Axis, Chart, Dot

if TYPE_CHECKING:
    from kappasharp.results.outcomes import TradeOff

# An outcome is written so that three digits of how far it varies can be read.
DIGITS, MOST_DECIMALS, LARGE = 3, 6, 1e6
# Of how many outcomes pairs are drawn at most, the first ones.
MOST_DRAWN = 10
# How many times the width of the middle half of all values lie beside it before one is far out; and which share of all
# may be: more are no exception.
FAR, FEW = 3.0, 0.2
WAYS: dict[Better, Sentence] = {
    "less": said("chart.way.less", "less is better"),
    "more": said("chart.way.more", "more is better"),
}
OTHER_WAY: dict[Better, Better] = {"less": "more", "more": "less"}
# Where a design's outcomes come from, as the table of them says it.
SOURCES: dict[Source, Sentence] = {
    "simulated": said("outcome.simulated", "simulated"),
    "measured": said("outcome.measured", "measured"),
}


class Range(NamedTuple):
    """How far an outcome goes among the designs whose outcomes are known; a few that lie far out are left out."""

    low: float
    high: float


def ranges(history: History, names: Sequence[str]) -> dict[str, Range]:
    """The range of each outcome that is known of a design."""
    columns = {name: [one.values[name] for one in history.known.values() if name in one.values] for name in names}
    return {name: usual(column) for name, column in columns.items() if column}


def usual(column: Sequence[float]) -> Range:
    """From the least to the largest, without a few that lie far out."""
    ordered = sorted(column)
    quarter, three = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    beside = FAR * (three - quarter) or math.inf
    kept = [value for value in ordered if quarter - beside <= value <= three + beside]
    if len(ordered) - len(kept) > FEW * len(ordered):
        kept = ordered
    return Range(kept[0], kept[-1])


def rounded(value: float, within: Range | None) -> str:
    """A value as people read it, as finely as it matters within its range."""
    spread = 0.0 if within is None else max(within.high, value) - min(within.low, value)
    if not 0.0 < spread < math.inf or abs(value) >= LARGE:
        return f"{value:.4g}"
    decimals = DIGITS - 1 - math.floor(math.log10(spread))
    if decimals > MOST_DECIMALS:
        return f"{value:.4g}"
    return f"{round(value, max(decimals, 0)) + 0.0:.{max(decimals, 0)}f}"


def plain(state: str, values: Values, sentence: str, within: Mapping[str, Range]) -> dict[str, Any]:
    """The outcomes of one design as plain data, for JSON."""
    rows = [{"name": name, "value": value, "words": rounded(value, within.get(name))} for name, value in values.items()]
    return {"state": state, "values": rows, "sentence": sentence}


def fronts(
    rows: "Sequence[TradeOff]", table: Sequence[StudyOutcome], better: Mapping[str, Better | None]
) -> list[Chart]:
    """The designs over every two outcomes that one of them has both, those on the front and the best one marked."""
    within = _within(rows, table)
    drawn = [one for one in table if one.name in within][:MOST_DRAWN]
    pairs = (
        pair
        for pair in combinations(drawn, 2)
        if any({one.name for one in pair} <= row.outcomes.keys() for row in rows)
    )
    return [_front(rows, pair, better, within) for pair in pairs]


def _within(rows: "Sequence[TradeOff]", table: Sequence[StudyOutcome]) -> dict[str, Range]:
    columns = {one.name: [row.outcomes[one.name] for row in rows if one.name in row.outcomes] for one in table}
    return {name: usual(column) for name, column in columns.items() if column}


def _front(
    rows: "Sequence[TradeOff]",
    pair: tuple[StudyOutcome, StudyOutcome],
    better: Mapping[str, Better | None],
    within: Mapping[str, Range],
) -> Chart:
    across, up = pair
    shown = [row for row in rows if across.name in row.outcomes and up.name in row.outcomes]
    dots = [
        Dot(
            _inside(row.outcomes[across.name], within[across.name]),
            _inside(row.outcomes[up.name], within[up.name]),
            "best" if row.best else "front" if row.front else "seen",
            _mark(row),
            _title(row, _both(row, pair, within)),
        )
        for row in shown
    ]
    # Over two outcomes the front is a line; over more these two show only a shadow of it.
    is_whole = {name for name, way in better.items() if way is not None} <= {across.name, up.name}
    axes = [Axis(one.name, _way(better.get(one.name)), [v for v in (one.at_least, one.at_most) if v is not None])
            for one in pair]  # fmt: skip
    return charts.scatter(dots, axes[0], axes[1], label=_label(shown, pair, within), joined=is_whole)


def _label(shown: "Sequence[TradeOff]", pair: tuple[StudyOutcome, StudyOutcome], within: Mapping[str, Range]) -> str:
    """What the chart shows, for those who do not see it."""
    across, up = (one.name for one in pair)
    words = "{count} designs over {across} and {up}; {front} on the front, marked"
    on_front = sum(row.front for row in shown)
    parts = [said("chart.front.designs", words, count=len(shown), across=across, up=up, front=on_front)]
    far = sum(any(_inside(row.outcomes[o.name], within[o.name]) != row.outcomes[o.name] for o in pair) for row in shown)
    if far:
        parts.append(said("chart.front.far", "{count} far out, drawn at the edge", count=far))
    best = next((row for row in shown if row.best), None)
    if best is not None:
        told = {"who": called(best), "values": _both(best, pair, within)}
        parts.append(said("chart.front.best", "the best, {who}, has {values}", **told))
    return in_a_row(parts, "; ")


def _inside(value: float, within: Range) -> float:
    return min(max(value, within.low), within.high)


def _way(better: Better | None) -> str:
    return "" if better is None else WAYS[better]


def _mark(row: "TradeOff") -> str:
    """The words beside a dot: its number, where it is on the front or the best."""
    if row.best:
        return said("chart.dot.mark", "best: {option}", option=str(row.option))
    return str(row.option) if row.front and row.option is not None else ""


def _title(row: "TradeOff", values: str) -> Sentence:
    """What comes up under the pointer: the design, its two outcomes, and how it stands."""
    told = {"who": called(row), "values": values}
    if row.best and row.front:
        return said("chart.dot.best_front", "{who}: {values}; the best, on the front", **told)
    if row.best:
        return said("chart.dot.best", "{who}: {values}; the best", **told)
    if row.front:
        return said("chart.dot.front", "{who}: {values}; on the front", **told)
    return said("chart.dot.seen", "{who}: {values}", **told)


def _both(row: "TradeOff", pair: tuple[StudyOutcome, StudyOutcome], within: Mapping[str, Range]) -> str:
    values = [(one.name, _figures(row, one.name, within)) for one in pair]
    return in_a_row([said("chart.value", "{label} {value}", label=name, value=value) for name, value in values])


def _figures(row: "TradeOff", name: str, within: Mapping[str, Range]) -> Sentence:
    return figures(rounded(row.outcomes[name], within.get(name)))


def called(row: "TradeOff") -> Sentence:
    """What a design is called within a sentence."""
    if row.option is None:
        return said("chart.dot.recorded", "a design that was recorded")
    return said("chart.dot.design", "design {option}", option=str(row.option))


def trades(rows: "Sequence[TradeOff]", better: Mapping[str, Better | None]) -> list[Sentence]:
    """What the best design was preferred to: for each outcome the design that has it best, and what it pays for it."""
    best = next((row for row in rows if row.best), None)
    ways = {name: way for name, way in better.items() if way is not None}
    if best is None or not ways.keys() <= best.outcomes.keys():
        return []
    whole = [row for row in rows if ways.keys() <= row.outcomes.keys()]
    columns = {name: [row.outcomes[name] for row in whole] for name in ways}
    within = {name: usual(column) for name, column in columns.items()}
    # What reads the same is the same: nobody trades for a difference that is not shown.
    read = [
        replace(row, outcomes={name: float(rounded(row.outcomes[name], within[name])) for name in ways})
        for row in whole
    ]
    return [_trade(name, next(row for row in read if row.best), read, ways, within) for name in ways]


def _trade(
    name: str, best: "TradeOff", rows: "Sequence[TradeOff]", ways: Mapping[str, Better], within: Mapping[str, Range]
) -> Sentence:
    way = ways[name]
    rival = max(rows, key=lambda row: (_gain(row.outcomes, name, way), row.best))
    if _gain(rival.outcomes, name, way) <= _gain(best.outcomes, name, way):
        words = f"No design has {way} {{name}} than the best one: {{value}}."
        return said(f"trade.none.{way}", words, name=name, value=_figures(best, name, within))
    costs = [
        _amount(other, OTHER_WAY[other_way], rival, best, within)
        for other, other_way in ways.items()
        if _gain(rival.outcomes, other, other_way) < _gain(best.outcomes, other, other_way)
    ]
    # It begins the sentence.
    who = said("trade.recorded", "A design that was recorded")
    if rival.option is not None:
        who = said("trade.design", "Design {option}", option=str(rival.option))
    gain = _amount(name, way, rival, best, within)
    if not costs:
        return said("trade.free", "{who} has {gain} and is worse in none of the others.", who=who, gain=gain)
    return said("trade.paid", "{who} has {gain} at the price of {costs}.", who=who, gain=gain, costs=_all_of(costs))


def _amount(name: str, way: Better, rival: "TradeOff", best: "TradeOff", within: Mapping[str, Range]) -> Sentence:
    """How much less or more of an outcome one design has than the best."""
    theirs, own = _figures(rival, name, within), _figures(best, name, within)
    return said(f"trade.{way}", f"{way} {{name}} ({{theirs}} instead of {{own}})", name=name, theirs=theirs, own=own)


def _all_of(costs: Sequence[Sentence]) -> str:
    """Costs one after the other: in some languages each is a clause, which the "and" of names does not join."""
    *others, last = costs
    return said("trade.and", "{first} and {last}", first=in_a_row(others), last=last) if others else last


def _gain(values: Values, name: str, way: Better) -> float:
    return values[name] if way == "more" else -values[name]
