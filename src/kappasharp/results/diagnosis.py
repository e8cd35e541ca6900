"""What the answers determine, as data and in words: information, contradictions, the correction, models of the past.

The numbers come from `findings/diagnosis.py`; whoever shows them needs this file and no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kappasharp.messages.message import Sentence, counted, figures, said


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
