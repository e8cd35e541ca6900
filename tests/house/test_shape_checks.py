"""Calls that are alike are checked once; one that differs in a shape, a dtype or a type is checked, and refused."""

from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

from kappasharp.inference import comparisons
from tests.shape_checks import _call, likeness, once


class Both(NamedTuple):
    a: Tensor
    b: Tensor


@jaxtyped(typechecker=once)
def product(
    A: Float[Tensor, "n k"], x: Float[Tensor, "k"], how: Literal["plain", "cut"] = "plain"
) -> Float[Tensor, "n"]:
    return (A @ x)[: None if how == "plain" else -1]


def test_every_new_kind_of_call_is_checked():
    for _ in range(2):
        assert product(torch.ones(3, 2), torch.ones(2)).shape == (3,)
        for bad in (torch.ones(3), torch.ones(2, 1), torch.ones(2, dtype=torch.int64), [1.0, 1.0], np.ones(2), None):
            with pytest.raises(TypeCheckError, match="parameters"):
                product(torch.ones(3, 2), bad)
        with pytest.raises(TypeCheckError, match="parameters"):
            product(torch.ones(3, 2), torch.ones(2), "none of both")
        with pytest.raises(TypeCheckError, match="return value"):
            product(torch.ones(3, 2), torch.ones(2), "cut")


CALLS = []


@jaxtyped(typechecker=once)
def counted(x: Float[Tensor, "n"], more: int, *, out: Any = None) -> Float[Tensor, "n"]:
    CALLS.append(more)
    return x if more < 2 else torch.ones(3) if more == 2 else x.to(torch.int64)


def test_a_function_is_called_once_whether_a_call_is_checked_or_not():
    """What comes out is checked too, of calls that were made before and passed."""
    for more in (0, 1, 0):
        assert counted(torch.ones(2), more).shape == (2,)
    for more in (2, 3, 2):
        with pytest.raises(TypeCheckError, match="return value"):
            counted(torch.ones(2), more)
    assert counted(torch.ones(2), 0, out=[]).shape == (2,) and counted(torch.ones(3), 2).shape == (3,)
    with pytest.raises(TypeError, match="argument"):
        counted(torch.ones(2))
    assert CALLS == [0, 1, 0, 2, 3, 2, 0, 2]


class Holder:
    @jaxtyped(typechecker=once)
    def method(self, x: Float[Tensor, "n"]) -> "Holder":
        return self if x.shape[0] else x

    @jaxtyped(typechecker=once)
    @property
    def whole(self) -> int:
        return 1.5

    @jaxtyped(typechecker=once)
    @staticmethod
    def apart(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return x[1:]


def test_methods_properties_and_names_in_annotations_are_checked():
    one = Holder()
    assert one.method(torch.ones(2)) is one
    for fails in (lambda: one.method(torch.ones(0)), lambda: one.whole, lambda: Holder.apart(torch.ones(2))):
        with pytest.raises(TypeCheckError, match="return value"):
            fails()


def test_a_name_is_not_taken_for_a_value():
    assert _call(("first", 1), {}) != _call((), {"first": 1}) != _call((1,), {"more": 1}) != _call((1, 1), {})


def test_what_a_check_hangs_on():
    single, double = torch.ones(2, dtype=torch.float32), torch.ones(2)
    alike = [(double, torch.zeros(2)), (1, 2), ((1, double), (3, double)), (Both(single, double), Both(double, double))]
    alike += [([double, 1], [torch.zeros(2), 2]), ([(slice(0, 1), double)], [(slice(0, 2), torch.zeros(2))])]
    assert [pair for pair in alike if likeness(pair[0]) != likeness(pair[1])] == []
    unlike = [(double, single), (double, torch.ones(1, 2)), (1, 1.0), ("a", "b"), ((1, double), (1, single)), (1, None)]
    unlike += [([double], (double,)), ([double], [single]), ([double], [double, double]), ([], ())]
    assert [pair for pair in unlike if likeness(pair[0]) == likeness(pair[1])] == []
    # Not taken apart: such calls are checked every time.
    assert {likeness(value) for value in ([1] * 17, {"a": 1}, {1}, np.ones(2), np.float64(1.0), (1, {2}))} == {None}


def test_the_package_is_checked():
    assert comparisons.incidence(torch.tensor([[0, 1]]), 2) is not None
    for bad in (torch.ones(1, 2), torch.tensor([[0, 1, 2]])):
        with pytest.raises(TypeCheckError):
            comparisons.incidence(bad, 3)
