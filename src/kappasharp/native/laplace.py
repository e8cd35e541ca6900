"""The MAP at known hyperparameters, the averaged curvature and what predictions need of both, as one launch."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.native import launch
from kappasharp.native.evidence import CORNER, PANEL, SMALL, AnswerBounds, row_of
from kappasharp.native.sources import Defines, Execute, Launch


class Plain(NamedTuple):
    """What each run is made of: C K Cᵀ (runs, m, m), differences z (runs, m) to start from, and what was answered.

    `bounds` where some answers are no plain wins. Where a root is wanted, the pairs (runs, m, 2), of how many designs
    they are, and the weights (runs, m) of comparisons if they have any.
    """

    gram: Tensor
    z: Tensor
    bounds: AnswerBounds | None = None
    pairs: Tensor | None = None
    designs: int = 0
    weight: Tensor | None = None


class Rules(NamedTuple):
    """The numbers that all runs share.

    `newton` are the MAP's: tolerance, plain and damped iterations. The curvature is averaged in so many `rounds`, 0 for
    that at the MAP, over the nodes and shares (2, count) of a normal quadrature. Without `search` z is the MAP already.
    """

    scale: float
    margin: float
    newton: tuple[float, int, int]
    rounds: int
    quadrature: tuple[Tensor, Tensor]
    search: bool = True


class Settled(NamedTuple):
    """α, z, ω for the covariance, log Z, the largest entry of α − slope, certificate and iterations; and the root."""

    alpha: Tensor
    z: Tensor
    omega: Tensor
    value: Tensor
    left: Tensor
    converged: Tensor
    iterations: Tensor
    root: Tensor


def executor(run: Plain) -> Execute | None:
    """What can do this; None where torch has to."""
    return launch.executor("laplace", run.gram, _defines(run), _shared_bytes(run.z.shape[-1]))


def condition(run: Plain, rules: Rules, execute: Execute) -> Settled:
    """MAP, curvature and root of every run; what was not asked for holds no numbers."""
    runs, m = run.z.shape
    n = run.designs
    alpha, z, omega = run.gram.new_empty(3, runs, m).unbind(0)
    value, left = run.gram.new_empty(2, runs).unbind(0)
    ended = torch.empty(runs, 2, dtype=torch.int32, device=run.gram.device)
    # One thread of the CPU writes nothing to the first: it has room of its own.
    half, root = run.gram.new_empty(runs, m if n else 0, m), run.gram.new_empty(runs, n, m)
    # What is not there is not read either: any pointer will do.
    bounds = (run.z,) * len(AnswerBounds._fields) if run.bounds is None else run.bounds
    pairs = ended if run.pairs is None else run.pairs.int()
    weight = run.z if run.weight is None else run.weight
    inputs = [part.contiguous() for part in (run.gram, run.z, pairs, weight, *bounds, *rules.quadrature)]
    tolerance, plain, damped = rules.newton
    execute(
        Launch(
            kernel="laplace",
            defines=_defines(run),
            blocks=runs,
            threads=_threads(m),
            shared_bytes=_shared_bytes(m),
            own_bytes=8 * (3 * m * row_of(m) + 10 * m + 3 * row_of(m)),
            arguments=(
                *inputs, alpha, z, omega, value, left, ended, half, root,
                m, n, len(rules.quadrature[0]), rules.rounds, int(run.bounds is not None), int(run.weight is not None),
                int(rules.search), float(rules.scale), float(rules.margin), float(tolerance), plain, damped,
            ),
        )
    )  # fmt: skip
    converged, iterations = ended.long().unbind(-1)
    return Settled(alpha, z, omega, value, left, converged == 1, iterations, root)


def _threads(m: int) -> int:
    return 64 if m <= SMALL else 128


def _defines(run: Plain) -> Defines:
    threads = _threads(run.z.shape[-1])
    graded = int(run.bounds is not None)
    return ("GRADED", graded), ("MATERN", 0), ("THREADS", threads), ("BLOCKS", 512 // threads)


def _shared_bytes(m: int) -> int:
    """What Conditioning::place asks for on a device, and what the factorizations use beside."""
    spare = max(2 * PANEL * m + CORNER, -(-m // PANEL) * CORNER)
    return 8 * (m * ((m + 2) | 1) + 11 * m + spare)
