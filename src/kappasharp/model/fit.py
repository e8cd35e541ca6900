"""The model of a study's answers: what each says as comparisons, between which designs, and what is learnt from all.

A slider was left at a design that becomes one of the options; the other places of its line, with which the model
compares it, are points that nobody saw. They come after the options, have no number, and are never told, shown or
counted. How a step of Algorithm 1 computes is in `algorithm`; what a study hands to it is here.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition import line
from kappasharp.algorithm import loop
from kappasharp.algorithm.fit import with_threshold
from kappasharp.algorithm.loop import Learnt
from kappasharp.algorithm.state import State
from kappasharp.algorithm.surrogate import Surrogate, surrogate_of
from kappasharp.inference import comparisons
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.features import Lift
from kappasharp.journal import validation
from kappasharp.journal.definition import Definition
from kappasharp.journal.fit_note import noted_after
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison
from kappasharp.messages.message import Sentence, said
from kappasharp.model import feasibility, outcomes, points
from kappasharp.model.feasibility import Allowed
from kappasharp.questions import kind
from kappasharp.questions.comparisons import Said
from kappasharp.questions.kind import Kind
from kappasharp.space.space import Space
from kappasharp.tensors import one_thread, released

# The fit starts from the last one's end, and cold too: at every answer as long as they are few, later each time that
# there are a share more of them. A cold start takes longer than the other and seldom ends higher: `make bench` counts
# how seldom (`study_fit_not_worse`).
ALWAYS_COLD, COLD_SHARE = 100, 0.02
# Hyperparameters hardly move with one answer more among many: beyond so many answers they are searched for anew each
# time that there are a share more, and kept in between.
ALWAYS_SEARCHED, SEARCH_SHARE = 150, 0.01
# Many people at once wait for each other: more than FEW_VOTERS among those who gave the last LATELY answers. Then the
# fit starts from the prior's mode only once in a number of answers.
FEW_VOTERS, LATELY, COLD_EVERY_OF_MANY = 4, 16, 64


class Part(NamedTuple):
    """One answer: what was said, of which options and, after them, of which points (k, d) that nobody saw."""

    said: Said
    options: tuple[int, ...]
    unseen: Tensor | None = None


class Compared(NamedTuple):
    """What the model is fitted to: the options compared, by number, and the answers in terms of their places.

    Places from `len(options)` on are points that nobody saw.
    """

    options: list[int]
    answers: Answers


class StudyModel(NamedTuple):
    """The model of a history: where its step began and what it learnt; places from `len(options)` on nobody saw."""

    options: list[int]
    state: State
    learnt: Learnt
    surrogate: Surrogate

    @property
    def utility(self) -> list[float]:
        """The utility of each option."""
        found: list[float] = self.surrogate.utility[: len(self.options)].tolist()
        return found


def gather(definition: Definition, history: History, first: int | None = None) -> Compared:
    """The answers that count, or the first so many of them, and the options that they compare."""
    return assembled(
        definition, history, [part_of(definition.space, history, one) for one in history.counted()[:first]]
    )


def part_of(space: Space, history: History, one: Comparison) -> Part:
    """What one answer says, and of which designs; a slider's beside other places of its line."""
    said = kind.said(one.form, one.answer)
    if one.form.kind is not Kind.SLIDER:
        return Part(said, one.options)
    assert one.pair is not None and isinstance(one.answer, float)
    place = torch.tensor(one.answer, dtype=torch.float64)
    ends = points.points(space, history.asked[one.pair][0].designs)
    return Part(said, one.options, line.at(ends, comparisons.other_places(place, len(ends)), points.lattice(space)))


