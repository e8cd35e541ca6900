"""What the utility is a function of: a design's parameters, and the outcomes that are computed from them.

Notation
    X  (*batch, n, d)  designs in the unit cube
    o  (*batch, n, k)  their outcomes, each scaled to about [0, 1]
    F  (*batch, n, D)  features (x, o), D = d + k; X itself where there are no outcomes

With outcomes the prior covariance is a sum, s_x k(x, x′) + s_o k(o, o′): the taste for what is seen, and a part over
the parameters for what the outcomes do not say. Both scales are the evidence's to find.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.tensors import AnyFloat

# These quantiles of a sample of outcomes become these places, and what lies between is linear.
QUANTILES, PLACES = (0.05, 0.95), (0.05, 0.95)
# How far beyond 0 and 1 an outcome's scale is linear.
BEYOND = 1.0


@runtime_checkable
class Lift(Protocol):
    """From designs to the outcomes that taste is learnt on, scaled; one for all runs of a batch, and never a tuple."""

    @property
    def size(self) -> int:
        """How many outcomes there are."""
        ...

    @property
    def budget(self) -> int:
        """How many designs one question may have computed; 0 for as many as it likes."""
        ...

    def __call__(self, X: Tensor, /) -> Tensor:
        """Outcomes (…, k) of designs (…, d) in the unit cube; the same for the same designs. No gradient is needed."""
        ...


def lifted(lift: Lift | None, X: AnyFloat) -> AnyFloat:
    """The features of designs."""
    return X if lift is None else torch.cat([X, lift(X).to(X)], -1)


class Scaling(NamedTuple):
    """Where each outcome's places 0 and 1 are; far beyond them it goes on like a logarithm: no outlier is far.

    The best designs lie beyond what chance shows, so one width more on either side is linear still.
    """

    low: Tensor
    high: Tensor

    def __call__(self, outcomes: Tensor) -> Tensor:
        """Raw outcomes (…, k), scaled; one that never varied in the sample is ½ everywhere."""
        return self.prepared(outcomes)(outcomes)

    def prepared(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The same as a function, for many tensors like this one."""
        low, high = self.low.to(like), self.high.to(like)
        varies = high > low
        width, all_vary = torch.where(varies, high - low, 1.0), bool(varies.all())

        def scaled(outcomes: Tensor) -> Tensor:
            share = (outcomes - low) / width
            inside = share.clamp(-BEYOND, 1.0 + BEYOND)
            # Few outcomes lie so far out; on a GPU it takes longer to ask than to compute.
            if share.device.type != "cpu" or not inside.equal(share):
                beyond = share - inside
                inside = inside + beyond.sign() * beyond.abs().log1p()
            return inside if all_vary else torch.where(varies, inside, 0.5)

        return scaled

    def without(self, left_out: Tensor) -> "Scaling":
        """The same, but these outcomes (k,) are ½ everywhere."""
        return Scaling(self.low, torch.where(left_out.to(self.low.device), self.low, self.high))

    def raw(self, scaled: Tensor) -> Tensor:
        """The outcomes that are scaled to these; the inverse where an outcome varies."""
        low, high = self.low.to(scaled), self.high.to(scaled)
        inside = scaled.clamp(-BEYOND, 1.0 + BEYOND)
        beyond = scaled - inside
        return low + (high - low) * (inside + beyond.sign() * beyond.abs().expm1())


def scaling(sample: Tensor) -> Scaling:
    """The scaling after a sample (n, k) of raw outcomes: its 5 % and 95 % quantiles become 0.05 and 0.95.

    What is not finite is left out. Where the quantiles coincide the whole range counts.
    """
    sample = sample.double()
    sample = torch.where(sample.isfinite(), sample, torch.nan)
    if not sample.numel():
        nothing = sample.new_zeros(sample.shape[-1])
        return Scaling(nothing, nothing)
    ends = torch.tensor((*QUANTILES, 0.0, 1.0), dtype=torch.float64, device=sample.device)
    # An outcome of which nothing is known never varied.
    low, high, least, most = sample.nanquantile(ends, 0).nan_to_num(nan=0.0).unbind(0)
    whole = high <= low
    low, high = torch.where(whole, least, low), torch.where(whole, most, high)
    width = (high - low) / (PLACES[1] - PLACES[0])
    first = low - PLACES[0] * width
    return Scaling(first, first + width)
