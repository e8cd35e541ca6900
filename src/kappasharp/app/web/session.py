"""One study on the page: pairs for its voters, their answers, what the views show. All computing is done elsewhere."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from kappasharp.app.web import jobs
from kappasharp.app.web.cards import Card, Cards
from kappasharp.app.web.jobs import LIMIT, Plain, Snapshot
from kappasharp.app.web.speculation import Speculation
from kappasharp.app.web.workers import WorkerError, Workers
from kappasharp.errors import InvalidValueError, StalePairError, StorageError
from kappasharp.study.events import Asked
from kappasharp.study.history import Comparison, History, Question
from kappasharp.study.kinds import Answer, Form
from kappasharp.study.space import Design
from kappasharp.study.study import Study

LOG = logging.getLogger("kappasharp")
Found = TypeVar("Found")
# Workers that start at once would take the processor from the browser just when it paints the new pair.
PAINT_FIRST = 0.06
# Voters seen within so many seconds are looked ahead for, unless they are more than this: every answer makes what was
# computed for the others stale, and then it would only hold up those who wait.
PRESENT, MOST_VOTERS = 60.0, 4
off_loop = asyncio.to_thread


class Session:
    """A study, its renderer, the workers that compute for it, and the cards of its designs.

    The study has a lock and a database behind it: it is only ever touched off the loop.
    """

    def __init__(self, study: Study, renderer: str | None, workers: Workers, cards: Cards) -> None:
        self.study, self.renderer, self.workers, self.cards = study, renderer, workers, cards
        self.speculation = Speculation(workers, lambda a, b: cards.prepare(self.renderer, a, b))
        self.looking: asyncio.Task[None] | None = None
        self._views: dict[str, tuple[int, asyncio.Task[Plain]]] = {}
        self._asking = asyncio.Lock()
        # Those who wait for a pair, and when each voter was last seen, in order.
        self._waiting: dict[str, None] = {}
        self._seen: dict[str, float] = {}

    async def read(self, look: Callable[[History], Found]) -> Found:
        """What a function makes of the study's history now."""
        return await off_loop(self.study.read, look)

    async def pair(self, voter: str) -> Question:
        """The pair that waits for this voter."""
        pair = await self.read(lambda history: history.open_pair(voter)) or await self._ask(voter)
        self._look_ahead(pair)
        return pair

    async def answer(self, voter: str, number: int, answer: Answer, seconds: float | None) -> tuple[Comparison, Question]:
        """Store an answer; when this returns it is durable, and the next pair is open."""
        done = await off_loop(self._tell, voter, number, answer, seconds)
        if not self.workers.is_warm:
            # Workers take seconds to start; a first pair is computed sooner than they would.
            self.speculation.drop(voter)
        proposed = await self.speculation.take(voter, done.event - 1, number, answer)
        pair = None if proposed is None else await off_loop(self.study.offer, voter, proposed)
        pair = pair or await self._ask(voter)
        self._look_ahead(pair)
        return done, pair

    def _tell(self, voter: str, number: int, answer: Answer, seconds: float | None) -> Comparison:
        """The answer, stored; one voter's pair takes none from another."""
        asked, current = self.study.read(lambda history: (history.asked.get(number), history.open_pair(voter)))
        if asked is not None and asked[0].voter != voter:
            raise StalePairError(f"Question {number} was put before another voter.", current)
        return self.study.tell(number, answer, seconds=seconds)

    async def undo(self, voter: str) -> Question:
        """Take back this voter's last answer; the pair that is open then."""
        await off_loop(self.study.undo, voter)
        return await self.pair(voter)

    async def _ask(self, voter: str) -> Question:
        """The pair that waits for this voter, computed where none is open: for all who wait by then at once."""
        self._waiting[voter] = None
        async with self._asking:
            self._waiting.pop(voter, None)
            while (pair := await self.read(lambda history: history.open_pair(voter))) is None:
                voters = [voter, *self._waiting]
                self._waiting.clear()
                at = await off_loop(jobs.snapshot, self.study)
                for one, proposed in zip(voters, await self._propose(at, voters), strict=True):
                    await off_loop(self.study.offer, one, proposed)
        return pair

    async def _propose(self, at: Snapshot, voters: list[str]) -> list[Asked]:
        """The next pairs, by a worker if one is there; the first ones take seconds to start."""
        if self.workers.is_warm:
            try:
                found: list[Asked] = await self.workers.run(jobs.next_pairs, at, voters, limit=LIMIT)
            except WorkerError:
                return await off_loop(jobs.next_pairs, at, voters)
            return found
        return await off_loop(jobs.next_pairs, at, voters)

    def _look_ahead(self, pair: Question) -> None:
        """Begin to compute what may come after this pair, once the browser has had time to paint it."""
        self.cards.prepare(self.renderer, pair.a, pair.b)
        now = asyncio.get_running_loop().time()
        self._seen.pop(pair.voter, None)
        self._seen = {one: at for one, at in self._seen.items() if now - at < PRESENT} | {pair.voter: now}
        if self.looking is not None:
            self.looking.cancel()
        self.looking = asyncio.create_task(self._look_ahead_soon())

    async def _look_ahead_soon(self) -> None:
        await asyncio.sleep(PAINT_FIRST)
        # A voter who waits now comes before one who may wait later; when that pair is there, this begins again.
        if self._asking.locked() or len(self._seen) > MOST_VOTERS:
            return
        try:
            await self._look_ahead_for_all()
        except StorageError as error:
            # Nothing is lost by it but speed: the next pair is computed when it is wanted.
            LOG.warning("Nothing was computed ahead: %s", error)

    async def _look_ahead_for_all(self) -> None:
        at = await off_loop(jobs.snapshot, self.study)
        voters = list(reversed(self._seen))
        number, pairs = await self.read(lambda history: (history.number, [history.open_pair(one) for one in voters]))
        # An answer of one voter changes what comes next for the others too.
        for voter, theirs in zip(voters, pairs, strict=True):
            if theirs is None or number != at.number:
                self.speculation.drop(voter)
            else:
                self.speculation.begin(at, theirs)
            await self.speculation.settled(voter)

    async def _looked_ahead(self) -> None:
        """Wait until nothing is looked ahead for: what nobody waits for so keenly should not take the workers."""
        if self.looking is not None:
            await asyncio.wait({self.looking})

    async def view(self, name: str, job: Callable[[Snapshot], Plain]) -> Plain:
        """What a job makes of the study now; computed once for the same events."""
        at = await off_loop(jobs.snapshot, self.study)
        known = self._views.get(name)
        if known is None or known[0] != at.number or (known[1].done() and known[1].exception() is not None):
            known = (at.number, asyncio.create_task(self._compute(job, at)))
            self._views[name] = known
        return await asyncio.shield(known[1])

    async def _compute(self, job: Callable[[Snapshot], Plain], at: Snapshot) -> Plain:
        await self._looked_ahead()
        if not self.workers.is_warm:
            return await off_loop(job, at)
        found: Plain = await self.workers.run(job, at, limit=LIMIT)
        return found

    async def design(self, option: int) -> Design:
        """The design of an option's number."""
        options = await self.read(lambda history: list(history.options))
        if not 0 <= option < len(options):
            raise InvalidValueError(f"`option` must be one of the {len(options)} seen in this study, but got {option}.")
        return options[option]

    def apart(self) -> Study:
        """The study once more, with a lock of its own: whatever takes long with it holds up no voter."""
        return Study(self.study.storage, self.study.record)

    def peek(self, design: Design) -> tuple[Card, str]:
        """The card of a design as far as it is drawn, and its key."""
        return self.cards.peek(self.renderer, design), self.cards.key(self.renderer, design)

    async def card(self, option: int) -> tuple[Card, str]:
        """The card of an option, when it is drawn, and its key."""
        design = await self.design(option)
        return await self.cards.card(self.renderer, design), self.cards.key(self.renderer, design)

    async def ahead(self, voter: str) -> list[str]:
        """The keys of pictures that this voter may see next, once they are drawn."""
        await self._looked_ahead()
        found = []
        for asked in await self.speculation.likely(voter):
            for design in (asked.a, asked.b):
                if (await self.cards.card(self.renderer, design)).kind == "image":
                    found.append(self.cards.key(self.renderer, design))
        return found

    def close(self) -> None:
        """Give up what is under way."""
        if self.looking is not None:
            self.looking.cancel()
        self.speculation.drop_all()
