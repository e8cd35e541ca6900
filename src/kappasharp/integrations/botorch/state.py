"""The surrogate that a BoTorch model holds: computed, extended by answers, predicting; its evidence; when it is stale.

It is stale once a module, an attribute of one, a number or the data has changed (`Key`).
Shapes here carry the model's batch in front, of any number of dimensions; what is `known` of a fit has flat runs.
All of it is computed in double precision.
"""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import NumericsWarning
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from kappasharp.algorithm import surrogate
from kappasharp.algorithm.surrogate import Surrogate
from kappasharp.inference import comparison_space, comparisons, evidence
from kappasharp.inference.evidence import Model, model_from
from kappasharp.inference.laplace import Conditioned
from kappasharp.integrations.botorch import kernel, logit
from kappasharp.integrations.botorch.checks import Choices, Link, is_plain
from kappasharp.integrations.botorch.kernel import Shape
from kappasharp.kernels import stationary
from kappasharp.settings import Family
from kappasharp.tensors import apply, released, take

# A joint sample of coinciding points needs a factor of their covariance: each new point's variance carries this share
# of the prior's, far below what an answer can teach and above the rounding of the results' precision.
VARIANCE_FLOOR = {torch.float64: 1e-10, torch.float32: 1e-6}
# What a module's behaviour may depend on beside its tensors, such as a Matérn kernel's `nu`.
PLAIN = (bool, int, float, str, torch.Size)


class Prior(NamedTuple):
    """The covariance of the utilities: one of our kernels (theta and its family), or the given one by its forward."""

    module: Kernel
    family: Family | None
    theta: Tensor | None
    nugget: float

    def cross(self, X: Tensor, Y: Tensor) -> Tensor:
        """k(X, Y) of new points X (…, q, d) and training points Y (*batch, n, d)."""
        if self.family is not None and self.theta is not None:
            return stationary.between(self.family, X, Y, self.theta)
        if Y.dim() == 2 and not self.module.batch_shape:  # noqa: PLR2004
            flat = kernel.evaluate(self.module, X.reshape(-1, X.shape[-1]), Y)
            return flat.reshape(*X.shape[:-1], Y.shape[-2])
        batch = kernel.joint_batch(X.shape[:-2], Y.shape[:-2], self.module.batch_shape)
        return kernel.evaluate(self.module, X.expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:]))

    def among(self, X: Tensor, nugget: float) -> Tensor:
        """k(X, X) with this nugget on the diagonal."""
        if self.family is None or self.theta is None:
            return kernel.with_nugget(kernel.evaluate(self.module, X), nugget)
        batch = kernel.joint_batch(X.shape[:-2], self.theta.shape[:-1])
        theta = self.theta.expand(*batch, self.theta.shape[-1])
        return stationary.covariance(self.family, X.expand(*batch, *X.shape[-2:]), theta, nugget)


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
    family = None if shape.dimension is None else kernel.family(module, shape.dimension)
    theta = None if family is None else kernel.read(module, shape)
    if family is None and not is_plain(choices.method):
        raise UnsupportedError(
            "`covar_module` must be a ScaleKernel around an RBFKernel or a MaternKernel(nu=2.5) for this `method`, "
            f"but got {type(module).__name__}: the correction and the other inferences are written for these; with "
            "another kernel use a method that is plain Laplace, such as 'baseline'."
        )
    return Prior(module, family, theta, choices.preset.nugget)


def hold(
    prior: Prior, X: Tensor, pairs: Tensor, choices: Choices, *, ties: Tensor | None = None, start: Tensor | None = None
) -> Held:
    """The surrogate of points (*batch, n, d) and answers (*batch, m, 2), the MAP's search from `start` if it fits.

    It is differentiable in the points where these are.
    """
    runs, n = X.shape[:-2].numel(), X.shape[-2]
    with torch.no_grad():
        K = prior.among(X, prior.nugget).reshape(runs, n, n)
        C = comparisons.incidence(pairs.reshape(runs, -1, 2), n)
        start = start if start is not None and start.shape == C.pairs.shape[:-1] else None
        flat_ties = None if ties is None else ties.reshape(runs, -1)
        if choices.link is Link.LOGIT:
            known = logit.condition(K, C)
        else:
            known = comparison_space.condition(model_of(choices, prior), K, C, start, flat_ties)
    return _finish(prior, X, known, choices)


