"""Why a design is told to be the best: what the answers say of it, its nearest rival, how sure the model was when."""

from dataclasses import replace
from typing import NamedTuple

from kappasharp.methods.method import Kind
from kappasharp.sentences import Sentence, counted, said
from kappasharp.study import certainty, people
from kappasharp.study.certainty import EVEN
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.learning import StudyModel, leading, learn, spread, why_not_told

# The model is fitted again at this many points of the past, no more: certainty over time costs a fit each.
CHECKPOINTS = 16


class Checkpoint(NamedTuple):
    """How sure the model was after a number of answers."""

    answers: int
    preferred: float
    room: float


class Meeting(NamedTuple):
    """What one answer says of a design: which others it beat, lost to, or equalled; none of them on a slider's line."""

    event: int
    voter: str
    kind: str
    beat: list[int]
    lost_to: list[int]
    equalled: list[int]


def course(definition: Definition, history: History) -> list[Checkpoint]:
    """The certainty after up to CHECKPOINTS numbers of answers, from the answers as they stand now."""
    given, found = history.counted(), []
    for answers in spread(len(given), CHECKPOINTS):
        until = _until(history, given[answers - 1].event)
        model = people.of_all(until, learn(definition, until))
        sure = certainty.figures(definition, model, leading(model))
        found.append(Checkpoint(answers, sure.preferred, sure.room))
    return found


def _until(history: History, event: int) -> History:
    """The answers and questions up to an event, as they stand now; all else is shared."""
    asked = {number: one for number, one in history.asked.items() if number <= event}
    answers = {number: one for number, one in history.comparisons.items() if number <= event}
    return replace(history, number=event, asked=asked, comparisons=answers)


def meetings(history: History, option: int) -> list[Meeting]:
    """What the answers say of a design, one after the other."""
    found = []
    for one in history.counted():
        if option not in one.options:
            continue
        about = [said for said in one.judgements if option in (said.better, said.other)]
        clear, ties = ([said for said in about if said.tie is tie] for tie in (False, True))
        beat = [said.other for said in clear if said.better == option]
        lost_to = [said.better for said in clear if said.other == option]
        equalled = [said.other if said.better == option else said.better for said in ties]
        found.append(Meeting(one.event, one.voter, one.kind, beat, lost_to, equalled))
    return found


def sentences(definition: Definition, history: History, model: StudyModel, option: int) -> list[Sentence]:
    """Why a design is told to be the best, in words."""
    met = meetings(history, option)
    wins, losses = sum(len(one.beat) for one in met), sum(len(one.lost_to) for one in met)
    ties = sum(len(one.equalled) for one in met)
    found: list[Sentence] = []
    if wins or losses or ties:
        rivals = len({other for one in met for other in (*one.beat, *one.lost_to, *one.equalled)})
        against = f"Compared with {_times(rivals, 'other design', 'other designs')}"
        equal = f"; with no difference {_times(ties, 'time', 'times')}" if ties else ""
        words = f"{against}: {_times(wins, 'win', 'wins')}, {_times(losses, 'loss', 'losses')}{equal}."
        found.append(Sentence(words, "why.record", {"rivals": rivals, "wins": wins, "losses": losses, "ties": ties}))
    if chosen := sum(one.kind == Kind.SLIDER.value for one in met):
        line = "Chosen on a line between two designs {count} time"
        found.append(counted("why.chosen", f"{line}.", f"{line}s.", chosen))
    others = [(float(model.surrogate.utility[i]), i) for i, one in enumerate(model.options) if one != option]
    found += [_about_rival(definition, history, model, option, max(others)[1])] if others else []
    alike = "Answers about designs like it count too: the model learns from all of them together."
    return [*found, said("why.alike", alike)]


def _about_rival(definition: Definition, history: History, model: StudyModel, option: int, place: int) -> Sentence:
    rival = model.options[place]
    chance = certainty.predicted(definition, model, history.options[option], history.options[rival])
    if chance < EVEN:
        better = (
            "The model holds design {rival} to be as good or better (it expects that design to be preferred to this "
            "one with a chance of {chance_share:.0%}), but {reason}."
        )
        reason = why_not_told(model, place)
        return said("why.better", better, rival=rival, chance_share=1 - chance, reason=reason)
    nearest = (
        "Of the {designs} designs that answers are about, design {rival} comes nearest: the model expects that this "
        "one is preferred to it with a chance of {chance_share:.0%}."
    )
    return said("why.nearest", nearest, designs=len(model.options), rival=rival, chance_share=chance)


def _times(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
