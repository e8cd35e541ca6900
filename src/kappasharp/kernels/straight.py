"""The ascent of EUBO through outcomes that are nearly straight in the design, as one launch: one warp a start."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.kernels import compiled, launch, nvrtc
from kappasharp.kernels.eubo import MOST_WARPS, MOST_WEIGHTS, READ_ONCE, EuboConstants, warps_within
from kappasharp.kernels.evidence import Found
from kappasharp.kernels.sources import Defines, Execute, Launch


class StraightRuns(NamedTuple):
    """A posterior over parameters and outcomes, arranged for EUBO: of each its length scales and scaled points."""

    near_scales: Tensor
    seen_scales: Tensor
    shares: Tensor
    outputscale: Tensor
    X: Tensor
    Y: Tensor
    weights: Tensor


class Lines(NamedTuple):
    """Starts (runs, starts, 2d), of their designs outcomes (…, 2, k), slopes and bends (…, 2, d, k), and a box."""

    start: Tensor
    outcomes: Tensor
    J: Tensor
    B: Tensor
    low: Tensor
    high: Tensor


def executor(runs: StraightRuns, constants: EuboConstants, start: Tensor) -> Execute | None:
    """What can do this; None where torch has to."""
    if start.device.type == "cpu" and start.shape[1] > 1 and runs.weights.numel() > MOST_WEIGHTS * len(runs.weights):
        launch.passed_by("straight", READ_ONCE)
        return None
    return launch.executor("straight", start, _defines(runs, constants), _shared_bytes(runs, constants.matern, 1))


def minimize(runs: StraightRuns, lines: Lines, constants: EuboConstants, execute: Execute) -> Found:
    """The minimum of −EUBO from every start in its box."""
    count, starts, p = lines.start.shape
    n, columns = runs.weights.shape[-2:]
    x = lines.start.new_empty(count * starts, p)
    value, gradient = x.new_empty(len(x)), torch.empty_like(x)
    ended = x.new_empty((len(x), 3), dtype=torch.int32)
    matern, device = constants.matern, lines.start.device
    warps = 1
    if execute is not compiled.execute:
        warps = warps_within(starts, device, lambda warps: _shared_bytes(runs, matern, warps))
    shares = -(-starts // warps)
    kinds = (int(constants.matern), int(constants.improvement))
    sizes = (n, columns, runs.X.shape[-1], runs.Y.shape[-1], *kinds, starts, shares)
    reals = [float(value) for value in (constants.least_variance, *constants.limits)]
    execute(
        Launch(
            kernel="straight",
            defines=_defines(runs, constants),
            blocks=count * shares,
            threads=nvrtc.WARP * warps,
            shared_bytes=_shared_bytes(runs, constants.matern, warps),
            # The CPU has one vector more for each kernel, and for their sum.
            own_bytes=_shared_bytes(runs, constants.matern, 1) + 24 * n,
            arguments=(
                *(part.contiguous() for part in (*runs, *lines)), x, value, gradient, ended,
                *sizes, *reals, constants.max_rounds,
            ),
        )
    )  # fmt: skip
    converged, rounds, steps = ended.long().unbind(-1)
    return Found(x, value, gradient, converged == 1, rounds, steps)


def _defines(runs: StraightRuns, constants: EuboConstants) -> Defines:
    return (
        ("DIMENSION", runs.X.shape[-1]),
        ("SEEN", runs.Y.shape[-1]),
        ("MATERN", int(constants.matern)),
        ("IMPROVEMENT", int(constants.improvement)),
        ("THREADS", nvrtc.WARP * MOST_WARPS),
        ("BLOCKS", 1),
    )


def _shared_bytes(runs: StraightRuns, matern: bool, warps: int) -> int:
    """What the kernel's run and each of its warps ask for."""
    n, columns = runs.weights.shape[-2:]
    d, k = runs.X.shape[-1], runs.Y.shape[-1]
    p = 2 * d
    shared = (d + k) * (n | 1) + n * (columns | 1) + 2 * n + d + k
    own = 2 * d + 4 * k + 3 * (4 if matern else 2) * n + columns + 10 * p + p * p
    return 8 * (shared + warps * own)
