"""Which two of the designs seen to compare so that the best of them is known: the knowledge gradient of a duel.

Notation
    mean  (runs, k)     posterior means of the leaders
    cov   (runs, k, k)  their posterior covariance
    u     (runs, p)     the expected difference of a pair over its deviation, the answer's noise included
    pull  (runs, p, k)  how far an answer to the pair moves a leader's mean, in units of φ(u)

An answer multiplies a Gaussian by a probit, whose mean is known: with i over j the mean of leader l moves by
pull·φ(u)/Φ(u), with j over i by −pull·φ(u)/Φ(−u). So what is told after the answer is worth, on average,
max_l [Φ(u) mean_l + pull_l φ(u)] + max_l [Φ(−u) mean_l − pull_l φ(u)], exactly.
"""

import torch
from torch import Tensor

from kappasharp.core import posterior
from kappasharp.core.posterior import Posterior

# How many designs with the highest mean plus deviation are looked at.
LEADERS = 24
LOG_ROOT_2_PI = 0.9189385332046727


def duel(fitted: Posterior, noise: float, met: Tensor) -> Tensor:
    """The indices (runs, 2) of the duel after which the design told is expected to be best.

    `met` (runs, m, 2) are the pairs already compared, which are asked again only where there is no other.
    """
    mean, cov = posterior.joint(fitted, fitted.X)
    deviation = cov.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()
    runs, n = mean.shape
    leaders = (mean + deviation).topk(min(LEADERS, n), -1).indices
    k = leaders.shape[-1]
    mean = mean.gather(1, leaders)
    cov = cov.gather(1, leaders.unsqueeze(-1).expand(-1, -1, n)).gather(2, leaders.unsqueeze(1).expand(-1, k, -1))
    i, j = torch.triu_indices(k, k, 1, device=mean.device)
    value = worth(mean, cov, torch.stack([i, j]), noise)
    known = torch.zeros(runs, n, n, dtype=torch.bool, device=mean.device)
    known[torch.arange(runs, device=mean.device).unsqueeze(-1), met[..., 0], met[..., 1]] = True
    known = known | known.mT
    first, second = leaders[:, i], leaders[:, j]
    again = known[torch.arange(runs, device=mean.device).unsqueeze(-1), first, second]
    # Met pairs come after all others, in their own order.
    value = torch.where(again, value - value.amax(-1, keepdim=True) + value.amin(-1, keepdim=True) - 1.0, value)
    best = value.argmax(-1, keepdim=True)
    return torch.cat([first.gather(1, best), second.gather(1, best)], -1)


def worth(mean: Tensor, cov: Tensor, pairs: Tensor, noise: float) -> Tensor:
    """The expected highest mean (runs, p) after an answer to each of p pairs (2, p) of the leaders."""
    i, j = pairs
    pull = cov[:, i] - cov[:, j]
    variance = pull.gather(2, i.expand(len(mean), -1).unsqueeze(-1)) - pull.gather(
        2, j.expand(len(mean), -1).unsqueeze(-1)
    )
    spread = (variance.clamp(min=0.0) + 2.0 * noise**2).sqrt()
    pull = pull / spread
    u = (mean[:, i] - mean[:, j]).unsqueeze(-1) / spread
    density = (-0.5 * u.square() - LOG_ROOT_2_PI).exp()
    chance = torch.special.ndtr(u)
    rows = mean.unsqueeze(1)
    won = (chance * rows + pull * density).amax(-1)
    lost = ((1.0 - chance) * rows - pull * density).amax(-1)
    return won + lost
