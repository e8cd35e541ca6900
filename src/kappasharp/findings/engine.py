"""The implementation of `engine.Engine`: which function of the torch half does what."""

from collections.abc import Sequence

from kappasharp.engine import Engine
from kappasharp.findings import agreement as findings_agreement
from kappasharp.findings import best as findings_best
from kappasharp.findings import diagnosis, outcomes
from kappasharp.journal.definition import Definition
from kappasharp.model import feasibility, limits, voters
from kappasharp.model import fit as model_fit
from kappasharp.model import outcomes as model_outcomes
from kappasharp.planning import next_question as planning_next_question
from kappasharp.space.space import Space


class TorchEngine:
    """What is computed of a study, with torch."""

    fit = staticmethod(model_fit.learn)
    individual = staticmethod(voters.told_apart)
    for_all = staticmethod(voters.of_all)
    rests_on_records = staticmethod(model_outcomes.rests_on_records)
    needs_model = staticmethod(planning_next_question.rests_on_model)
    next_question = staticmethod(planning_next_question.next_question)
    best = staticmethod(findings_agreement.best)
    best_for = staticmethod(findings_agreement.best_for)
    agreement = staticmethod(findings_agreement.agreement)
    voter_counts = staticmethod(findings_agreement.counts)
    couples = staticmethod(findings_agreement.couples)
    predict = staticmethod(findings_best.predicted)
    slices = staticmethod(findings_best.slices)
    certainty_so_far = staticmethod(findings_best.course)
    reasons = staticmethod(findings_best.sentences)
    meetings = staticmethod(findings_best.meetings)
    components = staticmethod(findings_best.groups)
    diagnose = staticmethod(diagnosis.diagnose)
    warnings = staticmethod(diagnosis.notes)
    tradeoffs = staticmethod(outcomes.tradeoffs)
    outcome_slices = staticmethod(outcomes.taste)
    directions = staticmethod(outcomes.directions)
    check_feasible = staticmethod(feasibility.check)
    broken = staticmethod(feasibility.broken)

    @staticmethod
    def incumbent(model: model_fit.StudyModel) -> int:
        """The number of the design that is told to be the best."""
        return model.options[model_fit.leading(model)]

    @staticmethod
    def check_change(definition: Definition) -> None:
        """Nothing where the limits still leave two designs to ask about; else an error that says why."""
        limits.check(limits.of(definition), definition.space)
        feasibility.check(definition)

    @staticmethod
    def check_limits(texts: Sequence[str], space: Space) -> None:
        """Nothing where each limit can be read and some design meets them all; else an error that says why."""
        limits.check([limits.parse(text, space) for text in texts], space)


ENGINE: Engine = TorchEngine()
