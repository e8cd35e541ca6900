"""The Laplace evidence against its dense twin, its gradient against differences, and the optimum against SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from kappasharp.inference import comparison_space, hyperparameters
from kappasharp.inference.comparison_space import EndPoints
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels.priors import PRIORS, Gamma, Priors
from kappasharp.native import launch
from kappasharp.numerics import quasi_newton
from kappasharp.tensors import take
from tests.reference import dense
from tests.reference.data import answered

FAMILIES = ["rbf", "matern52"]
# (n, m, d), noise, threshold, θ: weak and strong signal, short and long length scales, wins alone and with ties.
CASES = {
    "few answers": ((9, 5, 2), 1.0, 0.0, [0.3, 0.8, 2.0]),
    "many answers": ((6, 25, 2), 1.0, 0.0, [0.3, 0.8, 2.0]),
    "strong signal": ((8, 14, 3), 0.1, 0.0, [0.5, 0.2, 1.5, 4.0]),
    "ties": ((8, 20, 2), 0.5, 0.4, [0.4, 0.6, 2.0]),
    "long length scales": ((8, 14, 1), 0.3, 0.0, [3.0, 1.0]),
}


def model_of(family, noise, threshold=0.0, nugget=1e-4, priors="botorch_0_18"):
    return Model(family, nugget, Probit(noise, threshold), PRIORS[priors])


def case(name):
    (n, m, d), noise, threshold, values = CASES[name]
    data = answered(n + m, n, m, d, threshold=threshold)
    return data, noise, threshold, torch.tensor(values).log()


def ours(model, data, theta):
    ties = torch.as_tensor(data.is_tie) if model.likelihood.threshold else None
    gathered = comparison_space.gather(torch.as_tensor(data.X), torch.as_tensor(data.pairs), ties)
    return gathered.evaluate(model, theta, torch.zeros(len(data.pairs)))


def twin(model, data, theta):
    values = np.exp(np.asarray(theta))
    K = dense.prior_covariance(model.family, data.X, values[:-1], values[-1], model.nugget)
    C = dense.incidence(data.pairs, len(data.X))
    is_tie = data.is_tie if model.likelihood.threshold else None
    return dense.evidence(dense.Problem(K, C, model.likelihood.scale, model.likelihood.margin, is_tie))


def by_differences(value, theta, h):
    """Gradient by the four-point central difference, whose error is of the order h⁴."""
    gradient = torch.empty_like(theta)
    for j in range(len(theta)):
        e = torch.zeros_like(theta)
        e[j] = h
        gradient[j] = (8.0 * (value(theta + e) - value(theta - e)) - (value(theta + 2 * e) - value(theta - 2 * e))) / (
            12.0 * h
        )
    return gradient


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", list(CASES))
def test_the_value_is_the_dense_twins(name, family):
    data, noise, threshold, theta = case(name)
    model = model_of(family, noise, threshold)
    found = ours(model, data, theta)
    assert bool(found.converged)
    assert float(found.value) == pytest.approx(twin(model, data, theta), abs=1e-7)


@pytest.mark.parametrize("h", [1e-2, 1e-3])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", list(CASES))
def test_the_gradient_is_the_limit_of_differences(name, family, h):
    data, noise, threshold, theta = case(name)
    model = model_of(family, noise, threshold)
    numeric = by_differences(lambda t: ours(model, data, t).value, theta, h)
    allowed = 1e3 * h**4 + 1e-9 / h
    assert torch.allclose(ours(model, data, theta).gradient, numeric, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("depth", [2.0, 5.0, 8.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_value_and_gradient_hold_for_answers_deep_in_the_tail(family, depth):
    """Two opposite wins of one pair under a margin of `depth` leave both with z − margin near −depth at the MAP."""
    data = answered(1, 5, 6, 2)
    pairs = np.concatenate([data.pairs, data.pairs[:, ::-1]])
    data = data._replace(pairs=pairs, is_tie=np.zeros(12, dtype=bool))
    model = model_of(family, 0.5, depth * 0.5 * math.sqrt(2.0))
    theta = torch.tensor([0.4, 0.7, 2.0]).log()
    found = ours(model, data, theta)
    assert bool(found.converged)
    assert float(found.z.max()) - depth <= 0.3 - depth
    assert float(found.value) == pytest.approx(twin(model, data, theta), rel=1e-9)
    numeric = by_differences(lambda t: ours(model, data, t).value, theta, 1e-2)
    assert torch.allclose(found.gradient, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-4, 0.1, 30.0])
def test_utilities_and_noise_measured_in_other_units_leave_the_evidence(factor):
    data, noise, threshold, theta = case("ties")
    stretched = theta + torch.tensor([0.0, 0.0, math.log(factor)])
    before = ours(model_of("rbf", noise, threshold), data, theta)
    root = math.sqrt(factor)
    after = ours(model_of("rbf", noise * root, threshold * root), data, stretched)
    assert float(after.value) == pytest.approx(float(before.value), rel=1e-10)
    assert torch.allclose(after.gradient, before.gradient, rtol=1e-7, atol=1e-8)


def test_the_order_of_the_answers_and_the_names_of_the_points_leave_the_evidence():
    data, noise, threshold, theta = case("ties")
    model = model_of("rbf", noise, threshold)
    rng = np.random.default_rng(0)
    order, place = rng.permutation(20), rng.permutation(8)
    mixed = data._replace(X=data.X[np.argsort(place)], pairs=place[data.pairs][order], is_tie=data.is_tie[order])
    before, after = ours(model, data, theta), ours(model, mixed, theta)
    assert float(after.value) == pytest.approx(float(before.value), rel=1e-12)
    assert torch.allclose(after.gradient, before.gradient, rtol=1e-8, atol=1e-9)


def test_the_start_of_the_map_search_leaves_the_evidence():
    data, noise, _, theta = case("strong signal")
    model = model_of("rbf", noise)
    gathered = comparison_space.gather(torch.as_tensor(data.X), torch.as_tensor(data.pairs))
    cold = gathered.evaluate(model, theta, torch.zeros(14))
    warm = gathered.evaluate(model, theta, cold.z + 0.5)
    # The certificate allows 1.5e-8 in α, which A, here of size 200, turns into up to 3e-6 in z.
    assert float(warm.value) == pytest.approx(float(cold.value), abs=1e-6)
    assert torch.allclose(warm.gradient, cold.gradient, rtol=1e-5, atol=1e-6)


def test_single_precision_keeps_four_digits():
    data, noise, threshold, theta = case("ties")
    model = model_of("rbf", noise, threshold, nugget=1e-3)
    double = ours(model, data, theta)
    ties = torch.as_tensor(data.is_tie)
    gathered = comparison_space.gather(torch.as_tensor(data.X).float(), torch.as_tensor(data.pairs), ties)
    single = gathered.evaluate(model, theta.float(), torch.zeros(20, dtype=torch.float32))
    assert float(single.value) == pytest.approx(float(double.value), rel=1e-4)
    assert torch.allclose(single.gradient.double(), double.gradient, rtol=1e-2, atol=5e-3)


# Hyperparameters.


def batch_of(runs, n=10, m=16, d=2, seed=100):
    """Data of several runs of equal shape, and the start of their fit."""
    data = [answered(seed + run, n, m, d) for run in range(runs)]
    X, pairs = (torch.as_tensor(np.stack([part[i] for part in data])) for i in (0, 1))
    return data, comparison_space.gather(X, pairs), torch.zeros(runs, m)


def fit(model, gathered, z):
    theta = model.priors.start(gathered.E.shape[-1]).expand(len(z), -1)
    return hyperparameters.maximize(model, gathered, theta, z).hyper


@pytest.fixture
def tight(monkeypatch):
    """Fits that go on until the gradient is 1e-6, far beyond what anybody needs."""
    tolerances = quasi_newton.Tolerances(gradient=1e-6, decrease=0.0, max_rounds=400, longest_step=2.0)
    monkeypatch.setattr(hyperparameters, "tolerances", lambda *_: tolerances)


@pytest.mark.parametrize("name", list(PRIORS))
@pytest.mark.usefixtures("tight")
def test_the_gradient_is_small_at_the_optimum_and_the_bounds_hold(name):
    model = model_of("rbf", 1.0, priors=name)
    _, gathered, z = batch_of(6)
    found = fit(model, gathered, z)
    low, high = model.priors.bounds(found.theta)
    assert bool(found.converged.all())
    assert bool(((found.theta >= low) & (found.theta <= high)).all())
    held = ((found.theta == low) & (found.gradient < 0)) | ((found.theta == high) & (found.gradient > 0))
    assert float((found.gradient * ~held).abs().max()) <= 1e-6


@pytest.mark.usefixtures("tight")
def test_an_output_scale_that_wants_out_of_its_box_ends_on_its_wall():
    """Answers without noise want ever more signal: the box's upper end is where the evidence stops."""
    data = answered(4, 10, 30, 2, noise=0.0)
    gathered = comparison_space.gather(torch.as_tensor(data.X)[None], torch.as_tensor(data.pairs)[None])
    model = model_of("rbf", 1.0, priors="botorch_0_6")
    found = fit(model, gathered, torch.zeros(1, 30))
    assert bool(found.converged.all())
    assert float(found.theta[0, -1]) == pytest.approx(math.log(4.0), abs=1e-12)
    assert float(found.gradient[0, -1]) > 0.0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["botorch_0_6", "botorch_0_18"])
