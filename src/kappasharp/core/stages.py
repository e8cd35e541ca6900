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

from kappasharp.core import comparisons, descent, evidence, reduced
from kappasharp.core.evidence import Evaluable, Hyperfit, Model, NegativeLogPosterior
from kappasharp.shapes import Pairs, Parameters, PerComparison, PerComparisonMask, Points

# Up to this size one search sees all answers: it takes a second, and the published numbers come from it.
ALL_AT_ONCE = 600
# The first stage has at least so many answers; each further one twice those of the stage before.
FEWEST = 200
# A stage ends when it promises less: nats for a share, nats per answer for all. A person's answer tells up to 0.7.
GAIN_LEFT, GAIN_LEFT_PER_ANSWER = 0.05, 1e-4
# After the first stage the end is near, and H not always what it is for all answers.
LONGEST_STEP = 0.5
# The last fit's hyperparameters are kept as the start unless the prior's mode leads to more than this above them, nats.
CLEARLY_BETTER = 0.1


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
    size = 2 * X.shape[-2] if reduced.applies(model, X, answers) else answers
    found: list[int] = []
    if size > ALL_AT_ONCE:
        while size // 2 >= FEWEST:
            size //= 2
            found.insert(0, size)
    return found


def search(model: Model, answered: Answered, starts: list[Parameters], z: PerComparison, *, warm: bool) -> Found:
    """The hyperparameters that maximise evidence plus log prior. `warm`: the first start is a fit of nearly all this."""
    X, pairs, ties = answered
    runs, answers = len(z), z.shape[-1]
    stages = sizes(model, X, answers)
    many = torch.arange(runs, device=X.device).repeat(len(starts))
    theta, H = torch.cat(starts).float(), None
    for stage, size in enumerate(stages):
        rows = torch.arange(size, device=X.device) * answers // size
        data: Evaluable = evidence.gather(X.float(), pairs[:, rows], None if ties is None else ties[:, rows])
        kept = z[:, rows].float()
        if stage == 0:
            data, kept = data.take(many), kept[many]
        found = _descend(model, data, theta, kept, GAIN_LEFT, H)
        theta, H = found.x, found.H * (size / (stages[1:] + [answers])[stage])
        if stage == 0:
            best = _best(found.value.reshape(len(starts), runs), warm=warm)
            at = best * runs + torch.arange(runs, device=X.device)
            theta, H = theta[at], H[at]
    assert H is not None
    theta = torch.where((best == 0).unsqueeze(-1), starts[0], theta) if warm else theta
    return _polish(model, answered, theta, z, (H, stages[0]))


def _best(value: Tensor, *, warm: bool) -> Tensor:
    """Which start (starts, runs) came lowest; the first one where no other is clearly better."""
    value = value.nan_to_num(nan=torch.inf)
    if warm:
        value = torch.cat([value[:1] - CLEARLY_BETTER, value[1:]])
    return value.argmin(0)


def _polish(model: Model, answered: Answered, theta: Parameters, z: PerComparison, before: tuple[Tensor, int]) -> Found:
    """The last stage, on all answers."""
    X, pairs, ties = answered
    H, first = before
    if reduced.applies(model, X, z.shape[-1]):
        data: Evaluable = reduced.Data(X, comparisons.incidence(pairs, X.shape[-2]), ties)
    else:
        X = X.float()
        data = evidence.gather(X, pairs, ties)
    kept = z.to(X).clone()
    found = _descend(model, data, theta.to(X), kept, GAIN_LEFT_PER_ANSWER * z.shape[-1], H.to(X))
    searched = torch.full_like(found.rounds, first)
    parts = (part.to(z) for part in (found.x, -found.value, -found.gradient))
    return Found(Hyperfit(*parts, found.converged, found.rounds, searched), kept.to(z))


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
    model: Model, data: Evaluable, theta: Parameters, kept: PerComparison, gain: float, H: Tensor | None
) -> descent.Descent:
    """One stage from theta; `kept` holds the start of the MAP's search, and afterwards its end."""
    low, high = model.priors.bounds(theta)
    usual = evidence.tolerances(theta.dtype)
    tolerances = usual._replace(decrease=gain, longest_step=usual.longest_step if H is None else LONGEST_STEP)
    place = torch.arange(len(theta), device=theta.device)
    objective = _Kept(NegativeLogPosterior(model, data, kept), kept, place)
    return descent.minimize(objective, theta, low, high, tolerances, H)
