"""Cards: from a design to what the page shows of it, by the user's `render(params)`; drawn once by a worker, then kept.

A picture, a sound, a film, a page of HTML, or a sentence about what went wrong: a failing renderer never stops a vote.
"""

import asyncio
import hashlib
import importlib
import io
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kappasharp.errors import InvalidValueError
from kappasharp.web.workers import GaveWayError, Turn, WorkerError, Workers

# As space/space.py has it, which is not imported here: a process that only draws does not wait for torch.
Design = dict[str, Any]
Kind = Literal["image", "html", "audio", "video", "none", "failed", "pending"]
Renderer = Callable[[Design], Any]
# The largest card, and how many are kept.
MOST_BYTES = 32 * 2**20
MOST_CARDS, MOST_KEPT_BYTES = 2000, 256 * 2**20
HEAD = 512
# How many letters of a card's key name renderer and design.
NAMING = 24
# A renderer may take this many seconds from when it begins; then its card says so and the vote goes on.
LIMIT = 60.0
# Our own examples are safe to draw in the server while the workers start; a user's function never is.
OUR_OWN = "kappasharp.app.examples."

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
    except (Exception, SystemExit) as error:
        return failed(f"The picture could not be drawn: {_words(error)}")


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # some cannot even say what is wrong
        return type(error).__name__


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


class Drawing(NamedTuple):
    """A card that is drawn or will be: of what, its turn among the others, and what comes of it."""

    renderer: str
    design: Design
    turn: Turn
    task: "asyncio.Task[Card]"


class Cards:
    """Cards by renderer and design, the ones used longest ago forgotten first.

    What is on screen is drawn first, of one study what was wished last before what was wished earlier. What may come
    next is drawn ahead while nobody waits, and is given up when another question is shown, a slow one also where it is
    begun.
    """

    def __init__(self, workers: Workers, *, limit: float = LIMIT) -> None:
        self.workers, self.limit = workers, limit
        self._drawn: OrderedDict[str, Drawing] = OrderedDict()
        self._wishes = 0
        # Another start of the server may draw otherwise: no browser should show what it kept from this one.
        self._salt = os.urandom(4).hex()

    def show(self, renderer: str | None, *designs: Design, study: str = "") -> None:
        """Have the cards of a question drawn; what was to be drawn ahead of another one gives way."""
        self._wishes += 1
        shown = {self.key(renderer, design)[:NAMING] for design in designs}
        for design in designs:
            self._drawing(renderer, design, study)
        for key, one in list(self._drawn.items()):
            if one.turn.ahead and key not in shown and self.workers.drop(one.turn):
                del self._drawn[key]

    def prepare(self, renderer: str | None, *designs: Design, study: str = "") -> None:
        """Have cards drawn that may be wanted soon."""
        self._wishes += 1
        for design in designs:
            self._drawing(renderer, design, study, ahead=True)

    def peek(self, renderer: str | None, design: Design, study: str = "") -> Card:
        """The card if it is there."""
        found = self._drawing(renderer, design, study)
        return NOTHING if found is None else found.task.result() if found.task.done() else PENDING

    async def card(self, renderer: str | None, design: Design, study: str = "", *, ahead: bool = False) -> Card:
        """The card, when it is drawn; `ahead` is for who only may want it."""
        self._wishes += 1
        found = self._drawing(renderer, design, study, ahead=ahead)
        return NOTHING if found is None else await asyncio.shield(found.task)

    def key(self, renderer: str | None, design: Design) -> str:
        """What a card is called in an address: its name, the same in every process, and a mark of this one."""
        if renderer is None:
            return ""
        named = hashlib.sha256(f"{renderer}\n{sorted(design.items())!r}".encode()).hexdigest()[:NAMING]
        return named + self._salt

    def is_named(self, key: str, renderer: str | None, design: Design) -> bool:
        """Whether that is the key of this design's card, here or in another process."""
        return self.key(renderer, design)[:NAMING] == key[:NAMING]

    async def named(self, key: str) -> Card | None:
        """The card of that key, if it was drawn here and is not forgotten."""
        found = self._drawn.get(key[:NAMING])
        return None if found is None else await asyncio.shield(found.task)

    async def again(self, key: str) -> Card | None:
        """The card of that key, drawn once more if that failed; None where it is not known here."""
        found = self._drawn.get(key[:NAMING])
        if found is not None and found.task.done() and found.task.result().kind == "failed":
            del self._drawn[key[:NAMING]]
            return await self.card(found.renderer, found.design, found.turn.study)
        return await self.named(key)

    def _drawing(self, renderer: str | None, design: Design, study: str, *, ahead: bool = False) -> Drawing | None:
        if renderer is None:
            return None
        key = self.key(renderer, design)[:NAMING]
        if key not in self._drawn:
            turn = Turn(ahead, self._wishes, study)
            self._drawn[key] = Drawing(renderer, design, turn, asyncio.create_task(self._draw(renderer, design, turn)))
            self._forget()
        elif not ahead:
            self.workers.hurry(self._drawn[key].turn, self._wishes)
        self._drawn.move_to_end(key)
        return self._drawn[key]

    async def _draw(self, renderer: str, design: Design, turn: Turn) -> Card:
        if renderer.startswith(OUR_OWN) and not self.workers.is_warm:
            return await asyncio.to_thread(draw, renderer, design)
        try:
            found: Card = await self.workers.run(draw, renderer, design, limit=self.limit, turn=turn)
        except GaveWayError as error:
            if not turn.ahead:
                # Wished for while it was ended.
                return await self._draw(renderer, design, turn)
            self._drawn.pop(self.key(renderer, design)[:NAMING], None)
            return failed(str(error))
        except WorkerError as error:
            return failed(f"The picture could not be drawn. {error}")
        except Exception as error:
            # Whatever it is, it is this card's alone: others are looked at together.
            return failed(f"The picture could not be drawn: {_words(error)}")
        return found

    def _forget(self) -> None:
        held = sum(len(one.task.result().body) for one in self._drawn.values() if one.task.done())
        while len(self._drawn) > MOST_CARDS or (held > MOST_KEPT_BYTES and len(self._drawn) > 1):
            _, oldest = self._drawn.popitem(last=False)
            held -= len(oldest.task.result().body) if oldest.task.done() else 0
