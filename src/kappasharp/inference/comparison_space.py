"""The Laplace fit in comparison space: everything on m × m matrices over the answers, whatever the designs.

Notation
    E      (*batch, 2m, d) end points of the comparisons: all winners, then all losers
    A      (*batch, m, m)  C K Cᵀ/(2σ²), the prior covariance of the standardised differences, as in laplace.py
    side   (*batch, k, m)  the same between k further differences and the m known ones
    corner (*batch, k, k)  the same among the further ones
    L      (*batch, m, m)  Cholesky factor of B = I + ω^½ A ω^½ at the MAP
    root   (*batch, n, p)  root rootᵀ = K⁻¹ − K⁻¹ Σ K⁻¹, for predictions as in posterior.py

While the hyperparameters move, A is assembled from the end points, so nothing is gathered or scattered. Further answers
compute nothing again that was computed for the first m: A and L are bordered, and the first Newton step, from the old
differences and the predicted new ones, is exact with the bordered factor. Only the steps after it factorize.
"""

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import comparisons, evidence, laplace, likelihood
from kappasharp.inference.comparisons import Answers, Detail, Incidence
from kappasharp.inference.evidence import Evidence, Model
from kappasharp.inference.laplace import Conditioned, DualFit, MapFit
from kappasharp.inference.likelihood import Grades, Probit, Ties
from kappasharp.kernels import stationary
from kappasharp.kernels.stationary import KernelPart
from kappasharp.native import launch
from kappasharp.native.sources import Execute
from kappasharp.tensors import ComparisonMatrix, Pairs, Parameters, PerComparison, PointMatrix, Points, Utilities, apply

# Up to this many answers the averaged curvature's variances come from a triangular solve, beyond from an inverse,
# unless an answer informs its own difference by less than FAINT of its prior variance.
SMALL, FAINT = laplace.MANY, 1e-2
# Where "slightly better" ends and "better" begins, and where "much better" does, in units of where "equal" ends.
LEVELS = (3.0, 5.0)


class ComparisonSpace(NamedTuple):
    """The answers of a flat batch of runs, to be fitted in comparison space (the contract: fit_space.py)."""

    answers: Answers

    @property
    def size(self) -> int:
        """The number whose cube is the cost of one evaluation."""
        return self.answers.pairs.shape[-2]

    def gather(self) -> "EndPoints":
        """What the evidence needs, gathered once."""
        return gather(*self.answers)

    def coarse(self) -> "ComparisonSpace":
        """The same in the precision that a long search can afford: its noise lies below what is asked of such a one."""
        return ComparisonSpace(self.answers._replace(X=self.answers.X.float()))

    def condition(self, model: Model, K: PointMatrix, start: PerComparison) -> Conditioned:
        """The posterior given K; `start` is a guess at the differences."""
        C = comparisons.incidence(self.answers.pairs, self.answers.X.shape[-2], self.answers.detail)
        found = at_once(model, K, C, start, self.answers.ties)
        return condition(model, K, C, start, self.answers.ties) if found is None else found


class EndPoints(NamedTuple):
    """What the evidence needs of every run's answers; `ties` is None where no answer is a tie."""

    E: Points
    signed: Points
    gram: ComparisonMatrix
    ties: Ties
    detail: Detail | None = None

    def evaluate(self, model: Model, theta: Parameters, start: PerComparison) -> Evidence:
        """log Z and its gradient at theta, the MAP's search started from the standardised differences `start`."""
        terms = self.terms(model, theta)
        A = summed(terms)
        whole = A if self.detail is None else weighted(A, self.detail).add_(self.detail.noise)
        dual = laplace.solve(whole, model.likelihood.margin, start, self.ties)
        value, G = evidence.value_and_slope(model.likelihood, whole, dual, self.ties)
        G = G if self.detail is None else weighted(G, self.detail)
        return Evidence(value, self.gradient(terms, G), dual.z, dual.converged)

    def terms(self, model: Model, theta: Parameters) -> "tuple[Term, ...]":
        """What every kernel of the prior adds to A."""
        return tuple(self._term(model, part) for part in stationary.parts(model.family, theta))

    def gradient(self, terms: "tuple[Term, ...]", G: ComparisonMatrix) -> Parameters:
        """The derivative in the kernels' hyperparameters, from that in A."""
        by_lengthscale = [
            _lengthscale_moments(self, G, term) * (2.0 * term.scale) / term.part.lengthscale.square() for term in terms
        ]
        # ∂A/∂log s is the part of A that s multiplies.
        by_outputscale = [(G * term.A).sum((-2, -1)).unsqueeze(-1) for term in terms]
        return torch.cat([*by_lengthscale, *by_outputscale], -1)

    def _term(self, model: Model, part: KernelPart) -> "Term":
        """What one kernel of the prior adds to A."""
        E = self.E[..., part.at] / part.lengthscale.unsqueeze(-2)
        k, slope = stationary.profile(part.family, stationary.half_distances(E, E))
        scale = (part.outputscale / model.likelihood.scale**2).unsqueeze(-1)
        A = _contrast(k).add_(self.gram, alpha=model.nugget).mul_(scale.unsqueeze(-1))
        return Term(part, A, slope, scale)


