"""The hyperparameters that maximise evidence plus log prior: from several starts, and for many answers in stages.

Notation
    theta  (*batch, d+1)       log ℓ₁ … log ℓ_d, log s
    size   the number that sets the cost of one evaluation, its cube: m answers, or 2n designs on points
    H      (*batch, d+1, d+1)  the descent's inverse Hessian, handed from stage to stage

Many answers are searched on few of them first, then on twice as many, and so on to all. The optimum on a share of the
answers is off by the share's own noise, about ½ (d + 1)(m/m_share − 1) nats of evidence, so every stage is polished by
the next; the evidence grows with the answers, so H shrinks with them. The early stages cost an eighth of the next each.
They and the last one in comparison space run in single precision, whose noise in the evidence (about 0.01 nats at 2,000
answers) lies below the tolerance; the MAP and evidence that are reported do not.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import comparison_space, comparisons, laplace, likelihood, posterior
from kappasharp.inference.comparison_space import EndPoints
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.fit_space import FitSpace, Gathered
from kappasharp.inference.posterior import Posterior
from kappasharp.inference.voter_evidence import Voices
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.kernels.stationary import Sum
from kappasharp.native import evidence, launch
from kappasharp.native.sources import Execute
from kappasharp.numerics import quasi_newton
from kappasharp.tensors import Indices, Parameters, PerComparison, PerRun, PerRunMask, take

# Up to this size one search sees all answers: it takes a second, and the published numbers come from it.
ALL_AT_ONCE = 600
# A search of all answers at once ends when it promises less, in nats: up to a number of answers, and beyond.
FINE, CHEAP, ENOUGH = 5e-5, 150, 1e-3
# The first stage has at least this many answers; each further one twice those of the stage before.
FEWEST = 200
# A stage ends when it promises less, in nats: a fixed gain for a share and in point space; for all answers in
# comparison space, where a round takes a second, a tenth of what the hyperparameters' own posterior spreads over.
GAIN_LEFT, GAIN_LEFT_PER_PARAMETER = 0.02, 0.05
# After the first stage the end is near, and H not always what it is for all answers.
LONGEST_STEP = 1.0
# The last fit's hyperparameters are the last stage's start unless another start led to more than this above, in nats.
CLEARLY_BETTER = 1.0
# Why no kernel does it where the fit is on points.
ON_POINTS = "on points, of which there are fewer than answers"
# Points whose utilities are predicted at a time.
BLOCK = 1024


class Hyperfit(NamedTuple):
    """The best hyperparameters found, and how the search ended; `searched_on` is how many answers it began with.

    It is 0 where there was no search, because an earlier one's end was kept.
    """

    theta: Parameters
    value: PerRun
    gradient: Parameters
    converged: PerRunMask
    rounds: Indices
    searched_on: Indices


class Searched(NamedTuple):
    """The hyperparameters, and the differences at the last MAP on the way."""

    hyper: Hyperfit
    z: PerComparison


def search(model: Model, space: FitSpace, starts: list[Parameters], z: PerComparison, *, warm: bool) -> Searched:
    """The hyperparameters that maximise evidence plus log prior, from differences z, zero where none are known.

    `warm` says that the first start is the end of a search over nearly all these answers.
    """
    stages = sizes(space)
    if not stages:
        return search_at_once(model, space.gather(), starts, z, FINE if space.size <= CHEAP else ENOUGH)
    return _search_in_stages(model, space, starts, z, stages=stages, warm=warm)


def search_at_once(
    model: Model, data: Gathered, starts: list[Parameters], z: PerComparison, gain: float = FINE
) -> Searched:
    """The best hyperparameters over all starts; the runs of every start go through one batch."""
    runs = len(z)
    if z.shape[-1] == 0:
        # Without answers the evidence is flat: the prior's own mode stands.
        theta, flat = starts[0], z.new_zeros(runs)
        return Searched(Hyperfit(theta, flat, torch.zeros_like(theta), flat == 0, flat.long(), flat.long()), z)
    copies = len(starts)
    many = torch.arange(runs, device=z.device).repeat(copies)
    found = maximize(model, take(data, many), torch.cat(starts), z[many], gain)
    best = found.hyper.value.reshape(copies, runs).nan_to_num(nan=-torch.inf).argmax(0)
    rows = best * runs + torch.arange(runs, device=z.device)
    return take(found, rows)


def kept(theta: Parameters) -> Hyperfit:
    """Hyperparameters of a search over nearly all the answers, as they are; what they reach on all is not known yet."""
    unknown = torch.full_like(theta[:, 0], torch.nan)
    none = torch.zeros_like(unknown).long()
    return Hyperfit(theta, unknown, torch.full_like(theta, torch.nan), none == 0, none, none)


class NegativeLogPosterior:
    """Minus evidence plus priors, as descent wants it; keeps each row's last MAP as the next one's start."""

    def __init__(self, model: Model, data: Gathered, z: PerComparison) -> None:
        self.model, self.data, self.z = model, data, z

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Value (rows,) and gradient (rows, d + 1)."""
        evidence = self.data.evaluate(self.model, theta, self.z)
        priors = self.model.priors
        value = evidence.value + priors.log_density(theta)
        # A MAP without certificate has no evidence: the search must not move there.
        usable = evidence.converged & value.isfinite()
        self.z = torch.where(usable.unsqueeze(-1), evidence.z, self.z)
        return torch.where(usable, -value, torch.inf), -(evidence.gradient + priors.slope(theta))

    def take(self, rows: Tensor) -> "NegativeLogPosterior":
        """The same for these rows."""
        return NegativeLogPosterior(self.model, take(self.data, rows), self.z.index_select(0, rows))


