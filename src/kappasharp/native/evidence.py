"""The search for hyperparameters as one launch: one thread block a row, each at its own pace."""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.native import launch, nvrtc
from kappasharp.native.sources import Defines, Execute, Launch

PANEL, CORNER = 8, 36
# Below this many comparisons a block of two warps does; above it, of four.
SMALL = 32


class Rows(NamedTuple):
    """What each row's evidence is made of: end points (rows, 2m, d), C Cᵀ (rows, m, m), starts of θ and of z.

    Where comparisons have weights (rows, m) and share noise (rows, m, m), those too; where several people answered, who
    gave each answer (rows, m), int32, −1 for nobody; and where some are no plain wins, the bounds of each.
    """

    E: Tensor
    gram: Tensor
    theta: Tensor
    z: Tensor
    weight: Tensor | None = None
    noise: Tensor | None = None
    voter: Tensor | None = None
    bounds: "AnswerBounds | None" = None


class AnswerBounds(NamedTuple):
    """Of every answer (rows, m) whether y lay within `half` of `centre` (1) or above `half` (0), or its time (above 0).

    Also the nodes and weights (2, 64) of the quadrature over such an interval.
    """

    between: Tensor
    centre: Tensor
    half: Tensor
    time: Tensor
    nodes: Tensor


class PriorTerms(NamedTuple):
    """The log prior a t + b exp t + c (t − t₀)², summed over t = log ℓ_j, plus e (Σ (t_j − t₀))²; and, for the output
    scale alone, a t + c (t − t₀)² at t = log s.

    Of a sum of two kernels the second one's t₀ and e are its own, the scale is both together, and the logarithm of
    their ratio has a term c (t − t₀)². So have logit ρ and every log c of several people.
    """

    linear: float = 0.0
    exponential: float = 0.0
    quadratic: float = 0.0
    centre: float = 0.0
    joint: float = 0.0
    second_centre: float = 0.0
    second_joint: float = 0.0
    scale_linear: float = 0.0
    scale_quadratic: float = 0.0
    scale_centre: float = 0.0
    ratio_quadratic: float = 0.0
    ratio_centre: float = 0.0
    shared_quadratic: float = 0.0
    shared_centre: float = 0.0
    consistency_quadratic: float = 0.0
    consistency_centre: float = 0.0


class EvidenceConstants(NamedTuple):
    """The numbers that all rows share.

    `split` is how many coordinates the first of two kernels has, 0 where there is one only; `voters` how many people
    answered, 0 where they are not told apart. `limits` are descent's: gradient, decrease, longest step, sufficient
    decrease, shortest step; `newton` are the MAP's: tolerance, plain and damped iterations.
    """

    matern: bool
    nugget: float
    scale: float
    margin: float
    prior: PriorTerms
    newton: tuple[float, int, int]
    limits: tuple[float, float, float, float, float]
    max_rounds: int
    split: int = 0
    voters: int = 0

    @property
    def after_lengths(self) -> int:
        """How many hyperparameters follow the length scales."""
        return (2 if self.split else 1) + (1 + self.voters if self.voters else 0)


class Found(NamedTuple):
    """Where each row ended, and its work: rounds of descent, Newton steps; and the last MAP that it found."""

    x: Tensor
    value: Tensor
    gradient: Tensor
    converged: Tensor
    rounds: Tensor
    steps: Tensor
    z: Tensor | None = None


def executor(rows: Rows, constants: EvidenceConstants) -> Execute | None:
    """What can do this; None where torch has to."""
    m, d = rows.z.shape[-1], rows.E.shape[-1]
    return launch.executor("evidence", rows.theta, _defines(constants, rows), _shared_bytes(m, d, constants))


def minimize(rows: Rows, box: tuple[Tensor, Tensor], constants: EvidenceConstants, execute: Execute) -> Found:
    """The minimum of every row's negative log posterior in a box, low and high of θ, that all rows share."""
    count, m = rows.z.shape
    x = torch.empty_like(rows.theta, memory_format=torch.contiguous_format)
    value, gradient = x.new_empty(count), torch.empty_like(x)
    ended, reached = x.new_empty((count, 3), dtype=torch.int32), x.new_empty(count, m)
    # What is not there is not read either: any pointer will do.
    own = rows[:-1] + ((None,) * len(AnswerBounds._fields) if rows.bounds is None else rows.bounds)
    parts = [rows.z if part is None else part for part in own]
    tensors = [part.contiguous() for part in (*parts, *box)]
    tolerance, plain, damped = constants.newton
    # An int among the doubles would be passed as one.
    reals = [float(value) for value in (constants.nugget, 1.0 / constants.scale**2, constants.margin, tolerance)]
    rules = [float(value) for value in (*constants.prior, *constants.limits)]
    d = rows.E.shape[-1]
    execute(
        Launch(
            kernel="evidence",
            defines=_defines(constants, rows),
            blocks=count,
            threads=_threads(m),
            shared_bytes=_shared_bytes(m, d, constants),
            own_bytes=_own_bytes(m, d, constants),
            arguments=(
                *tensors, x, value, gradient, ended, reached,
                m, d, int(constants.matern), int(rows.weight is not None), int(rows.bounds is not None),
                constants.split, constants.voters, *reals, plain, damped, *rules, constants.max_rounds,
            ),
        )
    )  # fmt: skip
    converged, rounds, steps = ended.long().unbind(-1)
    return Found(x, value, gradient, converged == 1, rounds, steps, reached)


def _threads(m: int) -> int:
    return 64 if m <= SMALL else 128


def _defines(constants: EvidenceConstants, rows: Rows) -> Defines:
    """As many blocks a multiprocessor as leaves a thread 128 registers."""
    threads = _threads(rows.z.shape[-1])
    kinds = {"DETAIL": rows.weight is not None, "GRADED": rows.bounds is not None, "PEOPLE": constants.voters > 0}
    values = (("DIMENSION", rows.E.shape[-1]), ("MATERN", int(constants.matern)), ("SPLIT", constants.split))
    return *values, *((name, int(on)) for name, on in kinds.items()), ("THREADS", threads), ("BLOCKS", 512 // threads)


def _shared_bytes(m: int, d: int, constants: EvidenceConstants) -> int:
    """What Evidence::place and Row::place ask for on a device."""
    p, people = d + constants.after_lengths, int(constants.voters > 0)
    square, sums = m * ((m + 2) | 1), p - constants.voters
    area = max(2 * m * d, 2 * PANEL * m + CORNER, -(-m // PANEL) * CORNER)
    vectors = (9 + 2 * people) * m + sums + _threads(m) // nvrtc.WARP * sums
    return 8 * (square + area + vectors + 10 * p + p * p)


def row_of(m: int) -> int:
    """How many numbers a row of an m × m matrix has on the CPU, with its right-hand side. (cpu/factor.hpp)"""
    return PANEL * ((m + PANEL) // PANEL | 1)


def _own_bytes(m: int, d: int, constants: EvidenceConstants) -> int:
    """The same on the CPU, where every end point may be a design of its own."""
    p, stride, most = d + constants.after_lengths, row_of(m), 2 * m
    squares = 5 if constants.split else 3
    contrasts = most + most * d + squares * most * most + m + most + d + 1 + m + (m + 2) * stride
    return 8 * (2 * m * stride + contrasts + 9 * m + 10 * p + p * p)
