"""Each fault of PairwiseGP that was reproduced: the test shows that it has it, and that KappaSharpGP has not."""

import math

import numpy as np
import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption, qExpectedUtilityOfBestOption
from botorch.exceptions.warnings import NumericsWarning
from botorch.models import pairwise_gp as theirs
from botorch.models.likelihoods.pairwise import PairwiseProbitLikelihood
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.sampling.pairwise_samplers import PairwiseSobolQMCNormalSampler
from scipy import optimize

from kappasharp.inference import laplace, likelihood
from kappasharp.integrations.botorch.model import KappaSharpGP
from tests.integrations.botorch.examples import ours, pairwise_gp, preferences, quiet, recorded

ROOT_2 = math.sqrt(2.0)
# One of BoTorch's own runs on Ackley-8D after fifty questions, at hyperparameters within its priors.
HARD = ("ackley-8d/5", 106)
AT = {"lengthscale": 1.0, "outputscale": 100.0}


def test_a_comparison_of_two_merged_points_does_not_become_an_observation():
    """Points 0 and 1 are 5e-5 apart: PairwiseGP merges them, and "0 beats 1" becomes "f₀ is low"."""
    X, P = torch.tensor([[0.2], [0.20005], [0.8], [0.5]]), torch.tensor([[0, 1], [2, 3]])
    model = pairwise_gp(X, P)
    assert model.D.tolist()[0] == [-1.0, 0.0, 0.0]  # not a difference
    without = ours(X[1:], torch.tensor([[1, 2]])).utility[0]
    with_it = ours(X, P).utility
    assert float((with_it[:2] - without).abs().max()) < 1e-3
    assert float((model.unconsolidated_utility.detach()[0] - without).abs()) > 0.3


def test_clusters_of_near_duplicates_do_not_ruin_the_conditioning():
    """Three points within 1e-4 are too many for PairwiseGP's merging, and it inverts the K that they leave."""
    generator = torch.Generator().manual_seed(0)
    X = torch.cat([0.5 + 4e-5 * torch.rand(3, 2, generator=generator), torch.rand(5, 2, generator=generator)])
    P = torch.tensor([[0, 3], [1, 4], [2, 5], [6, 7], [0, 6]])
    model = pairwise_gp(X, P)
    assert model.n == 8 and float(torch.linalg.cond(model.covar.detach())) > 1e11
    found = ours(X, P)
    B = found._held().known.L @ found._held().known.L.mT
    assert bool(found.converged) and float(torch.linalg.cond(B).max()) < 10.0


def test_value_slope_and_curvature_belong_to_one_function():
    """Beyond |z| = 3 PairwiseGP's log-likelihood is flat, the force in its MAP is not, its curvature is frozen."""
    D, probit = torch.tensor([[1.0, -1.0]]), PairwiseProbitLikelihood()
    for z in (-7.0, -4.0, 4.2):
        f = torch.tensor([z * ROOT_2, 0.0], requires_grad=True)
        (slope,) = torch.autograd.grad(probit.log_p(f, D).sum(), f)
        assert float(slope[0]) == 0.0 and float(probit.negative_log_gradient_sum(f.detach(), D)[0]) < -1e-3
        exact = torch.tensor([z], requires_grad=True)
        (first,) = torch.autograd.grad(likelihood.log_probability(exact).sum(), exact, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), exact)
        found = likelihood.sites(exact.detach())
        assert torch.allclose(found.slope, first, rtol=1e-10) and torch.allclose(found.omega, -second, rtol=1e-6)
    frozen = 2.0 * float(probit.negative_log_hessian_sum(torch.tensor([4.2 * ROOT_2, 0.0]), D)[0, 0])
    assert frozen > 50.0 * float(likelihood.sites(torch.tensor([4.2])).omega)


def test_a_surprising_answer_is_not_capped_in_the_model():
    """A clear order, then one answer against it: the two evidences part where z leaves the clamp."""
    X = torch.linspace(0.0, 1.0, 8).unsqueeze(-1)
    P = torch.tensor([[i + 1, i] for i in range(7)] * 30 + [[0, 7]])
    z = ours(X, P, 0.3, 100.0)._held().known.map.dual.z
    assert float(z.min()) < -3.5
    model, found = pairwise_gp(X, P, 0.3, 100.0), ours(X, P, 0.3, 100.0)
    moved = float((model.utility.detach() - found.utility).abs().max())
    assert moved > 1e-2  # PairwiseGP's is the MAP of no likelihood; ours carries a certificate
    assert bool(found.converged)


