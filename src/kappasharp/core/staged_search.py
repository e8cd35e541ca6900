"""The hyperparameters of many answers: searched for on few of them, then on twice as many, and so on to all.

Notation
    size   the number that sets the cost of one evaluation, its cube: m answers, or 2n designs in point space
    H      (*batch, d+1, d+1)  the descent's inverse Hessian, handed from stage to stage

The optimum on a share of the answers is off by the share's own noise, about ½ (d + 1)(m/m_share − 1) nats of evidence,
so every stage is polished by the next; the evidence grows with the answers, so H shrinks with them. The early stages
cost an eighth of the next each. They and the last one in comparison space run in single precision, whose noise in the
evidence (about 0.01 nats at 2,000 answers) lies below the tolerance; the MAP and evidence that are reported do not.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.core import comparisons, descent, evidence, likelihood, point_space, posterior
from kappasharp.core.evidence import Evaluable, Hyperfit, Model, NegativeLogPosterior
from kappasharp.core.posterior import Posterior
from kappasharp.shapes import Pairs, Parameters, PerComparison, PerComparisonMask, Points

# Up to this size one search sees all answers: it takes a second, and the published numbers come from it.
ALL_AT_ONCE = 600
# The first stage has at least so many answers; each further one twice those of the stage before.
FEWEST = 200
# A stage ends when it promises less, in nats: a fixed gain for a share and in point space; for all answers in
# comparison space, where a round takes a second, a tenth of what the hyperparameters' own posterior spreads over.
GAIN_LEFT, GAIN_LEFT_PER_PARAMETER = 0.02, 0.05
# After the first stage the end is near, and H not always what it is for all answers.
LONGEST_STEP = 1.0
# The last fit's hyperparameters are the last stage's start unless another start led to more than this above, in nats.
CLEARLY_BETTER = 1.0
# Points whose utilities are predicted at a time.
BLOCK = 1024


class Answered(NamedTuple):
    """Points, comparisons and ties of a flat batch of runs."""

    X: Points
    pairs: Pairs
    ties: PerComparisonMask | None


class Found(NamedTuple):
    """The hyperparameters, and the differences at the last MAP on the way."""

    hyper: Hyperfit
    z: PerComparison


def sizes(model: Model, X: Points, answers: int) -> list[int]:
    """How many answers each stage before the last sees; none where one search sees all."""
    size = 2 * X.shape[-2] if point_space.applies(model, X, answers) else answers
    found: list[int] = []
    if size > ALL_AT_ONCE:
        while size // 2 >= FEWEST:
            size //= 2
            found.insert(0, size)
    return found


def search(model: Model, answered: Answered, starts: list[Parameters], z: PerComparison, *, warm: bool) -> Found:
    """The hyperparameters that maximise evidence plus log prior, from differences z, zero where none are known.

    `warm` says that the first start is the end of a search over nearly all these answers.
    """
    answers = z.shape[-1]
    stages = sizes(model, answered.X, answers)
    theta, H, reached, keep = _first(model, answered, starts, z, stages[0])
    for size, before in zip(stages[1:], stages, strict=False):
        found, reached = _descend(
            model, _share(answered, size), theta, _known(z, size), (GAIN_LEFT, H * (before / size))
        )
        theta, H = found.x, found.H
    last = z if bool(z.any()) else _predicted(model, answered, theta, reached).to(z)
    theta = torch.where(keep.unsqueeze(-1), starts[0], theta) if warm else theta
    return _polish(model, answered, theta, last, (H * (stages[-1] / answers), stages[0]))


def _first(
    model: Model, answered: Answered, starts: list[Parameters], z: PerComparison, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first stage from every start: θ, H and differences of the best end, and whether the first start holds.

    It holds where its end is not clearly worse than the best one, and it lies itself no further below than the optimum
    of all answers does on a share of them: half a nat for each hyperparameter is expected.
    """
    runs, data = len(z), _share(answered, size)
    many = torch.arange(runs, device=z.device).repeat(len(starts))
    found, reached = _descend(
        model, data.take(many), torch.cat(starts).float(), _known(z, size)[many], (GAIN_LEFT, None)
    )
    value = found.value.reshape(len(starts), runs).nan_to_num(nan=torch.inf)
    lowest, best = value.min(0)
    begin = NegativeLogPosterior(model, data, reached[:runs])(starts[0].float())[0]
    keep = (value[0] <= lowest + CLEARLY_BETTER) & (begin <= lowest + starts[0].shape[-1])
    at = best * runs + many[:runs]
    return found.x[at], found.H[at], reached[at], keep


