"""A method is six choices; a preset is every other choice that the paper leaves open. Both are data."""

from dataclasses import dataclass, field
from enum import Enum

from kappasharp.acquisition.eubo import Variant
from kappasharp.core.activation import Gate
from kappasharp.core.correction import Correction
from kappasharp.core.evidence import Curvature, Model
from kappasharp.core.kernel import PRIORS, Family
from kappasharp.core.likelihood import Probit


class Inference(Enum):
    """How the posterior of the utilities is approximated."""

    LAPLACE = "laplace"
    EP = "ep"
    GIBBS = "gibbs"


# How many designs a question shows, unless the method says otherwise.
PAIR = 2


class Query(Enum):
    """What a question may consist of: two fresh designs, or one against the last question's or the best one seen.

    Bridging asks against the best one seen where that promises more for what it costs: designs must be made. Expected
    improvement has a partner of its own, the best design seen.
    """

    FRESH_PAIR = "fresh_pair"
    ANCHORED = "anchored"
    INCUMBENT = "incumbent"
    BRIDGING = "bridging"


class Acquisition(Enum):
    """What a question is chosen by: the better of a pair, or a new design's gain over the best one seen."""

    EUBO = "eubo"
    EXPECTED_IMPROVEMENT = "expected_improvement"


@dataclass(frozen=True)
class Method:
    """Inference × correction × gate × query × acquisition; and of how many designs the answer names the best.

    `design_cost` is what making a design costs, in questions answered; bridging weighs it.
    """

    inference: Inference = Inference.LAPLACE
    correction: Correction = field(default_factory=Correction)
    gate: Gate = field(default_factory=Gate)
    query: Query = Query.FRESH_PAIR
    acquisition: Acquisition = Acquisition.EUBO
    designs: int = PAIR
    design_cost: float = 0.25


@dataclass(frozen=True)
class Preset:
    """The choices around a method, each by name so that a result can carry them all.

    `nugget` is relative to the output scale. `noise` is the model's own σ; `threshold` the half-width of a tie in
    the same units (0: ties are not part of the model). `cold_fit` starts every fit from the prior's mode as well as
    from the last one. `curvature` says where the posterior covariance takes the likelihood's: at the MAP, or averaged.
    EUBO sees the posterior deviation `exploration` times. `reach` confines a question to a box around the best design
    seen, of so many length scales' proportions (0: the whole cube); whole numbers and choices are not confined.
    """

    priors: str = "botorch_0_18"
    kernel: Family = "rbf"
    noise: float = 1.0
    threshold: float = 0.0
    nugget: float = 1e-6
    eubo: Variant = "expected_max"
    maximizer: str = "default"
    cold_fit: bool = True
    curvature: Curvature = "mode"
    exploration: float = 1.0
    reach: float = 0.0

    @property
    def model(self) -> Model:
        """The core's view of these choices."""
        likelihood = Probit(self.noise, self.threshold)
        return Model(self.kernel, self.nugget, likelihood, PRIORS[self.priors], self.curvature)
