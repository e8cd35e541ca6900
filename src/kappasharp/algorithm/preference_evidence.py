"""The evidence that there is a taste behind the answers, as what is believed of outcomes has it and without that.

The fit's own evidence is that of answers and beliefs together. A coin is asked about the answers alone; so here what
the beliefs alone take of the evidence is given back, log p(answers | beliefs) = log Z(both) − log Z(beliefs). A taste
may also run against the beliefs: whether they hold is open, half and half.
"""

import math

import torch
from torch import Tensor

from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm.fit import Fit
from kappasharp.inference import voters
from kappasharp.inference.comparison_space import ComparisonSpace
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import JointPriors, PeoplePriors, Priors


def log_evidence(model: Model, fit: Fit) -> Tensor:
    """log p(answers | a taste) of every run, at the fit's hyperparameters and without their priors."""
    both = fit.hyper.value - model.priors.log_density(fit.hyper.theta)
    held = algorithm_fit.beliefs(fit.posterior.lift, fit.posterior.features)
    if held is None:
        return both
    given = both - _of_beliefs(model, fit, held)
    return torch.logaddexp(given, _without_beliefs(model, fit)) - math.log(2.0)


def _of_beliefs(model: Model, fit: Fit, held: Answers) -> Tensor:
    """log Z of the beliefs alone."""
    theta = fit.hyper.theta
    if fit.people is not None:
        # They are about what all share, and nobody's own. (inference/voters.py)
        scales = stationary.n_outputscales(model.family)
        theta = torch.cat([theta[:, :-scales], theta[:, -scales:] + fit.people.rho.log().unsqueeze(-1)], -1)
    K = stationary.covariance(model.family, held.X, theta, model.nugget)
    return ComparisonSpace(held).condition(model, K, K.new_zeros(held.pairs.shape[:2])).value


def _without_beliefs(model: Model, fit: Fit) -> Tensor:
    """log Z of the answers alone, as if nothing had been believed."""
    n, z = fit.X.shape[1], fit.map.dual.z
    answers = Answers(fit.posterior.features[:, :n], fit.C.pairs, fit.ties, fit.C.detail)
    if fit.people is None:
        return ComparisonSpace(answers).condition(model, fit.K, z).value
    assert isinstance(model.priors, Priors | JointPriors)
    member = fit.people.member[:, : z.shape[1]]
    joint = model._replace(priors=PeoplePriors(model.priors, member.shape[-1]))
    return voters.condition(joint, answers, member.argmax(-1), fit.people.hyper, z).value
