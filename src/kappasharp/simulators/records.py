"""Outcomes as events: what is to be stored of designs that somebody sees, and what is known of any design."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Recorded
from kappasharp.journal.history import History, design_key
from kappasharp.messages.message import Sentence, said
from kappasharp.simulators.function import is_of_a_hang
from kappasharp.space.outcomes import Ran, Values
from kappasharp.space.space import Design

# About how many seconds of computing go at once to designs that failed before, and the most of such designs.
AGAIN_SECONDS, MOST_AGAIN = 0.5, 64


def values(definition: Definition, history: History, design: Design) -> Values | None:
    """A complete design's outcomes: as they were recorded, or else computed; None where nothing gives them."""
    known = history.outcomes(design)
    recorded = dict(known.values) if known is not None and known.runs else {}
    outcomes, simulator = definition.outcomes, definition.simulator
    if outcomes is None or simulator is None or recorded.keys() == set(outcomes.names):
        return recorded or None
    found = (simulator.compute([design], outcomes.names)[0].values or {}) | recorded
    return {name: found[name] for name in outcomes.names if name in found} or None


def missing(definition: Definition, history: History, designs: Iterable[Design]) -> list[Recorded]:
    """What is to be stored of these designs: outcomes that are computed now, or why they cannot be."""
    if definition.outcomes is None or definition.simulator is None:
        return []
    fresh = _without(history, designs)
    ran = definition.simulator.compute(fresh, definition.outcomes.names) if fresh else []
    return _news(history, fresh, ran)


def at_hand(definition: Definition, history: History, designs: Iterable[Design]) -> list[Recorded]:
    """The same of those alone that this process has computed already, as a search does: nobody waits for it."""
    if definition.outcomes is None or definition.simulator is None:
        return []
    fresh, names = _without(history, designs), definition.outcomes.names
    known = [(design, ran) for design in fresh if (ran := definition.simulator.known(design, names)) is not None]
    return _news(history, (design for design, _ in known), (ran for _, ran in known))


def _without(history: History, designs: Iterable[Design]) -> list[Design]:
    """Those of which no outcomes are stored, each once."""
    return list({design_key(design): design for design in designs if not _has_values(history, design)}.values())


def _news(history: History, designs: Iterable[Design], ran: Iterable[Ran]) -> list[Recorded]:
    found = [
        Recorded(design, None if one.values is None else dict(one.values), "simulated", failure=one.failure)
        for design, one in zip(designs, ran, strict=True)
    ]
    return [one for one in found if is_news(history, one)]


def failed(history: History) -> list[Design]:
    """Designs whose outcomes could not be computed, the latest first."""
    return [one.design for one in reversed(history.known.values()) if one.failure is not None and not one.runs]


def to_try_again(definition: Definition, history: History) -> list[Design]:
    """A few of them, where this process has not tried them: the function may have been mended since.

    Not those that hung: each might take half a minute once more.
    """
    if definition.outcomes is None or definition.simulator is None:
        return []
    many = min(max(int(AGAIN_SECONDS / max(definition.outcomes.seconds or 0.0, 1e-6)), 1), MOST_AGAIN)
    fresh = (design for design in failed(history) if not definition.simulator.has_tried(design))
    quick = (design for design in fresh if not is_of_a_hang(_failure(history, design)))
    return list(islice(quick, many))


def _failure(history: History, design: Design) -> str:
    known = history.outcomes(design)
    return "" if known is None or known.failure is None else known.failure


def is_news(history: History, event: Recorded) -> bool:
    """Whether what was computed is not in the history already."""
    known = history.outcomes(event.design)
    return known is None or (not known.runs and known.failure != event.failure)


def _has_values(history: History, design: Design) -> bool:
    known = history.outcomes(design)
    return known is not None and bool(known.runs)


def missing_function(definition: Definition) -> Sentence | None:
    """A sentence where a study's outcomes are computed, but not here, and how to give the function."""
    outcomes = definition.outcomes
    if outcomes is None or not outcomes.is_computed or definition.simulator is not None:
        return None
    name = outcomes.function
    how = said("note.unnamed", "`load_study(..., outcomes=…)`")
    if name:
        how = said("note.named", "`load_study(..., outcomes={name!r})` or `--outcomes {name}`", name=name)
    words = "The function of the outcomes is not here; {how} gives it. Until then they are those that were stored"
    rest = "; with it the best design may be another."
    if outcomes.limited:
        limits = ", and their limits are kept as far as those tell"
        return said("note.missing_limited", f"{words}{limits}{rest}", how=how)
    return said("note.missing", f"{words}{rest}", how=how)


def measured(definition: Definition, design: Mapping[str, Any], outcomes: Any, repeat: Any) -> Recorded:
    """The event of outcomes that somebody gives by hand; None takes back what is known of the design."""
    if definition.outcomes is None:
        raise InvalidValueError(
            "`record` must be about a study with outcomes, but this one has none; `create_study(..., outcomes=[...])` "
            "names them."
        )
    if not isinstance(repeat, bool):
        raise InvalidTypeError(f"`repeat` must be True or False, but got {repeat!r}.")
    if outcomes is None and repeat:
        raise InvalidValueError("`repeat` must come with outcomes, but got None, which takes back what was recorded.")
    whole = definition.space.check(design)
    given = None if outcomes is None else definition.outcomes.check(outcomes, complete=False)
    return Recorded(whole, given, "measured", repeat)
