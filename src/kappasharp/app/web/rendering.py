"""From a design to what its card shows: the user's `render(params)`, and what kind of thing it returned.

A picture, a sound, a film, a page of HTML, or a sentence about what went wrong: a failing renderer never stops a vote.
"""

import importlib
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kappasharp.errors import InvalidValueError
from kappasharp.study.space import Design

Kind = Literal["image", "html", "audio", "video", "none", "failed", "pending"]
Renderer = Callable[[Design], Any]
MOST_BYTES = 32 * 2**20
HEAD = 512

# How a file of that type begins; RIFF and ISO media say more a little later.
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
)
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
ISO = {b"avif": "image/avif", b"M4A ": "audio/mp4"}


class Card(NamedTuple):
    """What one option shows: a kind, bytes of a type, or a sentence where there is nothing to show."""

    kind: Kind
    type: str = ""
    body: bytes = b""
    sentence: str = ""


NOTHING = Card("none")
PENDING = Card("pending")


def load(name: str) -> Renderer:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise InvalidValueError(f"`--render` must be module:function, such as pictures:draw, but got {name!r}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise InvalidValueError(f"`--render {name}` cannot be loaded: {error}.") from error
    if not callable(found):
        raise InvalidValueError(f"`--render` must name a function, but {name} is {found!r}.")
    return found


def draw(name: str, design: Design) -> Card:
    """The card of a design; whatever goes wrong in the user's function becomes a sentence on it."""
    try:
        # What the function prints is not ours to show, and stdout is for data.
        with redirect_stdout(sys.stderr):
            return card(load(name)(dict(design)))
    except Exception as error:
        return failed(f"The picture could not be drawn: {type(error).__name__}: {error}")


def failed(sentence: str) -> Card:
    """A card that says why there is no picture."""
    return Card("failed", sentence=sentence[:HEAD])


def card(given: Any) -> Card:
    """What a renderer returned, by its kind."""
    if given is None:
        return NOTHING
    if hasattr(given, "savefig"):
        return card(_figure(given))
    if isinstance(given, os.PathLike):
        return card(_file(Path(given)))
    if isinstance(given, str):
        return _text(given)
    if isinstance(given, bytes | bytearray | memoryview):
        return _bytes(bytes(given))
    raise InvalidValueError(
        "`render` must return bytes, HTML or SVG as text, a Matplotlib figure or a path, but it returned "
        f"{type(given).__name__}."
    )


def _figure(figure: Any) -> bytes:
    """A Matplotlib figure as SVG; it is closed, for pyplot keeps every figure otherwise."""
    target = io.BytesIO()
    figure.savefig(target, format="svg", bbox_inches="tight")
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return target.getvalue()


def _file(path: Path) -> bytes | str:
    if path.stat().st_size > MOST_BYTES:
        raise InvalidValueError(f"{path.name} must not be larger than {MOST_BYTES // 2**20} MB.")
    content = path.read_bytes()
    return content.decode("utf-8") if path.suffix.lower() in (".html", ".htm") else content


def _text(text: str) -> Card:
    start = text.lstrip()[:HEAD].lower()
    if start.startswith(("<svg", "<?xml")) and "<svg" in text[:4096].lower():
        return _bytes(text.encode())
    if "<" not in text and len(text) < HEAD and Path(text).is_file():
        return card(_file(Path(text)))
    return _sized(Card("html", "text/html; charset=utf-8", text.encode()))


def _bytes(content: bytes) -> Card:
    kind = media_type(content)
    if kind is None:
        raise InvalidValueError(
            "`render` must return a picture (PNG, JPEG, GIF, WebP, SVG), a sound or a film, but its bytes begin with "
            f"{content[:8]!r}."
        )
    return _sized(Card(kind.partition("/")[0], kind, content))  # type: ignore[arg-type]


def _sized(made: Card) -> Card:
    if len(made.body) > MOST_BYTES:
        raise InvalidValueError(
            f"A card must not hold more than {MOST_BYTES // 2**20} MB, but got {len(made.body) // 2**20} MB."
        )
    return made


def media_type(content: bytes) -> str | None:
    """The type of these bytes, by how they begin; None where it is none that a card can show."""
    if content[:4] == b"RIFF":
        return RIFF.get(content[8:12])
    if content[4:8] == b"ftyp":
        return ISO.get(content[8:12], "video/mp4")
    found = next((kind for start, kind in MAGIC if content.startswith(start)), None)
    start = content[:4096].lstrip().lower()
    if found is None and start.startswith((b"<svg", b"<?xml")) and b"<svg" in start:
        return "image/svg+xml"
    return found
