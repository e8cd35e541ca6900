"""Questions on a lattice: on it, at least as good as rounding, and the best there is where everything can be tried."""

from itertools import combinations, product

import pytest
import torch

from kappasharp.acquisition import discrete, eubo
from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.acquisition.maximize import propose
from kappasharp.inference.posterior import Posterior
from kappasharp.settings import MAXIMIZERS
from tests.acquisition.test_maximize import RUNS, fitted, request

HALVES = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.float64)
QUARTERS = torch.linspace(0.0, 1.0, 4, dtype=torch.float64)
# One coordinate on three values, one free, one on two.
SOME = Lattice((Group((0,), HALVES), Group((2,), HALVES[::2])))
ALL = Lattice(tuple(Group((i,), QUARTERS.unsqueeze(-1)) for i in range(3)))
# A choice of three, one coordinate each.
CHOICE = Lattice((Group((0, 1, 2), torch.eye(3, dtype=torch.float64)),))


def on(points, found):
    """Whether every point lies on the lattice."""
    return all(
        bool(((points[..., list(group.at)].unsqueeze(-2) - group.levels).abs().amax(-1) < 1e-12).any(-1).all())
        for group in found.groups
    )


@pytest.mark.parametrize("name", list(MAXIMIZERS))
@pytest.mark.parametrize("which", [SOME, ALL, CHOICE], ids=["some", "all", "choice"])
def test_the_pair_lies_on_the_lattice_and_its_value_is_its_eubo(name, which):
    post = fitted()
    found = propose(post, MAXIMIZERS[name], request(lattice=which))
    assert on(found.pair, which)
    expected = eubo.value(post, found.pair[:, :1], found.pair[:, 1:])[:, 0]
    assert torch.allclose(found.value, expected, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("which", [SOME, ALL, CHOICE], ids=["some", "all", "choice"])
def test_it_is_no_worse_than_rounding(which):
    post = fitted()
    free = propose(post, MAXIMIZERS["default"], request()).pair
    rounded = discrete.nearest(which, free)
    value = eubo.value(post, rounded[:, :1], rounded[:, 1:])[:, 0]
    assert bool((propose(post, MAXIMIZERS["default"], request(lattice=which)).value >= value - 1e-6).all())


def test_where_everything_can_be_tried_the_best_is_found():
    """64 designs have 2,016 pairs; the search must find the best of them in nearly every run, and come close in all."""
    post = fitted()
    designs = torch.tensor(list(product(QUARTERS.tolist(), repeat=3)))
    first, second = (torch.tensor(column) for column in zip(*combinations(range(64), 2), strict=True))
    every = torch.stack(
        [
            eubo.value(Posterior(post.family, *(part[run] for part in post[1:5])), designs[first], designs[second])
            for run in range(RUNS)
        ]
    )
    best, worst = every.amax(-1), every.amin(-1)
    found = propose(post, MAXIMIZERS["default"], request(lattice=ALL)).value
    gap = (best - found) / (best - worst)
    assert bool((gap > -1e-9).all()) and bool((gap < 0.02).all()) and int((gap < 1e-9).sum()) >= RUNS - 1


def test_free_coordinates_still_climb():
    post = fitted()
    found = propose(post, MAXIMIZERS["default"], request(lattice=SOME))
    for shift in (-1e-3, 1e-3):
        for side in (0, 1):
            moved = found.pair.clone()
            moved[:, side, 1] = (moved[:, side, 1] + shift).clamp(0.0, 1.0)
            assert bool((eubo.value(post, moved[:, :1], moved[:, 1:])[:, 0] <= found.value + 1e-4).all())


def test_the_anchor_stays_and_its_partner_is_on_the_lattice():
    post = fitted()
    anchor = discrete.nearest(SOME, post.X[:, 0])
    found = propose(post, MAXIMIZERS["default"], request(lattice=SOME, anchor=anchor))
    assert torch.equal(found.pair[:, 1], anchor) and on(found.pair, SOME)


def test_exchange_leaves_no_single_change_that_helps():
    target = torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(0))

    def each(x):
        # Rows of one start stand together when a group is tried.
        copies = x.shape[1] // 5
        return (x - target.repeat_interleave(copies, 1)).square().sum(-1) + x.prod(-1)

    found = discrete.exchange(ALL, torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(1)), each)
    assert on(found, ALL)
    here = each(found)
    for i, level in product(range(3), QUARTERS):
        other = found.clone()
        other[..., i] = level
        assert bool((each(other) >= here - 1e-12).all())


def test_a_long_range_is_tried_near_by():
    """Ten thousand values: the search walks there by the nearest sixty-four at a time."""
    long = Lattice((Group((0,), torch.linspace(0.0, 1.0, 10_001).unsqueeze(-1)),))
    found = discrete.exchange(long, torch.tensor([[[0.52]]]), lambda x: (x[..., 0] - 0.53).square())
    assert abs(float(found) - 0.53) < 1e-9


def test_bounds_hold_the_lattice_and_free_the_rest():
    x = torch.tensor([[0.5, 0.3, 1.0]])
    low, high = discrete.held(SOME, x, (torch.zeros_like(x), torch.full_like(x, 0.9)))
    assert low.tolist() == [[0.5, 0.0, 1.0]] and high.tolist() == [[0.5, pytest.approx(0.9), 1.0]]


def test_two_designs_end_to_end_have_the_lattice_twice():
    assert [group.at for group in discrete.over(SOME, 2, 3).groups] == [(0,), (2,), (3,), (5,)]
