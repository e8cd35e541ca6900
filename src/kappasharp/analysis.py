"""What a study tells of itself, and `Moment`, the study at one event: definition, history, and what follows from them.

Who tells several things that must fit together asks one moment for them: a study goes on while others answer. What is
computed comes through `engine()`, and the fitted models are kept as long as the answers are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any

from kappasharp.engine import engine
from kappasharp.errors import InvalidValueError, named
from kappasharp.exchange import tables
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History, design_key
from kappasharp.messages.message import Sentence
from kappasharp.simulators import records
from kappasharp.space.outcomes import Better, Values
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design, Space
from kappasharp.store.storage import Record

if TYPE_CHECKING:
    from kappasharp.engine import FittedModel
    from kappasharp.results.agreement import Agreement
    from kappasharp.results.best import Best, Slice
    from kappasharp.results.diagnosis import Diagnosis
    from kappasharp.results.outcomes import TradeOff


class ToldStudy(ABC):
    """What a study tells of itself, each from one moment: the best design, the model, outcomes, tables."""

    stored: Record

    @abstractmethod
    def moment(self) -> "Moment":
        """The study at one event, from which all is told."""

    @property
    @abstractmethod
    def definition(self) -> Definition:
        """What it was made with, and of its parameters what is open."""

    @property
    def name(self) -> str:
        """The study's name."""
        return self.stored.name

    @property
    def space(self) -> Space:
        """Its parameters: what is open of them, in the space of all that ever was."""
        return self.definition.space

    @property
    @abstractmethod
    def history(self) -> History:
        """What has happened."""

    def model(self) -> "FittedModel":
        """The model of all answers so far, fitted once for the same answers."""
        return self.moment().alike

    @property
    def best(self) -> "Best":
        """The best design seen, how sure the model is of it, and what to do next; by weights where `weigh` set some."""
        now = self.moment()
        return engine().best(now.definition, now.history, now.alike, now.of_all)

    def best_for(self, voter: str) -> "Best":
        """The best design seen for one voter, told apart from the others by their own answers.

        Who has not answered yet is taken to like what all share, with all the doubt that leaves.
        """
        now = self.moment()
        return engine().best_for(now.definition, now.history, now.apart, voter)

    def agreement(self) -> "Agreement":
        """What the voters have in common: the best for all and for each, the fairest, who is like whom, what splits.

        Voters who have not answered yet are predicted, and said to be; `Study.weigh` lets some count more than others.
        """
        now = self.moment()
        return engine().agreement(now.definition, now.history, now.apart)

    @property
    def best_params(self) -> Design:
        """The parameters of the best design."""
        now = self.moment()
        return dict(now.history.options[engine().incumbent(now.of_all)])

    def predict(self, a: Mapping[str, Value], b: Mapping[str, Value]) -> float:
        """The chance that you would answer "a", were you asked about these two designs next; ties are left out.

        Args:
            a: one design, seen or not.
            b: the other.
        """
        now = self.moment()
        first, second = now._designs(a, b, "a", "b")
        return engine().predict(now.definition, now.alike, first, second)

    def diagnostics(self) -> "Diagnosis":
        """What the answers determine and where they contradict each other; print it for the words."""
        now = self.moment()
        return engine().diagnose(now.definition, now.history, now.alike, now.of_all)

    def outcomes(self, design: Mapping[str, Value]) -> Values | None:
        """The outcomes of a design: as they were recorded, or else computed now; None where nothing gives them.

        Args:
            design: seen or not, its fixed parameters or not.
        """
        now = self.moment()
        return records.values(now.definition, now.history, now.space.check(design))

    def tradeoffs(self) -> "list[TradeOff]":
        """The designs whose outcomes are known, which of them no other beats in all outcomes, and the best of them."""
        now = self.moment()
        model = now.of_all if now.history.counted() else None
        return engine().tradeoffs(now.definition, now.history, model)

    def taste(self) -> "list[Slice]":
        """How utility runs along each outcome about the best design, which stays as it is otherwise.

        Values in the outcome's own units, utilities above the best design's own with a band of one deviation. Empty
        where the model learns on parameters alone.
        """
        now = self.moment()
        return engine().outcome_slices(now.definition, now.history, now.of_all)

    def directions(self) -> dict[str, Better | None]:
        """Which way each outcome is better, "less" or "more": as hinted, or as learnt; None where that is open."""
        now = self.moment()
        model = now.alike if now.history.counted() else None
        return engine().directions(now.definition, now.history, model)

    def notes(self) -> list[Sentence]:
        """How outcomes and limits stand, in sentences; what people say of a design is in `notes_on`."""
        now = self.moment()
        return engine().warnings(now.definition, now.history)

    def notes_on(self, design: Mapping[str, Value]) -> dict[str, str]:
        """What each voter has said of a design, by `Study.note`.

        Args:
            design: seen or not, its fixed parameters or not.
        """
        now = self.moment()
        return now.history.said_of(now.space.check(design))

    def options_dataframe(self) -> Any:
        """A pandas table, one row for each design: its parameters, its comparisons, the model's utility."""
        return tables.dataframe(self.rows("options"))

    def comparisons_dataframe(self) -> Any:
        """A pandas table, one row for each answer, skips included."""
        return tables.dataframe(self.rows("comparisons"))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table, "comparisons" or "options", as plain rows."""
        named("table", table, dict.fromkeys(tables.TABLES))
        now = self.moment()
        names = () if now.definition.outcomes is None else now.definition.outcomes.names
        if table == "comparisons":
            return tables.comparisons(now.history, names)
        utility = dict(zip(now.alike.options, now.alike.utility, strict=True)) if now.history.counted() else {}
        return tables.options(now.history, utility, names)

    def _designs(self, one: Mapping[str, Value], other: Mapping[str, Value], *names: str) -> tuple[Design, Design]:
        first, second = self.space.check(one), self.space.check(other)
        if design_key(first) == design_key(second):
            raise InvalidValueError(f"`{names[0]}` and `{names[1]}` must be two designs, but got {first} twice.")
        return first, second


class KeptModel:
    """The last model of a study, fitted once for the same answers. Threads may share it."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._last: tuple[Any, FittedModel] | None = None
        self._apart: tuple[FittedModel, FittedModel] | None = None

    def of(self, name: str, definition: Definition, history: History) -> "FittedModel":
        """The model of all answers of a history; a sentence about the study of that name where there are none."""
        with self._lock:
            counted = history.counted()
            if not counted:
                raise InvalidValueError(
                    f"The study {name!r} has no answers yet that tell anything; `ask` and `tell` come first."
                )
            memo = history.memo(len(counted))
            outcomes = history.outcomes_since(engine().rests_on_records(definition))
            key = (tuple((one.event, one.answer) for one in counted), id(memo), outcomes, history.space)
            if self._last is None or self._last[0] != key:
                self._last = self._apart = None  # a long study's model is large: not two at once
                self._last = (key, engine().fit(definition, history))
            return self._last[1]

    def apart(self, history: History, model: "FittedModel") -> "FittedModel":
        """The model that tells voters apart, from the one that takes them alike."""
        with self._lock:
            if self._apart is None or self._apart[0] is not model:
                self._apart = (model, engine().individual(history, model))
            return self._apart[1]


