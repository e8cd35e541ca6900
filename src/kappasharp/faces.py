"""What higher floors do for lower ones when asked: the front door says where each is, so that no import runs up."""

from importlib import import_module
from typing import Any

_PLACES: dict[str, str] = {}


def offer(**places: str) -> None:
    """Say where something is done, as "module:name"; nothing is imported yet."""
    _PLACES.update(places)


def face(name: str) -> Any:
    """What was offered under that name, imported now."""
    module, _, inner = _PLACES[name].partition(":")
    return getattr(import_module(module), inner)
