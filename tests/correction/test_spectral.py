"""Corrections in the prior's metric against dense algebra; what the nugget does to them; answers left out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kappasharp.algorithm import correction
from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.correction import spectral
from kappasharp.inference import comparisons, laplace, likelihood
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary
from kappasharp.settings import METHODS, find_preset
from tests.reference import data, dense

PROBIT = Probit()
SHAPES = ((0, 6, 4, 2), (1, 9, 15, 3), (2, 14, 7, 5), (3, 20, 30, 4))


def example(seed, n, m, d, *, outputscale=20.0, nugget=1e-6):
    found = data.answered(seed, n, m, d)
    X, pairs = torch.as_tensor(found.X)[None], torch.as_tensor(found.pairs)[None]
    theta = torch.full((1, d + 1), 0.5, dtype=torch.float64).log()
    theta[:, -1] = np.log(outputscale)
    K = stationary.covariance("rbf", X, theta, nugget)
    C = comparisons.incidence(pairs, n)
    plain = laplace.find_map(K, C, PROBIT)
    omega = likelihood.sites(plain.dual.z).omega
    return K, C, plain, omega, comparisons.congruence(C, K) / PROBIT.scale**2


def root_of(K):
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.clip(values, 0.0, None)) @ vectors.T


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
def test_the_condition_number_in_the_priors_metric_and_its_target_are_the_dense_ones(shape, alpha):
    K, C, _, omega, A = example(*shape)
    found = spectral.calibrate(A, omega, alpha)
    half = root_of(K[0].numpy())
    rows = dense.incidence(C.pairs[0].numpy(), shape[1])
    H = half @ rows.T @ np.diag(omega[0].numpy() / PROBIT.scale**2) @ rows @ half
    values = np.linalg.eigvalsh(H)
    assert values[0] == pytest.approx(0.0, abs=1e-9)  # ker C
    assert float(found.kappa_before) == pytest.approx(1.0 + values[-1], rel=2e-6)
    eta = float(found.eta)
    assert (1.0 + eta + values[-1]) / (1.0 + eta) == pytest.approx((1.0 + values[-1]) ** (1.0 - alpha), rel=1e-5)
    assert float(found.kappa_after) == pytest.approx(float(found.kappa_before) ** (1.0 - alpha))
    assert bool(found.found) and eta > 0.0


def test_without_curvature_nothing_is_corrected():
    _, _, _, omega, A = example(*SHAPES[0])
    found = spectral.calibrate(A, torch.zeros_like(omega), 0.1)
    assert float(found.eta) == 0.0 and float(found.kappa_after) == 1.0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_tempered_map_is_stationary_and_is_plain_shrinkage_of_the_prior(shape):
    K, C, plain, _, _ = example(*shape, nugget=1e-3)
    eta = torch.tensor([0.7], dtype=torch.float64)
    found = spectral.find_map(spectral.tempered(K, C, eta), C, PROBIT, plain.dual.z)
    pull = comparisons.transpose(C, likelihood.sites(found.dual.z).slope) / PROBIT.scale
    inverse = torch.linalg.inv(K)
    gradient = 1.7 * (inverse @ found.f.unsqueeze(-1)).squeeze(-1) - pull
    assert float(gradient.abs().max()) < 1e-7
    assert torch.allclose(found.beta, (inverse @ found.f.unsqueeze(-1)).squeeze(-1), atol=1e-8)
    # The same utilities as with an output scale divided by 1 + η: the correction is a matter of the output scale.
    again = laplace.find_map(K / 1.7, C, PROBIT)
    assert torch.allclose(found.f, again.f, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_aligned_correction_is_the_dense_one_along_ker_c(shape):
    K, C, plain, _, _ = example(*shape, nugget=1e-3)
    eta = torch.tensor([2.0], dtype=torch.float64)
    P = spectral.kernel_projector(C)
    assert torch.allclose(P @ P, P) and torch.allclose(P, P.mT)
    assert float(comparisons.rows(C, P).abs().max()) < 1e-12
    assert float(P.diagonal(dim1=-2, dim2=-1).sum()) == pytest.approx(
        int(comparisons.count_components(C.pairs, shape[1]))
    )
    R = spectral.aligned_matrix(K, C, eta)
    shrunk = spectral.aligned(K, C, eta)
    inverse = torch.linalg.inv(K)
    assert torch.allclose(shrunk.K, torch.linalg.inv(inverse + R), atol=1e-8)
    assert torch.allclose(shrunk.share, torch.eye(shape[1]) - inverse @ shrunk.K, atol=1e-6)
    found = spectral.find_map(shrunk, C, PROBIT, plain.dual.z)
    pull = comparisons.transpose(C, likelihood.sites(found.dual.z).slope) / PROBIT.scale
    gradient = (inverse + R) @ found.f.unsqueeze(-1) - pull.unsqueeze(-1)
    assert float(gradient.abs().max()) < 1e-6
    assert torch.allclose(K @ found.beta.unsqueeze(-1), found.f.unsqueeze(-1), atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_along_the_null_directions_of_the_priors_metric_the_map_is_at_rest_already(shape):
    """K^½ H_lik K^½ is null on K^−½ ker C, and there the plain MAP has no component: shrinking it changes nothing."""
    K, C, plain, _, _ = example(*shape, nugget=1e-3)
    N = spectral.kernel_projector(C)
    assert float((N @ plain.beta.unsqueeze(-1)).abs().max()) < 1e-10
    inverse = torch.linalg.inv(K)
    middle = torch.linalg.pinv(N @ inverse @ N, hermitian=True)
    R = 5.0 * inverse @ N @ middle @ N @ inverse
    found = laplace.find_map(torch.linalg.inv(inverse + R), C, PROBIT)
    assert torch.allclose(found.f, plain.f, atol=1e-5)


def shift(method, nugget):
    """How far the correction moves the MAP's differences, relative to them, on clustered answers."""
    found = data.answered(5, 24, 40, 4)
    X = torch.as_tensor(found.X)[None].clone()
    X[:, 12:] = X[:, :12] + 1e-3
    model = model_from(replace(find_preset("modern"), nugget=nugget))
    theta = torch.tensor([[0.5, 0.5, 0.5, 0.5, 10.0]], dtype=torch.float64).log()
    fit = algorithm_fit.fit(model, Answers(X, torch.as_tensor(found.pairs)[None]), theta=theta, cold=False)
    K = stationary.covariance("rbf", X, theta, nugget)
    plain = laplace.find_map(K, fit.C, PROBIT)
    fit = fit._replace(K=K, map=plain, hyper=fit.hyper._replace(theta=theta), gram=None)
    corrected = correction.correct(model, fit, METHODS[method].correction, torch.tensor([True]))
    return float((corrected.map.dual.z - plain.dual.z).norm() / plain.dual.z.norm())