def tolerances(dtype: torch.dtype, gain: float = FINE) -> quasi_newton.Tolerances:
    """When the search stops: at so small a promised gain, or at single precision's own noise in the evidence."""
    fine = dtype == torch.float64
    return quasi_newton.Tolerances(
        gradient=1e-3 if fine else 1e-2, decrease=gain if fine else max(gain, 1e-3), max_rounds=200, longest_step=2.0
    )


def maximize(model: Model, data: Gathered, theta: Parameters, z: PerComparison, gain: float = FINE) -> Searched:
    """The hyperparameters that maximise evidence plus log prior, from theta, for one flat batch of runs.

    One kernel does it where there is one for these runs; which way was taken is counted in kernels.launch.taken.
    """
    fused = None
    if isinstance(data, EndPoints | Voices):
        fused = fused_search(model, data, theta, z, gain)
    else:
        launch.passed_by("evidence", ON_POINTS)
    if fused is None:
        low, high = model.priors.bounds(theta)
        objective = NegativeLogPosterior(model, data, z)
        fused = quasi_newton.minimize(objective, theta, low, high, tolerances(theta.dtype, gain)), z
    found, z = fused
    searched_on = torch.full_like(found.rounds, z.shape[-1])
    return Searched(Hyperfit(found.x, -found.value, -found.gradient, found.converged, found.rounds, searched_on), z)


def fused_search(
    model: Model,
    data: EndPoints | Voices,
    theta: Parameters,
    z: PerComparison,
    gain: float = FINE,
    *,
    execute: Execute | None = None,
) -> tuple[quasi_newton.Descent, PerComparison] | None:
    """The same search as one launch, of `execute` if given, and the differences at the last MAP.

    None where the kernel does not take these runs.
    """
    ends = data.data if isinstance(data, Voices) else data
    rows = evidence.Rows(ends.E, ends.gram, theta, z)
    if isinstance(data, Voices):
        rows = rows._replace(voter=data.voter.int())
    if ends.detail is not None:
        rows = rows._replace(weight=ends.detail.weight, noise=ends.detail.noise)
    if ends.ties is not None:
        rows = rows._replace(bounds=likelihood.bounds(ends.ties, model.likelihood.margin))
    constants = _constants(model, theta.dtype, ends.E.shape[-1], gain)
    execute = execute or evidence.executor(rows, constants)
    if execute is None:
        return None
    low, high = (end[0] for end in model.priors.bounds(theta))
    found = evidence.minimize(rows, (low, high), constants, execute)
    assert found.z is not None
    return quasi_newton.of_kernel(*found[:5]), found.z


def _constants(model: Model, dtype: torch.dtype, dimension: int, gain: float) -> evidence.EvidenceConstants:
    """The numbers that all rows share, as the kernel takes them; a sum has two kernels."""
    probit, limits, priors = model.likelihood, tolerances(dtype, gain), model.priors
    family, split = (model.family.family, model.family.sizes[0]) if isinstance(model.family, Sum) else (model.family, 0)
    return evidence.EvidenceConstants(
        matern=family == "matern52",
        nugget=model.nugget,
        scale=probit.scale,
        margin=probit.margin,
        prior=priors.terms(dimension),
        newton=(laplace.tolerance(dtype), laplace.PLAIN_ITERATIONS, laplace.DAMPED_ITERATIONS),
        limits=quasi_newton.numbers(limits),
        max_rounds=limits.max_rounds,
        split=split,
        voters=priors.people if isinstance(priors, PeoplePriors) else 0,
    )


def sizes(space: FitSpace) -> list[int]:
    """How many answers each stage before the last sees; none where one search sees all."""
    size, found = space.size, list[int]()
    if size > ALL_AT_ONCE:
        while size // 2 >= FEWEST:
            size //= 2
            found.insert(0, size)
    return found