def extend(held: Held, X: Tensor, pairs: Tensor, choices: Choices, ties: Tensor | None = None) -> Held:
    """The surrogate with further points (*batch', k, d) and answers (*batch', l, 2) among them, by the low-rank update.

    batch' is the model's batch or one that it broadcasts to; `pairs` count from the first of the further points. It is
    differentiable in the points where these are.
    """
    prior, known = released(_extend(held, X.detach(), pairs, choices, ties))
    batch = kernel.joint_batch(held.X.shape[:-2], X.shape[:-2], pairs.shape[:-2])
    parts = [part.expand(*batch, *part.shape[-2:]) for part in (held.X, X)]
    return _finish(prior, torch.cat(parts, -2), known, choices)


@torch.inference_mode()
def _extend(held: Held, X: Tensor, pairs: Tensor, choices: Choices, ties: Tensor | None) -> tuple[Prior, Conditioned]:
    (n, d), k = held.X.shape[-2:], X.shape[-2]
    batch = kernel.joint_batch(held.X.shape[:-2], X.shape[:-2], pairs.shape[:-2])
    runs, prior, known = batch.numel(), held.prior, held.known
    if batch != held.X.shape[:-2]:
        known = _expanded(known, held.X.shape[:-2], batch)
        prior = prior if prior.theta is None else prior._replace(theta=prior.theta.expand(*batch, d + 1))
    X_old, X = held.X.detach().expand(*batch, n, d), X.expand(*batch, k, d)
    side = prior.cross(X, X_old).reshape(runs, k, n)
    corner = prior.among(X, prior.nugget).reshape(runs, k, k)
    further = pairs.expand(*batch, *pairs.shape[-2:]).reshape(runs, -1, 2) + n
    if choices.link is Link.LOGIT:
        C = comparisons.incidence(torch.cat([known.C.pairs, further], -2), n + k)
        return prior, logit.condition(comparison_space.bordered(known.K, side, corner), C)
    flat = None if ties is None else ties.expand(*batch, ties.shape[-1]).reshape(runs, -1)
    return prior, comparison_space.extend(model_of(choices, prior), known, side, corner, further, flat)


