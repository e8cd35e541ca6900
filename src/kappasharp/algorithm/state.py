"""What a step of Algorithm 1 begins with, and the question that it ends with; every tensor has the runs in front."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from kappasharp.acquisition.composite import Allowed
from kappasharp.acquisition.discrete import Lattice
from kappasharp.correction.activation import Gates
from kappasharp.inference.comparisons import Detail
from kappasharp.inference.features import Lift
from kappasharp.settings import Method, Preset

# The first design of a pair, and neither of them.
FIRST, TIE = 0, 2


@dataclass(frozen=True)
class State:
    """All that the next step needs; every tensor has the runs in front."""

    method: Method
    preset: Preset
    seeds: tuple[int, ...]
    points: Tensor
    comparisons: Tensor
    ties: Tensor | None
    step: int
    mean_decisiveness: Tensor
    anchor: Tensor
    theta: Tensor | None = None
    # Whether theta is kept as it is, without a search: a search over nearly all these answers ended there.
    keep: bool = False
    z: Tensor | None = None
    hints: Tensor | None = None
    asked: bool = False
    lattice: Lattice | None = None
    detail: Detail | None = None
    seconds: Tensor | None = None
    # Who gave each comparison (m,), where there are several people, each with times of their own; and, where the method
    # tells them apart, how much they share and how consistent each is, as the last step found it. (voters.py)
    voters: Tensor | None = None
    tastes: Tensor | None = None
    # The outcomes that taste is learnt on, and the limits that designs must keep; the same for all runs.
    lift: Lift | None = None
    allowed: Allowed | None = None
    # Where questions are searched, the ends (d,) of a part of the cube; and which designs (runs, n) may be told.
    box: tuple[Tensor, Tensor] | None = None
    eligible: Tensor | None = None
    # The gate of every run, where methods that differ in it run side by side.
    gates: Gates | None = None


class Question(NamedTuple):
    """The designs of every run (runs, 2, d), or as many as the method shows; those of a slider's line.

    `known` holds the index of a design already seen, or −1 for a new one.
    """

    points: Tensor
    known: Tensor