def assembled(definition: Definition, history: History, parts: Sequence[Part]) -> Compared:
    """The answers' parts as tensors, with the designs that they are about."""
    options = sorted({number for part in parts for number in part.options})
    place = {number: i for i, number in enumerate(options)}
    pairs: list[list[int]] = []
    ties: list[bool] = []
    unseen, count = [], len(options)
    for part in parts:
        at = [place[number] for number in part.options]
        if part.unseen is not None:
            at += range(count, count + len(part.unseen))
            unseen.append(part.unseen)
            count += len(part.unseen)
        pairs += [[at[i], at[j]] for i, j in part.said.pairs]
        ties += part.said.ties
    X = torch.cat([points.points(definition.space, [history.options[n] for n in options]), *unseen]).unsqueeze(0)
    detail = comparisons.detail([part.said for part in parts])
    return Compared(options, Answers(X, torch.tensor([pairs]), torch.tensor([ties]) if any(ties) else None, detail))


@one_thread()
def learn(definition: Definition, history: History) -> StudyModel:
    """The model of all answers so far."""
    found = gather(definition, history)
    state = _state(definition, history, found)
    # Released once, so that what was learnt and its surrogate hold the same tensors.
    learnt = released(loop.learn(state))
    return StudyModel(found.options, state, learnt, surrogate_of(state, learnt))


def _state(definition: Definition, history: History, found: Compared) -> State:
    """The state of Algorithm 1 before its next step, from what the last step noted."""
    X, pairs, ties, detail = found.answers
    answers = len(history.counted())
    memo = _last_memo(definition, history, answers)
    lift, allowed = lift_of(definition, history), feasibility.of(definition, history)
    theta = None if history.is_of_another_cube(memo) else theta_of(memo, X.shape[-1], lift)
    preset = with_threshold(definition.preset, found.answers, theta, lift)
    cold = _is_cold(history, memo, answers)
    preset = replace(preset, cold_fit=preset.cold_fit and cold)
    ties = ties if isinstance(ties, Tensor) else None
    state = loop.init(X, pairs, method=definition.method, preset=preset, seeds=definition.seed, ties=ties)
    step = max(answers - definition.first_pairs, 0)
    state = replace(state, step=step, lattice=points.open_lattice(definition.space), theta=theta, detail=detail)
    state = replace(state, lift=lift, allowed=allowed, box=points.box(definition.space))
    state = replace(state, keep=not (cold or _is_search_due(memo, answers)))
    state = replace(state, eligible=eligible(definition.space, allowed, X, len(found.options)))
    if definition.use_seconds:
        state = replace(state, seconds=_seconds(history))
    if definition.use_seconds or definition.tell_apart:
        state = replace(state, voters=voters(history))
    if memo is None:
        return state
    mean = torch.full_like(state.mean_decisiveness, memo["mean_decisiveness"])
    hints = None if history.is_of_another_cube(memo) else torch.tensor([memo["hints"]], dtype=torch.float64)
    return replace(state, mean_decisiveness=mean, hints=hints)


def eligible(space: Space, allowed: Allowed | None, X: Tensor, options: int) -> Tensor | None:
    """Which points (1, n, d) may be told to be best: options that are open and break no limit; None where all are."""
    broken = feasibility.breaking(allowed, X[0, :options])
    if not space.bounds and not bool(broken.any()):
        return None
    may: Tensor = points.beyond(space, X) == 0.0
    may[:, :options] &= ~broken
    may[:, options:] = False
    return may


def lift_of(definition: Definition, history: History) -> Lift | None:
    """The outcomes that taste is learnt on; None where it is learnt on parameters alone."""
    known = outcomes.given(definition, history)
    return None if known is None else known.lift


def theta_of(memo: Any, dimensions: int, lift: Lift | None) -> Tensor | None:
    """The hyperparameters that a model noted, if they are those of one like this: with outcomes there are more."""
    wanted = dimensions + 1 if lift is None else dimensions + lift.size + 2
    if memo is None or len(memo["theta"]) != wanted:
        return None
    return torch.tensor([memo["theta"]], dtype=torch.float64)


def _seconds(history: History) -> Tensor:
    """Of every comparison how long its answer took; NaN where nobody knows or it was no pair."""
    rows: list[float] = []
    for one in history.counted():
        plain = one.form.is_pair and one.seconds is not None
        seconds = float(one.seconds) if plain and one.seconds is not None else torch.nan
        rows += [seconds] * len(kind.said(one.form, one.answer).pairs)
    return torch.tensor([rows], dtype=torch.float64)


