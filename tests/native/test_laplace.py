"""The MAP at known hyperparameters and its curvature as one launch: what torch finds, row by row, on every target."""

import pytest
import torch

from kappasharp.inference import comparison_space, comparisons, laplace
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Grades, Probit
from kappasharp.kernels import priors, stationary
from kappasharp.native import compiler, launch
from kappasharp.questions.comparisons import order_of
from kappasharp.tensors import take
from tests.reference import twin
from tests.reference.both_ways import compiled, data, on_device

WAYS = {
    "one thread": twin.Twin(warps=1), "two warps of four": twin.Twin(lanes=4, warps=2),
    "the CPU's": compiler.execute,
}  # fmt: skip
RUNS = 3


def answers(m, scale=2.0, answered="wins", n=None):
    """K, C, differences to start from and, where they are no plain wins, what the answers were."""
    chance = torch.Generator().manual_seed(m)
    X, pairs = data(RUNS, n or max(m, 2), m, 3)
    theta = torch.cat([torch.tensor([-1.0, -0.5, 0.5]), torch.tensor([scale]).log()]).double().expand(RUNS, -1)
    K = stationary.covariance("rbf", X, theta, 1e-6)
    some = torch.rand(RUNS, m, generator=chance) < 0.4
    ties = {"wins": None, "ties": some}.get(answered)
    if answered == "graded":
        half = 0.2 + torch.rand(RUNS, m, generator=chance, dtype=torch.float64)
        time = torch.where(
            some, 0.0, torch.rand(RUNS, m, generator=chance, dtype=torch.float64).sub(0.5).clamp(min=0.0)
        )
        ties = Grades(some, half - 0.7, half, time)
    start = torch.randn(RUNS, m, generator=chance, dtype=torch.float64)
    return K, comparisons.incidence(pairs, X.shape[-2]), start, ties


def by_torch(model, K, C, start, ties):
    """Every run alone: in company a MAP takes as many steps as the slowest needs."""
    return [
        comparison_space.condition(model, K[row], C.take(row), start[row], take(ties, row))
        for row in torch.arange(RUNS).unsqueeze(-1)
    ]


def assert_same(found, expected, tolerance=1e-9):
    for i, theirs in enumerate(expected):
        pairs = [
            (found.alpha[i], theirs.map.dual.alpha[0]), (found.z[i], theirs.map.dual.z[0]),
            (found.value[i], theirs.value[0]), (found.root[i], theirs.root[0]),
        ]  # fmt: skip
        for ours, other in pairs:
            assert float((ours - other).abs().max()) <= tolerance * max(1.0, float(other.abs().max()))
        assert bool(found.converged[i]) and bool(theirs.map.dual.converged[0])
        assert int(found.iterations[i]) == int(theirs.map.dual.iterations[0])
        assert float(found.left[i]) <= laplace.tolerance(torch.float64)


@compiled
@pytest.mark.parametrize("curvature", ["averaged", "mode"])
@pytest.mark.parametrize("answered", ["wins", "ties", "graded"])
@pytest.mark.parametrize(("m", "scale"), [(1, 2.0), (7, 2.0), (8, 300.0), (17, 0.05), (34, 300.0)])
@pytest.mark.parametrize("way", list(WAYS))
def test_the_launch_finds_what_torch_finds(way, m, scale, answered, curvature):
    K, C, start, ties = answers(m, scale, answered)
    model = Model(
        "rbf", 1e-6, Probit(1.0, 0.3 if answered == "ties" else 0.0), priors.PRIORS["botorch_0_18"], curvature
    )
    gram, averaged = comparisons.gram(C, K, model.likelihood.scale), curvature == "averaged"
    execute = WAYS[way]
    found = laplace.launched(model.likelihood, gram, start, ties, averaged=averaged, C=C, execute=execute)
    assert_same(found, by_torch(model, K, C, start, ties))


