"""The evidence of a KappaSharpGP as GPyTorch's fits want it: one number, differentiable in every hyperparameter."""

from typing import Any

from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor


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
