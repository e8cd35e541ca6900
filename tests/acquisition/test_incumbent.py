"""Duels between designs seen: the challenger is the likeliest better, and nobody who was met or beaten before."""

import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import incumbent

X = torch.rand(8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
PAIRS = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])


@pytest.fixture(scope="module")
def fitted():
    return ks.fit(X, PAIRS)


def expected_gain(fitted, leader):
    """E max(f − f(leader), 0) by sampling the joint posterior."""
    mean, cov = fitted.posterior(X)
    L = torch.linalg.cholesky(cov + 1e-9 * torch.eye(len(X), dtype=torch.float64))
    draws = mean + torch.randn(200_000, len(X), generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ L.mT
    return (draws - draws[:, leader : leader + 1]).clamp(min=0.0).mean(0)


def challenge(fitted, leader, pairs=PAIRS):
    return int(incumbent.challengers(fitted.latent, torch.tensor([leader]), pairs.unsqueeze(0)))


@pytest.mark.parametrize("leader", [0, 2, 4, 6])
def test_the_challenger_has_the_largest_expected_gain_among_the_unbeaten(fitted, leader):
    gain = expected_gain(fitted, leader)
    unbeaten = [i for i in (0, 2, 4, 6) if i != leader]
    assert challenge(fitted, leader) == max(unbeaten, key=lambda i: float(gain[i]))


def test_of_several_the_unbeaten_come_first_by_expected_gain_and_nobody_twice(fitted):
    found = incumbent.challengers(fitted.latent, torch.tensor([2]), PAIRS.unsqueeze(0), count=7)[0].tolist()
    gain = expected_gain(fitted, 2)
    assert found[:3] == sorted((0, 4, 6), key=lambda i: -float(gain[i]))
    assert found[0] == challenge(fitted, 2) and sorted(found) == [0, 1, 3, 4, 5, 6, 7]
    # Of the beaten the one that the leader beat itself comes last.
    assert found[-1] == 3


def test_whom_the_leader_has_met_comes_last(fitted):
    first = challenge(fitted, 0)
    met = torch.cat([PAIRS, torch.tensor([[0, first]])])
    second = challenge(fitted, 0, met)
    assert second not in (0, first) and second in (2, 4, 6)


def test_where_all_others_were_beaten_one_that_was_not_met_is_asked(fitted):
    beaten = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7], [0, 2], [2, 4], [4, 6]])
    assert challenge(fitted, 0, beaten) in (3, 4, 5, 6, 7)


def test_where_the_leader_has_met_all_it_is_still_a_duel(fitted):
    everyone = torch.tensor([[0, i] for i in range(1, 8)])
    assert challenge(fitted, 0, everyone) != 0


def test_a_batch_is_its_runs_one_by_one():
    many = ks.fit(torch.stack([X, X.flip(0)]), torch.stack([PAIRS, PAIRS.flip(0)]))
    leaders = torch.tensor([0, 6])
    found = incumbent.challengers(many.latent, leaders, torch.stack([PAIRS, PAIRS.flip(0)])).squeeze(-1)
    alone = [
        challenge(ks.fit(points, pairs), int(leader), pairs)
        for points, pairs, leader in zip((X, X.flip(0)), (PAIRS, PAIRS.flip(0)), leaders, strict=True)
    ]
    assert found.tolist() == alone