class Term(NamedTuple):
    """One kernel's part of A, its slope over the end points, and s/(2σ²)."""

    part: KernelPart
    A: ComparisonMatrix
    slope: Tensor
    scale: Tensor


def summed(terms: Iterable[Term]) -> ComparisonMatrix:
    """A, from what every kernel adds to it."""
    return reduce(torch.add, [term.A for term in terms])


def gather(X: Points, pairs: Pairs, ties: Ties = None, detail: Detail | None = None) -> EndPoints:
    """The end points of every comparison, the same with sign and a one, and C Cᵀ, by which the nugget enters A."""
    flat = torch.cat([pairs[..., 0], pairs[..., 1]], -1)
    E = X.gather(-2, flat.unsqueeze(-1).expand(*flat.shape, X.shape[-1])) - 0.5
    sign = torch.ones_like(E[..., :1])
    sign[..., pairs.shape[-2] :, :] = -1.0
    same = (flat.unsqueeze(-1) == flat.unsqueeze(-2)).to(X)
    if detail is not None:
        detail = Detail(*(part.to(X) if part.is_floating_point() else part for part in detail))
    return EndPoints(E, torch.cat([E * sign, sign], -1), _contrast(same), ties, detail)


def bounded(probit: Probit, answers: Answers) -> Answers:
    """The answers with what each says of its noisy difference: as wide as its weight, and graded where it was rated."""
    detail, ties = answers.detail, answers.ties
    if detail is None or (probit.margin == 0.0 and not bool(detail.time.any())):
        return answers
    half = probit.margin * detail.weight * detail.width
    edges = half.unsqueeze(-1) * half.new_tensor((1.0, *LEVELS, torch.inf))
    level = detail.level.unsqueeze(-1)
    low, high = edges.gather(-1, (level - 1).clamp(min=0)).squeeze(-1), edges.gather(-1, level).squeeze(-1)
    graded = (detail.level > 0) & high.isfinite()
    between = graded | ties if isinstance(ties, Tensor) else graded
    centre = torch.where(graded, 0.5 * (low + high), 0.0)
    time = detail.time.masked_fill(between, 0.0)
    return answers._replace(ties=Grades(between, centre, torch.where(graded, 0.5 * (high - low), low), time))


def weighted(M: ComparisonMatrix, detail: Detail) -> ComparisonMatrix:
    """A matrix over comparisons whose differences are multiplied by their weights."""
    return M * (detail.weight.unsqueeze(-1) * detail.weight.unsqueeze(-2))


def _contrast(M: Tensor) -> Tensor:
    """The m × m second difference, winner minus loser on both sides, of a 2m × 2m matrix over end points."""
    m = M.shape[-1] // 2
    half = M[..., :m, :] - M[..., m:, :]
    return half[..., :m] - half[..., m:]


