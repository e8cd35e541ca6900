"""The whole fit, through the front door: names of points, order of answers and company in a batch must not matter."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kappasharp
from kappasharp import PRESETS
from tests.reference.data import answered

METHODS = ["baseline", "static", "diagonal", "jitter", "metric_only", "cov_only", "full_augmentation", "ep_ei"]
TIED = replace(PRESETS["modern"], threshold=0.5)
NEW = torch.as_tensor(np.random.default_rng(3).uniform(size=(5, 2)))


def data(seed=0, n=10, m=15):
    found = answered(seed, n, m, 2, threshold=0.4)
    return tuple(torch.as_tensor(part) for part in found)


@pytest.mark.parametrize("method", METHODS)
def test_relabelled_points_permute_the_utilities(method):
    X, pairs, ties = data()
    place = torch.as_tensor(np.random.default_rng(1).permutation(10))
    before = kappasharp.fit(X, pairs, method=method, preset=TIED, ties=ties)
    after = kappasharp.fit(X[place.argsort()], place[pairs], method=method, preset=TIED, ties=ties)
    assert torch.allclose(after.utility[place], before.utility, rtol=0.0, atol=1e-6)
    assert torch.allclose(after.lengthscale, before.lengthscale, rtol=1e-6, atol=0.0)
    assert torch.allclose(after.posterior(NEW).covariance, before.posterior(NEW).covariance, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_answers_does_not_matter(method):
    X, pairs, ties = data()
    order = torch.as_tensor(np.random.default_rng(2).permutation(15))
    before = kappasharp.fit(X, pairs, method=method, preset=TIED, ties=ties)
    after = kappasharp.fit(X, pairs[order], method=method, preset=TIED, ties=ties[order])
    assert torch.allclose(after.utility, before.utility, rtol=0.0, atol=1e-6)
    assert torch.allclose(after.posterior(NEW).mean, before.posterior(NEW).mean, rtol=0.0, atol=1e-6)


def test_a_tie_may_name_its_points_either_way():
    X, pairs, ties = data()
    turned = torch.where(ties.unsqueeze(-1), pairs.flip(-1), pairs)
    assert bool(ties.any())
    before, after = (kappasharp.fit(X, answers, preset=TIED, ties=ties) for answers in (pairs, turned))
    assert torch.allclose(after.utility, before.utility, rtol=0.0, atol=1e-6)


def test_answers_turned_round_turn_the_utilities_round():
    X, pairs, _ = data()
    before, after = kappasharp.fit(X, pairs), kappasharp.fit(X, pairs.flip(-1))
    assert torch.allclose(after.utility, -before.utility, rtol=0.0, atol=1e-6)
    assert torch.allclose(after.lengthscale, before.lengthscale, rtol=1e-6, atol=0.0)


def test_mirrored_axes_leave_the_fit():
    """x → 1 − x in the first dimension, and the dimensions swapped: the kernel knows distances only."""
    X, pairs, _ = data()
    mirrored = torch.stack([X[:, 1], 1.0 - X[:, 0]], -1)
    before, after = kappasharp.fit(X, pairs), kappasharp.fit(mirrored, pairs)
    assert torch.allclose(after.utility, before.utility, rtol=0.0, atol=1e-6)
    assert torch.allclose(after.lengthscale.flip(-1), before.lengthscale, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_equals_its_runs_one_by_one(method):
    """Nine runs in one call and nine calls: same hyperparameters, utilities, covariance and words, to 1e-6."""
    runs = [data(seed) for seed in range(100, 109)]
    X, pairs, ties = (torch.stack(parts) for parts in zip(*runs, strict=True))
    together = kappasharp.fit(X, pairs, method=method, preset=TIED, ties=ties)
    found = together.posterior(NEW.expand(9, 5, 2))
    for run in range(9):
        alone = kappasharp.fit(X[run], pairs[run], method=method, preset=TIED, ties=ties[run])
        assert together.status[run] == alone.status[0], f"run {run}"
        assert torch.allclose(together.lengthscale[run], alone.lengthscale, rtol=1e-6, atol=0.0), f"run {run}"
        assert torch.allclose(together.utility[run], alone.utility, rtol=0.0, atol=1e-6), f"run {run}"
        assert torch.allclose(found.covariance[run], alone.posterior(NEW).covariance, rtol=0.0, atol=1e-6), f"run {run}"


def test_a_run_without_ties_is_not_changed_by_one_with_them():
    runs = [data(seed) for seed in (1, 2)]
    X, pairs, ties = (torch.stack(parts) for parts in zip(*runs, strict=True))
    ties[0] = False
    assert bool(ties[1].any())
    together = kappasharp.fit(X, pairs, preset=TIED, ties=ties)
    alone = kappasharp.fit(X[0], pairs[0], preset=TIED)
    assert torch.allclose(together.utility[0], alone.utility, rtol=0.0, atol=1e-5)


def test_noise_and_utilities_in_other_units_leave_the_answers_probabilities():
    """With half the noise the output scale comes out a quarter, and every predicted answer stays as likely.

    To 3e-2: the two fits start at different distances from their optimum and each stops up to 1e-5 nats short of it.
    """
    found = answered(7, 10, 40, 2, noise=2.0)
    X, pairs = torch.as_tensor(found.X), torch.as_tensor(found.pairs)
    before, after = (kappasharp.fit(X, pairs, preset=replace(PRESETS["modern"], noise=noise)) for noise in (1.0, 0.5))
    assert 0.1 < float(before.outputscale) < 10.0, "the optimum must lie inside its box"
    assert float(after.outputscale / before.outputscale) == pytest.approx(0.25, rel=3e-2)
    p, q = (fit.contrast(NEW[:2], NEW[2:4]).preferred for fit in (before, after))
    assert torch.allclose(p, q, rtol=0.0, atol=1e-2)
