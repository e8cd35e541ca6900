"""The MAP of J₀(f) + ½ fᵀ diag(r) f by Newton's method in comparison space, with a certificate per run.

Notation
    K      (*batch, n, n)  prior covariance
    r      (*batch, n)     diagonal of the correction R, zero included                          [eq:augmented_map]
    A      (*batch, m, m)  C K_r Cᵀ/(2σ²) with K_r = (K⁻¹ + R)⁻¹: prior covariance of the standardised differences
    z      (*batch, m)     standardised differences C f/(σ√2)
    alpha  (*batch, m)     dual weights: z = A α and f = K_r Cᵀ α/(σ√2); at the MAP α is the slope of log p at z
    omega  (*batch, m)     −d² log p/dz²
    B      (*batch, m, m)  I + ω^½ A ω^½, well conditioned however singular K or A may be
    K_r    (*batch, n, n)  (K⁻¹ + R)⁻¹, and A_r = C K_r Cᵀ

Nothing here inverts K. The gradient of the objective in f is Cᵀ(α − slope)/(σ√2), so its size is known exactly.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from kappasharp.inference import comparisons, likelihood
from kappasharp.inference.comparisons import Incidence
from kappasharp.inference.likelihood import Probit, Sites, Ties
from kappasharp.native import corrected_map, laplace, launch
from kappasharp.native.sources import Execute
from kappasharp.tensors import (
    ComparisonMatrix,
    Indices,
    PerComparison,
    PerRun,
    PerRunMask,
    PointMatrix,
    Points,
    Utilities,
    apply,
    put,
    take,
)

# Plain Newton steps settle within six or so; what has not settled after PLAIN of them is damped.
PLAIN_ITERATIONS = 15
DAMPED_ITERATIONS = 200
# From how many answers on a MAP that nothing is known of starts from every second one's, in single precision.
MANY = 300
# Nodes and rounds of the averaged curvature: on average within some two per cent of its fixed point, which serves the
# questions as well as the fixed point itself.
HERMITE_NODES, AVERAGING_ROUNDS = 24, 6
# With MANY answers a round is dear and there are fewer. The second steps over half of the gap to the fixed point, each
# further one over the share that the last two say, within these bounds: nearer, for two rounds less.
LONG_ROUNDS, SHARES = 4, (0.2, 1.0)

# Why no kernel does it.
NOT_FOR_KERNELS = f"without answers, with more than {MANY}, or with a derivative"

T = TypeVar("T")


class DualFit(NamedTuple):
    """The MAP in comparison space, and how well it was reached."""

    alpha: PerComparison
    z: PerComparison
    converged: PerRunMask
    iterations: Indices
    gradient_norm: PerRun


class MapFit(NamedTuple):
    """The MAP f, β = K⁻¹ f for predictions, and its certificate."""

    f: Utilities
    beta: Utilities
    dual: DualFit


class Conditioned(NamedTuple):
    """The posterior given K: the MAP, a root for predictions as in posterior.py, and log Z.

    `gram` is C K Cᵀ and L the Cholesky factor of B at the MAP, which further answers border; None where the fit worked
    on points, and L where it was one launch.
    """

    K: PointMatrix
    C: Incidence
    ties: Ties
    map: MapFit
    root: Points
    value: PerRun
    gram: ComparisonMatrix | None = None
    L: ComparisonMatrix | None = None


def tolerance(dtype: torch.dtype) -> float:
    """The largest entry of α − slope in a solve that is called converged: √ε of the precision."""
    return math.sqrt(torch.finfo(dtype).eps)


def information(A: ComparisonMatrix, root: PerComparison) -> ComparisonMatrix:
    """B = I + ω^½ A ω^½, given ω^½."""
    B = (A * root.unsqueeze(-1)).mul_(root.unsqueeze(-2))
    B.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return B


def factor(A: ComparisonMatrix, root: PerComparison) -> ComparisonMatrix:
    """Cholesky factor of B.

    B's eigenvalues are at least 1, so only NaN can make it fail, and NaN never passes the certificate.
    """
    return torch.linalg.cholesky_ex(information(A, root))[0]


def solve(
    A: ComparisonMatrix,
    margin: float,
    start: PerComparison,
    ties: Ties = None,
) -> DualFit:
    """Minimise ½ αᵀAα − Σ log p(Aα) from the differences z = `start` (near the last MAP's, they change little with A).

    A run that does not settle is damped, and never stops the others.
    """
    if start.shape[-1] == 0:
        none = start.new_zeros(start.shape[:-1])
        return DualFit(start, start, none == 0, none.long(), none)
    fit, settled = _plain(A, margin, start, ties)
    return fit if settled else damp(fit, A, margin, ties)


def first_guess(A: ComparisonMatrix, margin: float, ties: Ties = None) -> PerComparison:
    """Differences to start from where none are known: zero, or with many answers the MAP in single precision.

    A step costs half as much there, and two steps lead from it to the MAP.
    """
    if A.shape[-1] <= MANY:
        return A.new_zeros(A.shape[:-1])
    single, marks = A.float(), _shaped(ties, lambda part: part.float() if part.is_floating_point() else part)
    # Of half the answers that do not settle nothing is predicted.
    start = _from_half(single, margin, marks).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    if A.dtype == single.dtype:
        return start
    found, settled = _plain(single, margin, start, marks)
    return (found.z if settled else start).to(A)


def _from_half(A: Tensor, margin: float, ties: Ties) -> Tensor:
    """Zero, or of many answers what half of them predict for all.

    A step of half the answers costs an eighth, and what they predict is near: half of the full steps are saved.
    """
    if A.shape[-1] <= MANY:
        return A.new_zeros(A.shape[:-1])
    some, marks = A[..., ::2, ::2].contiguous(), _shaped(ties, lambda part: part[..., ::2])
    return apply(A[..., ::2], _plain(some, margin, _from_half(some, margin, marks), marks)[0].alpha)


def _plain(A: Tensor, margin: float, start: Tensor, ties: Ties) -> tuple[DualFit, bool]:
    """Full Newton steps; a run that has settled stays where it is, so that its result does not depend on company."""
    limit, alone = tolerance(A.dtype), start.shape[:-1].numel() == 1
    sites, z = likelihood.sites(start, margin, ties), start
    alpha = gradient = settled = torch.empty(0)
    iterations = torch.zeros(start.shape[:-1], dtype=torch.long, device=start.device)
    for count in range(PLAIN_ITERATIONS):
        target = newton_target(A, z, sites)
        alpha = target if alone or not count else torch.where(settled, alpha, target)
        z = apply(A, alpha)
        sites = likelihood.sites(z, margin, ties)
        gradient = (alpha - sites.slope).abs_().amax(-1)
        iterations = iterations + 1 if alone or not count else iterations + ~settled.squeeze(-1)
        if float(gradient.max()) <= limit:
            return DualFit(alpha, z, gradient <= limit, iterations, gradient), True
        settled = (gradient <= limit).unsqueeze(-1)
    return DualFit(alpha, z, gradient <= limit, iterations, gradient), False


def damp(fit: DualFit, A: ComparisonMatrix, margin: float, ties: Ties) -> DualFit:
    """Start the runs without certificate again from zero, with steps halved until the objective falls."""
    rows = (~fit.converged.reshape(-1)).nonzero().squeeze(-1)
    if not len(rows):
        return fit
    runs, m = fit.converged.numel(), fit.alpha.shape[-1]
    part = _solve_damped(A.reshape(-1, m, m)[rows], margin, take(_shaped(ties, lambda part: part.reshape(-1, m)), rows))
    flat = [whole.reshape(runs, *new.shape[1:]) for whole, new in zip(fit, part, strict=True)]
    merged = put(DualFit(*flat), part, rows)
    return DualFit(*(new.reshape(whole.shape) for whole, new in zip(fit, merged, strict=True)))


def _shaped(ties: T, change: Callable[[Tensor], Tensor]) -> T:
    """The marks of all answers, each tensor of them changed."""
    if isinstance(ties, tuple):
        return cast(T, type(ties)(*(change(part) for part in ties)))
    return ties if ties is None else cast(T, change(cast(Tensor, ties)))


def _solve_damped(A: Tensor, margin: float, ties: Ties) -> DualFit:
    alpha = z = A.new_zeros(A.shape[:-1])
    limit = tolerance(A.dtype)
    J = -likelihood.log_probability(z, margin, ties).sum(-1)
    step = torch.ones_like(J)
    iterations = torch.zeros_like(J, dtype=torch.long)
    for _ in range(DAMPED_ITERATIONS):
        sites = likelihood.sites(z, margin, ties)
        gradient = (alpha - sites.slope).abs().amax(-1)
        moving = ~(gradient <= limit)
        if not bool(moving.any()):
            break
        iterations = iterations + moving
        move = (newton_target(A, z, sites) - alpha) * (step * moving).unsqueeze(-1)
        trial = alpha + move
        z_trial = apply(A, trial)
        J_trial = 0.5 * (trial * z_trial).sum(-1) - likelihood.log_probability(z_trial, margin, ties).sum(-1)
        better = J_trial <= J + rounding(A, trial, J)
        keep = better.unsqueeze(-1)
        alpha, z = torch.where(keep, trial, alpha), torch.where(keep, z_trial, z)
        J = torch.where(better, J_trial, J)
        step = torch.where(better, torch.ones_like(step), step * 0.5)
    gradient = (alpha - likelihood.sites(z, margin, ties).slope).abs().amax(-1)
    return DualFit(alpha, z, gradient <= limit, iterations + PLAIN_ITERATIONS, gradient)


def rounding(A: Tensor, alpha: Tensor, J: Tensor) -> Tensor:
    """What rounding may add to the objective J at α, which must not reject a step that is right.

    A few units in its last place; and those of z = A α, of which no part is larger than max A_pp Σ|α|.
    """
    of_z = A.diagonal(dim1=-2, dim2=-1).amax(-1) * alpha.abs().sum(-1).square()
    return torch.finfo(J.dtype).eps * (64.0 * (1.0 + J.abs()) + of_z)


def newton_target(A: Tensor, z: Tensor, sites: Sites, L: Tensor | None = None) -> Tensor:
    """The α at which the local quadratic model is stationary (Rasmussen and Williams, algorithm 3.1).

    L is the factor of B at these sites, where it is known.
    """
    root = sites.omega.sqrt()
    b = torch.addcmul(sites.slope, sites.omega, z)
    L = factor(A, root) if L is None else L
    inner = torch.cholesky_solve((root * apply(A, b)).unsqueeze(-1), L).squeeze(-1)
    return torch.addcmul(b, root, inner, value=-1.0)


def average(
    prior: PerComparison,
    variance: Callable[[PerComparison], PerComparison],
    z: PerComparison,
    margin: float,
    ties: Ties = None,
) -> PerComparison:
    """ω averaged over the posterior of every difference instead of taken at the MAP z.

    At a MAP far from indifference ω vanishes, and with it all that the answer taught, although the posterior may still
    reach across. The average is what the covariance of a variational Gaussian uses (Opper and Archambeau 2009), here
    with the mean held at the MAP. Given are the prior variance of the differences and the posterior's as a function of
    ω. The first round averages over the prior, each further one is a geometric half-step to the fixed point, or with
    many answers a secant's.
    """
    if z.shape[-1] == 0:
        return z
    nodes, shares = _hermite(z.dtype, z.device)
    all_ties = _shaped(ties, lambda part: part.unsqueeze(-1).expand(*part.shape, HERMITE_NODES))
    is_long, least = z.shape[-1] > MANY, torch.finfo(z.dtype).tiny
    omega = moved = before = z
    for count in range(LONG_ROUNDS if is_long else AVERAGING_ROUNDS):
        # Not zero, where the root would have no derivative.
        spread = (variance(omega) if count else prior).clamp(min=least).sqrt()
        around = torch.addcmul(z.unsqueeze(-1), spread.unsqueeze(-1), nodes)
        mean = likelihood.sites(around, margin, all_ties).omega @ shares
        if not is_long:
            omega = (omega * mean).sqrt() if count else mean
            continue
        mean = mean.clamp(min=least)
        if not count:
            omega = mean
            continue
        gap = (mean / omega).log()
        moved = gap * (0.5 if count == 1 else _secant(moved, before - gap))
        omega, before = omega * moved.exp(), gap
    return omega


def _secant(moved: Tensor, closed: Tensor) -> Tensor:
    """The share of a gap to step over, where the last step closed so much of it; half of it where it closed nothing."""
    known = closed.abs() > torch.finfo(closed.dtype).eps
    return torch.where(known, moved / torch.where(known, closed, 1.0), 0.5).clamp(*SHARES)


def explained(A: Tensor, columns: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
    """How much of the prior variance of these columns of A the answers explain, and the factor of B."""
    L = factor(A, root)
    return torch.linalg.solve_triangular(L, root.unsqueeze(-1) * columns, upper=False).square().sum(-2), L


@cache
def _hermite(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Gauss–Hermite nodes and weights for a standard normal, from the eigenvalues of the Jacobi matrix."""
    # Kept between calls, so they must not be tied to the mode they happen to be made in.
    with torch.inference_mode(mode=False):
        off_diagonal = torch.arange(1, HERMITE_NODES, dtype=torch.float64).sqrt()
        nodes, vectors = torch.linalg.eigh(torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1))
        return nodes.to(device, dtype), vectors[0].square().to(device, dtype)


