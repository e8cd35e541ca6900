"""BoTorch's acquisition functions and its optimiser, for real, on KappaSharpGP; and its preference tutorials' flows."""

import math

import pytest
import torch
from botorch.acquisition import PosteriorStandardDeviation, qSimpleRegret
from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import LearnedObjective
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    PairwiseBayesianActiveLearningByDisagreement,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.deterministic import FixedSingleSampleModel
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.test_functions.multi_objective import DTLZ2
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood

from kappasharp.integrations.botorch.fit import KappaSharpMarginalLogLikelihood as PairwiseLaplaceMarginalLogLikelihood

# The one line that changes: `from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood`.
from kappasharp.integrations.botorch.model import KappaSharpGP as PairwiseGP
from tests.integrations.botorch.examples import ours, pairwise_gp, preferences, quiet

CUBE = torch.stack([torch.zeros(3), torch.ones(3)]).double()


def sampler(count=256):
    return SobolQMCNormalSampler(torch.Size([count]), seed=0)


@pytest.fixture
def both():
    X, P = preferences()
    return pairwise_gp(X, P, 0.4, 3.0), ours(X, P, 0.4, 3.0)


def test_eubo_is_pairwise_gps_and_our_own(both):
    theirs, model = both
    pairs = torch.rand(6, 2, 3, generator=torch.Generator().manual_seed(0))
    value = AnalyticExpectedUtilityOfBestOption(model)(pairs)
    assert torch.allclose(value, AnalyticExpectedUtilityOfBestOption(theirs)(pairs), atol=1e-4)
    assert torch.allclose(value, model.surrogate.eubo(pairs[:, 0], pairs[:, 1]), atol=1e-6)
    sampled = qExpectedUtilityOfBestOption(model, sampler=sampler(4096))(pairs)
    assert torch.allclose(sampled, value, atol=0.02)
    winner = torch.rand(1, 3)
    with_winner = AnalyticExpectedUtilityOfBestOption(model, previous_winner=winner)(pairs[:, :1])
    assert with_winner.shape == (6,) and bool((with_winner > 0).all())


def test_bald_and_the_variance_are_pairwise_gps(both):
    theirs, model = both
    pairs = torch.rand(6, 2, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for one in (theirs, model):
        torch.manual_seed(0)
        found.append(PairwiseBayesianActiveLearningByDisagreement(one)(pairs))
    assert torch.allclose(*found, atol=1e-3)
    spread = [PosteriorStandardDeviation(one)(pairs[:, :1]) for one in (theirs, model)]
    assert torch.allclose(*spread, atol=1e-4)


ACQUISITIONS = {
    "eubo": (AnalyticExpectedUtilityOfBestOption, 2),
    "eubo beside a winner": (
        lambda m: AnalyticExpectedUtilityOfBestOption(m, previous_winner=torch.tensor([[0.5, 0.5, 0.5]])),
        1,
    ),
    "qeubo": (lambda m: qExpectedUtilityOfBestOption(m, sampler=sampler()), 3),
    "bald": (PairwiseBayesianActiveLearningByDisagreement, 2),
    "deviation": (PosteriorStandardDeviation, 1),
    "simple regret": (lambda m: qSimpleRegret(m, sampler=sampler()), 2),
    "noisy expected improvement": (
        lambda m: qLogNoisyExpectedImprovement(m, m.datapoints, sampler=sampler(), cache_root=False),
        2,
    ),
}


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_optimize_acqf_finds_more_than_random_points(both, name):
    make, q = ACQUISITIONS[name]
    acquisition = make(both[1])
    torch.manual_seed(0)
    with quiet():
        candidates, value = optimize_acqf(acquisition, CUBE, q=q, num_restarts=3, raw_samples=32)
    assert candidates.shape == (q, 3) and 0.0 <= float(candidates.min()) and float(candidates.max()) <= 1.0
    if name != "bald":  # whose value is random
        assert float(value.detach()) >= float(acquisition(torch.rand(64, q, 3)).detach().max()) - 1e-3


def test_the_integrated_variance_falls_by_asking(both):
    """Look-ahead: the fantasies' posterior variance, by the exact update."""
    model = both[1]
    points = torch.rand(16, 3, generator=torch.Generator().manual_seed(0))
    fantasies = model.fantasize(torch.tensor([[0.1, 0.1, 0.1], [0.9, 0.9, 0.9]]), sampler(16))
    after = fantasies.posterior(points).variance.mean()
    assert float(after) < float(model.posterior(points).variance.mean())
    # BoTorch's own look-ahead acquisition: PairwiseGP's fantasies are values, which it then refuses.
    acquisition = qNegIntegratedPosteriorVariance(model, points)
    far, near = acquisition(torch.tensor([[[0.1] * 3, [0.9] * 3], [[0.5] * 3, [0.5001] * 3]])).detach().tolist()
    assert far > near
    with pytest.raises(RuntimeError, match="Conditioning on non-pairwise comparison observations"), quiet():
        qNegIntegratedPosteriorVariance(both[0], points)(points[:2])


# --- the tutorial of preferential Bayesian optimisation with EUBO ---------------------------------------------------


def utility(X):
    """The tutorial's: a weighted sum with growing weights."""
    weights = torch.sqrt(torch.arange(X.size(-1), dtype=torch.float) + 1).to(X)
    return (X * weights).sum(-1)


def compare(Y):
    """Each consecutive pair, the noisy winner first."""
    noisy = (Y + 0.1 * torch.randn_like(Y)).reshape(-1, 2)
    first = torch.arange(0, 2 * len(noisy), 2)
    swap = (noisy[:, 0] < noisy[:, 1]).long()
    return torch.stack([first + swap, first + 1 - swap], -1)


def test_the_tutorial_of_preferential_optimisation():
    torch.manual_seed(0)
    bounds = torch.stack([torch.zeros(4), torch.ones(4)])
    X = draw_sobol_samples(bounds=bounds, n=1, q=6, seed=0).squeeze(0).to(torch.double)
    comparisons = compare(utility(X))

    def init_and_fit_model(X, comparisons):
        model = PairwiseGP(X, comparisons, input_transform=Normalize(d=X.shape[-1]))
        mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll)
        return mll, model

    best = [float(utility(X).max())]
    _, model = init_and_fit_model(X, comparisons)
    for _ in range(6):
        acquisition = AnalyticExpectedUtilityOfBestOption(pref_model=model)
        next_X, _ = optimize_acqf(acq_function=acquisition, bounds=bounds.double(), q=2, num_restarts=3, raw_samples=64)
        comparisons = torch.cat([comparisons, compare(utility(next_X)) + len(X)])
        X = torch.cat([X, next_X])
        _, model = init_and_fit_model(X, comparisons)
        best.append(float(utility(X).max()))
    highest = float(utility(torch.ones(1, 4)))
    assert best[-1] > best[0] and best[-1] > 0.9 * highest
    # The tutorial's measure of the model: how it orders designs.
    test_X = torch.rand(200, 4, dtype=torch.double)
    ranks = [
        v.argsort().argsort().double() for v in (utility(test_X), model.posterior(test_X).mean.detach().squeeze(-1))
    ]
    assert float(torch.corrcoef(torch.stack(ranks))[0, 1]) > 0.6


