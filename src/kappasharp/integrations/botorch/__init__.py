"""For BoTorch: `KappaSharpGP` in the place of `PairwiseGP`, the evidence that fits it, orders as its comparisons."""

from kappasharp.integrations.botorch.comparisons import comparisons_of_choices, comparisons_of_orders
from kappasharp.integrations.botorch.fit import KappaSharpMarginalLogLikelihood
from kappasharp.integrations.botorch.model import KappaSharpGP

__all__ = ["KappaSharpGP", "KappaSharpMarginalLogLikelihood", "comparisons_of_choices", "comparisons_of_orders"]