def _lengthscale_moments(data: EndPoints, G: ComparisonMatrix, term: Term) -> Tensor:
    """½ Σ_pq P_pq (x_pj − x_qj)² over end points p, q for every dimension j, with P_pq = ±G_pq S_pq.

    The sum is Σ_p x_pj (x_pj Σ_q P_pq − Σ_q P_pq x_qj); signs and row sums ride along in one product with `signed`.
    """
    m, d = G.shape[-1], data.E.shape[-1]
    tiled = term.slope.unflatten(-1, (2, m)).unflatten(-3, (2, m)) * G.unsqueeze(-2).unsqueeze(-4)
    product = tiled.flatten(-4, -3).flatten(-2, -1) @ data.signed
    at = slice(0, d) if term.part.at == slice(None) else term.part.at
    inner = torch.addcmul(-product[..., at], data.E[..., at], product[..., d:])
    return (data.signed[..., at] * inner).sum(-2)


def condition(
    model: Model,
    K: PointMatrix,
    C: Incidence,
    start: PerComparison | None = None,
    ties: Ties = None,
) -> Conditioned:
    """The posterior given K, whatever kernel it came from; `start` is a guess at the differences."""
    gram = comparisons.gram(C, K, model.likelihood.scale)
    A = gram / model.likelihood.scale**2
    if start is None or (start.shape[-1] > laplace.MANY and not bool(start.any())):
        start = laplace.first_guess(A, model.likelihood.margin, ties)
    dual = laplace.solve(A, model.likelihood.margin, start, ties)
    return _at_map(model, K, C, dual, ties, gram=gram, A=A)


def at_once(
    model: Model,
    K: PointMatrix,
    C: Incidence,
    start: PerComparison,
    ties: Ties = None,
    *,
    execute: Execute | None = None,
) -> Conditioned | None:
    """The same as one launch, of `execute` if given, without a factor to border; None where torch has to."""
    if C.pairs.shape[-2] > laplace.MANY:
        # There even C K Cᵀ is not made twice.
        launch.passed_by("laplace", laplace.NOT_FOR_KERNELS)
        return None
    gram, averaged = comparisons.gram(C, K, model.likelihood.scale), model.curvature == "averaged"
    found = laplace.launched(model.likelihood, gram, start, ties, averaged=averaged, C=C, execute=execute)
    if found is None:
        return None
    beta = comparisons.transpose(C, found.alpha) / model.likelihood.scale
    fitted = MapFit(apply(K, beta), beta, laplace.dual_of(found))
    return Conditioned(K, C, ties, fitted, found.root, found.value, gram)


def extend(
    model: Model, known: Conditioned, K_side: Tensor, K_corner: Tensor, pairs: Tensor, ties: Tensor | None = None
) -> Conditioned:
    """The posterior with further points and answers: K_side (*batch, k, n) and K_corner (*batch, k, k) are theirs.

    `pairs` (*batch, l, 2) are the new answers, as indices into the n old points and the k new ones; `ties` (*batch, l)
    says which of them are ties.
    """
    if known.gram is None or known.L is None:
        raise ValueError("`known` must come from comparison space: a fit on points holds no factor to border.")
    K = bordered(known.K, K_side, K_corner)
    C = comparisons.incidence(torch.cat([known.C.pairs, pairs], -2), K.shape[-1], _extended(known.C.detail, pairs))
    probit, m = model.likelihood, known.L.shape[-1]
    new_rows = comparisons.rows(comparisons.incidence(pairs, K.shape[-1]), K)
    gram_rows = comparisons.rows(C, new_rows.mT).mT
    gram = bordered(known.gram, gram_rows[..., :m], gram_rows[..., m:])
    A = gram / probit.scale**2
    A_side, A_corner = A[..., m:, :m], A[..., m:, m:]
    z = torch.cat([known.map.dual.z, apply(A_side, known.map.dual.alpha)], -1)
    all_ties = _joined(known.ties, ties, known.C.pairs, pairs, probit.margin)
    sites = likelihood.sites(z, probit.margin, all_ties)
    root = sites.omega.sqrt()
    B_corner = laplace.information(A_corner, root[..., m:])
    L = bordered_factor(known.L, root[..., m:, None] * A_side * root[..., None, :m], B_corner)
    start = apply(A, laplace.newton_target(A, z, sites, L))
    dual = laplace.solve(A, probit.margin, start, all_ties)
    return _at_map(model, K, C, dual, all_ties, gram=gram, A=A)


