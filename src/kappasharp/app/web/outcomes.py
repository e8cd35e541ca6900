"""What the page says of a design's outcomes: those that are stored, that they are computed now, or why not."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

from kappasharp.sentences import Sentence, said
from kappasharp.study.comparison import Comparison
from kappasharp.study.history import History, StudyQuestion
from kappasharp.study.outcomes import Values
from kappasharp.study.simulation import CHEAP
from kappasharp.study.space import Design
from kappasharp.study.study import Study

LOG = logging.getLogger("kappasharp")
State = Literal["known", "computing", "failed", "none"]
# Questions whose outcomes are remembered to be complete.
MOST_COMPLETED = 500
# Seconds within which outcomes come with their question; who asks for them alone waits longer.
SOON, PATIENCE = 0.3, 5.0
NOT_MEASURED = said("outcome.unmeasured", "Not measured yet.")
NO_FUNCTION = said("outcome.no_function", "Not known: the function that computes them is not here.")
TOO_SLOW = said(
    "outcome.slow", "They take too long to follow the line: those of the place that you send are computed then."
)


class ToldOutcomes(NamedTuple):
    """How the outcomes of one design stand: some or all of them, or a sentence where there are none."""

    state: State
    values: Values
    sentence: str = ""


COMPUTING = ToldOutcomes("computing", {}, "Computing …")


class StudyResults:
    """The outcomes of one study's designs.

    They are computed by the workers of the user's function. One thread waits for those; neither the loop nor a vote
    ever does.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self._thread = ThreadPoolExecutor(1, "outcomes")
        self._under_way: OrderedDict[int, asyncio.Future[Any]] = OrderedDict()

    @property
    def can_compute(self) -> bool:
        """Whether there is a function here."""
        return self.study.definition.outcomes is not None and self.study.definition.simulator is not None

    def begin(self, asked: StudyQuestion | Comparison) -> None:
        """Have the outcomes of a question's or an answer's designs computed and stored, once."""
        number = asked.number if isinstance(asked, StudyQuestion) else asked.event
        if not self.can_compute or number in self._under_way:
            return
        self._under_way[number] = self._off_loop(self.study.complete, asked)
        self._under_way[number].add_done_callback(lambda done: self._ended(number, done))
        while len(self._under_way) > MOST_COMPLETED:
            self._under_way.popitem(last=False)

    def _off_loop(self, action: Callable[..., Any], *given: Any) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().run_in_executor(self._thread, action, *given)

    def _ended(self, number: int, done: "asyncio.Future[Any]") -> None:
        if not done.cancelled() and done.exception() is not None:
            # They are not lost: the next look at the question tries again.
            self._under_way.pop(number, None)
            LOG.warning("Outcomes of question %d were not stored: %s", number, done.exception())

    async def complete(self, number: int, seconds: float | None = None) -> None:
        """Wait until the outcomes of a question are stored, or that many seconds."""
        found = self._under_way.get(number)
        if found is not None:
            await asyncio.wait({found}, timeout=seconds)

    def told(self, history: History, number: int, design: Design) -> ToldOutcomes:
        """How the outcomes of a question's design stand."""
        stored = _stored(history, design)
        if stored.state == "known":
            return stored
        under_way = self._under_way.get(number)
        if under_way is not None and not under_way.done():
            return COMPUTING
        return stored if stored.state == "failed" else ToldOutcomes("none", {}, self._why_none())

    def _why_none(self) -> Sentence:
        outcomes = self.study.definition.outcomes
        return NO_FUNCTION if outcomes is not None and outcomes.is_computed else NOT_MEASURED

    async def at(self, design: Design) -> ToldOutcomes:
        """The outcomes of any design, computed where they are cheap; nothing is stored."""
        stored = await asyncio.to_thread(self.study.read, lambda history: _stored(history, design))
        definition = self.study.definition
        if stored.state != "none" or definition.simulator is None or definition.outcomes is None:
            return stored if stored.state != "none" else ToldOutcomes("none", {}, self._why_none())
        if (definition.outcomes.seconds or 0.0) > CHEAP:
            return ToldOutcomes("none", {}, TOO_SLOW)
        ran = (await self._off_loop(definition.simulator.compute, [design], definition.outcomes.names))[0]
        return (
            ToldOutcomes("failed", {}, ran.failure or "") if ran.values is None else ToldOutcomes("known", ran.values)
        )

    def close(self) -> None:
        """Give up what is under way, and end the workers of the function."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self.study.definition.simulator is not None:
            self.study.definition.simulator.stop()


def _stored(history: History, design: Design) -> ToldOutcomes:
    known = history.outcomes(design)
    if known is not None and known.runs:
        return ToldOutcomes("known", known.values)
    if known is not None and known.failure is not None:
        return ToldOutcomes("failed", {}, known.failure)
    return ToldOutcomes("none", {})
