"""What a person would answer, sampled from a model: comparisons of noisy utilities, by any of BoTorch's samplers."""

from typing import NamedTuple

import torch
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.pairwise_samplers import PairwiseMCSampler
from torch import Tensor

from kappasharp.errors import InvalidValueError
from kappasharp.methods.method import PAIR


class Sampled(NamedTuple):
    """Comparisons (…, l, 2), winner first, and which of them are ties (None where none can be)."""

    pairs: Tensor
    ties: Tensor | None


@torch.no_grad()
def sample(sampler: MCSampler, noisy: GPyTorchPosterior, threshold: float) -> Sampled:
    """Answers about the q designs of a posterior of noisy utilities: the best beats the others.

    A pairwise sampler chooses its own pairs, by default all. Which of the two won is read from its utilities: BoTorch
    0.18.1 writes the loser first, although its PairwiseGP, and this model, take the first for the winner.
    """
    q = noisy.mean.shape[-2]
    if q < PAIR:
        raise InvalidValueError(f"`X` must hold at least two designs, which are compared, but got {q}.")
    if isinstance(sampler, PairwiseMCSampler):
        chosen = sampler(noisy).to(noisy.device)
        utility = super(PairwiseMCSampler, sampler).forward(noisy).squeeze(-1)  # type: ignore[safe-super]
    else:
        utility = sampler(noisy).squeeze(-1)
        ranked = utility.argsort(-1, descending=True)
        chosen = torch.stack([ranked[..., :1].expand_as(ranked[..., 1:]), ranked[..., 1:]], -1)
    values = utility.unsqueeze(-2).expand(*chosen.shape[:-1], -1).gather(-1, chosen)
    lead = values[..., 0] - values[..., 1]
    pairs = torch.where((lead >= 0.0).unsqueeze(-1), chosen, chosen.flip(-1))
    return Sampled(pairs, lead.abs() <= threshold if threshold > 0.0 else None)
