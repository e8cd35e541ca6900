"""A method is a few choices; a preset is every other choice that the paper leaves open. Both are data."""

from dataclasses import dataclass, field
from enum import Enum

from kappasharp.core.choices import Correction, Curvature, Family, Gate, Variant


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
    improvement has a partner of its own, the best design seen. Settling makes no design: the one told
    to be best meets its likeliest better among those seen.
    """

    FRESH_PAIR = "fresh_pair"
    ANCHORED = "anchored"
    INCUMBENT = "incumbent"
    BRIDGING = "bridging"
    SETTLING = "settling"


class Kind(Enum):
    """What a person does with a question: prefer one of two, name the best, put in order, stop on a line, say how much.

    A pair's answer may name the best of more designs, each of the others an answer of its own: what the paper's rivals
    do. A choice is the same answer, with the noise that the best one's comparisons share.
    """

    PAIR = "pair"
    CHOICE = "choice"
    ORDER = "order"
    SLIDER = "slider"
    RATING = "rating"


class Acquisition(Enum):
    """What a question is chosen by: the better of a pair, or a new design's gain over the best one seen."""

    EUBO = "eubo"
    EXPECTED_IMPROVEMENT = "expected_improvement"


# First questions, about Sobol designs, of the kinds that say more than a pair. (docs/results/answers.md)
FIRST_QUESTIONS = {Kind.CHOICE: 4, Kind.ORDER: 3, Kind.SLIDER: 3, Kind.RATING: 5}
# So many of sliders through more than two designs.
FIRST_BENT = 2


@dataclass(frozen=True)
class Method:
    """How questions are chosen, as data.

    Args:
        inference: How the posterior of the utilities is approximated.
        correction: What is added to the Hessian, where, and how strongly.
        gate: When the correction acts.
        query: Whether both designs of a question are new, or one is held.
        acquisition: What a question is chosen by.
        designs: How many designs a question shows; a slider's line goes through them.
        kind: What a person does with them.
        first: How many first questions are about Sobol designs, where a run starts from nothing; 0 is as many as
            the kind needs, of pairs the preset's.
        others: With how many other places of its line a slider's is compared; 0 is as many as its designs need.
        near: How near to it none of them lies, in units of the line's length; 0 is as its designs need.
        use_outcomes: Whether taste is learnt on what is computed from a design, beside its parameters.
        use_seconds: Whether quick answers count as clear ones, where a person's times show that they are.
        tell_apart: Whether several people have tastes of their own beside what they share; else all are one person.
        design_cost: What making a design costs, in questions answered; bridging weighs it.
    """

    inference: Inference = Inference.LAPLACE
    correction: Correction = field(default_factory=Correction)
    gate: Gate = field(default_factory=Gate)
    query: Query = Query.FRESH_PAIR
    acquisition: Acquisition = Acquisition.EUBO
    designs: int = PAIR
    design_cost: float = 0.25
    kind: Kind = Kind.PAIR
    first: int = 0
    others: int = 0
    near: float = 0.0
    use_seconds: bool = False
    use_outcomes: bool = False
    tell_apart: bool = False

    @property
    def asks(self) -> Kind:
        """The kind of the next question: what is settled by two designs is a pair, whatever else is asked."""
        return Kind.PAIR if self.query is Query.SETTLING and self.designs == PAIR else self.kind

    def first_questions(self, pairs: int) -> int:
        """How many questions about Sobol designs come before the model's, where so many pairs would."""
        usual = FIRST_QUESTIONS.get(self.kind, pairs)
        return self.first or (FIRST_BENT if self.kind is Kind.SLIDER and self.designs > PAIR else usual)


@dataclass(frozen=True)
class Preset:
    """The choices around a method, each by name so that a result can carry them all.

    Args:
        priors: The hyperparameters' priors, by name.
        kernel: The kernel's family.
        noise: The model's own σ.
        threshold: The half-width of a tie, in the units of `noise`; 0 leaves ties out of the model.
        nugget: What stands on the diagonal of the prior covariance, relative to the output scale.
        eubo: The form of EUBO.
        maximizer: How much is spent on finding the largest EUBO, by name.
        cold_fit: Whether every fit starts from the prior's mode as well as from the last one.
        curvature: Where the posterior covariance takes the likelihood's curvature: at the MAP, or averaged.
        exploration: What EUBO multiplies the posterior deviation by.
        reach: Half the side of a box around the best design seen to which a question is confined, its sides in
            proportion to the length scales; 0 is the whole cube. Whole numbers and choices are not confined.
        reach_from: In how many dimensions there is such a box at all.
        reach_least: The box's half side in any coordinate is at least this, where short length scales would shrink it.
        reach_every: Of how many questions one is confined: 1 confines all, 2 every other one.
        first_pairs: How many pairs of a Sobol sequence are asked before the model chooses, where a study or a run
            starts from nothing.
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
    reach_from: int = 1
    reach_least: float = 0.0
    reach_every: int = 1
    first_pairs: int = 5