def voters(history: History) -> Tensor:
    """Who gave every comparison: 0, 1, … in the order in which they came."""
    numbers = _numbers(history)
    counted = [(numbers[one.voter], len(kind.said(one.form, one.answer).pairs)) for one in history.counted()]
    return torch.tensor([number for number, count in counted for _ in range(count)])


def _numbers(history: History) -> dict[str, int]:
    """Voters whose answers count, the first to answer first."""
    return {name: number for number, name in enumerate(dict.fromkeys(one.voter for one in history.counted()))}


def seen_by(history: History, model: StudyModel, voter: str | None) -> StudyModel:
    """The model as one voter sees it, where voters are told apart; one who has not answered has what all share."""
    if voter is None or model.learnt.fit.people is None:
        return model
    numbers = _numbers(history)
    learnt = released(loop.seen_by(model.learnt, numbers.get(voter, len(numbers))))
    return model._replace(learnt=learnt, surrogate=surrogate_of(model.state, learnt))


def _is_cold(history: History, memo: dict[str, Any] | None, n_answers: int) -> bool:
    """Whether the fit starts from the prior's mode too."""
    if memo is None or not many(history):
        return n_answers <= ALWAYS_COLD or n_answers % int(COLD_SHARE * n_answers) == 0
    return n_answers // COLD_EVERY_OF_MANY > (noted_after(memo) or 0) // COLD_EVERY_OF_MANY


def _is_search_due(memo: dict[str, Any] | None, n_answers: int) -> bool:
    """Whether the hyperparameters are searched for anew, and not those of the last model kept."""
    every, before = int(SEARCH_SHARE * n_answers), noted_after(memo)
    return n_answers <= ALWAYS_SEARCHED or before is None or n_answers // every > before // every


def many(history: History) -> bool:
    """Whether many people answer at once."""
    return len({one.voter for one in history.counted()[-LATELY:]}) > FEW_VOTERS


def _last_memo(definition: Definition, history: History, n_answers: int) -> dict[str, Any] | None:
    """What the last step noted; None, with a warning, where nothing can start from it: imports once let such in."""
    memo = history.memo(n_answers)
    # One of another cube was checked when it was stored, and gives no more than its mean decisiveness.
    checked = memo is None or history.is_of_another_cube(memo)
    trouble = None if checked else validation.memo_trouble(memo, definition)
    if trouble is None:
        return memo
    warnings.warn(f"What the model noted with a pair is damaged ({trouble}); it is fitted afresh.", stacklevel=2)
    return None


def leading(model: StudyModel) -> int:
    """The place, among the model's options, of the design that is told to be best."""
    return int(loop.leader(model.state, model.learnt))


def favourite(model: StudyModel) -> int:
    """The place of the option with the highest utility, whether or not it ever won; one that is open comes first."""
    utility, eligible = model.surrogate.utility[: len(model.options)], model.state.eligible
    if eligible is not None and bool(eligible.any()):
        utility = utility.masked_fill(~eligible[0, : len(model.options)], -torch.inf)
    return int(utility.argmax())


def unproven_best(model: StudyModel) -> tuple[int, int] | None:
    """The option that the model holds to be best though it never won, and the one told; None where they are one."""
    best, told = favourite(model), leading(model)
    return None if best == told else (model.options[best], model.options[told])


def why_not_told(model: StudyModel, place: int) -> Sentence:
    """Why an option that the model holds to be better than the one told is not told itself."""
    eligible = model.state.eligible
    if eligible is not None and bool(eligible.any()) and not bool(eligible[0, place]):
        if bool(feasibility.breaking(model.state.allowed, model.state.points[0, place : place + 1]).any()):
            return said("why.breaks", "it breaks a limit")
        return said("why.closed", "it is not open any more")
    return said("why.unproven", "it has won no comparison yet, and only a design that has won is told")


def spread(total: int, most: int) -> list[int]:
    """Numbers of answers from 1 to `total`, all of them or `most` spread evenly, the last among them."""
    if total <= 1:
        return list(range(1, total + 1))
    return sorted({round(1 + i * (total - 1) / (most - 1)) for i in range(most)})
