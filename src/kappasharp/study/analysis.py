"""`StudyView`, a study as it may be looked at: its history kept up to date, its moments, its files and its page.

It reads from a database and stores nothing. What a moment tells is in `kappasharp/analysis.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kappasharp.analysis import KeptModel, Moment, ToldStudy
from kappasharp.errors import InvalidTypeError
from kappasharp.exchange import study_json, tables
from kappasharp.journal import events
from kappasharp.journal.definition import Definition, from_plain
from kappasharp.journal.history import History
from kappasharp.space.outcomes import OutcomeFunction
from kappasharp.store.storage import Record, Storage
from kappasharp.views import report, summary
from kappasharp.views.figures import Plots

if TYPE_CHECKING:
    from kappasharp.engine import FittedModel

Found = TypeVar("Found")


class StudyView(ToldStudy):
    """A study as it may be looked at."""

    def __init__(
        self, storage: Storage, record: Record, through: int | None = None, simulator: OutcomeFunction | None = None
    ) -> None:
        self.storage, self.stored = storage, record
        self.through = None if through is None else events.whole("through", through)
        self._definition: Definition = replace(from_plain(record.definition), simulator=simulator)
        self._history = History(record.uid, space=self._definition.space, limited=self._definition.limited)
        self._lock = RLock()
        self._kept = KeptModel()
        self.refresh()

    def __repr__(self) -> str:
        answers = self.glance(lambda history: len(history.counted()))
        return f"<Study {self.name!r} in {self.storage.url}: {answers} answers>"

    def __reduce__(self) -> NoReturn:
        raise InvalidTypeError(
            "A study must be opened where it is used, because it holds a connection to its database, but "
            f"{self.name!r} was to be pickled or copied; `ks.load_study({self.name!r}, storage={self.storage.url!r})` "
            "opens it elsewhere, and one in memory goes there by `export` and `ks.import_json`."
        )

    @property
    def definition(self) -> Definition:
        """What it was made with, and of its parameters what is open now."""
        # Without the lock: the page asks for it where nobody may wait.
        found, space = self._definition, self._history.space
        if space is not None and found.space is not space:
            self._definition = found = replace(found, space=space)
        return found

    @property
    def history(self) -> History:
        """What has happened, up to now; it goes on as the study does, and that of `moment` stays as it is."""
        self.refresh()
        return self._history

    def moment(self) -> Moment:
        """The study up to now, apart from it: the same however much happens meanwhile.

        For whoever tells several things that must fit together: `now = study.moment()`, then `now.best`,
        `now.history`, `now.rows("options")` and all else speak of the same answers, however long each takes.
        """
        with self._lock:
            self.refresh()
            return Moment(self.stored, self.definition, self._history.copied(), self._kept)

    def refresh(self) -> None:
        """Take in what others have done since."""
        with self._lock:
            self._history.extend(self.storage.read(self.stored, self._history.number, self.through))

    def read(self, look: Callable[[History], Found]) -> Found:
        """What a function makes of the history up to now; no other thread changes it meanwhile."""
        with self._lock:
            self.refresh()
            return look(self._history)

    def since(self, look: Callable[[History], Found]) -> tuple[Found, bool]:
        """The same, and whether others than the holders of this object wrote to the study since it was last read."""
        with self._lock:
            before = self._history.number
            self.refresh()
            found = look(self._history)
            return found, self._history.number > before

    def glance(self, look: Callable[[History], Found]) -> Found:
        """The same of the history as it was last read: for who has just written, and needs no newer one."""
        with self._lock:
            return look(self._history)

    def _model(self) -> "FittedModel":
        """The model of all answers, for who holds the lock and goes on with the history as it was last read."""
        return self._kept.of(self.name, self.definition, self._history)

    def export(self, path: str | Path, *, table: str = "comparisons") -> Path:
        """Write the study to a file, all of it or nothing, and return the path.

        Args:
            path: .json holds every event, for `import_json`; .csv and .parquet hold one table; .html is a report with
                pictures.
            table: "comparisons", one row for each answer, or "options", one row for each design.
        """
        target = tables.path_of(path)
        tables.check_path(target)
        if target.suffix == ".html":
            return report.write_html(self.moment(), target)
        return tables.write(target, self.plain() if target.suffix == ".json" else self.rows(table))

    @property
    def plot(self) -> Any:
        """Figures with matplotlib: `plot.progress()`, `plot.slices()`, `plot.designs()`, `plot.agreement()`."""
        return Plots(self)

    def show(self, render: str | Callable[..., Any] | None = None, *, height: int = 720) -> Any:
        """The page, to answer in: a notebook shows it in a frame, and `url` opens it in a tab. It runs until `close`.

        Args:
            render: draws a design, `render(params)`: a function of a module, or its name "module:function".
            height: of the frame, in pixels.
        """
        return import_module("kappasharp.notebook.frame").show(self, render, height=height)

    def _repr_html_(self) -> str:
        return summary.study_html(self.moment(), self.storage.url)

    def plain(self) -> dict[str, Any]:
        """All of the study as plain data: what its JSON file holds."""
        return study_json.plain(self.stored, self.storage.read(self.stored, 0, self.through))
