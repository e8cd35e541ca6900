"""What programs written for PairwiseGP read, change and expect: names, a posterior that is never stale, likelihoods."""

import copy

import pytest
import torch
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean

import kappasharp as ks
from kappasharp.errors import InvalidValueError
from kappasharp.integrations.botorch.fit import KappaSharpMarginalLogLikelihood
from kappasharp.integrations.botorch.model import KappaSharpGP
from tests.integrations.botorch.examples import batch, clustered, ours, pairwise_gp, preferences

NEW = torch.rand(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("likelihood", [None, PairwiseLogitLikelihood])
def test_the_matrices_are_pairwise_gps(likelihood):
    X, P = preferences()
    options = {} if likelihood is None else {"likelihood": likelihood()}
    theirs, model = pairwise_gp(X, P, 0.4, 2.0, **options), ours(X, P, 0.4, 2.0, nugget=1e-8, **options)
    theirs.posterior(NEW)  # which computes hlcov_eye
    for name in ("D", "DT", "covar", "likelihood_hess", "hlcov_eye", "utility"):
        assert torch.allclose(getattr(model, name), getattr(theirs, name), atol=1e-4), name
    eye = torch.eye(20)
    assert torch.allclose(model.covar_chol @ model.covar_chol.mT, model.covar, atol=1e-10)
    assert torch.allclose(model.covar_inv @ model.covar, eye, atol=1e-3)


def test_nothing_is_merged_and_the_data_are_the_tensors_that_were_given():
    X, P = preferences()
    X = torch.cat([X, X[:2]])
    for points, pairs in ((X, P), batch([0, 1])):
        model = KappaSharpGP(points, pairs)
        assert model.unconsolidated_datapoints is points and model.consolidated_datapoints is points
        assert model.unconsolidated_comparisons is pairs and model.consolidated_comparisons is pairs
        assert model.consolidated_indices is None and model.utility is model.unconsolidated_utility
        assert model.train()(points).mean.shape == model.utility.shape == points.shape[:-1]


def test_the_mean_is_a_frozen_constant_that_shifts_every_utility():
    X, P = preferences()
    model, theirs = ours(X, P, 0.4, 2.0), pairwise_gp(X, P, 0.4, 2.0)
    assert type(model.mean_module) is ConstantMean and not any(p.requires_grad for p in model.mean_module.parameters())
    before = model.posterior(NEW).mean
    for one in (model, theirs):
        one.mean_module.constant = 3.0
    theirs.set_train_data(X, P, update_model=True)
    assert torch.allclose(model.posterior(NEW).mean, before + 3.0, atol=1e-12)
    assert torch.allclose(model.posterior(NEW).mean, theirs.posterior(NEW).mean, atol=1e-4)
    assert torch.allclose(model.utility, theirs.unconsolidated_utility, atol=1e-4)


def test_utility_is_computed_again_where_it_was_forgotten():
    model = KappaSharpGP(*preferences())
    before = model.utility
    model.utility = None
    assert torch.equal(model.utility, before) and model.utility is not before
    with pytest.raises(InvalidValueError, match="`utility` must be None"):
        model.utility = before


# --- never stale ----------------------------------------------------------------------------------------------------


def test_the_posterior_follows_another_kernel_and_a_changed_attribute():
    X, P = preferences()
    module = lambda nu: ScaleKernel(MaternKernel(nu=nu, ard_num_dims=3))  # noqa: E731
    model = KappaSharpGP(X, P, covar_module=module(2.5))
    model.posterior(NEW)
    model.covar_module.base_kernel.nu = 0.5
    assert torch.allclose(
        model.posterior(NEW).mean, KappaSharpGP(X, P, covar_module=module(0.5)).posterior(NEW).mean, atol=1e-10
    )
    # The same parameters' values, another kernel.
    model.covar_module = ScaleKernel(RBFKernel(ard_num_dims=3))
    fresh = KappaSharpGP(X, P, covar_module=copy.deepcopy(model.covar_module))
    assert torch.allclose(model.posterior(NEW).mean, fresh.posterior(NEW).mean, atol=1e-10)


def test_the_posterior_is_computed_once_while_nothing_changes(monkeypatch):
    model = KappaSharpGP(*preferences())
    held = model._held()
    model.train()
    model.eval()
    model.posterior(NEW)
    assert model._held() is held
    twin = copy.deepcopy(model)
    assert twin._current() is twin._cache and twin._current() is twin._current()
    further = model.condition_on_observations(NEW[:2], torch.tensor([[0, 1]]))
    assert further._held() is further._cache.held and further._current() is further._current()


# --- the logit likelihood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputscale", [0.5, 4.0])
def test_the_logit_posterior_is_pairwise_gps(outputscale):
    X, P = preferences()
    theirs = pairwise_gp(X, P, 0.4, outputscale, likelihood=PairwiseLogitLikelihood())
    model = ours(X, P, 0.4, outputscale, likelihood=PairwiseLogitLikelihood())
    a, b = theirs.posterior(NEW), model.posterior(NEW)
    assert bool(model.converged)
    assert torch.allclose(a.mean, b.mean, atol=1e-4)
    assert torch.allclose(a.covariance_matrix, b.covariance_matrix, atol=1e-4)


def test_the_logit_evidence_is_botorchs_and_its_gradient_that_of_finite_differences():
    X, P = preferences(2, n=10, m=14)
    model = KappaSharpGP(X, P, PairwiseLogitLikelihood())
    mll = KappaSharpMarginalLogLikelihood(model.likelihood, model)
    value = mll(model(X), P)
    assert torch.allclose(value, PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)(model(X), P), atol=1e-6)
    raw = model.covar_module.raw_outputscale
    (gradient,) = torch.autograd.grad(value, raw)
    values = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            raw += step
        values.append(float(mll(None, P).detach()))
        with torch.no_grad():
            raw -= step
    assert float(gradient) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)


