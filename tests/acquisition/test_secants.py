"""EUBO through outcomes that count against a budget: slopes that are believed first and learnt on the way."""

import pytest
import torch

from kappasharp.acquisition import composite, eubo, maximize, secants
from kappasharp.acquisition.discrete import Group, Lattice, nearest
from kappasharp.acquisition.maximize import Request, Search
from kappasharp.acquisition.secants import Believed, BySecants
from kappasharp.algorithm import fit
from kappasharp.inference import posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS, find_preset
from kappasharp.tensors import take
from tests.acquisition.test_composite import RUNS, D, few, posterior_of, request
from tests.reference.lifts import Curved


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_correction_agrees_with_the_step_and_changes_nothing_across_it():
    J, s, y, across = (rand(6, *shape, seed=i) for i, shape in enumerate([(5, 3), (5,), (3,), (5,)]))
    found = secants.corrected(J, s, y)
    assert torch.allclose((s.unsqueeze(-2) @ found).squeeze(-2), y)
    across = across - s * (across * s).sum(-1, keepdim=True) / s.square().sum(-1, keepdim=True)
    assert torch.allclose(across.unsqueeze(-2) @ found, across.unsqueeze(-2) @ J)
    assert torch.equal(secants.corrected(J, torch.zeros_like(s), y), J)


def test_believed_slopes_are_those_of_smooth_outcomes():
    X, at = rand(2, 120, 3), 0.2 + 0.6 * rand(2, 7, 3, seed=1)

    def outcomes(x):
        return torch.stack([3.0 * x[..., 0] - x[..., 2], (2.0 * x[..., 1]).sin() + x[..., 0] * x[..., 2]], -1)

    found = Believed(X, outcomes(X)).slopes(at)
    for j in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[j] = 1e-5
        slope = (outcomes(at + step) - outcomes(at - step)) / 2e-5
        assert torch.allclose(found[:, :, j], slope, atol=0.02)


def test_slopes_do_not_depend_on_the_units_of_outcomes_and_a_constant_has_none():
    X, at = rand(1, 60, 4), rand(1, 5, 4, seed=1)
    Y = torch.stack([X.square().sum(-1), torch.full((1, 60), 0.5, dtype=torch.float64)], -1)
    found = Believed(X, Y).slopes(at)
    scaled = Believed(X, 7.0 + 1e5 * Y).slopes(at)
    assert torch.allclose(scaled[..., 0], 1e5 * found[..., 0], rtol=1e-6)
    assert float(found[..., 1].abs().max()) == 0.0


def test_erratic_outcomes_are_smoothed_over():
    """A slope in a field of noise is about that of the trend; a difference there would be a hundred times it."""
    X, at = rand(1, 150, 3), 0.3 + 0.4 * rand(1, 5, 3, seed=1)
    noisy = X[..., :1] + 0.2 * torch.randn(1, 150, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = Believed(X, noisy).slopes(at)[..., 0]
    assert torch.allclose(found, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).expand_as(found), atol=0.4)


def test_what_is_no_number_teaches_nothing():
    J, s, y = rand(2, 5, 3), rand(2, 5, seed=1), rand(2, 3, seed=2)
    y[0, 1] = torch.nan
    found = secants.corrected(J, s, y)
    assert torch.equal(found[0, :, 1], J[0, :, 1]) and bool(found.isfinite().all())
    X = rand(1, 30, 4)
    Y = torch.stack([X.sum(-1), X.sum(-1)], -1)
    Y[0, 3, 1] = torch.nan
    for known in (Believed(X, Y), Believed(X[:, :1], Y[:, :1])):
        assert bool(known.slopes(X[:, :2]).isfinite().all())


@pytest.mark.parametrize("allowed", [None, few])
def test_the_first_gradient_is_about_that_of_differences_where_much_is_known(allowed):
    lift = Curved(budget=256)
    fitted = posterior_of(lift)
    prepared, X = eubo.prepare(fitted), rand(RUNS, 150, D, seed=5)
    known = Believed(X, lift(X))
    objective = Search(fitted, prepared, request(allowed=allowed), known).objective(4)
    exact = Search(fitted._replace(lift=Curved()), prepared, request(allowed=allowed)).objective(4)
    # Within the limits, where a penalty has no slope.
    x = 0.3 * rand(RUNS * 4, 2 * D, seed=2)
    (value, gradient), (true_value, true_gradient) = objective(x), exact(x)
    assert isinstance(objective, BySecants)
    assert torch.allclose(value, true_value)
    assert torch.allclose(gradient, true_gradient, atol=0.15), "of slopes up to 3"


