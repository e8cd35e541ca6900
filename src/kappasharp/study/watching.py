"""News of a database's studies, whoever wrote to them: from PostgreSQL as they happen, else by looking again and again.

One thread watches all studies.
"""

import logging
from collections.abc import Callable
from threading import Event, Thread, main_thread

from kappasharp.errors import StorageError
from kappasharp.study.storage import Head, Storage

LOG = logging.getLogger("kappasharp")
# Seconds between two looks where nobody tells, and where PostgreSQL does, for what it may have missed.
LOOKING, LISTENING = 0.4, 5.0
# Seconds of one wait, so that the thread hears that it is to end.
SHORT = 0.4


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
                if not troubled and main_thread().is_alive():
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
