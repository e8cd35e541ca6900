"""Batched quasi-Newton in a box: known minima, SciPy's answers, rows that do not touch each other, honest endings."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

from kappasharp.numerics import quasi_newton
from kappasharp.numerics.quasi_newton import Tolerances

TIGHT = Tolerances(gradient=1e-9, decrease=0.0, max_rounds=500, longest_step=1.0)


class Each:
    """One function per row, each from a vector to its value and gradient."""

    def __init__(self, functions):
        self.functions = functions

    def __call__(self, x):
        values, gradients = zip(*(function(row) for function, row in zip(self.functions, x, strict=True)), strict=True)
        return torch.stack(values), torch.stack(gradients)

    def take(self, rows):
        return Each([self.functions[row] for row in rows.tolist()])


def rosenbrock(x):
    a, b = x[:-1], x[1:]
    value = (100.0 * (b - a**2) ** 2 + (1.0 - a) ** 2).sum()
    gradient = torch.zeros_like(x)
    gradient[:-1] += -400.0 * a * (b - a**2) - 2.0 * (1.0 - a)
    gradient[1:] += 200.0 * (b - a**2)
    return value, gradient


def quadratic(seed, p=5, spread=100.0):
    """½ (x − c)ᵀ Q (x − c) with eigenvalues from 1 to `spread`."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((p, p)))[0]
    Q = torch.as_tensor(basis * np.geomspace(1.0, spread, p) @ basis.T)
    centre = torch.as_tensor(rng.uniform(-2.0, 2.0, p))

    def function(x):
        gradient = Q @ (x - centre)
        return 0.5 * (x - centre) @ gradient, gradient

    return function, Q, centre


def box(x, low=-10.0, high=10.0):
    return torch.full_like(x, low), torch.full_like(x, high)


@pytest.mark.parametrize("p", [2, 5])
def test_rosenbrocks_valley_ends_at_one(p):
    x = torch.tensor([[-1.2, 1.0, -0.5, 0.8, 0.3][:p], [0.0] * p, [1.6] * p])
    found = quasi_newton.minimize(Each([rosenbrock] * 3), x, *box(x), TIGHT)
    assert bool(found.converged.all())
    assert torch.allclose(found.x, torch.ones(3, p), rtol=0.0, atol=1e-7)
    assert float(found.value.max()) <= 1e-14


@pytest.mark.parametrize("seed", range(6))
def test_an_active_bound_is_scipys(seed):
    """Minima of a quadratic in [−0.5, 0.5]⁵: several coordinates end on their bound, as L-BFGS-B says."""
    function = quadratic(seed)[0]
    x = torch.zeros(1, 5)
    low, high = box(x, -0.5, 0.5)
    # Values of about four resolve no smaller decrease, and a gradient of 1e-8 promises less.
    found = quasi_newton.minimize(Each([function]), x, low, high, TIGHT._replace(decrease=1e-15))

    def numpy_version(v):
        value, gradient = function(torch.as_tensor(v))
        return float(value), gradient.numpy()

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 1000}
    best = scipy_minimize(
        numpy_version, np.zeros(5), jac=True, method="L-BFGS-B", bounds=[(-0.5, 0.5)] * 5, options=options
    )
    on_bound = np.abs(best.x) == 0.5
    assert on_bound.any()
    assert bool(found.converged.all())
    assert np.allclose(found.x[0].numpy(), best.x, rtol=0.0, atol=1e-7)
    assert float(found.value) == pytest.approx(best.fun, abs=1e-12)
    assert np.all(np.abs(found.x[0].numpy()[on_bound]) == 0.5)


def test_every_point_visited_lies_in_the_box():
    function, _, _ = quadratic(3)
    visited = []

    def watched(x):
        visited.append(x.clone())
        return function(x)

    x = torch.full((1, 5), 7.0)
    quasi_newton.minimize(Each([watched]), x, *box(x, -0.5, 0.5), TIGHT)
    assert float(torch.stack(visited).abs().max()) <= 0.5