def test_the_nugget_does_not_set_the_spectral_correction_but_sets_the_papers():
    ours = [shift("spectral", nugget) for nugget in (1e-10, 1e-7, 1e-4)]
    theirs = [shift("static", nugget) for nugget in (1e-10, 1e-7, 1e-4)]
    assert max(ours) / min(ours) < 1.05
    assert max(theirs) / min(theirs) > 1.5


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_left_out_is_predicted_as_by_the_dense_posterior_without_its_site(shape):
    _, _, plain, omega, A = example(*shape)
    found = spectral.left_out(A, plain.dual, 0.0)[0]
    a, w = A[0].numpy(), omega[0].numpy()
    slope, z = likelihood.sites(plain.dual.z).slope[0].numpy(), plain.dual.z[0].numpy()
    for p in range(len(w)):
        others = np.diag(np.where(np.arange(len(w)) == p, 0.0, w))
        cov = np.linalg.solve(np.eye(len(w)) + a @ others, a)
        pull = np.where(np.arange(len(w)) == p, 0.0, slope + w * z)
        mean, variance = (cov @ pull)[p], cov[p, p]
        expected = dense.wins(np.array([mean / np.sqrt(1.0 + variance)])).log_p[0]
        assert float(found[p]) == pytest.approx(expected, rel=1e-6, abs=1e-8)
