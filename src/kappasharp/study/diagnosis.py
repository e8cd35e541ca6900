"""What the answers determine, how the model stands, where they contradict each other: in numbers and in words."""

from collections import Counter
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import torch

from kappasharp.core.activation import Gate, Rule
from kappasharp.study.certainty import groups
from kappasharp.study.definition import Definition
from kappasharp.study.history import Comparison, History
from kappasharp.study.questions import Model

# An answer to which the model gives less than this chance, all answers considered, is a surprise.
SURPRISE = 0.1


@dataclass(frozen=True)
class Diagnosis:
    """Numbers about a study; `str()` of it says them in words. Comparisons are named by the numbers of their events."""

    n_options: int
    n_comparisons: int
    n_ties: int
    n_skips: int
    voters: dict[str, int]
    groups: list[list[int]]
    rank: int
    effective_dof: float
    condition_number: float
    condition_number_corrected: float
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

    def __str__(self) -> str:
        return "\n".join(sentences(self))


def diagnose(definition: Definition, history: History, model: Model) -> Diagnosis:
    """The diagnosis of a history and its model."""
    counted = history.counted()
    found = model.surrogate.diagnostics()
    members: dict[int, list[int]] = {}
    for place, label in enumerate(groups(model)):
        members.setdefault(label, []).append(model.options[place])
    return Diagnosis(
        n_options=len(model.options),
        n_comparisons=len(counted),
        n_ties=sum(one.answer == "tie" for one in counted),
        n_skips=sum(one.answer == "skip" for one in history.comparisons.values()),
        voters=dict(Counter(one.voter for one in counted)),
        groups=sorted(members.values(), key=len, reverse=True),
        rank=int(found.rank),
        effective_dof=float(found.effective_dof),
        condition_number=float(found.condition_before),
        condition_number_corrected=float(found.condition_after),
        strength=float(found.strength),
        gate_open=bool(model.learnt.active),
        gate_reason=_reason(definition.method.gate, model),
        mean_decisiveness=float(model.learnt.mean_decisiveness),
        opposite_answers=opposite(counted),
        cycle=cycle(counted),
        surprises=surprises(history, model),
        tie_threshold=model.state.preset.threshold,
        searched_on=int(model.learnt.fit.hyper.searched_on),
        status=model.surrogate.status[0],
    )


def _reason(gate: Gate, model: Model) -> str:
    """Why the correction acts or does not."""
    step, mean = model.state.step + 1, float(model.learnt.mean_decisiveness)
    if gate.rule is Rule.NEVER:
        return "this method has no correction"
    if step < int(gate.first_step):
        return f"step {step} comes before the correction's first, {int(gate.first_step)}"
    if gate.rule is Rule.ALWAYS:
        return f"this method corrects from step {int(gate.first_step)} on"
    side = "reach" if mean >= float(gate.threshold) else "do not reach"
    return f"recent answers, with a mean decisiveness of {mean:.2f}, {side} the threshold {float(gate.threshold):.2f}"


def opposite(counted: list[Comparison]) -> list[tuple[int, int]]:
    """Answers that say the opposite of an earlier one about the same two designs."""
    said: dict[tuple[int, int], int] = {}
    found = []
    for one in counted:
        if one.answer == "tie":
            continue
        winner, loser = one.ordered
        if (loser, winner) in said:
            found.append((said[loser, winner], one.event))
        said[winner, loser] = one.event
    return found


def cycle(counted: list[Comparison]) -> list[int]:
    """Options of which each was preferred to the next, and the last to the first; empty where there is no such ring."""
    graph: dict[int, set[int]] = {}
    for one in counted:
        if one.answer != "tie":
            winner, loser = one.ordered
            graph.setdefault(winner, set()).add(loser)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # graphlib names a ring from each node to one that has it among its followers, the first once more at the end.
        ring: list[int] = list(reversed(error.args[1][1:]))
        return ring
    return []


def surprises(history: History, model: Model) -> list[int]:
    """Answers that the model of all answers would not have expected."""
    counted = [one for one in history.counted() if one.answer != "tie"]
    if not counted:
        return []
    place = {number: i for i, number in enumerate(model.options)}
    rows = torch.tensor([[place[number] for number in one.ordered] for one in counted])
    X = model.state.points[0]
    chance = model.surrogate.contrast(X[rows[:, 0]], X[rows[:, 1]]).preferred.tolist()
    return [one.event for one, p in zip(counted, chance, strict=True) if p < SURPRISE]


def sentences(found: Diagnosis) -> list[str]:
    """The diagnosis in words."""
    return [
        *_about_answers(found),
        *_about_search(found),
        *_about_correction(found),
        *_about_contradictions(found),
    ]


def _about_answers(found: Diagnosis) -> list[str]:
    voters = f"{len(found.voters)} {'voter' if len(found.voters) == 1 else 'voters'}"
    ties = f"{found.n_ties} of them ties, {found.n_skips} more skipped"
    linked = "Answers link all designs, directly or through others."
    apart = f"Answers link the designs in {len(found.groups)} groups; between groups only their likeness tells."
    informed = (
        f"Of {found.n_options} utilities they determine {found.rank} differences, with about {found.effective_dof:.1f} "
        f"degrees of freedom informed. The Hessian's condition number is {found.condition_number:.2g}."
    )
    return [
        f"{found.n_comparisons} answers ({ties}) by {voters} about {found.n_options} designs.",
        linked if len(found.groups) == 1 else apart,
        informed,
    ]


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


def _about_contradictions(found: Diagnosis) -> list[str]:
    lines = []
    for earlier, later in found.opposite_answers:
        lines.append(f"Answer {later} contradicts answer {earlier}: the same two designs, the other way round.")
    if len(found.cycle) > 2:  # noqa: PLR2004
        ring = " over ".join(str(option) for option in [*found.cycle, found.cycle[0]])
        lines.append(f"The answers go in a circle: option {ring}.")
    if found.surprises:
        which = ", ".join(str(event) for event in found.surprises)
        name = "answer" if len(found.surprises) == 1 else "answers"
        lines.append(f"The model would not have expected {name} {which}: a slip, a change of mind, or news to it.")
    lines.append(
        "Every solve carries its certificate."
        if found.status == "ok"
        else f"A solve lacks its certificate: {found.status}."
    )
    return lines
