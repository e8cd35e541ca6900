"""`KappaSharpGP`: our surrogate as a BoTorch model, in the place of `botorch.models.PairwiseGP`.

The surrogate is computed anew whenever hyperparameters, data, precision or device have changed, so what the model
predicts always belongs to what it was given.
"""

import copy
import warnings
from typing import Any, NamedTuple, no_type_check

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.utils.containers import BotorchContainer
from botorch.utils.datasets import SupervisedDataset
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood
from gpytorch.models.gp import GP
from linear_operator import to_linear_operator
from torch import Tensor

from kappasharp.batches import apply
from kappasharp.drop_in import checks, kernel, state
from kappasharp.drop_in.checks import Choices
from kappasharp.drop_in.kernel import Shape
from kappasharp.drop_in.state import Held, KappaSharpMarginalLogLikelihood
from kappasharp.errors import InvalidValueError
from kappasharp.methods.method import PAIR, Method, Preset
from kappasharp.methods.surrogate import Surrogate


class Cache(NamedTuple):
    """A surrogate and the hyperparameters that it was computed at."""

    key: Tensor
    held: Held


class KappaSharpGP(Model, GP, FantasizeMixin):  # type: ignore[misc]
    """A preference model of points (…, n, d) and comparisons (…, m, 2), winner first, for everything BoTorch does.

    Args:
        datapoints: None, with `comparisons` None, gives a model that knows only its prior.
        comparisons: indices of winner and loser among the datapoints.
        likelihood: BoTorch's probit likelihood, which is also the default.
        covar_module: any GPyTorch kernel; by default the one of PairwiseGP, with its priors.
        input_transform: as in PairwiseGP, for example `Normalize(d)`.
        method: a name or a Method, as in `kappasharp.fit`.
        preset: a name or a Preset, as in `kappasharp.fit`; by default BoTorch 0.18's priors with curvature at the MAP.
        nugget: relative to the prior variance; by default the preset's.
        unused: what tunes PairwiseGP's solver and merging; it has no effect, and a warning says so.
    """

    # Both are None in a model that knows only its prior.
    datapoints: Tensor
    comparisons: Tensor
    likelihood: Likelihood
    covar_module: Kernel
    input_transform: InputTransform
    _choices: Choices
    _cache: Cache | None
    _shares: bool

    # Ax reads the names of the arguments from the signature, and the wrapper of a run-time checker would hide them.
    @no_type_check
    def __init__(
        self,
        datapoints: Tensor | None,
        comparisons: Tensor | None,
        likelihood: Likelihood | None = None,
        covar_module: Kernel | None = None,
        input_transform: InputTransform | None = None,
        *,
        method: str | Method = checks.DEFAULT_METHOD,
        preset: str | Preset = checks.DEFAULT_PRESET,
        nugget: float | None = None,
        **unused: Any,
    ) -> None:
        super().__init__()
        self._choices = checks.choices(method, preset, nugget, unused)
        self.likelihood = checks.likelihood(likelihood)
        # Not in the state dict: a state dict carries hyperparameters from one set of answers to another.
        self.register_buffer("datapoints", None, persistent=False)
        self.register_buffer("comparisons", None, persistent=False)
        self._cache = None
        self._shares = False
        if input_transform is not None:
            self.input_transform = input_transform
        if datapoints is not None and comparisons is not None:
            self._set_data(datapoints, comparisons)
        shape = self._shape
        self.covar_module = kernel.default(self._choices.preset, shape) if covar_module is None else covar_module
        state.prior_of(self.covar_module, shape, self._choices)  # refuses what it must refuse now, not at the first fit
        if self.datapoints is not None:
            self.to(self.datapoints)
            # In training mode, as now, a transform such as Normalize learns its coefficients.
            checks.warn_about_scale(self.transform_inputs(self.datapoints).detach())

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def num_outputs(self) -> int:
        """One utility."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The dimensions in front of the datapoints'."""
        return torch.Size() if self.datapoints is None else self.datapoints.shape[:-2]

    @property
    def _shape(self) -> Shape:
        return Shape(None if self.datapoints is None else self.datapoints.shape[-1], self.batch_shape)

    @property
    def dim(self) -> int | None:
        """The points' dimensions."""
        return self._shape.dimension

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The datapoints, as BoTorch's fit asks for them."""
        return () if self.datapoints is None else (self.datapoints,)

    @property
    def train_targets(self) -> Tensor | None:
        """The comparisons, as BoTorch's fit asks for them."""
        return self.comparisons

    @property
    def utility(self) -> Tensor | None:
        """The posterior mean of the utility at every datapoint (…, n): for Laplace's method the MAP."""
        if self.datapoints is None:
            return None
        held = self._held()
        K = held.known.K.reshape(*self.batch_shape, *held.known.K.shape[-2:])
        return apply(K, held.beta).to(self.datapoints.dtype)

    @property
    def unconsolidated_comparisons(self) -> Tensor:
        """What PairwiseGP's own marginal likelihood asks for first; it cannot go on from here."""
        raise UnsupportedError(
            "`PairwiseLaplaceMarginalLogLikelihood` must be given a PairwiseGP, but got a KappaSharpGP; "
            "`KappaSharpMarginalLogLikelihood(model.likelihood, model)` takes its place, or `model.fit()`."
        )

    @property
    def unconsolidated_utility(self) -> Tensor | None:
        """The same as `utility`: nothing is merged here."""
        return self.utility

    @property
    def n(self) -> int:
        """How many datapoints there are."""
        return 0 if self.datapoints is None else self.datapoints.shape[-2]

    @property
    def m(self) -> int:
        """How many comparisons there are."""
        return 0 if self.comparisons is None else self.comparisons.shape[-2]

    @property
    def converged(self) -> Tensor:
        """Whether every solve behind the posterior carries its certificate, (…)."""
        return self._held().converged

    @property
    def surrogate(self) -> Surrogate:
        """Our own view of the model over the transformed points: status, diagnostics, contrasts."""
        found = None if self.datapoints is None else state.surrogate_of(self._held(), self._choices)
        if found is None:
            raise UnsupportedError(
                "`KappaSharpGP.surrogate` needs data and a ScaleKernel around an RBFKernel or a MaternKernel(nu=2.5)."
            )
        return found

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, BotorchContainer | Tensor]:
        """The arguments for a RankingDataset's answers; `options` such as method and preset are passed on."""
        X: Any = checks.ranking(training_data)._X
        ordered = torch.gather(X.indices, -1, training_data.Y.to(torch.long))
        return {"datapoints": X.values, "comparisons": ordered, **options}

    # --- data ---------------------------------------------------------------------------------------------------------

    def set_train_data(
        self, datapoints: Any = None, comparisons: Any = None, strict: bool = False, update_model: bool = True
    ) -> None:
        """Other data; one that is not given stays. `strict` allows no other shape, precision or device.

        `update_model` is there for PairwiseGP's sake: the posterior always belongs to the data.
        """
        del update_model
        if datapoints is None and comparisons is None:
            return
        X = self.datapoints if datapoints is None else datapoints
        P = self.comparisons if comparisons is None else comparisons
        if X is None or P is None:
            raise InvalidValueError("`set_train_data` must be given datapoints and comparisons, but got one of them.")
        if strict:
            checks.same_kind("inputs", self.datapoints, X)
            checks.same_kind("targets", self.comparisons, P)
        self._set_data(X, P)

    def _set_data(self, datapoints: Any, comparisons: Any) -> None:
        X = checks.points(datapoints)
        P = checks.comparisons(comparisons, X)
        if X is not self.datapoints:
            checks.warn_about_precision(X)
        self.datapoints, self.comparisons, self._cache = X, P, None

    def _set_transformed_inputs(self) -> None:
        """The datapoints stay as they were given; the surrogate is computed from their transform."""

    _revert_to_original_inputs = _set_transformed_inputs

    def _apply(self, fn: Any, recurse: bool = True) -> "KappaSharpGP":
        """Every move to another device or precision comes through here."""
        self._forget()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def load_state_dict(self, state_dict: Any, strict: bool = False, assign: bool = False) -> Any:
        """Hyperparameters from this model's state dict or PairwiseGP's; the data stay."""
        self._forget()
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def _forget(self) -> None:
        """Before modules change in place: the surrogate is no longer theirs, and what is shared becomes its own."""
        self._cache = None
        if self._shares:
            self._modules, self._shares = copy.deepcopy(self._modules), False

    # --- the surrogate ------------------------------------------------------------------------------------------------

    def _held(self) -> Held:
        """The surrogate at the current hyperparameters."""
        return self._current().held

    def _current(self) -> Cache:
        """The surrogate with its key, computed if it is not at hand."""
        key = self._key()
        before = self._cache
        if before is not None and before.key.shape == key.shape and torch.equal(before.key, key):
            return before
        prior = state.prior_of(self.covar_module, self._shape, self._choices)
        X = self.transform_inputs(self.datapoints).detach().double()
        start = None if before is None else before.held.known.map.dual.z
        return self._keep(key, state.hold(prior, X, self.comparisons, self._choices, start))

    def _key(self) -> Tensor:
        """All that the surrogate depends on beside the data."""
        movable = [self.covar_module, getattr(self, "input_transform", None)]
        parts = [part for module in movable if module is not None for part in (*module.parameters(), *module.buffers())]
        return torch.cat([part.detach().reshape(-1).double() for part in parts])

    def _keep(self, key: Tensor, held: Held) -> Cache:
        self._cache = cache = Cache(key, held)
        state.warn_about_certificate(held)
        return cache

    def log_evidence(self) -> Tensor:
        """Laplace's log evidence of the answers (…), differentiable in every hyperparameter."""
        held = self._held()
        X = self.transform_inputs(self.datapoints).double()
        return state.differentiable_evidence(held, X, self._choices)

    def fit(self, thorough: bool = False) -> "KappaSharpGP":
        """Hyperparameters that maximise the evidence under the kernel's priors, by our own search where it can.

        `thorough` starts it once more, from the priors' mode: half as long again, for data with two explanations.
        """
        if self.datapoints is None:
            raise InvalidValueError("`fit()` must have data, but got none: `set_train_data(datapoints, comparisons)`.")
        self.train()
        prior = state.prior_of(self.covar_module, self._shape, self._choices)
        with torch.no_grad():
            X = self.transform_inputs(self.datapoints).double()
        learnable = hasattr(self, "input_transform") and any(p.requires_grad for p in self.input_transform.parameters())
        found = None if learnable else state.search(prior, X, self.comparisons, self._choices, thorough)
        if found is None:
            fit_gpytorch_mll(KappaSharpMarginalLogLikelihood(self.likelihood, self))
            return self.eval()
        theta, converged = found
        kernel.write(self.covar_module, theta)
        if not bool(converged.all()):
            warnings.warn("The search for hyperparameters did not converge.", OptimizationWarning, stacklevel=2)
        return self.eval()

    # --- predictions --------------------------------------------------------------------------------------------------

    def forward(self, datapoints: Tensor) -> MultivariateNormal:
        """The utility's distribution: at the datapoints in training mode, at any points otherwise.

        In training mode the evidence is what matters; it is differentiated in `KappaSharpMarginalLogLikelihood`.
        """
        if self.training and self.datapoints is None:
            raise RuntimeError(
                "The model must have data in training mode; `.eval()` gives its prior, "
                "`.set_train_data(datapoints, comparisons)` adds data."
            )
        if self.training and datapoints is not self.datapoints:
            raise RuntimeError("Must train on training data")
        if self.datapoints is None or (settings.prior_mode.on() and not self.training):
            X = self.transform_inputs(datapoints)
            cov = kernel.with_nugget(kernel.evaluate(self.covar_module, X), state.VARIANCE_FLOOR[X.dtype])
            return MultivariateNormal(cov.new_zeros(cov.shape[:-1]), to_linear_operator(cov))
        held, dtype = self._held(), self.datapoints.dtype
        X = held.X if self.training else self.transform_inputs(datapoints).to(held.X)
        if X.shape[-1] != held.X.shape[-1]:
            raise InvalidValueError(
                f"`X` must have {held.X.shape[-1]} dimensions like the datapoints, but got {X.shape[-1]}."
            )
        mean, cov = state.predict(held, X, dtype)
        return MultivariateNormal(mean.to(dtype), to_linear_operator(cov.to(dtype)))

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of the utility at X (…, q, d), differentiable in X for any batch in front.

        As in PairwiseGP it is the utility's own: `observation_noise` has no effect, since a utility is never observed.
        """
        del observation_noise
        if self.training:
            self.eval()
        if output_indices is not None:
            self.subset_output(output_indices)
        posterior = GPyTorchPosterior(self(X))
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    def subset_output(self, idcs: list[int]) -> "KappaSharpGP":
        """The model itself: it has one output."""
        if list(idcs) not in ([0], [-1]):
            raise InvalidValueError(f"`idcs` must be [0], because the model has one output, but got {idcs}.")
        return self

    # --- further answers ----------------------------------------------------------------------------------------------

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> "KappaSharpGP":
        """A new model with further points X (…, k, d) and comparisons Y (…, l, 2) among them, by an exact update.

        The hyperparameters stay. The batches in front may be any that this model's broadcasts to.
        """
        if kwargs:
            raise InvalidValueError(f"`condition_on_observations` takes X and Y alone, but got {sorted(kwargs)}.")
        X, Y = checks.points(X, "X"), checks.further_comparisons(Y)
        if self.datapoints is None:
            new = self._twin()
            new.set_train_data(X, Y)
            return new
        batch = kernel.joint_batch(self.batch_shape, X.shape[:-2], Y.shape[:-2])
        X, Y = X.to(self.datapoints).expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:])
        Y = checks.comparisons(Y, X)
        if self.training:
            self.eval()
        cache = self._current()
        with torch.no_grad():
            X_new = self.transform_inputs(X).to(cache.held.X)
        new = self._twin()
        (n, d), m = self.datapoints.shape[-2:], self.comparisons.shape[-2]
        new.datapoints = torch.cat([self.datapoints.expand(*batch, n, d), X], -2)
        new.comparisons = torch.cat([self.comparisons.expand(*batch, m, PAIR), Y + n], -2)
        new._keep(cache.key, state.extend(cache.held, X_new, Y, self._choices))
        return new

    def fantasize(
        self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None, **kwargs: Any
    ) -> "KappaSharpGP":
        """A model for every sample of what a person would answer about X (…, q, d): the best of the q beats the others.

        The utilities are sampled jointly and the likelihood's noise is added to each before they are compared; so for
        q = 2 an answer comes with the probability that the model gives it. `observation_noise` is not used.
        """
        del observation_noise
        with torch.no_grad():
            noisy = GPyTorchPosterior(self.eval()(X).add_jitter(1.0))
            ranked = sampler(noisy).squeeze(-1).argsort(-1, descending=True)
        best = ranked[..., :1].expand(*ranked.shape[:-1], ranked.shape[-1] - 1)
        return self.condition_on_observations(X, torch.stack([best, ranked[..., 1:]], -1), **kwargs)

    def _twin(self) -> "KappaSharpGP":
        """A copy with modules of its own that shares the tensors of the data and no surrogate."""
        new = copy.copy(self)
        new.__dict__ = self.__dict__ | {"_buffers": dict(self._buffers), "_cache": None}
        new._modules = kernel.copied(self)
        self._shares = new._shares = True
        return new
