"""One study on the page: pairs for its voters, their answers, what the views show. All computing is done elsewhere."""

import asyncio
import logging
from collections.abc import Callable

from kappasharp.app.web import jobs
from kappasharp.app.web.cards import Card, Cards
from kappasharp.app.web.jobs import LIMIT, Plain, Snapshot
from kappasharp.app.web.speculation import Speculation
from kappasharp.app.web.workers import WorkerError, Workers
from kappasharp.errors import InvalidValueError, StalePairError, StorageError
from kappasharp.study.events import Answer, Asked
from kappasharp.study.history import Comparison, Pair
from kappasharp.study.space import Design
from kappasharp.study.study import Study

LOG = logging.getLogger("kappasharp")
# Workers that start at once would take the processor from the browser just when it paints the new pair.
PAINT_FIRST = 0.06
off_loop = asyncio.to_thread


class Session:
    """A study, its renderer, the workers that compute for it, and the cards of its designs."""

    def __init__(self, study: Study, renderer: str | None, workers: Workers, cards: Cards) -> None:
        self.study, self.renderer, self.workers, self.cards = study, renderer, workers, cards
        self.speculation = Speculation(workers, lambda a, b: cards.prepare(self.renderer, a, b))
        self._views: dict[str, tuple[int, asyncio.Task[Plain]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def pair(self, voter: str) -> Pair:
        """The pair that waits for this voter."""
        history = await off_loop(lambda: self.study.history)
        pair = history.open_pair(voter)
        if pair is None:
            pair = await self._ask(voter, None)
        self._look_ahead(pair)
        return pair

    async def answer(self, voter: str, number: int, answer: Answer, seconds: float | None) -> tuple[Comparison, Pair]:
        """Store an answer; when this returns it is durable, and the next pair is open."""
        await self._check_voter(voter, number)
        done = await off_loop(lambda: self.study.tell(number, answer, seconds=seconds))
        if not self.workers.is_warm:
            # Workers take seconds to start; a first pair is computed sooner than they would.
            self.speculation.drop(voter)
        proposed = await self.speculation.take(voter, done.event - 1, number, answer)
        pair = await self._ask(voter, proposed)
        self._look_ahead(pair)
        return done, pair

    async def _check_voter(self, voter: str, number: int) -> None:
        """One voter's pair takes no answer from another."""
        history = await off_loop(lambda: self.study.history)
        if number in history.asked and history.asked[number][0].voter != voter:
            raise StalePairError(f"Pair {number} was put before another voter.", history.open_pair(voter))

    async def undo(self, voter: str) -> Pair:
        """Take back this voter's last answer; the pair that is open then."""
        await off_loop(self.study.undo, voter)
        return await self.pair(voter)

    async def _ask(self, voter: str, proposed: Asked | None) -> Pair:
        if proposed is None:
            proposed = await self._propose(await off_loop(jobs.snapshot, self.study))
        return await off_loop(lambda: self.study.ask(voter, proposed=proposed))

    async def _propose(self, at: Snapshot) -> Asked:
        """The next pair, by a worker if one is there; the first ones take seconds to start."""
        if self.workers.is_warm:
            try:
                found: Asked = await self.workers.run(jobs.next_pair, at, limit=LIMIT)
            except WorkerError:
                return await off_loop(jobs.next_pair, at)
            return found
        return await off_loop(jobs.next_pair, at)

    def _look_ahead(self, pair: Pair) -> None:
        """Begin to compute what may come after this pair, once the browser has had time to paint it."""
        self.cards.prepare(self.renderer, pair.a, pair.b)
        task = asyncio.create_task(self._look_ahead_soon(pair))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_ahead_soon(self, pair: Pair) -> None:
        await asyncio.sleep(PAINT_FIRST)
        try:
            await self._look_ahead_for_all(pair)
        except StorageError as error:
            # Nothing is lost by it but speed: the next pair is computed when it is wanted.
            LOG.warning("Nothing was computed ahead: %s", error)

    async def _look_ahead_for_all(self, pair: Pair) -> None:
        at = await off_loop(jobs.snapshot, self.study)
        history = self.study.history
        # An answer of one voter changes what comes next for the others too.
        for voter in (pair.voter, *(one for one in self.speculation.voters() if one != pair.voter)):
            theirs = history.open_pair(voter)
            if theirs is None or history.number != at.number:
                self.speculation.drop(voter)
            else:
                self.speculation.begin(at, theirs)
            await self.speculation.settled(voter)

    async def view(self, name: str, job: Callable[[Snapshot], Plain]) -> Plain:
        """What a job makes of the study now; computed once for the same events."""
        at = await off_loop(jobs.snapshot, self.study)
        known = self._views.get(name)
        if known is None or known[0] != at.number or (known[1].done() and known[1].exception() is not None):
            known = (at.number, asyncio.create_task(self._compute(job, at)))
            self._views[name] = known
        return await asyncio.shield(known[1])

    async def _compute(self, job: Callable[[Snapshot], Plain], at: Snapshot) -> Plain:
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        if not self.workers.is_warm:
            return await off_loop(job, at)
        found: Plain = await self.workers.run(job, at, limit=LIMIT)
        return found

    def design(self, option: int) -> Design:
        """The design of an option's number."""
        options = self.study.history.options
        if not 0 <= option < len(options):
            raise InvalidValueError(f"`option` must be one of the {len(options)} seen in this study, but got {option}.")
        return options[option]

    def peek(self, design: Design) -> tuple[Card, str]:
        """The card of a design as far as it is drawn, and its key."""
        return self.cards.peek(self.renderer, design), self.cards.key(self.renderer, design)

    async def card(self, option: int) -> tuple[Card, str]:
        """The card of an option, when it is drawn, and its key."""
        design = await off_loop(self.design, option)
        return await self.cards.card(self.renderer, design), self.cards.key(self.renderer, design)

    async def ahead(self, voter: str) -> list[str]:
        """The keys of pictures that this voter may see next, once they are drawn."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        found = []
        for asked in await self.speculation.likely(voter):
            for design in (asked.a, asked.b):
                if (await self.cards.card(self.renderer, design)).kind == "image":
                    found.append(self.cards.key(self.renderer, design))
        return found

    def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        for voter in self.speculation.voters():
            self.speculation.drop(voter)
