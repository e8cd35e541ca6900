"""Several people's answers fitted together, as what all share or as one voter sees it.

Whatever is seen, it is a fit like one person's, over the same designs: what chooses questions and tells the best need
not know that there are several. The evidence that there is a taste behind the answers is here too.
"""

import math

import torch
from torch import Tensor

from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm.fit import Fit
from kappasharp.inference import comparisons, posterior
from kappasharp.inference import voters as inference_voters
from kappasharp.inference.comparison_space import ComparisonSpace
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.features import Lift
from kappasharp.inference.laplace import MapFit
from kappasharp.inference.posterior import Posterior
from kappasharp.inference.voter_evidence import NOBODY
from kappasharp.inference.voters import PeopleFit
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import JointPriors, PeoplePriors, Priors
from kappasharp.tensors import apply


def fit(
    model: Model,
    answers: Answers,
    voters: Tensor,
    *,
    theta: Tensor | None = None,
    tastes: Tensor | None = None,
    z: Tensor | None = None,
    cold: bool = True,
    lift: Lift | None = None,
) -> Fit:
    """What all share, by the answers of voters (m,), 0 to V − 1; warm from theta, tastes and z if given.

    `tastes` (runs, 1 + V) are logit ρ and every voter's log c; those of voters who came since are missing at its end.
    """
    count = int(voters.max()) + 1
    assert isinstance(model.priors, Priors | JointPriors)
    joint = model._replace(priors=PeoplePriors(model.priors, count))
    whole = algorithm_fit.lifted(answers, lift)
    start = None
    if theta is not None:
        assert isinstance(joint.priors, PeoplePriors)
        usual = joint.priors.start(whole.X.shape[-1])[-1 - count :].to(theta).expand(len(theta), -1)
        known = usual[:, :0] if tastes is None else tastes
        start = torch.cat([theta, known, usual[:, known.shape[1] :]], -1)
    found = inference_voters.fit(joint, whole, _who(voters, whole), theta=start, z=z, cold=cold)
    return _seen(model, answers, found, lift)


def _who(voters: Tensor, whole: Answers) -> Tensor:
    """Who gave each of the answers (runs, m); nobody gave what is believed."""
    padded = torch.nn.functional.pad(voters, (0, whole.pairs.shape[1] - len(voters)), value=NOBODY)
    return padded.expand(len(whole.X), -1)


def _seen(model: Model, answers: Answers, found: PeopleFit, lift: Lift | None) -> Fit:
    """The fit as one over designs, of what all share."""
    n, m = answers.X.shape[1], answers.pairs.shape[1]
    own = comparisons.some(
        Answers(answers.X, found.C.pairs, found.ties, found.C.detail), torch.arange(m, device=answers.X.device)
    )
    assert isinstance(model.priors, Priors | JointPriors)
    # What is told of the evidence leaves out what is believed of people.
    gradient = found.hyper.gradient[:, : found.alone.shape[1]]
    value = found.value + model.priors.log_density(found.alone)
    hyper = found.hyper._replace(theta=found.alone, gradient=gradient, value=value)
    fitted = inference_voters.of_all(found)._replace(X=answers.X, lift=lift, lifted=None if lift is None else found.X)
    dual = found.dual._replace(alpha=found.dual.alpha[:, :m], z=found.dual.z[:, :m])
    C = comparisons.incidence(own.pairs, n, own.detail)
    # K, the MAP's utilities and the posterior depend on whose they are: `seen_by` puts them in.
    blank = MapFit(fitted.beta, fitted.beta, dual)
    return seen_by(Fit(answers.X, C, own.ties, hyper, found.K, blank, fitted, found))


def seen_by(fit: Fit, voter: int | None = None) -> Fit:
    """The same fit as one voter sees it, or as what all share; another number is somebody yet to answer."""
    found = fit.people
    if found is None:
        return fit
    if voter is None:
        return _with(fit, found, inference_voters.of_all(found))
    consistency = found.consistency[:, voter] if 0 <= voter < found.member.shape[-1] else None
    return _with(fit, found, inference_voters.of_voter(found, voter), consistency)


def weighed(fit: Fit, weights: Tensor) -> Fit:
    """The same fit as the mean of voters sees it, with weights (V,) that sum to one."""
    assert fit.people is not None
    return _with(fit, fit.people, inference_voters.of_all(fit.people, weights))


def _with(fit: Fit, found: PeopleFit, view: Posterior, consistency: Tensor | None = None) -> Fit:
    n = fit.X.shape[1]
    scale = posterior.variance(view) / stationary.variance(found.family, found.alone)
    K = found.K * scale[:, None, None]
    f = apply(K, view.beta)
    return fit._replace(
        K=K[:, :n, :n],
        map=fit.map._replace(f=f[:, :n], beta=view.beta[:, :n]),
        posterior=fit.posterior._replace(theta=view.theta, beta=view.beta, root=view.root),
        consistency=consistency,
    )


def losses(fit: Fit) -> Tensor:
    """How far every design (runs, n, V) is expected to lie below each voter's own best of them."""
    assert fit.people is not None
    views = [seen_by(fit, voter).map.f for voter in range(fit.people.member.shape[-1])]
    utility = torch.stack(views, -1)
    return utility.amax(1, keepdim=True) - utility


# The evidence that there is a taste behind the answers, as what is believed of outcomes has it and without that.
#
# The fit's own evidence is that of answers and beliefs together. A coin is asked about the answers alone; so here what
# the beliefs alone take of the evidence is given back, log p(answers | beliefs) = log Z(both) − log Z(beliefs). A taste
# may also run against the beliefs: whether they hold is open, half and half.


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
    return inference_voters.condition(joint, answers, member.argmax(-1), fit.people.hyper, z).value
