"""One study on the page: questions for its voters, their answers, what the views show. Computing is done elsewhere."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

from kappasharp.errors import (
    InvalidValueError,
    LostEventsError,
    NotAllowedError,
    ReplacedError,
    StalePairError,
    StorageError,
)
from kappasharp.journal import staleness
from kappasharp.journal.events import Asked
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison, StudyQuestion
from kappasharp.messages.message import Sentence, said
from kappasharp.questions.kind import PAIR, Answer, Form, Kind
from kappasharp.simulators.simulator import CHEAP
from kappasharp.space.outcomes import Values
from kappasharp.space.space import Design
from kappasharp.study.snapshot import Copied, Plain, Snapshot, copied, snapshot
from kappasharp.study.study import Study
from kappasharp.web.lookahead import Speculation, Stock
from kappasharp.web.pictures import Card, Cards, failed
from kappasharp.web.workers import PATIENT_LIMIT, DroppedError, Job, Turn, Workers, computed, elsewhere

# What the page says of a design's outcomes: those that are stored, that they are computed now, or why not.
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


LOG = logging.getLogger("kappasharp")
Found = TypeVar("Found")
# Workers that start at once would take the processor from the browser just when it paints the new pair.
PAINT_FIRST = 0.06
# Voters seen within so many seconds are looked ahead for, unless they are more than this: every answer makes what was
# computed for the others stale. They get what is in stock.
PRESENT, MOST_VOTERS = 60.0, 4
# Stops of a slider's line: at least, and between two of its designs where it bends; what an arrow key moves it by.
STOPS, STOPS_OF_PART = 40, 20
# Into how many steps a stop is divided, and every which of them is drawn before anybody moves the slider.
FINE, DRAWN = 5, (5, 10)
# Of the threads that wait for locks and databases, as many may be a study's at a time: others find some free.
MOST_THREADS = 8
# Who downloads a report waits no longer than this, in seconds, for pictures that nobody saw yet.
REPORT_SECONDS = 60.0
# The kind of file that is a report.
REPORT = "html"
STILL_DRAWN = failed("Its picture was still being drawn; download the report once more.")
off_loop = asyncio.to_thread


def drawn_ahead(question: StudyQuestion) -> list[Design]:
    """The designs of a question that are drawn when it is shown."""
    if question.form.kind is not Kind.SLIDER:
        return question.designs
    stops = stops_of(question)
    return [question.at(stop / stops) for stop in stops_ahead(question)]


def stops_of(slider: StudyQuestion) -> int:
    """How many stops lie beyond the first; each of its designs is one."""
    return max(STOPS, STOPS_OF_PART * (slider.form.designs - 1))


def finest_of(slider: StudyQuestion) -> int:
    """Into how many steps its line is divided at most."""
    return FINE * stops_of(slider)


def stops_ahead(slider: StudyQuestion) -> range:
    """Those that are drawn before anybody moves it."""
    return range(0, stops_of(slider) + 1, DRAWN[slider.form.designs > PAIR])


def _of_person(history: History, voter: str) -> StudyQuestion | None:
    """The question that waits for this voter; a program answers by itself, and nobody in its name."""
    if voter in history.programs.about:
        words = "“{voter}” is a program in this study. Answer under a name of your own."
        raise NotAllowedError(said("fault.program", words, voter=voter))
    return history.open_pair(voter)


class Wishes:
    """The kinds of question that voters ask for meanwhile: of each voter the last one stands."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._forms: dict[str, Form] = {}

    def begin(self, voter: str, form: Form | None) -> None:
        """Somebody waits for a question from now on, perhaps of a form of their own."""
        self._waiting[voter] += 1
        if form is not None:
            self._forms[voter] = form

    def end(self, voter: str) -> None:
        """They wait no longer."""
        self._waiting[voter] -= 1
        if not self._waiting[voter]:
            del self._waiting[voter]
            self._forms.pop(voter, None)

    def last(self, voter: str) -> Form | None:
        """The form that a voter asked for last."""
        return self._forms.get(voter)


