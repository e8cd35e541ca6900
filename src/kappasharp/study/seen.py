"""Whether a proposed design is one that was seen, and whether two designs make a question."""

import torch

from kappasharp.study.history import History
from kappasharp.study.space import Design, Space


class Seen:
    """What was seen so far, arranged for the two questions that every proposal must pass."""

    def __init__(self, space: Space, history: History) -> None:
        self.space, self.history = space, history
        self.points = space.points(history.options)
        self.met = history.met()

    def nearest(self, design: Design) -> Design:
        """The design itself, or the nearest of those already seen that cannot be told from it."""
        if not len(self.points) or self.history.option(design) is not None:
            return design
        apart = (self.points - torch.tensor(self.space.encode(design), dtype=torch.float64)).abs()
        alike = (apart <= self.space.tolerance).all(-1)
        if not bool(alike.any()):
            return design
        distance = apart.square().sum(-1).masked_fill(~alike, torch.inf)
        return self.history.options[int(distance.argmin())]

    def allows(self, first: Design, second: Design) -> bool:
        """Whether two designs make a question: they can be told apart, and nobody met them as a pair."""
        if self.space.same(first, second):
            return False
        numbers = frozenset(n for n in (self.history.option(first), self.history.option(second)) if n is not None)
        return len(numbers) < 2 or numbers not in self.met  # noqa: PLR2004
