"""Questions at hand for many voters: the newest fit gives them by the hundred while the next one is fitted.

Nobody waits for a fit then. Every question says how many answers it rests on, and figures come from the same fit.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from kappasharp.app.web.computing import Job, Plain, computed, snapshot
from kappasharp.app.web.workers import Workers
from kappasharp.errors import KappaSharpError
from kappasharp.study.events import Asked
from kappasharp.study.study import Study

LOG = logging.getLogger("kappasharp")
# Seconds between the end of a fit and the next, so that small studies do not take a processor for themselves.
PAUSE = 0.3
# Who asks waits no longer than this, in seconds, before a question of their own is computed.
PATIENCE = 10.0
# How many questions a fit gives: one for every voter, and this many for every one that was taken during the last.
SPARE, LEAST, MOST = 2, 64, 1500


class Stock:
    """Pairs of one study for whoever asks next."""

    def __init__(self, study: Study, workers: Workers, heard: Callable[[], None]) -> None:
        self.study, self.workers, self.heard = study, workers, heard
        # How things stood at the newest fit.
        self.standing: Plain | None = None
        self._questions: deque[Asked] = deque()
        self._number, self._taken = -1, 0
        self._wanted, self._filled = 0, asyncio.Event()
        self._filling: asyncio.Task[None] | None = None

    def take(self) -> Asked | None:
        """The next question, if there is one; from any thread."""
        try:
            found = self._questions.popleft()
        except IndexError:
            return None
        self._taken += 1
        return found

    def refill(self, voters: int) -> None:
        """Have another fit for so many voters, after the one that may be under way."""
        self._wanted = voters
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill_on())

    async def filled(self, voters: int) -> bool:
        """Wait until there are questions, where there are none; whether there are."""
        if not self._questions:
            self.refill(voters)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._filled.wait(), PATIENCE)
        return bool(self._questions)

    async def _fill_on(self) -> None:
        """One fit after the other, as long as there are answers that the last one did not know."""
        while self._wanted:
            voters, self._wanted = self._wanted, 0
            try:
                await self._fill(voters)
            finally:
                self._filled.set()
                self._filled = asyncio.Event()
            await asyncio.sleep(PAUSE if self._questions else 0.0)

    async def _fill(self, voters: int) -> None:
        at = await asyncio.to_thread(snapshot, self.study)
        if at.number == self._number and self._questions:
            return
        count, self._taken = max(LEAST, min(voters + SPARE * self._taken, MOST)), 0
        try:
            found, standing = await computed(self.workers, Job.STOCK, at, count)
        except KappaSharpError as error:
            # Nothing is lost by it: who asks next waits for a question of their own.
            LOG.warning("No questions were made ready: %s", error)
            return
        self._questions, self._number = deque(found), at.number
        self.standing = standing
        if standing is not None:
            self.heard()

    def close(self) -> None:
        """Give up what is under way."""
        if self._filling is not None:
            self._filling.cancel()
        self._filled.set()
        self._questions.clear()
