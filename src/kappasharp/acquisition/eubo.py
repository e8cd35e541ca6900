"""EUBO, the expected utility of the best option: E max(f(x_a), f(x_b)) in closed form with its gradient.

Notation
    delta   (*batch, k)     mean difference f̂(x_a) − f̂(x_b)                                       [eq:eubo]
    spread  (*batch, k)     standard deviation of f(x_a) − f(x_b)
    T_a,T_b (*batch, k, n)  derivatives of EUBO in k(x_a, X) and k(x_b, X)

E max = f̂_b + δ Φ(δ/s) + s φ(δ/s). The paper's equation leaves out f̂_b; that is the variant "improvement" (Departure 1).
"""

from collections.abc import Callable
from functools import reduce
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.kernels.stationary import Covariance, Profile, Sum
from kappasharp.native import eubo
from kappasharp.native.sources import Execute
from kappasharp.numerics import normal, quasi_newton
from kappasharp.settings import Variant
from kappasharp.tensors import AnyFloat, take

# The smallest variance of a contrast, in units of the output scale, that EUBO tells from zero: two points that
# coincide have spread 0, where EUBO is max(f̂_a, f̂_b); the floor changes its value by less than 1e-7 of √s.
VARIANCE_FLOOR = {torch.float64: 1e-14, torch.float32: 1e-7}
# Answers beyond which the difference is taken before it is multiplied.
LARGE = 512
WHOLE = slice(None)


def closed_form(delta: AnyFloat, spread: AnyFloat) -> AnyFloat:
    """δ Φ(δ/s) + s φ(δ/s), the expected improvement of a over b. [eq:eubo]"""
    ratio = delta / spread
    # s Φ(r) (ψ(r) + r): the two terms of the equation cancel for r ≪ 0, their product form does not.
    return spread * normal.cdf(ratio) * normal.excess(ratio)


def value(fitted: Posterior, X_a: Tensor, X_b: Tensor, variant: Variant = "expected_max") -> AnyFloat:
    """EUBO of every pair of rows (*batch, k, d)."""
    contrast = posterior.contrast(fitted, X_a, X_b)
    floor = VARIANCE_FLOOR[X_a.dtype] * posterior.variance(fitted).unsqueeze(-1)
    gain = closed_form(contrast.mean, contrast.variance.clamp(min=floor).sqrt())
    return gain if variant == "improvement" else gain + posterior.mean(fitted, X_b)


def expected_max(fitted: Posterior, X: Tensor, normals: Tensor) -> AnyFloat:
    """E max over the q points of each (*batch, q, d), averaged over the rows of `normals` (samples, q).

    With scrambled Sobol points behind `normals` this is quasi-Monte Carlo; it is differentiable in X.
    """
    mean, cov = posterior.joint(fitted, X)
    floor = VARIANCE_FLOOR[X.dtype] * 1e4 * posterior.variance(fitted)
    eye = torch.eye(X.shape[-2], dtype=X.dtype, device=X.device)
    L = torch.linalg.cholesky(cov + floor[..., None, None] * eye)
    samples = mean.unsqueeze(-2) + normals @ L.mT
    return samples.amax(-1).mean(-1)


def sobol_normals(q: int, count: int, seed: int, like: Tensor) -> Tensor:
    """`count` quasi-random standard normal vectors of length q."""
    points = torch.quasirandom.SobolEngine(q, scramble=True, seed=seed).draw(count, dtype=torch.float64)
    return torch.special.ndtri(points.clamp(1e-12, 1.0 - 1e-12)).to(like)


class Prepared(NamedTuple):
    """A posterior arranged so that a pair's EUBO and gradient are a handful of matrix products.

    Of a sum of kernels `share` (runs, parts) is how much of the output scale each has; its points are features.
    """

    family: Covariance
    lengthscale: Tensor
    outputscale: Tensor
    X: Tensor
    X_one: Tensor
    weights: Tensor
    share: Tensor | None = None

    def profiles(self, Z: Tensor, Y: Tensor) -> list[tuple[slice, Profile]]:
        """Every kernel's value and slope between scaled points Z and Y, times its share; and over which coordinates."""
        return self._by_part(lambda at: stationary.half_distances(Z[..., at], Y[..., at]))

    def own_profiles(self, step: Tensor) -> list[tuple[slice, Profile]]:
        """The same at scaled differences, row by row."""
        return self._by_part(lambda at: step[..., at].square().sum(-1).mul_(-0.5))

    def _by_part(self, half: Callable[[slice], Tensor]) -> list[tuple[slice, Profile]]:
        if not isinstance(self.family, Sum) or self.share is None:
            return [(WHOLE, stationary.profile(self.family, half(WHOLE)))]  # type: ignore[arg-type]
        found = []
        for i, (low, high) in enumerate(pairwise(accumulate(self.family.sizes, initial=0))):
            at = slice(low, high)
            value, slope = stationary.profile(self.family.family, half(at))
            share = self.share[:, i].reshape(-1, *[1] * (value.dim() - 1))
            found.append((at, Profile(value * share, slope * share)))
        return found


