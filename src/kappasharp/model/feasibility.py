"""Which designs a study may propose: those that keep the limits between parameters and those of the outcomes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from kappasharp.errors import InvalidValueError
from kappasharp.inference import features
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History
from kappasharp.messages.message import Sentence, figures, in_a_row, listed, said
from kappasharp.model import limits as model_limits
from kappasharp.model import outcomes, points
from kappasharp.model.limits import AllowedDesigns
from kappasharp.model.outcomes import Given
from kappasharp.questions.kind import PAIR
from kappasharp.randomness import stream, uniform
from kappasharp.regression import composite
from kappasharp.simulators import simulator
from kappasharp.space.outcomes import StudyOutcome
from kappasharp.space.space import Design, Space

Allowed = Callable[[Tensor], Tensor]
# Where outcomes are predicted: a design is proposed if it keeps their limits with this chance.
LEAST_CHANCE = 0.5
# Designs of the Sobol sequence that are looked at together, and at most; of those that have to be computed, so many
# times as many as one question may have computed.
BLOCK, MOST_DRAWN, TIMES_BUDGET = 128, 4096, 4
# Where they do not suffice: how many of the best have how many children each, in how many rounds, how far away.
PARENTS, CHILDREN, ROUNDS, FIRST_MOVE, SHRINK = 16, 4, 24, 0.2, 0.8
# How far behind all others a search ranks designs whose outcomes nobody looked at: they break limits
# of parameters, or are not open.
UNSEEN = 1e7
# How many designs within the limits are looked at, one number after the other, for two that can be told apart.
TRIES = (16, 128)
# Fewer designs within the limits of outcomes than this are worth a note.
FEW = 8


@dataclass(frozen=True)
class WithinLimits:
    """From points (…, d) to how far each breaks the limits (…); 0 where it keeps all of them."""

    between: AllowedDesigns | None
    given: Given | None
    # What lies outside of a space's bounds breaks the limits too.
    space: Space | None = None

    def __call__(self, X: Tensor) -> Tensor:
        """How far each point breaks the limits, in units of what varies."""
        broken = self._of_parameters(X)
        if self.given is None:
            return broken.to(X)
        flat = X.detach().reshape(-1, X.shape[-1]).to("cpu", torch.float64)
        kept = broken.reshape(-1).to("cpu", torch.float64).clone()
        # A design that breaks a limit between parameters need not be computed.
        open_ = kept == 0.0
        if bool(open_.any()):
            kept[open_] = self._of_outcomes(flat[open_])
        return kept.reshape(X.shape[:-1]).to(X)

    def ranked(self, X: Tensor) -> Tensor:
        """The same for a search: designs whose outcomes were not looked at come after all others."""
        broken = self(X)
        return broken if self.given is None else broken + UNSEEN * (self._of_parameters(X) > 0.0).to(broken)

    @property
    def budget(self) -> int:
        """How many designs one question may have computed for the limits' sake; 0 for as many as it likes."""
        if self.given is None or self.given.limited_by != "computed":
            return 0
        return simulator.budget(self.given.outcomes.seconds or 0.0)

    def breaks(self, X: Tensor) -> Tensor:
        """Which points (n, d) are known to break a limit; a prediction is no knowledge, nor is a failure."""
        broken = torch.zeros(len(X), dtype=torch.bool) if self.between is None else self.between(X) > 0.0
        return broken if self.given is None else broken | (self._breaches(self.given.own(X), unknown=0.0) > 0.0)

    @property
    def rules_out_something(self) -> bool:
        """Whether the limits of outcomes can say no; where records alone tell, only if one of those breaks them."""
        assert self.given is not None
        if self.given.limited_by != "recorded":
            return True
        found = [known.values for known in self.given.known]
        limited = self.given.outcomes.limited
        return any(one.violation(values[one.name]) > 0.0 for one in limited for values in found if one.name in values)

    def named(self) -> list[str]:
        """The limits in words."""
        texts = [] if self.between is None else [repr(one.text) for one in self.between.constraints]
        return texts + ([] if self.given is None else [in_words(one) for one in self.given.outcomes.limited])

    def _of_parameters(self, X: Tensor) -> Tensor:
        broken = torch.zeros(X.shape[:-1], dtype=torch.float64) if self.between is None else self.between(X)
        if self.space is not None and self.space.bounds:
            broken = broken + points.beyond(self.space, X).to(broken)
        return broken

    def _of_outcomes(self, X: Tensor) -> Tensor:
        assert self.given is not None
        own = self.given.own(X)
        if self.given.limited_by == "computed":
            return self._breaches(own)
        known = self._breaches(own, unknown=0.0)
        if self.given.limited_by == "recorded":
            return known
        # What was recorded of a design comes before what is predicted of it.
        is_whole = ~own[:, [self._place(one) for one in self.given.outcomes.limited]].isnan().any(-1)
        return torch.where(is_whole, known, torch.maximum(known, self._expected(X)))

    def _expected(self, X: Tensor) -> Tensor:
        assert self.given is not None
        short = (LEAST_CHANCE - self._chance(X)).clamp(min=0.0)
        # Far from the limits every chance is 0: what is expected says which design is nearest.
        return torch.where(short > 0.0, short + self._breaches(self.given.predicted(X)[0]), short)

    def _breaches(self, found: Tensor, unknown: float = 1.0) -> Tensor:
        assert self.given is not None
        return torch.stack([self._breach(one, found, unknown) for one in self.given.outcomes.limited]).sum(0)

    def _breach(self, one: StudyOutcome, found: Tensor, unknown: float) -> Tensor:
        """How far one outcome breaks its limits; `unknown` where nobody knows it."""
        column = found[:, self._place(one)]
        spread = float(self._spread[self._place(one)])
        broken = torch.zeros_like(column)
        if one.at_most is not None:
            broken = broken + (column - one.at_most).clamp(min=0.0) / spread
        if one.at_least is not None:
            broken = broken + (one.at_least - column).clamp(min=0.0) / spread
        return broken.nan_to_num(nan=unknown, posinf=1e6)

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
        scale = features.scaling(self.given.values)
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
            block = points.designs(self.definition.space, self.definition.seed, self._drawn, BLOCK)
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
        budget = self.allowed.budget if isinstance(self.allowed, WithinLimits) else 0
        return max(BLOCK, min(MOST_DRAWN, TIMES_BUDGET * budget)) if budget else MOST_DRAWN

    def _sift(self, designs: Sequence[Design]) -> None:
        X = points.points(self.definition.space, designs)
        broken = self.allowed.ranked(X) if isinstance(self.allowed, WithinLimits) else self.allowed(X)
        self._points.append(X)
        self._broken.append(broken)
        self.found += [design for design, far in zip(designs, broken.tolist(), strict=True) if far == 0.0]

    def _search(self, wanted: int) -> None:
        """Look around the designs that break the limits least, as far away as helps."""
        space, move = self.definition.space, FIRST_MOVE
        chance = stream(self.definition.seed, "designs within limits")
        if self.definition.limits and not self.found:
            near, _ = model_limits.nearest(model_limits.of(self.definition), space)
            self._sift([near])
        for _ in range(ROUNDS):
            if len(self.found) >= wanted:
                return
            X, broken = torch.cat(self._points), torch.cat(self._broken)
            best = broken.sort(stable=True).indices[:PARENTS]
            tried = _children(space, X[best], move, chance)
            fresh = (torch.cdist(tried, X) > 0.0).all(-1)
            before = float(broken.min())
            self._sift(space.decode_all(tried[fresh].tolist()))
            better = float(torch.cat(self._broken).min()) < before or before == 0.0
            move = move if better else move * SHRINK


