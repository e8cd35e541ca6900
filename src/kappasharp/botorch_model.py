"""For BoTorch: `KappaSharpGP` in the place of `PairwiseGP`, and the evidence that fits it."""

from kappasharp.drop_in.fitting import KappaSharpMarginalLogLikelihood
from kappasharp.drop_in.model import KappaSharpGP

__all__ = ["KappaSharpGP", "KappaSharpMarginalLogLikelihood"]
