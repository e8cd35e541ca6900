"""Shows the "Notation" block at the head of a module as it was typed, in columns."""

import re

import griffe

BLOCK = re.compile(r"^Notation\n((?: {4}.*(?:\n|$))+)", re.MULTILINE)


class Notation(griffe.Extension):
    """Puts a fence around each block of notation, so that Markdown leaves it alone."""

    def on_module(self, *, mod: griffe.Module, **_: object) -> None:
        if mod.docstring is not None:
            fenced = r"**Notation**\n\n```text\n\1```\n"
            mod.docstring.value = BLOCK.sub(fenced, mod.docstring.value)
