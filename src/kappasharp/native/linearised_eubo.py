"""A round of the ascent of EUBO through outcomes that are nearly straight in the design, as one launch."""

from typing import NamedTuple

from torch import Tensor

from kappasharp.native import compiler, launch, nvrtc
from kappasharp.native.eubo import MOST_WARPS, MOST_WEIGHTS, READ_ONCE, EuboConstants, warps_within
from kappasharp.native.sources import Defines, Execute, Launch


class StraightRuns(NamedTuple):
    """A posterior over parameters and outcomes, arranged for EUBO: of each its length scales and scaled points."""

    near_scales: Tensor
    seen_scales: Tensor
    shares: Tensor
    outputscale: Tensor
    X: Tensor
    Y: Tensor
    weights: Tensor


class Way(NamedTuple):
    """Where every start (rows,) is, to be written to.

    Its designs (rows, 2, d), their outcomes (…, 2, k), slopes and bends (…, 2, d, k); where it looks next, −EUBO, how
    far outcomes are believed, what a look promises, whether it has ended, and its rounds.
    """

    points: Tensor
    outcomes: Tensor
    J: Tensor
    B: Tensor
    trial: Tensor
    value: Tensor
    radius: Tensor
    promised: Tensor
    ended: Tensor
    rounds: Tensor


class Trust(NamedTuple):
    """What a look is worth, by share of what was promised, and what becomes of how far outcomes are believed."""

    least_radius: float
    poor: float
    good: float
    shorter: float
    longer: float
    least_step: float


class Stages(NamedTuple):
    """What a launch does: moves after a look, looks for where to look next, learns bends."""

    moves: bool
    solves: bool
    bends: bool


def executor(runs: StraightRuns, constants: EuboConstants, starts: int) -> Execute | None:
    """What can do this; None where torch has to."""
    like = runs.weights
    if like.device.type == "cpu" and starts > 1 and like.numel() > MOST_WEIGHTS * len(like):
        launch.passed_by("straight", READ_ONCE)
        return None
    return launch.executor("straight", like, _defines(runs, constants), _shared_bytes(runs, constants.matern, 1))


def advance(
    runs: StraightRuns,
    way: Way,
    looked: tuple[Tensor, ...],
    constants: EuboConstants,
    rules: Trust,
    *,
    stages: Stages,
    execute: Execute,
) -> None:
    """A round of every start, written to its way.

    `looked` is the box (rows, 2d) of its designs, and outcomes and slopes of those that it looked at last.
    """
    count, n, columns = runs.weights.shape
    starts = way.points.shape[0] // count
    matern, device = constants.matern, runs.weights.device
    warps = 1
    if execute is not compiler.execute:
        warps = warps_within(starts, device, lambda warps: _shared_bytes(runs, matern, warps))
    shares = -(-starts // warps)
    kinds = (int(constants.matern), int(constants.improvement))
    sizes = (n, columns, runs.X.shape[-1], runs.Y.shape[-1], *kinds, starts, shares)
    outputs = (way.trial, way.value, way.radius, way.promised, way.ended, way.rounds)
    execute(
        Launch(
            kernel="straight",
            defines=_defines(runs, constants),
            blocks=count * shares,
            threads=nvrtc.WARP * warps,
            shared_bytes=_shared_bytes(runs, matern, warps),
            # The CPU has one vector more for each kernel, and for their sum.
            own_bytes=_shared_bytes(runs, matern, 1) + 24 * n,
            arguments=(
                *runs, *way[:4], *looked, *outputs, *sizes, *map(int, stages),
                constants.least_variance, *constants.limits, constants.max_rounds, *rules,
            ),
        )
    )  # fmt: skip


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
    own = 2 * d + 4 * k + 3 * (4 if matern else 2) * n + columns + 12 * p + p * p
    return 8 * (shared + warps * own)
