"""Adding answers is the same as having had them: bordered factors, the MAP and the posterior against a fresh start."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kappasharp.inference import comparison_space, comparisons, laplace
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS
from tests.reference import dense
from tests.reference.data import answered

THETA = torch.tensor([0.3, 0.7, 4.0]).log()


def model(curvature="mode"):
    return Model("rbf", 1e-4, Probit(), PRIORS["botorch_0_18"], curvature)


def whole(seed, n, m, curvature="mode"):
    """Points, pairs and the posterior of all of them at once, in a batch of one."""
    data = answered(seed, n, m, 2)
    X, pairs = torch.as_tensor(data.X)[None], torch.as_tensor(data.pairs)[None]
    K = stationary.covariance("rbf", X, THETA[None], 1e-4)
    return K, pairs, comparison_space.condition(model(curvature), K, comparisons.incidence(pairs, n))


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 3))
def test_a_bordered_factor_is_the_factor_of_the_bordered_matrix(seed, m, k):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(m + k, m + k))
    B = torch.as_tensor(root @ root.T + np.eye(m + k))
    L = comparison_space.bordered_factor(torch.linalg.cholesky(B[:m, :m]), B[m:, :m], B[m:, m:])
    assert torch.allclose(L, torch.linalg.cholesky(B), rtol=1e-10, atol=1e-12)
    assert torch.equal(comparison_space.bordered(B[:m, :m], B[m:, :m], B[m:, m:]), B)


@pytest.mark.parametrize("curvature", ["mode", "averaged"])
@pytest.mark.parametrize("seed", range(4))
def test_adding_points_and_answers_is_having_had_them(seed, curvature):
    """The last two points occur only in the last three answers: leave them out, then add them."""
    n, m, k, l = 12, 15, 2, 3
    K, pairs, _ = whole(seed, n, m)
    pairs[:, :-l] %= n - k
    pairs[:, :-l, 1] = torch.where(
        pairs[:, :-l, 0] == pairs[:, :-l, 1], (pairs[:, :-l, 1] + 1) % (n - k), pairs[:, :-l, 1]
    )
    pairs[:, -l:] = torch.tensor([[n - 1, n - 2], [n - 2, 0], [1, n - 1]])
    chosen = model(curvature)
    all_at_once = comparison_space.condition(chosen, K, comparisons.incidence(pairs, n))
    before = comparison_space.condition(chosen, K[:, :-k, :-k], comparisons.incidence(pairs[:, :-l], n - k))
    after = comparison_space.extend(chosen, before, K[:, -k:, :-k], K[:, -k:, -k:], pairs[:, -l:])
    assert_alike(after, all_at_once)


def assert_alike(found, expected):
    assert bool(found.map.dual.converged.all())
    for name in ("K", "L", "root", "value"):
        assert torch.allclose(getattr(found, name), getattr(expected, name), rtol=0.0, atol=1e-7), name
    assert torch.allclose(found.map.beta, expected.map.beta, rtol=0.0, atol=1e-7)
    assert torch.allclose(found.map.f, expected.map.f, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("curvature", ["mode", "averaged"])
@pytest.mark.parametrize(("old", "new"), [(True, False), (False, True), (True, True)])
def test_ties_are_extended_too(curvature, old, new):
    K, pairs, _ = whole(1, 12, 15)
    chosen = model(curvature)._replace(likelihood=Probit(1.0, 0.4))
    ties = torch.zeros(1, 15, dtype=torch.bool)
    ties[:, 2:6], ties[:, 13] = old, new
    all_at_once = comparison_space.condition(chosen, K, comparisons.incidence(pairs, 12), None, ties)
    first = ties[:, :12] if old else None
    before = comparison_space.condition(chosen, K, comparisons.incidence(pairs[:, :12], 12), None, first)
    none, last = K[:, :0], ties[:, 12:] if new else None
    after = comparison_space.extend(chosen, before, none, none[..., :0], pairs[:, 12:], last)
    assert_alike(after, all_at_once)
    without = comparison_space.condition(chosen, K, comparisons.incidence(pairs, 12))
    assert not torch.allclose(without.map.f, after.map.f, atol=1e-3)


def test_the_posterior_is_the_dense_one():
    K, pairs, found = whole(3, 10, 14)
    twin = dense.Problem(K[0].numpy(), dense.incidence(pairs[0].numpy(), 10))
    f = dense.find_map(twin)
    assert np.allclose((K @ found.map.beta.unsqueeze(-1))[0, :, 0].numpy(), f, atol=1e-7)
    _, cov = dense.predict(twin, f, twin.K, twin.K)
    known = K[0] @ found.root[0]
    assert np.allclose((K[0] - known @ known.mT).numpy(), cov, atol=1e-7)


def test_the_first_step_needs_no_factorization(monkeypatch):
    """Only the steps that the moved curvature asks for factorize, and the last for the covariance."""
    K, _, before = whole(5, 20, 20)
    count = []
    factor = laplace.factor
    monkeypatch.setattr(laplace, "factor", lambda *arguments: (count.append(1), factor(*arguments))[1])
    side, corner = K[:, :1, :] * 0.5, K[:, :1, :1]
    found = comparison_space.extend(model(), before, side, corner, torch.tensor([[[20, 0]]]))
    assert bool(found.map.dual.converged.all()) and len(count) <= 4


def test_a_batch_is_its_runs_one_by_one():
    singles = [whole(seed, 9, 12) for seed in range(3)]
    K, pairs = (torch.cat([single[part] for single in singles]) for part in (0, 1))
    together = comparison_space.condition(model(), K, comparisons.incidence(pairs, 9))
    for run, (_, _, alone) in enumerate(singles):
        assert torch.allclose(together.map.beta[run], alone.map.beta[0], atol=1e-9)
        assert torch.allclose(together.root[run], alone.root[0], atol=1e-9)


@pytest.mark.parametrize("m", [5, 8, 21])
def test_a_large_triangle_is_inverted_by_halves(monkeypatch, m):
    generator = torch.Generator().manual_seed(m)
    root, weight = torch.randn(2, m, m, generator=generator), torch.rand(2, m, generator=generator)
    L = torch.linalg.cholesky(root @ root.mT + torch.eye(m))
    expected = comparison_space.scaled_inverse(L, weight)
    monkeypatch.setattr(comparison_space, "SMALL", 4)
    assert torch.allclose(comparison_space.scaled_inverse(L, weight), expected, atol=1e-12)
