"""`fit`: one call from points and answers to a model that predicts, proposes and explains itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import eubo
from kappasharp.acquisition.maximize import Request
from kappasharp.algorithm import checks, correction, loop, question
from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm.correction import Corrected
from kappasharp.algorithm.fit import Fit, Inferred, infer
from kappasharp.algorithm.state import State
from kappasharp.correction import activation
from kappasharp.correction.diagnostics import Diagnostics
from kappasharp.errors import InvalidValueError
from kappasharp.inference import posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model, model_from
from kappasharp.inference.hyperparameters import Hyperfit
from kappasharp.inference.laplace import Conditioned
from kappasharp.inference.posterior import Posterior
from kappasharp.kernels import stationary
from kappasharp.randomness import stream
from kappasharp.settings import Method, Preset, Rule, find_method, find_preset
from kappasharp.tensors import apply, released

# Contrasts taken at a time: their covariance with thousands of designs is large.
BLOCK = 2048


class Prediction(NamedTuple):
    """Mean (…, k) and covariance (…, k, k) of the utility at k points."""

    mean: Tensor
    covariance: Tensor


class ContrastPrediction(NamedTuple):
    """Mean and variance of one utility minus another, and the probability that a person prefers the first."""

    mean: Tensor
    variance: Tensor
    preferred: Tensor


@dataclass(frozen=True)
class Surrogate:
    """A fitted preference model, batched like the points it was fitted to."""

    method: Method
    preset: Preset
    batch: torch.Size
    status: tuple[str, ...]
    _model: Model
    _fit: Fit
    _inferred: Inferred
    _corrected: Corrected

    @property
    def utility(self) -> Tensor:
        """The posterior mean utility of every point, for Laplace the MAP, (…, n)."""
        fitted = self._corrected.posterior
        # Where something is believed of outcomes the posterior rests on more than the designs.
        return self._shaped(apply(self._fit.K, fitted.beta) if fitted.lift is None else posterior.own_mean(fitted))

    @property
    def lengthscale(self) -> Tensor:
        """Length scale of every dimension, (…, d)."""
        return self._shaped(stationary.lengthscales(self._fit.posterior.family, self._fit.hyper.theta))

    @property
    def outputscale(self) -> Tensor:
        """Prior variance of the utility, (…)."""
        return self._shaped(stationary.variance(self._fit.posterior.family, self._fit.hyper.theta))

    @property
    def converged(self) -> Tensor:
        """Whether hyperparameters, MAP and the method's inference all carry their certificate, (…)."""
        found, plain = self._corrected.map.dual.converged, self._fit.map.dual.converged
        return self._shaped(found & plain & self._fit.hyper.converged & self._inferred.converged)

    @property
    def gradient_norm(self) -> Tensor:
        """The largest entry of the MAP's gradient, in units of 1/(σ√2), (…)."""
        return self._shaped(self._corrected.map.dual.gradient_norm)

    @property
    def latent(self) -> Posterior:
        """The posterior as the core writes it, runs in front: differentiable at new points."""
        return self._corrected.posterior

    @torch.no_grad()
    def posterior(self, points: Any) -> Prediction:
        """Joint posterior of the utility at `points` (…, k, d)."""
        mean, cov = posterior.joint(self._corrected.posterior, self._points(points))
        return Prediction(self._shaped(mean), self._shaped(cov))

    @torch.no_grad()
    def contrast(self, first: Any, second: Any) -> ContrastPrediction:
        """f(first) − f(second), row by row; the likelihood's common shift cancels in it.

        `preferred` is about an answer: seen by a voter, by one who is as consistent as that voter's answers are.
        """
        X, Y = self._pairs(first, second)
        blocks = zip(X.split(BLOCK, -2), Y.split(BLOCK, -2), strict=True)
        parts = [posterior.contrast(self._corrected.posterior, *block) for block in blocks]
        found = posterior.Contrast(*(torch.cat(part, -1) for part in zip(*parts, strict=True)))
        spread = (found.variance + self._fit.answer_variance(self.preset.noise)).sqrt()
        preferred = torch.special.ndtr(found.mean / spread)
        return ContrastPrediction(*(self._shaped(part) for part in (found.mean, found.variance, preferred)))

    @torch.no_grad()
    def eubo(self, first: Any, second: Any) -> Tensor:
        """Expected utility of the better of two designs, row by row. [eq:eubo]"""
        X, Y = self._pairs(first, second)
        return self._shaped(eubo.value(self._corrected.posterior, X, Y, self.preset.eubo))

    @torch.no_grad()
    def propose(self, seed: int = 0) -> Tensor:
        """The designs (…, q, d) of a question, two for most methods; one of them is the best seen where they ask so.

        There is no question before this one, so `connected` has nothing to hold on to: both designs are new.
        """
        fitted = self._corrected.posterior
        chance = Request([stream(seed, "propose") for _ in range(len(fitted.X))])
        return self._shaped(question.question(self.method, self.preset, fitted, chance).proposal.pair)

    @torch.no_grad()
    def diagnostics(self) -> Diagnostics:
        """What the answers determine, how well conditioned the fit is and what the correction did."""
        found = correction.diagnose(self._model, self._fit, self._corrected)
        return Diagnostics(*(self._shaped(part) for part in found))

    def _points(self, value: Any) -> Tensor:
        X = checks.points(value).to(self._fit.X)
        n, d = X.shape[-2:]
        if d != self._fit.X.shape[-1] or X.shape[:-2] != self.batch:
            wanted = (*self.batch, "k", self._fit.X.shape[-1])
            raise InvalidValueError(f"`points` must have the shape {wanted}, but got {tuple(X.shape)}.")
        return X.reshape(-1, n, d)

    def _pairs(self, first: Any, second: Any) -> tuple[Tensor, Tensor]:
        X, Y = self._points(first), self._points(second)
        if X.shape != Y.shape:
            raise InvalidValueError(
                f"`first` and `second` must have the same number of rows, but got {X.shape[-2]} and {Y.shape[-2]}."
            )
        return X, Y

    def _shaped(self, flat: Tensor) -> Tensor:
        return flat.reshape(self.batch + flat.shape[1:])


