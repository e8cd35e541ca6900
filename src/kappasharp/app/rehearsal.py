"""A rehearsal: a simulated person answers a copy of the study in memory. The real one never hears of it."""

from typing import Any

import torch
from torch import Tensor

from kappasharp.app.thinking import Plain
from kappasharp.errors import InvalidValueError
from kappasharp.problems import oracle
from kappasharp.streams import stream, uniform
from kappasharp.study import studies
from kappasharp.study.definition import Definition
from kappasharp.study.questions import sobol
from kappasharp.study.space import Design, Space
from kappasharp.study.study import Study

MOST_QUESTIONS = 60
RANDOM = 512
ANSWERS = {oracle.FIRST: "a", oracle.SECOND: "b", oracle.TIE: "tie"}
# Utility falls by this many of the person's noise units on the way across the space: clear, but not to every eye.
STEEPNESS = 4.0


class Taste:
    """What the simulated person likes and never says: a favourite design, and how much each parameter matters."""

    def __init__(self, space: Space, seed: int) -> None:
        like = torch.empty(0, dtype=torch.float64)
        self.space = space
        self.favourite = space.draw(uniform((len(space.tuned),), stream(seed, "rehearsal", "wish"), like).tolist())
        self.wish = torch.tensor(space.encode(self.favourite), dtype=torch.float64)
        self.weights = 0.3 + uniform((space.dimensions,), stream(seed, "rehearsal", "weights"), like)

    def utility(self, *designs: Design) -> Tensor:
        """The hidden utility of designs."""
        X = torch.tensor([self.space.encode(design) for design in designs], dtype=torch.float64)
        return -STEEPNESS * ((X - self.wish).square() * self.weights).sum(-1) / self.weights.sum()


def rehearse(given: Definition, person: str, questions: int) -> Plain:
    """The whole rehearsal: how the best design stands, in truth and by the model, after every few answers."""
    if not 1 <= questions <= MOST_QUESTIONS:
        raise InvalidValueError(f"`questions` must be from 1 to {MOST_QUESTIONS}, but got {questions}.")
    who = oracle.person(person)
    study = studies.create_study(
        given.space, storage=studies.IN_MEMORY, study_name="rehearsal", seed=given.seed, method=given.method_name,
        preset=given.preset_choice, first_pairs=given.first_pairs,
    )  # fmt: skip
    taste = Taste(given.space, given.seed)
    ordinary = taste.utility(*sobol(given, 0, RANDOM))
    chance = oracle.draws("rehearsal", given.seed, "answers", questions)
    rows = []
    for count in range(1, questions + 1):
        pair = study.ask()
        answer = ANSWERS[int(oracle.answer(who, taste.utility(pair.a, pair.b), chance[count - 1]))]
        study.tell(pair, answer)
        if count == questions or count % 2 == 0:
            rows.append(_row(study, taste, ordinary, count))
    return {"rows": rows, "favourite": taste.favourite, "found": dict(study.best_params), "person": _words(who)}


def _row(study: Study, taste: Taste, ordinary: Tensor, count: int) -> Plain:
    best = study.best
    truth = float((taste.utility(best.params) > ordinary).double().mean())
    return {"answers": count, "believed": best.beats_random, "true": truth, "advice": str(best.advice)}


def _words(who: oracle.Person) -> dict[str, Any]:
    return {"noise": who.noise, "lapse": who.lapse, "ties": who.just_noticeable, "bias": who.position_bias}
