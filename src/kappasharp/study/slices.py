"""What the model believes along one parameter at a time, the others held at a design: how much better or worse."""

from typing import NamedTuple

from kappasharp.study.definition import Definition
from kappasharp.study.parameters import Categorical, Float, Int, Value
from kappasharp.study.questions import Model
from kappasharp.study.space import Design

STEPS = 41
DEVIATIONS = 1.0


class Slice(NamedTuple):
    """Utility above that of the design (negative: worse) at values of one parameter, with a band of one deviation.

    Values without order are choices; nothing lies between them.
    """

    name: str
    here: Value
    values: list[Value]
    mean: list[float]
    low: list[float]
    high: list[float]
    ordered: bool = True


def slices(definition: Definition, model: Model, design: Design) -> list[Slice]:
    """One for each tuned parameter, on contrasts: at the design itself everything is zero."""
    return [_slice(definition, model, design, name) for name in definition.space.tuned]


def _slice(definition: Definition, model: Model, design: Design, name: str) -> Slice:
    space, part = definition.space, definition.space.tuned[name]
    if part.values is not None and len(part.values) <= STEPS:
        values = list(part.values)
    else:
        # From end to end; a long list of choices is thinned, but keeps the design's own.
        drawn = [part.draw(i / (STEPS - 1)) for i in range(STEPS)]
        values = drawn if isinstance(part, Float | Int) or design[name] in drawn else [design[name], *drawn]
    X = space.points(design | {name: value} for value in values)
    here = space.points([design]).expand_as(X)
    found = model.surrogate.contrast(X, here)
    band = DEVIATIONS * found.variance.clamp(min=0.0).sqrt()
    low, high = found.mean - band, found.mean + band
    ordered = not isinstance(part, Categorical)
    return Slice(name, design[name], values, found.mean.tolist(), low.tolist(), high.tolist(), ordered)
