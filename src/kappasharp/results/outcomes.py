"""A design with its outcomes, and whether it is on the front; `findings/outcomes.py` computes both."""

from dataclasses import dataclass

from kappasharp.journal.events import Source
from kappasharp.space.outcomes import Values
from kappasharp.space.space import Design


@dataclass(frozen=True)
class TradeOff:
    """A design with its outcomes. `option` is its number, None where it was recorded and never shown.

    `front`: no other of these designs is as good in every outcome that has a direction and better in one. `best`: it
    is the one that the study tells. `spread` holds the deviations of outcomes that were measured more than once.
    """

    option: int | None
    params: Design
    outcomes: Values
    spread: Values
    source: Source
    front: bool
    best: bool
