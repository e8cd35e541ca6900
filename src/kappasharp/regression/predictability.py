"""How regular a function of the design each outcome is: the share of it that other designs foresee.

Notation
    X    (n, d)  a sample of designs in the unit cube
    y    (n, k)  normal scores of their outcomes, so that no outlier counts for more than its place in the order
    K    (n, n)  one of a few kernels, and a constant beside it
    R    (n, n)  (K + noise I)⁻¹

What the others foresee of design i misses it by (R y)_i / R_ii (Rasmussen and Williams, 5.12). The share foreseen is
one minus the mean square of that by the variance, under the kernel and noise that are best for the outcome. Nothing is
searched for: isotropic kernels see what bends, and the mean of kernels over one coordinate each sees, in many
dimensions, what the parameters add up to.
"""

from collections.abc import Iterator, Sequence

import torch

from kappasharp.kernels import stationary
from kappasharp.settings import Family
from kappasharp.tensors import AnyFloat, Points

FAMILY: Family = "matern52"
# Length scales of isotropic kernels in units of √d, of those over one coordinate, and noise variances.
ISOTROPIC, OF_ONE, NOISES = (0.25, 0.5, 1.0, 2.0, 4.0), 0.7, (1e-4, 1e-3, 1e-2, 0.1, 1.0)
# How many designs are looked at, of more the first, since a share grows with them; fewer than the least say nothing.
MOST, LEAST = 128, 32
# An outcome of which less is foreseen is as good as chance: whatever is learnt on it leads nowhere. In many dimensions
# chance is foreseen less, and real outcomes too: between these dimensions the bar falls. (docs/results/outcomes.md)
DIMENSIONS, BARS = (8, 16), (0.7, 0.5)
# Outcomes of which so much more is foreseen, on average, are no chance for sure. Between the two they are doubted.
BEYOND_DOUBT = 0.22


def enough(dimensions: int) -> float:
    """The least share of an outcome that designs with so many parameters must foresee of each other."""
    (few, many), (high, low) = DIMENSIONS, BARS
    way = (min(max(dimensions, few), many) - few) / (many - few)
    return high + way * (low - high)


def doubt(shares: Sequence[float], dimensions: int) -> float:
    """By how much these shares, of outcomes that are learnt on, fall short on average of one beyond doubt."""
    if not shares:
        return 0.0
    return max(enough(dimensions) + BEYOND_DOUBT - sum(shares) / len(shares), 0.0)


def foreseen(X: Points, outcomes: AnyFloat) -> AnyFloat:
    """The share (k,) of every outcome that the designs' others foresee; 1 where nothing can be said, or nothing varies.

    Rows with a number that is not finite are left out.
    """
    whole = outcomes.isfinite().all(-1)
    X, outcomes = X[whole][:MOST].double(), outcomes[whole][:MOST].double()
    nothing = outcomes.new_ones(outcomes.shape[-1])
    if len(X) < LEAST:
        return nothing
    y = normal_scores(outcomes)
    spread = y.square().mean(0)
    varies = spread > 0.0
    missed = [error.square().mean(0) for K in _kernels(X) for error in left_out(K, y)]
    share = 1.0 - torch.stack(missed).amin(0) / torch.where(varies, spread, 1.0)
    return torch.where(varies, share, nothing)


def normal_scores(values: AnyFloat) -> AnyFloat:
    """Each column's (n, k) places in its order as quantiles of a normal distribution; equal values share a place."""
    below = (values.unsqueeze(0) < values.unsqueeze(1)).sum(1)
    upto = (values.unsqueeze(0) <= values.unsqueeze(1)).sum(1)
    scores = torch.special.ndtri(0.5 * (below + upto).to(values) / len(values))
    return scores - scores.mean(0)


def left_out(K: AnyFloat, y: AnyFloat) -> Iterator[AnyFloat]:
    """By how much each value (n, k) differs from what the others foresee of it, at one noise after another."""
    eigenvalues, vectors = torch.linalg.eigh(K)
    for noise in NOISES:
        # Below zero an eigenvalue is rounding.
        R = (vectors / (eigenvalues.clamp(min=0.0) + noise)) @ vectors.mT
        yield (R @ y) / R.diagonal().unsqueeze(-1)


def _kernels(X: AnyFloat) -> Iterator[AnyFloat]:
    d = X.shape[-1]
    single = stationary.profile(
        FAMILY, -0.5 * ((X.mT.unsqueeze(-1) - X.mT.unsqueeze(-2)) / OF_ONE).square()
    ).value.mean(0)
    yield 1.0 + single
    yield 1.0 + 0.5 * (single + single.square())
    for length in ISOTROPIC:
        Z = (X - 0.5) / (length * d**0.5)
        K = stationary.profile(FAMILY, stationary.half_distances(Z, Z)).value
        yield 1.0 + K
        yield 1.0 + 0.5 * (single + K)
