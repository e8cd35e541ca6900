"""EUBO against quadrature and Monte Carlo, and its gradient against differences."""

import math

import numpy as np
import pytest
import torch

from kappasharp.acquisition import eubo
from kappasharp.acquisition.eubo import NegativeEubo
from kappasharp.inference import comparison_space, comparisons, laplace, likelihood, posterior
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary
from tests.reference import quadrature
from tests.reference.data import answered

FAMILIES = ["rbf", "matern52"]
VARIANTS = ["expected_max", "improvement"]


def fitted(family="rbf", runs=1, d=3, n=9, m=14):
    """Posteriors of several runs, flat in one batch."""
    parts = [answered(run, n, m, d) for run in range(runs)]
    X, pairs = (torch.as_tensor(np.stack([part[i] for part in parts])) for i in (0, 1))
    theta = torch.tensor([*np.linspace(0.3, 0.8, d), 2.0]).log().expand(runs, -1)
    K, C, probit = stationary.covariance(family, X, theta, 1e-4), comparisons.incidence(pairs, n), Probit(0.5)
    found = laplace.find_map(K, C, probit)
    weights = likelihood.curvature(found.dual.z).omega / probit.scale**2
    return posterior.Posterior(family, X, theta, found.beta, comparison_space.information_root(K, C, weights))


def pairs_of_points(runs, k, d=3, seed=5):
    return torch.as_tensor(np.random.default_rng(seed).uniform(size=(2, runs, k, d)))


@pytest.mark.parametrize("family", FAMILIES)
def test_expected_max_is_the_integral_that_defines_it(family):
    post = fitted(family)
    X_a, X_b = pairs_of_points(1, 4)
    values = eubo.value(post, X_a, X_b)[0]
    for row in range(4):
        mean, cov = posterior.joint(post, torch.stack([X_a[:, row], X_b[:, row]], 1))
        assert float(values[row]) == pytest.approx(quadrature.expected_max(mean[0].numpy(), cov[0].numpy()), abs=1e-7)


def test_improvement_leaves_out_the_second_points_mean():
    post = fitted()
    X_a, X_b = pairs_of_points(1, 6)
    gain = eubo.value(post, X_a, X_b, "improvement")
    assert torch.allclose(eubo.value(post, X_a, X_b) - posterior.mean(post, X_b), gain, rtol=0.0, atol=1e-13)


def test_expected_max_does_not_depend_on_who_is_named_first():
    post = fitted("matern52")
    X_a, X_b = pairs_of_points(1, 6)
    assert torch.allclose(eubo.value(post, X_a, X_b), eubo.value(post, X_b, X_a), rtol=0.0, atol=1e-12)


def test_the_closed_form_has_its_known_values_and_limits():
    found = eubo.closed_form(torch.tensor([0.0, 1.0, -1.0, 50.0, -50.0]), torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0]))
    at_one = 0.8413447460685429 + 0.24197072451914337
    expected = [2.0 / math.sqrt(2.0 * math.pi), at_one, at_one - 1.0, 50.0, 0.0]
    assert found.tolist() == pytest.approx(expected, rel=1e-14, abs=1e-15)


def test_the_expected_improvement_is_never_negative():
    """δ Φ(δ/s) + s φ(δ/s) > 0 for every δ, however hopeless."""
    delta = torch.linspace(-40.0, 0.0, 401)
    assert bool((eubo.closed_form(delta, torch.ones_like(delta)) >= 0.0).all())


