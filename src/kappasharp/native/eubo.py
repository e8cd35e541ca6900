"""The ascent of EUBO as one launch: one warp a start, the starts of a run side by side in a thread block."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.native import compiler, launch, nvrtc
from kappasharp.native.evidence import Found
from kappasharp.native.sources import Defines, Execute, Launch

# As many warps as a block may have; the registers of a multiprocessor then hold two such blocks.
MOST_WARPS = 12
# On a CPU a start reads all weights by itself. A table of more numbers than a core's caches hold is read from memory,
# and torch reads it once for all starts.
MOST_WEIGHTS, READ_ONCE = 2**20, "a table larger than the caches is read once for all starts"


class Runs(NamedTuple):
    """A posterior arranged for EUBO: length scales, output scale, scaled points, weights; and the anchor or None."""

    lengthscale: Tensor
    outputscale: Tensor
    X: Tensor
    weights: Tensor
    anchor: Tensor | None


class EuboConstants(NamedTuple):
    """The numbers that all starts share; `limits` are descent's, in the order of EvidenceConstants."""

    matern: bool
    improvement: bool
    least_variance: float
    limits: tuple[float, float, float, float, float]
    max_rounds: int


def executor(runs: Runs, constants: EuboConstants, start: Tensor) -> Execute | None:
    """What can do this; None where torch has to."""
    if start.device.type == "cpu" and start.shape[1] > 1 and runs.weights[0].numel() > MOST_WEIGHTS:
        launch.passed_by("eubo", READ_ONCE)
        return None
    return launch.executor("eubo", start, _defines(runs, constants), _shared_bytes(runs, constants.matern, 1))


def minimize(
    runs: Runs, start: Tensor, box: tuple[Tensor, Tensor], constants: EuboConstants, execute: Execute
) -> Found:
    """The minimum of −EUBO from every start (runs, starts, p) in a box, (p,) or like the starts."""
    count, starts, p = start.shape
    n, columns = runs.weights.shape[-2:]
    x = start.new_empty(count * starts, p)
    value, gradient = x.new_empty(len(x)), torch.empty_like(x)
    ended = x.new_empty((len(x), 3), dtype=torch.int32)
    anchor = start if runs.anchor is None else runs.anchor
    tensors = [part.contiguous() for part in (*runs[:4], anchor, start, *box)]
    warps = 1 if execute is compiler.execute else _warps(runs, constants.matern, starts)
    shares = -(-starts // warps)
    kinds = (int(constants.matern), int(runs.anchor is not None), int(constants.improvement))
    sizes = (n, columns, runs.X.shape[-1], *kinds, starts, shares, 0 if box[0].ndim == 1 else p)
    reals = [float(value) for value in (constants.least_variance, *constants.limits)]
    execute(
        Launch(
            kernel="eubo",
            defines=_defines(runs, constants),
            blocks=count * shares,
            threads=nvrtc.WARP * warps,
            shared_bytes=_shared_bytes(runs, constants.matern, warps),
            own_bytes=_shared_bytes(runs, constants.matern, 1) + 8 * n,
            arguments=(
                *tensors, x, value, gradient, ended,
                *sizes, *reals, constants.max_rounds,
            ),
        )
    )  # fmt: skip
    converged, rounds, steps = ended.long().unbind(-1)
    return Found(x, value, gradient, converged == 1, rounds, steps)


def _warps(runs: Runs, matern: bool, starts: int) -> int:
    return warps_within(starts, runs.X.device, lambda warps: _shared_bytes(runs, matern, warps))


def warps_within(starts: int, device: torch.device, shared_bytes: Callable[[int], int]) -> int:
    """The starts in as few equal shares as fit into shared memory and a block."""
    shares = 1
    while (warps := -(-starts // shares)) > 1:
        if warps <= MOST_WARPS and shared_bytes(warps) <= nvrtc.shared_limit(device):
            break
        shares += 1
    return warps


def _defines(runs: Runs, constants: EuboConstants) -> Defines:
    return (
        ("DIMENSION", runs.X.shape[-1]),
        ("MATERN", int(constants.matern)),
        ("ANCHORED", int(runs.anchor is not None)),
        ("IMPROVEMENT", int(constants.improvement)),
        ("THREADS", nvrtc.WARP * MOST_WARPS),
        ("BLOCKS", 1),
    )


def _shared_bytes(runs: Runs, matern: bool, warps: int) -> int:
    """What the kernel's run and each of its warps ask for."""
    n, columns = runs.weights.shape[-2:]
    d = runs.X.shape[-1]
    p = 2 * d if runs.anchor is None else d
    shared = d * (n | 1) + n * (columns | 1) + 2 * d
    # The Matérn kernel's slope is not its value: two more vectors.
    own = 2 * d + (4 if matern else 2) * n + columns + 10 * p + p * p
    return 8 * (shared + warps * own)
