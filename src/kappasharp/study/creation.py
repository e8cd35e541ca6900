"""From what `create_study` is given to a definition: limits that some design meets, and what computes outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kappasharp.engine import engine
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.journal.definition import Definition, completed, stated
from kappasharp.journal.history import History
from kappasharp.questions.kind import ONE_PAIR
from kappasharp.settings import DEFAULT_METHOD, DEFAULT_PRESET, Preset
from kappasharp.simulators import simulator as simulators_simulator
from kappasharp.simulators.simulator import Simulator
from kappasharp.space import outcomes
from kappasharp.space.outcomes import AtLeast, AtMost, GivenOutcomes, Hint, Less, Limit, More, Outcomes, StudyOutcome
from kappasharp.space.space import Design, GivenSpace, Space

# What a new study may begin with: every favourite is asked about and told from the others, and every design is held
# against every limit. Studies that are stored already are read with as many as they have.
MOST_FAVOURITES, MOST_LIMITS = 200, 100
# Numbers whose multiples spread evenly.
GOLDEN, PLASTIC = 0.6180339887498949, 0.7548776662466927


class Declared(NamedTuple):
    """Outcomes, limits between parameters as texts, and what computes the outcomes here."""

    outcomes: Outcomes | None
    limits: tuple[str, ...]
    simulator: Simulator | None


def define(
    given: GivenSpace,
    *,
    seed: int = 0,
    method: str = DEFAULT_METHOD,
    preset: str | Preset = DEFAULT_PRESET,
    first_pairs: int | None = None,
    question: str = str(ONE_PAIR),
    use_seconds: bool = False,
    tell_apart: bool = False,
    outcomes: GivenOutcomes | Outcomes | None = None,
    hints: Sequence[Hint] = (),
    limits: Sequence[str | Limit] = (),
    favourites: Sequence[Mapping[str, Any]] = (),
    render: str | None = None,
) -> Definition:
    """A checked definition; the arguments are those of `create_study`."""
    found = stated(
        given, seed=seed, method=method, preset=preset, first_pairs=first_pairs, question=question,
        use_seconds=use_seconds, tell_apart=tell_apart, render=render,
    )  # fmt: skip
    for name, many, most in (("favourites", favourites, MOST_FAVOURITES), ("limits", limits, MOST_LIMITS)):
        if isinstance(many, Sequence) and not isinstance(many, str) and len(many) > most:
            raise InvalidValueError(f"`{name}` must be at most {most}, but got {len(many)}; leave some out.")
    said = declared(found.space, outcomes, hints, limits)
    found = completed(found, said.outcomes, said.limits, favourites, gave_first=first_pairs is not None)
    found = replace(found, simulator=said.simulator)
    _check_favourites(found)
    if found.limits:
        engine().check_feasible(found)
    return found


def asked_otherwise(found: Definition, question: str) -> Definition:
    """The same study with another usual kind of question, and as many first ones as that has."""
    return define(
        found.space, seed=found.seed, method=found.method_name, preset=found.preset_choice, question=question,
        use_seconds=found.use_seconds, tell_apart=found.tell_apart, outcomes=found.outcomes, limits=found.limits,
    )  # fmt: skip


def checked(found: Definition) -> Definition:
    """A definition from elsewhere, if a study could have been made of it; or a sentence."""
    _check_limits(found.space, found.limits, has_outcomes=found.outcomes is not None)
    _check_favourites(found)
    return found


def _check_favourites(found: Definition) -> None:
    """The designs that people came with keep every limit; or a sentence."""
    if not found.limits and found.outcomes is None:
        return
    for place, design in enumerate(found.favourites):
        broken = engine().broken(found, History(""), design)
        if broken:
            raise InvalidValueError(f"`favourites[{place}]` must keep every limit, but it breaks {broken[0]}.")


def declared(space: Space, given: Any, hints: Any, limits: Any) -> Declared:
    """What was given, checked. A function is run for a few designs: its outcomes' names come from it."""
    hints, texts, of_outcomes = _knowledge(hints, limits)
    _check_limits(space, texts, has_outcomes=given is not None)
    if given is None and (hints or of_outcomes):
        raise InvalidValueError(f"{[*hints, *of_outcomes][0]!r} must be about an outcome, but the study has none.")
    if given is None:
        return Declared(None, texts, None)
    if isinstance(given, Outcomes):
        return Declared(given, texts, None)
    name, table = outcomes.read_given(given)
    if name is None:
        measured = Outcomes(outcomes.with_knowledge(Outcomes(table).table, hints, of_outcomes))
        return Declared(_apart(measured, space), texts, None)
    simulator = simulators_simulator.of(name)
    probed = simulators_simulator.probe(simulator, _some(space, simulators_simulator.PROBES))
    table = _complete(table, probed.names)
    table = outcomes.with_knowledge(table, hints, of_outcomes)
    return Declared(_apart(Outcomes(table, simulator.name, True, probed.seconds), space), texts, simulator)


