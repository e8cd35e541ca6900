"""The function of a study's outcomes, as the rest of a study knows it, and what it made of one design."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from kappasharp.space.outcomes import Values
from kappasharp.space.space import Design


class Ran(NamedTuple):
    """What the function made of one design: outcomes, or why there are none; and the seconds it took."""

    values: Values | None
    failure: str | None
    seconds: float
    hung: bool = False
    # Whether there was a function to run.
    loaded: bool = True


class OutcomeFunction(Hashable, Protocol):
    """What computes the outcomes of designs, and keeps what it computed; a simulator is one."""

    @property
    def name(self) -> str | None:
        """The name that it is found by; None where it has none."""

    def has_tried(self, design: Design) -> bool:
        """Whether it was run for a design."""

    def known(self, design: Design, names: Sequence[str]) -> Ran | None:
        """What is kept of a design."""

    def compute(self, designs: Sequence[Design], names: Sequence[str] | None = None) -> list[Ran]:
        """The outcomes of designs, each computed once."""

    def table(self, parameters: tuple[str, ...], keys: Sequence[Any], names: tuple[str, ...]) -> tuple[bytearray, bool]:
        """The outcomes of many designs as doubles, and whether all are known."""

    def stop(self) -> None:
        """End what runs now; later calls start it again."""
