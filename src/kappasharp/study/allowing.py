"""Which designs a study may propose: those that keep the limits between parameters and those of the outcomes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from kappasharp.core import composite
from kappasharp.streams import stream, uniform
from kappasharp.study import constraints, cube, lifting
from kappasharp.study.constraints import AllowedDesigns
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.lifting import Given
from kappasharp.study.outcomes import StudyOutcome
from kappasharp.study.space import Design, Space

Allowed = Callable[[Tensor], Tensor]
# Where outcomes are predicted: a design is proposed if it keeps their limits with this chance.
LEAST_CHANCE = 0.5
# Designs of the Sobol sequence that are looked at together, and at most; of those that have to be computed, so many
# times as many as one question may have computed.
BLOCK, MOST_DRAWN, TIMES_BUDGET = 128, 4096, 4
# Where they do not suffice: how many of the best have how many children each, in how many rounds, how far away.
PARENTS, CHILDREN, ROUNDS, FIRST_MOVE, SHRINK = 16, 4, 24, 0.2, 0.8


@dataclass(frozen=True)
class WithinLimits:
    """From points (…, d) to how far each breaks the limits (…); 0 where it keeps all of them."""

    between: AllowedDesigns | None
    given: Given | None
    # What lies outside of a space's bounds breaks the limits too.
    space: Space | None = None

    def __call__(self, X: Tensor) -> Tensor:
        """How far each point breaks the limits, in units of what varies."""
        broken = torch.zeros(X.shape[:-1], dtype=torch.float64) if self.between is None else self.between(X)
        if self.space is not None and self.space.bounds:
            broken = broken + cube.beyond(self.space, X).to(broken)
        if self.given is None:
            return broken.to(X)
        flat = X.detach().reshape(-1, X.shape[-1]).to("cpu", torch.float64)
        kept = broken.reshape(-1).to("cpu", torch.float64).clone()
        # A design that breaks a limit between parameters need not be computed.
        open_ = kept == 0.0
        if bool(open_.any()):
            kept[open_] = self._of_outcomes(flat[open_])
        return kept.reshape(X.shape[:-1]).to(X)

    def _of_outcomes(self, X: Tensor) -> Tensor:
        assert self.given is not None
        if not self.given.is_cheap:
            short = (LEAST_CHANCE - self._chance(X)).clamp(min=0.0)
            # Far from the limits every chance is 0: what is expected says which design is nearest.
            return torch.where(short > 0.0, short + self._breaches(self.given.predicted(X)[0]), short)
        return self._breaches(self.given.computed(X))

    def _breaches(self, found: Tensor) -> Tensor:
        assert self.given is not None
        return torch.stack([self._breach(one, found) for one in self.given.outcomes.limited]).sum(0)

    def _breach(self, one: StudyOutcome, found: Tensor) -> Tensor:
        """How far one outcome breaks its limits; 1 where nobody knows it."""
        column = found[:, self._place(one)]
        spread = float(self._spread[self._place(one)])
        broken = torch.zeros_like(column)
        if one.at_most is not None:
            broken = broken + (column - one.at_most).clamp(min=0.0) / spread
        if one.at_least is not None:
            broken = broken + (one.at_least - column).clamp(min=0.0) / spread
        return broken.nan_to_num(nan=1.0, posinf=1e6)

    def _chance(self, X: Tensor) -> Tensor:
        """The chance that all limits are kept."""
        assert self.given is not None
        rows = [
            [-math.inf if one.at_least is None else one.at_least, math.inf if one.at_most is None else one.at_most]
            for one in self.given.outcomes.table
        ]
        return composite.feasibility(self.given.regression, torch.tensor(rows, dtype=torch.float64), X)

    def _place(self, one: StudyOutcome) -> int:
        assert self.given is not None
        return self.given.outcomes.names.index(one.name)

    @cached_property
    def _spread(self) -> Tensor:
        assert self.given is not None
        scale = self.given.scaling
        return torch.where(scale.high > scale.low, scale.high - scale.low, 1.0)


class AllowedSequence:
    """The designs of a study's Sobol sequence that keep its limits, in order; then others near those that do."""

    def __init__(self, definition: Definition, allowed: Allowed) -> None:
        self.definition, self.allowed = definition, allowed
        self.found: list[Design] = []
        self._drawn = 0
        self._points: list[Tensor] = []
        self._broken: list[Tensor] = []

    def take(self, skip: int, count: int, *, search: bool = True) -> list[Design]:
        """So many designs after the first ones; fewer where no more are found, by a search where the sequence ends."""
        while len(self.found) < skip + count and self._drawn < self._most:
            block = cube.designs(self.definition.space, self.definition.seed, self._drawn, BLOCK)
            self._drawn += BLOCK
            self._sift(block)
        if search and len(self.found) < skip + count:
            self._search(skip + count)
        return self.found[skip : skip + count]

    @property
    def nearest(self) -> Tensor:
        """The point that breaks the limits least among those looked at."""
        return torch.cat(self._points)[int(torch.cat(self._broken).argmin())]

    @property
    def _most(self) -> int:
        within = self.allowed
        if not isinstance(within, WithinLimits) or within.given is None or within.given.lift is None:
            return MOST_DRAWN
        budget = within.given.lift.budget
        return max(BLOCK, min(MOST_DRAWN, TIMES_BUDGET * budget)) if budget else MOST_DRAWN

    def _sift(self, designs: Sequence[Design]) -> None:
        X = cube.points(self.definition.space, designs)
        broken = self.allowed(X)
        self._points.append(X)
        self._broken.append(broken)
        self.found += [design for design, far in zip(designs, broken.tolist(), strict=True) if far == 0.0]

    def _search(self, wanted: int) -> None:
        """Look around the designs that break the limits least, as far away as helps."""
        space, move = self.definition.space, FIRST_MOVE
        chance = stream(self.definition.seed, "designs within limits")
        if self.definition.limits and not self.found:
            near, _ = constraints.nearest(constraints.of(self.definition), space)
            self._sift([near])
        for _ in range(ROUNDS):
            if len(self.found) >= wanted:
                return
            X, broken = torch.cat(self._points), torch.cat(self._broken)
            best = broken.sort(stable=True).indices[:PARENTS]
            tried = _children(space, X[best], move, chance)
            fresh = (torch.cdist(tried, X) > 0.0).all(-1)
            before = float(broken.min())
            self._sift([space.decode(row) for row in tried[fresh].tolist()])
            better = float(torch.cat(self._broken).min()) < before or before == 0.0
            move = move if better else move * SHRINK


