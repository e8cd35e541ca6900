"""Values and counts as people read them."""

from typing import Any


def text(value: Any) -> str:
    """A value as people read it; what would move a terminal's cursor is written out."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()  # as it is typed, and as TOML and the page write it
    words = f"{value:.5g}" if isinstance(value, float) else str(value)
    return words if words.isprintable() else repr(words)


def count(number: int, what: str) -> str:
    """A number of things in words: 1 answer, 2 answers."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
