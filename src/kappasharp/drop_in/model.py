"""`KappaSharpGP`: our surrogate as a BoTorch model, in the place of `botorch.models.PairwiseGP`."""

import copy
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from gpytorch import settings
from gpytorch.constraints import Interval
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import Likelihood
from gpytorch.priors import Prior
from linear_operator import to_linear_operator
from torch import Tensor

from kappasharp.drop_in import data, kernel, state
from kappasharp.drop_in.holder import Holder
from kappasharp.errors import InvalidTypeError, InvalidValueError

PAIR = 2


class KappaSharpGP(Holder):
    """A preference model of points (…, n, d) and comparisons (…, m, 2), winner first, for everything BoTorch does.

    Args:
        datapoints: None, with `comparisons` None, gives a model that knows only its prior.
        likelihood: BoTorch's probit likelihood, which is also the default.
        covar_module: any GPyTorch kernel; by default the one of PairwiseGP, with its priors.
        options: `method` and `preset` (names or values, as in `kappasharp.fit`; "baseline" and BoTorch 0.18's priors
            with curvature at the MAP) and `nugget`, relative to the prior variance.
    """

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

        As in PairwiseGP it is the utility's own: `observation_noise` has no effect, for a utility is never observed.
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
            raise InvalidValueError(f"`idcs` must be [0], for the model has one output, but got {idcs}.")
        return self

    # --- further answers ----------------------------------------------------------------------------------------------

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> "KappaSharpGP":
        """A new model with further points X (…, k, d) and comparisons Y (…, l, 2) among them, by an exact update.

        The hyperparameters stay. The batches in front may be any that this model's broadcasts to.
        """
        if kwargs:
            raise InvalidValueError(f"`condition_on_observations` takes X and Y alone, but got {sorted(kwargs)}.")
        if not isinstance(Y, Tensor) or Y.is_floating_point() or Y.shape[-1] != PAIR:
            found = f"{Y.dtype} of shape {tuple(Y.shape)}" if isinstance(Y, Tensor) else type(Y).__name__
            raise InvalidTypeError(
                f"`Y` must hold integer indices (…, l, 2) into X, winner first, but got {found}: "
                "the model learns from comparisons, not from values."
            )
        X = data.points(X, "X")
        if self.datapoints is None:
            new = self._twin()
            new.set_train_data(X, Y)
            return new
        batch = kernel.joint_batch(self.batch_shape, X.shape[:-2], Y.shape[:-2])
        X, Y = X.to(self.datapoints).expand(*batch, *X.shape[-2:]), Y.expand(*batch, *Y.shape[-2:])
        Y = data.comparisons(Y, X)
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
        # Priors, constraints and the likelihood are never changed but by a move or a state dict: until then, shared.
        constant = [part for part in self.modules() if isinstance(part, (Prior, Interval, Likelihood))]
        own = [part for part in self.modules() if not isinstance(part, (Prior, Interval, Likelihood))]
        # Each module has a dozen empty dictionaries for hooks; naming their copies spares half of the copying.
        hooks = [part for module in own for part in vars(module).values() if isinstance(part, dict) and not part]
        memo = {id(part): part for part in constant} | {id(part): type(part)() for part in hooks}
        new._modules = copy.deepcopy(self._modules, memo)
        self._shares = new._shares = True
        return new