def _children(space: Space, X: Tensor, move: float, chance: torch.Generator) -> Tensor:
    many = X.repeat(CHILDREN, 1)
    step = (uniform(many.shape, chance, many) * 2.0 - 1.0) * move
    moved = torch.where(uniform(many.shape, chance, many) < 0.5, many + step, many).clamp(0.0, 1.0)  # noqa: PLR2004
    return cube.points(space, map(space.decode, moved.tolist())).unique(dim=0)


def of(definition: Definition, history: History) -> Allowed | None:
    """How far points break the study's limits; None where it has none that can be kept."""
    found = _declared(definition, history)
    if found is None or found.given is None:
        return found
    if AllowedSequence(definition, found).take(0, 1):
        return found
    return None if found.between is None else WithinLimits(found.between, None, found.space)


def without_predicted(allowed: Allowed | None) -> Allowed | None:
    """The same without limits of outcomes that are predicted: what is left where too few designs seem to keep them."""
    if not isinstance(allowed, WithinLimits) or allowed.given is None or allowed.given.is_cheap:
        return allowed
    return None if allowed.between is None else WithinLimits(allowed.between, None, allowed.space)


def _declared(definition: Definition, history: History) -> WithinLimits | None:
    between = AllowedDesigns(definition.space, constraints.of(definition)) if definition.limits else None
    known = lifting.given(definition, history)
    limited = known is not None and bool(known.outcomes.limited) and known.way != "none"
    if between is None and not limited:
        return None
    return WithinLimits(between, known if limited else None, definition.space)


def notes(definition: Definition, history: History) -> list[str]:
    """A sentence where limits of outcomes are left aside, because no design was found that keeps them."""
    found = _declared(definition, history)
    if found is None or found.given is None:
        return []
    tried = AllowedSequence(definition, found)
    if tried.take(0, 1):
        return []
    limits = ", ".join(_words(one) for one in found.given.outcomes.limited)
    values = found.given.outcomes.names, found.given.raw(tried.nearest.unsqueeze(0))[0].tolist()
    near = ", ".join(f"{name} {value:.4g}" for name, value in zip(*values, strict=True))
    return [
        (
            f"No design was found that keeps {limits}: the nearest has {near}. The study goes on without these limits; "
            "wider ones, or a wider space, need a new study."
        )
    ]


def _words(one: StudyOutcome) -> str:
    low = "" if one.at_least is None else f"{one.at_least:g} <= "
    high = "" if one.at_most is None else f" <= {one.at_most:g}"
    return f"{low}{one.name}{high}"