def differentiable(model: Model, known: Conditioned, K: PointMatrix) -> Conditioned:
    """The posterior that was found for K, differentiable in K.

    A Newton step from a MAP ends there, and its derivative in K is the MAP's own: the step's in the MAP is zero.
    """
    gram, dual = comparisons.gram(known.C, K, model.likelihood.scale), known.map.dual
    A = gram / model.likelihood.scale**2
    alpha = laplace.newton_target(A, dual.z, likelihood.sites(dual.z, model.likelihood.margin, known.ties))
    moved = dual._replace(alpha=alpha, z=apply(A, alpha))
    return _at_map(model, K, known.C, moved, known.ties, gram=gram, A=A)


def _extended(detail: Detail | None, pairs: Tensor) -> Detail | None:
    """The detail of further plain comparisons beside those that have one."""
    if detail is None:
        return None
    return comparisons.joined(detail, comparisons.none_of(pairs.shape[:-2], pairs.shape[-2], detail.weight))


def _joined(
    old: Tensor | Grades | None, new: Tensor | None, old_pairs: Tensor, new_pairs: Tensor, margin: float
) -> Tensor | Grades | None:
    """Which of the old answers and the new ones are ties."""
    if old is None and new is None:
        return None
    if isinstance(old, Grades):
        nothing = old.half.new_zeros(new_pairs.shape[:-1])
        further = Grades(nothing.bool() if new is None else new, nothing, nothing + margin, nothing)
        return Grades(*(torch.cat(both, -1) for both in zip(old, further, strict=True)))
    parts = [(old, old_pairs), (new, new_pairs)]
    return torch.cat([torch.zeros_like(p[..., 0], dtype=torch.bool) if t is None else t for t, p in parts], -1)


def bordered(M: Tensor, side: Tensor, corner: Tensor) -> Tensor:
    """The symmetric matrix [[M, sideᵀ], [side, corner]]."""
    return torch.cat([torch.cat([M, side.mT], -1), torch.cat([side, corner], -1)], -2)


def bordered_factor(L: Tensor, side: Tensor, corner: Tensor) -> Tensor:
    """The Cholesky factor of [[L Lᵀ, sideᵀ], [side, corner]], without factorizing L Lᵀ again."""
    low = torch.linalg.solve_triangular(L, side.mT, upper=False).mT
    last = torch.linalg.cholesky_ex(corner - low @ low.mT)[0]
    return torch.cat([torch.nn.functional.pad(L, (0, corner.shape[-1])), torch.cat([low, last], -1)], -2)


def _at_map(
    model: Model,
    K: PointMatrix,
    C: Incidence,
    dual: DualFit,
    ties: Ties,
    *,
    gram: ComparisonMatrix,
    A: ComparisonMatrix,
) -> Conditioned:
    """What follows from a MAP, given C K Cᵀ with and without its scale."""
    probit = model.likelihood
    beta = comparisons.transpose(C, dual.alpha) / probit.scale
    weights = likelihood.curvature(dual.z, probit.margin, ties).omega / probit.scale**2
    L = laplace.factor(gram, weights.sqrt())
    value = evidence.value_at(probit, dual, L, ties)
    L_weights = L
    if model.curvature == "averaged":
        weights = averaged_omega(A, dual.z, probit.margin, ties) / probit.scale**2
        L_weights = laplace.factor(gram, weights.sqrt())
    root = comparisons.transpose_rows(C, scaled_inverse(L_weights, weights.sqrt()).mT)
    return Conditioned(K, C, ties, MapFit(apply(K, beta), beta, dual), root, value, gram, L)


def posterior_weights(model: Model, K: PointMatrix, C: Incidence, z: PerComparison, ties: Ties) -> PerComparison:
    """The weights that the posterior covariance uses: ω_m at the MAP, or averaged where the model says so."""
    probit = model.likelihood
    if model.curvature == "mode":
        return likelihood.curvature(z, probit.margin, ties).omega / probit.scale**2
    A = comparisons.gram(C, K, probit.scale) / probit.scale**2
    return averaged_omega(A, z, probit.margin, ties) / probit.scale**2