def launched(
    model: Probit,
    gram: ComparisonMatrix,
    z: PerComparison,
    ties: Ties = None,
    *,
    averaged: bool = False,
    search: bool = True,
    C: Incidence | None = None,
    execute: Execute | None = None,
) -> laplace.Settled | None:
    """The MAP from differences z, or z itself as the MAP, and its curvature, as one launch, of `execute` if given.

    None where there is no kernel for these runs. With C the root of `comparison_space.information_root` is made too.
    """
    batch, m = gram.shape[:-2], gram.shape[-1]
    if not 0 < m <= MANY or gram.requires_grad or z.shape[:-1] != batch or (C and C.pairs.shape[:-2] != batch):
        launch.passed_by("laplace", NOT_FOR_KERNELS)
        return None
    marks = None if ties is None else likelihood.bounds(_shaped(ties, lambda part: part.reshape(-1, m)), model.margin)
    run = laplace.Plain(gram.reshape(-1, m, m), z.reshape(-1, m), marks)
    if C is not None:
        weight = None if C.detail is None else C.detail.weight.to(gram).reshape(-1, m)
        run = run._replace(pairs=C.pairs.reshape(-1, m, 2), designs=C.n_points, weight=weight)
    execute = execute or laplace.executor(run)
    if execute is None:
        return None
    newton = tolerance(gram.dtype), PLAIN_ITERATIONS, DAMPED_ITERATIONS
    rounds, quadrature = AVERAGING_ROUNDS if averaged else 0, _hermite(gram.dtype, gram.device)
    found = laplace.condition(
        run, laplace.Rules(model.scale, model.margin, newton, rounds, quadrature, search), execute
    )
    return laplace.Settled(*(part.reshape((*batch, *part.shape[1:])) for part in found))