def numeric_gradient(objective, x, h=1e-5):
    gradient = torch.empty_like(x)
    for j in range(x.shape[-1]):
        e = torch.zeros(x.shape[-1])
        e[j] = h
        gradient[:, j] = (objective(x + e)[0] - objective(x - e)[0]) / (2.0 * h)
    return gradient


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_is_the_limit_of_differences(family, variant, anchored):
    """Two runs with four starts each; h = 1e-5 leaves an error of about 1e-8."""
    post = fitted(family, runs=2)
    X_a, X_b = pairs_of_points(2, 4)
    anchor = X_b[:, 0] if anchored else None
    x = (X_a if anchored else torch.cat([X_a, X_b], -1)).reshape(8, -1)
    objective = NegativeEubo(eubo.prepare(post), 4, variant, anchor)
    assert torch.allclose(objective(x)[1], numeric_gradient(objective, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_fast_objective_is_minus_the_plain_one(family, variant, anchored):
    post = fitted(family, runs=2)
    X_a, X_b = pairs_of_points(2, 4)
    if anchored:
        X_b = X_b[:, :1].expand_as(X_b)
    x = (X_a if anchored else torch.cat([X_a, X_b], -1)).reshape(8, -1)
    objective = NegativeEubo(eubo.prepare(post), 4, variant, X_b[:, 0] if anchored else None)
    expected = -eubo.value(post, X_a, X_b, variant).reshape(-1)
    assert torch.allclose(objective(x)[0], expected, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_many_answers_the_difference_is_taken_first_and_all_is_the_same(monkeypatch, variant):
    X_a, X_b = pairs_of_points(2, 4)
    x = torch.cat([X_a, X_b], -1).reshape(8, -1)
    objective = NegativeEubo(eubo.prepare(fitted(runs=2)), 4, variant)
    value, gradient = objective(x)
    monkeypatch.setattr(eubo, "LARGE", 0)
    assert torch.allclose(objective(x)[0], value, rtol=0.0, atol=1e-12)
    assert torch.allclose(objective(x)[1], gradient, rtol=0.0, atol=1e-11)


def test_some_runs_of_the_objective_are_those_runs():
    post = fitted(runs=3)
    X_a, X_b = pairs_of_points(3, 2)
    x = torch.cat([X_a, X_b], -1).reshape(6, -1)
    objective = NegativeEubo(eubo.prepare(post), 2, "expected_max")
    part = objective.take(torch.tensor([0, 1, 4, 5]))
    for whole, taken in zip(objective(x), part(x[[0, 1, 4, 5]]), strict=True):
        assert torch.allclose(whole[[0, 1, 4, 5]], taken, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("distance", [0.0, 1e-14, 1e-10, 1e-8])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_points_that_coincide_have_a_finite_value_and_gradient(family, variant, distance):
    """E max of one point with itself is its mean; the variance's floor adds less than 1e-7 of the prior's deviation."""
    post = fitted(family)
    X_a = pairs_of_points(1, 5)[0] * 0.9
    X_b = X_a + distance
    deviation = math.sqrt(2.0)
    best = torch.maximum(posterior.mean(post, X_a), posterior.mean(post, X_b))
    expected = best if variant == "expected_max" else best - posterior.mean(post, X_b)
    allowed = 1e-7 * deviation + 10.0 * distance
    assert torch.allclose(eubo.value(post, X_a, X_b, variant), expected, rtol=0.0, atol=allowed)
    value, gradient = NegativeEubo(eubo.prepare(post), 5, variant)(torch.cat([X_a, X_b], -1).reshape(5, -1))
    assert torch.allclose(-value, expected.reshape(-1), rtol=0.0, atol=allowed)
    assert bool(gradient.isfinite().all())
    # The steepest that EUBO can be: both means' slopes and the spread's, s/ℓ.
    assert float(gradient.abs().max()) <= 50.0


@pytest.mark.parametrize("family", FAMILIES)
def test_training_points_as_candidates_are_finite_too(family):
    post = fitted(family)
    x = torch.cat([post.X[:, :4], post.X[:, 1:5]], -1).reshape(4, -1)
    objective = NegativeEubo(eubo.prepare(post), 4, "expected_max")
    assert torch.allclose(objective(x)[1], numeric_gradient(objective, x), rtol=1e-5, atol=1e-6)


def test_single_precision_keeps_four_digits():
    post = fitted()
    single = posterior.Posterior(post.family, *(part.float() for part in post[1:5]))
    X_a, X_b = pairs_of_points(1, 6)
    assert torch.allclose(
        eubo.value(single, X_a.float(), X_b.float()).double(), eubo.value(post, X_a, X_b), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sampler_at_two_points_is_the_closed_form(family):
    """4096 scrambled Sobol points: an error of about 1e-4."""
    post = fitted(family)
    X = pairs_of_points(1, 5).transpose(0, 2).squeeze(1).reshape(5, 2, 3)
    many = posterior.Posterior(family, *(part.expand(5, *part.shape[1:]) for part in post[1:5]))
    sampled = eubo.expected_max(many, X, eubo.sobol_normals(2, 4096, 0, X))
    closed = eubo.value(post, X[:, 0].unsqueeze(0), X[:, 1].unsqueeze(0))[0]
    assert torch.allclose(sampled, closed, rtol=0.0, atol=2e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sampler_at_three_points_is_plain_monte_carlo(family):
    """400,000 draws from the joint posterior, five standard errors."""
    post = fitted(family)
    X = pairs_of_points(1, 3)[0]
    mean, cov = posterior.joint(post, X)
    draws = np.random.default_rng(0).multivariate_normal(mean[0].numpy(), cov[0].numpy(), size=400_000).max(1)
    sampled = eubo.expected_max(post, X, eubo.sobol_normals(3, 8192, 0, X))
    assert float(sampled) == pytest.approx(draws.mean(), abs=5.0 * draws.std() / math.sqrt(400_000))


def test_a_third_copy_of_a_point_adds_nothing_to_the_sampler():
    post = fitted()
    X = pairs_of_points(1, 2)[0]
    two = eubo.value(post, X[:, :1], X[:, 1:])[0]
    three = eubo.expected_max(post, torch.cat([X, X[:, :1]], 1), eubo.sobol_normals(3, 8192, 1, X))
    assert float(three) == pytest.approx(float(two), abs=3e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sampler_is_differentiable_in_the_points(family):
    """As its docstring says: autograd against central differences on the same quasi-random numbers."""
    post = fitted(family)
    normals = eubo.sobol_normals(3, 64, 0, post.X)
    X = pairs_of_points(1, 3)[0].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(eubo.expected_max(post, X, normals).sum(), X)
    numeric = torch.empty_like(gradient)
    with torch.no_grad():
        for i in range(3):
            for j in range(3):
                move = torch.zeros_like(X)
                move[0, i, j] = 1e-6
                high, low = (eubo.expected_max(post, X + sign * move, normals) for sign in (1, -1))
                numeric[0, i, j] = (high - low).squeeze() / 2e-6
    assert bool(gradient.isfinite().all())
    assert torch.allclose(gradient, numeric, rtol=1e-4, atol=1e-5)


def test_the_quasi_random_normals_are_standard_and_repeatable():
    normals = eubo.sobol_normals(3, 4096, 7, torch.empty(0))
    assert torch.allclose(normals.mean(0), torch.zeros(3), rtol=0.0, atol=5e-3)
    assert torch.allclose(normals.T.cov(), torch.eye(3), rtol=0.0, atol=2e-2)
    assert torch.equal(normals, eubo.sobol_normals(3, 4096, 7, torch.empty(0)))
    assert not torch.equal(normals, eubo.sobol_normals(3, 4096, 8, torch.empty(0)))


@pytest.mark.parametrize("family", ["rbf", "matern52"])
def test_the_value_is_differentiable_by_autograd_and_agrees_with_the_analytic_gradient(family):
    generator = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.rand(*shape, generator=generator)  # noqa: E731
    fitted = posterior.Posterior(
        family, draw(1, 9, 3), torch.tensor([[-0.5, 0.0, -1.0, 0.7]]), draw(1, 9), 0.1 * draw(1, 9, 4)
    )
    pairs = draw(6, 6).requires_grad_()
    eubo.value(fitted, pairs[None, :, :3], pairs[None, :, 3:]).sum().backward()
    _, gradient = eubo.NegativeEubo(eubo.prepare(fitted), 6, "expected_max")(pairs.detach())
    assert torch.allclose(pairs.grad, -gradient, rtol=1e-9, atol=1e-12)
