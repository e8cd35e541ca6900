"""Predictions against explicit inverses at new points and at training points, with and without R in the covariance."""

import numpy as np
import pytest
import torch

from kappasharp.inference import comparison_space, comparisons, laplace, likelihood, posterior
from kappasharp.inference.likelihood import Probit
from tests.reference import dense
from tests.reference.data import answered

FAMILIES = ["rbf", "matern52"]
LENGTHSCALE, OUTPUTSCALE, NUGGET, NOISE = np.array([0.3, 0.7]), 2.0, 1e-3, 0.5
THETA = torch.as_tensor(np.log([*LENGTHSCALE, OUTPUTSCALE]))
NEW = np.random.default_rng(9).uniform(size=(7, 2))
R = {"none": None, "some": np.array([0.0, 2.0, 0.0, 0.3, 0.0, 1.0, 0.0, 5.0]), "all": np.full(8, 0.9)}


def case(family, correction, m=11):
    """Our posterior and the dense twin's problem, MAP and predictor."""
    data = answered(2, 8, m, 2)
    r = R[correction]
    K = dense.prior_covariance(family, data.X, LENGTHSCALE, OUTPUTSCALE, NUGGET)
    probit = Probit(NOISE)
    twin = dense.Problem(K, dense.incidence(data.pairs, 8), probit.scale, r=0.0 if r is None else r)
    C = comparisons.incidence(torch.as_tensor(data.pairs), 8)
    r_ours = None if r is None else torch.as_tensor(r)
    fit = laplace.find_map(torch.as_tensor(K), C, probit, r=r_ours)
    weights = likelihood.curvature(fit.dual.z).omega / probit.scale**2
    root = comparison_space.information_root(torch.as_tensor(K), C, weights, r_ours)
    fitted = posterior.Posterior(family, torch.as_tensor(data.X), THETA, fit.beta, root)
    f = dense.find_map(twin)

    def predict(X):
        k = dense.kernel(family, X, data.X, LENGTHSCALE, OUTPUTSCALE)
        return dense.predict(twin, f, k, dense.kernel(family, X, X, LENGTHSCALE, OUTPUTSCALE))

    return fitted, twin, f, predict