def test_a_minimum_inside_is_the_centre():
    rows = [quadratic(seed, spread=spread) for seed, spread in enumerate((1.0, 10.0, 1e4))]
    x = torch.zeros(3, 5)
    found = quasi_newton.minimize(Each([row[0] for row in rows]), x, *box(x), TIGHT)
    assert bool(found.converged.all())
    assert torch.allclose(found.x, torch.stack([row[2] for row in rows]), rtol=0.0, atol=1e-7)


def test_the_value_and_gradient_reported_are_those_of_the_point_reported():
    functions = [rosenbrock, quadratic(1, p=3)[0], quadratic(2, p=3)[0]]
    x = torch.zeros(3, 3)
    found = quasi_newton.minimize(Each(functions), x, *box(x), Tolerances(1e-3, 1e-6, 200, 0.5))
    for row, function in enumerate(functions):
        value, gradient = function(found.x[row])
        assert float(found.value[row]) == float(value)
        assert torch.equal(found.gradient[row], gradient)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.999])
@pytest.mark.parametrize("tolerances", [TIGHT, Tolerances(1e-3, 1e-5, 200, 0.5)])
def test_rows_are_independent_of_each_other(monkeypatch, tolerances, share):
    """One easy row beside five hard ones, too few to be dropped at once: each ends where it ends alone."""
    monkeypatch.setattr(quasi_newton, "DROP_SHARE", share)
    functions = [quadratic(0, 2, 2.0)[0], *[rosenbrock] * 5]
    starts = torch.tensor([[0.0, 0.0], *[[-1.2 + 0.1 * k, 1.0] for k in range(5)]])
    together = quasi_newton.minimize(Each(functions), starts, *box(starts), tolerances)
    for row, function in enumerate(functions):
        x = starts[row : row + 1]
        alone = quasi_newton.minimize(Each([function]), x, *box(x), tolerances)
        assert torch.allclose(together.x[row], alone.x[0], rtol=0.0, atol=1e-12), f"row {row}"
        assert int(together.rounds[row]) == int(alone.rounds[0]), f"row {row}"