def dual_of(found: laplace.Settled) -> DualFit:
    """The MAP that a launch found."""
    return DualFit(found.alpha, found.z, found.converged, found.iterations, found.left)


def shrink(K: PointMatrix, r: Utilities) -> tuple[PointMatrix, PointMatrix]:
    """K_r = (K⁻¹ + R)⁻¹ and Q = K⁻¹ − K⁻¹ K_r K⁻¹ = R^½ (I + R^½ K R^½)⁻¹ R^½, for any r ≥ 0, without K⁻¹."""
    root = r.sqrt()
    half = torch.linalg.solve_triangular(factor(K, root), torch.diag_embed(root), upper=False)
    Q = half.mT @ half
    half_K = half @ K
    return K - half_K.mT @ half_K, Q


def _moved(model: Probit, K: Tensor, C: Incidence, r: Tensor, z: Tensor, *, ties: Ties, gram: Tensor) -> MapFit | None:
    """`find_map` with a correction, from differences z, as one launch; None where there is no kernel for these runs."""
    m, is_flat = gram.shape[-1], K.shape[:-2].numel() == len(K) == len(z) == len(C.pairs)
    execute = (
        corrected_map.executor(K) if is_flat and C.detail is None and 0 < m <= MANY and not K.requires_grad else None
    )
    if execute is None:
        return None
    marks = None if ties is None else likelihood.bounds(ties, model.margin)
    run = corrected_map.WithCorrection(K, r.sqrt(), gram, z, C.pairs, marks)
    newton = tolerance(K.dtype), PLAIN_ITERATIONS, DAMPED_ITERATIONS
    alpha, z, left, converged, iterations, beta, f = corrected_map.find_map(
        run, model.scale, model.margin, newton, execute
    )
    return MapFit(f, beta, DualFit(alpha, z, converged, iterations, left))


