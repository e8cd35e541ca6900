"""The search for a correction's strength as one launch: one thread block a run, each at its own pace."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.native import launch
from kappasharp.native.evidence import CORNER, PANEL, row_of
from kappasharp.native.sources import Defines, Execute, Launch

THREADS = 128
DEFINES: Defines = (("THREADS", THREADS), ("BLOCKS", 2))


class Strengths(NamedTuple):
    """η* of every run, the condition numbers without and with it; where one is not `sure`, torch has to search."""

    eta: Tensor
    before: Tensor
    after: Tensor
    sure: Tensor


def executor(H: Tensor) -> Execute | None:
    """What can do this; None where torch has to."""
    return launch.factoring("calibration", H, DEFINES, _shared_bytes(H.shape[-1]))


def search(
    H: Tensor, a: Tensor, grid: Tensor, exponent: float, execute: Execute, *, rounds: int, accuracy: float, least: float
) -> Strengths:
    """The strengths at which the condition numbers of H (runs, n, n) fall to their powers 1 − `exponent`.

    `grid` holds the strengths of which none before η* may do, `a` the prior precisions. At most `rounds` are tried,
    none below `least`, and a condition number meets its target to this relative `accuracy`.
    """
    runs, n = a.shape
    eta, before, after = a.new_empty(3, runs).unbind(0)
    sure = torch.empty(runs, dtype=torch.int32, device=a.device)
    known = a.new_empty(runs, rounds + 1, 2 * n + 2)
    execute(
        Launch(
            kernel="calibration",
            defines=DEFINES,
            blocks=runs,
            threads=THREADS,
            shared_bytes=_shared_bytes(n),
            own_bytes=8 * ((2 * n + 2) * row_of(n) + 4 * n + 1),
            arguments=(
                H.contiguous(), a.contiguous(), grid.contiguous(), known, eta, before, after, sure,
                n, len(grid), rounds, float(exponent), float(accuracy), float(least),
            ),
        )
    )  # fmt: skip
    return Strengths(eta, before, after, sure == 1)


def _shared_bytes(n: int) -> int:
    """What Calibration::place and `sweep` ask for on a device."""
    return 8 * (n * ((n + 2) | 1) + 5 * n + 2 * PANEL * n + CORNER)
