"""The MAP with a correction as one launch, on the CPU: what a correction leaves of the prior, and the MAP under it."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.native import launch
from kappasharp.native.evidence import AnswerBounds, row_of
from kappasharp.native.sources import Execute, Launch


class WithCorrection(NamedTuple):
    """What each run is made of: K (runs, n, n), √r (runs, n), C K Cᵀ (runs, m, m), differences z to start from, pairs.

    `bounds` where some answers are no plain wins.
    """

    K: Tensor
    root: Tensor
    gram: Tensor
    z: Tensor
    pairs: Tensor
    bounds: AnswerBounds | None = None


class Moved(NamedTuple):
    """α and z at the MAP, the largest entry of α − slope, certificate and iterations; K⁻¹ f and f."""

    alpha: Tensor
    z: Tensor
    left: Tensor
    converged: Tensor
    iterations: Tensor
    beta: Tensor
    f: Tensor


def executor(K: Tensor) -> Execute | None:
    """What can do this; None where torch has to."""
    if K.device.type != "cpu":
        launch.passed_by("shrunken", "on a device")
        return None
    return launch.factoring("shrunken", K, (), 0)


def find_map(
    run: WithCorrection, scale: float, margin: float, newton: tuple[float, int, int], execute: Execute
) -> Moved:
    """The MAP of every run; `newton` are its tolerance, plain and damped iterations."""
    runs, m = run.z.shape
    n = run.K.shape[-1]
    alpha, z = run.K.new_empty(2, runs, m).unbind(0)
    beta, f = run.K.new_empty(2, runs, n).unbind(0)
    left, ended = run.K.new_empty(runs), torch.empty(runs, 2, dtype=torch.int32)
    # What is not there is not read either: any pointer will do.
    bounds = (run.z,) * len(AnswerBounds._fields) if run.bounds is None else run.bounds
    inputs = [part.contiguous() for part in (run.K, run.root, run.gram, run.z, run.pairs.int(), *bounds)]
    tolerance, plain, damped = newton
    execute(
        Launch(
            kernel="shrunken",
            defines=(),
            blocks=runs,
            threads=1,
            shared_bytes=0,
            own_bytes=8 * ((2 * m + n) * row_of(m) + (n + 2) * row_of(n) + 2 * n + 9 * m + 2 * row_of(m)),
            arguments=(
                *inputs, alpha, z, left, ended, beta, f, m, n, int(run.bounds is not None),
                float(scale), float(margin), float(tolerance), plain, damped,
            ),
        )
    )  # fmt: skip
    converged, iterations = ended.long().unbind(-1)
    return Moved(alpha, z, left, converged == 1, iterations, beta, f)