def _search_in_stages(
    model: Model,
    space: FitSpace,
    starts: list[Parameters],
    z: PerComparison,
    *,
    stages: list[int],
    warm: bool,
) -> Searched:
    answers, count = space.answers, z.shape[-1]
    theta, H, reached, keep = _first(model, answers, starts, z, stages[0])
    for size, before in zip(stages[1:], stages, strict=False):
        found, reached = descend(
            model, _share(answers, size), theta, _known(z, size), gain=GAIN_LEFT, H=H * (before / size)
        )
        theta, H = found.x, found.H
    last = z if bool(z.any()) else _predicted(model, answers, theta, reached).to(z)
    theta = torch.where(keep.unsqueeze(-1), starts[0], theta) if warm else theta
    found, reached = _polish(model, space.coarse(), theta, last, H * (stages[-1] / count))
    searched_on = torch.full_like(found.rounds, stages[0])
    theta, value, gradient = (part.to(z) for part in (found.x, -found.value, -found.gradient))
    return Searched(Hyperfit(theta, value, gradient, found.converged, found.rounds, searched_on), reached.to(z))


def _first(
    model: Model, answers: Answers, starts: list[Parameters], z: PerComparison, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first stage from every start: θ, H and differences of the best end, and whether the first start holds.

    It holds where its end is not clearly worse than the best one, and it lies itself no further below than the optimum
    of all answers does on a share of them: half a nat for each hyperparameter is expected.
    """
    runs, data = len(z), _share(answers, size)
    many = torch.arange(runs, device=z.device).repeat(len(starts))
    found, reached = descend(
        model, take(data, many), torch.cat(starts).float(), _known(z, size)[many], gain=GAIN_LEFT, H=None
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


def _share(answers: Answers, size: int) -> EndPoints:
    """The data of one stage, in single precision."""
    some = comparisons.some(answers, _rows(answers.pairs[..., 0], size))
    return comparison_space.gather(*some._replace(X=some.X.float()))


def _predicted(model: Model, answers: Answers, theta: Parameters, reached: Tensor) -> PerComparison:
    """All differences, as the last stage's MAP predicts them: there the dual weights are the slopes."""
    X, pairs, _, detail = answers
    some = comparisons.some(answers, _rows(pairs[..., 0], reached.shape[-1]))
    alpha = likelihood.sites(reached, model.likelihood.margin, some.ties).slope
    C = comparisons.incidence(some.pairs, X.shape[-2], some.detail)
    beta = comparisons.transpose(C, alpha) / model.likelihood.scale
    fitted = Posterior(model.family, X.float(), theta, beta, beta.unsqueeze(-1))
    f = torch.cat([posterior.mean(fitted, block) for block in X.float().split(BLOCK, -2)], -1)
    return comparisons.differences(comparisons.incidence(pairs, X.shape[-2], detail), f) / model.likelihood.scale


def _polish(
    model: Model, space: FitSpace, theta: Parameters, z: PerComparison, H: Tensor
) -> tuple[quasi_newton.Descent, PerComparison]:
    """The last stage, on all answers, in the precision that the space has."""
    X = space.answers.X
    gain = GAIN_LEFT_PER_PARAMETER * theta.shape[-1] if X.dtype == torch.float32 else GAIN_LEFT
    return descend(model, space.gather(), theta.to(X), z.to(X), gain=gain, H=H.to(X))


class _WithLast(NegativeLogPosterior):
    """The same, which writes each row's last differences to its own row of `last`."""

    def __init__(self, inner: NegativeLogPosterior, last: Tensor, row: Tensor) -> None:
        super().__init__(inner.model, inner.data, inner.z)
        self.last, self.row = last, row

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        found = super().__call__(theta)
        self.last.index_copy_(0, self.row, self.z)
        return found

    def take(self, rows: Tensor) -> "_WithLast":
        return _WithLast(super().take(rows), self.last, self.row.index_select(0, rows))


def descend(
    model: Model, data: Gathered, theta: Parameters, z: PerComparison, *, gain: float, H: Tensor | None
) -> tuple[quasi_newton.Descent, PerComparison]:
    """One stage from theta and z, to a gain left and with an H; where it ended, and the last differences found."""
    low, high = model.priors.bounds(theta)
    usual = tolerances(theta.dtype)
    limits = usual._replace(decrease=gain, longest_step=usual.longest_step if H is None else LONGEST_STEP)
    last = z.clone()
    objective = _WithLast(NegativeLogPosterior(model, data, z), last, torch.arange(len(theta), device=theta.device))
    return quasi_newton.minimize(objective, theta, low, high, limits, H), last
