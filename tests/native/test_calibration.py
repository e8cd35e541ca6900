"""The calibration as one launch: what torch finds, by a device's threads played here, by the CPU's own, on a device."""

from functools import cache

import pytest
import torch

from kappasharp.correction import strength
from kappasharp.native import calibration, compiler, launch
from tests.reference import twin
from tests.reference.both_ways import compiled, on_device

WAYS = {
    "one thread": twin.Twin(warps=1), "two warps of four": twin.Twin(lanes=4, warps=2),
    "the CPU's": compiler.execute,
}  # fmt: skip


def hessians(runs, n, near=False):
    """K⁻¹ + CᵀWC and diag K⁻¹ of drawn designs, of which some nearly coincide where told."""
    chance = torch.Generator().manual_seed(n)
    X = torch.rand(runs, n, 4, generator=chance, dtype=torch.float64)
    if near:
        X[:, 1::2] = X[:, : n - 1 : 2][:, : X[:, 1::2].shape[1]] + 1e-4 * X[:, 1::2]
    K = 2.0 * torch.exp(-2.0 * torch.cdist(X, X).square()) + 1e-4 * torch.eye(n, dtype=torch.float64)
    inverse = torch.linalg.inv(K)
    C = torch.randn(runs, n, n, generator=chance, dtype=torch.float64)
    H = inverse + 0.2 * C @ C.mT
    return 0.5 * (H + H.mT), inverse.diagonal(dim1=-2, dim2=-1).contiguous()


@cache
def by_torch(n, near, exponent):
    """What every way has to find, computed once."""
    return strength._by_torch(*hessians(4, n, near), exponent)


def searched(H, a, execute, exponent=0.1):
    rules = {"rounds": strength.MAX_ROUNDS, "accuracy": strength.ACCURACY, "least": 1e-9}
    return calibration.search(H, a, strength._grid(a), exponent, execute, **rules)


@compiled
@pytest.mark.parametrize("exponent", [0.1, 0.5])
@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("n", [2, 7, 8, 19, 33])
@pytest.mark.parametrize("way", list(WAYS))
def test_the_launch_finds_what_torch_finds(way, n, near, exponent):
    H, a = hessians(4, n, near)
    *expected, fallbacks = by_torch(n, near, exponent)
    found = searched(H, a, WAYS[way], exponent)
    # What torch has to do by the definition, since nothing proves the first crossing, is not sure here either.
    assert bool(found.sure[fallbacks == 0].all()) and bool((fallbacks == 0).any() | (exponent == 0.5))
    for ours, theirs in zip(found[:3], expected, strict=True):
        # The largest eigenvalue is known to 1e-6 on either side.
        assert torch.allclose(ours[found.sure], theirs[found.sure], rtol=2e-6, atol=0.0)
    values = torch.linalg.eigvalsh(H)
    assert torch.allclose(found.before[found.sure], (values[:, -1] / values[:, 0])[found.sure], rtol=2e-6, atol=0.0)


@compiled
@pytest.mark.parametrize("way", list(WAYS))
def test_what_it_cannot_prove_is_left_to_torch(way):
    """No Hessian, one with NaN, one whose condition number cannot fall that far; their neighbour has its strength."""
    H, a = hessians(4, 6)
    H[0] -= 2.0 * torch.linalg.eigvalsh(H[0])[0] * torch.eye(6, dtype=torch.float64)
    H[1, 2, 2] = torch.nan
    a[2] = 1e40  # the prior is so strong that no strength of the grid moves anything
    found = searched(H, a, WAYS[way])
    assert found.sure.tolist() == [False, False, False, True]


@compiled
def test_runs_that_torch_does_stand_in_their_places(monkeypatch):
    H, a = hessians(3, 9)
    H[1] = -H[1]
    monkeypatch.setattr(launch, "taken", launch.Counter())
    found = strength.calibrate(H, a, 0.1)
    assert launch.taken == {("calibration", "kernel"): 1}
    assert found.found.tolist() == [True, False, True]
    alone = strength._by_torch(H[2:], a[2:], 0.1)
    assert float(found.eta[2]) == pytest.approx(float(alone[0]), rel=2e-6)


@compiled
def test_a_run_is_the_same_in_company():
    H, a = hessians(5, 12)
    together = strength.calibrate(H, a, 0.1)
    alone = [strength.calibrate(H[i : i + 1], a[i : i + 1], 0.1) for i in range(5)]
    for at, part in enumerate(together):
        assert torch.equal(part, torch.cat([one[at] for one in alone]))


def test_many_designs_are_torchs(monkeypatch):
    monkeypatch.setattr(launch, "MOST_DESIGNS", 8)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    H, a = hessians(1, 9)
    assert bool(strength.calibrate(H, a, 0.1).found.all())
    assert launch.taken == {("calibration", "more than 8 designs"): 1}


@on_device
@pytest.mark.parametrize("n", [5, 40, 130])
def test_on_a_device(monkeypatch, n):
    H, a = hessians(6, n, near=True)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    found = strength.calibrate(H.cuda(), a.cuda(), 0.1)
    assert launch.taken == {("calibration", "kernel"): 1} and bool(found.found.all())
    for ours, theirs in zip((found.eta, found.kappa_before), strength._by_torch(H, a, 0.1)[:2], strict=True):
        assert torch.allclose(ours.cpu(), theirs, rtol=2e-6, atol=0.0)