def test_the_optimum_is_scipys_on_the_dense_twin(name, family):
    """L-BFGS-B from the same start on the dense evidence plus log prior: the same height to 1e-4 nats."""
    model = model_of(family, 1.0, priors=name)
    data, gathered, z = batch_of(2, n=8, m=12)
    found = fit(model, gathered, z)
    for run in range(2):

        def negative(theta, run=run):
            prior = float(model.priors.log_density(torch.as_tensor(theta)))
            return -(twin(model, data[run], theta) + prior)

        start = model.priors.start(2)
        low, high = (end.numpy() for end in model.priors.bounds(start))
        best = minimize(negative, start.numpy(), method="L-BFGS-B", bounds=list(zip(low, high, strict=True)))
        assert float(found.value[run]) == pytest.approx(-best.fun, abs=1e-4)


def test_the_value_reported_is_that_of_the_parameters_reported():
    model = model_of("rbf", 1.0)
    data, gathered, z = batch_of(3)
    found = fit(model, gathered, z)
    for run in range(3):
        expected = twin(model, data[run], found.theta[run]) + float(model.priors.log_density(found.theta[run]))
        assert float(found.value[run]) == pytest.approx(expected, abs=1e-6)


def test_a_batch_equals_its_runs_one_by_one():
    """At the tolerance everybody uses: a run's hyperparameters must not depend on whom it shares a batch with."""
    model = model_of("rbf", 1.0)
    _, gathered, z = batch_of(9)
    together = fit(model, gathered, z)
    for run in range(9):
        alone = fit(model, take(gathered, torch.tensor([run])), z[:1])
        assert torch.allclose(together.theta[run], alone.theta[0], rtol=0.0, atol=1e-6), f"run {run}"
        assert float(together.value[run]) == pytest.approx(float(alone.value[0]), abs=1e-6)


