"""The surrogate that a BoTorch model holds: computed, extended by answers, predicting; and the evidence that fits it.

Shapes here carry the model's batch in front, of any number of dimensions; the core's parts (`known`) have flat runs.
All of it is computed in double precision.
"""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import NumericsWarning
from gpytorch.kernels import Kernel
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from kappasharp.batches import apply, released, take
from kappasharp.core import comparison_space, comparisons, evidence, hyperparameters, kernel
from kappasharp.core.correction import Weights
from kappasharp.core.evidence import Model
from kappasharp.core.kernel import Family
from kappasharp.core.laplace import Conditioned
from kappasharp.drop_in import kernel as given
from kappasharp.drop_in.checks import Choices
from kappasharp.drop_in.kernel import Shape
from kappasharp.methods import surrogate
from kappasharp.methods.method import Inference, Method
from kappasharp.methods.surrogate import Surrogate

# A joint sample of coinciding points needs a factor of their covariance: each new point's variance carries this share
# of the prior's, far below what an answer can teach and above the rounding of the results' precision.
VARIANCE_FLOOR = {torch.float64: 1e-10, torch.float32: 1e-6}


class Prior(NamedTuple):
    """The covariance of the utilities: one of our kernels (theta and its family), or the given one by its forward."""

    module: Kernel
    family: Family | None
    theta: Tensor | None
    nugget: float

    def cross(self, X: Tensor, Y: Tensor) -> Tensor:
        """k(X, Y) of new points X (…, q, d) and training points Y (*batch, n, d)."""
        if self.family is not None and self.theta is not None:
            lengthscale, outputscale = kernel.split(self.theta)
            scale = lengthscale.unsqueeze(-2)
            h = kernel.half_distances((X - 0.5) / scale, (Y - 0.5) / scale)
            return kernel.profile(self.family, h).value * outputscale[..., None, None]
        if Y.dim() == 2 and not self.module.batch_shape:  # noqa: PLR2004
            flat = given.evaluate(self.module, X.reshape(-1, X.shape[-1]), Y)
            return flat.reshape(*X.shape[:-1], Y.shape[-2])
        batch = given.joint_batch(X.shape[:-2], Y.shape[:-2], self.module.batch_shape)
        return given.evaluate(self.module, X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:]))

    def among(self, X: Tensor, nugget: float) -> Tensor:
        """k(X, X) with this nugget on the diagonal."""
        if self.family is None or self.theta is None:
            return given.with_nugget(given.evaluate(self.module, X), nugget)
        batch = given.joint_batch(X.shape[:-2], self.theta.shape[:-1])
        theta = self.theta.expand(*batch, self.theta.shape[-1])
        return kernel.covariance(self.family, X.expand(*batch, *X.shape[-2:]), theta, nugget)


class Held(NamedTuple):
    """The posterior of the utilities, and our Surrogate where the kernel is one of ours."""

    prior: Prior
    X: Tensor
    known: Conditioned
    surrogate: Surrogate | None
    beta: Tensor
    root: Tensor

    @property
    def converged(self) -> Tensor:
        """Whether every solve behind it carries its certificate, (*batch)."""
        found = self.known.map.dual.converged if self.surrogate is None else self.surrogate.converged
        return found.reshape(self.X.shape[:-2])


def prior_of(module: Kernel, shape: Shape, choices: Choices) -> Prior:
    """The prior at the kernel's current hyperparameters."""
    family = None if shape.dimension is None else given.family(module, shape.dimension)
    theta = None if family is None else given.read(module, shape)
    if family is None and not is_plain(choices.method):
        raise UnsupportedError(
            "`covar_module` must be a ScaleKernel around an RBFKernel or a MaternKernel(nu=2.5) for this `method`, "
            f"but got {type(module).__name__}: the correction and the other inferences are written for these; with "
            "another kernel use a method that is plain Laplace, such as 'baseline'."
        )
    return Prior(module, family, theta, choices.preset.nugget)


@torch.no_grad()
def hold(prior: Prior, X: Tensor, pairs: Tensor, choices: Choices, start: Tensor | None) -> Held:
    """The surrogate of points (*batch, n, d) and answers (*batch, m, 2), the MAP's search from `start` if it fits."""
    runs, n = X.shape[:-2].numel(), X.shape[-2]
    K = prior.among(X, prior.nugget).reshape(runs, n, n)
    C = comparisons.incidence(pairs.reshape(runs, -1, 2), n)
    start = start if start is not None and start.shape == C.pairs.shape[:-1] else None
    return _finish(prior, X, comparison_space.condition(_model(choices, prior), K, C, start), choices)


@torch.no_grad()
def extend(held: Held, X: Tensor, pairs: Tensor, choices: Choices) -> Held:
    """The surrogate with further points (*batch', k, d) and answers (*batch', l, 2) among them, by the low-rank update.

    batch' is the model's batch or one that it broadcasts to; `pairs` count from the first of the further points.
    """
    prior, X_all, known = released(_extend(held, X, pairs, choices))
    return _finish(prior, X_all, known, choices)


@torch.inference_mode()
def _extend(held: Held, X: Tensor, pairs: Tensor, choices: Choices) -> tuple[Prior, Tensor, Conditioned]:
    (n, d), k = held.X.shape[-2:], X.shape[-2]
    batch = given.joint_batch(held.X.shape[:-2], X.shape[:-2], pairs.shape[:-2])
    runs, prior, known = batch.numel(), held.prior, held.known
    if batch != held.X.shape[:-2]:
        known = _expanded(known, held.X.shape[:-2], batch)
        prior = prior if prior.theta is None else prior._replace(theta=prior.theta.expand(*batch, d + 1))
    X_old, X = held.X.expand(*batch, n, d), X.expand(*batch, k, d)
    side = prior.cross(X, X_old).reshape(runs, k, n)
    corner = prior.among(X, prior.nugget).reshape(runs, k, k)
    further = pairs.expand(*batch, *pairs.shape[-2:]).reshape(runs, -1, 2) + n
    known = comparison_space.extend(_model(choices, prior), known, side, corner, further)
    return prior, torch.cat([X_old, X], -2), known


