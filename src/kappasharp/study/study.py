"""`Study`: ask, tell, undo, amend, and what else puts questions and takes answers.

It is the last of three classes, each on the one before: what may be looked at is in `analysis.py`, what people change
beside answering in `log.py`. Questions are computed behind `engine()`; events and the rules for them are in `journal`.
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations

from kappasharp.arguments import is_whole
from kappasharp.engine import engine
from kappasharp.errors import InvalidTypeError, InvalidValueError, StalePairError
from kappasharp.journal import events, staleness
from kappasharp.journal.events import (
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
from kappasharp.journal.history import History, Known
from kappasharp.journal.question import Comparison, StudyQuestion
from kappasharp.questions import kind as questions_kind
from kappasharp.questions.kind import Answer, Form, Kind
from kappasharp.settings import DUELS
from kappasharp.simulators import records
from kappasharp.space.parameters import Value
from kappasharp.study.log import ArrangedStudy

# A name that nobody has.
OTHERS = ""
# Gives questions that were computed elsewhere, one at a time, until there are none left.
Supply = Callable[[], Asked | None]


class Study(ArrangedStudy):
    """One thing to tune. Several processes and threads may hold the same study; each sees what the others did."""

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
            designs: how many designs a choice or an order shows, 3 to 9, or a slider's line goes through, 2 to 6; by
                default 4.
            proposed: what `propose` gives for the events up to now, where somebody has computed it ahead; one that
                rests on other events is not used.
        """
        voter, form = events.voter(voter), self.definition.wanted(kind, designs)
        choose: Callable[[Form | None, str], Asked] = self.propose
        with self._lock:
            self.refresh()
            refusals = staleness.Refusals()
            while (found := self._waiting(voter, form)) is None:
                self._writable()
                refusals.note(self._history.number, voter)
                if proposed is None or not self._rests_on_all(proposed, form, voter):
                    proposed = choose(form, voter)
                self._put(voter, proposed, form)
                # Somebody quicker has got it, and would get the next one too.
                proposed, choose = None, self._propose_beside
        self.complete(found)
        return found

    def _waiting(self, voter: str, form: Form | None) -> StudyQuestion | None:
        found = self._history.open_pair(voter)
        return found if found is None or form is None or found.form == form else None

    def _put(self, voter: str, proposed: Asked, form: Form | None) -> None:
        self._append(voter, lambda history: self._with_outcomes(history, proposed, voter, form))

    def _with_outcomes(self, history: History, proposed: Asked, voter: str, form: Form | None) -> list[Event]:
        """The question, if it is still right, and what the search for it has computed of its designs."""
        found = staleness.still_right(history, proposed, voter, form)
        if found is None:
            return []
        return [found, *records.at_hand(self.definition, history, found.designs)]

    def offer(self, voter: str, proposed: Asked, form: Form | None = None) -> StudyQuestion | None:
        """The question that waits for this voter: the open one, else the one that somebody computed elsewhere.

        None where that was overtaken and another must be computed. Unlike in `ask`, others may have answered since.
        """
        voter = events.voter(voter)
        with self._lock:
            self._put(voter, proposed, form)
            # Outcomes are left to `complete`: nobody should wait for a question because of them.
            return self._waiting(voter, form)

    def offer_any(self, voter: str, supply: Supply) -> StudyQuestion | None:
        """The same with the first question of several that was not overtaken; None where all were."""
        voter = events.voter(voter)
        with self._lock:
            self._write(voter, lambda history: self._first_right(history, voter, supply))
            return self._waiting(voter, None)

    def _first_right(self, history: History, voter: str, supply: Supply, leaving: int | None = None) -> Asked | None:
        """The first question of a supply that can be put to this voter, whose question `leaving` is answered."""
        if history.open.get(voter) not in (None, leaving) or history.settling:
            return None
        while (proposed := supply()) is not None:
            found = staleness.still_right(history, proposed, voter, leaving=leaving)
            if found is not None:
                return found
        return None

    def _rests_on_all(self, proposed: Asked, form: Form | None, voter: str) -> bool:
        queue = self._history.programs.may_take(voter, self._history.queue)
        waiting = next(iter(queue), None) if form is None else None
        return proposed.after == (self._history.number if waiting is None else waiting)

    def packed(self) -> tuple[int, bytes]:
        """The number of the last event, and definition and history as bytes for another process to look ahead with."""
        with self._lock:
            self.refresh()
            return self._history.number, pickle.dumps((self.definition, self._history))

    def propose(self, form: Form | None = None, voter: str | None = None) -> Asked:
        """The question that the next voter without one will be asked; nothing is stored."""
        with self._lock:
            needs_model = engine().needs_model(self.definition, self._history, form, voter)
            model = self._model() if needs_model else None
            return engine().next_question(self.definition, self._history, model, form=form, leaving=voter)

    def _propose_beside(self, form: Form | None, voter: str) -> Asked:
        """The question after the one that others are about to be asked, as if that were open already."""
        next_one, (number, packed) = self.propose(form, voter), self.packed()
        definition, history = pickle.loads(packed)
        history.apply(Stored(number + 1, OTHERS, "", next_one))
        needs_model = engine().needs_model(definition, history, form, voter)
        model = self._model() if needs_model else None
        found = engine().next_question(definition, history, model, form=form, leaving=voter)
        return replace(found, after=number) if found.after > number else found

    def tell(
        self,
        pair: StudyQuestion | int,
        answer: Answer,
        *,
        seconds: float | None = None,
        complete: bool = True,
        following: Supply | None = None,
    ) -> Comparison:
        """Store the answer to a question; it is durable when this returns.

        The same answer to the same question again is the first one again, with nothing stored: whoever lost the word
        that it was stored may say it once more. Otherwise a question that is not open, because it was answered or
        withdrawn, is refused with the one that is.

        Args:
            pair: what `ask` returned, or its number.
            answer: what its kind asks for, or "skip", of which the model does not hear. A pair: "a" or True, "b" or
                False, or "tie" (no difference; the model learns from it). A choice: the number of the best design,
                from 0 on. An order: the numbers, best first, equals in a list, such as [2, [0, 3], 1]; those left out
                come last. A slider: a place from 0 to 1. A rating: -3 to 3, above 0 where the first design is better.
            seconds: how long the voter took, where somebody measured it.
            complete: whether outcomes of these designs that are missing are computed before this returns.
            following: gives questions that were computed ahead; the first that was not overtaken is put to the same
                voter in the same step.
        """
        number, measured = self._number(pair), events.seconds(seconds)
        with self._lock:
            if number not in self._history.asked:
                self.refresh()
            asked = self._asked(number)
            answered = Answered(number, questions_kind.given(asked.form, answer), measured)
            stored = self._write(
                asked.voter,
                lambda history: self._if_new(history, answered, asked.voter),
                following and (lambda history: self._first_right(history, asked.voter, following, number)),
            )
            known = self._history
            found = known.answers_to(number)[0] if stored is None else known.comparisons[stored.number]
        if complete:
            # A slider was left at a design that nobody asked about before.
            self.complete(found)
        return found

    def _number(self, pair: StudyQuestion | int) -> int:
        if isinstance(pair, StudyQuestion):
            if pair.study != self.stored.uid:
                raise InvalidValueError(
                    f"`pair` must come from this study's `ask`, but got a pair of another study than {self.name!r}."
                )
            return pair.number
        if not is_whole(pair):
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
        why = "answered" if given else "changed" if answered.pair in history.shut else "withdrawn"
        told = {
            "answered": f"it was answered {given[0].answer!r} already" if given else "",
            "changed": "it was withdrawn because a parameter was changed",
            "withdrawn": "it was withdrawn",
        }
        now = f"Pair {current.number} is open now" if current else "No pair is open now; `ask` gives one"
        raise StalePairError(f"Pair {answered.pair} takes no answer: {told[why]}. {now}.", current, why=why)

    def undo(self, voter: str = DEFAULT_VOTER) -> StudyQuestion | None:
        """Take back this voter's last answer and open the same pair again; None where it was no answer to a pair.

        If they narrowed, locked or widened a parameter since, that is taken back instead. A pair that would not be
        asked now, because others have changed a parameter since, stays closed: None again, and `ask` gives another.

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
            gone = None if number is None else self._history.comparisons.get(number)
            pair = None if gone is None else gone.pair
            self._write(voter, last)
            reopened = self._history.open_pair(voter)
            return reopened if reopened is not None and reopened.number == pair else None

    def amend(self, comparison: int, answer: Answer | None, *, voter: str = DEFAULT_VOTER) -> None:
        """Change an answer that counts, or put one back that was taken out; the event that it came from stays.

        Args:
            comparison: the number of the answer's event, `Comparison.event`.
            answer: what `tell` takes for that kind of question; None takes it out.
            voter: who changes it.
        """
        number = events.whole("comparison", comparison)

        def change(history: History) -> Amended:
            if not history.may_amend(number, answer):
                raise InvalidValueError(f"`comparison` must be one that counts in {self.name!r}, but got {number}.")
            form = history.form_of(number)
            return Amended(number, None if answer is None else questions_kind.given(form, answer))

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
        with self._lock:
            stored = self._write(events.voter(voter), lambda _: Added(first, second, tie))
            assert stored is not None
            found = self._history.comparisons[stored.number]
        self.complete(found)
        return found

    def enqueue(
        self,
        a: Mapping[str, Value],
        b: Mapping[str, Value],
        *more: Mapping[str, Value],
        kind: str = Kind.PAIR.value,
        people: bool = False,
        voter: str = DEFAULT_VOTER,
    ) -> None:
        """Have a question about these designs asked next, of whoever asks first, after those that were enqueued before.

        Args:
            a: a design, its fixed parameters or not.
            b: another design; they are shown in this order, and a slider's line goes through them so.
            more: further ones, of a choice, an order or a slider.
            kind: "pair", "choice", "order", "slider" or "rating".
            people: whether only people are asked, and no program that answers as a voter.
            voter: who wishes it.
        """
        if not isinstance(people, bool):
            raise InvalidTypeError(f"`people` must be True or False, but got {people!r}.")
        designs = [self.space.check(one) for one in (a, b, *more)]
        form = self.definition.asking(questions_kind.parse(kind, len(designs), what="kind"))
        for one, other in combinations(zip("abcdefghi", designs, strict=False), 2):
            self._designs(one[1], other[1], one[0], other[0])
        queued = Queued(designs[0], designs[1], question=form.kind.value, more=designs[2:], people=people)
        self._write(events.voter(voter), lambda _: queued)

    def settle(self, duels: int = DUELS, *, question: str = "pair", voter: str = DEFAULT_VOTER) -> None:
        """Have the next questions be duels: the design told to be best against its likeliest better among those seen.

        For the end of a study: nothing new is made, and what `best` tells becomes surer. After them the questions go
        on as before.

        Args:
            duels: how many; 0 ends those that were asked for before.
            question: what they are. "choice:9" shows the design told and its eight likeliest betters side by side,
                "order:4" has four of them put in order; each finds the best of more designs than a duel.
            voter: who wishes it.
        """
        form = events.settled_by(question)
        # Where fewer designs than that were seen, all of them are shown.
        self.definition.asking(replace(form, designs=min(form.designs, questions_kind.FEWEST)))
        wanted = Settling(events.duels(duels), str(form))
        if not self.read(History.counted):
            raise InvalidValueError(f"There is nothing to settle: the study {self.name!r} has no answers yet.")
        self._write(events.voter(voter), lambda _: wanted)

    def record(
        self,
        design: Mapping[str, Value],
        outcomes: Mapping[str, float] | None,
        *,
        repeat: bool = False,
        voter: str = DEFAULT_VOTER,
    ) -> Known | None:
        """Store outcomes of a design that were measured; what is known of it now.

        Args:
            design: seen or not, its fixed parameters or not.
            outcomes: name -> number, all outcomes or some; None takes back what is known of the design.
            repeat: one more measurement, averaged with those before; otherwise it stands in the place of those of the
                same outcomes.
            voter: who measured.
        """
        happened = records.measured(self.definition, design, outcomes, repeat)
        self._write(events.voter(voter), lambda _: happened)
        return self._history.outcomes(happened.design)

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
