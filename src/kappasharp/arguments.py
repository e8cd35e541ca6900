"""Numbers, True and False as other libraries have them, as Python's own: what is stored and what is compared."""

import math
from numbers import Integral, Real
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.messages.message import said

LONGEST_WHOLE = 128
# What `plain` takes of NumPy, by the letters of its types: True and False, whole numbers, texts; and other numbers.
PLAIN_KINDS, FLOAT_KIND = ("b", "i", "u", "U"), "f"
# Bytes of Python's own float.
FLOAT_BYTES = 8


def plain(value: Any) -> Any:
    """A value of NumPy or torch as Python's own; everything else as it is.

    A number of fewer digits than Python's is the shortest one that it is written as: 0.1 of float32 is 0.1, not
    0.10000000149011612.
    """
    if getattr(value, "shape", None) != ():
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()[()]
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind == FLOAT_KIND:
        return float(str(value) if value.dtype.itemsize < FLOAT_BYTES else value)
    return value.item() if kind in PLAIN_KINDS else value


def is_whole(value: Any) -> bool:
    """Whether it is a whole number of any library; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def finite(value: Any, name: str) -> float:
    """A finite number as Python's own, or a sentence."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, Real):
        raise InvalidTypeError(
            said("fault.number", "{name} must be a number, but got {got}.", name=name, got=repr(value))
        )
    try:
        fits = math.isfinite(number)
    except OverflowError:
        fits = False
    if not fits:
        raise InvalidValueError(f"{name} must be a finite number, but got {shown(value)}.")
    return int(number) if isinstance(number, Integral) else float(number)


def shown(value: Any) -> str:
    """The value as a sentence shows it: a whole number that is too long by its size."""
    if isinstance(value, int) and value.bit_length() > LONGEST_WHOLE:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)
