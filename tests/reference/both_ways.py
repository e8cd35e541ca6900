"""The search for hyperparameters by a kernel and by torch, to be held against each other row by row."""

import pytest
import torch

from kappasharp.inference import hyperparameters
from kappasharp.native import compiler, launch
from kappasharp.numerics import quasi_newton
from kappasharp.tensors import take
from tests.reference import twin
from tests.reference.data import answered

compiled = pytest.mark.skipif(twin.COMPILER is None, reason="no C++ compiler")
on_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
# A trial point so near the edge of acceptance that rounding decides: rare, and then the paths part.
MAY_PART = 1
# A device's block as one thread, and the CPU's own.
SERIAL = (twin.Twin(warps=1), compiler.execute)


def data(runs, n, m, d):
    parts = [answered(seed, n, m, d) for seed in range(runs)]
    X, pairs = (
        torch.stack([torch.as_tensor(p.X) for p in parts]),
        torch.stack([torch.as_tensor(p.pairs) for p in parts]),
    )
    return X, pairs


def each_alone(model, gathered, theta, z):
    """Torch's search, every row in a batch of its own: in company its MAPs take as many steps as the slowest needs."""
    rows = [torch.tensor([i]) for i in range(len(z))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(launch.SWITCH, "0")
        found = [hyperparameters.maximize(model, take(gathered, i), theta[i], z[i]) for i in rows]
    best = hyperparameters.Hyperfit(*(torch.cat(part) for part in zip(*(one.hyper for one in found), strict=True)))
    return quasi_newton.of_kernel(best.theta, -best.value, -best.gradient, best.converged, best.rounds)


def fused(task, execute):
    """The kernel's search; what it says of its last MAP holds at the end."""
    model, gathered, _, _ = task
    found, z = hyperparameters.fused_search(*task, execute=execute)
    if bool(found.converged.all()):
        at_end = gathered.evaluate(model, found.x, z).z
        assert float((at_end - z).abs().max()) < 0.1
    return found


def assert_same(got, expected, tolerance):
    together = got.rounds == expected.rounds
    assert int((~together).sum()) <= MAY_PART
    assert torch.equal(got.converged[together], expected.converged[together])
    for ours, theirs in zip(got[:3], expected[:3], strict=True):
        assert float((ours - theirs)[together].abs().max()) < tolerance


def moved(value, device):
    """Tensors on another device, in tuples of them too."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if not isinstance(value, tuple):
        return value
    parts = [moved(part, device) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