def predict(held: Held, X: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Mean (…, q) and covariance (…, q, q) of the utility at X (…, q, d), differentiable in X."""
    k = held.prior.cross(X, held.X)
    known = k @ held.root
    mean = apply(k, held.beta)
    return mean, held.prior.among(X, VARIANCE_FLOOR[dtype]) - known @ known.mT


@torch.no_grad()
def search(prior: Prior, X: Tensor, pairs: Tensor, choices: Choices, thorough: bool) -> tuple[Tensor, Tensor] | None:
    """The hyperparameters (*batch, d + 1) that maximise the evidence under the kernel's priors, and their certificates.

    None where our search cannot honour the kernel's priors and constraints.
    """
    batch, (n, d) = X.shape[:-2], X.shape[-2:]
    priors = None if prior.family is None else given.priors(prior.module, Shape(d, batch))
    if priors is None or prior.theta is None or prior.family is None:
        return None
    model = _model(choices, prior)._replace(priors=priors)
    flat, flat_pairs = X.reshape(-1, n, d), pairs.reshape(batch.numel(), -1, 2)
    starts = given.starts(priors, prior.theta.reshape(-1, d + 1), thorough)
    with torch.inference_mode():
        z = flat.new_zeros(flat_pairs.shape[:-1])
        found = hyperparameters.search_at_once(model, comparison_space.gather(flat, flat_pairs), starts, z)
    found = released(found)
    return found.theta.reshape(*batch, d + 1), found.converged.reshape(batch)


def differentiable_evidence(held: Held, X: Tensor, choices: Choices) -> Tensor:
    """log Z (*batch) at the held MAP, differentiable in the kernel's parameters and in the transformed points X."""
    module, nugget = held.prior.module, choices.preset.nugget
    K = given.with_nugget(given.evaluate(module, X), nugget)
    n, probit = X.shape[-2], choices.preset.model.likelihood
    A = comparisons.congruence(held.known.C, K.expand(*held.X.shape[:-2], n, n).reshape(-1, n, n)) / probit.scale**2
    return evidence.log_evidence(probit, A, held.known.map.dual).reshape(held.X.shape[:-2])


class KappaSharpMarginalLogLikelihood(MarginalLogLikelihood):  # type: ignore[misc]
    """Laplace's evidence, summed over the model's batch, plus the log priors of the hyperparameters.

    The gradient is exact, the dependence of the MAP on the hyperparameters included, for any kernel.
    """

    def forward(self, output: Any, target: Tensor, **kwargs: Any) -> Tensor:
        """The sum for the model's own answers; `output` is the model's, which carries nothing that is needed."""
        del output, kwargs
        if target is not self.model.train_targets:
            raise RuntimeError("Must train on training data")
        value = self.model.log_evidence().sum()
        for _, module, prior, closure, _ in self.named_priors():
            value = value + prior.log_prob(closure(module)).sum()
        return value


def surrogate_of(held: Held, choices: Choices) -> Surrogate | None:
    """Our Surrogate with all that it can say; None where the kernel is not one of ours."""
    prior, (n, d) = held.prior, held.X.shape[-2:]
    if held.surrogate is not None or prior.family is None or prior.theta is None:
        return held.surrogate
    preset, theta = replace(choices.preset, kernel=prior.family), prior.theta.reshape(-1, d + 1)
    flat = surrogate.hold(held.X.reshape(-1, n, d), theta, held.known, choices.method, preset)
    return replace(flat, batch=held.X.shape[:-2])


def warn_about_certificate(held: Held) -> None:
    """BoTorch's warning about numerics, where a solve lacks its certificate."""
    if not bool(held.converged.all()):
        what = "map_not_converged" if held.surrogate is None else ", ".join(sorted(set(held.surrogate.status)))
        warnings.warn(
            f"KappaSharpGP's posterior carries no certificate ({what}); `model.converged` says which.",
            NumericsWarning,
            stacklevel=4,
        )


def is_plain(method: Method) -> bool:
    """Whether the method's posterior is Laplace's, without a correction."""
    return method.inference is Inference.LAPLACE and method.correction.weights is Weights.NONE


def _finish(prior: Prior, X: Tensor, known: Conditioned, choices: Choices) -> Held:
    batch, n = X.shape[:-2], X.shape[-2]
    held = Held(
        prior, X, known, None, known.map.beta.reshape(*batch, n), known.root.reshape(*batch, n, known.root.shape[-1])
    )
    # The plain method's posterior is complete; the others' inference and correction are the Surrogate's.
    ours = None if is_plain(choices.method) else surrogate_of(held, choices)
    if ours is None:
        return held
    beta, root = ours.latent.beta, ours.latent.root
    return held._replace(surrogate=ours, beta=beta.reshape(*batch, n), root=root.reshape(*batch, n, root.shape[-1]))


def _model(choices: Choices, prior: Prior) -> Model:
    model = choices.preset.model
    return model if prior.family is None else model._replace(family=prior.family)


def _expanded(known: Conditioned, old: torch.Size, batch: torch.Size) -> Conditioned:
    """The runs of the old batch, each as often as the new one holds it."""
    index = torch.arange(old.numel(), device=known.K.device).reshape(old).expand(batch).reshape(-1)
    return take(known, index)
