"""The search for the hyperparameters of a sum of two kernels, and of several people: compiled against torch."""

import pytest
import torch

from kappasharp.acquisition import composite, maximize
from kappasharp.algorithm import fit
from kappasharp.inference import comparison_space, comparisons, hyperparameters, point_space, voter_evidence
from kappasharp.inference.comparisons import Answers, Detail
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Grades, Probit
from kappasharp.kernels import priors as kernels_priors
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import JointPriors, PeoplePriors
from kappasharp.native import compiler, launch
from kappasharp.questions.comparisons import order_of
from kappasharp.settings import MAXIMIZERS, find_preset
from tests.reference import twin
from tests.reference.both_ways import SERIAL, assert_same, compiled, data, each_alone, fused, moved, on_device
from tests.reference.lifts import Curved


def sum_model(sizes, prior="outputscale_near_30", family="rbf"):
    priors = JointPriors(kernels_priors.PRIORS[prior], sizes, (2.3, 2.0))
    return Model(stationary.Sum(family, sizes), 1e-4, Probit(noise=0.8), priors)


def sum_task(runs, m, model, n=None):
    """Both of the priors' own starts in turn, and off them."""
    d = sum(model.family.sizes)
    X, pairs = data(runs, max(n or 2 * m, 2), m, d)
    theta = torch.stack([model.priors.starts(d)[i % 2] for i in range(runs)])
    theta[2:] += torch.linspace(-0.7, 0.7, d + 2)
    return model, comparison_space.gather(X, pairs), theta, torch.zeros(runs, m)


@compiled
@pytest.mark.parametrize("m", [1, 8, 33, 65])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (5, 11)])
@pytest.mark.parametrize("prior", ["outputscale_near_30", "dimension_scaled", "shared_0_5"])
def test_search_of_a_sum(m, sizes, prior):
    task = sum_task(4, m, sum_model(sizes, prior))
    expected = each_alone(*task)
    for execute in SERIAL:
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
@pytest.mark.parametrize("graded", [False, True])
def test_search_of_a_sum_with_matern_shared_points_ties_and_orders(graded):
    """All that a comparison may have beside it, and several threads."""
    task = model, gathered, _, z = sum_task(3, 18, sum_model((3, 2), family="matern52"), n=9)
    if graded:
        between = torch.zeros_like(z, dtype=torch.bool)
        between[:, ::3] = True
        ties = Grades(between, 0.3 * between, torch.full_like(z, 0.4), 1.7 * between.roll(1, -1))
        detail = Detail(
            *(part.expand(3, *part.shape[1:]) for part in comparisons.detail([order_of(4, [2, 0, 3, 1])] * 6))
        )
        task = (model, gathered._replace(ties=ties, detail=detail), *task[2:])
    expected = each_alone(*task)
    assert bool(expected.converged.all())
    for execute in (twin.Twin(1), twin.Twin(4), compiler.execute):
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
def test_the_gradient_of_a_sum_is_that_of_its_value():
    """By differences, with no round of descent: at its start a search tells value and gradient."""
    model, gathered, theta, z = sum_task(2, 12, sum_model((3, 2)))
    theta = theta + 0.2 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(0))
    assert_gradient(model, gathered, theta, z)


def people_task(runs, m, base, people, n=None, detail=None):
    """Answers of people in turn, where there are enough the last two of nobody; from both of the priors' own starts."""
    d, model = sum(getattr(base.family, "sizes", (3,))), base._replace(priors=PeoplePriors(base.priors, people))
    X, pairs = data(runs, max(n or 2 * m, 2), m, d)
    voter = torch.arange(m) % people
    voter[max(m - 2, people) :] = voter_evidence.NOBODY
    gathered = voter_evidence.gather(Answers(X, pairs, None, detail), voter.expand(runs, -1), people)
    theta = torch.stack([model.priors.starts(d)[i % 2] for i in range(runs)])
    theta[2:] += torch.linspace(-0.5, 0.5, theta.shape[-1])
    return model, gathered, theta, torch.zeros(runs, m)


PLAIN = Model("rbf", 1e-6, Probit(), kernels_priors.PRIORS["outputscale_near_30"])


