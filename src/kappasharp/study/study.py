"""Study: ask, tell, best, undo. A view of the events in a database, and the few that it may add to them."""

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from kappasharp.errors import InvalidTypeError, InvalidValueError, StalePairError, StorageError, named
from kappasharp.study import certainty, diagnosis, events, exchange, kinds, learning, questions
from kappasharp.study.certainty import Best
from kappasharp.study.definition import Definition, from_plain
from kappasharp.study.diagnosis import Diagnosis
from kappasharp.study.events import (
    DEFAULT_VOTER,
    Added,
    Amended,
    Answered,
    Asked,
    Event,
    Queued,
    Settling,
    Stored,
    Undone,
)
from kappasharp.study.history import Comparison, History, StudyQuestion, design_key
from kappasharp.study.kinds import Answer, Form
from kappasharp.study.learning import StudyModel
from kappasharp.study.parameters import Value
from kappasharp.study.questions import DUELS
from kappasharp.study.space import Design, Space
from kappasharp.study.storage import Record, Storage

Decide = Callable[[History], Event | None]
Found = TypeVar("Found")


class Study:
    """One thing to tune. Several processes and threads may hold the same study; each sees what the others did."""

    def __init__(self, storage: Storage, record: Record, through: int | None = None) -> None:
        self.storage, self.record, self.through = storage, record, through
        self.definition: Definition = from_plain(record.definition)
        self._history = History(record.uid, space=self.definition.space)
        self._lock = RLock()
        self._learnt: tuple[Any, StudyModel] | None = None
        self.refresh()

    def __repr__(self) -> str:
        return f"<Study {self.name!r} in {self.storage.url}: {len(self._history.counted())} answers>"

    @property
    def name(self) -> str:
        """The study's name."""
        return self.record.name

    @property
    def space(self) -> Space:
        """Its parameters."""
        return self.definition.space

    @property
    def history(self) -> History:
        """What has happened, up to now."""
        self.refresh()
        return self._history

    def refresh(self) -> None:
        """Take in what others have done since."""
        with self._lock:
            self._history.extend(self.storage.read(self.record, self._history.number, self.through))

    def read(self, look: Callable[[History], Found]) -> Found:
        """What a function makes of the history up to now; no other thread changes it meanwhile."""
        with self._lock:
            return look(self.history)

    def ask(
        self,
        voter: str = DEFAULT_VOTER,
        *,
        kind: str | None = None,
        designs: int | None = None,
        proposed: Asked | None = None,
    ) -> StudyQuestion:
        """The question that waits for this voter's answer: the same one again until it is answered.

        Args:
            voter: a name; each voter has an open question of their own.
            kind: "pair", "choice", "order", "slider" or "rating", for this question instead of the study's usual; one
                of another kind that waits for this voter is withdrawn, and what was queued goes on waiting.
            designs: how many designs a choice or an order shows, 3 to 9; by default 4.
            proposed: what `propose` gives for the events up to now, where somebody has computed it ahead; one that
                rests on other events is not used.
        """
        voter, form = events.voter(voter), self.definition.wanted(kind, designs)
        with self._lock:
            self.refresh()
            while (found := self._waiting(voter, form)) is None:
                self._writable()
                if proposed is None or not self._rests_on_all(proposed, form):
                    proposed = self.propose(form, voter)
                self._put(voter, proposed, form)
                proposed = None
            return found

    def _waiting(self, voter: str, form: Form | None) -> StudyQuestion | None:
        found = self._history.open_pair(voter)
        return found if found is None or form is None or found.form == form else None

    def _put(self, voter: str, proposed: Asked, form: Form | None) -> None:
        self._write(voter, lambda history: questions.still_right(history, proposed, voter, form))

    def offer(self, voter: str, proposed: Asked, form: Form | None = None) -> StudyQuestion | None:
        """The question that waits for this voter: the open one, else the one that somebody computed elsewhere.

        None where that was overtaken and another must be computed. Unlike in `ask`, others may have answered since.
        """
        voter = events.voter(voter)
        with self._lock:
            self._put(voter, proposed, form)
            return self._waiting(voter, form)

    def _rests_on_all(self, proposed: Asked, form: Form | None) -> bool:
        waiting = next(iter(self._history.queue), None) if form is None else None
        return proposed.after == (self._history.number if waiting is None else waiting)

    def packed(self) -> tuple[int, bytes]:
        """The number of the last event, and definition and history as bytes for another process to look ahead with."""
        with self._lock:
            self.refresh()
            return self._history.number, pickle.dumps((self.definition, self._history))

    def propose(self, form: Form | None = None, voter: str | None = None) -> Asked:
        """The question that the next voter without one will be asked; nothing is stored."""
        with self._lock:
            needs_model = questions.rests_on_model(self.definition, self._history, form)
            model = self.model() if needs_model else None
            return questions.next_question(self.definition, self._history, model, form=form, leaving=voter)

    def tell(self, pair: StudyQuestion | int, answer: Answer, *, seconds: float | None = None) -> Comparison:
        """Store the answer to a question; it is durable when this returns.

        The same answer to the same question again is the first one again, with nothing stored: whoever lost the word
        that it was stored may say it once more. Otherwise a question that is not open, because it was answered or
        withdrawn, is refused with the one that is.

        Args:
            pair: what `ask` returned, or its number.
            answer: what its kind asks for, or "skip", of which the model does not hear. A pair: "a", "b" or "tie" (no
                difference; the model learns from it). A choice: the number of the best design, from 0 on. An order:
                the numbers, best first, equals in a list, such as [2, [0, 3], 1]; those left out come last. A slider:
                a place from 0 to 1. A rating: -3 to 3, above 0 where the first design is better.
            seconds: how long the voter took, where somebody measured it.
        """
        number, measured = self._number(pair), events.seconds(seconds)
        with self._lock:
            self.refresh()
            asked = self._asked(number)
            answered = Answered(number, kinds.answer(asked.form, answer), measured)
            stored = self._write(asked.voter, lambda history: self._if_new(history, answered, asked.voter))
            known = self._history
            return known.answers_to(number)[0] if stored is None else known.comparisons[stored.number]

    def _number(self, pair: StudyQuestion | int) -> int:
        if isinstance(pair, StudyQuestion):
            if pair.study != self.record.uid:
                raise InvalidValueError(
                    f"`pair` must come from this study's `ask`, but got a pair of another study than {self.name!r}."
                )
            return pair.number
        if isinstance(pair, bool) or not isinstance(pair, int):
            raise InvalidTypeError(f"`pair` must be what `ask` returned, or its number, but got {pair!r}.")
        return events.whole("pair", pair)

    def _asked(self, number: int) -> StudyQuestion:
        if number not in self._history.asked:
            raise InvalidValueError(
                f"`pair` must be one that was asked in {self.name!r}, but there is no pair {number}."
            )
        return self._history.asked[number][0]

    def _if_new(self, history: History, answered: Answered, voter: str) -> Answered | None:
        """The answer if its pair is open, None if it is stored already, or a sentence."""
        current = history.open_pair(voter)
        if current is not None and current.number == answered.pair:
            return answered
        given = history.answers_to(answered.pair)
        if given and given[0].answer == answered.answer:
            return None
        why = f"it was answered {given[0].answer!r} already" if given else "it was withdrawn"
        now = f"Pair {current.number} is open now" if current else "No pair is open now; `ask` gives one"
        raise StalePairError(f"Pair {answered.pair} takes no answer: {why}. {now}.", current)

    def undo(self, voter: str = DEFAULT_VOTER) -> StudyQuestion | None:
        """Take back this voter's last answer and open the same pair again; None where it was no answer to a pair.

        Args:
            voter: whose; a pair that this voter was shown since then is withdrawn.
        """
        voter = events.voter(voter)

        def last(history: History) -> Undone:
            number = history.last_of(voter)
            if number is None:
                raise InvalidValueError(f"There is nothing to undo: {voter!r} has no answer in {self.name!r}.")
            return Undone(number)

        with self._lock:
            self.refresh()
            number = self._history.last_of(voter)
            pair = None if number is None else self._history.comparisons[number].pair
            self._write(voter, last)
            return None if pair is None else self._history.open_pair(voter)

    def amend(self, comparison: int, answer: Answer | None, *, voter: str = DEFAULT_VOTER) -> None:
        """Change an answer that counts; the event that it came from stays.

        Args:
            comparison: the number of the answer's event, `Comparison.event`.
            answer: what `tell` takes for that kind of question; None takes it out.
            voter: who changes it.
        """
        events.whole("comparison", comparison)

        def change(history: History) -> Amended:
            if comparison not in history.comparisons:
                raise InvalidValueError(
                    f"`comparison` must be one that counts in {self.name!r}, but got {comparison!r}."
                )
            form = history.form_of(comparison)
            return Amended(comparison, None if answer is None else kinds.answer(form, answer))

        self._write(events.voter(voter), change)

    def add_comparison(
        self,
        winner: Mapping[str, Value],
        loser: Mapping[str, Value],
        *,
        tie: bool = False,
        voter: str = DEFAULT_VOTER,
    ) -> Comparison:
        """Add a comparison from elsewhere.

        Args:
            winner: a design, its fixed parameters or not.
            loser: another design.
            tie: there was no difference; which of the two comes first has then no meaning.
            voter: who answered.
        """
        if not isinstance(tie, bool):
            raise InvalidTypeError(f"`tie` must be True or False, but got {tie!r}.")
        first, second = self._designs(winner, loser, "winner", "loser")
        stored = self._write(events.voter(voter), lambda _: Added(first, second, tie))
        assert stored is not None
        return self._history.comparisons[stored.number]

    def enqueue(self, a: Mapping[str, Value], b: Mapping[str, Value], *, voter: str = DEFAULT_VOTER) -> None:
        """Have this pair asked next, of whoever asks first, after those that were enqueued before.

        Args:
            a: a design, its fixed parameters or not.
            b: another design; the two are shown as A and B.
            voter: who wishes it.
        """
        first, second = self._designs(a, b, "a", "b")
        self._write(events.voter(voter), lambda _: Queued(first, second))

    def settle(self, duels: int = DUELS, *, voter: str = DEFAULT_VOTER) -> None:
        """Have the next questions be duels: the design told to be best against its likeliest better among those seen.

        For the end of a study: nothing new is made, and what `best` tells becomes surer. After them the questions go
        on as before.

        Args:
            duels: how many; 0 ends those that were asked for before.
            voter: who wishes it.
        """
        wanted = Settling(events.duels(duels))
        if not self.history.counted():
            raise InvalidValueError(f"There is nothing to settle: the study {self.name!r} has no answers yet.")
        self._write(events.voter(voter), lambda _: wanted)

    def ask_again(self, pair: StudyQuestion | int, *, voter: str = DEFAULT_VOTER) -> None:
        """Have an earlier question asked once more; both answers will count.

        Args:
            pair: what `ask` returned, or its number.
            voter: who wishes it.
        """
        number = self._number(pair)
        asked = self._asked(number)
        queued = Queued(asked.a, asked.b, number, question=asked.kind, more=list(asked.more))
        self._write(events.voter(voter), lambda _: queued)

    def _designs(self, one: Mapping[str, Value], other: Mapping[str, Value], *names: str) -> tuple[Design, Design]:
        first, second = self.space.check(one), self.space.check(other)
        if design_key(first) == design_key(second):
            raise InvalidValueError(f"`{names[0]}` and `{names[1]}` must be two designs, but got {first} twice.")
        return first, second

    def model(self) -> StudyModel:
        """The model of all answers so far, fitted once for the same answers."""
        with self._lock:
            counted = self._history.counted()
            if not counted:
                raise InvalidValueError(
                    f"The study {self.name!r} has no answers yet that tell anything; `ask` and `tell` come first."
                )
            memo = self._history.memo(len(counted))
            key = (tuple((one.event, one.answer) for one in counted), id(memo))
            if self._learnt is None or self._learnt[0] != key:
                self._learnt = None  # a long study's model is large: not two at once
                self._learnt = (key, learning.learn(self.definition, self._history))
            return self._learnt[1]

    @property
    def best(self) -> Best:
        """The best design seen, how sure the model is of it, and what to do next."""
        with self._lock:
            self.refresh()
            return certainty.best(self.definition, self._history, self.model())

    @property
    def best_params(self) -> Design:
        """The parameters of the best design."""
        with self._lock:
            self.refresh()
            model = self.model()
            return dict(self._history.options[model.options[learning.leading(model)]])

    def predict(self, a: Mapping[str, Value], b: Mapping[str, Value]) -> float:
        """The chance that you would answer "a", were you asked about these two designs next; ties are left out.

        Args:
            a: one design, seen or not.
            b: the other.
        """
        first, second = self._designs(a, b, "a", "b")
        with self._lock:
            self.refresh()
            return certainty.predicted(self.definition, self.model(), first, second)

    def diagnostics(self) -> Diagnosis:
        """What the answers determine and where they contradict each other; print it for the words."""
        with self._lock:
            self.refresh()
            return diagnosis.diagnose(self.definition, self._history, self.model())

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
            if table == "comparisons":
                return exchange.comparisons(history)
            return exchange.options(history, self.model() if history.counted() else None)

    def export(self, path: str | Path, *, table: str = "comparisons") -> Path:
        """Write the study to a file, all of it or nothing, and return the path.

        Args:
            path: .json holds every event, for `import_json`; .csv and .parquet hold one table.
            table: "comparisons", one row for each answer, or "options", one row for each design.
        """
        target = Path(path)
        exchange.check_path(target)
        return exchange.write(target, self.plain() if target.suffix == ".json" else self.rows(table))

    def plain(self) -> dict[str, Any]:
        """All of the study as plain data: what its JSON file holds."""
        return exchange.plain(self.record, self.storage.read(self.record, 0, self.through))

    def _writable(self) -> None:
        if self.through is not None:
            raise StorageError(f"The study {self.name!r} was opened as of event {self.through}: it may only be read.")

    def _write(self, voter: str, decide: Decide) -> Stored | None:
        """Append what `decide` makes of the latest history; nothing where it makes nothing of it."""
        self._writable()
        with self._lock:
            with self.storage.transaction(self.record) as transaction:
                self._history.extend(transaction.read(self._history.number))
                happened = decide(self._history)
                if happened is None:
                    return None
                stored = transaction.append(voter, happened)
            # Only now is it durable.
            self._history.apply(stored)
            return stored
