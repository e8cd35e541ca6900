"""How much of an outcome other designs foresee: against refits without each design, and at what is known."""

import pytest
import torch

from kappasharp.inference import features
from kappasharp.problems.warped import Waves
from kappasharp.regression import predictability


def sample(n=96, d=3, seed=0):
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_what_is_left_out_is_foreseen_as_a_fit_without_it_would():
    X = sample(12)
    y = torch.stack([X.sum(-1), X[:, 0].sin()], -1)
    K = 1.0 + (-torch.cdist(X, X)).exp()
    for noise, error in zip(predictability.NOISES, predictability.left_out(K, y), strict=True):
        for i in range(len(X)):
            rest = torch.arange(len(X)) != i
            inner = K[rest][:, rest] + noise * torch.eye(len(X) - 1)
            without = K[i, rest] @ torch.linalg.solve(inner, y[rest])
            assert torch.allclose(error[i], y[i] - without, atol=1e-8)


@pytest.mark.parametrize("d", [2, 6, 20])
def test_sums_of_parameters_are_foreseen_and_chance_is_not(d):
    X = sample(128, d)
    chance = torch.rand(128, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    whole = torch.stack([X @ torch.linspace(1, 2, d, dtype=torch.float64), (X - 0.3).square().sum(-1), chance], -1)
    share = predictability.foreseen(X, whole)
    assert (share[:2] > 0.9).all() and share[2] < 0.2


def test_waves_in_many_dimensions_are_as_good_as_chance_and_in_few_they_are_not():
    few, many = (predictability.foreseen(X, Waves("a test", X.shape[-1])(X)) for X in (sample(128, 2), sample(128, 20)))
    assert (few > predictability.enough(2)).all() and (many < predictability.enough(20)).all()


def test_the_bar_falls_with_the_dimensions_and_never_rises():
    bars = [predictability.enough(d) for d in range(1, 40)]
    assert (bars[0], bars[7], bars[15], bars[-1]) == (0.7, 0.7, 0.5, 0.5)
    assert bars == sorted(bars, reverse=True) and abs(predictability.enough(12) - 0.6) < 1e-12


def test_doubt_is_what_the_mean_share_falls_short_of():
    assert predictability.doubt([0.99, 0.95], 5) == 0.0 and predictability.doubt([], 5) == 0.0
    assert abs(predictability.doubt([0.8, 0.9], 5) - 0.07) < 1e-12
    assert predictability.doubt([0.75], 20) == 0.0  # with many parameters chance is foreseen less


def test_the_order_alone_counts_and_equal_values_share_a_place():
    values = torch.tensor([[3.0], [1.0], [1.0], [9.0]], dtype=torch.float64)
    scores = predictability.normal_scores(values)
    assert torch.allclose(scores, predictability.normal_scores(values.exp()))
    assert scores[1] == scores[2] < scores[0] < scores[3]
    X = sample()
    outcomes = torch.stack([X.sum(-1), X.prod(-1)], -1)
    assert torch.allclose(predictability.foreseen(X, outcomes), predictability.foreseen(X, (9.0 * outcomes).exp()))


def test_little_is_said_of_few_designs_and_of_what_never_varies():
    X = sample(40)
    chance = sample(40, 1, seed=5)
    assert predictability.foreseen(X[:31], chance[:31]) == 1.0
    assert predictability.foreseen(X, torch.full_like(chance, 2.0)) == 1.0
    assert predictability.foreseen(X, chance) < 0.3
    # Rows without a number are left out.
    X = sample(80)
    outcomes = X.sum(-1, keepdim=True)
    outcomes[::4] = torch.nan
    kept = outcomes.isfinite().squeeze(-1)
    assert torch.equal(predictability.foreseen(X, outcomes), predictability.foreseen(X[kept], outcomes[kept]))


def test_a_scaling_without_an_outcome_has_it_at_a_half():
    outcomes = sample(50, 2)
    scaling = features.scaling(outcomes)
    left = scaling.without(torch.tensor([False, True]))
    assert torch.equal(left(outcomes)[:, 0], scaling(outcomes)[:, 0]) and (left(outcomes)[:, 1] == 0.5).all()