@compiled
@pytest.mark.parametrize("way", list(WAYS))
def test_curvature_at_a_map_that_is_known(way):
    """Also where an answer hardly informs its own difference: far from indifference, at a large output scale."""
    K, C, start, _ = answers(19, 3000.0, n=9)
    z = 40.0 * start.abs()
    gram = comparisons.gram(C, K, Probit().scale)
    found = laplace.launched(Probit(), gram, z, averaged=True, search=False, C=C, execute=WAYS[way])
    omega = comparison_space.averaged_omega(gram / Probit().scale ** 2, z, 0.0)
    assert bool((omega < 1e-6).any()) and bool((omega > 1e-3).any())
    assert torch.allclose(found.omega, omega, rtol=1e-9, atol=0.0)
    root = comparison_space.information_root(K, C, omega / Probit().scale ** 2)
    assert torch.allclose(found.root, root, rtol=1e-9, atol=1e-12)


@compiled
@pytest.mark.parametrize("way", list(WAYS))
def test_a_map_that_needs_damping(way, monkeypatch):
    """With no plain steps all are damped, in torch too."""
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 1)
    K, C, start, _ = answers(12, 3000.0)
    gram = comparisons.gram(C, K, Probit().scale)
    found = laplace.launched(Probit(), gram, start, execute=WAYS[way])
    monkeypatch.setenv(launch.SWITCH, "0")
    expected = laplace.solve(gram / Probit().scale ** 2, 0.0, start)
    assert bool(found.converged.all()) and bool(expected.converged.all())
    assert torch.allclose(found.z, expected.z, rtol=1e-7, atol=1e-7)


@compiled
def test_orders_share_noise_and_weights():
    """An order of three designs is two comparisons with noise in common; the root has their weights."""
    chance = torch.Generator().manual_seed(3)
    X = torch.rand(1, 9, 3, generator=chance, dtype=torch.float64)
    said = [order_of(3, [0, 1, 2])] * 3
    pairs = torch.tensor([[[3 * q + i, 3 * q + j] for q in range(3) for i, j in said[q].pairs]])
    C = comparisons.incidence(pairs, 9, comparisons.detail(said))
    K = stationary.covariance("rbf", X, torch.tensor([[-1.0, -1.0, 0.0, 2.0]], dtype=torch.float64), 1e-6)
    model = Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"], "averaged")
    ours = comparison_space.at_once(model, K, C, torch.zeros(1, 6, dtype=torch.float64))
    theirs = comparison_space.condition(model, K, C)
    assert torch.equal(ours.gram, theirs.gram) and torch.allclose(ours.value, theirs.value, rtol=1e-9, atol=0.0)
    assert torch.allclose(ours.root, theirs.root, rtol=1e-9, atol=1e-12)
    assert torch.allclose(ours.map.f, theirs.map.f, rtol=1e-9, atol=1e-12)


def test_who_does_it_is_counted(monkeypatch):
    K, C, start, _ = answers(5)
    gram = comparisons.gram(C, K, Probit().scale)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    assert laplace.launched(Probit(), gram.requires_grad_(), start) is None
    assert laplace.launched(Probit(), gram[:, :0, :0], start[:, :0]) is None
    assert launch.taken == {("laplace", laplace.NOT_FOR_KERNELS): 2}


@on_device
@pytest.mark.parametrize("m", [5, 40, 100])
def test_on_a_device(monkeypatch, m):
    K, C, start, _ = answers(m)
    model = Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"], "averaged")
    monkeypatch.setattr(launch, "taken", launch.Counter())
    there = comparisons.incidence(C.pairs.cuda(), C.n_points)
    gram = comparisons.gram(C, K, model.likelihood.scale).cuda()
    found = laplace.launched(model.likelihood, gram, start.cuda(), averaged=True, C=there)
    assert launch.taken == {("laplace", "kernel"): 1}
    assert_same(type(found)(*(part.cpu() for part in found)), by_torch(model, K, C, start, None))
