"""Questions ahead of time: for each answer that a person may give, and for many voters the newest fit's by the hundred.

An order or a slider has too many answers to look ahead for. Where it is done, a vote only picks one. What is picked is
what `Study.ask` would have computed: the same function of the same events, and the study takes it only if no other
event came in between. Many voters wait for no fit: every question says how many answers it rests on, and figures come
from the same fit.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from kappasharp.errors import KappaSharpError
from kappasharp.journal.events import Asked
from kappasharp.journal.question import StudyQuestion
from kappasharp.questions.kind import Answer, Form, Kind
from kappasharp.study.snapshot import Plain, Snapshot, snapshot
from kappasharp.study.study import Study
from kappasharp.web.workers import LIMIT, Job, Turn, WorkerError, Workers, computed

# For each kind of question what is computed at once, and what a little later; a choice has as many as it has designs.
LIKELY: dict[Kind, tuple[Answer, ...]] = {Kind.PAIR: ("a", "b"), Kind.RATING: (1, -1, 2, -2), Kind.CHOICE: (0, 1, 2, 3)}
RARE: dict[Kind, tuple[Answer, ...]] = {Kind.PAIR: ("tie", "skip"), Kind.RATING: (0, 3, -3, "skip")}
# A person looks this long, in seconds, before the rarer answers are worth a worker's time.
BEFORE_RARE = 0.5
# Seconds between the end of a fit and the next, so that small studies do not take a processor for themselves.
PAUSE = 0.3
# Who asks waits no longer than this, in seconds, before a question of their own is computed.
LONGEST_WAIT = 10.0
# How many questions a fit gives: one for every voter, and this many for every one that was taken during the last.
SPARE, LEAST, MOST = 2, 64, 1500
LOG = logging.getLogger("kappasharp")

Prepare = Callable[[Asked], None]


def likely(form: Form) -> tuple[Answer, ...]:
    """The answers to look ahead for first; none where there are too many."""
    if form.kind is Kind.CHOICE:
        return LIKELY[Kind.CHOICE][: form.designs] if form.designs <= len(LIKELY[Kind.CHOICE]) else ()
    return LIKELY.get(form.kind, ())


class Ahead(NamedTuple):
    """What is being computed for one voter's open pair."""

    number: int
    pair: int
    likely: list["asyncio.Task[Asked]"]
    tasks: dict[Answer, "asyncio.Task[Asked]"]
    turns: dict[Answer, Turn]


class Speculation:
    """The next pairs of one study, for each voter who has a pair open."""

    def __init__(self, workers: Workers, prepare: Prepare, study: str = "") -> None:
        self.workers, self.prepare, self.study = workers, prepare, study
        self._ahead: dict[str, Ahead] = {}
        self._later: dict[str, asyncio.Task[None]] = {}

    def begin(self, at: Snapshot, pair: StudyQuestion) -> None:
        """Look ahead from this moment, unless that is under way."""
        now = self._ahead.get(pair.voter)
        if now is not None and (now.number, now.pair) == (at.number, pair.number):
            return
        self.drop(pair.voter)
        ahead = Ahead(at.number, pair.number, [], {}, {})
        for answer in likely(pair.form):
            self._start(at, pair, answer, ahead)
        ahead.likely.extend(ahead.tasks.values())
        self._ahead[pair.voter] = ahead
        self._later[pair.voter] = asyncio.create_task(self._rare(at, pair))

    async def take(self, voter: str, number: int, pair: int, answer: Answer) -> Asked | None:
        """The pair computed for this answer, given right after event `number`; None where there is none.

        What is taken is the taker's: nothing that begins or is dropped later cancels it. All else is given up: it was
        computed for another answer, or for a voter who has not heard of this one.
        """
        ahead, taken = self._ahead.get(voter), None
        if ahead is not None and (ahead.number, ahead.pair) == (number, pair) and not isinstance(answer, list):
            taken = ahead.tasks.pop(answer, None)
            if taken is not None:
                # Somebody waits for it now.
                self.workers.hurry(ahead.turns[answer], 1)
        self.drop_all()
        if taken is None:
            return None
        try:
            return await taken
        except WorkerError:
            return None

    async def likely(self, voter: str) -> list[Asked]:
        """The pairs after the likely answers, as far as they could be computed."""
        await self.settled(voter)
        ahead = self._ahead.get(voter)
        tasks = [] if ahead is None else ahead.likely
        return [one.result() for one in tasks if one.done() and not one.cancelled() and one.exception() is None]

    async def settled(self, voter: str) -> None:
        """Wait until the likely answers are looked ahead for: nothing else should take the workers before."""
        ahead = self._ahead.get(voter)
        if ahead is not None and ahead.likely:
            await asyncio.wait(ahead.likely)

    def drop(self, voter: str) -> None:
        """Give up what was begun for this voter."""
        later, ahead = self._later.pop(voter, None), self._ahead.pop(voter, None)
        if later is not None:
            later.cancel()
        if ahead is not None:
            for task in ahead.tasks.values():
                task.cancel()

    def drop_all(self) -> None:
        """Give up what was begun for anybody."""
        for voter in list(self._ahead):
            self.drop(voter)

    def _start(self, at: Snapshot, pair: StudyQuestion, answer: Answer, ahead: Ahead) -> None:
        turn = ahead.turns[answer] = Turn(ahead=True, study=self.study, visitor=pair.voter)
        task = ahead.tasks[answer] = asyncio.create_task(self._compute(at, pair, answer, turn))
        # A result that nobody fetches is no error.
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    async def _compute(self, at: Snapshot, pair: StudyQuestion, answer: Answer, turn: Turn) -> Asked:
        given = (at, pair.voter, pair.number, answer)
        asked: Asked = await self.workers.run(Job.NEXT_PAIR_AFTER, *given, limit=LIMIT, turn=turn)
        self.prepare(asked)
        return asked

    async def _rare(self, at: Snapshot, pair: StudyQuestion) -> None:
        await asyncio.sleep(BEFORE_RARE)
        await self.settled(pair.voter)
        ahead = self._ahead[pair.voter]
        for answer in RARE.get(pair.form.kind, ()):
            self._start(at, pair, answer, ahead)


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
                await asyncio.wait_for(self._filled.wait(), LONGEST_WAIT)
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
            turn = Turn(study=self.study.stored.uid)
            found, standing = await computed(self.workers, Job.STOCK, at, count, turn=turn)
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
