"""What the answers determine, how the model stands and stood, where answers contradict each other; also in words."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from kappasharp.core.choices import Gate, Rule, Weights
from kappasharp.core.comparisons import components
from kappasharp.methods import correcting, fitting
from kappasharp.methods.fitting import with_threshold
from kappasharp.methods.registry import KAPPASHARP
from kappasharp.sentences import Sentence, counted, figures, said
from kappasharp.study import allowing, certainty, changing, kinds, learning, starting, tradeoffs, validation
from kappasharp.study.comparison import cycle, opposite
from kappasharp.study.definition import Definition
from kappasharp.study.events import noted_after
from kappasharp.study.history import History
from kappasharp.study.learning import StudyModel, spread

# An answer to which the model gives less than this chance, all answers considered, is a surprise.
SURPRISE = 0.1
# No more models of the past than this are looked at: each is a fit.
PAST_MODELS = 24


@dataclass(frozen=True)
class Diagnosis:
    """Numbers about a study; `str()` of it says them in words. Comparisons are named by the numbers of their events.

    Numbers about the Hessian are None where a question was more than a pair: its answer's comparisons share noise, and
    the Hessian is not that of the paper. `notes` say how outcomes and limits stand.
    """

    n_options: int
    n_comparisons: int
    n_ties: int
    n_skips: int
    voters: dict[str, int]
    groups: list[list[int]]
    rank: int
    effective_dof: float | None
    condition_number: float | None
    condition_number_corrected: float | None
    strength: float
    gate_open: bool
    gate_reason: str
    mean_decisiveness: float
    opposite_answers: list[tuple[int, int]]
    cycle: list[int]
    surprises: list[int]
    tie_threshold: float
    searched_on: int
    status: str
    notes: list[Sentence] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(sentences(self))


class PastModel(NamedTuple):
    """The model of the first `answers` answers: κ(H) as it is and corrected, and what the answers determine."""

    answers: int
    options: list[int]
    condition: float
    corrected: float
    strength: float
    rank: int
    groups: int
    utility: list[float]
    corrected_utility: list[float]
    status: str


class Noted(NamedTuple):
    """What the study itself noted when it chose a pair: whether the correction acted, and on what grounds."""

    answers: int
    step: int
    active: bool
    mean_decisiveness: float
    strength: float
    condition_before: float | None
    condition_after: float | None


def diagnose(
    definition: Definition, history: History, model: StudyModel, of_all: StudyModel | None = None
) -> Diagnosis:
    """The diagnosis of a history and its model; `of_all` tells what is best for all, where that is another one."""
    counted = history.counted()
    found = None if model.state.detail is not None else model.surrogate.diagnostics()
    members: dict[int, list[int]] = {}
    for place, label in enumerate(certainty.groups(model)):
        members.setdefault(label, []).append(model.options[place])
    return Diagnosis(
        n_options=len(model.options),
        n_comparisons=len(counted),
        n_ties=sum(one.is_tie for one in counted),
        n_skips=sum(one.answer == kinds.SKIP for one in history.comparisons.values()),
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
    design = history.options[model.options[learning.leading(model)]]
    return [edge.sentence for edge in changing.edges(definition.space, design)]


def notes(definition: Definition, history: History) -> list[Sentence]:
    """How outcomes and limits stand: what the model learns on, what is missing, which limits are left aside."""
    return (
        tradeoffs.notes(definition, history) + allowing.notes(definition, history) + starting.notes(definition, history)
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
        ties = kinds.said(one.form, one.answer).ties
        clear = [value for value, tie in zip([next(found) for _ in ties], ties, strict=True) if not tie]
        if clear:
            chance[one.event] = min(clear)
    return chance


def sentences(found: Diagnosis, called: Mapping[int, int] | None = None) -> list[Sentence]:
    """The diagnosis in words; answers have the numbers of their events, or others that they are `called` by."""
    return plain_sentences(found, called) + technical_sentences(found)


def plain_sentences(found: Diagnosis, called: Mapping[int, int] | None = None) -> list[Sentence]:
    """What everybody can read of it: the answers, how they hang together, and where they contradict each other."""
    return [*_about_answers(found), *found.notes, *_about_contradictions(found, called or {})]


def technical_sentences(found: Diagnosis) -> list[Sentence]:
    """What speaks of the mathematics inside the model."""
    return [
        _about_information(found),
        *_about_search(found),
        *_about_correction(found),
        said("model.certified", "Every solve carries its certificate.")
        if found.status == "ok"
        else said("model.uncertified", "A solve lacks its certificate: {status}.", status=found.status),
    ]


def _about_answers(found: Diagnosis) -> list[Sentence]:
    voters = "{voters} voter" if len(found.voters) == 1 else "{voters} voters"
    told = f"{{answers}} answers ({{ties}} of them ties, {{skips}} more skipped) by {voters} about {{designs}} designs."
    given = {"answers": found.n_comparisons, "ties": found.n_ties, "skips": found.n_skips}
    apart = "Answers link the designs in {groups} groups; between groups only their likeness tells."
    return [
        said("model.answers", told, voters=len(found.voters), designs=found.n_options, **given),
        said("model.linked", "Answers link all designs, directly or through others.")
        if len(found.groups) == 1
        else said("model.apart", apart, groups=len(found.groups)),
    ]


def _about_information(found: Diagnosis) -> Sentence:
    informed = "Of {designs} utilities they determine {rank} differences"
    given = {"designs": found.n_options, "rank": found.rank}
    if found.condition_number is None or found.effective_dof is None:
        shared = "answers to questions of more than a bit share noise, so the Hessian's numbers are left out"
        return said("model.rank", f"{informed}; {shared}.", **given)
    numbers = {"freedom": figures(f"{found.effective_dof:.1f}"), "condition": figures(f"{found.condition_number:.2g}")}
    words = f"{informed}, with about {{freedom}} degrees of freedom informed. The Hessian's condition number is"
    return said("model.information", f"{words} {{condition}}.", **given, **numbers)


def _about_search(found: Diagnosis) -> list[Sentence]:
    if found.searched_on >= found.n_comparisons:
        return []
    if found.searched_on == 0:
        words = "The study is long: its hyperparameters are those of a few answers ago; they are searched for anew with"
        return [said("model.kept", f"{words} every hundredth part more of answers.")]
    began = "its hyperparameters were searched for on {first} answers first"
    words = f"The study is long: {began}, then on twice as many, and so on to all {{answers}}."
    return [said("model.long", words, first=found.searched_on, answers=found.n_comparisons)]


def _about_correction(found: Diagnosis) -> list[Sentence]:
    if not found.gate_open:
        return [said("model.off", "The correction is off: {reason}.", reason=found.gate_reason)]
    words = "Its strength is {strength}; it brings the condition number to {condition}."
    condition = figures(f"{found.condition_number_corrected:.2g}")
    given = {"strength": figures(f"{found.strength:.3g}"), "condition": condition}
    return [said("model.on", f"The correction is on: {{reason}}. {words}", reason=found.gate_reason, **given)]


def _about_contradictions(found: Diagnosis, called: Mapping[int, int]) -> list[Sentence]:
    lines: list[Sentence] = []
    for earlier, later in found.opposite_answers:
        against = "Answer {one} contradicts answer {other}: the same two designs, the other way round."
        one, other = called.get(later, later), called.get(earlier, earlier)
        lines.append(said("model.opposite", against, one=one, other=other))
    if len(found.cycle) > 2:  # noqa: PLR2004
        ring = [str(option) for option in [*found.cycle, found.cycle[0]]]
        words = f"The answers go in a circle: option {' over '.join(ring)}."
        lines.append(Sentence(words, "model.circle", {"ring": " > ".join(ring)}))
    if found.surprises:
        which = ", ".join(str(called.get(event, event)) for event in found.surprises)
        surprise = "The model would not have expected {} {{which}}: a slip, a change of mind, or news to it.".format
        count = len(found.surprises)
        lines.append(counted("model.surprise", surprise("answer"), surprise("answers"), count, which=which))
    return lines


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
    options, answers = learning.gather(definition, history, count)
    notes = [event.memo for _, event in history.asked.values() if noted_after(event.memo) == count]
    usable = [
        memo
        for memo in notes
        if not history.is_of_another_cube(memo) and validation.memo_trouble(memo, definition) is None
    ]
    memo = next(iter(usable), None)
    dimensions, lift = answers.X.shape[-1], learning.lift_of(definition, history)
    theta = learning.theta_of(memo, dimensions, lift)
    model = fitting.model_of(with_threshold(definition.preset, answers, theta, lift), dimensions, lift)
    fit = fitting.fit(model, answers, theta=theta, cold=theta is None, lift=lift)
    # The correction is one of answers to pairs: not of a posterior that holds beliefs about outcomes too.
    is_plain = answers.detail is None and fit.posterior.root.shape[-2] == fit.X.shape[-2]
    own, acts = definition.method.correction, torch.tensor([is_plain])
    choice = KAPPASHARP if own.weights is Weights.NONE else own
    corrected = correcting.correct(model, fit, choice, acts)
    # Comparisons that share noise have another Hessian than the paper's: nothing is said of it.
    numbers = correcting.diagnose(model, fit, corrected) if acts else None
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
        status=correcting.status(fit, corrected, torch.ones(1, dtype=torch.bool))[0],
    )