def test_a_group_ends_together_and_each_of_its_rows_at_its_minimum():
    """Two groups of three: rows are dropped by whole groups, so `take` sees neighbours only."""
    rows = [quadratic(seed, spread=spread) for seed, spread in enumerate((1.0, 1.5, 2.0, 1e3, 1e4, 3e3))]
    seen = []

    class Watched(Each):
        def take(self, rows):
            seen.append(rows.tolist())
            return Each([self.functions[row] for row in rows.tolist()])

    x = torch.zeros(6, 5)
    found = quasi_newton.minimize(Watched([row[0] for row in rows]), x, *box(x), TIGHT._replace(group=3))
    assert seen == [[3, 4, 5]]
    assert bool(found.converged.all())
    assert torch.allclose(found.x, torch.stack([row[2] for row in rows]), rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("bad", [torch.inf, torch.nan, -torch.inf])
@pytest.mark.parametrize("slope", [0.0, 1.0, torch.nan])
def test_an_objective_that_is_not_finite_is_not_called_converged(bad, slope):
    good, _, centre = quadratic(0)

    def broken(x):
        return torch.tensor(bad), torch.full_like(x, slope)

    x = torch.zeros(2, 5)
    found = quasi_newton.minimize(Each([broken, good]), x, *box(x), TIGHT)
    assert found.converged.tolist() == [False, True]
    assert torch.allclose(found.x[1], centre, rtol=0.0, atol=1e-7)


def test_a_wall_of_infinity_is_backed_away_from():
    """Beyond x = 1 the objective does not exist; its minimum in the rest of the box lies at 0.9."""

    def walled(x):
        value = ((x - 0.9) ** 2).sum() if bool((x < 1.0).all()) else torch.tensor(torch.inf)
        return value, 2.0 * (x - 0.9)

    x = torch.full((1, 3), -5.0)
    found = quasi_newton.minimize(Each([walled]), x, *box(x), TIGHT._replace(longest_step=20.0))
    assert bool(found.converged)
    assert torch.allclose(found.x, torch.full((1, 3), 0.9), rtol=0.0, atol=1e-8)


def test_running_out_of_rounds_is_reported_run_by_run():
    x = torch.tensor([[-1.2, 1.0], [1.0, 1.0]])
    found = quasi_newton.minimize(Each([rosenbrock, rosenbrock]), x, *box(x), TIGHT._replace(max_rounds=4))
    assert found.converged.tolist() == [False, True]
    assert int(found.rounds[0]) == 4
    assert int(found.rounds[1]) == 0
    assert float(found.value[0]) < float(rosenbrock(x[0])[0])


def test_no_round_at_all_returns_the_start_moved_into_the_box():
    x = torch.tensor([[3.0, -3.0]])
    found = quasi_newton.minimize(Each([rosenbrock]), x, *box(x, -1.0, 1.0), TIGHT._replace(max_rounds=0))
    assert found.x.tolist() == [[1.0, -1.0]]
    assert not bool(found.converged)


def test_a_start_at_the_minimum_stays_there():
    x = torch.ones(1, 4)
    found = quasi_newton.minimize(Each([rosenbrock]), x, *box(x), TIGHT)
    assert torch.equal(found.x, x)
    assert int(found.rounds) == 0


def test_no_accepted_step_ever_climbs():
    """What is returned is the lowest value that was ever seen."""
    values = []

    def watched(x):
        value, gradient = rosenbrock(x)
        values.append(float(value))
        return value, gradient

    x = torch.tensor([[-1.2, 1.0]])
    found = quasi_newton.minimize(Each([watched]), x, *box(x), TIGHT)
    assert float(found.value) <= min(values) + 1e-16


def test_single_precision_ends_at_the_same_place():
    function, _, centre = quadratic(2, spread=10.0)

    def single(x):
        value, gradient = function(x.double())
        return value.float(), gradient.float()

    x = torch.zeros(1, 5, dtype=torch.float32)
    found = quasi_newton.minimize(Each([single]), x, *box(x), Tolerances(1e-4, 0.0, 200, 1.0))
    assert bool(found.converged)
    assert torch.allclose(found.x[0].double(), centre, rtol=0.0, atol=1e-3)


def test_a_wall_without_a_gradient_is_backed_away_from_too():
    function, _, centre = quadratic(3, spread=10.0)

    def walled(x):
        value, gradient = function(x)
        beyond = x[0] > centre[0] + 0.01
        return (torch.tensor(torch.inf), torch.full_like(x, torch.nan)) if beyond else (value, gradient)

    x = (centre + torch.tensor([-3.0, 2.0, 1.0, -1.0, 1.0]))[None]
    found = quasi_newton.minimize(Each([walled]), x, *box(x), TIGHT)
    assert bool(found.converged)
    assert torch.allclose(found.x[0], centre, rtol=0.0, atol=1e-7)


def test_a_stalled_row_that_waits_for_its_group_is_evaluated_no_further():
    function, _, _ = quadratic(1)
    calls = []

    def lying(x):
        """A gradient that points uphill: no step is ever accepted, so the row stalls."""
        calls.append(x.clone())
        return (x * x).sum(), -2.0 * x

    x = torch.ones(2, 5)
    found = quasi_newton.minimize(Each([lying, function]), x, *box(x), TIGHT._replace(group=2))
    assert found.converged.tolist() == [False, True]
    alone = quasi_newton.minimize(Each([lying]), x[:1], *box(x[:1]), TIGHT)
    assert torch.equal(found.x[0], alone.x[0]) and int(found.rounds[0]) == int(alone.rounds[0])


def test_a_known_inverse_hessian_ends_a_quadratic_in_one_round():
    function, Q, centre = quadratic(3)
    x = torch.zeros(1, 5)
    known = quasi_newton.minimize(
        Each([function]), x, *box(x), TIGHT._replace(longest_step=9.0), Q.inverse().unsqueeze(0)
    )
    assert bool(known.converged) and int(known.rounds) == 1
    assert torch.allclose(known.x[0], centre, atol=1e-8)


def test_the_inverse_hessian_that_was_learnt_comes_back():
    function, Q, _ = quadratic(3)
    x = torch.zeros(1, 5)
    found = quasi_newton.minimize(Each([function]), x, *box(x), TIGHT)
    assert torch.allclose(found.H[0] @ Q, torch.eye(5), atol=0.2)
