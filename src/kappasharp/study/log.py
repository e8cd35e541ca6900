"""`ArrangedStudy`, a view that may be written to: what people change in a study beside answering.

That is its parameters, notes on designs, weights, outcomes, comparisons from elsewhere. How events are appended is here
too: decided on the latest history, in one transaction, under one lock.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from kappasharp.engine import engine
from kappasharp.errors import InvalidValueError, StorageError
from kappasharp.exchange import comparison_csv
from kappasharp.exchange.comparison_csv import Imported
from kappasharp.journal import changes, events, voters
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import DEFAULT_VOTER, Bounded, Event, Joined, Judged, Remarked, Stored, Weighed
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison, StudyQuestion
from kappasharp.simulators import records
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design
from kappasharp.study.analysis import StudyView

Decide = Callable[[History], Event | None]
# What is known of a program whose answers came in a table.
IMPORTED = "a program, by a table of its answers"


class ArrangedStudy(StudyView):
    """A study that may be written to."""

    def narrow(
        self,
        name: str,
        low: float | None = None,
        high: float | None = None,
        *,
        choices: Sequence[Value] | None = None,
        voter: str = DEFAULT_VOTER,
    ) -> None:
        """Ask from now on about a part of a parameter only. All answers stay, and the model goes on learning from them.

        Args:
            name: of a parameter that is tuned.
            low: the smallest value from now on; by default the present.
            high: the largest; by default the present.
            choices: of a `Categorical`, those that stay.
            voter: who wishes it.
        """
        self._change(voter, lambda now: changes.narrowed(now, name, low, high, choices))

    def lock(self, name: str, value: Value, *, voter: str = DEFAULT_VOTER) -> None:
        """Ask from now on about one value of a parameter; `widen` opens the others again.

        Args:
            name: of a parameter that is tuned.
            value: any that was ever open.
            voter: who wishes it.
        """
        self._change(voter, lambda now: changes.locked(now, name, value))

    def widen(
        self,
        name: str,
        low: float | None = None,
        high: float | None = None,
        *,
        choices: Sequence[Value] | None = None,
        voter: str = DEFAULT_VOTER,
    ) -> None:
        """Open more of a parameter: what was narrowed or locked, or values that the study never had. All answers stay.

        Args:
            name: of a parameter that is tuned; with nothing else, all that was ever open of it is open again.
            low: the smallest value from now on; by default the present.
            high: the largest; by default the present.
            choices: of a `Categorical`, those that are opened beside the present ones, new ones too.
            voter: who wishes it.
        """
        self._change(voter, lambda now: changes.widened(now, name, low, high, choices))

    def _change(self, voter: str, change: Callable[[Definition], Bounded]) -> None:
        # Whether there is something left to ask about takes a search, which nobody else should wait for.
        is_stored = False
        while not is_stored:
            now = self.latest()
            found = change(now)
            if now.limits:
                engine().check_change(changes.after(now, found))
            is_stored = self.change(found, now, voter=voter)

    def latest(self) -> Definition:
        """The definition, with what is open of each parameter by all that was stored so far."""
        return self.read(lambda _: self.definition)

    def change(self, checked: Bounded, of: Definition, *, voter: str = DEFAULT_VOTER) -> bool:
        """Store a change of a parameter that was checked against what was open then; whether that is open still.

        If not, nothing is stored: it must be checked again.

        Args:
            checked: what to open, as `changing` made it.
            of: the definition that it was checked against, from `latest`.
            voter: who wishes it.
        """
        return (
            self._write(events.voter(voter), lambda history: checked if history.space is of.space else None) is not None
        )

    def note(self, design: Mapping[str, Value], text: str | None, *, voter: str = DEFAULT_VOTER) -> None:
        """Say something of a design, for people to read; the model does not hear of it.

        Args:
            design: seen or not, its fixed parameters or not.
            text: a line of up to 500 characters, in place of what this voter said before; None takes that back.
            voter: who says it.
        """
        remark = Remarked(self.space.check(design), None if text is None else events.note(text))
        self._write(events.voter(voter), lambda _: remark)

    def weigh(self, weights: Mapping[str, float] | None, *, voter: str = DEFAULT_VOTER) -> None:
        """Say how much each voter counts towards what is best for all; it is kept in the study, for whoever opens it.

        Args:
            weights: by voter, from 0 on, in place of all that was said before; who is not named counts 1, and who has
                0 is not looked to at all. None lets all count alike again.
            voter: who says so.
        """

        def if_news(history: History) -> Weighed | None:
            found = voters.weighed(history, {} if weights is None else weights)
            return None if found.weights == history.weights else found

        self._write(events.voter(voter), if_news)

    def join_as_program(self, voter: str, about: str) -> None:
        """Say that a voter is a program: its answers are marked, and what is left for people it is not asked.

        Args:
            voter: a name under which no person has answered.
            about: a line that says which program.
        """
        joined = Joined(events.named_text("about", about, events.LONGEST_NOTE))
        name = events.voter(voter)
        self._write(name, partial(_if_no_person, joined, name))

    def keep_verdict(self, voter: str, verdict: Judged) -> None:
        """Store what a program said of designs; it is durable when this returns, and no answer yet."""
        self._write(voter, lambda _: verdict)

    def import_csv(self, path: str | Path, *, voter: str = DEFAULT_VOTER) -> Imported:
        """Add past comparisons from a CSV file, all of them or none; how many there were.

        The file has a column for each parameter of both designs, `a.NAME` and `b.NAME`, and `answer`: a, b or tie; a
        column `voter` may name who answered. What `export` writes is read too, with the outcomes that were measured, of
        designs of which none are known.

        Args:
            path: the file.
            voter: who answered, where the file does not say it.
        """
        name = events.voter(voter)
        return self.import_text(comparison_csv.read(Path(path)), name)

    def import_text(self, text: str, voter: str) -> Imported:
        """The same for the text of such a file."""
        found = comparison_csv.parse(text, self.definition, events.voter(voter))
        self._writable()
        with self._lock, self.storage.transaction(self.stored) as transaction:
            self._history.extend(transaction.read(self._history.number))
            for who in found.programs:
                joined = _if_no_person(Joined(self._history.programs.about.get(who, IMPORTED)), who, self._history)
                if joined is not None:
                    transaction.append(who, joined)
            for who, added in found.added:
                transaction.append(who, added)
            for measured in found.measured:
                # What is known here stands.
                if self._history.outcomes(measured.design) is None:
                    transaction.append(events.voter(voter), measured)
        known = len(self._history.comparisons)
        self.refresh()
        for one in list(self._history.comparisons.values())[known:] if self.definition.simulator is not None else ():
            self.complete(one)
        return found.counted

    def complete(self, question: StudyQuestion | Comparison | None = None) -> None:
        """Compute and store the outcomes of designs, as far as they are missing and can be computed.

        Nobody who asks or answers meanwhile waits for it. A process tries a design once.

        Args:
            question: what `ask` or `tell` returned; both have done so, unless `tell` was told otherwise. None is about
                every design that failed before, those that hung among them, for when the function was mended.
        """
        if self.through is not None:
            return
        if question is None:
            self._store_outcomes(DEFAULT_VOTER, self.read(records.failed))
            return
        if isinstance(question, StudyQuestion):
            designs = question.designs
        else:
            designs = self.glance(lambda history: [history.options[option] for option in question.options])
        self._store_outcomes(question.voter, designs)
        self.try_again(question.voter)

    def try_again(self, voter: str = DEFAULT_VOTER) -> None:
        """Compute a few of the outcomes that another process failed to give, and store those that there are now.

        Args:
            voter: in whose name.
        """
        if self.through is None and self.definition.simulator is not None:
            designs = self.glance(lambda history: records.to_try_again(self.definition, history))
            # Who may only read the database sees what is stored in it.
            with suppress(StorageError):
                self._store_outcomes(voter, designs, failures=False)

    def _store_outcomes(self, voter: str, designs: Sequence[Design], *, failures: bool = True) -> None:
        found = records.missing(self.definition, self._history, designs)
        found = [one for one in found if failures or one.failure is None]
        if found:
            # Whether a design has outcomes is asked again when they are stored.
            self._append(voter, lambda history: [one for one in found if records.is_news(history, one)])

    def _writable(self) -> None:
        if self.through is not None:
            raise StorageError(f"The study {self.name!r} was opened as of event {self.through}: it may only be read.")

    def _write(self, voter: str, decide: Decide, then: Decide | None = None) -> Stored | None:
        """Append what `decide` makes of the latest history; nothing where it makes nothing of it.

        What `then` makes of the same history follows it in the same step: both are durable, or neither.
        """

        def both(history: History) -> Sequence[Event]:
            happened = decide(history)
            following = None if happened is None or then is None else then(history)
            return [one for one in (happened, following) if one is not None]

        stored = self._append(voter, both)
        return stored[0] if stored else None

    def _append(self, voter: str, decide: Callable[[History], Sequence[Event]]) -> list[Stored]:
        """Append all that `decide` makes of the latest history, in one step."""
        self._writable()
        with self._lock:
            with self.storage.transaction(self.stored) as transaction:
                self._history.extend(transaction.read(self._history.number))
                stored = transaction.append_all(voter, decide(self._history))
            # Only now is it durable.
            self._history.extend(stored)
            return stored


def _if_no_person(joined: Joined, voter: str, history: History) -> Joined | None:
    """That a voter is a program, unless that is known; a sentence where it is a person."""
    if any(one.voter == voter and not one.program for one in history.comparisons.values()):
        raise InvalidValueError(
            f"A program must have a name of its own, but a person has answered as {voter!r}; another `voter` "
            "keeps them apart."
        )
    return None if history.programs.about.get(voter) == joined.about else joined
