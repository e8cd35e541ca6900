"""Fantasies: differentiable in the points that are asked about, by any of BoTorch's samplers, for its look-ahead."""

import pytest
import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from botorch.sampling.pairwise_samplers import PairwiseIIDNormalSampler, PairwiseSobolQMCNormalSampler
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

import kappasharp as ks
from kappasharp.integrations.botorch import comparisons
from kappasharp.integrations.botorch.model import KappaSharpGP
from tests.integrations.botorch.examples import batch, preferences, quiet

# BoTorch's pairwise samplers give torch's numbers to NumPy, which complains.
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")

CUBE = torch.stack([torch.zeros(3), torch.ones(3)]).double()
MODELS = {
    "default": {},
    "averaged curvature": {"preset": "modern"},
    "ties": {"preset": ks.Preset(threshold=0.3)},
    "logit": {"likelihood": PairwiseLogitLikelihood()},
    "another kernel": {"covar_module": ScaleKernel(RBFKernel() + MaternKernel(nu=1.5))},
}
SAMPLERS = {"sobol": SobolQMCNormalSampler, "pairwise": PairwiseSobolQMCNormalSampler}


def fitted(**options):
    model = KappaSharpGP(*preferences(), **options)
    if type(model.covar_module.base_kernel) is RBFKernel:
        model.covar_module.base_kernel.lengthscale = 0.4
    model.covar_module.outputscale = 5.0
    return model


def same_as_finite_differences(function, points, step=1e-5):
    """The gradient at these points, every entry of it, as long as no sampled answer changes within the step."""
    points = points.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(function(points).sum(), points)
    assert float(gradient.abs().amin()) > 0.0
    for index in torch.cartesian_prod(*(torch.arange(size) for size in points.shape)).tolist():
        moved = [points.detach().clone() for _ in range(2)]
        moved[0][tuple(index)] += step
        moved[1][tuple(index)] -= step
        expected = float((function(moved[0]) - function(moved[1])).sum().detach()) / (2.0 * step)
        assert float(gradient[tuple(index)]) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", MODELS)
def test_knowledge_gradient_moves_the_asked_points(name, sampler):
    """The first two points are asked about; each of the others is the best one after one of the answers."""
    model = fitted(**MODELS[name])
    acquisition = qKnowledgeGradient(model, num_fantasies=3, sampler=SAMPLERS[sampler](torch.Size([3]), seed=0))
    later = torch.rand(1, 3, 3, generator=torch.Generator().manual_seed(0))
    asked = torch.rand(1, 2, 3, generator=torch.Generator().manual_seed(1))
    same_as_finite_differences(lambda X: acquisition(torch.cat([X, later], -2)), asked)


@pytest.mark.parametrize("name", MODELS)
def test_the_integrated_variance_moves_the_asked_points(name):
    points = torch.rand(16, 3, generator=torch.Generator().manual_seed(0))
    acquisition = qNegIntegratedPosteriorVariance(
        fitted(**MODELS[name]), points, sampler=SobolQMCNormalSampler(torch.Size([1]), seed=0)
    )
    same_as_finite_differences(acquisition, torch.rand(1, 2, 3, generator=torch.Generator().manual_seed(1)))


def test_optimize_acqf_finds_more_than_random_points():
    points = torch.rand(16, 3, generator=torch.Generator().manual_seed(0))
    sampler = SobolQMCNormalSampler(torch.Size([1]), seed=0)
    acquisition = qNegIntegratedPosteriorVariance(fitted(), points, sampler=sampler)
    torch.manual_seed(0)
    with quiet():
        found, value = optimize_acqf(acquisition, CUBE, q=2, num_restarts=1, raw_samples=16, options={"maxiter": 10})
    assert found.shape == (2, 3)
    assert float(value.detach()) >= float(acquisition(torch.rand(16, 2, 3)).detach().max())