def test_dropping_finished_rows_changes_no_result(monkeypatch):
    """Drop every row as soon as it ends, or none before all have ended."""
    model = model_of("rbf", 1.0)
    _, gathered, z = batch_of(9)
    ends = {}
    for share in (0.0, 0.2, 0.999):
        monkeypatch.setattr(quasi_newton, "DROP_SHARE", share)
        ends[share] = fit(model, gathered, z)
    for share in (0.2, 0.999):
        assert torch.allclose(ends[share].theta, ends[0.0].theta, rtol=0.0, atol=1e-6)


@pytest.mark.usefixtures("tight")
def test_a_run_whose_evidence_is_not_a_number_is_reported_and_stops_no_other():
    model = model_of("rbf", 1.0)
    _, gathered, z = batch_of(3)
    healthy = fit(model, take(gathered, torch.tensor([0])), z[:1])
    gathered.E[1] = torch.nan
    gathered.signed[1] = torch.nan
    found = fit(model, gathered, z)
    assert found.converged.tolist() == [True, False, True]
    assert torch.allclose(found.theta[0], healthy.theta[0], rtol=0.0, atol=1e-5)


def test_the_search_never_ends_where_the_map_has_no_certificate(monkeypatch):
    """Every MAP beyond an output scale of 1.5 is declared unproved, though the evidence goes on rising there."""
    monkeypatch.setenv(launch.SWITCH, "0")
    model = model_of("rbf", 1.0)
    data = answered(4, 10, 30, 2, noise=0.0)
    gathered = comparison_space.gather(torch.as_tensor(data.X)[None], torch.as_tensor(data.pairs)[None])
    free = fit(model, gathered, torch.zeros(1, 30))
    assert float(free.theta[0, -1]) > math.log(2.0)
    evaluate = EndPoints.evaluate

    def doubtful(data, model, theta, start):
        found = evaluate(data, model, theta, start)
        return found._replace(converged=found.converged & (theta[:, -1] < math.log(1.5)))

    monkeypatch.setattr(EndPoints, "evaluate", doubtful)
    found = fit(model, gathered, torch.zeros(1, 30))
    assert float(found.theta[0, -1]) < math.log(1.5)
    assert float(found.value) == pytest.approx(
        twin(model, data, found.theta[0]) + float(model.priors.log_density(found.theta[0])), abs=1e-6
    )


@pytest.mark.usefixtures("tight")
def test_a_strong_prior_wins():
    """A Gamma prior of a thousand pseudo-observations at ℓ = 0.7 holds the length scales there."""
    priors = Priors(Gamma(1001.0, 1000.0 / 0.7), (1e-2, 1e2))
    model = Model("rbf", 1e-4, Probit(), priors)
    _, gathered, z = batch_of(2)
    found = fit(model, gathered, z)
    assert torch.allclose(found.theta[:, :-1].exp(), torch.full((2, 2), 0.7), rtol=5e-3, atol=0.0)


def test_taking_rows_may_repeat_them():
    _, gathered, _ = batch_of(3)
    part = take(gathered, torch.tensor([2, 0, 2]))
    model, theta = model_of("rbf", 1.0), torch.zeros(3, 3)
    values = part.evaluate(model, theta, torch.zeros(3, 16)).value
    whole = gathered.evaluate(model, theta, torch.zeros(3, 16)).value
    assert torch.allclose(values, whole[[2, 0, 2]], rtol=0.0, atol=1e-10)
