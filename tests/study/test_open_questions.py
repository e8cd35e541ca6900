"""Answers that nobody gave: exact where the posterior is Gaussian, close to a fit of all answers where it is not."""

import pytest
import torch

from kappasharp.inference import fit_space, likelihood, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Probit
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS
from kappasharp.model import open_questions

CURVATURES = ["mode", "averaged"]


def model_of(curvature, threshold=0.0):
    return Model("rbf", 0.0, Probit(1.0, threshold), PRIORS["botorch_0_18"], curvature)


def data(n, m, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(1, n, 2, generator=generator, dtype=torch.float64)
    pairs = torch.stack([torch.randperm(n, generator=generator)[:2] for _ in range(m)]).unsqueeze(0)
    return X, pairs, torch.rand(1, 7, 2, generator=generator, dtype=torch.float64)


def fitted_to(model, theta, answers):
    K = stationary.covariance(model.family, answers.X, theta, model.nugget)
    known = fit_space.choose(model, answers).condition(model, K, K.new_zeros(1, answers.pairs.shape[1]))
    return Posterior(model.family, answers.X, theta, known.map.beta, known.root)


def prior(model, theta, X):
    return Posterior(model.family, X, theta, X.new_zeros(X.shape[:2]), X.new_zeros(*X.shape[:2], 0))


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_answers_imagined_of_the_prior_are_the_fit_of_them(curvature, threshold):
    """Before any answer the posterior is Gaussian, so nothing is approximated twice."""
    model, (X, pairs, new) = model_of(curvature, threshold), data(8, 9)
    theta = torch.tensor([[-1.0, -0.5, 1.5]], dtype=torch.float64)
    found = open_questions.answered(model, prior(model, theta, X[:, :3]), X, pairs)
    wanted = fitted_to(model, theta, Answers(X, pairs, None))
    for one, other in zip(posterior.joint(found, new), posterior.joint(wanted, new), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_one_imagined_answer_solves_its_scalar_equation():
    model, (X, pairs, _) = model_of("mode"), data(6, 5)
    before = fitted_to(model, torch.tensor([[-1.0, -0.5, 1.5]], dtype=torch.float64), Answers(X, pairs, None))
    ends = X[:, :1], X[:, 1:2]
    old = posterior.contrast(before, *ends)
    new = posterior.contrast(open_questions.answered(model, before, X, torch.tensor([[[0, 1]]])), *ends)
    sites = likelihood.sites(new.mean / model.likelihood.scale)
    scale = model.likelihood.scale
    assert torch.allclose(new.mean, old.mean + old.variance * sites.slope / scale, atol=1e-7)
    assert torch.allclose(1.0 / new.variance, 1.0 / old.variance + sites.omega / scale**2, rtol=1e-6)


@pytest.mark.parametrize("curvature", CURVATURES)
def test_the_order_of_open_pairs_does_not_matter(curvature):
    model, (X, pairs, new) = model_of(curvature), data(10, 12)
    before = fitted_to(model, torch.tensor([[-1.0, -0.5, 2.0]], dtype=torch.float64), Answers(X, pairs[:, :7], None))
    found = [
        posterior.joint(open_questions.answered(model, before, X, more), new)
        for more in (pairs[:, 7:], pairs[:, 7:].flip(1))
    ]
    assert all(torch.allclose(one, other, atol=1e-9) for one, other in zip(*found, strict=True))


def test_expected_answers_move_the_model_as_a_fit_of_all_of_them_would():
    """The real answers' curvature stays where it was; a fit anew moves it a little."""
    model, (X, pairs, new) = model_of("averaged"), data(24, 40, seed=3)
    theta = torch.tensor([[-1.0, -0.5, 2.0]], dtype=torch.float64)
    best = (X - 0.4).square().sum(-1)[0]
    ordered = torch.where((best[pairs[..., 0]] < best[pairs[..., 1]]).unsqueeze(-1), pairs, pairs.flip(-1))
    before = fitted_to(model, theta, Answers(X, ordered[:, :32], None))
    mean = posterior.mean(before, X)[0]
    more = ordered[:, 32:]
    believed = torch.where((mean[more[..., 0]] >= mean[more[..., 1]]).unsqueeze(-1), more, more.flip(-1))
    quick = posterior.joint(open_questions.answered(model, before, X, believed), new)
    full = posterior.joint(fitted_to(model, theta, Answers(X, torch.cat([ordered[:, :32], believed], 1), None)), new)
    moved = (full[0] - posterior.mean(before, new)).abs().max()
    assert float((quick[0] - full[0]).abs().max()) < 0.25 * float(moved)
    deviations = [cov.diagonal(dim1=-2, dim2=-1).sqrt() for _, cov in (quick, full)]
    assert torch.allclose(*deviations, rtol=0.05)
