"""A rehearsal of a study: a simulated person with a taste of their own answers a copy of it.

What the model says of its best design stands beside what is true.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kappasharp.journal.definition import Definition
from kappasharp.journal.question import StudyQuestion
from kappasharp.planning.start import sobol
from kappasharp.problems import simulated_voters
from kappasharp.questions.kind import PAIR, Answer, Kind
from kappasharp.randomness import stream, uniform
from kappasharp.space.space import Design, Space
from kappasharp.study import collection
from kappasharp.study.creation import define

# Designs that stand for the whole space, answers from one row to the next, and how little a parameter may matter.
ORDINARY, EVERY, LEAST_WEIGHT = 1024, 5, 0.2
ANSWERS = ("a", "b", "tie")


class Rehearsed(NamedTuple):
    """What the model said of its best design after some answers, and what was true."""

    answers: int
    preferred: float
    truly_preferred: float
    room_left: float
    true_room_left: float


def taste(space: Space, seed: int) -> Callable[[Design], float]:
    """A made-up person's utility: 0 at one ideal design, negative elsewhere; parameters matter unequally.

    Its deviation over the space is 1, so that a person's noise means the same in every study.
    """
    like = torch.empty(0, dtype=torch.float64)
    d = space.dimensions
    numbers = uniform((2, d), stream(seed, "rehearsal taste"), like)
    ideal = torch.tensor(space.encode(space.decode(numbers[0].tolist())), dtype=torch.float64)
    weight = LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * numbers[1]

    def plain(design: Design) -> Tensor:
        point = torch.tensor(space.encode(design), dtype=torch.float64)
        return -(weight * (point - ideal).square()).sum()

    designs = sobol(define(space, seed=seed), 0, ORDINARY)
    scale = float(torch.stack([plain(design) for design in designs]).std())
    return lambda design: float(plain(design)) / scale


def answer(
    question: StudyQuestion,
    utility: Callable[[Design], float],
    who: simulated_voters.Person,
    chance: Tensor,
    further: Tensor,
) -> Answer:
    """What a simulated person answers to a question of any kind.

    Args:
        question: what is asked.
        utility: how much they like a design.
        who: how exactly they say it.
        chance: the numbers of one answer, from `oracle.draws`.
        further: as many normal numbers as a slider has steps, from `oracle.further_draws`.
    """
    kind = question.form.kind
    places = [i / (simulated_voters.STEPS - 1) for i in range(simulated_voters.STEPS)]
    designs = [question.at(place) for place in places] if kind is Kind.SLIDER else question.designs
    liked = torch.tensor([utility(design) for design in designs], dtype=torch.float64)
    more = further[: question.form.designs - PAIR]
    match kind:
        case Kind.CHOICE:
            return int(simulated_voters.best_of(who, liked, chance, more))
        case Kind.ORDER:
            order: list[int] = simulated_voters.order(who, liked, chance, more).tolist()
            return order
        case Kind.SLIDER:
            return float(simulated_voters.slide(who, liked, chance, further))
        case Kind.RATING:
            return int(simulated_voters.rate(who, liked, chance))
    return ANSWERS[int(simulated_voters.answer(who, liked, chance))]


def rehearse(definition: Definition, questions: int, who: simulated_voters.Person, seed: int) -> Iterator[Rehearsed]:
    """Answer that many questions of a copy of the study, in memory; a row every few answers."""
    utility = taste(definition.space, seed)
    everywhere = torch.tensor([utility(one) for one in sobol(definition, 0, ORDINARY)], dtype=torch.float64)
    study = collection.store(definition, storage=collection.IN_MEMORY)
    chance = simulated_voters.draws("rehearsal", seed, "answers", questions)
    for count in range(1, questions + 1):
        asked = study.ask()
        further = simulated_voters.further_draws("rehearsal", seed, count, simulated_voters.STEPS)
        study.tell(asked, answer(asked, utility, who, chance[count - 1], further))
        if count % EVERY == 0 or count == questions:
            best = study.best
            here = utility(best.params)
            # A design ties with itself; on a small lattice that counts.
            truth = float((everywhere < here).double().mean() + 0.5 * (everywhere == here).double().mean())
            true_room = here / float(everywhere.mean())
            yield Rehearsed(count, best.beats_random, truth, best.room_left, true_room)
