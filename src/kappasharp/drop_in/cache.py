"""When a surrogate is still the model's: after a change of its modules, their attributes or their numbers it is not."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kappasharp.drop_in.state import Held

# What a module's behaviour may depend on beside its tensors, such as a Matérn kernel's `nu`.
PLAIN = (bool, int, float, str, torch.Size)


class Key(NamedTuple):
    """All that a surrogate depends on: modules, their plain attributes, their tensors; and the data."""

    modules: tuple[nn.Module, ...]
    attributes: list[Any]
    numbers: Tensor
    data: tuple[Tensor | None, ...]

    def is_that_of(self, other: "Key") -> bool:
        """Whether a surrogate of the one is a surrogate of the other."""
        if len(self.modules) != len(other.modules) or self.numbers.shape != other.numbers.shape:
            return False
        ours, theirs = (*self.modules, *self.data), (*other.modules, *other.data)
        same = all(mine is its for mine, its in zip(ours, theirs, strict=True))
        return same and self.attributes == other.attributes and torch.equal(self.numbers, other.numbers)


class Cache(NamedTuple):
    """A surrogate, the utilities it gives the datapoints, and what it was computed with."""

    key: Key
    held: Held
    utility: Tensor


def modules_of(roots: Iterable[nn.Module | None]) -> tuple[nn.Module, ...]:
    """These modules and all inside them."""
    return tuple(module for root in roots if root is not None for module in root.modules())


def key_of(roots: Iterable[nn.Module | None], data: tuple[Tensor | None, ...]) -> Key:
    """The key of these modules, all inside them, and the data."""
    modules = modules_of(roots)
    attributes = [
        (name, value)
        for module in modules
        for name, value in vars(module).items()
        if name != "training" and isinstance(value, PLAIN)
    ]
    tensors = [part for module in modules for part in (*module._parameters.values(), *module._buffers.values())]
    numbers = torch.cat([part.detach().reshape(-1).double() for part in tensors if part is not None])
    return Key(modules, attributes, numbers, data)
