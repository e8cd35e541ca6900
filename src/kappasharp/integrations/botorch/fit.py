"""How the drop-in's hyperparameters are found: the evidence as BoTorch's objective, our own search, BoTorch's.

Consistent answers drive the output scale to the end of its box, where a smoothed box is a cliff of width 0.01: L-BFGS
steps over it, its line search fails, and after five attempts `fit_gpytorch_mll` raises. So its walls are hard here for
both searches (Departure 2).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack
from warnings import WarningMessage

import torch
from botorch.fit import _fit_fallback
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from botorch.optim.fit import fit_gpytorch_mll_scipy, fit_gpytorch_mll_torch
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from kappasharp.inference import comparison_space, hyperparameters
from kappasharp.integrations.botorch import kernel, state
from kappasharp.integrations.botorch.checks import Choices, Link
from kappasharp.integrations.botorch.kernel import Shape
from kappasharp.integrations.botorch.state import Prior
from kappasharp.tensors import released

# By these arguments `fit_gpytorch_mll` is told how to search.
TELLING = ("closure", "closure_kwargs", "optimizer", "optimizer_kwargs")
BOTORCHS = (fit_gpytorch_mll_scipy, fit_gpytorch_mll_torch)


class SearchOptions(TypedDict, total=False):
    """What `fit_gpytorch_mll` may be told beside its objective."""

    closure: Callable[[], tuple[Tensor, Sequence[Tensor | None]]] | None
    closure_kwargs: dict[str, Any] | None
    optimizer: Callable[..., Any] | None
    optimizer_kwargs: dict[str, Any] | None
    max_attempts: int
    pick_best_of_all_attempts: bool
    warning_handler: Callable[[WarningMessage], bool]
    caught_exception_types: tuple[type[BaseException], ...]


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


@torch.no_grad()
def search(
    prior: Prior, X: Tensor, pairs: Tensor, choices: Choices, *, ties: Tensor | None, thorough: bool
) -> tuple[Tensor, Tensor] | None:
    """The hyperparameters (*batch, d + 1) that maximise the evidence under the kernel's priors, and their certificates.

    None where our search cannot honour the kernel's priors and constraints, or does not know the likelihood.
    """
    batch, (n, d) = X.shape[:-2], X.shape[-2:]
    ours = prior.family is not None and choices.link is Link.PROBIT
    priors = kernel.priors(prior.module, Shape(d, batch)) if ours else None
    if priors is None or prior.theta is None:
        return None
    model = state.model_of(choices, prior)._replace(priors=priors)
    flat, flat_pairs = X.reshape(-1, n, d), pairs.reshape(batch.numel(), -1, 2)
    flat_ties = None if ties is None else ties.reshape(batch.numel(), -1)
    starts = kernel.starts(priors, prior.theta.reshape(-1, d + 1), thorough)
    with torch.inference_mode():
        z = flat.new_zeros(flat_pairs.shape[:-1])
        data = comparison_space.gather(flat, flat_pairs, flat_ties)
        found = hyperparameters.search_at_once(model, data, starts, z).hyper
    found = released(found)
    return found.theta.reshape(*batch, d + 1), found.converged.reshape(batch)


def is_evidence(mll: Any) -> bool:
    """Whether this is the objective that our search maximises: our own, or the one that BoTorch's users write."""
    return type(mll) in (KappaSharpMarginalLogLikelihood, PairwiseLaplaceMarginalLogLikelihood)


def by_botorch(mll: Any, **options: Unpack[SearchOptions]) -> None:
    """BoTorch's own search, with hard walls where a prior is a smoothed box.

    BoTorch's objective stands for ours, which is the same without a Cholesky factor of K.
    """
    model = mll.model
    mll = KappaSharpMarginalLogLikelihood(model.likelihood, model) if is_evidence(mll) else mll
    arguments = dict(options.get("optimizer_kwargs") or {})
    told: dict[str, Any] = {name: one for name, one in options.items() if one is not None} | {
        "optimizer_kwargs": arguments
    }
    if told.get("optimizer", fit_gpytorch_mll_scipy) in BOTORCHS:
        walls = {f"model.covar_module.{name}": ends for name, ends in kernel.walls(model.covar_module).items()}
        arguments["bounds"] = walls | (arguments.get("bounds") or {})
    _fit_fallback(mll, **told)
