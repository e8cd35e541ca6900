"""The check of shapes and types under pytest: of every call that differs in them from those before it, by beartype.

Whether a call passes hangs on the shapes and dtypes of its tensors and on the types of everything else, so a call that
is like an earlier one passes as that did. To check those again and again would take longer than what the tests compute.
"""

from collections.abc import Callable, Hashable
from typing import Any

from beartype import beartype
from torch import Tensor

CONTAINERS = (tuple, list, dict, set, frozenset)


def likeness(value: Any) -> Hashable:
    """What the check of a value hangs on; None where that is not known. A NamedTuple is checked as a class is."""
    kind = type(value)
    if kind is Tensor:
        return value.dtype, value.shape
    if kind is str or kind is bool:
        return value  # a literal may be wanted
    if kind in CONTAINERS:
        parts = [likeness(part) for part in value] if kind is tuple else [None]
        return None if None in parts else (kind, *parts)
    return kind if kind.__module__ != "numpy" else None


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A type checker for jaxtyping, which has it check functions that do nothing but take arguments."""
    check, passed = beartype(function), set()

    def checked(*args: Any, **kwargs: Any) -> Any:
        parts = [likeness(value) for value in args]
        parts += [likeness(value) for value in kwargs.values()]
        like = None if None in parts else (*kwargs, *parts)
        if like is None or like not in passed:
            check(*args, **kwargs)
            passed.add(like)

    return checked
