"""From what `create_study` is given to what a study says of its outcomes and limits, and to what computes them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.study import constraints, outcomes, sampling, simulation
from kappasharp.study.outcomes import AtLeast, AtMost, Less, More, Outcomes, StudyOutcome
from kappasharp.study.simulation import Simulator
from kappasharp.study.space import Space


class Declared(NamedTuple):
    """Outcomes, limits between parameters as texts, and what computes the outcomes here."""

    outcomes: Outcomes | None
    limits: tuple[str, ...]
    simulator: Simulator | None


def declared(space: Space, seed: int, given: Any, hints: Any, limits: Any) -> Declared:
    """What was given, checked. A function is run for a few designs: its outcomes' names come from it."""
    hints = _each("hints", hints, (Less, More), "ks.Less or ks.More")
    limits = _each("limits", limits, (str, AtMost, AtLeast), "texts such as 'a + b <= 1', ks.AtMost or ks.AtLeast")
    texts = tuple(one for one in limits if isinstance(one, str))
    of_outcomes = [one for one in limits if not isinstance(one, str)]
    _check_limits(space, texts)
    if given is None and (hints or of_outcomes):
        raise InvalidValueError(f"{[*hints, *of_outcomes][0]!r} must be about an outcome, but the study has none.")
    if given is None:
        return Declared(None, texts, None)
    if isinstance(given, Outcomes):
        return Declared(given, texts, None)
    name, table = read(given)
    if name is None:
        measured = Outcomes(outcomes.with_knowledge(Outcomes(table).table, hints, of_outcomes))
        return Declared(_apart(measured, space), texts, None)
    simulator = simulation.of(name)
    probed = simulation.probe(simulator, sampling.designs(space, seed, 0, simulation.PROBES))
    table = _complete(table, probed.names)
    table = outcomes.with_knowledge(table, hints, of_outcomes)
    return Declared(_apart(Outcomes(table, simulator.name, True, probed.seconds), space), texts, simulator)


def _apart(found: Outcomes, space: Space) -> Outcomes:
    """The outcomes, if none has a parameter's name: words such as mass=12 must mean one thing."""
    both = [name for name in found.names if name in space.parameters]
    if both:
        raise InvalidValueError(
            f"An outcome must have another name than every parameter, but both have {both[0]!r}; give one of them "
            "another."
        )
    return found


def _check_limits(space: Space, texts: Sequence[str]) -> None:
    """Each limit can be read, and some design meets all of them; or a sentence."""
    if texts:
        constraints.check([constraints.parse(text, space) for text in texts], space)


def _each(what: str, given: Any, kinds: tuple[type, ...], words: str) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidTypeError(f"`{what}` must be a list of {words}, but got {given!r}.")
    for one in given:
        if not isinstance(one, kinds):
            raise InvalidTypeError(f"`{what}` must hold {words}, but got {one!r}.")
    return list(given)


def read(given: Any) -> tuple[Any, tuple[StudyOutcome, ...]]:
    """The function or its name, None where outcomes are measured; and what is said of single outcomes."""
    if isinstance(given, str) or callable(given):
        return given, ()
    if isinstance(given, Mapping):
        return outcomes.from_table(given)
    if isinstance(given, Sequence):
        return None, tuple(StudyOutcome(name) for name in given)
    raise InvalidTypeError(
        f"`outcomes` must be a function, module:function, names, or a table of a study file, but got {given!r}."
    )


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
