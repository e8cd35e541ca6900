"""The MAP with a correction as one launch on the CPU: what torch finds, run by run."""

import pytest
import torch

from kappasharp.inference import comparisons, laplace
from kappasharp.inference.likelihood import Grades, Probit
from kappasharp.kernels import stationary
from kappasharp.native import launch
from kappasharp.tensors import take
from tests.reference.both_ways import compiled, data

RUNS = 3


def task(n, m, scale, size, answered="wins"):
    chance = torch.Generator().manual_seed(n + m)
    X, pairs = data(RUNS, n, m, 3)
    theta = torch.cat([torch.tensor([-1.0, -0.5, 0.5]), torch.tensor([scale]).log()]).double().expand(RUNS, -1)
    K = stationary.covariance("rbf", X, theta, 1e-6)
    r = size * torch.rand(RUNS, n, generator=chance, dtype=torch.float64)
    start = torch.randn(RUNS, m, generator=chance, dtype=torch.float64)
    some = torch.rand(RUNS, m, generator=chance) < 0.4
    ties = {"wins": None, "ties": some}.get(answered)
    if answered == "graded":
        half = 0.2 + torch.rand(RUNS, m, generator=chance, dtype=torch.float64)
        ties = Grades(some, half - 0.7, half, torch.zeros_like(half))
    return K, comparisons.incidence(pairs, n), r, start, ties


def by_torch(monkeypatch, probit, K, C, r, start, ties):
    """Every run alone: in company a MAP takes as many steps as the slowest needs."""
    monkeypatch.setenv(launch.SWITCH, "0")
    return [
        laplace.find_map(K[row], C.take(row), probit, r=r[row], start=start[row], ties=take(ties, row))
        for row in torch.arange(RUNS).unsqueeze(-1)
    ]


def is_near(ours, theirs):
    return float((ours - theirs).abs().max()) <= 1e-9 * max(1.0, float(theirs.abs().max()))


@compiled
@pytest.mark.parametrize("answered", ["wins", "ties", "graded"])
@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("scale", [2.0, 100.0])
@pytest.mark.parametrize(("n", "m"), [(2, 1), (9, 8), (16, 17), (33, 20), (40, 65)])
def test_the_launch_finds_what_torch_finds(monkeypatch, n, m, scale, size, answered):
    K, C, r, start, ties = task(n, m, scale, size, answered)
    probit = Probit(1.0, 0.3 if answered == "ties" else 0.0)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    found = laplace.find_map(K, C, probit, r=r, start=start, ties=ties)
    assert launch.taken == {("shrunken", "kernel"): 1}
    assert bool(found.dual.converged.all())
    for i, expected in enumerate(by_torch(monkeypatch, probit, K, C, r, start, ties)):
        assert is_near(found.f[i], expected.f[0]) and is_near(found.beta[i], expected.beta[0])
        assert is_near(found.dual.alpha[i], expected.dual.alpha[0]) and is_near(found.dual.z[i], expected.dual.z[0])
        assert int(found.dual.iterations[i]) == int(expected.dual.iterations[0])


@compiled
def test_what_no_launch_is_made_for_is_torchs(monkeypatch):
    K, C, r, start, _ = task(9, 8, 2.0, 1.0)
    monkeypatch.setattr(launch, "MOST_DESIGNS", 8)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    found = laplace.find_map(K, C, Probit(), r=r, start=start)
    assert launch.taken[("shrunken", "more than 8 designs")] == 1 and launch.taken.total() == 2
    expected = by_torch(monkeypatch, Probit(), K, C, r, start, None)
    assert is_near(found.f, torch.cat([one.f for one in expected]))