def prepare(fitted: Posterior) -> Prepared:
    """Scale the training points once, and put β beside the root."""
    lengthscale = stationary.lengthscales(fitted.family, fitted.theta)
    outputscale = posterior.variance(fitted)
    X = (fitted.features - 0.5) / lengthscale.unsqueeze(-2)
    weights = torch.cat([fitted.beta.unsqueeze(-1), fitted.root], -1).mul_(outputscale[..., None, None])
    X_one = torch.cat([X, torch.ones_like(X[..., :1])], -1)
    share = None
    if isinstance(fitted.family, Sum):
        share = fitted.theta[..., -len(fitted.family.sizes) :].exp() / outputscale.unsqueeze(-1)
    return Prepared(fitted.family, lengthscale.unsqueeze(-2), outputscale.unsqueeze(-1), X, X_one, weights, share)


def explored(prepared: Prepared, times: float) -> Prepared:
    """The same with every posterior deviation multiplied: EUBO that explores more (above 1) or less."""
    weights = torch.cat([prepared.weights[..., :1], prepared.weights[..., 1:] * times], -1)
    return prepared._replace(outputscale=prepared.outputscale * times**2, weights=weights)


def predicted(prepared: Prepared, points: Tensor) -> tuple[Tensor, Tensor]:
    """Posterior mean and the known part, whose squares are what the answers took off the prior variance."""
    Z = (points - 0.5) / prepared.lengthscale
    near = reduce(torch.add, [found.value for _, found in prepared.profiles(Z, prepared.X)])
    both = near @ prepared.weights
    return both[..., 0], both[..., 1:]


class Predicted(NamedTuple):
    """Points, their posterior mean, and the known part."""

    points: Tensor
    mean: Tensor
    known: Tensor


def of_pairs(prepared: Prepared, left: Predicted, right: Predicted, variant: Variant) -> Tensor:
    """EUBO of every point on the left with every one on the right."""
    Z, Z_right = ((side.points - 0.5) / prepared.lengthscale for side in (left, right))
    own = reduce(torch.add, [found.value for _, found in prepared.profiles(Z, Z_right)])
    squares = left.known.square().sum(-1).unsqueeze(-1) + right.known.square().sum(-1).unsqueeze(-2)
    scale = prepared.outputscale.unsqueeze(-1)
    variance = 2.0 * scale * (1.0 - own) - (squares - 2.0 * left.known @ right.known.mT)
    delta = left.mean.unsqueeze(-1) - right.mean.unsqueeze(-2)
    floor = scale * VARIANCE_FLOOR[left.points.dtype]
    value = closed_form(delta, variance.clamp(min=floor).sqrt())
    return value if variant == "improvement" else value + right.mean.unsqueeze(-2)


