"""Outcomes in words and pictures, for the page and the report: values, the taste along each, the front, the trades."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from kappasharp.app import charts
from kappasharp.app.charts import Axis, Chart, Dot
from kappasharp.study.history import History
from kappasharp.study.outcomes import Better, StudyOutcome, Values
from kappasharp.study.tradeoffs import TradeOff

# An outcome is written so that three digits of how far it varies can be read.
DIGITS, MOST_DECIMALS, LARGE = 3, 6, 1e6
# Pairs of so many outcomes are drawn at most, the first ones.
MOST_DRAWN = 10
# How many times the width of the middle half of all values lie beside it before one is far out; and which share of all
# may be: more are no exception.
FAR, FEW = 3.0, 0.2
WAYS: dict[Better, str] = {"less": "less is better", "more": "more is better"}


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


def fronts(rows: Sequence[TradeOff], table: Sequence[StudyOutcome], better: Mapping[str, Better | None]) -> list[Chart]:
    """The designs over every two outcomes, those on the front and the best one marked."""
    within = _within(rows, table)
    drawn = [one for one in table if one.name in within][:MOST_DRAWN]
    return [_front(rows, pair, better, within) for pair in combinations(drawn, 2)]


def _within(rows: Sequence[TradeOff], table: Sequence[StudyOutcome]) -> dict[str, Range]:
    columns = {one.name: [row.outcomes[one.name] for row in rows if one.name in row.outcomes] for one in table}
    return {name: usual(column) for name, column in columns.items() if column}


def _front(
    rows: Sequence[TradeOff],
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
            f"best: {row.option}" if row.best else str(row.option) if row.front and row.option is not None else "",
            f"{called(row)}: {_both(row, pair, within)}{_standing(row)}",
        )
        for row in shown
    ]
    # Over two outcomes the front is a line; over more these two show only a shadow of it.
    is_whole = {name for name, way in better.items() if way is not None} <= {across.name, up.name}
    axes = [Axis(one.name, _way(better.get(one.name)), [v for v in (one.at_least, one.at_most) if v is not None])
            for one in pair]  # fmt: skip
    label = (
        f"{len(shown)} designs over {across.name} and {up.name}; {sum(row.front for row in shown)} on the front, marked"
    )
    best = next((row for row in shown if row.best), None)
    far = sum(any(_inside(row.outcomes[o.name], within[o.name]) != row.outcomes[o.name] for o in pair) for row in shown)
    label += f"; {far} far out, drawn at the edge" if far else ""
    label += "" if best is None else f"; the best, {called(best)}, has {_both(best, pair, within)}"
    return charts.scatter(dots, axes[0], axes[1], label=label, joined=is_whole)


def _inside(value: float, within: Range) -> float:
    return min(max(value, within.low), within.high)


def _way(better: Better | None) -> str:
    return "" if better is None else WAYS[better]


def _standing(row: TradeOff) -> str:
    words = [*(["the best"] if row.best else []), *(["on the front"] if row.front else [])]
    return f"; {', '.join(words)}" if words else ""


def _both(row: TradeOff, pair: tuple[StudyOutcome, StudyOutcome], within: Mapping[str, Range]) -> str:
    return ", ".join(f"{one.name} {rounded(row.outcomes[one.name], within.get(one.name))}" for one in pair)


def called(row: TradeOff) -> str:
    """What a design is called in a sentence."""
    return "a design that was recorded" if row.option is None else f"design {row.option}"


def trades(rows: Sequence[TradeOff], better: Mapping[str, Better | None]) -> list[str]:
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
    name: str, best: TradeOff, rows: Sequence[TradeOff], ways: Mapping[str, Better], within: Mapping[str, Range]
) -> str:
    way = ways[name]
    rival = max(rows, key=lambda row: (_gain(row.outcomes, name, way), row.best))
    if _gain(rival.outcomes, name, way) <= _gain(best.outcomes, name, way):
        return f"No design has {way} {name} than the best one: {rounded(best.outcomes[name], within[name])}."
    costs = [
        f"{'more' if other_way == 'less' else 'less'} {other} ({_instead(other, rival, best, within)})"
        for other, other_way in ways.items()
        if _gain(rival.outcomes, other, other_way) < _gain(best.outcomes, other, other_way)
    ]
    who = called(rival)
    pays = f"at the price of {_listed(costs)}" if costs else "and is worse in none of the others"
    return f"{who[0].upper()}{who[1:]} has {way} {name} ({_instead(name, rival, best, within)}) {pays}."


def _gain(values: Values, name: str, way: Better) -> float:
    return values[name] if way == "more" else -values[name]


def _instead(name: str, rival: TradeOff, best: TradeOff, within: Mapping[str, Range]) -> str:
    theirs, own = (rounded(row.outcomes[name], within[name]) for row in (rival, best))
    return f"{theirs} instead of {own}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
