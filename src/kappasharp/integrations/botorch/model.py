"""`KappaSharpGP`: our surrogate as a BoTorch model, in the place of `botorch.models.PairwiseGP`.

The surrogate is computed anew whenever hyperparameters, data, precision or device have changed, so what the model
predicts always belongs to what it was given.
"""

import copy
import warnings
from typing import Any, Unpack, no_type_check

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
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
from gpytorch.means import ConstantMean
from gpytorch.models.gp import GP
from linear_operator import to_linear_operator
from torch import Tensor, nn

from kappasharp.algorithm.surrogate import Surrogate
from kappasharp.errors import InvalidValueError
from kappasharp.integrations.botorch import checks, comparisons, fit, kernel, logit, state
from kappasharp.integrations.botorch.checks import Link, ModelOptions
from kappasharp.integrations.botorch.fit import KappaSharpMarginalLogLikelihood, SearchOptions
from kappasharp.integrations.botorch.pairwise_gp_names import PairwiseNames
from kappasharp.integrations.botorch.state import Cache, Held, Key, key_of, modules_of
from kappasharp.questions.kind import PAIR
from kappasharp.settings import Method, Preset
from kappasharp.tensors import apply


class KappaSharpGP(PairwiseNames, Model, GP, FantasizeMixin):  # type: ignore[misc]
    """A preference model of points (…, n, d) and comparisons (…, m, 2), winner first, for everything BoTorch does.

    Args:
        datapoints: None, with `comparisons` None, gives a model that knows only its prior.
        comparisons: indices of winner and loser among the datapoints.
        likelihood: BoTorch's probit likelihood, the default without its clamp, or its logit likelihood.
        covar_module: any GPyTorch kernel; by default the one of PairwiseGP, with its priors.
        input_transform: as in PairwiseGP, for example `Normalize(d)`.
        method: a name or a Method, as in `kappasharp.fit`.
        preset: a name or a Preset, as in `kappasharp.fit`; by default BoTorch 0.18's priors with curvature at the MAP.
        nugget: relative to the prior variance; by default the preset's.
        ties: which comparisons were ties (…, m); then the preset needs a threshold above 0.
        unused: what tunes PairwiseGP's solver and merging; it has no effect, and a warning says so.
    """

    likelihood: Likelihood
    mean_module: nn.Module
    covar_module: Kernel
    input_transform: InputTransform
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
        ties: Tensor | None = None,
        **unused: Any,
    ) -> None:
        super().__init__()
        self.likelihood = checks.likelihood(likelihood)
        self._choices = checks.choices(method, preset, nugget, self.likelihood, unused)
        # Not in the state dict: a state dict carries hyperparameters from one set of answers to another.
        for name in self._buffer_names:
            self.register_buffer(name, None, persistent=False)
        # Constant and frozen, as in PairwiseGP: comparisons say nothing about it.
        self.mean_module = ConstantMean().requires_grad_(False)
        self._cache = None
        self._shares = False
        if input_transform is not None:
            self.input_transform = input_transform
        if datapoints is not None and comparisons is not None:
            self.set_train_data(datapoints, comparisons, ties=ties)
        shape = self._shape
        self.covar_module = kernel.default(self._choices.preset, shape) if covar_module is None else covar_module
        state.prior_of(self.covar_module, shape, self._choices)  # refuses what it must refuse now, not at the first fit
        if self.datapoints is not None:
            self.to(self.datapoints)
            self._look_at_scale()

    # --- what there is ------------------------------------------------------------------------------------------------

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
                "`KappaSharpGP.surrogate` needs data and a ScaleKernel around an RBFKernel or a MaternKernel(nu=2.5), "
                "with a probit likelihood."
            )
        return found

    @classmethod
    def construct_inputs(
        cls, training_data: SupervisedDataset, **options: Unpack[ModelOptions]
    ) -> dict[str, BotorchContainer | Tensor]:
        """The arguments for a RankingDataset's answers; `options` such as method and preset are passed on."""
        X: Any = checks.ranking(training_data)._X
        pairs, ties = checks.neighbours(X.indices, training_data.Y.to(torch.long))
        found = {"datapoints": X.values, "comparisons": pairs, **options}
        return found | {"ties": ties} if bool(ties.any()) else found

    # --- data ---------------------------------------------------------------------------------------------------------

    def set_train_data(
        self,
        datapoints: Any = None,
        comparisons: Any = None,
        strict: bool = False,
        update_model: bool = True,
        *,
        ties: Any = None,
    ) -> None:
        """Other data; one that is not given stays. `strict` allows no other shape, precision or device.

        `update_model` is there for PairwiseGP's sake: the posterior always belongs to the data.
        """
        del update_model
        if datapoints is None and comparisons is None:
            return
        X = self.datapoints if datapoints is None else datapoints
        P, ties = (self.comparisons, self.ties) if comparisons is None else (comparisons, ties)
        if X is None or P is None:
            raise InvalidValueError("`set_train_data` must be given datapoints and comparisons, but got one of them.")
        if strict:
            checks.same_kind("inputs", self.datapoints, X)
            checks.same_kind("targets", self.comparisons, P)
        # What a model learns from is given; only what it is conditioned on may be looked for by a gradient.
        self._set_data(X.detach() if isinstance(X, Tensor) and X.requires_grad else X, P, ties)
        if hasattr(self, "covar_module"):
            self._look_at_scale()

    def _look_at_scale(self) -> None:
        """In training mode a transform such as Normalize learns its coefficients here, as PairwiseGP's does."""
        checks.warn_about_scale(self.transform_inputs(self.datapoints).detach())

    def _set_data(self, datapoints: Any, comparisons: Any, ties: Any) -> None:
        X = checks.points(datapoints)
        P = checks.comparisons(comparisons, X)
        tied = checks.ties(ties, P, self._choices.preset)
        if X is not self.datapoints:
            checks.warn_about_precision(X)
        self.datapoints, self.comparisons, self.ties, self._cache = X, P, tied, None

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
        found = super().load_state_dict(state_dict, strict=strict, assign=assign)
        if self.training and self.datapoints is not None:
            self._look_at_scale()
        return found

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
        key, before = self._key(), self._cache
        if before is not None and before.key.is_that_of(key):
            return before
        prior = state.prior_of(self.covar_module, self._shape, self._choices)
        start = None if before is None else before.held.known.map.dual.z
        X = self._transformed(self.datapoints)
        return self._keep(key, state.hold(prior, X, self.comparisons, self._choices, ties=self.ties, start=start))

    def _transformed(self, X: Tensor) -> Tensor:
        """Points as the kernel sees them: differentiable in X, not in what the transform learns."""
        out = self.transform_inputs(X).double()
        return out if X.requires_grad else out.detach()

    def _roots(self) -> list[nn.Module | None]:
        return [self.covar_module, self.mean_module, getattr(self, "input_transform", None)]

    def _key(self) -> Key:
        return key_of(self._roots(), self._data())

    def _data(self) -> tuple[Tensor | None, ...]:
        return self.datapoints, self.comparisons, self.ties

    def _keep(self, key: Key, held: Held) -> Cache:
        K = held.known.K.reshape(*held.X.shape[:-1], held.X.shape[-2])
        utility = (apply(K, held.beta) + self._prior_mean(held.X)).to(self.datapoints.dtype)
        self._cache = cache = Cache(key, held, utility)
        state.warn_about_certificate(held)
        return cache

    def _prior_mean(self, X: Tensor) -> Tensor:
        if type(self.mean_module) is not ConstantMean:
            raise UnsupportedError(
                f"`mean_module` must be a ConstantMean, but got {type(self.mean_module).__name__}: "
                "the model's prior has no slope; put one into the kernel, for example by adding a LinearKernel."
            )
        mean: Tensor = self.mean_module(X).detach()
        return mean

    def log_evidence(self) -> Tensor:
        """Laplace's log evidence of the answers (…), differentiable in every hyperparameter."""
        held = self._held()
        X = self.transform_inputs(self.datapoints).double()
        return state.differentiable_evidence(held, X, self._choices)

    def fit(self, thorough: bool = True) -> "KappaSharpGP":
        """Hyperparameters that maximise the evidence under the kernel's priors, by our own search where it can.

        Evidences may have several modes: it starts from eight places; not `thorough`, from two, in a third of the time.
        """
        if self.datapoints is None:
            raise InvalidValueError("`fit()` must have data, but got none: `set_train_data(datapoints, comparisons)`.")
        self.train()
        prior = state.prior_of(self.covar_module, self._shape, self._choices)
        X = self._transformed(self.datapoints).detach()
        learnable = hasattr(self, "input_transform") and any(p.requires_grad for p in self.input_transform.parameters())
        data = (X, self.comparisons, self._choices)
        found = None if learnable else fit.search(prior, *data, ties=self.ties, thorough=thorough)
        if found is None:
            fit.by_botorch(KappaSharpMarginalLogLikelihood(self.likelihood, self))
            return self.eval()
        theta, converged = found
        kernel.write(self.covar_module, theta)
        if not bool(converged.all()):
            warnings.warn("The search for hyperparameters did not converge.", OptimizationWarning, stacklevel=2)
        return self.eval()

    def custom_fit(self, mll: Any, **options: Unpack[SearchOptions]) -> Any:
        """What BoTorch's `fit_gpytorch_mll` calls: our own search, unless it is told how, or what, to maximise."""
        told = [name for name in fit.TELLING if options.get(name) is not None]
        if told or not fit.is_evidence(mll):
            fit.by_botorch(mll, **options)
        else:
            self.fit()
        return mll.eval()

    # --- predictions --------------------------------------------------------------------------------------------------

    def forward(self, datapoints: Tensor) -> MultivariateNormal:
        """The utility's distribution: at the datapoints in training mode, at any points otherwise.

        In training mode it is Laplace's, differentiable in the hyperparameters, whatever the method.
        """
        if self.training and self.datapoints is None:
            raise RuntimeError(
                "The model must have data in training mode; `.eval()` gives its prior, "
                "`.set_train_data(datapoints, comparisons)` adds data."
            )
        if self.training:
            if datapoints is not self.datapoints and not torch.equal(datapoints, self.datapoints):
                raise RuntimeError("Must train on training data")
            X = self.transform_inputs(self.datapoints).double()
            mean, cov = state.differentiable_posterior(self._held(), X, self._choices)
        elif self.datapoints is None or settings.prior_mode.on():
            X = self.transform_inputs(datapoints)
            cov = kernel.with_nugget(kernel.evaluate(self.covar_module, X), state.VARIANCE_FLOOR[X.dtype])
            mean = cov.new_zeros(cov.shape[:-1])
        else:
            held = self._held()
            X = self.transform_inputs(datapoints).to(held.X)
            if X.shape[-1] != held.X.shape[-1]:
                raise InvalidValueError(
                    f"`X` must have {held.X.shape[-1]} dimensions like the datapoints, but got {X.shape[-1]}."
                )
            mean, cov = state.predict(held, X, self.datapoints.dtype)
        dtype = cov.dtype if self.datapoints is None else self.datapoints.dtype
        return MultivariateNormal((mean + self._prior_mean(X)).to(dtype), to_linear_operator(cov.to(dtype)))

    def posterior(  # type: ignore[override]
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of the utility at X (…, q, d), or (q,) of one dimension; differentiable in X.

        As in PairwiseGP it is the utility's own: `observation_noise` has no effect, since a utility is never observed.
        """
        del observation_noise
        if self.training:
            self.eval()
        if output_indices is not None:
            self.subset_output(output_indices)
        posterior = GPyTorchPosterior(self(X.unsqueeze(-1) if X.dim() == 1 else X))
        return posterior if posterior_transform is None else posterior_transform(posterior=posterior, X=X)

    def subset_output(self, idcs: list[int]) -> "KappaSharpGP":
        """The model itself: it has one output."""
        if list(idcs) not in ([0], [-1]):
            raise InvalidValueError(f"`idcs` must be [0], because the model has one output, but got {idcs}.")
        return self

    # --- further answers ----------------------------------------------------------------------------------------------

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, *, ties: Tensor | None = None, **kwargs: Any
    ) -> "KappaSharpGP":
        """A new model with further points X (…, k, d) and comparisons Y (…, l, 2) among them, by an exact update.

        The hyperparameters stay. The batches in front may be any that this model's broadcasts to. Where X requires a
        gradient, the new model's posterior is differentiable in X.
        """
        if kwargs:
            raise InvalidValueError(f"`condition_on_observations` takes X, Y and ties, but got {sorted(kwargs)}.")
        X, Y = checks.points(X, "X"), checks.further_comparisons(Y)
        batch = kernel.joint_batch(self.batch_shape, X.shape[:-2], Y.shape[:-2])
        X, Y = (part if part.shape[:-2] == batch else part.expand(*batch, *part.shape[-2:]) for part in (X, Y))
        if self.datapoints is None:
            new = self._twin()
            new._set_data(X, Y, ties)
            return new
        X = checks.like(self.datapoints, X.to(self.datapoints))
        Y = checks.comparisons(Y, X, "Y")
        tied = checks.ties(None if ties is None else ties.expand(Y.shape[:-1]), Y, self._choices.preset)
        if self.training:
            self.eval()
        current, new = self._current(), self._twin()
        (n, d), m = self.datapoints.shape[-2:], self.comparisons.shape[-2]
        new.datapoints = torch.cat([self.datapoints.expand(*batch, n, d), X], -2)
        new.comparisons = torch.cat([self.comparisons.expand(*batch, m, PAIR), Y + n], -2)
        extended = state.extend(current.held, self._transformed(X).to(current.held.X), Y, self._choices, tied)
        known = extended.known.ties  # of pairs, so no grades
        new.ties = known.reshape(*batch, -1) if isinstance(known, Tensor) else None
        # The twin's modules are others with the same attributes and numbers.
        new._keep(current.key._replace(modules=modules_of(new._roots()), data=new._data()), extended)
        return new

    def fantasize(
        self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None, **kwargs: Any
    ) -> "KappaSharpGP":
        """A model for every sample of what a person would answer about X (…, q, d): the best of the q beats the others.

        The utilities are sampled jointly and the likelihood's noise is added to each before they are compared; so for
        q = 2 an answer comes with the probability that the model gives it. A pairwise sampler of BoTorch's compares
        the pairs that it chooses. Gradients in X are those at the answers that were sampled. `observation_noise` is not
        used.
        """
        del observation_noise
        noise = logit.NOISE if self._choices.link is Link.LOGIT else 1.0
        noisy = GPyTorchPosterior(self.eval()(X.detach()).add_jitter(noise))
        pairs, ties = comparisons.sample(sampler, noisy, self._choices.preset.threshold)
        return self.condition_on_observations(X, pairs, ties=ties, **kwargs)

    def _twin(self) -> "KappaSharpGP":
        """A copy with modules of its own that shares the tensors of the data and no surrogate."""
        new = copy.copy(self)
        new.__dict__ = self.__dict__ | {"_buffers": dict(self._buffers), "_cache": None}
        new._modules = kernel.copied(self)
        self._shares = new._shares = True
        return new