def test_beyond_a_limit_a_step_teaches_the_way_back():
    fitted = posterior_of(Curved(budget=256))
    objective = Search(fitted, eubo.prepare(fitted), request(allowed=few)).objective(1)
    inside, outside = (torch.full((RUNS, 2 * D), value, dtype=torch.float64) for value in (0.3, 0.5))
    objective(inside)
    value, gradient = objective(outside)
    assert torch.allclose(value, objective.value(outside))
    assert bool((gradient > 0.0).all()), "−EUBO with its penalty falls where every parameter falls"


def test_runs_do_not_know_of_each_other():
    """Three runs in a batch propose what each proposes alone."""
    fitted = posterior_of(Curved(budget=128))
    together = maximize.propose(fitted, MAXIMIZERS["default"], request())
    for run in range(RUNS):
        row = torch.tensor([run])
        alone = take(fitted._replace(lift=None), row)._replace(lift=Curved(budget=128))
        found = maximize.propose(alone, MAXIMIZERS["default"], Request([stream(run, "through")]))
        assert torch.allclose(found.pair[0], together.pair[run], atol=1e-6)


def wide(budget, d=16, n=40, m=20):
    X = rand(RUNS, n, d, seed=7)
    pairs = torch.arange(2 * m).reshape(1, m, 2).expand(RUNS, m, 2).clone()
    lift = Curved(budget=budget)
    utility = -lift(X)[..., 0]
    worse = utility.gather(1, pairs[..., 0]) < utility.gather(1, pairs[..., 1])
    pairs = torch.where(worse.unsqueeze(-1), pairs.flip(-1), pairs)
    fitted = fit.fit(fit.model_of(find_preset("modern"), d, lift), Answers(X, pairs), lift=lift).posterior
    lift.seen.clear()
    return fitted, lift


@pytest.mark.parametrize(("budget", "share"), [(64, 0.75), (256, 0.9), (1024, 0.97)])
def test_a_small_budget_finds_most_of_what_a_search_without_one_does(budget, share):
    """In sixteen dimensions one gradient by differences is half of the smaller budget."""
    fitted, lift = wide(budget)
    found = maximize.propose(fitted, MAXIMIZERS["default"], request())
    assert len(lift.seen) <= 1.2 * RUNS * budget
    whole = maximize.propose(fitted._replace(lift=Curved()), MAXIMIZERS["default"], request())
    best = posterior.own_mean(fitted).amax(-1)
    assert float(((found.value - best) / (whole.value - best)).mean()) >= share


class Rounded(Curved):
    """Outcomes as a program prints them: with three digits."""

    def __call__(self, X):
        return (1e3 * super().__call__(X)).round() / 1e3


@pytest.mark.parametrize("budget", [64, 1024])
def test_a_program_that_rounds_its_numbers_does_not_stop_the_search(budget):
    """Differences over a thousandth of the cube are nothing but rounding there."""
    fitted, _ = wide(budget, d=6)
    found = maximize.propose(fitted._replace(lift=Rounded(budget=budget)), MAXIMIZERS["default"], request())
    whole = maximize.propose(fitted._replace(lift=Curved()), MAXIMIZERS["default"], request())
    best = posterior.own_mean(fitted).amax(-1)
    assert float(((found.value - best) / (whole.value - best)).mean()) >= 0.8


def test_the_best_starts_go_on_by_differences_where_the_budget_pays_for_them(monkeypatch):
    taken, ascend = [], composite.ascend

    def counted(objective, x, *rest):
        taken.append((objective.learns, x.shape[1]))
        return ascend(objective, x, *rest)

    monkeypatch.setattr(composite, "ascend", counted)
    fitted, lift = wide(1024)
    maximize.propose(fitted, MAXIMIZERS["default"], request())
    assert taken == [(True, 12), (False, secants.FINALISTS)]
    taken.clear()
    maximize.propose(fitted._replace(lift=Curved(budget=64)), MAXIMIZERS["default"], request())
    assert taken == [(True, 2)]
    assert len(lift.seen) <= RUNS * 1024


