"""A question as it was put to a voter, and an answer as it counts now, with what it says of its designs.

Where answers contradict each other (opposite ones, a cycle) is found here too, from the answers alone.
"""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from html import escape

from kappasharp.errors import InvalidValueError
from kappasharp.journal import events
from kappasharp.markup import FAINT, box, table
from kappasharp.messages.message import text
from kappasharp.questions import kind
from kappasharp.questions.kind import PAIR, SKIP, Answer, Form, Judgement, Kind
from kappasharp.space.space import Design, Space

# How each kind is answered, for a notebook.
ANSWERS = {
    "pair": 'study.tell(question, "a") says that A is better; or "b", "tie", "skip".',
    "choice": 'study.tell(question, 2) says that design 2 is the best; or another number, or "skip".',
    "order": "study.tell(question, [2, 0, 1]) puts design 2 first, then 0, then 1; equals stand in a list.",
    "slider": 'study.tell(question, 0.35) says where on the line it is best; or "skip".',
    "rating": "study.tell(question, 2) says that A is better, from 3, much, to -3, where B is much better.",
}


@dataclass(frozen=True)
class StudyQuestion:
    """Designs to judge, as they are shown. `number` names the question in its study, `kind` is what is asked of them.

    A pair or a rating is about `a` and `b`; a slider's line goes through all designs, from the first to the last.
    """

    study: str
    number: int
    voter: str
    a: Design
    b: Design
    origin: events.Origin = "model"
    kind: str = Kind.PAIR.value
    more: tuple[Design, ...] = ()
    space: Space | None = field(default=None, repr=False, compare=False)

    @property
    def designs(self) -> list[Design]:
        """All designs, in the order in which answers number them."""
        return [self.a, self.b, *self.more]

    @property
    def form(self) -> Form:
        """Its kind, and about how many designs it is."""
        return Form(Kind(self.kind), PAIR + len(self.more))

    @cached_property
    def points(self) -> list[list[float]]:
        """The points of the designs, in the cube of when it was asked."""
        assert self.space is not None
        return [self.space.encode(design) for design in self.designs]

    def _repr_html_(self) -> str:
        """The designs side by side; parameters in which they differ come in bold."""
        last = len(self.designs) - 1
        names = list(map(str, range(last + 1))) if self.more else ["A", "B"]
        if self.kind == Kind.SLIDER.value:
            names = [f"at {number / last:.4g}" for number in range(last + 1)]
        rows = {
            name: [text(one[name]) for one in self.designs]
            for name in sorted(self.a, key=lambda name: all(one[name] == self.a[name] for one in self.designs))
        }
        head = f"<b>{escape(self.kind.capitalize())} {self.number}</b> for {escape(self.voter)}"
        return box(f"{head}{table(rows, names)}<div style='{FAINT}'>{escape(ANSWERS[self.kind])}</div>")

    def at(self, place: float) -> Design:
        """The design at a place of a slider: 0 is the first design, 1 the last; of four, the second is at a third.

        Args:
            place: a number from 0 to 1.
        """
        if self.kind != Kind.SLIDER.value:
            raise InvalidValueError(f"`at` must be asked of a slider, but question {self.number} is {self.form.words}.")
        place = kind.place(place)
        assert self.space is not None
        return self.space.along(self.designs, place)


@dataclass(frozen=True)
class Pair(StudyQuestion):
    """Two designs to compare."""


@dataclass(frozen=True)
class Comparison:
    """One answer that counts: `options` are the numbers of its designs, `event` is where it came from.

    Of a slider that is the design where it was left; of one that was skipped, none.
    """

    event: int
    voter: str
    time: str
    options: tuple[int, ...]
    answer: Answer
    pair: int | None
    seconds: float | None
    amended: bool = False
    kind: str = Kind.PAIR.value
    asked_at: str | None = None
    # What was said at first, where it was amended.
    original: Answer | None = None
    program: bool = False
    # Of a slider: how many designs its line went through.
    through: int = PAIR

    @property
    def took(self) -> float | None:
        """The seconds that somebody measured, or else those from question to answer; None without a question."""
        if self.seconds or self.asked_at is None:
            return self.seconds
        return max((datetime.fromisoformat(self.time) - datetime.fromisoformat(self.asked_at)).total_seconds(), 1e-3)

    @property
    def form(self) -> Form:
        """What kind of question it answers, and about how many designs."""
        kind = Kind(self.kind)
        return Form(kind, self.through if kind is Kind.SLIDER else len(self.options))

    @property
    def ordered(self) -> tuple[int, int]:
        """Winner and loser of two; for a tie as they were shown."""
        said = kind.said(self.form, self.answer).pairs[0] if self.answer != SKIP else (0, 1)
        return self.options[said[0]], self.options[said[1]]

    @property
    def judgements(self) -> list[Judgement]:
        """All that it says of two options, by their numbers; nothing of a slider."""
        at = self.options
        return [Judgement(at[one], at[other], tie) for one, other, tie in kind.judgements(self.form, self.answer)]

    @property
    def edges(self) -> list[Judgement]:
        """The fewest of them that say it all."""
        if self.answer == SKIP or self.kind == Kind.SLIDER.value:
            return []
        said = kind.said(self.form, self.answer)
        at = self.options
        return [Judgement(at[i], at[j], tie) for (i, j), tie in zip(said.pairs, said.ties, strict=True)]

    @property
    def first(self) -> tuple[int, ...]:
        """The options that it puts first: one, or several that tie; none of a skip."""
        if self.answer == SKIP:
            return ()
        lost = {one.other for one in self.judgements if not one.tie}
        return tuple(option for option in self.options if option not in lost)

    @property
    def is_tie(self) -> bool:
        """Whether it only says that there was no difference."""
        return bool(self.judgements) and all(one.tie for one in self.judgements)


def opposite(counted: list[Comparison]) -> list[tuple[int, int]]:
    """Answers that say the opposite of an earlier one about the same two designs."""
    said: dict[tuple[int, int], int] = {}
    found: list[tuple[int, int]] = []
    for one in counted:
        clear = [(judgement.better, judgement.other) for judgement in one.judgements if not judgement.tie]
        found += dict.fromkeys((said[loser, winner], one.event) for winner, loser in clear if (loser, winner) in said)
        said |= dict.fromkeys(clear, one.event)
    return found


def cycle(counted: list[Comparison]) -> list[int]:
    """Options of which each was preferred to the next, and the last to the first; empty where there is no such ring."""
    graph: dict[int, set[int]] = {}
    for judgement in (judgement for one in counted for judgement in one.edges):
        if not judgement.tie:
            graph.setdefault(judgement.better, set()).add(judgement.other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # graphlib names a ring from each node to one that has it among its followers, the first once more at the end.
        ring: list[int] = list(reversed(error.args[1][1:]))
        return ring
    return []
