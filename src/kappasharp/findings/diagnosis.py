"""What the answers determine, which of them surprise the model, and how the model stood at earlier answers.

Gives what `results/diagnosis.py` holds. `notes` is what is said of outcomes, limits and first questions.
"""

import math
from collections import Counter

import torch

from kappasharp.algorithm import correction
from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm.fit import with_threshold
from kappasharp.findings import best, outcomes
from kappasharp.inference.comparisons import components
from kappasharp.journal import validation
from kappasharp.journal.definition import Definition
from kappasharp.journal.fit_note import noted_after
from kappasharp.journal.history import History
from kappasharp.journal.question import cycle, opposite
from kappasharp.messages.message import Sentence, said
from kappasharp.model import feasibility
from kappasharp.model import fit as model_fit
from kappasharp.model.fit import StudyModel, spread
from kappasharp.planning import start
from kappasharp.questions import kind
from kappasharp.results.diagnosis import Diagnosis, Noted, PastModel
from kappasharp.settings import KAPPASHARP, Gate, Rule, Weights
from kappasharp.space import space

# An answer to which the model gives less than this chance, all answers considered, is a surprise.
SURPRISE = 0.1
# No more models of the past than this are looked at: each is a fit.
PAST_MODELS = 24


def diagnose(
    definition: Definition, history: History, model: StudyModel, of_all: StudyModel | None = None
) -> Diagnosis:
    """The diagnosis of a history and its model; `of_all` tells what is best for all, where that is another one."""
    counted = history.counted()
    found = None if model.state.detail is not None else model.surrogate.diagnostics()
    members: dict[int, list[int]] = {}
    for place, label in enumerate(best.groups(model)):
        members.setdefault(label, []).append(model.options[place])
    return Diagnosis(
        n_options=len(model.options),
        n_comparisons=len(counted),
        n_ties=sum(one.is_tie for one in counted),
        n_skips=sum(one.answer == kind.SKIP for one in history.comparisons.values()),
        voters=dict(Counter(one.voter for one in counted)),
        groups=sorted(members.values(), key=len, reverse=True),
        rank=len(model.options) - len(members),
        effective_dof=None if found is None else float(found.effective_dof),
        condition_number=None if found is None else float(found.condition_before),
        condition_number_corrected=None if found is None else float(found.condition_after),
        strength=0.0 if found is None else float(found.strength),
        gate_open=bool(model.learnt.active),
        gate_reason=_reason(definition.method.gate, model),
        mean_decisiveness=float(model.learnt.mean_decisiveness),
        opposite_answers=opposite(counted),
        cycle=cycle(counted),
        surprises=surprises(history, model),
        tie_threshold=model.state.preset.threshold,
        searched_on=int(model.learnt.fit.hyper.searched_on),
        status=model.surrogate.status[0],
        notes=notes(definition, history) + _about_edges(definition, history, of_all or model),
    )


def _about_edges(definition: Definition, history: History, model: StudyModel) -> list[Sentence]:
    """Where the best design sits at an end of what is open, with the call that widens it."""
    design = history.options[model.options[model_fit.leading(model)]]
    return [edge.sentence for edge in space.edges(definition.space, design)]


def notes(definition: Definition, history: History) -> list[Sentence]:
    """How outcomes and limits stand: what the model learns on, what is missing, which limits are left aside."""
    return (
        outcomes.notes(definition, history) + feasibility.notes(definition, history) + start.notes(definition, history)
    )


def _reason(gate: Gate, model: StudyModel) -> Sentence:
    """Why the correction acts or does not."""
    step, mean = model.state.step + 1, float(model.learnt.mean_decisiveness)
    first, threshold = int(gate.first_step), float(gate.threshold)
    if gate.rule is Rule.NEVER:
        return said("gate.never", "this method has no correction")
    if step < first:
        return said("gate.before", "step {step} comes before the correction's first, {first}", step=step, first=first)
    if gate.rule is Rule.ALWAYS:
        return said("gate.always", "this method corrects from step {first} on", first=first)
    predicts = "with it the model predicts left-out answers {} than without".format
    if gate.rule is Rule.VALIDATED:
        found = bool(model.learnt.active)
        return said("gate.better", predicts("better")) if found else said("gate.no_better", predicts("no better"))
    clear = mean >= threshold
    side = "reach" if clear else "do not reach"
    words = f"recent answers, with a mean decisiveness of {{mean:.2f}}, {side} the threshold {{threshold:.2f}}"
    return said("gate.clear" if clear else "gate.unclear", words, mean=round(mean, 2), threshold=threshold)