class Moment(ToldStudy):
    """A study as it stood after one event. It never changes, and goes to another process without what was fitted."""

    def __init__(self, stored: Record, definition: Definition, history: History, kept: KeptModel | None = None) -> None:
        self.stored, self._definition, self._history = stored, definition, history
        self._kept = KeptModel() if kept is None else kept

    def __repr__(self) -> str:
        return f"<Study {self.name!r} at event {self.number}: {len(self._history.counted())} answers>"

    def __reduce__(self) -> Any:
        return Moment, (self.stored, self._definition, self._history)

    def moment(self) -> "Moment":
        """This one."""
        return self

    @property
    def number(self) -> int:
        """The number of the event that it speaks up to."""
        return self._history.number

    @property
    def definition(self) -> Definition:
        """What the study was made with, and of its parameters what was open then."""
        return self._definition

    @property
    def history(self) -> History:
        """What had happened by then."""
        return self._history

    @cached_property
    def alike(self) -> "FittedModel":
        """The model that takes all answers alike."""
        return self._kept.of(self.name, self._definition, self._history)

    @cached_property
    def apart(self) -> "FittedModel":
        """The model that tells voters apart."""
        return self._kept.apart(self._history, self.alike)

    @cached_property
    def of_all(self) -> "FittedModel":
        """The model that tells what is best for all: that of all answers, or where weights are set, one by them."""
        return engine().for_all(self._history, self.alike, lambda: self.apart)
