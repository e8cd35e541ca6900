"""Taste learnt on outcomes: the sum of two kernels, its evidence and its gradient, and how outcomes are scaled."""

import numpy as np
import pytest
import torch

from kappasharp.algorithm import fit
from kappasharp.inference import comparison_space, comparisons, features, point_space, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS, JointPriors
from kappasharp.kernels.stationary import Sum
from kappasharp.randomness import stream
from kappasharp.settings import find_preset
from tests.reference import dense
from tests.reference.lifts import Curved

RUNS, N, D, M = 2, 12, 3, 9
FAMILIES = ("rbf", "matern52")


def case(family, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(RUNS, N, D, generator=generator, dtype=torch.float64)
    pairs = torch.stack(
        [torch.stack([torch.randperm(N, generator=generator)[:2] for _ in range(M)]) for _ in range(RUNS)]
    )
    model = fit.model_of(find_preset("modern"), D, Curved())
    model = model._replace(family=Sum(family, model.family.sizes))
    start = model.priors.start(D + 2)
    theta = start + 0.3 * torch.randn(RUNS, len(start), generator=generator, dtype=torch.float64)
    return X, pairs, model, theta


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sum_is_its_parts_added(family):
    X, _, model, theta = case(family)
    F = features.lifted(Curved(), X)
    K = stationary.covariance(model.family, F, theta, 1e-3)
    for run in range(RUNS):
        t = theta[run].exp().numpy()
        parts = [
            dense.kernel(family, F[run, :, at].numpy(), F[run, :, at].numpy(), t[at], t[D + 2 + i])
            for i, at in enumerate((slice(0, D), slice(D, D + 2)))
        ]
        whole = parts[0] + parts[1] + 1e-3 * (t[D + 2] + t[D + 3]) * np.eye(N)
        assert np.allclose(K[run].numpy(), whole, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_evidence_of_a_sum_has_its_gradient_in_both_spaces(family):
    X, pairs, model, theta = case(family)
    F, z = features.lifted(Curved(), X), X.new_zeros(RUNS, M)
    among = comparison_space.ComparisonSpace(Answers(F, pairs)).gather()
    points = point_space.PointSpace(F, comparisons.incidence(pairs, N), None)
    here, there = (space.evaluate(model, theta, z) for space in (among, points))
    assert torch.allclose(here.value, there.value, rtol=0.0, atol=1e-9)
    assert torch.allclose(here.gradient, there.gradient, rtol=0.0, atol=1e-8)
    for j in range(theta.shape[-1]):
        step = torch.zeros_like(theta)
        step[:, j] = 1e-5
        up, down = (among.evaluate(model, theta + sign * step, z).value for sign in (1.0, -1.0))
        assert torch.allclose(here.gradient[:, j], (up - down) / 2e-5, rtol=1e-5, atol=1e-6)


def test_joint_priors_are_those_of_one_kernel_and_of_a_ratio():
    whole = PRIORS["outputscale_near_30"]
    joint = JointPriors(whole, (3, 2), (1.0, 2.0))
    theta = joint.start(5) + torch.linspace(-0.5, 0.5, 7, dtype=torch.float64)
    assert torch.allclose(joint.start(5)[-2:].logsumexp(-1), whole.start(5)[-1])
    # With next to nothing on one part, the other's own prior is left, but for what the ratio costs.
    alone = torch.cat([theta[:5], torch.tensor([-40.0, 2.0], dtype=torch.float64)])
    lengths = whole.lengthscale.log_density(theta[:3], 3).sum()
    own = whole.log_density(torch.cat([theta[3:5], alone[-1:]]))
    assert torch.allclose(joint.log_density(alone), lengths + own - 0.5 * (41.0 / 2.0) ** 2)
    for j in range(7):
        step = torch.zeros_like(theta)
        step[j] = 1e-6
        slope = (joint.log_density(theta + step) - joint.log_density(theta - step)) / 2e-6
        assert torch.allclose(joint.slope(theta)[j], slope, rtol=1e-5, atol=1e-6)
    low, high = joint.bounds(theta)
    assert bool((low < theta).all() and (theta < high).all())
    assert torch.allclose(joint.in_units_of(2.0).start(5)[-2:] - joint.start(5)[-2:], torch.tensor(4.0).double().log())


def test_predictions_at_designs_are_those_at_their_features():
    """A posterior that lifts and a plain one over the features: the same numbers from every function."""
    X, pairs, model, _ = case("rbf")
    lift = Curved()
    found = fit.fit(model, Answers(X, pairs), lift=lift).posterior
    plain = found._replace(X=found.features, lift=None, lifted=None)
    new = torch.rand(RUNS, 5, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    there = features.lifted(lift, new)
    for function in (posterior.mean, posterior.cross):
        assert torch.allclose(function(found, new), function(plain, there))
    for function in (posterior.marginal, posterior.joint):
        assert all(torch.allclose(*both) for both in zip(function(found, new), function(plain, there), strict=True))
    differences = [posterior.contrast(one, X[:, :2], X[:, 2:4]) for one, X in ((found, new), (plain, there))]
    assert all(torch.allclose(*both) for both in zip(*differences, strict=True))
    assert torch.allclose(posterior.own_mean(found), posterior.mean(found, X))
    joint = posterior.joint(found, new)[1]
    assert torch.allclose(posterior.between(found, new, new), joint, atol=1e-9)


def test_the_evidence_finds_whether_outcomes_say_it():
    """A utility of the outcomes alone puts the scale on them; one that they do not show puts it on the parameters."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(6, 120, D, generator=generator, dtype=torch.float64)
    pairs = torch.arange(120).reshape(60, 2).expand(6, -1, -1)
    lift = Curved()
    utilities = {
        "outcomes": 8.0 * lift(X)[..., 0],
        "parameters": 4.0 * (9.0 * X[..., 2]).sin() + 4.0 * (7.0 * X[..., 1]).cos(),
    }
    model = fit.model_of(find_preset("modern"), D, lift)
    share = {}
    for name, utility in utilities.items():
        first = utility.gather(1, pairs[..., 0]) < utility.gather(1, pairs[..., 1])
        answered = torch.where(first.unsqueeze(-1), pairs.flip(-1), pairs)
        scales = fit.fit(model, Answers(X, answered), lift=lift).hyper.theta[:, -2:].exp()
        share[name] = (scales[:, 1] / scales.sum(-1)).median()
    assert share["outcomes"] > 0.9
    assert share["parameters"] < 0.7


def test_scaling_survives_outliers_and_constants():
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn(400, 3, generator=generator, dtype=torch.float64)
    sample[0, 0], sample[1, 0], sample[:, 2] = 1e12, -1e12, 7.0
    sample[2, 1] = torch.nan
    scaled = features.scaling(sample)
    inside = scaled(sample[3:])
    # The bulk lies inside, an outlier near by, what never varies in the middle; nothing is out of order.
    assert 0.0 < inside[:, :2].quantile(0.06) and inside[:, :2].quantile(0.94) < 1.0
    assert scaled(sample[:2])[:, 0].abs().max() < 30.0
    assert bool((inside[:, 2] == 0.5).all())
    line = torch.linspace(-50.0, 50.0, 1001, dtype=torch.float64).unsqueeze(-1).expand(-1, 3)
    steps = scaled(line)[:, :2].diff(dim=0)
    assert bool((steps > 0).all())
    assert torch.allclose(scaled.raw(scaled(line))[:, :2], line[:, :2], rtol=1e-9, atol=1e-9)


def test_scaling_of_few_values_and_of_none():
    two = features.scaling(torch.tensor([[0.0], [0.0], [0.0], [0.0], [1.0]]).repeat(1, 1).repeat(5, 1))
    assert two(torch.tensor([[0.0]])) < two(torch.tensor([[1.0]]))
    nothing = features.scaling(torch.full((3, 2), torch.nan, dtype=torch.float64))
    assert bool((nothing(torch.ones(4, 2, dtype=torch.float64)) == 0.5).all())


def test_every_outcome_is_scaled_by_the_values_that_it_has():
    """What is missing of one outcome takes nothing away from the others; of one alone nothing is known."""
    sample = torch.rand(40, 3, generator=stream(0, "scaling"), dtype=torch.float64)
    torn = sample.clone()
    torn[::2, 1], torn[5, 0], torn[:, 2] = torch.nan, torch.inf, torch.nan
    found = features.scaling(torn)
    kept = torch.arange(40) != 5
    for column, rows in ((0, kept), (1, torch.arange(40) % 2 == 1)):
        alone = features.scaling(sample[rows, column : column + 1])
        assert torch.equal(found.low[column : column + 1], alone.low)
        assert torch.equal(found.high[column : column + 1], alone.high)
    assert bool((found(torn)[:, 2] == 0.5).all())
