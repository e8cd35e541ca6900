"""What the answers determine, how the model stands and stood, where answers contradict each other; also in words."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import torch

from kappasharp.core.choices import Gate, Rule, Weights
from kappasharp.core.comparisons import components
from kappasharp.methods import correcting, fitting
from kappasharp.methods.fitting import with_threshold
from kappasharp.methods.registry import KAPPASHARP
from kappasharp.study import allowing, changing, kinds, learning, lifting, validation
from kappasharp.study.certainty import groups
from kappasharp.study.definition import Definition
from kappasharp.study.events import noted_after
from kappasharp.study.history import Comparison, History
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
    notes: list[str] = field(default_factory=list)

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


def diagnose(definition: Definition, history: History, model: StudyModel) -> Diagnosis:
    """The diagnosis of a history and its model."""
    counted = history.counted()
    found = None if model.state.detail is not None else model.surrogate.diagnostics()
    members: dict[int, list[int]] = {}
    for place, label in enumerate(groups(model)):
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
        notes=notes(definition, history) + _about_edges(definition, history, model),
    )


def _about_edges(definition: Definition, history: History, model: StudyModel) -> list[str]:
    """Where the best design sits at an end of what is open, with the call that widens it."""
    design = history.options[model.options[learning.leading(model)]]
    return [str(edge) for edge in changing.edges(definition.space, design)]


def notes(definition: Definition, history: History) -> list[str]:
    """How outcomes and limits stand: what the model learns on, what is missing, which limits are left aside."""
    return lifting.notes(definition, history) + allowing.notes(definition, history)


def _reason(gate: Gate, model: StudyModel) -> str:
    """Why the correction acts or does not."""
    step, mean = model.state.step + 1, float(model.learnt.mean_decisiveness)
    if gate.rule is Rule.NEVER:
        return "this method has no correction"
    if step < int(gate.first_step):
        return f"step {step} comes before the correction's first, {int(gate.first_step)}"
    if gate.rule is Rule.ALWAYS:
        return f"this method corrects from step {int(gate.first_step)} on"
    if gate.rule is Rule.VALIDATED:
        better = "better" if bool(model.learnt.active) else "no better"
        return f"with it the model predicts left-out answers {better} than without"
    side = "reach" if mean >= float(gate.threshold) else "do not reach"
    return f"recent answers, with a mean decisiveness of {mean:.2f}, {side} the threshold {float(gate.threshold):.2f}"


def opposite(counted: list[Comparison]) -> list[tuple[int, int]]:
    """Answers that say the opposite of an earlier one about the same two designs."""
    said: dict[tuple[int, int], int] = {}
    found: list[tuple[int, int]] = []
    for one in counted:
        clear = [(judgement.better, judgement.other) for judgement in one.judgements if not judgement.tie]
        found += dict.fromkeys((said[loser, winner], one.event) for winner, loser in clear if (loser, winner) in said)
        said |= dict.fromkeys(clear, one.event)
    return found


def cycle(counted: list[Comparison]) -> list[int]:
    """Options of which each was preferred to the next, and the last to the first; empty where there is no such ring."""
    graph: dict[int, set[int]] = {}
    for judgement in (judgement for one in counted for judgement in one.edges):
        if not judgement.tie:
            graph.setdefault(judgement.better, set()).add(judgement.other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # graphlib names a ring from each node to one that has it among its followers, the first once more at the end.
        ring: list[int] = list(reversed(error.args[1][1:]))
        return ring
    return []


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


def sentences(found: Diagnosis, called: Mapping[int, int] | None = None) -> list[str]:
    """The diagnosis in words; answers have the numbers of their events, or others that they are `called` by."""
    return plain_sentences(found, called) + technical_sentences(found)


def plain_sentences(found: Diagnosis, called: Mapping[int, int] | None = None) -> list[str]:
    """What everybody can read of it: the answers, how they hang together, and where they contradict each other."""
    return [*_about_answers(found), *found.notes, *_about_contradictions(found, called or {})]


def technical_sentences(found: Diagnosis) -> list[str]:
    """What speaks of the mathematics inside the model."""
    return [
        _about_information(found),
        *_about_search(found),
        *_about_correction(found),
        "Every solve carries its certificate."
        if found.status == "ok"
        else f"A solve lacks its certificate: {found.status}.",
    ]


def _about_answers(found: Diagnosis) -> list[str]:
    voters = f"{len(found.voters)} {'voter' if len(found.voters) == 1 else 'voters'}"
    ties = f"{found.n_ties} of them ties, {found.n_skips} more skipped"
    linked = "Answers link all designs, directly or through others."
    apart = f"Answers link the designs in {len(found.groups)} groups; between groups only their likeness tells."
    return [
        f"{found.n_comparisons} answers ({ties}) by {voters} about {found.n_options} designs.",
        linked if len(found.groups) == 1 else apart,
    ]


def _about_information(found: Diagnosis) -> str:
    informed = f"Of {found.n_options} utilities they determine {found.rank} differences"
    if found.condition_number is None:
        informed += "; answers to questions of more than a bit share noise, so the Hessian's numbers are left out."
    else:
        informed += (
            f", with about {found.effective_dof:.1f} degrees of freedom informed. The Hessian's condition number is "
            f"{found.condition_number:.2g}."
        )
    return informed


def _about_search(found: Diagnosis) -> list[str]:
    if found.searched_on >= found.n_comparisons:
        return []
    began = f"its hyperparameters were searched for on {found.searched_on} answers first"
    return [f"The study is long: {began}, then on twice as many, and so on to all {found.n_comparisons}."]


def _about_correction(found: Diagnosis) -> list[str]:
    if not found.gate_open:
        return [f"The correction is off: {found.gate_reason}."]
    effect = f"Its strength is {found.strength:.3g}"
    after = f"it brings the condition number to {found.condition_number_corrected:.2g}"
    return [f"The correction is on: {found.gate_reason}. {effect}; {after}."]


def _about_contradictions(found: Diagnosis, called: Mapping[int, int]) -> list[str]:
    lines = []
    for earlier, later in found.opposite_answers:
        one, other = called.get(later, later), called.get(earlier, earlier)
        lines.append(f"Answer {one} contradicts answer {other}: the same two designs, the other way round.")
    if len(found.cycle) > 2:  # noqa: PLR2004
        ring = " over ".join(str(option) for option in [*found.cycle, found.cycle[0]])
        lines.append(f"The answers go in a circle: option {ring}.")
    if found.surprises:
        which = ", ".join(str(called.get(event, event)) for event in found.surprises)
        name = "answer" if len(found.surprises) == 1 else "answers"
        lines.append(f"The model would not have expected {name} {which}: a slip, a change of mind, or news to it.")
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