class NegativeEubo:
    """−EUBO of pairs and its gradient, as descent wants it: rows are (run, start), neighbours share a run.

    A row is (x_a, x_b) end to end; with an anchor (runs, d) it is x_a alone and x_b is the run's anchor.
    """

    def __init__(self, prepared: Prepared, starts: int, variant: Variant, anchor: Tensor | None = None) -> None:
        self.prepared, self.starts, self.variant, self.anchor = prepared, starts, variant, anchor

    def take(self, rows: Tensor) -> "NegativeEubo":
        """The same for these rows, which are whole runs."""
        runs = rows[:: self.starts] // self.starts
        return NegativeEubo(take(self.prepared, runs), self.starts, self.variant, take(self.anchor, runs))

    def widened(self, times: int) -> "NegativeEubo":
        """The same for so many times as many starts."""
        return NegativeEubo(self.prepared, self.starts * times, self.variant, self.anchor)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """−EUBO (rows,) and its gradient, like x."""
        d = self.prepared.X.shape[-1]
        points = x.reshape(-1, self.starts, x.shape[-1])
        if self.anchor is None:
            X_a, X_b = points[..., :d], points[..., d:]
        else:
            X_a, X_b = points, self.anchor.unsqueeze(-2).expand_as(points)
        value, gradient = self._pairs(X_a, X_b)
        gradient = gradient if self.anchor is None else gradient[..., :d]
        return -value.reshape(-1), -gradient.reshape(x.shape)

    def _known(self, near: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the known part of f(x_a) − f(x_b), end to end, and the mean of f(x_b)."""
        k, weights = self.starts, self.prepared.weights
        if weights.shape[-1] > LARGE:
            # Half the products; below, one call is faster than two.
            return torch.bmm(near[:, :k] - near[:, k:], weights), torch.bmm(near[:, k:], weights[..., :1]).squeeze(-1)
        known = torch.bmm(near, weights)
        return known[:, :k] - known[:, k:], known[:, k:, 0]

    def _pairs(self, X_a: Tensor, X_b: Tensor) -> tuple[Tensor, Tensor]:
        """EUBO (runs, starts) and its gradient in both points (runs, starts, 2d)."""
        p, k = self.prepared, self.starts
        Z = torch.cat([X_a, X_b], -2).sub_(0.5).div_(p.lengthscale)
        profiles = p.profiles(Z, p.X)
        difference, mean_b = self._known(reduce(torch.add, [found.value for _, found in profiles]))
        delta, du = difference[..., 0], difference[..., 1:]
        step = Z[:, :k] - Z[:, k:]
        own_profiles = p.own_profiles(step)
        own = reduce(torch.add, [found.value for _, found in own_profiles])
        variance = torch.addcmul(-du.square().sum(-1), p.outputscale, 1.0 - own, value=2.0)
        spread = variance.clamp_(min=p.outputscale * VARIANCE_FLOOR[Z.dtype]).sqrt_()
        ratio = delta / spread
        cdf, density = normal.cdf(ratio), normal.density(ratio)
        value = torch.addcmul(delta * cdf, spread, density)
        # ∂EUBO/∂f̂_a = Φ, ∂EUBO/∂s = φ, and s² falls by twice the known part's product with du.
        pull = (density / spread).unsqueeze(-1)
        beta, root = p.weights[..., 0].unsqueeze(-2), p.weights[..., 1:]
        T_a = torch.addcmul(cdf.unsqueeze(-1) * beta, pull, torch.bmm(du, root.mT), value=-1.0)
        if self.variant == "expected_max":
            value, T_b = value + mean_b, beta - T_a
        else:
            T_b = -T_a
        T, gradients, aparts = torch.cat([T_a, T_b], -2), [], []
        for (at, found), (_, own_found) in zip(profiles, own_profiles, strict=True):
            product = torch.bmm(T * found.slope, p.X_one)
            gradients.append(torch.addcmul(product[..., :-1][..., at], product[..., -1:], Z[..., at], value=-1.0))
            aparts.append(pull * (p.outputscale * own_found.slope).unsqueeze(-1) * step[..., at])
        gradient, apart = torch.cat(gradients, -1), torch.cat(aparts, -1)
        both = torch.stack([gradient[:, :k] + apart, gradient[:, k:] - apart], -2)
        return value, (both / p.lengthscale.unsqueeze(-2)).flatten(-2)


def fused_ascent(
    objective: NegativeEubo,
    x: Tensor,
    box: tuple[Tensor, Tensor] | None,
    tolerances: quasi_newton.Tolerances,
    execute: Execute | None = None,
) -> quasi_newton.Descent | None:
    """The ascent of every start (runs, starts, p) as one launch, of `execute` if given; None where no kernel can."""
    # A sum of kernels has no launch of its own.
    if objective.prepared.share is not None:
        return None
    p, anchor = objective.prepared, objective.anchor
    runs = eubo.Runs(p.lengthscale, p.outputscale, p.X, p.weights, anchor)
    constants = eubo.EuboConstants(
        matern=p.family == "matern52",
        improvement=objective.variant == "improvement",
        least_variance=VARIANCE_FLOOR[x.dtype],
        limits=quasi_newton.numbers(tolerances),
        max_rounds=tolerances.max_rounds,
    )
    execute = execute or eubo.executor(runs, constants, x)
    if execute is None:
        return None
    ends = (x.new_zeros(x.shape[-1]), x.new_ones(x.shape[-1])) if box is None else box
    return quasi_newton.of_kernel(*eubo.minimize(runs, x, ends, constants, execute)[:5])


def spread_out(score: Tensor, near: int, starts: int) -> tuple[Tensor, Tensor]:
    """The best pairs among the first `near` points, no two with the same first point, and the best with a far point."""
    far_starts = max(1, starts // 4)
    lower = torch.ones(near, near, dtype=torch.bool, device=score.device).tril()
    best, partner = score[:, :near, :near].masked_fill(lower, -torch.inf).max(-1)
    first = best.topk(min(starts - far_starts, near), -1).indices
    best_far, partner_far = score[:, :near, near:].max(-2)
    far = best_far.topk(min(far_starts, best_far.shape[-1]), -1).indices
    return torch.cat([first, partner_far.gather(-1, far)], -1), torch.cat([partner.gather(-1, first), far + near], -1)