def _children(space: Space, X: Tensor, move: float, chance: torch.Generator) -> Tensor:
    many = X.repeat(CHILDREN, 1)
    step = (uniform(many.shape, chance, many) * 2.0 - 1.0) * move
    moved = torch.where(uniform(many.shape, chance, many) < 0.5, many + step, many).clamp(0.0, 1.0)  # noqa: PLR2004
    return points.points(space, map(space.decode, moved.tolist())).unique(dim=0)


def of(definition: Definition, history: History) -> Allowed | None:
    """How far points break the study's limits; None where it has none that can be kept."""
    found = _declared(definition, history)
    if found is None or found.given is None:
        return found
    if found.rules_out_something and len(apart(AllowedSequence(definition, found))) == PAIR:
        return found
    return None if found.between is None else WithinLimits(found.between, None, found.space)


def apart(drawn: AllowedSequence) -> list[Design]:
    """Two designs of a sequence that can be told apart; fewer where no more are found."""
    for many in (PAIR, *TRIES):
        found = drawn.take(0, many)
        other = next((one for one in found if not drawn.definition.space.same(found[0], one)), None)
        if other is not None:
            return [found[0], other]
        if len(found) < many:
            break
    return found[:1]


def check(definition: Definition) -> None:
    """The limits between parameters leave two designs to ask about; or a sentence."""
    if not definition.limits:
        return
    parsed = model_limits.of(definition)
    within = WithinLimits(AllowedDesigns(definition.space, parsed), None, definition.space)
    if len(apart(AllowedSequence(definition, within))) == PAIR:
        return
    near, _ = model_limits.nearest(parsed, definition.space)
    limits = listed([repr(one) for one in definition.limits])
    raise InvalidValueError(
        f"Limits must leave two designs that can be told apart, but within {limits} only one was found: {near}; make "
        "them wider, leave more of a parameter open, or make a `jnd` smaller."
    )


