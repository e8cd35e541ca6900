"""What a range of numbers must be, each rule with its sentence."""

import math
from numbers import Integral, Real
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError

MOST_LEVELS = 100_000


def check_range(kind: str, low: float, high: float, log: Any) -> None:
    """Low before high, a width that a number can hold, and a logarithm where one is wanted."""
    if low >= high:
        raise InvalidValueError(
            f"`{kind}` must have low < high, but got low={low:g}, high={high:g}; a value that never changes is "
            "`Fixed(value)`."
        )
    if not math.isfinite(high - low):
        raise InvalidValueError(f"`{kind}` must have a width that a number can hold, but got {low:g} to {high:g}.")
    if not isinstance(log, bool):
        raise InvalidTypeError(f"`{kind}(log=...)` must be True or False, but got {log!r}.")
    if log and low <= 0:
        raise InvalidValueError(
            f"`{kind}(log=True)` must have low > 0, for zero has no logarithm, but got low={low:g}."
        )


def check_step(kind: str, low: float, high: float, step: float) -> None:
    """A step that fits in the range, and not too many of them."""
    if step > high - low:
        raise InvalidValueError(f"`{kind}(step=...)` must fit in the range {low:g} to {high:g}, but got {step:g}.")
    if (high - low) / step > MOST_LEVELS:
        raise InvalidValueError(
            f"`{kind}` must not have more than {MOST_LEVELS} values, but got {(high - low) / step:.0f} from {low:g} to "
            f"{high:g}; `Float` has no limit."
        )


def finite(value: Any, name: str) -> float:
    """A finite number as Python's own, or a sentence."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidTypeError(f"{name} must be a number, but got {value!r}.")
    if not math.isfinite(value):
        raise InvalidValueError(f"{name} must be a finite number, but got {value!r}.")
    return int(value) if isinstance(value, Integral) else float(value)