def fit(
    points: Any,
    comparisons: Any,
    *,
    method: str | Method = "baseline",
    preset: str | Preset = "modern",
    ties: Any = None,
) -> Surrogate:
    """Fit a preference model.

    Args:
        points: Designs (…, n, d), each parameter scaled to [0, 1]; leading dimensions are a batch of models.
        comparisons: Answers (…, m, 2) as indices into the points, winner first; [] for none.
        method: A name out of `METHODS`, or a `Method`: the inference, and whether the MAP is corrected. A correction
            acts if its gate is "always", or "decisive" and the last answer alone is decisive enough; the moving average
            of a whole run belongs to `init`, `ask` and `tell`.
        preset: A name out of `PRESETS`, or a `Preset`: priors, kernel, noise and the like.
        ties: Which answers were ties (…, m); then the preset needs a threshold above 0.
    """
    chosen_method, chosen_preset = find_method(method), find_preset(preset)
    X = checks.points(points)
    state = loop.init(points, comparisons, method=chosen_method, preset=chosen_preset, ties=ties)
    return _surrogate(state.method, state.preset, X.shape[:-2], released(_fit(state)))


def surrogate_of(state: State, learnt: loop.Learnt) -> Surrogate:
    """The model of a run's step, whose gate knows the whole run; for a run alone without its leading dimension."""
    learnt = released(learnt)
    batch = state.points.shape[:1] if len(state.points) > 1 else torch.Size()
    return _surrogate(state.method, state.preset, batch, _Parts(learnt.fit, learnt.inferred, learnt.corrected))


def hold(X: Tensor, theta: Tensor, known: Conditioned, method: Method, preset: Preset) -> Surrogate:
    """The surrogate at given hyperparameters (runs, d + 1), from a posterior that was computed for points (runs, n, d).

    For those who bring their own search for hyperparameters; its certificate is theirs to give.
    """
    flat = X.new_zeros(len(X))
    hyper = Hyperfit(theta, flat * torch.nan, torch.zeros_like(theta), flat == 0, flat.long(), flat.long())
    fitted = Posterior(preset.kernel, X, theta, known.map.beta, known.root)
    plain = Fit(X, known.C, known.ties, hyper, known.K, known.map, fitted)
    with torch.no_grad():
        return _surrogate(method, preset, X.shape[:1], _complete(method, model_from(preset), plain, (0,) * len(X)))


class _Parts(NamedTuple):
    """A plain fit with the method's inference and correction on top."""

    fit: Fit
    inferred: Inferred
    corrected: Corrected


def _surrogate(method: Method, preset: Preset, batch: torch.Size, parts: _Parts) -> Surrogate:
    status = correction.status(parts.fit, parts.corrected, parts.inferred.converged)
    model = algorithm_fit.model_of(preset, parts.fit.X.shape[-1], parts.fit.posterior.lift)
    return Surrogate(method, preset, batch, status, model, *parts)


@torch.inference_mode()
def _fit(state: State) -> _Parts:
    model = algorithm_fit.model_of(state.preset, state.points.shape[-1], state.lift)
    answers = Answers(state.points, state.comparisons, state.ties, state.detail)
    plain = algorithm_fit.fit(model, answers, lift=state.lift)
    return _complete(state.method, model, plain, state.seeds)


def _complete(method: Method, model: Model, plain: Fit, seeds: Sequence[int]) -> _Parts:
    """The method's inference and correction, as in the first step of a run."""
    gate = method.gate
    inferred = infer(method.inference, model, plain, seeds, 1)
    plain = plain._replace(posterior=inferred.posterior)
    active = activation.is_open(gate, gate.first_step, loop.decisiveness(model, plain, gate))
    validated = gate.rule is Rule.VALIDATED
    return _Parts(plain, inferred, correction.correct(model, plain, method.correction, active, validated=validated))