@compiled
@pytest.mark.parametrize("m", [1, 8, 33, 65])
@pytest.mark.parametrize("people", [1, 3, 20])
@pytest.mark.parametrize("base", [PLAIN, sum_model((2, 3), "shared_0_5")])
def test_search_of_people(m, people, base):
    task = people_task(4, m, base, people)
    expected = each_alone(*task)
    for execute in SERIAL:
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
@pytest.mark.parametrize("base", [PLAIN, sum_model((2, 1), family="matern52")])
def test_search_of_people_with_orders_ties_and_several_threads(base):
    orders = comparisons.detail([order_of(4, [2, 0, 3, 1])] * 6)
    task = people_task(3, 18, base, 4, n=9, detail=Detail(*(part.expand(3, *part.shape[1:]) for part in orders)))
    between = torch.zeros(3, 18, dtype=torch.bool)
    between[:, ::3] = True
    ties = Grades(between, 0.3 * between, torch.full((3, 18), 0.4), 1.7 * between.roll(1, -1))
    task = (task[0], task[1]._replace(data=task[1].data._replace(ties=ties)), *task[2:])
    expected = each_alone(*task)
    assert bool(expected.converged.all())
    for execute in (twin.Twin(1), twin.Twin(4), compiler.execute):
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
def test_the_gradient_of_people_is_that_of_their_value():
    model, gathered, theta, z = people_task(2, 12, sum_model((2, 1)), 3)
    assert_gradient(model, gathered, theta + 0.2 * torch.randn(theta.shape), z)


def assert_gradient(model, gathered, theta, z):
    with pytest.MonkeyPatch.context() as patch:
        at_once = hyperparameters.tolerances(theta.dtype)._replace(max_rounds=0)
        patch.setattr(hyperparameters, "tolerances", lambda dtype, gain: at_once)
        for execute in SERIAL:

            def value_and_gradient(theta, execute=execute):
                found, _ = hyperparameters.fused_search(model, gathered, theta, z, execute=execute)
                return found.value, found.gradient

            _, gradient = value_and_gradient(theta)
            for j, step in enumerate(1e-5 * torch.eye(theta.shape[-1])):
                up, down = (value_and_gradient(theta + sign * step)[0] for sign in (1, -1))
                torch.testing.assert_close(gradient[:, j], (up - down) / 2e-5, rtol=1e-5, atol=1e-5)


@compiled
def test_both_are_counted(monkeypatch):
    """A search counts as the kernel's, or as torch's with the reason."""
    monkeypatch.setattr(launch, "taken", launch.Counter())
    tasks = sum_task(2, 5, sum_model((1, 1))), people_task(2, 5, PLAIN, 2)
    for task in tasks:
        hyperparameters.maximize(*task)
    assert launch.taken == {("evidence", "kernel"): 2}
    model, gathered, theta, z = tasks[1]
    X, pairs = data(2, 10, 5, 3)
    single = voter_evidence.gather(Answers(X.float(), pairs), gathered.voter, 2)
    hyperparameters.maximize(model, single, theta.float(), z.float())
    assert launch.taken["evidence", "not in double precision"] == 1


def test_what_has_no_kernel_is_counted_too(monkeypatch):
    """A fit on points, and an ascent through outcomes that count against a budget."""
    monkeypatch.setattr(launch, "taken", launch.Counter())
    model, _, theta, z = sum_task(1, 8, sum_model((3, 2)), n=6)
    X, pairs = data(1, 6, 8, 5)
    hyperparameters.maximize(model, point_space.PointSpace(X, comparisons.incidence(pairs, 6), None).gather(), theta, z)
    lift = Curved(budget=64)
    model = fit.model_of(find_preset("modern"), 3, lift)
    fitted = fit.fit(model, Answers(X[..., :3], pairs), lift=lift).posterior
    maximize.propose(fitted, MAXIMIZERS["quick"], maximize.Request([torch.Generator().manual_seed(0)]))
    assert launch.taken["evidence", hyperparameters.ON_POINTS] == 1
    assert launch.taken["eubo", composite.NO_LAUNCH] == 1


@on_device
@pytest.mark.parametrize("name", ["sum", "people", "people of a sum"])
def test_on_a_device(name, monkeypatch):
    """The contract there: one launch finds what torch finds here."""
    task = {
        "sum": lambda: sum_task(8, 40, sum_model((3, 2))),
        "people": lambda: people_task(8, 40, PLAIN, 5),
        "people of a sum": lambda: people_task(8, 40, sum_model((2, 3)), 5),
    }[name]()
    model, *parts = task
    monkeypatch.setattr(launch, "taken", launch.Counter())
    found, _ = hyperparameters.fused_search(model, *(moved(part, "cuda") for part in parts))
    assert launch.taken == {("evidence", "kernel"): 1}
    assert_same(moved(found, "cpu"), each_alone(*task), 1e-7)
