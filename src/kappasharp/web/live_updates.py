"""News of studies for every page that is open: one stream of server-sent events each, no asking again.

One thread watches all studies, whoever writes to them: PostgreSQL tells as it happens, elsewhere it looks every now and
then.

A message says all that a page shows of others: how many answers there are, how things stood when that was last
computed, and what the study is called. Whoever missed some needs the last one only. A stream that says nothing is still
a sign that the server is there, and its end that it is not.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from threading import Event, Thread, main_thread
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from kappasharp.errors import DeletedError, KappaSharpError, LostEventsError, ReplacedError, StorageError
from kappasharp.journal import voters as journal_voters
from kappasharp.journal.history import History
from kappasharp.store.storage import Head, Storage
from kappasharp.study.snapshot import Plain
from kappasharp.web import access
from kappasharp.web.connections import MOST_STREAMS
from kappasharp.web.open_study import Session
from kappasharp.web.workers import Job

LOG = logging.getLogger("kappasharp")
# Seconds between signs of life, and between two messages; and how much longer for each page that hears them.
BEAT, PACE, PACE_EACH = 3.0, 0.2, 0.0025
# Among how many last events a message names answers that surprised the model: a page asks about its own.
LATELY = 1000
HERE = b": here\n\n"
HEADERS = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
# Seconds between two looks where nobody tells, and where PostgreSQL does, for what it may have missed.
LOOKING, LISTENING = 0.4, 5.0
# Seconds of one wait, so that the thread hears that it is to end.
SHORT = 0.4


class Holder(Protocol):
    """What holds the studies that are open: the service."""

    storage: Storage

    def opened(self, uid: str) -> Session | None:
        """The session of a study, if somebody has opened it."""

    def renamed(self, session: Session) -> None:
        """Take in the name that a study got elsewhere."""

    def forget(self, uid: str) -> None:
        """A study was deleted."""


class Topic:
    """What there is to say of one study."""

    def __init__(self, session: Session, service: Holder) -> None:
        self.session, self.service = session, service
        self.version, self.message, self.is_over = 0, b"", False
        self.streams = self._beats = 0
        self._head: Plain = {}
        self._standing: Plain | None = None
        self._failed = False
        self._figured = -1
        self._stirred = False
        self._following: asyncio.Task[None] | None = None
        self._figuring: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        session.stock.heard = self.stir

    def stir(self) -> None:
        """Something may have happened."""
        self._stirred = True
        if not self.is_over and (self._following is None or self._following.done()):
            self._following = asyncio.create_task(self._follow())

    async def messages(self, is_still_in: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        """What one page hears: the last message whenever there is another, else that the server is there."""
        self.streams += 1
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())
        try:
            yield HERE
            await self.look()
            version = asked = -1
            while True:
                # At every beat, not at every message: among hundreds of pages that would be most of the work.
                if self._beats != asked:
                    asked = self._beats
                    if not await is_still_in():
                        return
                if self.version != version:
                    version = self.version
                    yield self.message
                if self.is_over:
                    return
                await self._moved.wait()
                if self.version == version:
                    yield HERE
        finally:
            self.streams -= 1

    async def _beat(self) -> None:
        """One clock for all streams: each says that the server is there."""
        while self.streams and not self.is_over:
            await asyncio.sleep(BEAT)
            self._beats += 1
            self._wake()

    async def _follow(self) -> None:
        """Say what happened; several things within a moment at once."""
        while self._stirred and not self.is_over:
            self._stirred = False
            await self.look()
            await asyncio.sleep(PACE + PACE_EACH * self.streams)

    async def look(self) -> None:
        """Read how the study stands, and say so where that is news."""
        try:
            found, others = await self.session.aside(self._read)
        except StorageError as error:
            # Whoever asks for something is told; the watch stirs again when the database answers.
            LOG.info("%s", error)
            return
        if found is None:
            self.service.forget(self.session.study.stored.uid)
            return
        if others:
            self.session.overtaken()
        self._head = found
        self._say()
        if self.streams and (self._figuring is None or self._figuring.done()):
            self._figuring = asyncio.create_task(self._figure())

    def _read(self) -> tuple[Plain | None, bool]:
        """Where the study stands, None where it was deleted; and whether others than this process wrote to it."""
        study = self.session.study
        head = study.storage.heads().get(study.stored.uid)
        if head is None:
            with suppress(DeletedError):
                study.storage.latest(study.stored)
            return None, False
        if head.name != study.name:
            self.service.renamed(self.session)
        return study.since(_head)

    async def _figure(self) -> None:
        """Have the figures computed, as long as they are not of now."""
        while self.streams and not self.is_over and self._figured != self._head["since"]:
            self._figured = self._head["since"]
            try:
                self._standing = await self.session.view("standing", Job.STANDING)
                self._failed = False
            except (ReplacedError, LostEventsError):
                self._failed = True
            except KappaSharpError as error:
                LOG.warning("The figures could not be computed: %s", error)
                self._failed = True
            except Exception:
                LOG.exception("The figures could not be computed.")
                self._failed = True
            self._say()

    def _say(self) -> None:
        told = self._head | {"name": self.session.study.name, "failed": self._failed}
        text = json.dumps(told | {"standing": _short(self._standing)}, separators=(",", ":"))
        message = f"data: {text}\n\n".encode()
        if message != self.message:
            self.message, self.version = message, self.version + 1
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def end(self) -> None:
        """The study was deleted: say so, and end its streams."""
        self.message, self.version, self.is_over = b"event: deleted\ndata: {}\n\n", self.version + 1, True
        self._wake()


def _head(history: History) -> Plain:
    """Up to which event, how many answers, and how many voters."""
    voters = len(journal_voters.known(history))
    return {"since": history.moved_at, "answers": len(history.counted()), "voters": voters}


def _short(standing: Plain | None) -> Plain | None:
    """What a page shows beside its question."""
    if standing is None:
        return None
    best, last = standing["best"], max(standing["surprises"], default=0)
    figures = None if best is None else {name: best[name] for name in ("option", "beats_random", "room_left")}
    lately = [event for event in standing["surprises"] if event > last - LATELY]
    return {"since": standing["since"], "answers": standing["answers"], "best": figures, "surprises": lately}


class News:
    """The topics of one server, and who tells them."""

    def __init__(self, service: Holder) -> None:
        self.service = service
        self.streams = 0
        self._topics: dict[str, Topic] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: Watch | None = None

    def start(self) -> None:
        """Hear what this process writes, and what others do."""
        self._loop = asyncio.get_running_loop()
        self.service.storage.told = self._told
        self._watch = Watch(self.service.storage, self._told)
        self._watch.start()

    def _told(self, uid: str) -> None:
        assert self._loop is not None
        # A loop that has ended hears nothing.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stir, uid)

    def _stir(self, uid: str) -> None:
        session = self.service.opened(uid)
        if session is not None:
            self.topic(session).stir()

    def topic(self, session: Session) -> Topic:
        """What there is to say of the study of a session."""
        uid = session.study.stored.uid
        if uid not in self._topics:
            self._topics[uid] = Topic(session, self.service)
        return self._topics[uid]

    def end(self, uid: str) -> None:
        """A study is gone."""
        topic = self._topics.pop(uid, None)
        if topic is not None:
            topic.end()

    async def stream(self, topic: Topic | None, is_still_in: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        """What one page hears, as long as its person is let in; without a study, that the server is there."""
        self.streams += 1
        try:
            if topic is None:
                while await is_still_in():
                    yield HERE
                    await asyncio.sleep(BEAT)
            else:
                async for message in topic.messages(is_still_in):
                    yield message
        finally:
            self.streams -= 1

    def close(self) -> None:
        """Hear nothing any more."""
        self.service.storage.told = None
        if self._watch is not None:
            self._watch.close()


async def news(request: Request) -> Response:
    """The stream of a page: `?study=` names the study that it shows, if it shows one."""
    service = request.app.state.service
    shown, who = request.query_params.get("study") or None, access.visitor(request)
    if shown is not None and (refusal := access.not_let_in(who, shown)) is not None:
        return refusal
    if service.news.streams >= MOST_STREAMS:
        return PlainTextResponse("Too many pages hear the news already; this one asks again.", 503)
    topic = None if not shown else service.news.topic(await service.open(shown))
    stream = service.news.stream(topic, lambda: access.is_still_in(request, shown))
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


class Watch:
    """Calls `tell` with the identity of every study that somebody wrote to, renamed or deleted, from its own thread."""

    def __init__(self, storage: Storage, tell: Callable[[str], None]) -> None:
        self.storage, self.tell = storage, tell
        self._ended = Event()
        self._heads: dict[str, Head] | None = None
        self._thread = Thread(target=self._run, name="news of studies", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """Watch no longer."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(2.0)

    def _run(self) -> None:
        troubled = False
        while not self._ended.is_set():
            try:
                self._look()
                self._listen()
                troubled = False
            except StorageError as error:
                # Said once: whoever asks for anything meanwhile is told what is wrong, and this goes on trying. Where
                # Python is about to exit, it has closed the database before this thread could hear of it.
                # What is wrong with the file of a database, the database has said itself.
                if not troubled and main_thread().is_alive() and not isinstance(error, ReplacedError):
                    LOG.warning("What others answer is not seen for now: %s", error)
                troubled = True
                self._ended.wait(LOOKING)

    def _listen(self) -> None:
        """Tell what the database tells, and look at all studies now and then; until something goes wrong."""
        with self.storage.listening() as heard:
            waited = 0.0
            while not self._ended.is_set():
                news = heard(SHORT)
                if news is None:
                    self._ended.wait(LOOKING)
                for uid in news or ():
                    self.tell(uid)
                waited += SHORT
                if news is None or waited >= LISTENING:
                    self._look()
                    waited = 0.0

    def _look(self) -> None:
        found = self.storage.heads()
        before = found if self._heads is None else self._heads
        self._heads = found
        for uid in found.keys() | before.keys():
            if found.get(uid) != before.get(uid):
                self.tell(uid)
