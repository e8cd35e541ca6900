"""The fitted model of one batch of runs: hyperparameters, plain MAP, posterior, certificates.

How wide a tie is, by which inference the posterior is approximated and what is believed of outcomes before any answer
are decided here too. The correction comes after it: `correction.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from kappasharp.correction import strength
from kappasharp.inference import (
    comparison_space,
    comparisons,
    ep,
    features,
    fit_space,
    gibbs,
    hyperparameters,
    likelihood,
)
from kappasharp.inference.comparisons import Answers, Incidence
from kappasharp.inference.evidence import Model, model_from
from kappasharp.inference.features import Lift
from kappasharp.inference.hyperparameters import Hyperfit
from kappasharp.inference.laplace import MapFit
from kappasharp.inference.likelihood import Grades, Ties
from kappasharp.inference.posterior import Posterior
from kappasharp.inference.voters import PeopleFit
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS, JointPriors, Priors
from kappasharp.kernels.stationary import Sum
from kappasharp.randomness import stream
from kappasharp.settings import Inference, Preset
from kappasharp.tensors import joined

# Half-widths of a tie that are tried, in units of the model's noise. Without ties the evidence falls with the width,
# and 0 is exact.
THRESHOLDS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5)
# Where designs were rated, a step may be wider than the noise.
WIDER = (2.0, 3.0, 4.5)
# Up to how many answers all widths are tried at once; of more, the matrices would fill the memory.
TOGETHER = 200
# How much more of a taste is believed to be about outcomes than about parameters beside them: mean and deviation of the
# logarithm of their output scales' ratio. (docs/results/outcomes.md)
OUTCOMES_TO_PARAMETERS = (2.3, 2.0)
# How much less where there is doubt that outcomes are more than chance, by the unit of a share; and the least mean.
DOUBTED, LEAST_RATIO = 40.0, -4.0


class Fit(NamedTuple):
    """The plain Laplace fit of a flat batch of runs, before any correction."""

    X: Tensor
    C: Incidence
    ties: Ties
    hyper: Hyperfit
    K: Tensor
    map: MapFit
    posterior: Posterior
    # Of several people's answers, what else is known of them. (voters.py)
    people: PeopleFit | None = None
    # C K Cᵀ, where the fit needed it.
    gram: Tensor | None = None
    # Seen by a voter whose answers are known: how consistent they are (runs,), which is 1 for everybody else.
    consistency: Tensor | None = None

    def answer_variance(self, noise: float) -> Tensor | float:
        """2σ²/c², (runs, 1): the variance of what chance adds to an answer about two designs, by whoever sees it so."""
        pure = 2.0 * noise**2
        return pure if self.consistency is None else pure / self.consistency.square().unsqueeze(-1)


class Inferred(NamedTuple):
    """The posterior of a flat batch of runs, whether it carries its certificate, and the rounds that it took."""

    posterior: Posterior
    converged: Tensor
    rounds: Tensor


def model_of(preset: Preset, dimensions: int, lift: Lift | None = None) -> Model:
    """The model of designs with so many parameters: a sum of two kernels where taste is learnt on outcomes too."""
    model = model_from(preset)
    if lift is None:
        return model
    sizes = (dimensions, lift.size)
    mean, deviation = OUTCOMES_TO_PARAMETERS
    # A lift may say how much doubt there is that its outcomes are more than chance. (regression/predictability.py)
    ratio = max(mean - DOUBTED * getattr(lift, "doubt", 0.0), LEAST_RATIO), deviation
    priors = JointPriors(PRIORS[preset.priors], sizes, ratio).in_units_of(preset.noise)
    return model._replace(family=Sum(preset.kernel, sizes), priors=priors)


def fit(
    model: Model,
    answers: Answers,
    *,
    theta: Tensor | None = None,
    z: Tensor | None = None,
    cold: bool = True,
    keep: bool = False,
    lift: Lift | None = None,
) -> Fit:
    """Line 3 of Algorithm 1: hyperparameters, MAP f̂₀ and the posterior 𝒩(f̂₀, H⁻¹), warm from theta and z if given.

    `cold` starts from one of the priors' own starts as well, in turn as answers come; the better end wins. `keep` takes
    theta as it is. With a lift the model is `model_of` it.
    """
    X, whole = answers.X, lifted(answers, lift)
    space, z = fit_space.choose(model, whole), _started(z, whole)
    if keep and theta is not None:
        hyper = hyperparameters.kept(theta)
    else:
        starts = _starts(model, whole, theta, cold=cold)
        hyper, z = hyperparameters.search(model, space, starts, z, warm=theta is not None)
    found, value = _conditioned(model, X, space, whole, lift, hyper=hyper, z=z)
    # A search in stages ends in single precision, and none reaches nothing: the evidence that is reported is exact.
    exact = value + model.priors.log_density(hyper.theta)
    return found._replace(
        hyper=hyper._replace(value=torch.where(hyper.searched_on < whole.pairs.shape[-2], exact, hyper.value))
    )


def _starts(model: Model, whole: Answers, theta: Tensor | None, *, cold: bool) -> list[Tensor]:
    """Where the search begins: at theta, if it is known, and at the priors' own starts, or one of them in turn."""
    found = [] if theta is None else [theta]
    if cold or theta is None:
        own = model.priors.starts(whole.X.shape[-1])
        if theta is not None and isinstance(model.priors, Priors):
            own = [own[whole.pairs.shape[-2] % len(own)]]
        found += [start.to(whole.X).expand(len(whole.X), -1) for start in own]
    return found


