"""The Laplace fit on n × n matrices against the same on m × m ones, number by number."""

import pytest
import torch

from kappasharp.inference import comparison_space, comparisons, fit_space, laplace, point_space
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Probit
from kappasharp.inference.point_space import PointSpace
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS
from kappasharp.tensors import take
from tests.reference.data import answered

# (n, m, d), noise, threshold, nugget, θ.
CASES = {
    "many answers": ((6, 40, 2), 1.0, 0.0, 1e-4, [0.3, 0.8, 2.0]),
    "strong signal": ((9, 60, 3), 0.1, 0.0, 1e-6, [0.5, 0.2, 1.5, 4.0]),
    "ties": ((8, 50, 2), 0.5, 0.4, 1e-6, [0.4, 0.6, 2.0]),
    "long length scales": ((12, 80, 1), 0.3, 0.0, 1e-6, [3.0, 1.0]),
    "short length scales": ((30, 200, 2), 1.0, 0.0, 1e-8, [0.02, 0.05, 50.0]),
}


def case(name, family):
    (n, m, d), noise, threshold, nugget, values = CASES[name]
    data = answered(n + m, n, m, d, threshold=threshold)
    model = Model(family, nugget, Probit(noise, threshold), PRIORS["botorch_0_18"], "averaged")
    X, pairs = torch.as_tensor(data.X)[None], torch.as_tensor(data.pairs)[None]
    ties = torch.as_tensor(data.is_tie)[None] if threshold else None
    return model, X, pairs, ties, torch.tensor([values]).log()


@pytest.mark.parametrize("family", ["rbf", "matern52"])
@pytest.mark.parametrize("name", list(CASES))
def test_value_gradient_and_map_are_those_of_comparison_space(name, family):
    model, X, pairs, ties, theta = case(name, family)
    start = torch.zeros(pairs.shape[:-1])
    wide = comparison_space.gather(X, pairs, ties).evaluate(model, theta, start)
    small = PointSpace(X, comparisons.incidence(pairs, X.shape[-2]), ties).evaluate(model, theta, start)
    assert bool(wide.converged) and bool(small.converged)
    assert torch.allclose(small.z, wide.z, rtol=1e-6, atol=1e-7)
    assert float(small.value) == pytest.approx(float(wide.value), abs=1e-7)
    assert torch.allclose(small.gradient, wide.gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", list(CASES))
def test_the_posterior_is_that_of_comparison_space(name):
    model, X, pairs, ties, theta = case(name, "rbf")
    C = comparisons.incidence(pairs, X.shape[-2])
    K = stationary.covariance("rbf", X, theta, model.nugget)
    start = torch.zeros(pairs.shape[:-1])
    wide = laplace.find_map(K, C, model.likelihood, start=start, ties=ties)
    small = point_space.condition(model, K, C, start, ties)
    assert torch.allclose(small.map.f, wide.f, rtol=1e-6, atol=1e-7)
    assert torch.allclose(small.map.beta, wide.beta, rtol=1e-6, atol=1e-6)
    A = comparisons.congruence(C, K) / model.likelihood.scale**2
    omega = comparison_space.averaged_omega(A, wide.dual.z, model.likelihood.margin, ties)
    twin = point_space.averaged_omega(torch.linalg.cholesky(K), C, model.likelihood, wide.dual.z, ties)
    assert torch.allclose(twin, omega, rtol=1e-6, atol=1e-12)
    weights = omega / model.likelihood.scale**2
    root = comparison_space.information_root(K, C, weights)
    assert small.root.shape[-1] == X.shape[-2] < root.shape[-1]
    assert torch.allclose(small.root @ small.root.mT, root @ root.mT, rtol=1e-6, atol=1e-7 * float(weights.max()))


def test_runs_of_a_batch_are_computed_alike_and_can_be_taken():
    both = [case("many answers", "rbf"), case("many answers", "rbf")]
    model, _, _, _, theta = both[0]
    X, pairs = (torch.cat([one[part] for one in both]) for part in (1, 2))
    X[1] = X[1].flip(-1)
    data = PointSpace(X, comparisons.incidence(pairs, X.shape[-2]), None)
    found = data.evaluate(model, theta.expand(2, -1), torch.zeros(2, pairs.shape[1]))
    for run in (0, 1):
        alone = take(data, torch.tensor([run])).evaluate(model, theta, torch.zeros(1, pairs.shape[1]))
        assert torch.allclose(alone.value, found.value[run])
        assert torch.allclose(alone.gradient[0], found.gradient[run], rtol=1e-8, atol=1e-10)


def test_every_run_has_its_own_count_of_steps():
    parts = [case(name, "rbf") for name in ("many answers", "many answers")]
    model, X, pairs, _, theta = parts[0]
    C = comparisons.incidence(pairs.expand(2, -1, -1), X.shape[-2])
    easy, hard = (stationary.covariance("rbf", X, theta + change, model.nugget) for change in (-4.0, 0.0))
    easy = easy * 1e-3
    start = torch.zeros(2, pairs.shape[1])
    both = point_space.solve(torch.linalg.cholesky(torch.cat([easy, hard])), C, model.likelihood, start)
    for run, K in enumerate((easy, hard)):
        own = comparisons.incidence(pairs, X.shape[-2])
        alone = point_space.solve(torch.linalg.cholesky(K), own, model.likelihood, start[:1])
        assert both.iterations[run] == alone.iterations[0]
        assert torch.allclose(both.z[run], alone.z[0], rtol=1e-12, atol=1e-12)
    assert both.iterations[0] < both.iterations[1]


def test_a_map_that_plain_steps_do_not_reach_is_damped(monkeypatch):
    model, X, pairs, _, theta = case("strong signal", "rbf")
    data = PointSpace(X, comparisons.incidence(pairs, X.shape[-2]), None)
    plain = data.evaluate(model, theta, torch.zeros(pairs.shape[:-1]))
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 1)
    damped = data.evaluate(model, theta, torch.zeros(pairs.shape[:-1]))
    assert bool(damped.converged)
    assert torch.allclose(damped.z, plain.z, atol=1e-6)


@pytest.mark.parametrize(
    ("n", "m", "nugget", "dtype", "wanted"),
    [
        (100, 400, 1e-6, torch.float64, True),
        (300, 400, 1e-6, torch.float64, False),
        (10, 50, 1e-6, torch.float64, False),
        (100, 400, 0.0, torch.float64, False),
        (100, 400, 1e-6, torch.float32, False),
    ],
)
def test_it_is_used_where_it_is_cheaper_and_safe(n, m, nugget, dtype, wanted):
    model = Model("rbf", nugget, Probit(), PRIORS["botorch_0_18"])
    answers = Answers(torch.zeros(1, n, 2, dtype=dtype), torch.zeros(1, m, 2, dtype=torch.long))
    assert isinstance(fit_space.choose(model, answers), PointSpace) is wanted
