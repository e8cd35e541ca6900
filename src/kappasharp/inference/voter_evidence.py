"""The evidence of several people's answers, as voters.py models them, and its gradient.

Notation
    own     (*batch, m, m)  [v_i = v_j]: whether one person gave both answers; 0 for what nobody said
    member  (*batch, m, V)  [v_i = v]
    M       (*batch, m, m)  c_i c_j (ρ + (1 − ρ)[v_i = v_j]): what was A for one person is A ∘ M
    theta   (*batch, P+1+V) one person's P hyperparameters, logit ρ, log c
"""

from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.inference import comparison_space, evidence, laplace
from kappasharp.inference.comparison_space import EndPoints
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Evidence, Model
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.tensors import ComparisonMatrix, Parameters, PerComparison

# Voter of what is believed of all alike.
NOBODY = -1


class Voices(NamedTuple):
    """What the evidence needs of every run's answers and of who gave them (the contract: spaces.Gathered)."""

    data: EndPoints
    own: ComparisonMatrix
    member: Tensor

    def evaluate(self, model: Model, theta: Parameters, start: PerComparison) -> Evidence:
        """log Z and its gradient at theta, the MAP's search started from the standardised differences `start`."""
        assert isinstance(model.priors, PeoplePriors)
        alone, people = model.priors.split(theta)
        terms, probit, detail = self.data.terms(model, alone), model.likelihood, self.data.detail
        A = comparison_space.summed(terms)
        A = A if detail is None else comparison_space.weighted(A, detail)
        both = consistent(self.member, people[..., 1:])
        rho = people[..., :1].sigmoid().unsqueeze(-1)
        M = both * (rho + (1.0 - rho) * self.own)
        felt = A * M
        whole = felt if detail is None else felt + detail.noise
        dual = laplace.solve(whole, probit.margin, start, self.data.ties)
        value, G = evidence.value_and_slope(probit, whole, dual, self.data.ties)
        by_logit = (G * A * both * (1.0 - self.own)).sum((-2, -1)) * (rho * (1.0 - rho))[..., 0, 0]
        # log c of a voter stands in the rows and in the columns of their answers.
        by_consistency = 2.0 * ((G * felt).sum(-1).unsqueeze(-2) @ self.member).squeeze(-2)
        G = G * M
        G = G if detail is None else comparison_space.weighted(G, detail)
        gradient = torch.cat([self.data.gradient(terms, G), by_logit.unsqueeze(-1), by_consistency], -1)
        return Evidence(value, gradient, dual.z, dual.converged)

    @property
    def voter(self) -> Tensor:
        """Who gave each answer (runs, m)."""
        return torch.where(self.member.any(-1), self.member.argmax(-1), NOBODY)


def gather(answers: Answers, voter: Tensor, people: int) -> Voices:
    """What the evidence needs, gathered once; `voter` (*batch, m) says who gave each answer."""
    numbers = torch.arange(people, device=voter.device)
    member = (voter.unsqueeze(-1) == numbers).to(answers.X)
    return Voices(comparison_space.gather(*answers), member @ member.mT, member)


def consistent(member: Tensor, log_c: Tensor) -> ComparisonMatrix:
    """c_i c_j for every two answers; 1 for what nobody said."""
    c = (member @ log_c.unsqueeze(-1)).squeeze(-1).exp()
    return c.unsqueeze(-1) * c.unsqueeze(-2)
