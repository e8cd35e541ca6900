"""Everything one server holds: a database, the studies open on the page, the renderers it may use, the workers."""

import asyncio
import logging
import os
import shlex
from dataclasses import asdict
from threading import Lock
from typing import Any, NamedTuple

from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.exchange import study_toml
from kappasharp.journal.definition import Definition, from_plain
from kappasharp.settings import DEFAULT_STORAGE, ENVIRONMENT
from kappasharp.simulators import simulator
from kappasharp.space import outcomes
from kappasharp.space.outcomes import OutcomeFunction
from kappasharp.store.storage import Record, Storage
from kappasharp.study import collection, creation
from kappasharp.study.snapshot import Plain
from kappasharp.study.study import Study
from kappasharp.web import workers
from kappasharp.web.live_updates import News
from kappasharp.web.open_study import Session, drawn_ahead, off_loop
from kappasharp.web.pictures import Cards
from kappasharp.web.workers import Job, Turn, Workers

LOG = logging.getLogger("kappasharp")
COMPUTING, FIGURES, DRAWING = 2, 2, 2
NO_RENDERER = ""


class Wanted(NamedTuple):
    """A study that is not made yet."""

    name: str
    definition: Definition


class Service:
    """The studies of a database, as the page shows them."""

    def __init__(
        self,
        storage: Storage,
        *,
        renderers: tuple[str, ...] = (),
        functions: tuple[str, ...] = (),
    ) -> None:
        self.storage = storage
        # Functions of outcomes that a study may name: a database or a request names no others.
        self.functions = tuple(dict.fromkeys(functions))
        # The page can choose among these and name no others: what runs is what the command line named.
        self.renderers = tuple(dict.fromkeys(renderers))
        self.computing, self.drawing = workers.workers(COMPUTING), Workers(DRAWING, bare=True)
        # Started when they are wanted.
        self.figures = workers.workers(FIGURES, workers.BEHIND_QUESTIONS)
        self.cards = Cards(self.drawing)
        self.news = News(self)
        self._rehearsing = asyncio.Semaphore(1)
        self.current: str | None = None
        self._sessions: dict[str, Session] = {}
        self._locks: dict[str, Lock] = {}
        self._opening: dict[str, asyncio.Task[Session]] = {}
        self._counted: dict[str, tuple[Any, Plain]] = {}
        self._renderers: dict[str, str | None] = {}
        self._simulators: dict[str, OutcomeFunction | None] = {}
        # Every name that a study was seen under: a link to an earlier one still finds it.
        self._names: dict[str, str] = {}

    def show(self, study: Study, renderer: str | None = None) -> None:
        """Put a study on the page; what the page opens first. A renderer comes before the study's own."""
        if renderer is not None:
            self._renderers[study.stored.uid] = renderer
        self._simulators[study.stored.uid] = study.definition.simulator
        self.current = study.stored.uid

    def start(self) -> None:
        """Start the workers, so that they are there when somebody answers."""
        self.storage.alarmed = LOG.error
        self.drawing.start()
        self.computing.start()
        self.news.start()

    async def draw_ahead(self) -> None:
        """Have the pairs drawn that wait for somebody, so that the first page finds them drawn."""
        if self.current is None:
            await off_loop(self._records)
            return
        session = await self.open(self.current)
        for pair in await session.read(lambda history: [history.asked[number][0] for number in history.open.values()]):
            self.cards.show(session.renderer, *drawn_ahead(pair), study=session.uid)

    def close(self) -> None:
        """End the workers, and what hears of studies."""
        self.storage.alarmed = None
        self.news.close()
        for session in self._sessions.values():
            session.close()
        self.computing.close()
        self.figures.close()
        self.drawing.close()

    def _records(self) -> list[Record]:
        """The studies as they are stored now; one that is open takes a name that it got elsewhere."""
        found = self.storage.studies()
        for record in found:
            self._names[record.name] = record.uid
            session = self._sessions.get(record.uid)
            if session is not None and session.study.name != record.name:
                session.study.stored = record
        return found

    def listed(self) -> list[Plain]:
        """The studies there are."""
        return [{"id": record.uid, "name": record.name, "created": record.created} for record in self._records()]

    def called(self, name: str) -> str | None:
        """The identity of the study of that name; else of the one that was seen under it before."""
        now = {record.name: record.uid for record in self._records()}
        before = self._names.get(name)
        return now.get(name) or (before if before in now.values() else None)

    def counted(self) -> list[Plain]:
        """The same with their answers and voters; each is read again only when something happened in it."""
        found = {}
        for record in self._records():
            known = self._counted.get(record.uid)
            if known is None or known[0] != (record.events, record.name):
                known = ((record.events, record.name), asdict(collection.listed(self.storage, record)))
            found[record.uid] = known
        self._counted = found
        return [{"id": uid} | row for uid, (_, row) in found.items()]

    def rename(self, session: Session, name: Any) -> None:
        """Give a study another name; sessions know it by its identity and go on."""
        self.renamed(session)
        session.study.stored = collection.renamed(self.storage, session.study.stored, name)

    def renamed(self, session: Session) -> None:
        """Take in the name that a study got elsewhere; a sentence where it was deleted."""
        session.study.stored = self.storage.latest(session.study.stored)

    def delete(self, session: Session) -> None:
        """Remove a study for good, and forget its session."""
        self.renamed(session)
        self.storage.delete(session.study.stored)

    def forget(self, uid: str) -> None:
        """Close the session of a study that was deleted, here or elsewhere, and end what its pages hear."""
        session = self._sessions.pop(uid, None)
        if session is not None:
            session.close()
        self.current = None if self.current == uid else self.current
        self.news.end(uid)

    def opened(self, uid: str) -> Session | None:
        """The session of a study, if somebody has opened it."""
        return self._sessions.get(uid)

    async def open(self, uid: str) -> Session:
        """The same off the loop; many who wait for one study take one thread."""
        found = self._sessions.get(uid)
        if found is not None:
            return found
        if uid not in self._opening:
            self._opening[uid] = asyncio.create_task(off_loop(self.session, uid))
            self._opening[uid].add_done_callback(lambda _: self._opening.pop(uid))
        return await asyncio.shield(self._opening[uid])

    def session(self, uid: str) -> Session:
        """The study of that identity: one session, whoever opens it first."""
        found = self._sessions.get(uid)
        if found is not None:
            return found
        # Others are opened meanwhile: a long study takes seconds.
        with self._locks.setdefault(uid, Lock()):
            if uid not in self._sessions:
                self._sessions[uid] = self._opened(uid)
            return self._sessions[uid]

    def _opened(self, uid: str) -> Session:
        record = next((one for one in self._records() if one.uid == uid), None)
        if record is None:
            raise UnknownNameError("There is no such study here; it may have been deleted.")
        study = Study(self.storage, record, simulator=self._simulators.get(uid) or self._simulator(record))
        return Session(study, self.renderer_of(study), self.computing, self.cards, self.figures)

    def renderer_of(self, study: Study) -> str | None:
        """What draws a study's designs: the one that it was shown with, else its own if the command line allows it."""
        own = study.definition.render
        if study.stored.uid in self._renderers:
            return self._renderers[study.stored.uid]
        return own if own in self.renderers else None

    def missing_renderer(self, study: Study) -> str | None:
        """A sentence where a study's designs would be drawn, but by a function that the command line did not name."""
        own = study.definition.render
        if own is None or self.renderer_of(study) is not None:
            return None
        return (
            f"The pictures of this study are drawn by {own}, which this page was not started with: only values are "
            f"shown. Stop the page and start it with `{self._command(study.name, own)}`."
        )

    def _command(self, name: str, renderer: str) -> str:
        """What starts the page with a study and its pictures."""
        usual = os.environ.get(ENVIRONMENT) or DEFAULT_STORAGE
        where = [] if self.storage.url == usual else ["--storage", self.storage.url]
        return shlex.join(["kappasharp", "serve", name, "--render", renderer, *where])

    def _simulator(self, record: Record) -> OutcomeFunction | None:
        """What computes the outcomes of a stored study, if the command line named it."""
        outcomes = from_plain(record.definition).outcomes
        if outcomes is None or outcomes.function is None or outcomes.function not in self.functions:
            return None
        return simulator.of(outcomes.function)

    def create(self, given: Plain) -> str:
        """Make the study that the page describes; its identity."""
        wanted = self.described(given)
        made = collection.store(wanted.definition, storage=self.storage, study_name=wanted.name)
        self._renderers[made.stored.uid] = made.definition.render
        self._simulators[made.stored.uid] = made.definition.simulator
        return made.stored.uid

    async def rehearsed(self, definition: Definition, person: str, questions: int) -> Plain:
        """How a simulated person fares; one at a time, or nobody would be left to compute questions for people."""
        async with self._rehearsing:
            given, turn = (definition, person, questions), Turn()
            found: Plain = await workers.elsewhere(
                self.figures, Job.REHEARSED, *given, turn=turn, limit=workers.PATIENT_LIMIT
            )
            return found

    def described(self, given: Plain) -> Wanted:
        """The study that the page describes, by a table or as TOML."""
        table = _table(given)
        found = study_toml.parse(table, "study")
        self._check_function(found.options.get("outcomes"))
        chosen = given.get("renderer", NO_RENDERER) or found.render or None
        if chosen is not None and chosen not in self.renderers:
            raise InvalidValueError(
                f"The page runs no code that the command line did not name: start `kappasharp serve --render {chosen}` "
                "to use that renderer."
            )
        options = found.options if chosen is None else found.options | {"render": chosen}
        return Wanted(found.name, creation.define(found.space, **options))

    def _check_function(self, given: Any) -> None:
        """To define a study with outcomes is to run their function: not one that a request names."""
        function = None if given is None else outcomes.read_given(given)[0]
        if function is not None and function not in self.functions:
            raise InvalidValueError(
                "The page runs no code that the command line did not name: start `kappasharp serve --outcomes "
                f"{function}` to have these outcomes computed."
            )


def _table(given: Plain) -> dict[str, Any]:
    text = given.get("toml")
    if text is None:
        return {"name": given.get("name", "study"), "parameters": given.get("parameters")} | _options(given)
    if not isinstance(text, str):
        raise InvalidTypeError("`toml` must be a text.")
    table = study_toml.read_table(text, "This")
    name = given.get("name")
    return table | ({"name": name} if name else {})


def _options(given: Plain) -> dict[str, Any]:
    return {
        entry: given[entry]
        for entry in ("method", "question", "outcomes", "limits", "favourites", "tell_apart")
        if given.get(entry)
    }
