"""Small pieces of HTML for a notebook: a box, a bar, a table of texts. They know nothing of studies."""

from collections.abc import Mapping, Sequence
from html import escape

# Nothing has a colour of its own but what the notebook's text has: it is read on light and on dark ground.
BOX = "color:inherit;background:transparent;font-size:13px;line-height:1.5;max-width:60em"
LINE = "1px solid color-mix(in srgb,currentColor 25%,transparent)"
TABLE = "font:inherit;color:inherit;border-collapse:collapse;margin:.4em 0;border:0"
CELL = "padding:2px 14px 2px 0;text-align:left;background:transparent;color:inherit;vertical-align:top"
FAINT = "opacity:.7"
TRACK = "display:inline-block;width:9em;height:.6em;border-radius:.3em;vertical-align:middle;margin-right:.6em"


def box(inner: str) -> str:
    """A part of a notebook's page."""
    return f"<div class='kappasharp' style='{BOX}'>{inner}</div>"


def bar(share: float) -> str:
    """A bar that is filled up to a share."""
    part = f"linear-gradient(to right,currentColor {share:.1%},color-mix(in srgb,currentColor 18%,transparent) 0)"
    return f"<span style='{TRACK};background:{part}'></span>"


def table(rows: Mapping[str, Sequence[str]], names: Sequence[str]) -> str:
    """Rows of values under their names; one whose values differ is bold."""
    top = "".join(f"<th style='{CELL};border-bottom:{LINE}'>{escape(name)}</th>" for name in ("", *names))
    body = "".join(
        f"<tr style='background:transparent'><th style='{CELL};font-weight:normal;{FAINT}'>{escape(name)}</th>"
        + "".join(f"<td style='{CELL}{_weight(values)}'>{escape(value)}</td>" for value in values)
        + "</tr>"
        for name, values in rows.items()
    )
    return f"<table style='{TABLE}'><tr>{top}</tr>{body}</table>"


def _weight(values: Sequence[str]) -> str:
    return ";font-weight:bold" if any(value != values[0] for value in values) else ""
