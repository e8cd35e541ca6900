"""Runs of a batch taken, put back and chosen between, whatever holds them."""

from typing import NamedTuple

import pytest
import torch

from kappasharp.inference import comparisons
from kappasharp.inference.comparisons import Incidence
from kappasharp.tensors import apply, put, released, take, where


class Inner(NamedTuple):
    value: torch.Tensor
    name: str


class Outer(NamedTuple):
    inner: Inner
    count: torch.Tensor
    missing: torch.Tensor | None
    C: Incidence


def outer(seed: int, runs: int = 4) -> Outer:
    generator = torch.Generator().manual_seed(seed)
    value = torch.rand(runs, 3, 2, generator=generator, dtype=torch.float64)
    pairs = torch.stack([torch.randperm(5, generator=generator)[:2] for _ in range(runs)]).unsqueeze(1)
    return Outer(Inner(value, "same"), torch.arange(runs) + 10 * seed, None, comparisons.incidence(pairs, 5))


@pytest.mark.parametrize("rows", [torch.tensor([2, 0, 2]), torch.tensor([True, False, True, False])])
def test_taken_runs_are_those_of_every_part(rows):
    whole = outer(1)
    part = take(whole, rows)
    assert torch.equal(part.inner.value, whole.inner.value[rows]) and part.inner.name == "same"
    assert torch.equal(part.count, whole.count[rows]) and part.missing is None
    # Flat row numbers count from each batch's own start: C is made anew, and still takes the same differences.
    f = torch.rand(4, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    expected = comparisons.differences(whole.C, f)[rows]
    assert torch.equal(comparisons.differences(part.C, f[rows]), expected)


def test_a_plain_tuple_stays_one():
    assert [x.tolist() for x in take((torch.arange(3), torch.arange(3) * 2), torch.tensor([1]))] == [[1], [2]]


def test_what_was_taken_can_be_put_back():
    whole, other, rows = outer(1).inner, outer(2).inner, torch.tensor([3, 1])
    put_back = put(whole, take(other, rows), rows)
    assert torch.equal(put_back.value[rows], other.value[rows])
    assert torch.equal(put_back.value[[0, 2]], whole.value[[0, 2]])
    assert torch.equal(whole.value, outer(1).inner.value)  # nothing is changed in place
    assert put(torch.zeros(2, dtype=torch.float32), torch.ones(1), torch.tensor([0])).dtype is torch.float32


def test_each_run_is_chosen_by_its_mask():
    yes, no, mask = outer(1), outer(2), torch.tensor([True, False, False, True])
    found = where(mask, (yes.inner, yes.count), (no.inner, no.count))
    for run, first in enumerate(mask.tolist()):
        assert torch.equal(found[0].value[run], (yes if first else no).inner.value[run])
        assert found[1][run] == (yes if first else no).count[run]


def test_a_matrix_is_applied_to_a_vector_in_any_batch():
    generator = torch.Generator().manual_seed(0)
    M, v = torch.rand(2, 3, 4, 5, generator=generator), torch.rand(2, 3, 5, generator=generator)
    assert torch.allclose(apply(M, v), torch.einsum("abij,abj->abi", M, v))


def test_released_tensors_can_be_changed_and_shared_ones_are_copied_once():
    with torch.inference_mode():
        shared = torch.ones(2)
        value = (Inner(shared, "x"), shared)
    inner, again = released(value)
    inner.value.add_(1.0)
    assert inner.value is again and not again.is_inference()
