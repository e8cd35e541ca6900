"""The prior covariance, its slopes and the priors against plain formulas, differences and SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS, DimensionScaledLogNormal, Gamma, SharedLogNormal
from tests.reference import dense

FAMILIES = ["rbf", "matern52"]
LENGTHSCALE, OUTPUTSCALE = np.array([0.15, 0.6, 2.0]), 2.5
THETA = torch.as_tensor(np.log([*LENGTHSCALE, OUTPUTSCALE]))


def points(n=8, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, 3))


@pytest.mark.parametrize("nugget", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_covariance_is_the_plain_formula(family, nugget):
    X = points()
    expected = dense.prior_covariance(family, X, LENGTHSCALE, OUTPUTSCALE, nugget)
    ours = stationary.covariance(family, torch.as_tensor(X), THETA, nugget)
    assert np.allclose(ours.numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
def test_known_values_at_one_length_scale(family):
    known = {"rbf": math.exp(-0.5), "matern52": (1.0 + math.sqrt(5.0) + 5.0 / 3.0) * math.exp(-math.sqrt(5.0))}
    X = torch.tensor([[0.2], [0.5]])
    K = stationary.covariance(family, X, torch.tensor([0.3, 2.0]).log(), 0.0)
    assert float(K[0, 1]) == pytest.approx(2.0 * known[family], rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_nugget_stands_exactly_on_the_diagonal_and_nowhere_else(family, dtype):
    X, theta = torch.as_tensor(points(), dtype=dtype), THETA.to(dtype)
    plain, with_nugget = (stationary.covariance(family, X, theta, nugget) for nugget in (0.0, 1e-3))
    off = ~torch.eye(8, dtype=torch.bool)
    assert torch.equal(plain[off], with_nugget[off])
    scale = theta[-1].exp()
    assert torch.equal(plain.diagonal(), scale.expand(8))
    assert torch.equal(with_nugget.diagonal(), (scale * (1.0 + 1e-3)).expand(8))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lengthscale", [1e-2, 0.3])
def test_points_that_nearly_coincide_are_told_from_each_other_by_the_nugget_alone(family, lengthscale):
    """At a distance of 1e-12 the covariance is s to rounding, never above it; the nugget keeps K positive definite."""
    x = points(1)[0]
    X = torch.as_tensor(np.stack([x, x + 1e-12, x, x - 1e-12]))
    theta = torch.tensor([lengthscale] * 3 + [OUTPUTSCALE]).log()
    K = stationary.covariance(family, X, theta, 1e-8)
    off = K[~torch.eye(4, dtype=torch.bool)]
    assert float((off - OUTPUTSCALE).abs().max()) <= 1e-10 * OUTPUTSCALE
    assert bool((off <= theta[-1].exp()).all())
    assert int(torch.linalg.cholesky_ex(K)[1]) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_covariance_is_symmetric_and_positive(family):
    K = stationary.covariance(family, torch.as_tensor(points(20)), THETA, 0.0)
    # Products of matrices round each half for itself: a few units in the last place of 2.5.
    assert torch.allclose(K, K.mT, rtol=0.0, atol=1e-14)
    assert float(torch.linalg.eigvalsh(K)[0]) >= -1e-13


@pytest.mark.parametrize("family", FAMILIES)
def test_the_slope_gives_the_derivative_by_every_length_scale(family):
    """∂K/∂log ℓ_j = S ∘ Δ_j²/ℓ_j², by central differences with h = 1e-5: 1e-9 holds."""
    X, h = torch.as_tensor(points()), 1e-5
    scaled = X / THETA[:-1].exp()
    S = OUTPUTSCALE * stationary.profile(family, stationary.half_distances(scaled, scaled)).slope
    for j in range(3):
        move = torch.zeros(4)
        move[j] = h
        high, low = (stationary.covariance(family, X, THETA + sign * move, 0.0) for sign in (1, -1))
        delta = (X[:, None, j] - X[None, :, j]) / THETA[j].exp()
        assert torch.allclose(S * delta.square(), (high - low) / (2 * h), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_slope_gives_the_derivative_by_a_point(family):
    """∂k(x, x′)/∂x = −S (x − x′)/ℓ²."""
    X, h = torch.as_tensor(points()), 1e-5
    lengthscale = THETA[:-1].exp()

    def cross(moved):
        return stationary.profile(family, stationary.half_distances(moved / lengthscale, X / lengthscale))

    for j in range(3):
        move = torch.zeros(3)
        move[j] = h
        numeric = (cross(X + move).value - cross(X - move).value) / (2 * h)
        analytic = -cross(X).slope * (X[:, None, j] - X[None, :, j]) / lengthscale[j] ** 2
        # The difference is wrong by h²/6 of the third derivative, which is of the size ℓ⁻³ = 300 for the shortest ℓ.
        assert torch.allclose(numeric, analytic, rtol=0.0, atol=1e-7)


def test_the_derivative_by_the_output_scale_is_the_covariance_itself():
    X = torch.as_tensor(points())
    move = torch.tensor([0.0, 0.0, 0.0, 1e-5])
    high, low = (stationary.covariance("rbf", X, THETA + sign * move, 1e-3) for sign in (1, -1))
    assert torch.allclose((high - low) / 2e-5, stationary.covariance("rbf", X, THETA, 1e-3), rtol=0.0, atol=1e-9)


def test_half_distances_are_never_positive():
    x = torch.as_tensor(points(40)) * 50.0
    near = x + 1e-9
    assert float(stationary.half_distances(x, near).max()) <= 0.0
    exact = -0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)
    # The matrix product cancels: absolute error of a few units in the last place of ‖x‖².
    assert torch.allclose(stationary.half_distances(x, x), exact, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_equals_its_runs_one_by_one(family):
    rng = np.random.default_rng(3)
    X, theta = torch.as_tensor(rng.uniform(size=(2, 3, 5, 3))), torch.as_tensor(rng.normal(size=(2, 3, 4)))
    together = stationary.covariance(family, X, theta, 1e-4)
    for i in range(2):
        for j in range(3):
            alone = stationary.covariance(family, X[i, j], theta[i, j], 1e-4)
            assert torch.allclose(together[i, j], alone, rtol=1e-13, atol=1e-14)


X_PRIOR = np.array([0.01, 0.1, 0.5, 1.0, 3.0, 20.0])


@pytest.mark.parametrize(("concentration", "rate"), [(1.2, 0.5), (2.4, 2.7)])
def test_the_gamma_prior_is_scipys_up_to_a_constant(concentration, rate):
    ours = Gamma(concentration, rate).log_density(torch.as_tensor(np.log(X_PRIOR)), 5).numpy()
    scipys = stats.gamma(concentration, scale=1.0 / rate).logpdf(X_PRIOR)
    assert np.ptp(ours - scipys) <= 1e-12


@pytest.mark.parametrize("dimension", [1, 6, 20])
def test_the_dimension_scaled_prior_is_scipys_up_to_a_constant(dimension):
    ours = DimensionScaledLogNormal().log_density(torch.as_tensor(np.log(X_PRIOR)), dimension).numpy()
    location = math.sqrt(2.0) + 0.5 * math.log(dimension)
    scipys = stats.lognorm(math.sqrt(3.0), scale=math.exp(location)).logpdf(X_PRIOR)
    assert np.ptp(ours - scipys) <= 1e-12


@pytest.mark.parametrize("dimension", [1, 3, 6])
def test_the_shared_prior_is_scipys_normal_of_the_log_length_scales_up_to_a_constant(dimension):
    draws = np.random.default_rng(0).normal(size=(20, dimension))
    ours = SharedLogNormal(0.5, 1.2, 0.4).log_density(torch.as_tensor(draws), dimension).sum(-1).numpy()
    cov = 1.2**2 * np.ones((dimension, dimension)) + 0.4**2 * np.eye(dimension)
    scipys = stats.multivariate_normal(np.full(dimension, math.log(0.5)), cov).logpdf(draws)
    assert np.ptp(ours - scipys) <= 1e-10


@pytest.mark.parametrize("name", list(PRIORS))
def test_the_priors_slope_is_the_derivative_of_their_log_density(name):
    priors, h = PRIORS[name], 1e-6
    theta = torch.tensor([[-2.0, 0.3, 1.5, 0.7], [0.0, -1.0, 0.5, 2.0]])
    slope = priors.slope(theta)
    for j in range(4):
        move = torch.zeros(4)
        move[j] = h
        numeric = (priors.log_density(theta + move) - priors.log_density(theta - move)) / (2 * h)
        assert torch.allclose(slope[:, j], numeric, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dimension", [1, 4, 10])
@pytest.mark.parametrize("name", list(PRIORS))
def test_a_cold_fit_starts_at_the_mode_of_the_length_scales_density(name, dimension):
    """The mode is where the density of ℓ, not of log ℓ, is flat."""
    start = PRIORS[name].start(dimension)
    assert start.shape == (dimension + 1,)
    assert torch.allclose(PRIORS[name].slope(start)[:-1], torch.zeros(dimension), rtol=0.0, atol=1e-12)


def test_the_modes_are_the_known_ones():
    assert PRIORS["botorch_0_6"].lengthscale.mode(3) == pytest.approx(0.4, rel=1e-12)
    assert PRIORS["botorch_0_18"].lengthscale.mode(3) == pytest.approx(1.4 / 2.7, rel=1e-12)
    assert PRIORS["dimension_scaled"].lengthscale.mode(4) == pytest.approx(
        2.0 * math.exp(math.sqrt(2.0) - 3.0), rel=1e-12
    )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("botorch_0_6", 1.0, 4.0), ("botorch_0_18", 1e-2, 1e2), ("dimension_scaled", 1e-2, 1e2)],
)
def test_bounds_are_the_boxes_of_the_table(name, low, high):
    lower, upper = PRIORS[name].bounds(torch.zeros(2, 4))
    assert torch.allclose(lower.exp(), torch.tensor([1e-4] * 3 + [low]).expand(2, 4), rtol=1e-12)
    assert torch.allclose(upper.exp(), torch.tensor([1e3] * 3 + [high]).expand(2, 4), rtol=1e-12)
    start = PRIORS[name].start(3)
    assert bool(((start >= lower[0]) & (start <= upper[0])).all())
