"""Results on their way out of inference mode."""

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from torch import Tensor

T = TypeVar("T")


def released(value: T) -> T:
    """The same value with ordinary tensors: those made in inference mode cannot be changed or differentiated later."""
    if isinstance(value, Tensor):
        return cast(T, value.clone() if value.is_inference() else value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {part.name: released(getattr(value, part.name)) for part in fields(value)}
        return replace(value, **changed)
    if isinstance(value, tuple):
        parts = [released(part) for part in value]
        return cast(T, type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts))
    return value
