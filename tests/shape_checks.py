"""The check of shapes and types under pytest: of every call that differs in them from those before it, by beartype.

Whether a call passes hangs on the shapes and dtypes of its tensors and on the types of everything else, so a call that
is like an earlier one passes as that did. To check those again and again would take longer than what the tests compute.
So would all that jaxtyping does around a check: a function goes there only with a call or a result unlike any before,
and what it needs there is made at its first call.
"""

import functools
import threading
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import beartype
from torch import Tensor

# What the check of a value of some type hangs on: its dtype and shape, itself (a literal may be wanted), its parts, its
# type alone, or nothing that is known.
SHAPE, VALUE, PARTS, TYPE, UNKNOWN = range(5)
# So long a list is taken apart; a longer one is checked every time.
SHORT = 16
_hangs_on: dict[type, int] = {
    Tensor: SHAPE, str: VALUE, bool: VALUE, tuple: PARTS, list: PARTS, dict: UNKNOWN, set: UNKNOWN, frozenset: UNKNOWN
}  # fmt: skip


def likeness(value: Any) -> Hashable:
    """What the check of a value hangs on; None where that is not known. A NamedTuple is checked as a class is."""
    kind = type(value)
    if kind is Tensor:
        return value.dtype, value.shape
    how = _hangs_on.get(kind)
    if how is None:
        how = _hangs_on[kind] = UNKNOWN if kind.__module__ == "numpy" else TYPE
    if how == TYPE:
        return kind
    if how == VALUE:
        return value
    if how == UNKNOWN or len(value) > SHORT:
        return None
    parts = [likeness(part) for part in value]
    return None if None in parts else (kind, *parts)


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A type checker for jaxtyping, which has it check functions that do nothing but take arguments."""
    check, passed = beartype(function), set()

    def checked(*args: Any, **kwargs: Any) -> Any:
        like = _call(args, kwargs)
        if like is None or like not in passed:
            check(*args, **kwargs)
            passed.add(like)

    return checked


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What the check of a call hangs on; None where that is not known."""
    parts: list[Hashable] = [tuple(kwargs)] if kwargs else []
    # The two commonest are told at once: most of what tests call are these.
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is Tensor:
            parts += value.dtype, value.shape
        elif _hangs_on.get(kind) == TYPE:
            parts.append(kind)
        else:
            like = likeness(value)
            if like is None:
                return None
            parts.append(like)
    return tuple(parts)


jaxtyped = jaxtyping.jaxtyped


def sparing(function: Any = None, **options: Any) -> Any:
    """What `jaxtyping.jaxtyped` is while tests run: the same for every new kind of call, and nothing for the others."""
    if function is None:
        return functools.partial(sparing, **options)
    if isinstance(function, classmethod | staticmethod):
        return type(function)(sparing(function.__func__, **options))
    if isinstance(function, property):
        return property(*(part and sparing(part, **options) for part in (function.fget, function.fset, function.fdel)))
    return _sparing(function, options) if type(function) is FunctionType else jaxtyped(function, **options)


def _sparing(function: FunctionType, options: dict[str, Any]) -> Callable[..., Any]:
    # Of its own thread: another one may make a first call meanwhile.
    done = threading.local()
    passed: dict[Hashable, set[Hashable]] = {}

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return vars(done).pop("result") if vars(done) else function(*args, **kwargs)

    @functools.cache
    def checked() -> Callable[..., Any]:
        # Names in annotations are looked up where the function is at home.
        own = FunctionType(stand_in.__code__, function.__globals__, function.__name__, None, stand_in.__closure__)
        return jaxtyped(functools.update_wrapper(own, function), **options)

    @functools.wraps(function)
    def spared(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        like = _call(args, kwargs)
        known = None if like is None else passed.get(like)
        if known is None:
            out = checked()(*args, **kwargs)
        else:
            out = function(*args, **kwargs)
            kind = likeness(out)
            if kind is not None and kind in known:
                return out
            # The call is known and was made; what came of it is new.
            done.result = out
            checked()(*args, **kwargs)
        if like is not None:
            passed.setdefault(like, set()).add(likeness(out))
        return out

    return spared


jaxtyping.jaxtyped = sparing