def refit(model: Model, answers: Answers, hyper: Hyperfit, z: Tensor, lift: Lift | None = None) -> Fit:
    """The same at hyperparameters that are known, from differences z of as many answers as there are of them."""
    whole = lifted(answers, lift)
    space = fit_space.choose(model, whole)
    return _conditioned(model, answers.X, space, whole, lift, hyper=hyper, z=_started(z, whole))[0]


def _started(z: Tensor | None, whole: Answers) -> Tensor:
    """Differences to start from, zero where none are known."""
    count = whole.pairs.shape[1]
    return whole.X.new_zeros(len(whole.X), count) if z is None else torch.nn.functional.pad(z, (0, count - z.shape[1]))


def _conditioned(
    model: Model, X: Tensor, space: fit_space.FitSpace, whole: Answers, lift: Lift | None, *, hyper: Hyperfit, z: Tensor
) -> tuple[Fit, Tensor]:
    """The fit of designs X at hyperparameters, and log Z; beliefs about outcomes stay in the posterior alone."""
    K = stationary.covariance(model.family, whole.X, hyper.theta, model.nugget)
    known = space.condition(model, K, z)
    lifted = None if lift is None else whole.X
    fitted = Posterior(model.family, X, hyper.theta, known.map.beta, known.root, lift, lifted)
    found = Fit(X, known.C, known.ties, hyper, K, known.map, fitted, gram=known.gram)
    n, more = X.shape[1], whole.X.shape[1] - X.shape[1]
    return (_own(found, n, whole.pairs.shape[1] - more // 2) if more else found), known.value


def _own(found: Fit, n: int, m: int) -> Fit:
    """The fit of the designs and the answers alone, without what was believed before."""
    C = found.C
    kept = comparisons.some(Answers(found.X, C.pairs, found.ties, C.detail), torch.arange(m, device=C.pairs.device))
    dual = found.map.dual
    dual = dual._replace(alpha=dual.alpha[:, :m], z=dual.z[:, :m])
    return found._replace(
        C=comparisons.incidence(kept.pairs, n, kept.detail),
        ties=kept.ties,
        K=found.K[:, :n, :n],
        gram=None if found.gram is None else found.gram[:, :m, :m],
        map=found.map._replace(f=found.map.f[:, :n], beta=found.map.beta[:, :n], dual=dual),
    )


def weights(model: Model, found: MapFit, ties: Ties) -> Tensor:
    """ω_m of the comparisons at a MAP, in units of utility. [prop:graph_laplacian]"""
    omega = likelihood.curvature(found.dual.z, model.likelihood.margin, ties).omega
    return omega / model.likelihood.scale**2


def hessian(model: Model, fit: Fit) -> tuple[Tensor, Tensor, Tensor]:
    """H and a = diag K⁻¹ at the plain MAP, and whether K was positive definite. [eq:precision]"""
    return precision(model, fit, weights(model, fit.map, fit.ties))


def precision(model: Model, fit: Fit, omega: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """K⁻¹ + Cᵀ diag(ω) C, always in double precision: single precision cannot hold a nugget below 1e-6."""
    return strength.hessian(_double(model, fit), fit.C, omega.double())


def _double(model: Model, fit: Fit) -> Tensor:
    """K in double precision, computed anew where the fit is not."""
    if fit.K.dtype == torch.float64:
        return fit.K
    return stationary.covariance(model.family, fit.posterior.features.double(), fit.hyper.theta.double(), model.nugget)


def infer(choice: Inference, model: Model, fit: Fit, seeds: Sequence[int], step: int) -> Inferred:
    """The posterior at the fit's hyperparameters, by the method's inference. [app:ep_gibbs]

    Departure 11: the hyperparameters are those of the Laplace evidence whatever the inference. In double precision.
    """
    if choice is Inference.LAPLACE:
        return Inferred(fit.posterior, fit.map.dual.converged, fit.map.dual.iterations)
    # Questions of more than a bit are the plain method's alone. (checks.method)
    assert not isinstance(fit.ties, Grades)
    K, scale, margin = _double(model, fit), model.likelihood.scale, model.likelihood.margin
    A = comparisons.congruence(fit.C, K) / scale**2
    if choice is Inference.EP:
        found = ep.solve(A, margin, fit.ties)
        root = comparison_space.information_root(K, fit.C, found.tau / scale**2)
        return _inferred(model, fit, found.alpha, root, converged=found.converged, rounds=found.iterations)
    generators = [stream(seed, "gibbs", str(step)) for seed in seeds]
    drawn = gibbs.sample(A, margin, generators, fit.ties)
    root = comparisons.transpose_rows(fit.C, drawn.half) / scale
    return _inferred(model, fit, drawn.alpha, root, converged=drawn.converged, rounds=drawn.sweeps)


def _inferred(model: Model, fit: Fit, alpha: Tensor, root: Tensor, *, converged: Tensor, rounds: Tensor) -> Inferred:
    """The posterior with mean k(x, X) Cᵀ α/(σ√2), in the precision of the points."""
    beta = comparisons.transpose(fit.C, alpha) / model.likelihood.scale
    return Inferred(fit.posterior._replace(beta=beta.to(fit.X), root=root.to(fit.X)), converged, rounds)


@torch.inference_mode()
def with_threshold(preset: Preset, answers: Answers, theta: Tensor | None, lift: Lift | None = None) -> Preset:
    """The preset with the most probable threshold at hyperparameters theta, by default the prior's mode.

    It is one threshold for all runs of the batch. A preset with a threshold of its own keeps it; without ties and
    ratings there is nothing to set.
    """
    rated = answers.detail is not None and bool(answers.detail.level.any())
    if preset.threshold > 0.0 or (answers.ties is None and not rated):
        return preset
    presets = [replace(preset, threshold=value) for value in (*THRESHOLDS, *(WIDER if rated else ()))]
    d, lifted = answers.X.shape[-1], answers._replace(X=features.lifted(lift, answers.X))
    found = _evidence([(model_of(one, d, lift), lifted) for one in presets], theta)
    return presets[int(found.sum(-1).argmax())]


def with_widths(
    preset: Preset, answers: Answers, theta: Tensor | None, lift: Lift | None = None
) -> tuple[Model, Answers]:
    """A model with ratings, and the answers with the most probable width of a rating's steps in every run."""
    model = model_of(replace(preset, threshold=preset.noise), answers.X.shape[-1], lift)
    detail = answers.detail
    if detail is None:
        return model, answers
    tried = [detail._replace(width=torch.full_like(detail.width, value)) for value in (*THRESHOLDS, *WIDER)]
    lifted = answers._replace(X=features.lifted(lift, answers.X))
    found = _evidence([(model, lifted._replace(detail=one)) for one in tried], theta)
    width = found.new_tensor((*THRESHOLDS, *WIDER))[found.argmax(0)]
    return model, answers._replace(detail=detail._replace(width=width.unsqueeze(-1).expand_as(detail.width)))


def _evidence(tried: Sequence[tuple[Model, Answers]], theta: Tensor | None) -> Tensor:
    """log Z (tried, runs) at hyperparameters theta, by default the prior's mode; the answers' X are features.

    What is tried differs in the bounds of the answers alone: while they are few, all goes through one batch.
    """
    model, (X, pairs, _, _) = tried[0]
    theta = model.priors.start(X.shape[-1]).to(X).expand(len(X), -1) if theta is None else theta
    z, own = X.new_zeros(pairs.shape[:-1]), list[comparison_space.EndPoints]()
    for one, answers in tried if pairs.shape[-2] <= TOGETHER else ():
        data = fit_space.choose(one, answers).gather()
        if isinstance(data, comparison_space.EndPoints):
            own.append(data._replace(ties=likelihood.graded(data.ties, one.likelihood.margin, z)))
    if (many := len(own)) < len(tried):
        return torch.stack([fit_space.choose(*each).gather().evaluate(each[0], theta, z).value for each in tried])
    return joined(own).evaluate(model, theta.repeat(many, 1), z.repeat(many, 1)).value.unflatten(0, (many, -1))


# What is believed of outcomes before any answer: that less, or more, of one is usually better.
#
# It is said to the model in its own words, as a few answers that nobody gave: of two places in the space of features
# that differ in this outcome alone, the one is better. They are as uncertain as answers of a person with twice the
# noise, so that a handful of real answers says more. Their points are no designs and stand behind those of the designs,
# their comparisons behind the real ones.

# An outcome is compared at these two places, the others being at each of those; and what such an answer weighs.
ENDS, OTHERS, WEIGHT = (0.2, 0.8), (0.25, 0.5, 0.75), 0.5


@runtime_checkable
class Leaning(Lift, Protocol):
    """A lift of outcomes of which something is believed."""

    @property
    def leaning(self) -> tuple[int, ...]:
        """For every outcome 1 where more is better, −1 where less is, and 0 where nothing is believed."""
        ...


def lifted(answers: Answers, lift: Lift | None) -> Answers:
    """Answers about designs as answers about features, and behind them what is believed of outcomes."""
    found = answers._replace(X=features.lifted(lift, answers.X))
    held = beliefs(lift, found.X)
    if held is None:
        return found
    (runs, n, _), count, ties = found.X.shape, held.pairs.shape[1], found.ties
    detail = comparisons.none_of((runs,), answers.pairs.shape[1], found.X) if found.detail is None else found.detail
    assert held.detail is not None
    return Answers(
        torch.cat([found.X, held.X], 1),
        torch.cat([found.pairs, held.pairs + n], 1),
        torch.nn.functional.pad(ties, (0, count)) if isinstance(ties, Tensor) else ties,
        comparisons.joined(detail, held.detail),
    )


def beliefs(lift: Lift | None, like: Tensor) -> Answers | None:
    """What is believed of outcomes and nothing else, between features (runs, …, D) like these; None for no beliefs."""
    if not isinstance(lift, Leaning) or not any(lift.leaning):
        return None
    points, pairs = _believed(lift.leaning, like.shape[-1] - len(lift.leaning), like)
    runs = len(like)
    detail = comparisons.none_of((runs,), len(pairs), like)
    detail = detail._replace(weight=detail.weight * WEIGHT)
    return Answers(points.expand(runs, -1, -1), pairs.expand(runs, -1, -1), None, detail)


def _believed(leaning: tuple[int, ...], dimensions: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Features (2v, D) and comparisons (v, 2) between them, the better first."""
    points: list[Tensor] = []
    pairs: list[list[int]] = []
    for outcome, sign in enumerate(leaning):
        for others in OTHERS if sign else ():
            place = like.new_full((2, dimensions + len(leaning)), others)
            place[:, :dimensions] = 0.5
            place[:, dimensions + outcome] = like.new_tensor(ENDS if sign < 0 else ENDS[::-1])
            pairs.append([2 * len(points), 2 * len(points) + 1])
            points.append(place)
    return torch.cat(points), torch.tensor(pairs, device=like.device)