def predict(held: Held, X: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Mean (…, q) and covariance (…, q, q) of the utility at X (…, q, d), differentiable in X."""
    k = held.prior.cross(X, held.X)
    known = k @ held.root
    mean = apply(k, held.beta)
    return mean, held.prior.among(X, VARIANCE_FLOOR[dtype]) - known @ known.mT


def training_covariance(held: Held, X: Tensor, choices: Choices) -> Tensor:
    """K of the transformed points X, (*batch, n, n), differentiable in the kernel's parameters and in X."""
    K = kernel.with_nugget(kernel.evaluate(held.prior.module, X), choices.preset.nugget)
    return K.expand(*held.X.shape[:-2], *K.shape[-2:])


def differentiable(held: Held, K: Tensor, choices: Choices) -> Conditioned:
    """The plain posterior as a function of K (*batch, n, n), at whose value it was found, with flat runs."""
    flat = K.reshape(-1, *K.shape[-2:])
    if choices.link is Link.LOGIT:
        return logit.differentiable(held.known, flat)
    return comparison_space.differentiable(model_of(choices, held.prior), held.known, flat)


def differentiable_evidence(held: Held, X: Tensor, choices: Choices) -> Tensor:
    """log Z (*batch) at the held MAP, differentiable in the kernel's parameters and in the transformed points X."""
    K, batch = training_covariance(held, X, choices), held.X.shape[:-2]
    if choices.link is Link.LOGIT:
        return differentiable(held, K, choices).value.reshape(batch)
    probit, known = model_from(choices.preset).likelihood, held.known
    A = comparisons.congruence(known.C, K.reshape(-1, *K.shape[-2:])) / probit.scale**2
    return evidence.log_evidence(probit, A, known.map.dual, known.ties).reshape(batch)


def differentiable_posterior(held: Held, X: Tensor, choices: Choices) -> tuple[Tensor, Tensor]:
    """Mean (*batch, n) and covariance (*batch, n, n) at the transformed points X themselves, as of the evidence."""
    K = training_covariance(held, X, choices)
    known = differentiable(held, K, choices)
    explained = (known.K @ known.root).reshape(*K.shape[:-1], known.root.shape[-1])
    return known.map.f.reshape(K.shape[:-1]), K - explained @ explained.mT


def surrogate_of(held: Held, choices: Choices) -> Surrogate | None:
    """Our Surrogate with all that it can say; None where the kernel is not one of ours."""
    prior, (n, d) = held.prior, held.X.shape[-2:]
    if held.surrogate is not None or prior.family is None or prior.theta is None or choices.link is Link.LOGIT:
        return held.surrogate
    preset, theta = replace(choices.preset, kernel=prior.family), prior.theta.reshape(-1, d + 1)
    flat = surrogate.hold(held.X.detach().reshape(-1, n, d), theta, held.known, choices.method, preset)
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


def _finish(prior: Prior, X: Tensor, known: Conditioned, choices: Choices) -> Held:
    batch, n = X.shape[:-2], X.shape[-2]
    smooth = _smooth(prior, X, known, choices) if X.requires_grad else known
    held = Held(
        prior, X, known, None, smooth.map.beta.reshape(*batch, n), smooth.root.reshape(*batch, n, smooth.root.shape[-1])
    )
    # The plain method's posterior is complete; the others' inference and correction are the Surrogate's.
    ours = None if is_plain(choices.method) else surrogate_of(held, choices)
    if ours is None:
        return held
    beta, root = ours.latent.beta, ours.latent.root
    return held._replace(surrogate=ours, beta=beta.reshape(*batch, n), root=root.reshape(*batch, n, root.shape[-1]))


def _smooth(prior: Prior, X: Tensor, known: Conditioned, choices: Choices) -> Conditioned:
    """The same posterior, differentiable in X: what look-ahead acquisitions move the asked points by."""
    if not is_plain(choices.method):
        raise UnsupportedError(
            "`X` must not require a gradient for this `method`: only plain Laplace, such as 'baseline', gives a "
            "posterior that is differentiable in the points it learnt from; `X.detach()` conditions without it."
        )
    n = X.shape[-2]
    with torch.enable_grad():
        K = prior.among(X, prior.nugget).reshape(-1, n, n)
        if choices.link is Link.LOGIT:
            return logit.differentiable(known, K)
        return comparison_space.differentiable(model_of(choices, prior), known, K)


def model_of(choices: Choices, prior: Prior) -> Model:
    """The package's own model of these choices with the prior's kernel."""
    model = model_from(choices.preset)
    return model if prior.family is None else model._replace(family=prior.family)


def _expanded(known: Conditioned, old: torch.Size, batch: torch.Size) -> Conditioned:
    """The runs of the old batch, each as often as the new one holds it."""
    index = torch.arange(old.numel(), device=known.K.device).reshape(old).expand(batch).reshape(-1)
    return take(known, index)


class Key(NamedTuple):
    """All that a surrogate depends on: modules, their plain attributes, their tensors; and the data."""

    modules: tuple[nn.Module, ...]
    attributes: list[Any]
    numbers: Tensor
    data: tuple[Tensor | None, ...]

    def is_that_of(self, other: "Key") -> bool:
        """Whether a surrogate of the one is a surrogate of the other."""
        if len(self.modules) != len(other.modules) or self.numbers.shape != other.numbers.shape:
            return False
        ours, theirs = (*self.modules, *self.data), (*other.modules, *other.data)
        same = all(mine is its for mine, its in zip(ours, theirs, strict=True))
        return same and self.attributes == other.attributes and torch.equal(self.numbers, other.numbers)


class Cache(NamedTuple):
    """A surrogate, the utilities it gives the datapoints, and what it was computed with."""

    key: Key
    held: Held
    utility: Tensor


def modules_of(roots: Iterable[nn.Module | None]) -> tuple[nn.Module, ...]:
    """These modules and all inside them."""
    return tuple(module for root in roots if root is not None for module in root.modules())


def key_of(roots: Iterable[nn.Module | None], data: tuple[Tensor | None, ...]) -> Key:
    """The key of these modules, all inside them, and the data."""
    modules = modules_of(roots)
    attributes = [
        (name, value)
        for module in modules
        for name, value in vars(module).items()
        if name != "training" and isinstance(value, PLAIN)
    ]
    tensors = [part for module in modules for part in (*module._parameters.values(), *module._buffers.values())]
    numbers = torch.cat([part.detach().reshape(-1).double() for part in tensors if part is not None])
    return Key(modules, attributes, numbers, data)