def _some(space: Space, count: int) -> list[Design]:
    """Designs from here and there: two additive sequences, which need no torch."""
    return [
        space.draw([(nth * GOLDEN + place * PLASTIC) % 1.0 for place in range(len(space.tuned))])
        for nth in range(1, count + 1)
    ]


def _apart(found: Outcomes, space: Space) -> Outcomes:
    """The outcomes, if none has a parameter's name: words such as mass=12 must mean one thing."""
    both = [name for name in found.names if name in space.parameters]
    if both:
        raise InvalidValueError(
            f"An outcome must have another name than every parameter, but both have {both[0]!r}; give one of them "
            "another."
        )
    return found


def news(stored: Outcomes | None, stored_limits: Sequence[str], given: Any, hints: Any, limits: Any) -> list[str]:
    """What is said here of outcomes and limits, and otherwise or not at all by a stored study, each in words."""
    hints, texts, of_outcomes = _knowledge(hints, limits)
    kept = {} if stored is None else {one.name: one for one in stored.table}
    said = {} if given is None else {one.name: one for one in outcomes.read_given(given)[1]}
    blank = {name: StudyOutcome(name) for name in kept}
    found = [f"the limit {text!r}" for text in texts if text not in stored_limits]
    for one in outcomes.with_knowledge((blank | said).values(), hints, of_outcomes):
        before = kept[one.name].plain() if one.name in kept else {}
        found += [f"{key} = {value} of {one.name!r}" for key, value in one.plain().items() if before.get(key) != value]
    return found


def _knowledge(hints: Any, limits: Any) -> tuple[list[Any], tuple[str, ...], list[Any]]:
    """Hints, limits between parameters, and limits of outcomes, each of its type."""
    hints = _each("hints", hints, (Less, More), "ks.Less or ks.More")
    limits = _each("limits", limits, (str, AtMost, AtLeast), "texts such as 'a + b <= 1', ks.AtMost or ks.AtLeast")
    texts = tuple(one for one in limits if isinstance(one, str))
    return hints, texts, [one for one in limits if not isinstance(one, str)]


def _check_limits(space: Space, texts: Sequence[str], *, has_outcomes: bool) -> None:
    """Each limit can be read, and some design meets all of them; or a sentence."""
    if not texts:
        return
    try:
        engine().check_limits(texts, space)
    except UnknownNameError as error:
        if not has_outcomes:
            raise
        raise UnknownNameError(
            f"{error} A text limits parameters; ks.AtMost and ks.AtLeast limit outcomes, in a study file `at_most` and "
            "`at_least`."
        ) from error


def _each(what: str, given: Any, kinds: tuple[type, ...], words: str) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidTypeError(f"`{what}` must be a list of {words}, but got {given!r}.")
    for one in given:
        if not isinstance(one, kinds):
            raise InvalidTypeError(f"`{what}` must hold {words}, but got {one!r}.")
    return list(given)


def _complete(table: Sequence[StudyOutcome], names: Sequence[str]) -> tuple[StudyOutcome, ...]:
    """One row for each name that the function returned, with what the table says of it."""
    said = {one.name: one for one in table}
    unknown = [name for name in said if name not in names]
    if unknown:
        raise InvalidValueError(
            f"`outcomes` must speak of what its function returns, {', '.join(names)}, but it names "
            f"{', '.join(unknown)}."
        )
    return tuple(said.get(name, StudyOutcome(name)) for name in names)
