"""Looking ahead: while a person looks at a question, the next one is computed for each answer that may come.

An order or a slider has too many of them. A vote then only picks one. What is picked is what `Study.ask` would have
computed: the same function of the same events, and the study takes it only if no other event came in between.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from kappasharp.app.web.computing import LIMIT, Job, Snapshot
from kappasharp.app.web.workers import WorkerError, Workers
from kappasharp.methods.method import Kind
from kappasharp.study.events import Asked
from kappasharp.study.history import StudyQuestion
from kappasharp.study.kinds import Answer, Form

# For each kind of question what is computed at once, and what a little later; a choice has as many as it has designs.
LIKELY: dict[Kind, tuple[Answer, ...]] = {Kind.PAIR: ("a", "b"), Kind.RATING: (1, -1, 2, -2), Kind.CHOICE: (0, 1, 2, 3)}
RARE: dict[Kind, tuple[Answer, ...]] = {Kind.PAIR: ("tie", "skip"), Kind.RATING: (0, 3, -3, "skip")}
# A person looks this long, in seconds, before the rarer answers are worth a worker's time.
PATIENCE = 0.5

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


class Speculation:
    """The next pairs of one study, for each voter who has a pair open."""

    def __init__(self, workers: Workers, prepare: Prepare) -> None:
        self.workers, self.prepare = workers, prepare
        self._ahead: dict[str, Ahead] = {}
        self._later: dict[str, asyncio.Task[None]] = {}

    def begin(self, at: Snapshot, pair: StudyQuestion) -> None:
        """Look ahead from this moment, unless that is under way."""
        now = self._ahead.get(pair.voter)
        if now is not None and (now.number, now.pair) == (at.number, pair.number):
            return
        self.drop(pair.voter)
        tasks = {answer: self._start(at, pair, answer) for answer in likely(pair.form)}
        self._ahead[pair.voter] = Ahead(at.number, pair.number, list(tasks.values()), tasks)
        self._later[pair.voter] = asyncio.create_task(self._rare(at, pair))

    async def take(self, voter: str, number: int, pair: int, answer: Answer) -> Asked | None:
        """The pair computed for this answer, given right after event `number`; None where there is none.

        What is taken is the taker's: nothing that begins or is dropped later cancels it. All else is given up: it was
        computed for another answer, or for a voter who has not heard of this one.
        """
        ahead, taken = self._ahead.get(voter), None
        if ahead is not None and (ahead.number, ahead.pair) == (number, pair) and not isinstance(answer, list):
            taken = ahead.tasks.pop(answer, None)
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

    def _start(self, at: Snapshot, pair: StudyQuestion, answer: Answer) -> "asyncio.Task[Asked]":
        task = asyncio.create_task(self._compute(at, pair, answer))
        # A result that nobody fetches is no error.
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return task

    async def _compute(self, at: Snapshot, pair: StudyQuestion, answer: Answer) -> Asked:
        asked: Asked = await self.workers.run(Job.NEXT_PAIR_AFTER, at, pair.voter, pair.number, answer, limit=LIMIT)
        self.prepare(asked)
        return asked

    async def _rare(self, at: Snapshot, pair: StudyQuestion) -> None:
        await asyncio.sleep(PATIENCE)
        await self.settled(pair.voter)
        ahead = self._ahead[pair.voter]
        for answer in RARE.get(pair.form.kind, ()):
            ahead.tasks[answer] = self._start(at, pair, answer)