def test_the_logit_model_is_fitted_and_conditioned():
    X, P = clustered(1)
    model = KappaSharpGP(X, P, PairwiseLogitLikelihood()).fit()
    assert bool(model.converged) and 10.0 < float(model.covar_module.outputscale.detach()) <= 100.0 + 1e-6
    points, pairs = X[:2] + 0.1, torch.tensor([[0, 1]])
    further = model.condition_on_observations(points, pairs)
    fresh = KappaSharpGP(torch.cat([X, points]), torch.cat([P, pairs + 60]), PairwiseLogitLikelihood())
    fresh.load_state_dict(model.state_dict())
    assert torch.allclose(further.posterior(X).mean, fresh.posterior(X).mean, atol=1e-6)


# --- rankings and ties ----------------------------------------------------------------------------------------------


def dataset(indices, ranks):
    X = torch.rand(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    container = SliceContainer(values=X, indices=torch.tensor(indices), event_shape=torch.Size([3 * len(indices[0])]))
    names = {"feature_names": ["a", "b", "c"], "outcome_names": ["u"]}
    return X, RankingDataset(X=container, Y=torch.tensor(ranks), **names)


def test_a_ranking_is_each_rank_against_the_next():
    _, data = dataset([[4, 2, 0], [1, 3, 5]], [[1, 2, 0], [0, 1, 2]])
    inputs = KappaSharpGP.construct_inputs(data)
    assert set(inputs) == {"datapoints", "comparisons"}
    assert inputs["comparisons"].tolist() == [[0, 4], [4, 2], [1, 3], [3, 5]]


def test_a_ranking_with_ties_is_a_model_with_ties():
    _, data = dataset([[0, 1], [2, 3], [4, 5]], [[0, 1], [0, 0], [1, 0]])
    inputs = KappaSharpGP.construct_inputs(data)
    assert inputs["comparisons"].tolist() == [[0, 1], [2, 3], [5, 4]]
    assert inputs["ties"].tolist() == [False, True, False]
    with pytest.raises(InvalidValueError, match="threshold above 0 for ties"):
        KappaSharpGP(**inputs)
    preset = ks.Preset(threshold=0.5)
    tied = KappaSharpGP(**inputs, preset=preset).utility
    won = KappaSharpGP(inputs["datapoints"], inputs["comparisons"], preset=preset).utility
    assert float(won[2] - won[3]) > float(tied[2] - tied[3]) + 0.2


def test_ties_are_those_of_the_front_door():
    X, P = preferences(0, n=24, m=30)
    ties = torch.arange(30) % 5 == 0
    preset = ks.Preset(threshold=0.4)
    found = ks.fit(X, P, preset=preset, ties=ties)
    model = KappaSharpGP(X, P, preset=preset, ties=ties).fit()
    lengthscale = model.covar_module.base_kernel.lengthscale.squeeze(-2)
    assert torch.allclose(lengthscale, found.lengthscale, rtol=0.05)
    mean = model.posterior(NEW).mean.squeeze(-1).detach()
    assert torch.allclose(mean, found.posterior(NEW).mean, atol=0.05)
    assert bool(model.converged) and torch.equal(model.ties, ties)


def test_botorchs_marginal_likelihood_cannot_say_tie():
    X, P = preferences()
    model = KappaSharpGP(X, P, preset=ks.Preset(threshold=0.4))
    with pytest.raises(Exception, match="`D` cannot say which answers are ties"):
        PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)(model(X), P)
