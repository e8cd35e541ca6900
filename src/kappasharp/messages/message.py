"""Sentences that a page may say in another language: English words, the key of the sentence, and its named values.

Lists, counts and numbers are written here as people read them. The other languages' words are in the page's texts.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class Sentence(str):
    """English words, as the shell and Python show them, that know what they are made of.

    Values are numbers, texts and other sentences; one whose name ends in "share" is a share of 1, and `figures` are a
    number that is written already, with a point where a language may have another sign.
    """

    key: str
    values: dict[str, Any]

    def __new__(cls, words: str, key: str = "", values: Mapping[str, Any] | None = None) -> "Sentence":
        """The words, with their key and values."""
        made = super().__new__(cls, words)
        made.key, made.values = key, dict(values or {})
        return made


def said(key: str, english: str, /, **values: Any) -> Sentence:
    """The sentence of that key with its values in their places; a page's texts have it as `said.KEY`."""
    return Sentence(english.format(**values).strip(), key, values)


def counted(key: str, one: str, several: str, /, count: int, **values: Any) -> Sentence:
    """The same in one of two forms: languages differ in what a count changes."""
    return said(key, one if count == 1 else several, count=count, **values)


def figures(written: str) -> Sentence:
    """A number as it is written here."""
    return said("number.figures", "{figures}", figures=written)


def share(value: float) -> Sentence:
    """A share of 1 in whole per cent."""
    return Sentence(f"{value:.0%}".replace("%", " %"), "number.share", {"share": float(value)})


def in_a_row(all_of_them: Sequence[str], between: str = ", ") -> str:
    """Several one after the other, with commas between them, semicolons, or spaces between sentences."""
    key = {", ": "comma", "; ": "semicolon", " ": "sentences"}[between]
    *others, made = all_of_them
    for one in reversed(others):
        made = said(f"list.{key}", f"{{first}}{between}{{rest}}", first=one, rest=made)
    return made


def listed(all_of_them: Sequence[str]) -> str:
    """The same, with "and" before the last."""
    *others, last = all_of_them
    return said("list.and", "{first} and {last}", first=in_a_row(others), last=last) if others else last


def taken_apart(data: Any) -> Any:
    """The same data with words, key and values in the place of every sentence."""
    if isinstance(data, Sentence):
        return {"words": str(data), "key": data.key, "values": taken_apart(data.values)} if data.key else str(data)
    if isinstance(data, Mapping):
        return {name: taken_apart(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [taken_apart(value) for value in data]
    return data


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
