"""K's inverse and the Hessian of the negative log-posterior as one launch."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.native import launch
from kappasharp.native.evidence import CORNER, PANEL, row_of
from kappasharp.native.sources import Defines, Execute, Launch

THREADS = 128
DEFINES: Defines = (("THREADS", THREADS), ("BLOCKS", 2))


class Precision(NamedTuple):
    """H (runs, n, n), diag K⁻¹ (runs, n), and whether K was positive definite; where not, 1 is in its place."""

    H: Tensor
    own: Tensor
    usable: Tensor


def executor(K: Tensor) -> Execute | None:
    """What can do this; None where torch has to."""
    return launch.factoring("precision", K, DEFINES, _shared_bytes(K.shape[-1]))


def invert(K: Tensor, pairs: Tensor, omega: Tensor, execute: Execute) -> Precision:
    """K⁻¹ + Cᵀ diag(ω) C of every run, for pairs (runs, m, 2) with weights omega (runs, m)."""
    runs, n = K.shape[:2]
    H, own, usable = torch.empty_like(K), K.new_empty(runs, n), torch.empty(runs, dtype=torch.int32, device=K.device)
    execute(
        Launch(
            kernel="precision",
            defines=DEFINES,
            blocks=runs,
            threads=THREADS,
            shared_bytes=_shared_bytes(n),
            own_bytes=8 * (n + (3 * n + 1) * row_of(n)),
            arguments=(
                K.contiguous(), pairs.int().contiguous(), omega.contiguous(), H, own, usable, n, omega.shape[-1],
            ),
        )
    )  # fmt: skip
    return Precision(H, own, usable == 1)


def _shared_bytes(n: int) -> int:
    """What the matrix and `sweep` ask for on a device."""
    return 8 * (n * ((n + 2) | 1) + n + 2 * PANEL * n + CORNER)
