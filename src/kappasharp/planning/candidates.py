"""What was seen so far in a study, arranged for what every proposed question must pass; limits among it."""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from kappasharp.journal.history import History
from kappasharp.model import points
from kappasharp.model.feasibility import Allowed
from kappasharp.space.space import Design, Space


class Seen:
    """The designs that were seen, which of them met, and which designs may be proposed at all."""

    def __init__(self, space: Space, history: History, allowed: Allowed | None = None) -> None:
        self.space, self.history, self.allowed = space, history, allowed
        self.points = points.points(space, history.options)
        self.met = history.met()
        self._barred = self._breaking(self.points) if len(self.points) else None

    @property
    def is_open(self) -> Tensor:
        """Which of the designs seen are open and keep the limits."""
        return torch.ones(len(self.points), dtype=torch.bool) if self._barred is None else ~self._barred

    def _breaking(self, X: Tensor) -> Tensor | None:
        """Which points (n, d) are not open, or break a limit; None where none can."""
        if not self.space.bounds:
            return None if self.allowed is None else self.allowed(X) > 0.0
        closed = points.beyond(self.space, X) > 0.0
        return closed if self.allowed is None else closed | (self.allowed(X) > 0.0)

    def nearest(self, *designs: Design) -> list[Design]:
        """Each design itself, or the nearest of those already seen, within the limits, that cannot be told from it."""
        found = list(designs)
        fresh = [i for i, design in enumerate(designs) if self.history.option(design) is None]
        if not fresh or not len(self.points):
            return found
        apart = (self.points - points.points(self.space, [designs[i] for i in fresh]).unsqueeze(1)).abs()
        alike = (apart <= points.tolerance(self.space)).all(-1)
        if self._barred is not None:
            alike = alike & ~self._barred
        distance, option = apart.square().sum(-1).masked_fill(~alike, torch.inf).min(-1)
        for i, far, number in zip(fresh, distance.tolist(), option.tolist(), strict=True):
            found[i] = found[i] if math.isinf(far) else self.history.options[number]
        return found

    def keeping(self, designs: Sequence[Design]) -> list[Design]:
        """Those that are open and keep the limits."""
        broken = self._breaking(points.points(self.space, designs)) if designs else None
        if broken is None:
            return list(designs)
        return [design for design, breaks in zip(designs, broken.tolist(), strict=True) if not breaks]

    def allows(self, *designs: Design) -> bool:
        """Whether designs make a question: within the limits, to be told apart, and not met together by anybody."""
        if any(self.space.same(one, other) for one, other in combinations(designs, 2)):
            return False
        return not self.has_met(designs) and len(self.keeping(designs)) == len(designs)

    def has_met(self, designs: Sequence[Design]) -> bool:
        """Whether somebody met these together."""
        numbers = [self.history.option(design) for design in designs]
        return None not in numbers and frozenset(numbers) in self.met

    def distinct(self, designs: Iterable[Design], kept: Sequence[Design] = ()) -> Iterable[Design]:
        """Those that can be told from all before them, each moved to one already seen that it cannot be told from."""
        found = list(kept)
        for design in (self.nearest(one)[0] for one in designs):
            if not any(self.space.same(design, one) for one in found):
                found.append(design)
                yield design