def test_fantasies_of_a_prior_and_of_a_batch_are_differentiable():
    asked = torch.rand(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    at = torch.rand(4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for model in (KappaSharpGP(None, None), KappaSharpGP(*batch([0, 1]))):
        same_as_finite_differences(
            lambda X, model=model: model.fantasize(X, IIDNormalSampler(torch.Size([3]), seed=0)).posterior(at).mean,
            asked,
        )


def test_the_gradient_stays_when_the_posterior_is_computed_again():
    asked = torch.rand(2, 3, requires_grad=True)
    fantasy = fitted().condition_on_observations(asked, torch.tensor([[0, 1]]))
    at = torch.rand(4, 3)
    (first,) = torch.autograd.grad(fantasy.posterior(at).mean.sum(), asked)
    fantasy.utility = None
    (second,) = torch.autograd.grad(fantasy.posterior(at).mean.sum(), asked)
    assert torch.allclose(first, second, atol=1e-8) and float(first.abs().max()) > 1e-3


# --- BoTorch's pairwise samplers ------------------------------------------------------------------------------------


def certain(mean):
    """A posterior that leaves no doubt about the order."""
    mean = torch.tensor(mean).double()
    return GPyTorchPosterior(MultivariateNormal(mean, 1e-12 * torch.eye(len(mean), dtype=torch.float64)))


@pytest.mark.parametrize("kind", [PairwiseIIDNormalSampler, PairwiseSobolQMCNormalSampler])
def test_botorchs_pairwise_samplers_write_the_loser_first_and_ours_reads_the_winner(kind):
    """The day that BoTorch turns it round, the first line says so and the others stay true."""
    posterior = certain([0.0, 3.0, 1.0])
    theirs = kind(torch.Size([2]), seed=0)(posterior)
    assert sorted(theirs[0].tolist()) == [[0, 1], [0, 2], [2, 1]]  # loser first, in BoTorch 0.18.1
    for sampler in (kind(torch.Size([2]), seed=0), _Turned(kind(torch.Size([2]), seed=0))):
        pairs, ties = comparisons.sample(sampler, posterior, 0.0)
        assert sorted(pairs[0].tolist()) == [[1, 0], [1, 2], [2, 0]] and ties is None


def _Turned(sampler):
    """A pairwise sampler that writes the winner first."""

    class Turned(type(sampler)):
        def forward(self, posterior):
            return super().forward(posterior).flip(-1)

    sampler.__class__ = Turned
    return sampler


def test_a_pairwise_sampler_chooses_how_many_pairs():
    X = torch.rand(4, 3, dtype=torch.float64)
    model = fitted()
    for count, expected in ((None, 6), (2, 2)):
        sampler = PairwiseSobolQMCNormalSampler(torch.Size([3]), seed=0, max_num_comparisons=count)
        fantasy = model.fantasize(X, sampler)
        assert fantasy.batch_shape == (3,) and fantasy.m == 25 + expected


def test_answers_by_a_pairwise_sampler_come_as_often_as_the_model_expects():
    model = fitted()
    pair = torch.rand(2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    fantasy = model.fantasize(pair, PairwiseIIDNormalSampler(torch.Size([400]), seed=0))
    share = float((fantasy.comparisons[:, -1, 0] == 20).double().mean())
    assert share == pytest.approx(float(model.surrogate.contrast(pair[:1], pair[1:]).preferred), abs=0.1)


def test_fantasies_may_be_ties():
    model = fitted(preset=ks.Preset(threshold=1.0))
    pair = torch.rand(2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    fantasy = model.fantasize(pair, IIDNormalSampler(torch.Size([400]), seed=0))
    tied = fantasy.ties[:, -1]
    mean, variance, _ = model.surrogate.contrast(pair[:1], pair[1:])
    spread = (variance + 2.0).sqrt()
    expected = torch.special.ndtr((1.0 - mean) / spread) - torch.special.ndtr((-1.0 - mean) / spread)
    assert float(tied.double().mean()) == pytest.approx(float(expected), abs=0.1)
    assert not bool(fantasy.ties[:, :-1].any())
    at = torch.rand(3, 3)
    alone = model.condition_on_observations(pair, fantasy.comparisons[5, -1:] - 20, ties=tied[5:6])
    assert torch.allclose(fantasy.posterior(at).mean[5], alone.posterior(at).mean, atol=1e-8)