@pytest.mark.parametrize("budget", [64, 1024])
def test_nothing_is_computed_outside_the_box(budget):
    """A study that was narrowed: its program need not work beyond."""
    fitted, lift = wide(budget, d=4)
    low, high = torch.full((RUNS, 4), 0.2, dtype=torch.float64), torch.full((RUNS, 4), 0.4, dtype=torch.float64)
    low[:, 3] = high[:, 3] = 0.3
    maximize.propose(fitted, MAXIMIZERS["default"], request(box=(low, high)))
    computed = torch.tensor(sorted(lift.seen), dtype=torch.float64)
    assert bool(((computed >= low[0] - 1e-12) & (computed <= high[0] + 1e-12)).all())


def test_one_start_with_hardly_a_budget_ends_where_it_is():
    fitted = posterior_of(Curved(budget=256))
    prepared, X = eubo.prepare(fitted), rand(RUNS, 60, D, seed=5)
    objective = Search(fitted, prepared, request(), Believed(X, fitted.lift(X))).objective(1)
    x = rand(RUNS, 1, 2 * D, seed=6)
    for rounds in (0, 1, 3, 5):
        found = secants.ascend(objective, x, (torch.zeros_like(x), torch.ones_like(x)), maximize._tolerances(x, rounds))
        assert bool(found.value.isfinite().all()) and len(found.x) == RUNS


def test_a_look_that_gains_nothing_teaches_all_the_same():
    fitted = posterior_of(Curved(budget=256))
    prepared, X = eubo.prepare(fitted), rand(RUNS, 60, D, seed=5)
    objective = Search(fitted, prepared, request(), Believed(X, fitted.lift(X))).objective(1)
    here = objective.look(rand(RUNS, 2, D, seed=6))
    there = objective.look(rand(RUNS, 2, D, seed=7), before=here)
    step = (there.points - here.points).unsqueeze(-2)
    assert torch.allclose((step @ there.J).squeeze(-2), there.outcomes - here.outcomes)
    assert not torch.allclose((step @ here.J).squeeze(-2), there.outcomes - here.outcomes, atol=1e-3)


def test_believed_outcomes_are_about_the_true_ones_and_compute_nothing():
    lift = Curved(budget=64)
    X, at = rand(2, 120, 3), rand(2, 7, 2, 3, seed=1)
    known = Believed(X, lift(X))
    lift.seen.clear()
    assert torch.allclose(known(at), Curved()(at), atol=0.02) and not lift.seen
    # Rows of a run side by side, however they are cut.
    assert torch.equal(known(at.reshape(14, 2, 3)).reshape(2, 7, 2, 2), known(at))


@pytest.mark.parametrize("budget", [64, 1024])
def test_a_lattice_keeps_to_the_budget_too(budget):
    """Every value of every parameter was tried: thousands of designs, half a minute of a program."""
    fitted, lift = wide(budget, d=4)
    on = Lattice(tuple(Group((j,), torch.linspace(0.0, 1.0, 101).double().unsqueeze(-1)) for j in range(3)))
    found = maximize.propose(fitted, MAXIMIZERS["default"], request(lattice=on))
    assert len(lift.seen) <= 1.2 * RUNS * budget
    assert torch.equal(nearest(on, found.pair), found.pair)
    whole = maximize.propose(fitted._replace(lift=Curved()), MAXIMIZERS["default"], request(lattice=on))
    best = posterior.own_mean(fitted).amax(-1)
    assert float(((found.value - best) / (whole.value - best)).mean()) >= 0.8


def test_nothing_is_fitted_to_outcomes_that_cost_nothing(monkeypatch):
    """A search without a budget asks the outcomes themselves."""
    monkeypatch.setattr(secants, "_fitted", pytest.fail)
    maximize.propose(posterior_of(Curved()), MAXIMIZERS["default"], request())