class Session:
    """A study, its renderer, the workers that compute for it, and the cards of its designs.

    The study has a lock and a database behind it: it is only ever touched off the loop. Questions are computed by
    workers of their own, and by others what takes long and nobody answers by: figures, files, and searches for what is
    left to ask about.
    """

    def __init__(
        self, study: Study, renderer: str | None, workers: Workers, cards: Cards, figures: Workers | None = None
    ) -> None:
        self.study, self.renderer, self.workers, self.cards = study, renderer, workers, cards
        self.figures = figures or workers
        self.uid = study.stored.uid
        self.results = StudyResults(study)
        self.speculation = Speculation(workers, self._prepare, self.uid)
        self.stock = Stock(study, workers, lambda: None)
        self.looking: asyncio.Task[None] | None = None
        self._views: dict[str, tuple[int, asyncio.Task[Plain]]] = {}
        self._before: dict[str, Plain] = {}
        self._asking = asyncio.Lock()
        self._wishes = Wishes()
        # Whose question of a form of their own is computed, and its turn.
        self._computing: tuple[str, Turn] | None = None
        self._threads = asyncio.Semaphore(MOST_THREADS)
        # The last report, and what it was of; one is made at a time.
        self._report: tuple[tuple[int, str], bytes] | None = None
        self._reporting = asyncio.Lock()
        # Those who wait for a pair, and when each voter was last seen, in order.
        self._waiting_now: dict[str, None] = {}
        self._seen: dict[str, float] = {}

    @property
    def is_crowded(self) -> bool:
        """Whether so many people answer that none can have a fit of their own."""
        return len(self._seen | self._waiting_now) > MOST_VOTERS and self.study.definition.asks_all_alike

    def _prepare(self, asked: Asked) -> None:
        self.cards.prepare(self.renderer, *asked.designs, study=self.uid)

    async def aside(self, action: Callable[..., Found], *given: Any) -> Found:
        """What an action comes to that may wait for the study's lock or its database."""
        async with self._threads:
            return await off_loop(action, *given)

    async def read(self, look: Callable[[History], Found]) -> Found:
        """What a function makes of the study's history now."""
        return await self.aside(self.study.read, look)

    async def would_change(self, voter: str, form: Form | None) -> bool:
        """Whether a question waits for this voter that one of this form would take the place of."""
        found = None if form is None else await self.read(lambda history: _of_person(history, voter))
        return found is not None and found.form != form

    async def pair(self, voter: str, form: Form | None = None) -> StudyQuestion:
        """The question that waits for this voter; of another form than this, it is withdrawn and one is asked anew."""
        pair = await self._waiting(voter, form) or await self._ask(voter, form)
        self._look_ahead(pair)
        return pair

    async def _waiting(self, voter: str, form: Form | None) -> StudyQuestion | None:
        found = await self.read(lambda history: _of_person(history, voter))
        return found if found is None or form is None or found.form == form else None

    async def answer(
        self, voter: str, number: int, answer: Answer, seconds: float | None, form: Form | None = None
    ) -> tuple[Comparison, StudyQuestion]:
        """Store an answer; when this returns it is durable, and the next question is open."""
        crowded = form is None and self.is_crowded
        done, waiting = await self.aside(self._tell, voter, number, answer, seconds, crowded)
        self.results.begin(done)
        if crowded and waiting is not None:
            self._look_ahead(waiting)
            return done, waiting
        if not self.workers.is_warm:
            # Workers take seconds to start; a first pair is computed sooner than they would.
            self.speculation.drop(voter)
        proposed = await self.speculation.take(voter, done.event - 1, number, done.answer)
        if form is not None:
            return done, await self.pair(voter, form)
        pair = None if proposed is None else await self.aside(self.study.offer, voter, proposed)
        pair = pair or await self._ask(voter)
        self._look_ahead(pair)
        return done, pair

    def _tell(
        self, voter: str, number: int, answer: Answer, seconds: float | None, crowded: bool
    ) -> tuple[Comparison, StudyQuestion | None]:
        """The answer, stored, and where one is in stock the next question; one voter's pair takes none from another."""
        asked, current = self.study.glance(lambda history: (history.asked.get(number), _of_person(history, voter)))
        if asked is not None and asked[0].voter != voter:
            raise StalePairError(f"Pair {number} was put before another voter.", current)
        supply = self.stock.take if crowded else None
        done = self.study.tell(number, answer, seconds=seconds, complete=False, following=supply)
        return done, self.study.glance(lambda history: history.open_pair(voter))

    async def undo(self, voter: str) -> StudyQuestion:
        """Take back this voter's last answer; the pair that is open then."""
        await self.aside(self.study.undo, voter)
        return await self.pair(voter)

    async def _ask(self, voter: str, form: Form | None = None) -> StudyQuestion:
        """The question that waits for this voter, computed where none is open: for all who wait by then at once.

        Who wants a form of their own waits alone.
        """
        if form is None:
            self._waiting_now[voter] = None
            if self.is_crowded and await self.stock.filled(len(self._seen) + len(self._waiting_now)):
                pair = await self._from_stock(voter)
                if pair is not None:
                    return pair
        self._wishes.begin(voter, form)
        if form is not None and self._computing is not None and self._computing[0] == voter:
            # What this voter asked for before is of no use any more; what has begun goes on to its end.
            self.workers.drop(self._computing[1])
        try:
            async with self._asking:
                return await self._ask_in_turn(voter)
        finally:
            self._wishes.end(voter)

    async def _ask_in_turn(self, voter: str) -> StudyQuestion:
        """The same for who is next: a question of the form that they asked for last."""
        self._waiting_now.pop(voter, None)
        refusals = staleness.Refusals()
        while (pair := await self._waiting(voter, form := self._wishes.last(voter))) is None:
            # While this voter waited for the others' turns, a stock may have come; nobody waits for one here.
            if form is None and (pair := await self._from_stock(voter)) is not None:
                break
            voters = [voter, *self._waiting_now] if form is None else [voter]
            self._waiting_now = {} if form is None else self._waiting_now
            if form is not None:
                # What was computed for the moment before somebody asked otherwise is of no use after it.
                self.speculation.drop_all()
            at = await self.aside(snapshot, self.study)
            if form is not None and form != self._wishes.last(voter):
                continue
            proposed = await self._propose(at, voters, form)
            for one, asked in zip(voters, proposed, strict=False):
                await self.aside(self.study.offer, one, asked, form)
            if proposed:
                refusals.note(at.number, voter)
        return pair

    async def _from_stock(self, voter: str) -> StudyQuestion | None:
        """A question that is at hand, where many wait; None where there is none to be had that way."""
        if not self.is_crowded:
            return None
        found = await self.aside(self.study.offer_any, voter, self.stock.take)
        if found is not None:
            self._waiting_now.pop(voter, None)
        return found

    async def _propose(self, at: Snapshot, voters: list[str], form: Form | None) -> list[Asked]:
        """The next questions; none where this voter has asked for another form before one was begun."""
        turn = Turn(wish=1, study=self.uid, visitor=voters[0])
        self._computing = None if form is None else (voters[0], turn)
        try:
            found: list[Asked] = await computed(self.workers, Job.NEXT_PAIRS, at, voters, form, turn=turn)
        except DroppedError:
            return []
        finally:
            self._computing = None
        return found

    def _look_ahead(self, pair: StudyQuestion) -> None:
        """Begin to compute what may come after this pair, once the browser has had time to paint it."""
        self.results.begin(pair)
        self.cards.show(self.renderer, *drawn_ahead(pair), study=self.uid)
        now = asyncio.get_running_loop().time()
        self._seen.pop(pair.voter, None)
        self._seen = {one: at for one, at in self._seen.items() if now - at < PRESENT} | {pair.voter: now}
        if self.is_crowded:
            self.speculation.drop_all()
            self.stock.refill(len(self._seen))
        else:
            self._begin_looking(pair.number)

    def overtaken(self) -> None:
        """Others wrote to the study elsewhere: what was computed ahead is of no use any more."""
        self.speculation.drop_all()
        if self.is_crowded:
            self.stock.refill(len(self._seen))
        elif self._seen:
            self._begin_looking(None)

    def _begin_looking(self, number: int | None) -> None:
        if self.looking is not None:
            self.looking.cancel()
        self.looking = asyncio.create_task(self._look_ahead_soon(number))

    async def _look_ahead_soon(self, number: int | None) -> None:
        await asyncio.sleep(PAINT_FIRST)
        # Outcomes are events too: what is computed before they are stored rests on the events before them.
        if number is not None:
            await self.results.complete(number)
        # A voter who waits now comes before one who may wait later; when that pair is there, this begins again.
        if self._asking.locked() or len(self._seen) > MOST_VOTERS:
            return
        try:
            await self._look_ahead_for_all()
        except (ReplacedError, LostEventsError) as error:
            # The database has said so itself, once.
            LOG.info("%s", error)
        except StorageError as error:
            # Nothing is lost by it but speed: the next pair is computed when it is wanted.
            LOG.warning("Nothing was computed ahead: %s", error)

    async def _look_ahead_for_all(self) -> None:
        at = await self.aside(snapshot, self.study)
        voters = list(reversed(self._seen))
        if self.study.definition.outcomes is not None:
            # Through a function a question takes ten times as long: only who was asked last is looked ahead for.
            for other in voters[1:]:
                self.speculation.drop(other)
            voters = voters[:1]
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
        known = self._views.get(name)
        if self.is_crowded:
            # They are as old as they say. Another fit for every answer that came would hold up all.
            if name == "standing" and self.stock.standing is not None:
                return self.stock.standing
            if known is not None and not known[1].done():
                return await asyncio.shield(known[1])
        at = await self.aside(snapshot, self.study)
        known = self._views.get(name)
        if known is None or known[0] != at.number or (known[1].done() and known[1].exception() is not None):
            self._before |= {name: found} if (found := self.before(name)) is not None else {}
            known = (at.number, asyncio.create_task(self._compute(name, job, at)))
            self._views[name] = known
        return await asyncio.shield(known[1])

    def before(self, name: str) -> Plain | None:
        """The last that is there of a view, of whatever events; None where there is none."""
        _, known = self._views.get(name, (0, None))
        is_there = known is not None and known.done() and not known.cancelled() and known.exception() is None
        return known.result() if known is not None and is_there else self._before.get(name)

    async def _compute(self, name: str, job: Callable[[Snapshot], Plain], at: Snapshot) -> Plain:
        await self._looked_ahead()
        found: Plain = await self._apart(job, at, visitor=name)
        return found

    async def _apart(self, job: Callable[..., Any], *given: Any, visitor: str) -> Any:
        """What a job comes to that no question waits for."""
        turn = Turn(study=self.uid, visitor=visitor)
        return await elsewhere(self.figures, job, *given, turn=turn, limit=PATIENT_LIMIT)

    async def change(self, change: str, name: Any, given: Plain, voter: str) -> None:
        """Narrow, lock or widen a parameter: whether something is left to ask about is looked for before, elsewhere."""
        is_stored = False
        while not is_stored:
            now = await self.aside(self.study.latest)
            found = await self._apart(Job.CHANGED, now, change, name, given, visitor=voter)
            is_stored = await self.aside(lambda: self.study.change(found, now, voter=voter))  # noqa: B023
        # What was computed ahead rests on what was open before.
        self.speculation.drop_all()

    async def exported(self, kind: str, visitor: str) -> bytes:
        """The study as a file of that kind, made elsewhere; the same report for the same events."""
        if kind != REPORT:
            found: bytes = await self._apart(Job.EXPORTED, await self._copied(), kind, None, visitor=visitor)
            return found
        async with self._reporting:
            now = (await self.read(lambda history: history.number), self.study.name)
            if self._report is None or self._report[0] != now:
                of = await self._copied()
                pictures = None if self.renderer is None else await self._pictures(of, visitor)
                made = await self._apart(Job.EXPORTED, of, kind, pictures, visitor=visitor)
                self._report = (of.number, of.record.name), made
            return self._report[1]

    async def _copied(self) -> Copied:
        return await self.aside(copied, self.study)

    async def _pictures(self, of: Copied, visitor: str) -> dict[int, Card]:
        """The cards that a report shows, as far as they are drawn within some seconds."""
        designs: dict[int, Design] = await self._apart(Job.PICTURED, of, visitor=visitor)
        drawing = {
            option: asyncio.ensure_future(self.cards.card(self.renderer, design, self.uid))
            for option, design in designs.items()
        }
        if drawing:
            await asyncio.wait(drawing.values(), timeout=REPORT_SECONDS)
        return {option: one.result() if one.done() else STILL_DRAWN for option, one in drawing.items()}

    async def design(self, option: int) -> Design:
        """The design of an option's number."""
        options = await self.read(lambda history: list(history.options))
        if not 0 <= option < len(options):
            seen = "one of the {designs} designs seen in this study, which count from 0"
            words = f"The number must be that of {seen}, but got {{got}}."
            raise InvalidValueError(said("fault.design", words, designs=len(options), got=str(option)))
        return options[option]

    def peek(self, design: Design) -> tuple[Card, str]:
        """The card of a design as far as it is drawn, and its key."""
        return self.cards.peek(self.renderer, design, self.uid), self.cards.key(self.renderer, design)

    async def card(self, option: int) -> tuple[Card, str]:
        """The card of an option, when it is drawn, and its key."""
        design = await self.design(option)
        return await self.cards.card(self.renderer, design, self.uid), self.cards.key(self.renderer, design)

    async def drawn(self, key: str) -> Card | None:
        """The card of that key; one that another process told of is drawn here. None where no design has it."""
        found = await self.cards.named(key)
        if found is not None or self.renderer is None:
            return found
        designs, asked = await self.read(
            lambda history: (list(history.options), [history.asked[number][0] for number in history.open.values()])
        )
        design = await self.aside(self._called, key, designs, asked)
        return None if design is None else await self.cards.card(self.renderer, design, self.uid)

    def _called(self, key: str, designs: list[Design], asked: list[StudyQuestion]) -> Design | None:
        """The design whose card has that key, of these or of the places of sliders."""
        sliders = (one for one in asked if one.form.kind is Kind.SLIDER)
        places = (one.at(place / finest_of(one)) for one in sliders for place in range(finest_of(one) + 1))
        every = chain(reversed(designs), places)
        return next((one for one in every if self.cards.is_named(key, self.renderer, one)), None)

    async def place(self, number: int, place: float) -> tuple[float, Design, Card, str]:
        """The nearest place of a slider that is drawn, the design there, its card when it is drawn, and the key."""
        asked = await self.read(lambda history: history.asked.get(number))
        if asked is None or asked[0].form.kind is not Kind.SLIDER:
            raise InvalidValueError(f"`number` must be that of a slider in this study, but got {number}.")
        finest = finest_of(asked[0])
        place = round(place * finest) / finest
        design = asked[0].at(place)
        return (
            place,
            design,
            await self.cards.card(self.renderer, design, self.uid),
            self.cards.key(self.renderer, design),
        )

    async def asked(self, number: int) -> StudyQuestion:
        """The question of that number."""
        found = await self.read(lambda history: history.asked.get(number))
        if found is None:
            raise InvalidValueError(f"`number` must be that of a question in this study, but got {number}.")
        return found[0]

    async def ahead(self, voter: str) -> list[str]:
        """The keys of pictures that this voter may see next, once they are drawn."""
        await self._looked_ahead()
        found = []
        for asked in await self.speculation.likely(voter):
            for design in asked.designs:
                if (await self.cards.card(self.renderer, design, self.uid, ahead=True)).kind == "image":
                    found.append(self.cards.key(self.renderer, design))
        return found

    def close(self) -> None:
        """Give up what is under way."""
        if self.looking is not None:
            self.looking.cancel()
        self.speculation.drop_all()
        self.stock.close()
        self.results.close()
