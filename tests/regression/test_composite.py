"""Uncertain outcomes as features: draws and limits against plain Monte Carlo from the joint posterior."""

import math

import pytest
import torch
from scipy.stats import norm
from torch.quasirandom import SobolEngine

from kappasharp.regression import composite, gaussian_process
from kappasharp.regression.composite import UncertainLift, feasibility
from kappasharp.regression.gaussian_process import fit, predict

K = 3


def sobol(n, d, seed=0):
    return SobolEngine(d, scramble=True, seed=seed).draw(n, dtype=torch.float64)


def normals(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def fitted():
    """Twelve noisy measurements in three dimensions: much is open between them."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    X = sobol(12, 3)
    Y = torch.stack([torch.sin(5 * X[:, 0]) + X[:, 1], 30 * X[:, 1] * X[:, 2] - 4, (3 * X).cos().sum(-1)], -1)
    found = fit(X, Y + 0.05 * normals(12, 3))
    torch.set_default_dtype(before)
    return found


def joint(found, A, B, count):
    """Outcomes at A and B (count, q, k) from their joint posterior, drawn one by one: the plain way."""
    mean, deviation = zip(predict(found, A), predict(found, B), strict=True)
    both = torch.stack([A, B], 1).reshape(-1, A.shape[-1])
    reduced = gaussian_process.moments(found, both)[2].reshape(K, len(A), 2, -1)
    scaled = both / found.theta[:, :3].exp().unsqueeze(1)
    r = (scaled[:, 0::2] - scaled[:, 1::2]).norm(dim=-1) * math.sqrt(5)
    prior = found.theta[:, -2:-1].exp() * (1 + r + r**2 / 3) * (-r).exp()
    covariance = prior - (reduced[:, :, 0] * reduced[:, :, 1]).sum(-1)
    own = found.theta[:, -2, None, None].exp() - reduced.square().sum(-1)
    correlation = (covariance / own.prod(-1).sqrt()).T
    e = normals(2, count, len(A), K, seed=1)
    second = correlation * e[0] + (1 - correlation.square()).clamp(min=0).sqrt() * e[1]
    return mean[0] + deviation[0] * e[0], mean[1] + deviation[1] * second, correlation


def taste(outcomes):
    """A peak somewhere among the outcomes."""
    return (-((outcomes - torch.tensor([0.8, 3.0, 0.5])) / torch.tensor([1.0, 8.0, 1.0])).square().sum(-1)).exp()


def test_a_call_is_the_mean(fitted):
    X = sobol(24, 3, seed=2).reshape(2, 12, 3)
    lift = UncertainLift(fitted)
    assert lift.size == K and lift.budget == 0
    torch.testing.assert_close(lift(X), predict(fitted, X)[0])
    scaled = UncertainLift(fitted, scaled=lambda outcomes: outcomes.tanh())
    torch.testing.assert_close(scaled(X), predict(fitted, X)[0].tanh())
    torch.testing.assert_close(scaled.sampled(X), lift.sampled(X).tanh())


@pytest.mark.parametrize("count", [16, 22, 64])
def test_draws_have_the_regression_s_mean_and_deviation_exactly(fitted, count):
    X = sobol(30, 3, seed=2)
    found = UncertainLift(fitted, count=count).sampled(X)
    mean, deviation = predict(fitted, X)
    assert found.shape == (count, 30, K)
    torch.testing.assert_close(found.mean(0), mean)
    torch.testing.assert_close((found - mean).square().mean(0).sqrt(), deviation)


def test_outcomes_are_independent_where_there_are_draws_enough(fitted):
    """64 draws are 32 pairs, four outcomes' worth of orthogonal weights."""
    X = sobol(30, 3, seed=2)
    found = UncertainLift(fitted, count=64).sampled(X)
    residual = found - found.mean(0)
    between = torch.einsum("sqi,sqj->qij", residual, residual) / 64
    wanted = torch.diag_embed(predict(fitted, X)[1].square())
    torch.testing.assert_close(between, wanted, rtol=1e-6, atol=1e-9)


def averaged(lift, function, X):
    """The mean over the draws of a function of the features."""
    return torch.stack([function(features) for features in lift.sampled(X)]).mean(0)


def test_draws_are_functions(fitted):
    """Same design, same outcomes, whatever is asked beside it and in whatever shape."""
    X = sobol(10, 3, seed=4)
    whole = UncertainLift(fitted).sampled(X)
    assert whole.shape == (16, 10, K)
    torch.testing.assert_close(UncertainLift(fitted).sampled(X.reshape(2, 5, 3)).reshape(16, 10, K), whole)
    torch.testing.assert_close(UncertainLift(fitted).sampled(X[3]), whole[:, 3])
    torch.testing.assert_close(UncertainLift(fitted).sampled(X.flip(0)).flip(1), whole)


def test_a_design_does_not_beat_its_twin(fitted):
    X = sobol(20, 3, seed=4)
    near = (X + 1e-7).clamp(max=1.0)
    lift = UncertainLift(fitted)
    best = averaged(lift, lambda o: torch.maximum(taste(o[0]), taste(o[1])), torch.stack([X, near]))
    torch.testing.assert_close(best, averaged(lift, taste, X), rtol=0, atol=1e-5)


def test_draws_are_smooth(fitted):
    """Halving the step halves the change: no jump anywhere on a line through a measured design."""
    way = torch.linspace(-0.3, 0.3, 4001).unsqueeze(-1)
    measured = fitted.X[0, 5]
    line = (measured + way * torch.tensor([0.6, -0.5, 0.4])).clamp(0.0, 1.0)
    found = UncertainLift(fitted).sampled(line) / fitted.spread
    steps = (found.diff(dim=1).abs().amax((0, 2)), found[:, ::2].diff(dim=1).abs().amax((0, 2)))
    assert steps[0].amax() < 0.02 and steps[0].amax().item() == pytest.approx(0.5 * steps[1].amax().item(), rel=0.1)


def test_two_designs_are_correlated_as_the_posterior_has_it(fitted):
    """With many fields, so that the frequencies' chance goes; near pairs are alike, far ones are not."""
    A = sobol(40, 3, seed=5)
    B = torch.cat([(A[:20] + 0.03).clamp(max=1.0), sobol(20, 3, seed=6)])
    correlation = joint(fitted, A, B, 1)[2]
    draws = UncertainLift(fitted, count=64).sampled(torch.stack([A, B]))
    residual = (draws - predict(fitted, torch.stack([A, B]))[0]) / predict(fitted, torch.stack([A, B]))[1]
    found = (residual[:, 0] * residual[:, 1]).mean(0)
    assert (found - correlation).square().mean().sqrt().item() < 0.45
    assert (found[:20] - correlation[:20]).abs().mean().item() < 0.15 and correlation[:20].mean().item() > 0.7
    assert abs((found - correlation).mean().item()) < 0.08


def test_expected_best_of_two_against_plain_monte_carlo(fitted):
    """The composite's own use: E max over two designs of a utility of the outcomes."""
    A, B = sobol(60, 3, seed=5), sobol(60, 3, seed=6)
    o_a, o_b, _ = joint(fitted, A, B, 8000)
    wanted = torch.maximum(taste(o_a), taste(o_b)).mean(0)

    def best(o):
        return torch.maximum(taste(o[0]), taste(o[1]))

    def miss(found):
        return (found - wanted).square().mean().sqrt().item()

    few = miss(averaged(UncertainLift(fitted), best, torch.stack([A, B])))
    at_mean = miss(best(UncertainLift(fitted)(torch.stack([A, B]))))
    plain = torch.maximum(taste(o_a), taste(o_b)).reshape(500, 16, 60).mean(1)
    plain_error = (plain - wanted).square().mean().sqrt().item()
    assert few < 0.75 * plain_error and few < 0.5 * at_mean
    assert miss(averaged(UncertainLift(fitted, count=256), best, torch.stack([A, B]))) < 0.6 * few


def test_limits_against_plain_monte_carlo(fitted):
    X = sobol(50, 3, seed=7)
    limits = torch.tensor([[-math.inf, 0.9], [-3.0, 6.0], [0.2, math.inf]])
    mean, deviation = predict(fitted, X)
    o = mean + deviation * normals(40000, 50, K)
    wanted = ((o >= limits[:, 0]) & (o <= limits[:, 1])).all(-1).double().mean(0)
    found = feasibility(fitted, limits, X.reshape(5, 10, 3))
    assert found.shape == (5, 10) and wanted.min() < 0.05 and wanted.max() > 0.5
    torch.testing.assert_close(found.reshape(-1), wanted, rtol=0, atol=0.012)


def test_limits_far_in_the_tails(fitted):
    X = sobol(4, 3, seed=7)
    mean, deviation = (part[0, 0].item() for part in predict(fitted, X))
    for low, high in ((9.0, 10.0), (-10.0, -9.0), (9.0, math.inf), (-math.inf, -9.0), (-1.0, 2.0)):
        limits = torch.tensor([[mean + low * deviation, mean + high * deviation]] + [[-math.inf, math.inf]] * 2)
        # The upper tail's mirror image, where scipy's own difference keeps its digits.
        a, b = (-high, -low) if low > 0 else (low, high)
        assert feasibility(fitted, limits, X)[0].item() == pytest.approx(norm.cdf(b) - norm.cdf(a), rel=1e-9, abs=0.0)
    nothing = torch.tensor([[-math.inf, math.inf]] * 3)
    assert feasibility(fitted, nothing, X).tolist() == [1.0] * 4


def test_an_outcome_that_never_varies():
    X = sobol(8, 2)
    found = fit(X, torch.stack([torch.full((8,), 2.0), X[:, 0]], -1))
    draws = UncertainLift(found).sampled(X)
    assert bool((draws[..., 0] == 2.0).all()) and bool(draws.isfinite().all())
    for limit, wanted in (((2.0, 3.0), 1.0), ((-math.inf, 2.0), 1.0), ((2.1, 3.0), 0.0)):
        limits = torch.tensor([limit, (-math.inf, math.inf)])
        assert feasibility(found, limits, X).tolist() == [wanted] * 8


def test_the_spectrum_is_the_kernel_s(monkeypatch):
    """With many frequencies phi(x)·phi(x′) is the prior correlation."""
    X = sobol(9, 2)
    found = fit(X, torch.sin(5 * X))
    monkeypatch.setattr(composite, "FREQUENCIES", 20000)
    omega = composite.field(found, 2).omega
    features = composite.phi(omega, X)
    r = torch.stack([torch.cdist(X / scale, X / scale) for scale in found.theta[:, :2].exp()]) * math.sqrt(5)
    wanted = (1 + r + r**2 / 3) * (-r).exp()
    torch.testing.assert_close(features @ features.mT, wanted, rtol=0, atol=0.03)