# --- the tutorial of optimisation with preference exploration (BOPE) ------------------------------------------------


def test_the_tutorial_of_preference_exploration():
    """Outcomes of DTLZ2 are modelled, preferences over outcomes learnt by EUBO-ζ, and the learnt utility optimised."""
    torch.manual_seed(0)
    problem = DTLZ2(dim=5, num_objectives=4).to(dtype=torch.double)
    taste = lambda Y: -(Y - 0.5).square().sum(-1)  # noqa: E731
    X = draw_sobol_samples(bounds=problem.bounds, n=1, q=16, seed=0).squeeze(0)
    Y = problem(X)
    outcome_model = SingleTaskGP(X, Y, outcome_transform=Standardize(m=4))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(outcome_model.likelihood, outcome_model))

    def fit_pref_model(Y, comparisons):
        model = PairwiseGP(Y, comparisons, input_transform=Normalize(d=Y.shape[-1]))
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        return model

    train_Y = outcome_model.posterior(torch.rand(4, 5, dtype=torch.double)).rsample(torch.Size()).detach()
    train_comps = compare(taste(train_Y))
    for _ in range(4):
        with quiet():
            pref_model = fit_pref_model(train_Y, train_comps)
            one_sample = FixedSingleSampleModel(model=outcome_model)
            acqf = AnalyticExpectedUtilityOfBestOption(pref_model=pref_model, outcome_model=one_sample)
            found, _ = optimize_acqf(
                acq_function=acqf, bounds=problem.bounds, q=2, num_restarts=2, raw_samples=16, options={"maxiter": 30}
            )
            new_Y = one_sample(found)
        train_comps = torch.cat([train_comps, compare(taste(new_Y)) + len(train_Y)])
        train_Y = torch.cat([train_Y, new_Y.detach()])
    pref_model = fit_pref_model(train_Y, train_comps)

    # The last stage: expected improvement of the utility that was learnt, over the outcome model.
    objective = LearnedObjective(pref_model=pref_model, sample_shape=torch.Size([16]), seed=0)
    improvement = qLogNoisyExpectedImprovement(
        model=outcome_model, objective=objective, sampler=sampler(16), X_baseline=X, prune_baseline=True
    )
    with quiet():
        candidate, value = optimize_acqf(
            acq_function=improvement,
            q=1,
            bounds=problem.bounds,
            num_restarts=2,
            raw_samples=16,
            options={"maxiter": 20},
        )
    assert candidate.shape == (1, 5) and math.isfinite(float(value.detach()))
    # What was learnt orders outcomes as the person does.
    learnt = pref_model.posterior(Y).mean.detach().squeeze(-1)
    ranks = [v.argsort().argsort().double() for v in (taste(Y), learnt)]
    assert float(torch.corrcoef(torch.stack(ranks))[0, 1]) > 0.3
