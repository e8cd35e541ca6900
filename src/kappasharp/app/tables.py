"""Pairs, best designs and rows as tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from kappasharp.study.certainty import Best
from kappasharp.study.history import Pair


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as a table of text, numbers to the right."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *([text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    return [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in cells
    ]


def text(value: Any) -> str:
    """A value as people read it; what would move a terminal's cursor is written out."""
    if value is None:
        return "–"
    words = f"{value:.5g}" if isinstance(value, float) else str(value)
    return words if words.isprintable() else repr(words)


def pair(shown: Pair) -> list[str]:
    """A pair side by side; parameters in which the two differ carry a mark."""
    rows = [
        {
            "": "≠" if shown.a[name] != shown.b[name] else " ",
            "parameter": name,
            "A": text(shown.a[name]),
            "B": text(shown.b[name]),
        }
        for name in shown.a
    ]
    return columns(rows)


def best(found: Best) -> list[str]:
    """The best design, how sure that is, and what to do next."""
    width = max(len(name) for name in found.params)
    return [
        *(f"{name:<{width}}  {text(value)}" for name, value in found.params.items()),
        "",
        f"preferred to  {found.beats_random:.0%} of designs (the model's estimate)",
        f"room left     {found.room_left:.0%} of the way up",
        f"answers       {found.n_comparisons}",
        *([] if found.status == "ok" else [f"certificate   {found.status}"]),
        "",
        str(found.advice),
    ]


def count(number: int, what: str) -> str:
    """A number of things in words: 1 answer, 2 answers."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
