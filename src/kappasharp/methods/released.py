"""Results as ordinary tensors: those made in inference mode cannot be changed or differentiated later."""

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from torch import Tensor

T = TypeVar("T")


def released(value: T, done: dict[int, Tensor] | None = None) -> T:
    """The same value with ordinary tensors; one that stands in two places is copied once (`done` holds the copies)."""
    done = {} if done is None else done
    if isinstance(value, Tensor):
        if value.is_inference() and id(value) not in done:
            done[id(value)] = value.clone()
        return cast(T, done.get(id(value), value))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {part.name: released(getattr(value, part.name), done) for part in fields(value)}
        return replace(value, **changed)
    if isinstance(value, tuple):
        parts = [released(part, done) for part in value]
        return cast(T, type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts))
    return value
