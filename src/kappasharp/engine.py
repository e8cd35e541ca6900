"""The one door to torch: what can be computed of a study, as a protocol, and `engine()`, which imports it when asked.

Whoever stores, reads, shows or serves studies stays on this side. What passes the door is plain: a definition and a
history go in, results and a fitted model come out, of which this side knows its designs and their utilities alone.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Asked
from kappasharp.journal.history import History
from kappasharp.messages.message import Sentence
from kappasharp.questions.kind import Form
from kappasharp.results.agreement import Agreement, Couple, VoterCount
from kappasharp.results.best import Best, Checkpoint, Meeting, Slice
from kappasharp.results.diagnosis import Diagnosis
from kappasharp.results.outcomes import TradeOff
from kappasharp.space.outcomes import Better
from kappasharp.space.space import Design, Space


class FittedModel(Protocol):
    """The model of a study's answers: its designs by their numbers, and the utility of each."""

    @property
    def options(self) -> list[int]:
        """The numbers of the designs that were compared."""

    @property
    def utility(self) -> list[float]:
        """Their utilities, in the same order."""


class Engine(Protocol):
    """What is computed of a study; a model that goes in is one that came out of here."""

    def fit(self, definition: Definition, history: History) -> FittedModel:
        """The model of all answers so far."""

    def individual(self, history: History, model: Any) -> FittedModel:
        """The model that tells voters apart, from the one that takes them alike."""

    def for_all(self, history: History, model: Any, individual: Callable[[], Any]) -> FittedModel:
        """The model that tells what is best for all, by the weights of the voters where there are some."""

    def incumbent(self, model: Any) -> int:
        """The number of the design that is told to be the best."""

    def rests_on_records(self, definition: Definition) -> bool:
        """Whether what was recorded is all that the model has of the outcomes."""

    def needs_model(
        self, definition: Definition, history: History, form: Form | None = None, voter: str | None = None
    ) -> bool:
        """Whether the next question is the model's to choose."""

    def next_question(
        self,
        definition: Definition,
        history: History,
        model: Any = None,
        *,
        form: Form | None = None,
        leaving: str | None = None,
    ) -> Asked:
        """The next question."""

    def best(self, definition: Definition, history: History, model: Any, for_all: Any = None) -> Best:
        """The best design seen, and how sure that is."""

    def best_for(self, definition: Definition, history: History, individual: Any, voter: str) -> Best:
        """The best design seen for one voter."""

    def agreement(self, definition: Definition, history: History, individual: Any) -> Agreement:
        """What the voters have in common."""

    def voter_counts(self, history: History, model: Any) -> list[VoterCount]:
        """How many answers each voter gave, and how they fit to the model."""

    def couples(self, history: History) -> list[Couple]:
        """Every two voters, and how often they agreed about the same designs."""

    def predict(self, definition: Definition, model: Any, a: Design, b: Design) -> float:
        """The chance that design a is preferred to design b in the next answer."""

    def slices(self, definition: Definition, model: Any, design: Design) -> list[Slice]:
        """Utility along each parameter about a design."""

    def certainty_so_far(self, definition: Definition, history: History) -> list[Checkpoint]:
        """The certainty after several numbers of answers."""

    def reasons(self, definition: Definition, history: History, model: Any, option: int) -> list[Sentence]:
        """Why a design is told to be the best."""

    def meetings(self, history: History, option: int) -> list[Meeting]:
        """What the answers say of a design."""

    def components(self, model: Any) -> list[int]:
        """The connected component of every design: those that answers link."""

    def diagnose(self, definition: Definition, history: History, model: Any, for_all: Any = None) -> Diagnosis:
        """What the answers determine, and where they contradict each other."""

    def warnings(self, definition: Definition, history: History) -> list[Sentence]:
        """How outcomes and limits stand."""

    def tradeoffs(self, definition: Definition, history: History, model: Any) -> list[TradeOff]:
        """The designs whose outcomes are known."""

    def outcome_slices(self, definition: Definition, history: History, model: Any) -> list[Slice]:
        """Utility along each outcome about the best design."""

    def directions(self, definition: Definition, history: History, model: Any) -> dict[str, Better | None]:
        """Which way each outcome is better."""

    def check_feasible(self, definition: Definition) -> None:
        """Nothing where the limits between parameters leave two designs to ask about; else an error that says why."""

    def check_change(self, definition: Definition) -> None:
        """The same for a definition whose parameters were narrowed, locked or widened."""

    def check_limits(self, texts: Sequence[str], space: Space) -> None:
        """Nothing where each limit can be read and some design meets them all; else an error that says why."""

    def broken(self, definition: Definition, history: History, design: Design) -> list[str]:
        """The limits that a design is known to break."""


@cache
def engine() -> Engine:
    """What computes, imported now if it was not before: the only way from here to torch."""
    found: Engine = import_module("kappasharp.findings.engine").ENGINE
    return found
