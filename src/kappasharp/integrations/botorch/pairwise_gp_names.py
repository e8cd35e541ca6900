"""What other programs read from a PairwiseGP, by the same names, over a model that merges no points.

BoTorch's own marginal likelihood reads `covar`, `covar_chol`, `likelihood_hess` and `D`: they are differentiable in the
hyperparameters, the MAP's own dependence on them included, so that it can be used as it is.
"""

from typing import Any

import torch
from botorch.exceptions.errors import UnsupportedError
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from kappasharp.errors import InvalidValueError
from kappasharp.inference import comparisons, likelihood
from kappasharp.inference.evidence import model_from
from kappasharp.integrations.botorch import logit, state
from kappasharp.integrations.botorch.checks import Choices, Link
from kappasharp.integrations.botorch.kernel import Shape
from kappasharp.integrations.botorch.state import Cache, Held


class PairwiseNames:
    """The attributes of a PairwiseGP."""

    # The data, which a state dict does not carry.
    _buffer_names = ("datapoints", "comparisons", "ties")

    # All None in a model that knows only its prior; ties also where no answer is one.
    datapoints: Tensor
    comparisons: Tensor
    ties: Tensor | None
    _choices: Choices
    transform_inputs: Any
    _cache: Cache | None

    def _held(self) -> Held:
        raise NotImplementedError

    def _current(self) -> Cache:
        raise NotImplementedError

    @property
    def utility(self) -> Tensor | None:
        """The posterior mean of the utility at every datapoint (…, n): for Laplace's method the MAP."""
        return None if self.datapoints is None else self._current().utility

    @utility.setter
    def utility(self, value: None) -> None:
        """None forgets the posterior, as in PairwiseGP; the next prediction computes it."""
        if value is not None:
            raise InvalidValueError("`utility` must be None, which has it computed again: it is the model's own.")
        self._cache = None

    @property
    def unconsolidated_utility(self) -> Tensor | None:
        """The same as `utility`: nothing is merged here."""
        return self.utility

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
    def n(self) -> int:
        """How many datapoints there are."""
        return 0 if self.datapoints is None else self.datapoints.shape[-2]

    @property
    def m(self) -> int:
        """How many comparisons there are."""
        return 0 if self.comparisons is None else self.comparisons.shape[-2]

    @property
    def train_inputs(self) -> tuple[Tensor, ...]:
        """The datapoints, as BoTorch's fit asks for them."""
        return () if self.datapoints is None else (self.datapoints,)

    @property
    def train_targets(self) -> Tensor | None:
        """The comparisons, as BoTorch's fit asks for them."""
        return self.comparisons

    @property
    def unconsolidated_datapoints(self) -> Tensor:
        """The datapoints: nothing is merged here."""
        return self.datapoints

    consolidated_datapoints = unconsolidated_datapoints

    @property
    def unconsolidated_comparisons(self) -> Tensor:
        """The comparisons: nothing is merged here."""
        return self.comparisons

    consolidated_comparisons = unconsolidated_comparisons

    @property
    def consolidated_indices(self) -> None:
        """None, as in a batched PairwiseGP: nothing is merged here."""
        return

    # --- the matrices of Laplace's method, differentiable in the hyperparameters --------------------------------------

    @property
    def D(self) -> Tensor:
        """The comparisons as a matrix (…, m, n): 1 at the winner, −1 at the loser."""
        if self._choices.preset.threshold > 0.0:
            raise UnsupportedError(
                "`D` cannot say which answers are ties, so BoTorch's own marginal likelihood would be wrong; "
                "`KappaSharpMarginalLogLikelihood(model.likelihood, model)`, `fit_gpytorch_mll` and `model.fit()` know."
            )
        out = torch.zeros(*self.comparisons.shape[:-1], self.n).to(self.datapoints)
        for column, sign in ((0, 1.0), (1, -1.0)):
            at = self.comparisons[..., column, None]
            out = out.scatter_add(-1, at, out.new_full(at.shape, sign))
        return out

    @property
    def DT(self) -> Tensor:
        """`D` transposed."""
        return self.D.mT

    @property
    def covar(self) -> Tensor:
        """The prior covariance of the datapoints' utilities, nugget included, (…, n, n)."""
        return self._covariance().to(self.datapoints.dtype)

    @property
    def covar_chol(self) -> Tensor:
        """Its lower Cholesky factor."""
        return psd_safe_cholesky(self._covariance()).to(self.datapoints.dtype)

    @property
    def covar_inv(self) -> Tensor:
        """Its inverse; nothing here computes with it."""
        return torch.cholesky_inverse(psd_safe_cholesky(self._covariance())).to(self.datapoints.dtype)

    @property
    def likelihood_hess(self) -> Tensor:
        """Minus the log-likelihood's Hessian at the MAP, (…, n, n): the graph Laplacian of the comparisons."""
        held, choices = self._held(), self._choices
        z = state.differentiable(held, self._covariance(), choices).map.dual.z
        if choices.link is Link.LOGIT:
            omega = logit.sites(z).omega
        else:
            probit = model_from(choices.preset).likelihood
            omega = likelihood.curvature(z, probit.margin, held.known.ties).omega / probit.scale**2
        hessian = comparisons.laplacian(held.known.C, omega)
        return hessian.reshape(*self.batch_shape, self.n, self.n).to(self.datapoints.dtype)

    @property
    def hlcov_eye(self) -> Tensor:
        """likelihood_hess · covar + I."""
        return self.likelihood_hess @ self.covar + torch.eye(self.n).to(self.datapoints)

    def _covariance(self) -> Tensor:
        X = self.transform_inputs(self.datapoints).double()
        return state.training_covariance(self._held(), X, self._choices)