@pytest.fixture
def watched(monkeypatch):
    """What SciPy says about PairwiseGP's solves, which it does not read."""
    seen, solve = [], optimize.fsolve

    class Watched:
        @staticmethod
        def fsolve(**arguments):
            x, info, flag, _ = solve(full_output=True, **arguments)
            seen.append((flag, float(np.abs(info["fvec"]).max())))
            return x

    monkeypatch.setattr(theirs, "optimize", Watched)
    return seen


def test_a_map_that_did_not_converge_is_not_silent(watched, recwarn):
    X, P = recorded(*HARD)
    pairwise_gp(X, P, **AT)
    # Failed, and not a word; `fsolve`'s flag says so on ARM and calls it solved on x86.
    _, residual = watched[-1]
    assert residual > 1e-2 and not recwarn.list
    found = ours(X, P, **AT)
    assert bool(found.converged) and float(found.surrogate.gradient_norm) < 1e-7


def test_without_a_certificate_ours_says_so(monkeypatch):
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 1)
    monkeypatch.setattr(laplace, "DAMPED_ITERATIONS", 1)
    X, P = recorded(*HARD)
    model = ours(X, P, **AT)
    with pytest.warns(NumericsWarning, match="carries no certificate"):
        assert not bool(model.converged)


def test_single_precision_does_not_spoil_the_map(watched):
    """PairwiseGP's solve fails in float32; ours rounds inputs and results alone."""
    X, P = recorded("ackley-8d/0", 106)
    exact = ours(X, P, **AT).utility
    rounded = ours(X.float().double(), P, **AT).utility
    single = pairwise_gp(X.float(), P, **AT)
    assert watched[-1][0] != 1
    with quiet():
        found = ours(X.float(), P, **AT)
    difference = lambda f: f[P[:, 0]].double() - f[P[:, 1]].double()  # noqa: E731 what comparisons can know
    assert float((difference(single.unconsolidated_utility.detach()) - difference(exact)).abs().max()) > 0.3
    assert found.utility.dtype == torch.float32 and bool(found.converged)
    assert float((difference(found.utility) - difference(rounded)).abs().max()) < 1e-4


@pytest.mark.parametrize("outputscale", [1.0, 100.0])
def test_eubo_of_coinciding_points_is_their_mean(outputscale):
    """PairwiseGP's jitter gives two coinciding points a difference; EUBO is then more than the mean."""
    X, P = preferences()
    x = torch.tensor([[0.3, 0.6, 0.1]])
    excess = {}
    for name, model in (("theirs", pairwise_gp(X, P, 0.5, outputscale)), ("ours", ours(X, P, 0.5, outputscale))):
        with quiet():
            value = AnalyticExpectedUtilityOfBestOption(model)(x.repeat(1, 2, 1))
        excess[name] = float((value - model.posterior(x).mean).detach())
    # EUBO's own floor of 1e-8 for the variance of the difference leaves φ(0)·1e-4.
    assert 0.0 <= excess["ours"] < 1e-4 * max(1.0, math.sqrt(outputscale) / ROOT_2)
    assert excess["theirs"] > 5e-4


def test_the_gradient_of_eubo_is_finite_where_points_coincide():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    pair = torch.tensor([[[0.3, 0.6, 0.1]] * 2]).requires_grad_(True)
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    for acquisition in (
        AnalyticExpectedUtilityOfBestOption(model),
        qExpectedUtilityOfBestOption(model, sampler=sampler),
    ):
        (gradient,) = torch.autograd.grad(acquisition(pair).sum(), pair)
        assert bool(gradient.isfinite().all())


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")
def test_fantasies_of_a_pairwise_sampler_are_not_turned_round():
    """BoTorch's pairwise samplers write the loser first; PairwiseGP takes it for the winner."""
    X = torch.linspace(0.0, 1.0, 8).unsqueeze(-1)
    P = torch.tensor([[i + 1, i] for i in range(7)] * 30)
    ends = torch.tensor([[0.0], [1.0]])  # the second is better without a doubt
    shares = []
    for model in (pairwise_gp(X, P, 0.5, 100.0), ours(X, P, 0.5, 100.0)):
        with quiet():
            fantasy = model.fantasize(ends, PairwiseSobolQMCNormalSampler(torch.Size([16]), seed=0))
        first = fantasy.datapoints[0][fantasy.comparisons[:, -1, 0]] if fantasy.batch_shape else fantasy.datapoints
        shares.append(float(first.mean()))
    assert shares[0] < 0.1 and shares[1] > 0.9