@pytest.mark.parametrize("m", [4, 11, 30])
@pytest.mark.parametrize("correction", list(R))
@pytest.mark.parametrize("family", FAMILIES)
def test_mean_and_covariance_are_the_dense_ones_at_new_points(family, correction, m):
    fitted, _, _, predict = case(family, correction, m)
    mean, cov = posterior.joint(fitted, torch.as_tensor(NEW))
    expected_mean, expected_cov = predict(NEW)
    assert np.allclose(mean.numpy(), expected_mean, rtol=0.0, atol=1e-7)
    assert np.allclose(cov.numpy(), expected_cov, rtol=0.0, atol=1e-8)
    assert torch.allclose(posterior.mean(fitted, torch.as_tensor(NEW)), mean, rtol=0.0, atol=1e-13)
    own_mean, variance = posterior.marginal(fitted, torch.as_tensor(NEW))
    assert torch.equal(own_mean, mean) and np.allclose(variance.numpy(), np.diag(expected_cov), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("correction", list(R))
@pytest.mark.parametrize("family", FAMILIES)
def test_mean_and_covariance_are_the_dense_ones_at_training_points(family, correction):
    fitted, _, _, predict = case(family, correction)
    mean, cov = posterior.joint(fitted, fitted.X)
    expected_mean, expected_cov = predict(fitted.X.numpy())
    assert np.allclose(mean.numpy(), expected_mean, rtol=0.0, atol=1e-7)
    assert np.allclose(cov.numpy(), expected_cov, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("correction", list(R))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_root_holds_what_the_answers_took_off_the_covariance(family, correction):
    """K − K root rootᵀ K is Σ itself, the inverse of the dense Hessian."""
    fitted, twin, f, _ = case(family, correction)
    K = torch.as_tensor(twin.K)
    Sigma = K - K @ fitted.root @ fitted.root.mT @ K
    assert np.allclose(Sigma.numpy(), np.linalg.inv(dense.hessian(twin, f)), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("correction", list(R))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_contrast_is_the_joints(family, correction):
    fitted, _, _, predict = case(family, correction)
    X, Y = torch.as_tensor(NEW[:3]), torch.as_tensor(NEW[3:6])
    found = posterior.contrast(fitted, X, Y)
    mean, cov = predict(NEW[:6])
    D = np.concatenate([np.eye(3), -np.eye(3)], 1)
    assert np.allclose(found.mean.numpy(), D @ mean, rtol=0.0, atol=1e-7)
    assert np.allclose(found.variance.numpy(), np.diag(D @ cov @ D.T), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_contrast_turned_round_changes_its_sign_only(family):
    fitted, _, _, _ = case(family, "some")
    X, Y = torch.as_tensor(NEW[:3]), torch.as_tensor(NEW[3:6])
    there, back = posterior.contrast(fitted, X, Y), posterior.contrast(fitted, Y, X)
    assert torch.allclose(there.mean, -back.mean, rtol=0.0, atol=1e-14)
    assert torch.allclose(there.variance, back.variance, rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("distance", [0.0, 1e-12, 1e-7])
def test_a_contrast_of_points_that_nearly_coincide_is_nearly_nothing_and_never_negative(family, distance):
    fitted, _, _, _ = case(family, "all")
    X = torch.as_tensor(NEW) * 0.9
    found = posterior.contrast(fitted, X, X + distance)
    assert bool((found.variance >= 0.0).all())
    assert float(found.variance.max()) <= 100.0 * distance**2 + 1e-14
    assert float(found.mean.abs().max()) <= 100.0 * distance + 1e-13


@pytest.mark.parametrize("correction", list(R))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_covariance_is_positive_semi_definite_and_below_the_prior(family, correction):
    fitted, _, _, _ = case(family, correction, 30)
    X = np.concatenate([NEW, fitted.X.numpy(), NEW[:2] + 1e-9])
    _, cov = posterior.joint(fitted, torch.as_tensor(X))
    prior = dense.kernel(family, X, X, LENGTHSCALE, OUTPUTSCALE)
    assert np.linalg.eigvalsh(cov.numpy())[0] >= -1e-12
    assert np.linalg.eigvalsh(prior - cov.numpy())[0] >= -1e-12


def test_a_correction_in_the_covariance_lowers_it_everywhere():
    """Σ_aug ≤ Σ at the same weights: R adds information that nobody gave."""
    fitted, twin, f, _ = case("rbf", "none")
    K = torch.as_tensor(twin.K)
    C = comparisons.incidence(torch.as_tensor(answered(2, 8, 11, 2).pairs), 8)
    weights = torch.as_tensor(dense.weights(twin, f))
    roots = [comparison_space.information_root(K, C, weights, r) for r in (None, torch.zeros(8), torch.full((8,), 0.5))]
    plain, zero, more = (posterior.joint(fitted._replace(root=root), torch.as_tensor(NEW))[1] for root in roots)
    assert torch.allclose(plain, zero, rtol=0.0, atol=1e-13)
    assert float(torch.linalg.eigvalsh(plain - more)[0]) >= -1e-12
    assert float((plain - more).diagonal().min()) > 1e-3


def test_without_answers_the_posterior_is_the_prior():
    X = torch.as_tensor(NEW)
    C = comparisons.incidence(torch.empty(0, 2).long(), 7)
    K = torch.as_tensor(dense.prior_covariance("rbf", NEW, LENGTHSCALE, OUTPUTSCALE, NUGGET))
    root = comparison_space.information_root(K, C, torch.empty(0))
    mean, cov = posterior.joint(posterior.Posterior("rbf", X, THETA, torch.zeros(7), root), X + 0.01)
    assert torch.equal(mean, torch.zeros(7))
    assert np.allclose(cov.numpy(), dense.kernel("rbf", NEW, NEW, LENGTHSCALE, OUTPUTSCALE), rtol=0.0, atol=1e-12)


def test_a_batch_equals_its_runs_one_by_one():
    parts = [case("matern52", correction)[0] for correction in ("some", "all")]
    stacked = [torch.stack(fields) for fields in list(zip(*parts, strict=True))[1:5]]
    both = posterior.Posterior("matern52", *stacked)
    X = torch.as_tensor(np.stack([NEW, NEW[::-1]]).copy())
    mean, cov = posterior.joint(both, X)
    contrast = posterior.contrast(both, X[:, :3], X[:, 3:6])
    for run, part in enumerate(parts):
        alone = posterior.joint(part, X[run])
        assert torch.allclose(mean[run], alone[0], rtol=0.0, atol=1e-13)
        assert torch.allclose(cov[run], alone[1], rtol=0.0, atol=1e-13)
        assert torch.allclose(
            contrast.variance[run], posterior.contrast(part, X[run, :3], X[run, 3:6]).variance, rtol=0.0, atol=1e-13
        )