def _known(z: PerComparison, size: int) -> Tensor:
    return z[:, _rows(z, size)].float()


def _rows(z: Tensor, size: int) -> Tensor:
    """Which answers a stage of that size sees: evenly spread, so early and late ones alike."""
    return torch.arange(size, device=z.device) * z.shape[-1] // size


def _share(answered: Answered, size: int) -> evidence.Data:
    """The data of one stage, in single precision."""
    X, pairs, ties = answered
    rows = _rows(pairs[..., 0], size)
    return evidence.gather(X.float(), pairs[:, rows], None if ties is None else ties[:, rows])


def _predicted(model: Model, answered: Answered, theta: Parameters, reached: Tensor) -> PerComparison:
    """All differences, as the last stage's MAP predicts them: there the dual weights are the slopes."""
    X, pairs, ties = answered
    rows = _rows(pairs[..., 0], reached.shape[-1])
    alpha = likelihood.sites(reached, model.likelihood.margin, None if ties is None else ties[:, rows]).slope
    C = comparisons.incidence(pairs[:, rows], X.shape[-2])
    beta = comparisons.transpose(C, alpha) / model.likelihood.scale
    fitted = Posterior(model.family, X.float(), theta, beta, beta.unsqueeze(-1))
    f = torch.cat([posterior.mean(fitted, block) for block in X.float().split(BLOCK, -2)], -1)
    return comparisons.differences(comparisons.incidence(pairs, X.shape[-2]), f) / model.likelihood.scale


def _polish(model: Model, answered: Answered, theta: Parameters, z: PerComparison, before: tuple[Tensor, int]) -> Found:
    """The last stage, on all answers."""
    X, pairs, ties = answered
    H, first = before
    if point_space.applies(model, X, z.shape[-1]):
        data: Evaluable = point_space.Data(X, comparisons.incidence(pairs, X.shape[-2]), ties)
        gain = GAIN_LEFT
    else:
        X = X.float()
        data, gain = evidence.gather(X, pairs, ties), GAIN_LEFT_PER_PARAMETER * theta.shape[-1]
    found, reached = _descend(model, data, theta.to(X), z.to(X), (gain, H.to(X)))
    searched = torch.full_like(found.rounds, first)
    theta, value, gradient = (part.to(z) for part in (found.x, -found.value, -found.gradient))
    return Found(Hyperfit(theta, value, gradient, found.converged, found.rounds, searched), reached.to(z))


class _Kept(NegativeLogPosterior):
    """The same, which writes each row's last MAP where the others can find it."""

    def __init__(self, inner: NegativeLogPosterior, kept: Tensor, place: Tensor) -> None:
        super().__init__(inner.model, inner.data, inner.z)
        self.kept, self.place = kept, place

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        found = super().__call__(theta)
        self.kept.index_copy_(0, self.place, self.z)
        return found

    def take(self, rows: Tensor) -> "_Kept":
        return _Kept(super().take(rows), self.kept, self.place.index_select(0, rows))


def _descend(
    model: Model, data: Evaluable, theta: Parameters, z: PerComparison, how: tuple[float, Tensor | None]
) -> tuple[descent.Descent, PerComparison]:
    """One stage from theta and z, to a gain left and with an H; where it ended, and the differences there."""
    gain, H = how
    low, high = model.priors.bounds(theta)
    usual = evidence.tolerances(theta.dtype)
    tolerances = usual._replace(decrease=gain, longest_step=usual.longest_step if H is None else LONGEST_STEP)
    kept, place = z.clone(), torch.arange(len(theta), device=theta.device)
    objective = _Kept(NegativeLogPosterior(model, data, z), kept, place)
    return descent.minimize(objective, theta, low, high, tolerances, H), kept
