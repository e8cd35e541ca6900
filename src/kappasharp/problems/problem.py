"""A problem: a box, a hidden utility on it, and what is known about its maximum and its origin.

Where a design has several outcomes the utility is computed from them; `piecewise_linear` is one way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.errors import InvalidTypeError, InvalidValueError

# Bounds in native units go through a product and a sum on their way from the unit cube: this much rounding is forgiven.
ROUNDING = 1e-9


class Provenance(StrEnum):
    """Where a definition comes from."""

    SOURCED = "sourced"  # function, domain and utility were read in a public source
    RECONSTRUCTED = "reconstructed"  # a part was chosen here, because no public source gives it
    FITTED = "fitted"  # a part was chosen because it makes numbers agree with the paper's


class Maximum(NamedTuple):
    """The largest utility known: where it is attained, whether nothing is larger, and who says so."""

    value: float
    point: tuple[float, ...]
    proven: bool
    source: str


class Visible(NamedTuple):
    """What a person sees of a design, and how much they like it: names, designs to outcomes, outcomes to utility.

    Attributes:
        names: What the outcomes are called.
        measure: Maps points (n, d) in native units to outcomes (n, k).
        worth: Maps outcomes (n, k) to utilities (n,).
    """

    names: tuple[str, ...]
    measure: Callable[[Tensor], Tensor]
    worth: Callable[[Tensor], Tensor]

    def utility(self, X: Tensor) -> Tensor:
        """Utilities (n,) of points (n, d), by their outcomes."""
        return self.worth(self.measure(X))


@dataclass(frozen=True)
class Problem:
    """One problem: its box, its hidden utility, and what is known of it.

    Args:
        name: What it is called in experiments and results, for ever.
        low: The smallest value of every parameter, in its own units.
        high: The largest value of every parameter.
        evaluate: Maps points (n, d) in those units to utilities (n,); trusts what it gets.
        maximum: The largest utility known.
        provenance: Where the definition comes from.
        formula: The utility in words and symbols.
        origin: Who defined it, and what was chosen here.
        parameters: The parameters' names; without them they are x1, x2 and so on.
        version: Counts up whenever a utility changes: results of different versions are never mixed.
        is_simulated: Whether every design is simulated: it has no gradient, and it is slow.
        steps: How many equally spaced values each parameter may take, 0 for all between its ends; () where all are
            free.
        choices: Groups of parameters that stand for one choice: exactly one of each group is 1, the others are 0.
        visible: The outcomes of a design, where it has any.
        people: How many people answer, one after another.
        members: Where they are several: maps points (n, d) to what each feels (n, people). The utility is what counts
            in the end, as their mean may be.
    """

    name: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    evaluate: Callable[[Tensor], Tensor] = field(repr=False)
    maximum: Maximum
    provenance: Provenance
    formula: str = field(repr=False)
    origin: str = field(repr=False)
    parameters: tuple[str, ...] = field(default=(), repr=False)
    version: int = 1
    is_simulated: bool = False
    steps: tuple[int, ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()
    visible: Visible | None = field(default=None, repr=False)
    people: int = 1
    members: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)

    @property
    def dimensions(self) -> int:
        """How many parameters a design has."""
        return len(self.low)

    @property
    def bounds(self) -> Tensor:
        """Lowest and highest value of every parameter, in native units (2, d)."""
        return self._box.clone()

    @cached_property
    def _box(self) -> Tensor:
        return _kept([self.low, self.high])

    @cached_property
    def _unit_box(self) -> Tensor:
        return _kept([[0.0] * self.dimensions, [1.0] * self.dimensions])

    def utility(self, X: Any) -> Tensor:
        """Utilities (…) of points (…, d) in native units, without noise."""
        return self._evaluated(self._native(X))

    def unit_utility(self, U: Any) -> Tensor:
        """Utilities (…) of points (…, d) in the unit cube, without noise."""
        return self._evaluated(self._from_cube(U))

    def unit_felt(self, U: Tensor, turn: int | Tensor) -> Tensor:
        """What whoever answers at a turn, one for all or of the shape (…), feels about points (…, d) of the unit cube.

        People take turns; one alone feels the utility.
        """
        if self.members is None:
            return self.unit_utility(U)
        felt = self.members(self._inside(self._from_cube(U))).reshape(*U.shape[:-1], self.people)
        who = torch.as_tensor(turn, device=felt.device) % self.people
        return felt.gather(-1, who.expand(felt.shape[:-1]).unsqueeze(-1)).squeeze(-1)

    def voter(self, turn: int) -> int | None:
        """The number of whoever answers at a turn; None where one person answers all."""
        return None if self.members is None else turn % self.people

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """What its outcomes are called; none where it has none."""
        return self.visible.names if self.visible else ()

    def outcomes(self, X: Any) -> Tensor:
        """Outcomes (…, k) of points (…, d) in native units."""
        return self._measured(self._native(X))

    def unit_outcomes(self, U: Any) -> Tensor:
        """Outcomes (…, k) of points (…, d) in the unit cube."""
        return self._measured(self._from_cube(U))

    def to_native(self, U: Tensor) -> Tensor:
        """Unit-cube points in native units."""
        low, high = self._box.to(U)
        return low + (high - low) * U

    def to_unit(self, X: Tensor) -> Tensor:
        """Native points in the unit cube."""
        low, high = self._box.to(X)
        return (X - low) / (high - low)

    def draw(self, shares: Tensor) -> Tensor:
        """The designs in the unit cube at these shares (…, d): every value of a parameter has the same share."""
        points = shares.clone()
        for j, count in enumerate(self.steps):
            if count:
                points[..., j] = (shares[..., j] * count).floor().clamp(max=count - 1) / (count - 1)
        for group in self.choices:
            which = (shares[..., group[0]] * len(group)).long().clamp(max=len(group) - 1)
            points[..., list(group)] = torch.nn.functional.one_hot(which, len(group)).to(shares)
        return points

    def nearest(self, U: Tensor) -> Tensor:
        """The nearest designs to points of the unit cube."""
        points = U.clone()
        for j, count in enumerate(self.steps):
            if count:
                points[..., j] = (U[..., j] * (count - 1)).round() / (count - 1)
        for group in self.choices:
            which = U[..., list(group)].argmax(-1)
            points[..., list(group)] = torch.nn.functional.one_hot(which, len(group)).to(U)
        return points

    def _native(self, X: Any) -> Tensor:
        return self._checked(X, "X", self._box, "inside the bounds of " + self.name)

    def _from_cube(self, U: Any) -> Tensor:
        return self.to_native(self._checked(U, "U", self._unit_box, "in the unit cube"))

    def _evaluated(self, points: Tensor) -> Tensor:
        return self.evaluate(self._inside(points)).reshape(points.shape[:-1])

    def _measured(self, points: Tensor) -> Tensor:
        if self.visible is None:
            raise InvalidValueError(
                f"`outcomes` needs a problem whose utility is computed from outcomes, but {self.name} has none; "
                "`dtlz2-8d`, `vehicle-5d` and `carcab-7d` have some."
            )
        found = self.visible.measure(self._inside(points))
        return found.reshape(*points.shape[:-1], len(self.visible.names))

    def _inside(self, points: Tensor) -> Tensor:
        low, high = self._box.to(points)
        # Only the rounding that `_checked` forgives is taken away.
        return points.clamp(low, high).reshape(-1, self.dimensions)

    def _checked(self, value: Any, name: str, bounds: Tensor, rule: str) -> Tensor:
        points = value if isinstance(value, Tensor) else _as_tensor(value, name)
        if points.dtype not in (torch.float32, torch.float64):
            raise InvalidTypeError(f"`{name}` must hold float32 or float64 numbers, but got {points.dtype}.")
        if points.layout != torch.strided or points.dim() == 0 or points.shape[-1] != self.dimensions:
            raise InvalidValueError(
                f"`{name}` must be a dense array of the shape (…, {self.dimensions}) for {self.name}, "
                f"but got {tuple(points.shape)}."
            )
        low, high = bounds.to(points)
        slack = (high - low) * max(ROUNDING, 4 * torch.finfo(points.dtype).eps)
        bad = ~((points >= low - slack) & (points <= high + slack))  # NaN is bad too
        if bool(bad.any()):
            where = tuple(bad.nonzero()[0].tolist())
            column = where[-1]
            raise InvalidValueError(
                f"`{name}` must lie {rule}, from {float(low[column]):g} to {float(high[column]):g} in column {column}, "
                f"but got {float(points[where])} at index {where}."
            )
        return points


def _kept(ends: Sequence[Sequence[float]]) -> Tensor:
    """A tensor that is made once, and may be differentiated through even if that was in inference mode."""
    with torch.inference_mode(mode=False):
        return torch.tensor(ends, dtype=torch.float64)


def _as_tensor(value: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidTypeError(f"`{name}` must be an array of numbers, but got {value!r}: {error}.") from error


def piecewise_linear(Y: Tensor, steep: Sequence[float], flat: Sequence[float], knees: Sequence[float]) -> Tensor:
    """A sum over outcomes (…, k) of lines that are steep below their knee and flat above it, continuous there."""
    b, c, t = Y.new_tensor(steep), Y.new_tensor(flat), Y.new_tensor(knees)
    return (c * Y + (b - c) * (Y - t).clamp(max=0.0)).sum(-1)
