"""What a study tells of itself: the best design, the model, outcomes, tables and files. Nothing here is stored."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.faces import face
from kappasharp.sentences import Sentence
from kappasharp.study import computing, events, exchange, recording
from kappasharp.study.definition import Definition, from_plain
from kappasharp.study.history import History, design_key
from kappasharp.study.outcomes import Better, Values
from kappasharp.study.parameters import Value
from kappasharp.study.simulation import Simulator
from kappasharp.study.space import Design, Space
from kappasharp.study.storage import Record, Storage

if TYPE_CHECKING:
    from kappasharp.study.agreement import Agreement
    from kappasharp.study.certainty import Best, Slice
    from kappasharp.study.diagnosis import Diagnosis
    from kappasharp.study.learning import StudyModel
    from kappasharp.study.tradeoffs import TradeOff

Found = TypeVar("Found")


class StudyView:
    """A study as it may be looked at."""

    def __init__(
        self, storage: Storage, record: Record, through: int | None = None, simulator: Simulator | None = None
    ) -> None:
        self.storage, self.stored = storage, record
        self.through = None if through is None else events.whole("through", through)
        self._definition: Definition = replace(from_plain(record.definition), simulator=simulator)
        self._history = History(record.uid, space=self._definition.space, limited=self._definition.limited)
        self._lock = RLock()
        self._learnt: tuple[Any, StudyModel] | None = None
        self._apart: tuple[StudyModel, StudyModel] | None = None
        self.refresh()

    def __repr__(self) -> str:
        return f"<Study {self.name!r} in {self.storage.url}: {len(self._history.counted())} answers>"

    def __reduce__(self) -> NoReturn:
        raise InvalidTypeError(
            "A study must be opened where it is used, because it holds a connection to its database, but "
            f"{self.name!r} was to be pickled or copied; `ks.load_study({self.name!r}, storage={self.storage.url!r})` "
            "opens it elsewhere, and one in memory goes there by `export` and `ks.import_json`."
        )

    @property
    def name(self) -> str:
        """The study's name."""
        return self.stored.name

    @property
    def definition(self) -> Definition:
        """What it was made with, and of its parameters what is open now."""
        # Without the lock: the page asks for it where nobody may wait.
        found, space = self._definition, self._history.space
        if space is not None and found.space is not space:
            self._definition = found = replace(found, space=space)
        return found

    @property
    def space(self) -> Space:
        """Its parameters: what is open of them now, in the space of all that ever was."""
        return self.definition.space

    @property
    def history(self) -> History:
        """What has happened, up to now."""
        self.refresh()
        return self._history

    def refresh(self) -> None:
        """Take in what others have done since."""
        with self._lock:
            self._history.extend(self.storage.read(self.stored, self._history.number, self.through))

    def read(self, look: Callable[[History], Found]) -> Found:
        """What a function makes of the history up to now; no other thread changes it meanwhile."""
        with self._lock:
            return look(self.history)

    def since(self, look: Callable[[History], Found]) -> tuple[Found, bool]:
        """The same, and whether others than the holders of this object wrote to the study since it was last read."""
        with self._lock:
            before = self._history.number
            found = look(self.history)
            return found, self._history.number > before

    def glance(self, look: Callable[[History], Found]) -> Found:
        """The same of the history as it was last read: for who has just written, and needs no newer one."""
        with self._lock:
            return look(self._history)

    def model(self) -> "StudyModel":
        """The model of all answers so far, fitted once for the same answers."""
        with self._lock:
            counted = self._history.counted()
            if not counted:
                raise InvalidValueError(
                    f"The study {self.name!r} has no answers yet that tell anything; `ask` and `tell` come first."
                )
            memo = self._history.memo(len(counted))
            outcomes = self._history.outcomes_since(computing.lifting.rests_on_records(self.definition))
            key = (tuple((one.event, one.answer) for one in counted), id(memo), outcomes, self._history.space)
            if self._learnt is None or self._learnt[0] != key:
                self._learnt = self._apart = None  # a long study's model is large: not two at once
                self._learnt = (key, computing.learning.learn(self.definition, self._history))
            return self._learnt[1]

    @property
    def best(self) -> "Best":
        """The best design seen, how sure the model is of it, and what to do next; by weights where `weigh` set some."""
        with self._lock:
            self.refresh()
            return computing.people.best(self.definition, self._history, self.model(), self.model_of_all())

    def best_for(self, voter: str) -> "Best":
        """The best design seen for one voter, told apart from the others by their own answers.

        Who has not answered yet is taken to like what all share, with all the doubt that leaves.
        """
        with self._lock:
            self.refresh()
            return computing.people.best_for(self.definition, self._history, self._told_apart(), voter)

    def agreement(self) -> "Agreement":
        """What the voters have in common: the best for all and for each, the fairest, who is like whom, what splits.

        Voters who have not answered yet are predicted, and said to be; `Study.weigh` lets some count more than others.
        """
        with self._lock:
            self.refresh()
            return computing.agreement.agreement(self.definition, self._history, self._told_apart())

    def model_of_all(self) -> "StudyModel":
        """The model that tells what is best for all: that of all answers, or where weights are set, one by them."""
        with self._lock:
            return computing.people.of_all(self._history, self.model(), self._told_apart)

    def _told_apart(self) -> "StudyModel":
        """The model that tells voters apart, fitted once for the same answers."""
        model = self.model()
        if self._apart is None or self._apart[0] is not model:
            self._apart = (model, computing.people.told_apart(self._history, model))
        return self._apart[1]

    @property
    def best_params(self) -> Design:
        """The parameters of the best design."""
        with self._lock:
            self.refresh()
            model = self.model_of_all()
            return dict(self._history.options[model.options[computing.learning.leading(model)]])

    def predict(self, a: Mapping[str, Value], b: Mapping[str, Value]) -> float:
        """The chance that you would answer "a", were you asked about these two designs next; ties are left out.

        Args:
            a: one design, seen or not.
            b: the other.
        """
        first, second = self._designs(a, b, "a", "b")
        with self._lock:
            self.refresh()
            return computing.certainty.predicted(self.definition, self.model(), first, second)

    def diagnostics(self) -> "Diagnosis":
        """What the answers determine and where they contradict each other; print it for the words."""
        with self._lock:
            self.refresh()
            return computing.diagnosis.diagnose(self.definition, self._history, self.model(), self.model_of_all())

    def outcomes(self, design: Mapping[str, Value]) -> Values | None:
        """The outcomes of a design: as they were recorded, or else computed now; None where nothing gives them.

        Args:
            design: seen or not, its fixed parameters or not.
        """
        whole = self.space.check(design)
        with self._lock:
            self.refresh()
            return recording.values(self.definition, self._history, whole)

    def tradeoffs(self) -> "list[TradeOff]":
        """The designs whose outcomes are known, which of them no other beats in all outcomes, and the best of them."""
        with self._lock:
            self.refresh()
            model = self.model_of_all() if self._history.counted() else None
            return computing.tradeoffs.tradeoffs(self.definition, self._history, model)

    def taste(self) -> "list[Slice]":
        """How utility runs along each outcome about the best design, which stays as it is otherwise.

        Values in the outcome's own units, utilities above the best design's own with a band of one deviation. Empty
        where the model learns on parameters alone.
        """
        with self._lock:
            self.refresh()
            return computing.tradeoffs.taste(self.definition, self._history, self.model_of_all())

    def directions(self) -> dict[str, Better | None]:
        """Which way each outcome is better, "less" or "more": as hinted, or as learnt; None where that is open."""
        with self._lock:
            self.refresh()
            model = self.model() if self._history.counted() else None
            return computing.tradeoffs.directions(self.definition, self._history, model)

    def notes(self) -> list[Sentence]:
        """How outcomes and limits stand, in sentences; what people say of a design is in `notes_on`."""
        with self._lock:
            self.refresh()
            return computing.diagnosis.notes(self.definition, self._history)

    def notes_on(self, design: Mapping[str, Value]) -> dict[str, str]:
        """What each voter has said of a design, by `Study.note`.

        Args:
            design: seen or not, its fixed parameters or not.
        """
        whole = self.space.check(design)
        return self.read(lambda history: history.said_of(whole))

    def options_dataframe(self) -> Any:
        """A pandas table, one row for each design: its parameters, its comparisons, the model's utility."""
        return exchange.dataframe(self.rows("options"))

    def comparisons_dataframe(self) -> Any:
        """A pandas table, one row for each answer, skips included."""
        return exchange.dataframe(self.rows("comparisons"))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table, "comparisons" or "options", as plain rows."""
        named("table", table, dict.fromkeys(exchange.TABLES))
        with self._lock:
            history = self.history
            names = () if self.definition.outcomes is None else self.definition.outcomes.names
            if table == "comparisons":
                return exchange.comparisons(history, names)
            return exchange.options(history, self.model() if history.counted() else None, names)

    def export(self, path: str | Path, *, table: str = "comparisons") -> Path:
        """Write the study to a file, all of it or nothing, and return the path.

        Args:
            path: .json holds every event, for `import_json`; .csv and .parquet hold one table; .html is a report with
                pictures.
            table: "comparisons", one row for each answer, or "options", one row for each design.
        """
        target = exchange.path_of(path)
        exchange.check_path(target)
        if target.suffix == ".html":
            written: Path = face("report")(self, target)
            return written
        return exchange.write(target, self.plain() if target.suffix == ".json" else self.rows(table))

    @property
    def plot(self) -> Any:
        """Figures with matplotlib: `plot.progress()`, `plot.slices()`, `plot.designs()`, `plot.agreement()`."""
        return face("plots")(self)

    def show(self, render: str | Callable[..., Any] | None = None, *, height: int = 720) -> Any:
        """The page, to answer in: a notebook shows it in a frame, and `url` opens it in a tab. It runs until `close`.

        Args:
            render: draws a design, `render(params)`: a function of a module, or its name "module:function".
            height: of the frame, in pixels.
        """
        return face("frame")(self, render, height=height)

    def _repr_html_(self) -> str:
        found: str = face("study_html")(self)
        return found

    def plain(self) -> dict[str, Any]:
        """All of the study as plain data: what its JSON file holds."""
        return exchange.plain(self.stored, self.storage.read(self.stored, 0, self.through))

    def _designs(self, one: Mapping[str, Value], other: Mapping[str, Value], *names: str) -> tuple[Design, Design]:
        first, second = self.space.check(one), self.space.check(other)
        if design_key(first) == design_key(second):
            raise InvalidValueError(f"`{names[0]}` and `{names[1]}` must be two designs, but got {first} twice.")
        return first, second
