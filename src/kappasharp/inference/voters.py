"""Several people's answers in one model: the fit, its posteriors, and the search for its many hyperparameters.

The stages of the search are as in hyperparameters.py, each with about twice the answers of the one before, the last
with all. But a stage has the answers of the first voters in a line, whole, and the hyperparameters of those alone. What
was learnt of the curvature goes from stage to stage; of a voter who comes in, what was learnt of the others. The early
stages run in single precision, whose noise in the evidence lies below what ends them; so does the last one where
answers are very many. The certificate is one of all answers, always.
"""

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from kappasharp.inference import (
    comparison_space,
    comparisons,
    evidence,
    hyperparameters,
    laplace,
    likelihood,
    voter_evidence,
)
from kappasharp.inference.comparisons import Answers, Incidence
from kappasharp.inference.evidence import Model
from kappasharp.inference.hyperparameters import ALL_AT_ONCE, Hyperfit
from kappasharp.inference.hyperparameters import GAIN_LEFT as hyperparameters_GAIN_LEFT
from kappasharp.inference.laplace import DualFit
from kappasharp.inference.likelihood import Ties
from kappasharp.inference.posterior import Posterior
from kappasharp.inference.voter_evidence import Voices
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.numerics.quasi_newton import Descent
from kappasharp.tensors import ComparisonMatrix, Parameters, PerComparison, PerRun, PointMatrix, Points, take

# Which answers of several people a search begins with: those of whole voters, whatever order they came in.
#
# Notation
#     voter  (m,)  who gave each answer, 0 to V − 1; −1 for what nobody said
#     rank   (V,)  each voter's place in the line
#     rows   (m,)  the answers in the order of the line: what nobody said, then voter after voter
#
# Two answers by one person carry what is known of ρ, so a share of the answers is one of voters. Every so-manieth
# answer is not: where people answer in turn it may hear only one of them. A voter's place in the line, and an answer's
# among its voter's, is a hash of what was answered. It has nothing to do with the order in which answers or voters
# came, and two lines of the same answers are the same to the last digit. Coordinates are hashed to 2⁻²⁰: one that was
# computed in another order of sums is still the same.

# Hashes are numbers modulo a prime below 2³¹, so that a product of two has 62 bits; the factor is Park and Miller's.
PRIME, FACTOR, ROUNDS, FINE = 2**31 - 1, 48271, 3, 2.0**20
# A share is one of this many voters at least: where they do not fit in whole, of an equal count of answers from each.
LEAST_VOTERS = 10