def at_map(
    model: Model, K: PointMatrix, C: Incidence, z: PerComparison, ties: Ties, gram: ComparisonMatrix | None = None
) -> Points:
    """The root for predictions, with the weights that the posterior covariance uses at the MAP z; `gram` is C K Cᵀ."""
    if model.curvature == "averaged" and C.detail is None:
        gram = comparisons.congruence(C, K) if gram is None else gram
        found = laplace.launched(model.likelihood, gram, z, ties, averaged=True, search=False, C=C)
        if found is not None:
            return found.root
    return information_root(K, C, posterior_weights(model, K, C, z, ties))


def averaged_omega(A: ComparisonMatrix, z: PerComparison, margin: float, ties: Ties = None) -> PerComparison:
    """ω averaged over the posterior of every difference (laplace.average)."""
    return laplace.average(A.diagonal(dim1=-2, dim2=-1), lambda omega: _variance(A, omega), z, margin, ties)


def _variance(A: ComparisonMatrix, omega: PerComparison) -> PerComparison:
    """The diagonal of (A⁻¹ + diag ω)⁻¹."""
    prior = A.diagonal(dim1=-2, dim2=-1)
    if A.shape[-1] <= SMALL:
        return prior - laplace.explained(A, A, omega.sqrt())[0]
    # ω times the variance is 1 − (B⁻¹)_pp: half the work, and single precision is finer than what is left of the way
    # to the fixed point. But where ω is faint so are the digits of the difference.
    single, root = A.float(), omega.float().sqrt()
    L = laplace.factor(single, root)
    out = (1.0 - _inverse(L).square_().sum(-2).to(omega)) / omega
    m = A.shape[-1]
    flat = (out.reshape(-1, m), (omega * prior < FAINT).reshape(-1, m), prior.reshape(-1, m), root.reshape(-1, m))
    for run, (row, faint, own, weight) in enumerate(zip(*flat, strict=True)):
        at = faint.nonzero().squeeze(-1)
        columns = weight.unsqueeze(-1) * single.reshape(-1, m, m)[run][:, at]
        half = torch.linalg.solve_triangular(L.reshape(-1, m, m)[run], columns, upper=False)
        row[at] = own[at] - half.square().sum(-2).to(omega)
    return out


def information_root(K: PointMatrix, C: Incidence, weights: PerComparison, r: Utilities | None = None) -> Points:
    """A root of K⁻¹ − K⁻¹ Σ K⁻¹ with Σ⁻¹ = K⁻¹ + CᵀWC (+ R where r is given), without K⁻¹.

    With R the sites are the m comparisons and n unit vectors of weight r; a Schur complement splits them.
    """
    root = weights.sqrt()
    if r is None:
        L = laplace.factor(comparisons.congruence(C, K), root)
        return comparisons.transpose_rows(C, scaled_inverse(L, root).mT)
    K_r, _ = laplace.shrink(K, r)
    L = laplace.factor(comparisons.congruence(C, K_r), root)
    answers = comparisons.transpose_rows(C, scaled_inverse(L, root).mT)
    root_r = r.sqrt()
    half = scaled_inverse(laplace.factor(K, root_r), root_r)
    # (I − Q_R K) answers, with Q_R = halfᵀ half.
    answers = answers - half.mT @ (half @ (K @ answers))
    return torch.cat([answers, half.mT], -1)


def scaled_inverse(L: Tensor, weight: Tensor) -> Tensor:
    """L⁻¹ diag(weight)."""
    if L.shape[-1] <= SMALL:
        return torch.linalg.solve_triangular(L, torch.diag_embed(weight), upper=False)
    return _inverse(L) * weight.unsqueeze(-2)


def _inverse(L: Tensor) -> Tensor:
    """L⁻¹ of a lower triangle by halves: a third of the work of a solve that does not know what is zero."""
    if L.shape[-1] <= max(SMALL // 2, 1):
        return torch.linalg.solve_triangular(L, torch.eye(L.shape[-1]).to(L), upper=False)
    half = L.shape[-1] // 2
    upper, lower = L[..., :half, :half], L[..., half:, half:]
    below = torch.linalg.solve_triangular(upper, -L[..., half:, :half], upper=False, left=False)
    below = torch.linalg.solve_triangular(lower, below, upper=False)
    first, last = _inverse(upper), _inverse(lower)
    return torch.cat([torch.nn.functional.pad(first, (0, last.shape[-1])), torch.cat([below, last], -1)], -2)