def without_predicted(allowed: Allowed | None) -> Allowed | None:
    """The same without limits of outcomes that are predicted: what is left where too few designs seem to keep them."""
    if not isinstance(allowed, WithinLimits) or allowed.given is None or allowed.given.limited_by != "predicted":
        return allowed
    return None if allowed.between is None else WithinLimits(allowed.between, None, allowed.space)


def _declared(definition: Definition, history: History) -> WithinLimits | None:
    between = AllowedDesigns(definition.space, model_limits.of(definition)) if definition.limits else None
    known = outcomes.given(definition, history)
    limited = known is not None and bool(known.outcomes.limited)
    if between is None and not limited:
        return None
    return WithinLimits(between, known if limited else None, definition.space)


def breaking(allowed: Allowed | None, X: Tensor) -> Tensor:
    """Which points (n, d) are known to break a limit."""
    return allowed.breaks(X) if isinstance(allowed, WithinLimits) else torch.zeros(len(X), dtype=torch.bool)


def broken(definition: Definition, history: History, design: Design) -> list[str]:
    """The limits that a design is known to break, in words, whether or not they are left aside."""
    found = _declared(definition, history)
    if found is None:
        return []
    texts = [repr(one.text) for one in model_limits.of(definition) if not one.holds(design)]
    if found.given is None:
        return texts
    own = found.given.own(points.points(definition.space, [design]))[0].tolist()
    rows = zip(found.given.outcomes.table, own, strict=True)
    return texts + [in_words(one) for one, value in rows if not math.isnan(value) and one.violation(value) > 0.0]


def notes(definition: Definition, history: History) -> list[Sentence]:
    """A sentence where limits of outcomes are left aside: nothing tells who keeps them, or too few designs do."""
    found = _declared(definition, history)
    if found is None or found.given is None:
        return []
    limits = listed([in_words(one) for one in found.given.outcomes.limited])
    if found.given.limited_by == "recorded":
        return [_about_unknown(found.given, limits)]
    tried = AllowedSequence(definition, found)
    kept = apart(tried)
    if len(kept) == PAIR:
        return _about_few(tried, limits)
    rest = (
        "The study goes on without these limits; they may be kept again where more of a parameter is open, and wider "
        "ones need a new study."
    )
    if kept:
        only = ", ".join(f"{name}={value!r}" for name, value in kept[0].items())
        words = f"Only one design was found that keeps {{limits}}: {{design}}. A question needs two. {rest}"
        return [said("note.limits_one", words, limits=limits, design=only)]
    values = found.given.outcomes.names, found.given.raw(tried.nearest.unsqueeze(0))[0].tolist()
    near = [
        said("chart.value", "{label} {value}", label=name, value=figures(f"{value:.4g}"))
        for name, value in zip(*values, strict=True)
        if not math.isnan(value)
    ]
    words = f"No design was found that keeps {{limits}}: the nearest has {{near}}. {rest}"
    return [said("note.limits_none", words, limits=limits, near=in_a_row(near))]


def _about_few(tried: AllowedSequence, limits: str) -> list[Sentence]:
    many = len(tried.take(0, FEW))
    if many == FEW:
        return []
    words = "Only {designs} designs were found that keep {limits}: the first questions are about these alone."
    return [said("note.limits_few", words, designs=many, limits=limits)]


def _about_unknown(given: Given, limits: str) -> Sentence:
    few = said("note.fewer", "fewer than {least} have any", least=outcomes.LEAST_DESIGNS)
    why = said("note.gives_none", "the function of the outcomes gives none") if given.is_cheap else few
    words = (
        "{limits} is kept by designs whose outcomes are known, and left aside for all others: {why}, so nothing is "
        "known of theirs."
    )
    return said("note.limits_unknown", words, limits=limits, why=why)


def in_words(one: StudyOutcome) -> str:
    """The limits of an outcome."""
    low = "" if one.at_least is None else f"{one.at_least:g} <= "
    high = "" if one.at_most is None else f" <= {one.at_most:g}"
    return f"{low}{one.name}{high}"
