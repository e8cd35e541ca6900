"""For BoTorch: `KappaSharpGP` in the place of `PairwiseGP`, the evidence that fits it, orders as its comparisons."""

from kappasharp.drop_in.answers import comparisons_of_choices, comparisons_of_orders
from kappasharp.drop_in.fitting import KappaSharpMarginalLogLikelihood
from kappasharp.drop_in.model import KappaSharpGP

__all__ = ["KappaSharpGP", "KappaSharpMarginalLogLikelihood", "comparisons_of_choices", "comparisons_of_orders"]
