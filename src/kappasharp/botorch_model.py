"""The door to BoTorch: `KappaSharpGP` in the place of `PairwiseGP`, and the evidence that fits it."""

from kappasharp.drop_in.model import KappaSharpGP
from kappasharp.drop_in.state import KappaSharpMarginalLogLikelihood

__all__ = ["KappaSharpGP", "KappaSharpMarginalLogLikelihood"]
