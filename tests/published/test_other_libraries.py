"""Our MAP and posterior against BoTorch's and choix's, from the numbers stored beside this file."""

import pytest
import torch

from kappasharp.inference import comparison_space, comparisons, ep, laplace, likelihood, posterior
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary
from tests.reference.data import published


@pytest.mark.parametrize("family", ["rbf", "matern52"])
def test_botorchs_map_and_posterior_are_ours(family):
    """BoTorch 0.18.1 at fixed hyperparameters, no answer beyond its clamp: both agree to 1e-9."""
    told = published("botorch_map.json")
    X, pairs = torch.tensor(told["points"]), torch.tensor(told["pairs"])
    theta = torch.tensor([*told["lengthscale"], told["outputscale"]]).log()
    fit, expected = told["fits"][family], Probit(noise=1.0)
    C = comparisons.incidence(pairs, len(X))
    K = stationary.covariance(family, X, theta, 0.0)
    found = laplace.find_map(K, C, expected)
    assert bool(found.dual.converged)
    assert torch.allclose(found.f, torch.tensor(fit["utility"]), rtol=0.0, atol=1e-9)
    weights = likelihood.sites(found.dual.z).omega / expected.scale**2
    fitted = posterior.Posterior(family, X, theta, found.beta, comparison_space.information_root(K, C, weights))
    mean, cov = posterior.joint(fitted, torch.tensor(told["new_points"]))
    assert torch.allclose(mean, torch.tensor(fit["new_mean"]), rtol=0.0, atol=1e-9)
    assert torch.allclose(cov, torch.tensor(fit["new_covariance"]), rtol=0.0, atol=1e-9)


def chain_fit(pairs, prior_variance):
    """Laplace's mean and variance of choix's four items."""
    probit = Probit(noise=2.0**-0.5)
    K = prior_variance * torch.eye(4)
    C = comparisons.incidence(torch.tensor(pairs), 4)
    fit = laplace.find_map(K, C, probit)
    root = comparison_space.information_root(K, C, likelihood.sites(fit.dual.z).omega / probit.scale**2)
    return fit.f, (K - K @ root @ root.mT @ K).diagonal()


@pytest.mark.parametrize(("prior_variance", "gap"), [(8.0, 0.36), (1.0, 0.14), (0.1, 0.03)])
def test_choixs_chain_is_ranked_alike_and_the_closer_the_tighter_the_prior(prior_variance, gap):
    """EP matches moments, Laplace takes the mode, which a skewed posterior pulls towards the prior.

    So the two differ by a known share of EP's mean (`gap`), the less the tighter the prior; the ranking is the same,
    and Laplace's means and variances are the smaller ones.
    """
    told = published("choix_chain.json")
    run = next(part for part in told["runs"] if part["prior_variance"] == prior_variance)
    mean, variance = torch.tensor(run["mean"]), torch.tensor(run["covariance"]).diagonal()
    f, own = chain_fit(told["pairs"], prior_variance)
    assert f.argsort().tolist() == mean.argsort().tolist() == [0, 1, 2, 3]
    assert float((f - mean).abs().max()) <= gap * float(mean.abs().max())
    assert float((f[3] - f[0]).abs()) < float((mean[3] - mean[0]).abs())
    assert bool((own < variance).all())
    assert float((own / variance - 1.0).abs().max()) <= 0.5 * gap


@pytest.mark.parametrize("prior_variance", [8.0, 1.0, 0.1])
def test_choixs_expectation_propagation_is_ours(prior_variance):
    """The same approximation by another route; choix stops at a change of 1e-4 in its sites, and mostly nearer."""
    told = published("choix_chain.json")
    run = next(part for part in told["runs"] if part["prior_variance"] == prior_variance)
    mean, cov = chain_propagation(told["pairs"], prior_variance)
    assert torch.allclose(mean, torch.tensor(run["mean"]), rtol=0.0, atol=1e-5)
    assert torch.allclose(cov, torch.tensor(run["covariance"]), rtol=0.0, atol=1e-5)


def chain_propagation(pairs, prior_variance):
    """Our EP's mean and covariance of choix's four items."""
    probit = Probit(noise=2.0**-0.5)
    K = prior_variance * torch.eye(4)
    C = comparisons.incidence(torch.tensor(pairs), 4)
    found = ep.solve(comparisons.congruence(C, K) / probit.scale**2, 0.0)
    root = comparison_space.information_root(K, C, found.tau / probit.scale**2)
    return K @ comparisons.transpose(C, found.alpha) / probit.scale, K - K @ root @ root.mT @ K


def test_choixs_published_chain_is_found():
    """The numbers of choix's own test suite, which holds them to 1e-3."""
    told = published("choix_chain.json")
    mean, cov = chain_propagation(told["pairs"], told["published"]["prior_variance"])
    assert torch.allclose(mean, torch.tensor(told["published"]["mean"]), rtol=0.0, atol=1e-5)
    assert torch.allclose(cov.diagonal(), torch.tensor(told["published"]["variance"]), rtol=0.0, atol=1e-5)


def test_choixs_published_chain_is_ranked_alike():
    """The numbers of choix's own test suite: same order, symmetric about zero, 36 % apart at this wide a prior."""
    told = published("choix_chain.json")
    mean = torch.tensor(told["published"]["mean"])
    f, _ = chain_fit(told["pairs"], told["published"]["prior_variance"])
    assert f.argsort().tolist() == mean.argsort().tolist()
    assert torch.allclose(f, -f.flip(0), rtol=0.0, atol=1e-9)
    assert float((f - mean).abs().max()) <= 0.36 * float(mean.abs().max())
