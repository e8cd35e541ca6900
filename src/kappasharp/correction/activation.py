"""When the correction acts: the decisiveness score, its moving average, and the gates.

Notation
    p_t    (*batch,)  probability that an answer agrees with the model's own ranking of the pair
    s_exp  (*batch,)  decisiveness 1 − 𝓗(p_t)/log 2                                           [eq:sexp]
    s_bar  (*batch,)  its exponential moving average                                        [eq:ema]
    tau, ema_rate, first_step: τ, α_ema, t_min of [alg:adaptive_ks]
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.numerics import normal
from kappasharp.settings import Gate, Rule
from kappasharp.tensors import PerRun, PerRunMask

# No run comes this far.
NEVER_STEP = 2**31


class Gates(NamedTuple):
    """The gates of a batch whose runs have one each: all are decisive ones, with one number per run."""

    first_step: Tensor
    threshold: Tensor
    ema_rate: Tensor
    noise: Tensor
    rule: Rule = Rule.DECISIVE


def side_by_side(gates: Sequence[Gate], like: Tensor) -> Gates:
    """The gates of a batch whose runs have one each: every rule is a decisive one with suitable numbers."""
    first = [NEVER_STEP if gate.rule is Rule.NEVER else gate.first_step for gate in gates]
    threshold = [gate.threshold if gate.rule is Rule.DECISIVE else -math.inf for gate in gates]
    numbers = (first, threshold, [gate.ema_rate for gate in gates], [gate.noise for gate in gates])
    first_step, thresholds, rates, noise = (torch.tensor(part, dtype=like.dtype).to(like) for part in numbers)
    return Gates(first_step, thresholds, rates, noise)


def noise_of(gate: Gate | Gates, model_noise: float) -> float | Tensor:
    """The σ of p_t: the model's own, unless the gate has another. (Departure 3)"""
    if isinstance(gate, Gates):
        return torch.where(gate.noise > 0.0, gate.noise, model_noise)
    return gate.noise or model_noise


def agreement(mean_difference: PerRun, variance: PerRun, noise: float | Tensor) -> PerRun:
    """p_t = Φ(|μ_diff| / √(σ²_diff + 2σ²)), in [1/2, 1)."""
    return normal.cdf(mean_difference.abs() / (variance + 2.0 * noise**2).sqrt())


def decisiveness(p: PerRun) -> PerRun:
    """s_exp: 0 for a coin flip, 1 for certainty. [eq:sexp]"""
    entropy = -(torch.special.xlogy(p, p) + torch.special.xlogy(1.0 - p, 1.0 - p))
    return 1.0 - entropy / math.log(2.0)


def moving_average(s_bar: PerRun, s_exp: PerRun, ema_rate: float | Tensor) -> PerRun:
    """s̄_t from s̄_{t−1}. [eq:ema]"""
    return (1.0 - ema_rate) * s_bar + ema_rate * s_exp


def is_open(gate: Gate | Gates, step: int | Tensor, s_bar: PerRun) -> PerRunMask:
    """Whether the correction acts at this step, run by run. [alg:adaptive_ks], line 6"""
    if gate.rule is Rule.NEVER:
        return torch.zeros_like(s_bar, dtype=torch.bool)
    threshold = gate.threshold if gate.rule is Rule.DECISIVE else -math.inf
    return (s_bar >= threshold) & (step >= gate.first_step)
