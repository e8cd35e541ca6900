"""How several outcomes become one utility."""

from collections.abc import Sequence

from torch import Tensor


def piecewise_linear(Y: Tensor, steep: Sequence[float], flat: Sequence[float], knees: Sequence[float]) -> Tensor:
    """A sum over outcomes (…, k) of lines that are steep below their knee and flat above it, continuous there."""
    b, c, t = Y.new_tensor(steep), Y.new_tensor(flat), Y.new_tensor(knees)
    return (c * Y + (b - c) * (Y - t).clamp(max=0.0)).sum(-1)