def surprises(history: History, model: StudyModel) -> list[int]:
    """Answers that the model of all answers would not have expected."""
    return [event for event, chance in chances(history, model).items() if chance < SURPRISE]


def chances(history: History, model: StudyModel) -> dict[int, float]:
    """The chance that the model of all answers gives to each of them, by the number of its event; ties are left out.

    Of an answer that is several comparisons, that of the least likely one: it is below one half where the model puts
    another design first.
    """
    counted = history.counted()
    if not counted:
        return {}
    X, rows = model.state.points[0], model.state.comparisons[0]
    found = iter(model.surrogate.contrast(X[rows[:, 0]], X[rows[:, 1]]).preferred.tolist())
    chance = {}
    for one in counted:
        ties = kind.said(one.form, one.answer).ties
        clear = [value for value, tie in zip([next(found) for _ in ties], ties, strict=True) if not tie]
        if clear:
            chance[one.event] = min(clear)
    return chance


def past_models(definition: Definition, history: History) -> list[PastModel]:
    """The past in steps, from the answers as they stand now; the last is the present."""
    return [_past_model(definition, history, count) for count in spread(len(history.counted()), PAST_MODELS)]


def noted(history: History) -> list[Noted]:
    """The notes of every pair that the model chose, in order."""
    notes = [event.memo for _, event in history.asked.values()]
    memos = [memo for memo in notes if isinstance(memo, dict) and memo.keys() >= set(Noted._fields)]
    return [
        Noted(**{name: memo[name] for name in Noted._fields} | {"strength": memo["strength"] or 0.0}) for memo in memos
    ]


@torch.inference_mode()
def _past_model(definition: Definition, history: History, count: int) -> PastModel:
    options, answers = model_fit.gather(definition, history, count)
    notes = [event.memo for _, event in history.asked.values() if noted_after(event.memo) == count]
    usable = [
        memo
        for memo in notes
        if not history.is_of_another_cube(memo) and validation.memo_trouble(memo, definition) is None
    ]
    memo = next(iter(usable), None)
    dimensions, lift = answers.X.shape[-1], model_fit.lift_of(definition, history)
    theta = model_fit.theta_of(memo, dimensions, lift)
    model = algorithm_fit.model_of(with_threshold(definition.preset, answers, theta, lift), dimensions, lift)
    fit = algorithm_fit.fit(model, answers, theta=theta, cold=theta is None, lift=lift)
    # The correction is one of answers to pairs: not of a posterior that holds beliefs about outcomes too.
    is_plain = answers.detail is None and fit.posterior.root.shape[-2] == fit.X.shape[-2]
    own, acts = definition.method.correction, torch.tensor([is_plain])
    choice = KAPPASHARP if own.weights is Weights.NONE else own
    corrected = correction.correct(model, fit, choice, acts)
    # Comparisons that share noise have another Hessian than the paper's: nothing is said of it.
    numbers = correction.diagnose(model, fit, corrected) if acts else None
    groups = len(set(components(answers.pairs, answers.X.shape[1])[0, : len(options)].tolist()))
    return PastModel(
        answers=count,
        options=options,
        condition=math.nan if numbers is None else float(numbers.condition_before),
        corrected=math.nan if numbers is None else float(numbers.condition_after),
        strength=0.0 if numbers is None else float(numbers.strength),
        rank=len(options) - groups,
        groups=groups,
        utility=fit.map.f[0, : len(options)].tolist(),
        corrected_utility=corrected.map.f[0, : len(options)].tolist(),
        status=correction.status(fit, corrected, torch.ones(1, dtype=torch.bool))[0],
    )
