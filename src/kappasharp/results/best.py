"""The best design as it is told: two figures on how sure that is, advice in words, and what is drawn beside it.

The numbers come from `findings/best.py`; whoever shows them needs this file and no torch.
"""

from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from kappasharp.markup import bar, box, table
from kappasharp.messages.message import Sentence, said, text
from kappasharp.space.bounds import AmongOpen
from kappasharp.space.outcomes import Values
from kappasharp.space.parameters import Value
from kappasharp.space.space import Design

What = Literal["go_on", "could_stop", "not_enough_signal", "link_groups"]


@dataclass(frozen=True)
class Advice:
    """What to do next: one word, the sentence, and the two options that would link two groups."""

    what: What
    sentence: str
    link: tuple[int, int] | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Best(AmongOpen):
    """The design seen that the model believes to be best; `option` is its number.

    `beats_random` is the share of the space's designs that it is preferred to, as recalibrated chances have it;
    `room_left` how much of the way from an ordinary design to the best there is lies still ahead, as the model expects
    it. `status` is its certificate;
    `outcomes` are those of a study that has some. It is the best of the designs that are open.
    """

    params: Design
    option: int
    beats_random: float
    room_left: float
    advice: Advice
    n_comparisons: int
    status: str
    outcomes: Values | None = None
    # The voter whose best it is, where that is predicted: they have not answered.
    predicted_for: str | None = None
    # What became of the voters' weights, where some are set.
    weighed: Sentence | None = None

    @property
    def notes(self) -> list[Sentence]:
        """What is to be said beside it, in sentences."""
        words = "{name} has not answered yet: this is predicted from what the others share."
        told = [] if self.predicted_for is None else [said("best.predicted", words, name=self.predicted_for)]
        return told + ([] if self.weighed is None else [self.weighed]) + super().notes

    def _repr_html_(self) -> str:
        return box(self.markup())

    def markup(self) -> str:
        """The best design, how sure that is, and what to do next, as HTML."""
        values: dict[str, list[str]] = {name: [text(value)] for name, value in self.params.items()}
        values |= {f"→ {name}": [text(value)] for name, value in (self.outcomes or {}).items()}
        certificate = "" if self.status == "ok" else f"<div>A solve lacks its certificate: {escape(self.status)}.</div>"
        notes = "".join(f"<div>{escape(note)}</div>" for note in self.notes)
        return (
            f"{table(values, ['best design so far'])}"
            f"<div>{bar(self.beats_random)}{self.beats_random:.0%} of designs you would like less</div>"
            f"<div>{bar(self.room_left)}{self.room_left:.0%} of the way up is left</div>"
            f"{certificate}<div style='margin-top:.4em'>{escape(str(self.advice))}</div>{notes}"
        )


class Figures(NamedTuple):
    """Share of designs that the best is preferred to; in units of utility how far it lies above an ordinary one, and
    how far below the best there is; and the chance that all of it is chance."""

    preferred: float
    ahead: float
    gap: float
    chance: float = 0.0

    @property
    def room(self) -> float:
        """How much of the way from an ordinary design to the best there is lies still ahead."""
        left = self.gap / (self.gap + self.ahead) if self.gap > 0.0 else 0.0
        return (1.0 - self.chance) * left + self.chance


class Slice(NamedTuple):
    """Utility above that of the design (negative: worse) at values of one parameter, with a band of one deviation.

    Values without order are choices; nothing lies between them.
    """

    name: str
    here: Value
    values: list[Value]
    mean: list[float]
    low: list[float]
    high: list[float]
    ordered: bool = True


class Checkpoint(NamedTuple):
    """How sure the model was after a number of answers."""

    answers: int
    preferred: float
    room: float


class Meeting(NamedTuple):
    """What one answer says of a design: which others it beat, lost to, or equalled; none of them on a slider's line."""

    event: int
    voter: str
    kind: str
    beat: list[int]
    lost_to: list[int]
    equalled: list[int]