def find_map(
    K: PointMatrix,
    C: Incidence,
    model: Probit,
    *,
    r: Utilities | None = None,
    start: PerComparison | None = None,
    ties: Ties = None,
    gram: ComparisonMatrix | None = None,
) -> MapFit:
    """argmin J₀(f) + ½ fᵀ diag(r) f, from a start for z if one is given; `gram` is C K Cᵀ. [eq:augmented_map]"""
    if start is None:
        start = K.new_zeros(C.pairs.shape[:-1])
    gram, shrinking = comparisons.gram(C, K, model.scale) if gram is None else gram, None
    if r is not None:
        if (moved := _moved(model, K, C, r, start, ties=ties, gram=gram)) is not None:
            return moved
        # C K_r Cᵀ without K_r: m columns are solved for, not n.
        root = r.sqrt()
        shrinking = root, (L := factor(K, root))
        taken = torch.linalg.solve_triangular(L, (comparisons.rows(C, K) * root.unsqueeze(-2)).mT, upper=False)
        gram = gram - taken.mT @ taken
    found = launched(model, gram, start, ties)
    dual = solve(gram / model.scale**2, model.margin, start, ties) if found is None else dual_of(found)
    beta = comparisons.transpose(C, dual.alpha) / model.scale
    f = apply(K, beta)
    if shrinking is not None:
        root, L = shrinking
        # β = K⁻¹ f = (I − Q K) Cᵀα/(σ√2): the inverse of K cancels.
        beta = beta - root * torch.cholesky_solve((root * f).unsqueeze(-1), L).squeeze(-1)
        f = apply(K, beta)
    return MapFit(f, beta, dual)
