"""K's inverse and the Hessian as one launch: what torch finds, on every target."""

import pytest
import torch

from kappasharp.correction import strength
from kappasharp.inference import comparisons
from kappasharp.kernels import stationary
from kappasharp.native import compiler, launch, precision
from tests.reference import twin
from tests.reference.both_ways import compiled, data, on_device

WAYS = {
    "one thread": twin.Twin(warps=1), "two warps of four": twin.Twin(lanes=4, warps=2),
    "the CPU's": compiler.execute,
}  # fmt: skip
RUNS = 3


def answers(n, m, nugget=1e-3):
    X, pairs = data(RUNS, n, m, 4)
    theta = torch.tensor([-1.0, -1.0, 0.0, 0.0, 1.0], dtype=torch.float64).expand(RUNS, -1)
    K = stationary.covariance("rbf", X, theta, nugget)
    omega = torch.rand(RUNS, m, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    return K, comparisons.incidence(pairs, n), omega


@compiled
@pytest.mark.parametrize(("n", "m"), [(2, 1), (7, 9), (8, 3), (9, 20), (33, 17)])
@pytest.mark.parametrize("way", list(WAYS))
def test_the_launch_finds_what_torch_finds(way, n, m):
    K, C, omega = answers(n, m)
    found = precision.invert(K, C.pairs, omega, WAYS[way])
    H, a, usable = strength.precision(K, comparisons.laplacian(C, omega))
    assert torch.equal(found.usable, usable) and bool(usable.all())
    assert float((found.H - H).abs().max()) <= 1e-9 * float(H.abs().max())
    assert torch.allclose(found.own, a, rtol=1e-9, atol=0.0)
    assert torch.equal(found.H, found.H.mT)


@compiled
@pytest.mark.parametrize("way", list(WAYS))
def test_where_k_is_not_positive_definite_the_identity_stands_in(way):
    K, C, omega = answers(9, 12)
    K[1, 4, 4] = -1.0
    K[2, 3, 3] = torch.nan
    found = precision.invert(K, C.pairs, omega, WAYS[way])
    H, a, usable = strength.precision(K, comparisons.laplacian(C, omega))
    assert found.usable.tolist() == usable.tolist() == [True, False, False]
    assert torch.allclose(found.H, H, rtol=1e-9, atol=1e-9) and torch.allclose(found.own, a, rtol=1e-9, atol=0.0)


@compiled
def test_a_small_nugget_is_inverted_as_well_as_by_torch():
    """K's condition number is that of its nugget: both inverses are held to what they are to undo."""
    K, C, omega = answers(40, 30, nugget=1e-9)
    found = strength.hessian(K, C, torch.zeros_like(omega))[0]
    torchs = strength.precision(K, torch.zeros_like(K))[0]
    off = [float((K @ inverse - torch.eye(40, dtype=torch.float64)).abs().max()) for inverse in (found, torchs)]
    assert off[0] <= 10.0 * off[1]


def test_who_does_it_is_counted(monkeypatch):
    K, C, omega = answers(9, 5)
    monkeypatch.setattr(launch, "MOST_DESIGNS", 8)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    expected = strength.precision(K, comparisons.laplacian(C, omega))
    for ours, theirs in zip(strength.hessian(K, C, omega), expected, strict=True):
        assert torch.equal(ours, theirs)
    assert launch.taken == {("precision", "more than 8 designs"): 1}


@on_device
@pytest.mark.parametrize("n", [5, 40, 130])
def test_on_a_device(monkeypatch, n):
    K, C, omega = answers(n, n)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    there = comparisons.incidence(C.pairs.cuda(), n)
    found = strength.hessian(K.cuda(), there, omega.cuda())
    assert launch.taken == {("precision", "kernel"): 1}
    for ours, theirs in zip(found, strength.precision(K, comparisons.laplacian(C, omega)), strict=True):
        assert torch.allclose(ours.cpu().double(), theirs.double(), rtol=1e-7, atol=1e-7)
