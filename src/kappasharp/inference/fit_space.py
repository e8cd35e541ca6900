"""Where a fit does its linear algebra: over the answers (m × m) or over the points (n × n). Chosen here, once."""

from typing import Protocol, runtime_checkable

import torch

from kappasharp.inference import comparison_space, comparisons
from kappasharp.inference.comparison_space import ComparisonSpace
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Evidence, Model
from kappasharp.inference.laplace import Conditioned
from kappasharp.inference.point_space import PointSpace
from kappasharp.tensors import Parameters, PerComparison, PointMatrix

# On points from this many answers on, and this many for each design: where a design occurs in at least four.
FEWEST_ANSWERS, ANSWERS_PER_POINT = 256, 2.0
# There K needs a Cholesky factor: a smaller nugget, or single precision, does not promise one.
LEAST_NUGGET = 1e-8


@runtime_checkable
class Gathered(Protocol):
    """Answers whose evidence can be evaluated again and again while the hyperparameters move.

    A tuple of tensors, so that `batches.take` gives that of some runs.
    """

    def evaluate(self, model: Model, theta: Parameters, start: PerComparison, /) -> Evidence:
        """log Z and its gradient at theta, the MAP's search started from the standardised differences `start`."""
        ...


@runtime_checkable
class FitSpace(Protocol):
    """The answers of a flat batch of runs, where they are fitted. Both spaces give the same numbers."""

    @property
    def answers(self) -> Answers:
        """The answers themselves."""
        ...

    @property
    def size(self) -> int:
        """The number whose cube is the cost of one evaluation."""
        ...

    def gather(self) -> Gathered:
        """What the evidence needs, gathered once."""
        ...

    def coarse(self) -> "FitSpace":
        """The same in the precision that a long search can afford."""
        ...

    def condition(self, model: Model, K: PointMatrix, start: PerComparison, /) -> Conditioned:
        """The MAP, a root for predictions and log Z, given the prior covariance K."""
        ...


def choose(model: Model, answers: Answers) -> FitSpace:
    """The cheaper way to the same numbers."""
    X, pairs, ties, detail = answers
    count = pairs.shape[-2]
    few_points = X.shape[-2] * ANSWERS_PER_POINT <= count and count >= FEWEST_ANSWERS
    if detail is None and few_points and model.nugget >= LEAST_NUGGET and X.dtype == torch.float64:
        return PointSpace(X, comparisons.incidence(pairs, X.shape[-2]), ties)
    return ComparisonSpace(comparison_space.bounded(model.likelihood, answers))