class VoterLine(NamedTuple):
    """All answers of one run in line, and of each its voter's rank (−1 for nobody) and its place among its voter's."""

    rows: Tensor
    rank: Tensor
    place: Tensor
    voters: Tensor

    def share(self, size: int) -> Tensor:
        """Places in the line of the answers of the first voters: so many or a few less, or all if there are no more."""
        if size >= len(self.rows):
            return torch.arange(len(self.rows), device=self.rows.device)
        people = len(self.voters)
        heard = self.place < max(size // max(min(people, LEAST_VOTERS), 1), 1)
        told = torch.bincount(self.rank[heard & (self.rank >= 0)], minlength=people).cumsum(0)
        fits = int((told <= size - int((self.rank < 0).sum())).sum())
        return ((self.rank < max(fits, 1)) & (heard | (self.rank < 0))).nonzero().squeeze(-1)


def line_up(answers: Answers, voter: Tensor, people: int) -> VoterLine:
    """The line of one run's answers (a batch of one)."""
    content = _content(answers)
    known = voter >= 0
    told = torch.zeros(people, dtype=torch.long, device=voter.device)
    told = told.scatter_add(0, voter[known], content[known])
    voters = _mixed(told % PRIME).argsort(stable=True)
    rank = torch.full_like(voter, -1)
    rank[known] = voters.argsort()[voter[known]]
    rows = (rank * PRIME + content).argsort(stable=True)
    rank = rank[rows]
    count = torch.bincount(rank + 1, minlength=people + 1)
    place = torch.arange(len(rows), device=rows.device) - (count.cumsum(0) - count)[rank + 1]
    return VoterLine(rows, rank, place, voters)


def _content(answers: Answers) -> Tensor:
    """A hash of every answer: of the coordinates of its winner and its loser, and of whether it was a tie."""
    X, pairs = answers.X[0], answers.pairs[0]
    parts = [*X[pairs[:, 0]].unbind(-1), *X[pairs[:, 1]].unbind(-1)]
    found = torch.zeros(len(pairs), dtype=torch.long, device=pairs.device)
    for part in parts:
        found = (found * FACTOR + (part.double() * FINE).round().long()) % PRIME
    if isinstance(answers.ties, Tensor):
        found = (found * FACTOR + answers.ties[0]) % PRIME
    return _mixed(found)


def _mixed(value: Tensor) -> Tensor:
    """Numbers that look like chance, from numbers modulo the prime."""
    for _ in range(ROUNDS):
        value = (value * value + FACTOR * value + 1) % PRIME
    return value


# Up to so many answers the search ends in double precision. On one x86-64 core a round takes 0.3 s there on 1,200
# answers; on 2,400 three, and 1.2 in single precision; on 4,320 four in single precision.
ACCURATE = 2000

T = TypeVar("T")


class _Run(NamedTuple):
    """One run's answers in line; z are differences to start from."""

    model: Model
    priors: PeoplePriors
    answers: Answers
    line: VoterLine
    z: PerComparison


class _Stage(NamedTuple):
    """What one stage is about; `told` is how many answers each of its voters gave there."""

    model: Model
    data: Voices
    z: PerComparison
    told: Tensor


def search(
    model: Model,
    answers: Answers,
    voter: Tensor,
    starts: list[Parameters],
    z: PerComparison,
    *,
    first: int,
    gain: float,
) -> Hyperfit:
    """The hyperparameters of every run; the first stage has at most `first` answers, the last promises `gain` or less.

    In single precision it promises no less than its noise.
    """
    priors = model.priors
    assert isinstance(priors, PeoplePriors)
    found = []
    for number in range(len(voter)):
        row = torch.tensor([number], device=voter.device)
        own = take(answers, row)
        line = line_up(own, voter[number], priors.people)
        run = _Run(model, priors, comparisons.some(own, line.rows), line, z[row][:, line.rows])
        # A voter's log c stands where the voter does.
        shared = starts[0].shape[-1] - priors.people
        columns = torch.cat([torch.arange(shared, device=voter.device), shared + line.voters])
        hyper = _of_one(run, torch.cat(starts)[number :: len(voter)][:, columns], first, gain)
        back = columns.argsort()
        found.append(hyper._replace(theta=hyper.theta[:, back], gradient=hyper.gradient[:, back]))
    return Hyperfit(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _of_one(run: _Run, theta: Parameters, first: int, gain: float) -> Hyperfit:
    """The hyperparameters of one run, from several starts (starts, p)."""
    shared, single, double = theta.shape[-1] - run.priors.people, torch.float32, torch.float64
    sizes = _sizes(len(run.line.rows), first)
    stage = _stage(run, sizes[0], single)
    found, theta = _first(stage, theta, shared)
    rest = [(size, single, hyperparameters_GAIN_LEFT) for size in sizes[1:]]
    if sizes[-1] <= ACCURATE and theta.dtype == double:
        rest.append((sizes[-1], double, gain))
    for size, dtype, left in rest:
        before, stage = stage, _stage(run, size, dtype)
        theta[:, : found.x.shape[-1]] = found.x.to(theta)
        H = _grown(found.H, before, stage, shared).to(stage.z)
        x = theta[:, : H.shape[-1]].to(stage.z)
        found, _ = hyperparameters.descend(stage.model, stage.data, x, stage.z, gain=left, H=H)
    began = torch.full_like(found.rounds, int(run.line.share(sizes[0]).numel()))
    parts = (found.x.to(theta), -found.value.to(theta), -found.gradient.to(theta))
    return Hyperfit(*parts, found.converged, found.rounds, began)


def _sizes(count: int, first: int) -> list[int]:
    """How many answers each stage has: `first` at most, twice as many, and so on to all."""
    found = [count]
    while found[0] > first:
        found.insert(0, -(-found[0] // 2))
    return found


def _stage(run: _Run, size: int, dtype: torch.dtype) -> _Stage:
    """The stage of so many answers, in a precision; that of all has all voters."""
    rows = run.line.share(size)
    who = run.line.rank[rows]
    people = run.priors.people if len(rows) == len(run.line.rows) else int(who.max()) + 1
    answers = _in_precision(comparisons.some(run.answers, rows), dtype)
    return _Stage(
        run.model._replace(priors=run.priors._replace(people=people)),
        voter_evidence.gather(answers, who.unsqueeze(0), people),
        run.z[:, rows].to(dtype),
        torch.bincount(who[who >= 0], minlength=people),
    )


def _in_precision(value: T, dtype: torch.dtype) -> T:
    """The same with its real numbers in a precision."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value  # type: ignore[return-value]
    if isinstance(value, tuple):
        return type(value)(*(_in_precision(part, dtype) for part in value))
    return value


def _first(stage: _Stage, theta: Parameters, shared: int) -> tuple[Descent, Tensor]:
    """The first stage's best end over all starts, and the start that led to it."""
    many = torch.zeros(len(theta), dtype=torch.long, device=theta.device)
    x = theta[:, : shared + len(stage.told)].to(stage.z)
    found, _ = hyperparameters.descend(
        stage.model, take(stage.data, many), x, stage.z[many], gain=hyperparameters_GAIN_LEFT, H=None
    )
    best = found.value.nan_to_num(nan=torch.inf).argmin().unsqueeze(0)
    return take(found, best), theta[best].clone()


def _grown(H: Tensor, before: _Stage, after: _Stage, shared: int) -> Tensor:
    """What was learnt of the curvature, for a stage with more answers and more voters.

    The evidence grows with the answers: in a voter's consistency with that voter's own, in all else with all.
    """
    ratio = before.z.shape[-1] / after.z.shape[-1]
    old = len(before.told)
    own = (before.told / after.told[:old].clamp(min=1)).clamp(max=1.0).sqrt().to(H)
    scale = torch.cat([own.new_full((shared,), ratio**0.5), own])
    H = H * scale.unsqueeze(-1) * scale
    usual = H[0].diagonal()[shared:].median()
    out = torch.eye(shared + len(after.told), dtype=H.dtype, device=H.device).unsqueeze(0) * usual
    out[:, : shared + old, : shared + old] = H
    return out


# Several people's answers in one model: what all share, what is each one's own, and how consistent each one is.
#
# Notation
#     voter  (*batch, m)      who gave each answer, 0 to V − 1; −1 for what is believed of all alike
#     rho    (*batch,)        ρ: the share of a utility's prior variance that all have in common
#     c      (*batch, V)      consistency: a person's noise is σ/c
#     M      (*batch, m, m)   c_i c_j (ρ + (1 − ρ)[v_i = v_j]): what was A for one person is A ∘ M
#     theta  (*batch, P+1+V)  one person's P hyperparameters, logit ρ, log c
#
# The utility of voter v is g(x) + h_v(x), with covariance s ρ k(x, x′) for g and s (1 − ρ) k(x, x′) for every h_v. So
# the fit stays in comparison space, and every posterior, of g or of one voter's utility, is one over designs: the
# answers weigh differently in it, that is all. The likelihood stays log-concave: the MAP is one, and has its
# certificate.
# An answer with no voter is about g: no c, and nobody's own.

# The search ends when it promises less, in nats: every voter brings a hyperparameter, and the last thousandth of a nat
# takes half of the rounds.
GAIN_LEFT = 5e-4


class PeopleFit(NamedTuple):
    """The fit of several people's answers; `alone` are the hyperparameters that one person's model would have."""

    family: stationary.Covariance
    X: Points
    C: Incidence
    ties: Ties
    member: Tensor
    hyper: Hyperfit
    alone: Parameters
    rho: PerRun
    consistency: Tensor
    K: PointMatrix
    dual: DualFit
    half: ComparisonMatrix
    scale: float
    value: PerRun


def fit(
    model: Model,
    answers: Answers,
    voter: Tensor,
    *,
    theta: Tensor | None = None,
    z: Tensor | None = None,
    cold: bool = True,
) -> PeopleFit:
    """Hyperparameters, MAP and what predictions need, of a flat batch of runs whose model has `PeoplePriors`.

    Args:
        model: The model.
        answers: All answers; X are the points, or their features.
        voter: Who gave each (runs, m).
        theta: The last fit's hyperparameters, to start from.
        z: The last fit's differences.
        cold: Whether to start from what is believed, too.
    """
    assert isinstance(model.priors, PeoplePriors)
    X, people = answers.X, model.priors.people
    starts = [] if theta is None else [theta]
    if cold or theta is None:
        starts += [start.to(X).expand(len(X), -1) for start in model.priors.starts(X.shape[-1])]
    answers = comparison_space.bounded(model.likelihood, answers)
    m = answers.pairs.shape[-2]
    z = X.new_zeros(len(X), m) if z is None else torch.nn.functional.pad(z, (0, m - z.shape[-1]))
    if m > ALL_AT_ONCE:
        hyper = search(model, answers, voter, starts, z, first=ALL_AT_ONCE, gain=GAIN_LEFT)
    else:
        data = voter_evidence.gather(answers, voter, people)
        hyper = hyperparameters.search_at_once(model, data, starts, z, GAIN_LEFT).hyper
    return condition(model, answers, voter, hyper, z)


def condition(model: Model, answers: Answers, voter: Tensor, hyper: Hyperfit, z: PerComparison) -> PeopleFit:
    """The same at hyperparameters that are known; answers as `comparison_space.bounded` gives them."""
    assert isinstance(model.priors, PeoplePriors)
    alone, people = model.priors.split(hyper.theta)
    rho, c = people[..., 0].sigmoid(), people[..., 1:].exp()
    probit, X = model.likelihood, answers.X
    member = (voter.unsqueeze(-1) == torch.arange(model.priors.people, device=X.device)).to(X)
    share = rho[..., None, None]
    M = voter_evidence.consistent(member, people[..., 1:]) * (share + (1.0 - share) * (member @ member.mT))
    K = stationary.covariance(model.family, X, alone, model.nugget)
    C = comparisons.incidence(answers.pairs, X.shape[-2], answers.detail)
    gram = comparisons.congruence(C, K) * M
    if answers.detail is not None:
        gram = gram + probit.scale**2 * answers.detail.noise.to(gram)
    A = gram / probit.scale**2
    dual = laplace.solve(A, probit.margin, z, answers.ties)
    omega = likelihood.curvature(dual.z, probit.margin, answers.ties).omega / probit.scale**2
    L = laplace.factor(gram, omega.sqrt())
    value = evidence.value_at(probit, dual, L, answers.ties)
    if model.curvature == "averaged":
        omega = comparison_space.averaged_omega(A, dual.z, probit.margin, answers.ties) / probit.scale**2
        L = laplace.factor(gram, omega.sqrt())
    half = comparison_space.scaled_inverse(L, omega.sqrt()).mT
    return PeopleFit(
        model.family, X, C, answers.ties, member, hyper, alone, rho, c, K, dual, half, probit.scale, value
    )  # fmt: skip


def of_all(fit: PeopleFit, weights: Tensor | None = None) -> Posterior:
    """The posterior of the mean utility of all voters, whose weights (V,) sum to one; by default all count alike.

    Then it is that of g but for a factor: what all share and the mean of what is each one's own cannot be told apart.
    """
    people = fit.member.shape[-1]
    weights = fit.rho.new_full((people,), 1.0 / people) if weights is None else weights.to(fit.rho)
    rho = fit.rho.unsqueeze(-1)
    variance = rho + (1.0 - rho) * weights.square().sum()
    own = (fit.member * weights).sum(-1)
    count = stationary.n_outputscales(fit.family)
    theta = torch.cat([fit.alone[..., :-count], fit.alone[..., -count:] + variance.log()], -1)
    return _weighing(fit, theta, (rho + (1.0 - rho) * own) / variance)


def of_voter(fit: PeopleFit, voter: int) -> Posterior:
    """The posterior of one voter's utility; who has not answered yet has only what all share to be known by."""
    people = fit.member.shape[-1]
    own = fit.member[..., voter] if 0 <= voter < people else torch.zeros_like(fit.member[..., 0])
    rho = fit.rho.unsqueeze(-1)
    return _weighing(fit, fit.alone, rho + (1.0 - rho) * own)


def _weighing(fit: PeopleFit, theta: Parameters, share: PerComparison) -> Posterior:
    """The posterior of a utility whose covariance with what a voter feels is so much of one person's own."""
    weight = share * (fit.member @ fit.consistency.log().unsqueeze(-1)).squeeze(-1).exp()
    beta = comparisons.transpose(fit.C, weight * fit.dual.alpha) / fit.scale
    root = comparisons.transpose_rows(fit.C, weight.unsqueeze(-1) * fit.half)
    return Posterior(fit.family, fit.X, theta, beta, root)
