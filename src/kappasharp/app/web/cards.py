"""The cards of a study's options: drawn once by a worker process, then kept."""

import asyncio
import hashlib
import os
from collections import OrderedDict

from kappasharp.app.web import rendering
from kappasharp.app.web.rendering import NOTHING, PENDING, Card
from kappasharp.app.web.workers import Crew, CrewError
from kappasharp.study.space import Design

# A renderer may take so long; then its card says so and the vote goes on.
LIMIT = 30.0
# Our own examples are safe to draw in the server while the workers start; a user's function never is.
OUR_OWN = "kappasharp.app.examples."
MOST_CARDS, MOST_BYTES = 2000, 256 * 2**20


class Gallery:
    """Cards by renderer and design, the ones used longest ago forgotten first."""

    def __init__(self, crew: Crew, *, limit: float = LIMIT) -> None:
        self.crew, self.limit = crew, limit
        self._drawn: OrderedDict[str, asyncio.Task[Card]] = OrderedDict()
        # Another start of the server may draw otherwise: no browser should show what it kept from this one.
        self._salt = os.urandom(8)

    def prepare(self, renderer: str | None, *designs: Design) -> None:
        """Have cards drawn that may be wanted soon."""
        for design in designs:
            self._task(renderer, design)

    def peek(self, renderer: str | None, design: Design) -> Card:
        """The card if it is there."""
        task = self._task(renderer, design)
        return NOTHING if task is None else task.result() if task.done() else PENDING

    async def card(self, renderer: str | None, design: Design) -> Card:
        """The card, when it is drawn."""
        task = self._task(renderer, design)
        return NOTHING if task is None else await asyncio.shield(task)

    def key(self, renderer: str | None, design: Design) -> str:
        """What a card is called in an address."""
        return hashlib.sha256(self._salt + f"{renderer}\n{sorted(design.items())!r}".encode()).hexdigest()[:32]

    async def named(self, key: str) -> Card | None:
        """The card of that key, if it was drawn here and is not forgotten."""
        task = self._drawn.get(key)
        return None if task is None else await asyncio.shield(task)

    def _task(self, renderer: str | None, design: Design) -> "asyncio.Task[Card] | None":
        if renderer is None:
            return None
        key = self.key(renderer, design)
        if key not in self._drawn:
            self._drawn[key] = asyncio.create_task(self._draw(renderer, design))
            self._forget()
        self._drawn.move_to_end(key)
        return self._drawn[key]

    async def _draw(self, renderer: str, design: Design) -> Card:
        if renderer.startswith(OUR_OWN) and not self.crew.is_warm:
            return await asyncio.to_thread(rendering.draw, renderer, design)
        try:
            found: Card = await self.crew.result(self.crew.submit(rendering.draw, renderer, design), self.limit)
        except CrewError as error:
            return rendering.failed(f"The picture could not be drawn. {error}")
        return found

    def _forget(self) -> None:
        held = sum(len(task.result().body) for task in self._drawn.values() if task.done())
        while len(self._drawn) > MOST_CARDS or (held > MOST_BYTES and len(self._drawn) > 1):
            _, oldest = self._drawn.popitem(last=False)
            held -= len(oldest.result().body) if oldest.done() else 0
