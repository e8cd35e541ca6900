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
        like = _call(args, kwargs)
        if like is None or like not in passed:
            check(*args, **kwargs)
            passed.add(like)

    return checked


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    """What the check of a call hangs on; None where that is not known."""
    parts = [likeness(value) for value in args]
    if kwargs:
        parts += kwargs
        parts += [likeness(value) for value in kwargs.values()]
    return None if None in parts else tuple(parts)


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
