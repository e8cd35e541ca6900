"""Several people's answers in one model: what all share, what is each one's own, and how consistent each one is.

Notation
    voter  (*batch, m)      who gave each answer, 0 to V − 1; −1 for what is believed of all alike
    rho    (*batch,)        ρ: the share of a utility's prior variance that all have in common
    c      (*batch, V)      consistency: a person's noise is σ/c
    M      (*batch, m, m)   c_i c_j (ρ + (1 − ρ)[v_i = v_j]): what was A for one person is A ∘ M
    theta  (*batch, P+1+V)  one person's P hyperparameters, logit ρ, log c

The utility of voter v is g(x) + h_v(x), with covariance s ρ k(x, x′) for g and s (1 − ρ) k(x, x′) for every h_v. So the
fit stays in comparison space, and every posterior, of g or of one voter's utility, is one over designs: the answers
weigh differently in it, that is all. The likelihood stays log-concave: the MAP is one, and has its certificate.
An answer with no voter is about g: no c, and nobody's own.
"""

from typing import NamedTuple

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
    voter_search,
)
from kappasharp.inference.comparisons import Answers, Incidence
from kappasharp.inference.evidence import Model
from kappasharp.inference.hyperparameters import ALL_AT_ONCE, Hyperfit
from kappasharp.inference.laplace import DualFit
from kappasharp.inference.likelihood import Ties
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.tensors import ComparisonMatrix, Parameters, PerComparison, PerRun, PointMatrix, Points

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
        hyper = voter_search.search(model, answers, voter, starts, z, first=ALL_AT_ONCE, gain=GAIN_LEFT)
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
