"""What a KappaSharpGP holds: data, a kernel, an input transform, and the surrogate that belongs to them.

The surrogate is computed anew whenever hyperparameters, data, precision or device have changed, so what the model
predicts always belongs to what it was given.
"""

import copy
import warnings
from typing import Any, NamedTuple, no_type_check

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import NumericsWarning, OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.utils.containers import BotorchContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood
from gpytorch.models.gp import GP
from torch import Tensor

from kappasharp.drop_in import data, kernel, state
from kappasharp.drop_in.data import Choices
from kappasharp.drop_in.evidence import KappaSharpMarginalLogLikelihood
from kappasharp.drop_in.kernel import Shape
from kappasharp.drop_in.state import Held
from kappasharp.errors import InvalidValueError
from kappasharp.methods.surrogate import Surrogate


class Cache(NamedTuple):
    """A surrogate and the hyperparameters that it was computed at."""

    key: Tensor
    held: Held


class Holder(Model, GP, FantasizeMixin):  # type: ignore[misc]
    """Data, kernel, transform, and the surrogate that belongs to them: all of KappaSharpGP but its predictions."""

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
        **options: Any,
    ) -> None:
        super().__init__()
        self._choices = data.choices(options)
        self.likelihood = data.likelihood(likelihood)
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
            data.warn_about_scale(self.transform_inputs(self.datapoints).detach())

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
        return (K @ held.beta.unsqueeze(-1)).squeeze(-1).to(self.datapoints.dtype)

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
        if not isinstance(training_data, RankingDataset):
            raise UnsupportedError(
                f"`training_data` must be a RankingDataset, but got {type(training_data).__name__}: "
                "the model learns from comparisons."
            )
        X: Any = training_data._X
        ordered = torch.gather(X.indices, -1, training_data.Y.to(torch.long))
        return {"datapoints": X.values, "comparisons": ordered, **options}

    # --- data ---------------------------------------------------------------------------------------------------------

    def set_train_data(
        self,
        datapoints: Any = None,
        comparisons: Any = None,
        strict: bool = False,
        update_model: bool = True,
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
        for name, old, new in (("inputs", self.datapoints, X), ("targets", self.comparisons, P)):
            changed = [part for part in ("shape", "dtype", "device") if getattr(old, part, None) != getattr(new, part)]
            if strict and changed:
                found = [getattr(old, changed[0], None), getattr(new, changed[0])]
                raise RuntimeError(f"Cannot modify {changed[0]} of {name} (expected {found[0]}, found {found[1]}).")
        self._set_data(X, P)

    def _set_data(self, datapoints: Any, comparisons: Any) -> None:
        X = data.points(datapoints)
        P = data.comparisons(comparisons, X)
        if X is not self.datapoints:
            data.warn_about_precision(X)
        self.datapoints, self.comparisons, self._cache = X, P, None

    def _set_transformed_inputs(self) -> None:
        """The datapoints stay as they were given; the surrogate is computed from their transform."""

    _revert_to_original_inputs = _set_transformed_inputs

    def _apply(self, fn: Any, recurse: bool = True) -> "Holder":
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
        if not bool(held.converged.all()):
            what = "map_not_converged" if held.surrogate is None else ", ".join(sorted(set(held.surrogate.status)))
            warnings.warn(
                f"KappaSharpGP's posterior carries no certificate ({what}); `model.converged` says which.",
                NumericsWarning,
                stacklevel=3,
            )
        return cache

    def log_evidence(self) -> Tensor:
        """Laplace's log evidence of the answers (…), differentiable in every hyperparameter."""
        held = self._held()
        X = self.transform_inputs(self.datapoints).double()
        return state.differentiable_evidence(held, X, self._choices)

    def fit(self, thorough: bool = False) -> "Holder":
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
