"""Changes of a study's parameters while it runs: each function gives the event that narrows, locks or widens one.

What breaks a rule raises with the rule. Whether the limits still leave designs to ask about is asked elsewhere, by
`engine().check_change`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Bounded
from kappasharp.journal.history import History
from kappasharp.messages.message import figures, said
from kappasharp.space import bounds
from kappasharp.space.bounds import Bounds
from kappasharp.space.parameters import SLACK, Categorical, Float, Int, Tuned, Value
from kappasharp.space.space import Space

Choices = Sequence[Value] | None


def narrowed(definition: Definition, name: Any, low: Any, high: Any, choices: Any) -> Bounded:
    """Less of a parameter than is open now, or a sentence."""
    part, now = _tuned(definition.space, name), definition.space.open_to(name)
    if isinstance(part, Categorical):
        kept = _choices(name, low, high, choices)
        closed = [one for one in kept if part.index(one) is None or not now.holds(one)]
        if closed:
            raise InvalidValueError(
                f"`narrow({name!r})` must keep some of {list(now.values or ())}, but got {closed[0]!r}; `widen` opens "
                "more."
            )
        return _kept(definition, now, Bounded(name, choices=list(bounds.among(part, kept).values or ())))
    first, last = _ends(name, part, low, high, choices, now)
    slack = SLACK * (part.high - part.low)
    if first < now.low - slack or last > now.high + slack:
        raise InvalidValueError(
            f"`narrow({name!r})` must stay within {now.low:g} to {now.high:g}, which is open now, but got {first:g} to "
            f"{last:g}; `widen` opens more."
        )
    return _kept(definition, now, Bounded(name, max(first, now.low), min(last, now.high)))


def locked(definition: Definition, name: Any, value: Any) -> Bounded:
    """One value of a parameter from now on, of all that were ever open; or a sentence."""
    part = _tuned(definition.space, name)
    try:
        one = part.check(name, value)
    except InvalidValueError as error:
        if getattr(error.sentence, "key", "") in ("fault.multiple", "fault.whole"):
            raise
        raise InvalidValueError(said("fault.lock", "{rule} `widen` opens more first.", rule=error.sentence)) from error
    if isinstance(part, Categorical):
        return _possible(definition, Bounded(name, choices=[one]))
    assert isinstance(one, int | float)
    return _possible(definition, Bounded(name, one, one))


def widened(definition: Definition, name: Any, low: Any, high: Any, choices: Any) -> Bounded:
    """More of a parameter than is open now; without ends or choices all that ever was. Or a sentence."""
    part, now = _tuned(definition.space, name), definition.space.open_to(name)
    if isinstance(part, Categorical):
        more = part.choices if choices is None and low is None and high is None else _choices(name, low, high, choices)
        return _news(definition, now, Bounded(name, choices=[*(now.values or ()), *_closed(now, more)]))
    if low is None and high is None and choices is None:
        whole = bounds.everything(part)
        return _news(definition, now, Bounded(name, whole.low, whole.high))
    first, last = _ends(name, part, low, high, choices, now)
    if first > now.low or last < now.high:
        raise InvalidValueError(
            f"`widen({name!r})` must keep {now.low:g} to {now.high:g}, which is open now, but got {first:g} to "
            f"{last:g}; `narrow` closes a part."
        )
    _check_lattice(name, part, first)
    return _news(definition, now, Bounded(name, first, last))


def _closed(now: Bounds, more: Sequence[Value]) -> list[Value]:
    assert isinstance(now.part, Categorical)
    places = [now.part.index(one) for one in now.values or ()]
    return [one for one in more if now.part.index(one) is None or now.part.index(one) not in places]


def checked(event: Bounded, definition: Definition, history: History) -> Bounded:
    """A change from elsewhere, if a study could have stored it; or a sentence."""
    assert history.space is not None
    now = replace(definition, space=history.space)
    part = _tuned(now.space, event.name)
    if isinstance(part, Categorical):
        return _possible(now, Bounded(event.name, choices=_choices(event.name, event.low, event.high, event.choices)))
    first, last = _ends(event.name, part, event.low, event.high, event.choices, now.space.open_to(event.name))
    _check_lattice(event.name, part, min(first, part.low))
    return _possible(now, Bounded(event.name, first, last))


def _tuned(space: Space, name: Any) -> Tuned:
    part = named("parameter", name, space.parameters)
    if name in space.fixed:
        raise InvalidValueError(
            f"`{name}` is fixed at {space.fixed[name]!r} since the study was made, and the model knows nothing else of "
            "it: a new study tunes it."
        )
    assert isinstance(part, Float | Int | Categorical)
    return part


def _ends(name: str, part: Float | Int, low: Any, high: Any, choices: Any, now: Bounds) -> tuple[float, float]:
    """The ends that are given, and for one that is not the present."""
    if choices is not None:
        raise InvalidTypeError(f"`{name}` is a number: it must have `low` and `high`, but got choices.")
    first = now.low if low is None else bounds.number(f"low of {name}", part, low)
    last = now.high if high is None else bounds.number(f"high of {name}", part, high)
    if first > last:
        raise InvalidValueError(f"`{name}` must have low <= high, but got {first:g} to {last:g}.")
    return first, last


def _choices(name: str, low: Any, high: Any, choices: Any) -> list[Value]:
    if low is not None or high is not None:
        raise InvalidTypeError(f"`{name}` is a choice: it must have `choices`, but got numbers.")
    return bounds.listed(name, choices)


def _check_lattice(name: str, part: Float | Int, low: float) -> None:
    """A range with steps begins on one of them, or its old values would lie between the new ones."""
    if part.step is None or low >= part.low:
        return
    steps = (part.low - low) / part.step
    if abs(steps - round(steps)) > SLACK * max(steps, 1.0):
        near = part.low - round(steps) * part.step
        words = (
            "`{name}` goes in steps of {step} from {first}: its new low must be on one of them, but got {got}; {near} "
            "is the nearest."
        )
        numbers = {"step": part.step, "first": part.low, "got": low, "near": near}
        given = {key: figures(f"{one:g}") for key, one in numbers.items()}
        raise InvalidValueError(said("fault.lattice", words, name=name, **given))


def _kept(definition: Definition, now: Bounds, event: Bounded) -> Bounded:
    after = bounds.some(now.part, event.low, event.high, event.choices)
    if after == now:
        raise InvalidValueError(f"`narrow` must close something, but {event.name} is open to {now} now.")
    return _possible(definition, event)


def _news(definition: Definition, now: Bounds, event: Bounded) -> Bounded:
    given = event.low, event.high, event.choices
    if bounds.some(bounds.grown(now.part, *given), *given).ends == now.ends:
        raise InvalidValueError(f"`widen` must open something, but {event.name} is open to {now} now.")
    return _possible(definition, event)


def after(definition: Definition, event: Bounded) -> Definition:
    """The definition with what is open of its parameters after a change."""
    before = definition.space
    space = before.grown(event.name, event.low, event.high, event.choices)
    others = {name: one.ends for name, one in before.bounds.items() if name != event.name}
    space = space.opened(before.whole, others | {event.name: (event.low, event.high, event.choices)})
    return replace(definition, space=space)


def _possible(definition: Definition, event: Bounded) -> Bounded:
    """The change, if there are two designs to ask about after it; or a sentence. Limits are not looked at."""
    changed = after(definition, event)
    space = changed.space
    if not (space.open_values[event.name] or space.open_values[event.name] is None):
        assert event.low is not None and event.high is not None
        words = "`{name}` must keep a value, but none of its steps is from {low} to {high}."
        ends = {"low": figures(f"{event.low:g}"), "high": figures(f"{event.high:g}")}
        raise InvalidValueError(said("fault.empty", words, name=event.name, **ends))
    if space.size < 2:  # noqa: PLR2004
        words = "A study must have two designs to compare, but with {name} {bounds} one is left; leave another open."
        raise InvalidValueError(said("fault.single", words, name=event.name, bounds=str(space.bounds[event.name])))
    try:
        changed.asking(definition.form)
    except InvalidValueError as error:
        raise InvalidValueError(
            f"This study usually asks {definition.form.words}, and after this change it could not. {error}"
        ) from error
    return event
