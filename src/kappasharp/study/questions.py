"""The next pair, as a function of a study's definition and history alone: the same events give the same pair.

Pairs that somebody queued come first, then a scrambled Sobol start, then Algorithm 1; duels between designs seen where
somebody wants it settled. A design that the model holds to be best but that never won is asked about at once. What is
proposed is moved to a design already seen where the two cannot be told apart, and a pair that was met before gives way
to the next best.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kappasharp.batches import released
from kappasharp.core import kernel, posterior, spaces
from kappasharp.core.comparisons import Answers
from kappasharp.core.posterior import Posterior
from kappasharp.methods import correcting, loop
from kappasharp.methods.asking import NEW
from kappasharp.methods.fitting import Fit, infer, with_threshold
from kappasharp.methods.loop import Learnt, State
from kappasharp.methods.method import Query
from kappasharp.methods.surrogate import Surrogate, surrogate_of
from kappasharp.streams import stream, uniform
from kappasharp.study import validation
from kappasharp.study.definition import Definition
from kappasharp.study.events import Asked, Origin
from kappasharp.study.history import History, design_key
from kappasharp.study.space import Design, Space

# Where the first choice will not do: how many promising designs are paired with one another, and how many are drawn
# beside those that there are.
SHORTLIST, POOL = 40, 128
# The fit starts from the last one's end, and at every second answer from the prior's mode too, which takes as long
# again and seldom ends higher: `make bench` counts how seldom (`study_fit_not_worse`).
COLD_EVERY = 2
# How many duels settle which of the designs seen is best, unless somebody says otherwise.
DUELS = 5
# How often a start pair is drawn again where its designs cannot be told apart.
DRAWS = 64


class Compared(NamedTuple):
    """What the model is fitted to: the options compared, by number, and the answers in terms of their places."""

    options: list[int]
    answers: Answers


class StudyModel(NamedTuple):
    """The model of a history: where its step began and what it learnt."""

    options: list[int]
    state: State
    learnt: Learnt
    surrogate: Surrogate


class Seen:
    """What was seen so far, arranged for the two questions that every proposal must pass."""

    def __init__(self, space: Space, history: History) -> None:
        self.space, self.history = space, history
        self.points = space.points(history.options)
        self.met = history.met()

    def nearest(self, design: Design) -> Design:
        """The design itself, or the nearest of those already seen that cannot be told from it."""
        if not len(self.points) or self.history.option(design) is not None:
            return design
        apart = (self.points - torch.tensor(self.space.encode(design), dtype=torch.float64)).abs()
        alike = (apart <= self.space.tolerance).all(-1)
        if not bool(alike.any()):
            return design
        distance = apart.square().sum(-1).masked_fill(~alike, torch.inf)
        return self.history.options[int(distance.argmin())]

    def allows(self, first: Design, second: Design) -> bool:
        """Whether two designs make a question: they can be told apart, and nobody met them as a pair."""
        if self.space.same(first, second):
            return False
        numbers = frozenset(n for n in (self.history.option(first), self.history.option(second)) if n is not None)
        return len(numbers) < 2 or numbers not in self.met  # noqa: PLR2004


@contextmanager
def one_thread() -> Iterator[None]:
    """The matrices of one study are small: several threads would wait for each other more than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def next_pair(definition: Definition, history: History, model: StudyModel | None = None) -> Asked:
    """The pair to ask, whoever asks for it; `model` is the history's own where it is at hand."""
    if history.queue:
        number, queued = next(iter(history.queue.items()))
        return Asked(queued.a, queued.b, "queue" if queued.again is None else "again", number)
    if len(history.counted()) < definition.first_pairs:
        return _sided(definition, history, *_start(definition, history), "start")
    return _from_model(definition, history, model or learn(definition, history))


def gather(definition: Definition, history: History) -> Compared:
    """The answers that count, and the options that they compare."""
    counted = history.counted()
    options = sorted({number for one in counted for number in one.options})
    place = {number: i for i, number in enumerate(options)}
    pairs = [[place[number] for number in one.ordered] for one in counted]
    ties = [one.answer == "tie" for one in counted]
    X = definition.space.points(history.options[number] for number in options).unsqueeze(0)
    return Compared(options, Answers(X, torch.tensor([pairs]), torch.tensor([ties]) if any(ties) else None))


@one_thread()
def learn(definition: Definition, history: History) -> StudyModel:
    """The model of all answers so far."""
    found = gather(definition, history)
    state = _state(definition, history, found)
    return _model(found.options, state)


def _model(options: list[int], state: State) -> StudyModel:
    # Released once, so that what was learnt and its surrogate hold the same tensors.
    learnt = released(loop.learn(state))
    return StudyModel(options, state, learnt, surrogate_of(state, learnt))


def _state(definition: Definition, history: History, found: Compared) -> State:
    """The state of Algorithm 1 before its next step, from what the last step noted."""
    X, pairs, ties, _ = found.answers
    memo = _last_memo(definition, history, pairs.shape[1])
    theta = None if memo is None else torch.tensor([memo["theta"]], dtype=torch.float64)
    preset = with_threshold(definition.preset, found.answers, theta)
    preset = replace(preset, cold_fit=preset.cold_fit and pairs.shape[1] % COLD_EVERY == 0)
    state = loop.init(X, pairs, method=definition.method, preset=preset, seeds=definition.seed, ties=ties)
    state = replace(
        state, step=max(pairs.shape[1] - definition.first_pairs, 0), lattice=definition.space.lattice, theta=theta
    )
    if memo is None:
        return state
    mean = torch.full_like(state.mean_decisiveness, memo["mean_decisiveness"])
    return replace(state, mean_decisiveness=mean, hints=torch.tensor([memo["hints"]], dtype=torch.float64))


def _last_memo(definition: Definition, history: History, n_answers: int) -> dict[str, Any] | None:
    """What the last step noted; None, with a warning, where nothing can start from it: imports once let such in."""
    memo = history.memo(n_answers)
    trouble = None if memo is None else validation.memo_trouble(memo, definition.space.dimensions)
    if trouble is None:
        return memo
    warnings.warn(f"What the model noted with a pair is damaged ({trouble}); it is fitted afresh.", stacklevel=2)
    return None


def _from_model(definition: Definition, history: History, model: StudyModel) -> Asked:
    n_answers, own = model.state.comparisons.shape[1], model
    model = _with_open_pairs(definition, history, model)
    seen = Seen(definition.space, history)
    origin: Origin = "settle" if history.settling else "model"
    state = _anchored(history, model)
    if origin == "settle":
        state = replace(state, method=replace(state.method, query=Query.SETTLING))
    question, after, info = loop.question_from(state, model.learnt)
    first, second = (_design(seen, model, question, side) for side in (0, 1))
    unproven = unproven_best(own)
    if unproven is not None and origin == "model":
        doubted = [history.options[number] for number in unproven]
        first, second = doubted if seen.allows(*doubted) else (first, second)
    if not seen.allows(first, second):
        first, second = _instead(definition, seen, model, (first, second))
    memo = {"answers": n_answers} | _memo(model, after, info)
    return _sided(definition, history, first, second, origin, memo)


def leading(model: StudyModel) -> int:
    """The place, among the model's options, of the design that is told to be best."""
    return int(loop.leader(model.state, model.learnt))


def unproven_best(model: StudyModel) -> tuple[int, int] | None:
    """The option that the model holds to be best though it never won, and the one told; None where they are one."""
    best, told = int(model.surrogate.utility.argmax()), leading(model)
    return None if best == told else (model.options[best], model.options[told])


def _design(seen: Seen, model: StudyModel, question: loop.Question, side: int) -> Design:
    """One side of the model's question."""
    known = int(question.known[0, side])
    if known != NEW:
        return seen.history.options[model.options[known]]
    return seen.nearest(seen.space.decode(question.points[0, side].tolist()))


def _anchored(history: History, model: StudyModel) -> State:
    """Connected querying holds on to the first design of the last pair that the model chose and somebody answered."""
    for one in reversed(history.counted()):
        memo = None if one.pair is None else history.asked[one.pair][1].memo
        if isinstance(memo, dict) and "first" in memo:
            shown = one.options[0 if memo["first"] == "a" else 1]
            return replace(model.state, anchor=torch.tensor([model.options.index(shown)]))
    return model.state


def _with_open_pairs(definition: Definition, history: History, model: StudyModel) -> StudyModel:
    """The model as if open pairs had been answered the way it expects, so that two voters are not asked the same."""
    waiting = [history.numbers(history.asked[number][0]) for number in history.open.values()]
    if not waiting:
        return model
    options = sorted({*model.options, *(number for pair in waiting for number in pair)})
    place = {number: i for i, number in enumerate(options)}
    X = definition.space.points(history.options[number] for number in options).unsqueeze(0)
    old = torch.tensor([place[number] for number in model.options])
    sides = torch.tensor([[place[number] for number in pair] for pair in waiting])
    mean = posterior.mean(model.surrogate.latent, X[:, sides.flatten()]).reshape(sides.shape)
    believed = sides.gather(1, mean.argsort(dim=1, descending=True, stable=True))
    state = model.state
    ties = state.ties
    if ties is not None:
        ties = torch.cat([ties, torch.zeros(1, len(believed), dtype=torch.bool)], 1)
    pairs = torch.cat([old[state.comparisons], believed.unsqueeze(0)], 1)
    state = replace(state, points=X, comparisons=pairs, ties=ties, anchor=old[state.anchor])
    learnt = released(_imagined(state, model.learnt))
    return StudyModel(options, state, learnt, surrogate_of(state, learnt))


@torch.inference_mode()
def _imagined(state: State, real: Learnt) -> Learnt:
    """What a step knows once answers are added that nobody gave: only the utilities follow them.

    They are the model's own expectations, so they say nothing of its hyperparameters nor of whether the correction
    should act: both stay as the real answers have them, and no search is made.
    """
    method, model, theta = state.method, state.preset.model, real.fit.hyper.theta
    answers = Answers(state.points, state.comparisons, state.ties, state.detail)
    K = kernel.covariance(model.family, answers.X, theta, model.nugget)
    z = real.fit.map.dual.z
    start = torch.nn.functional.pad(z, (0, answers.pairs.shape[1] - z.shape[1]))
    known = spaces.choose(model, answers).condition(model, K, start)
    plain = Posterior(model.family, answers.X, theta, known.map.beta, known.root)
    fit = Fit(answers.X, known.C, answers.ties, real.fit.hyper, K, known.map, plain)
    inferred = infer(method.inference, model, fit, state.seeds, state.step + 1)
    fit = fit._replace(posterior=inferred.posterior)
    corrected = correcting.correct(model, fit, method.correction, real.active)
    return real._replace(fit=fit, inferred=inferred, corrected=corrected)


def _memo(model: StudyModel, after: State, info: loop.Info) -> dict[str, Any]:
    """What the next step starts from, and what this one found, as plain data."""
    words = {"step": info.step, "status": info.status[0]}
    numbers = {
        "mean_decisiveness": info.mean_decisiveness,
        "decisiveness": info.decisiveness,
        "strength": info.strength,
        "condition_before": info.condition_before,
        "condition_after": info.condition_after,
        "evidence": info.evidence,
        "acquisition": info.acquisition,
    }
    assert after.theta is not None and after.hints is not None
    return (
        words
        | {name: _finite(float(value)) for name, value in numbers.items()}
        | {"active": bool(info.active), "components": int(info.n_components), "threshold": model.state.preset.threshold}
        | {"searched_on": int(info.fit_searched_on)}
        | {"theta": after.theta[0].tolist(), "hints": after.hints[0].tolist()}
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _sided(
    definition: Definition,
    history: History,
    first: Design,
    second: Design,
    origin: Origin,
    memo: dict[str, Any] | None = None,
) -> Asked:
    """The pair with its sides drawn by lot: what the model puts first is not always A."""
    lot = uniform((1,), stream(definition.seed, "sides", str(len(history.asked))), torch.empty(0, dtype=torch.float64))
    swapped = bool(lot < 0.5)  # noqa: PLR2004
    a, b = (second, first) if swapped else (first, second)
    if memo is not None:
        memo = memo | {"first": "b" if swapped else "a"}
    return Asked(a, b, origin, history.number, memo)


def _start(definition: Definition, history: History) -> tuple[Design, Design]:
    """The next two designs of the scrambled Sobol sequence that can be told apart and were not met as a pair."""
    seen = Seen(definition.space, history)
    asked = sum(event.origin == "start" for _, event in history.asked.values())
    for count in range(asked, asked + DRAWS):
        first, second = (seen.nearest(one) for one in sobol(definition, 2 * count, 2))
        if seen.allows(first, second):
            return first, second
    # A space so small that all of it was met: any two that differ.
    pairs = combinations(sobol(definition, 0, 2 * DRAWS), 2)
    return next((one, other) for one, other in pairs if not definition.space.same(one, other))


def sobol(definition: Definition, skip: int, count: int) -> list[Design]:
    """Designs of the study's scrambled Sobol sequence, every value of a lattice with the same share."""
    shares = _shares(len(definition.space.tuned), definition.seed, skip, count)
    return [definition.space.draw(row) for row in shares]


@cache
def _shares(dimensions: int, seed: int, skip: int, count: int) -> Sequence[Sequence[float]]:
    scramble = stream(seed, "study start").initial_seed() % 2**31
    engine = SobolEngine(dimensions, scramble=True, seed=scramble)
    if skip:
        engine.fast_forward(skip)
    rows: Sequence[Sequence[float]] = engine.draw(count, dtype=torch.float64).tolist()
    return rows


def _instead(
    definition: Definition, seen: Seen, model: StudyModel, pair: tuple[Design, Design]
) -> tuple[Design, Design]:
    """The pair with the largest EUBO among promising designs that makes a question; if none does, the best distinct."""
    space = definition.space
    pool = [seen.history.options[number] for number in model.options] + list(pair) + sobol(definition, 0, POOL)
    designs = list({design_key(design): design for design in map(seen.nearest, pool)}.values())
    X = space.points(designs)
    pairs = [
        (i, j) for i, j in combinations(_promising(model.surrogate, X), 2) if not space.same(designs[i], designs[j])
    ]
    first, second = (torch.tensor(column) for column in zip(*pairs, strict=True))
    order = model.surrogate.eubo(X[first], X[second]).argsort(descending=True, stable=True).tolist()
    ranked = [(designs[pairs[i][0]], designs[pairs[i][1]]) for i in order]
    return next((one for one in ranked if seen.allows(*one)), ranked[0])


def _promising(surrogate: Surrogate, X: Tensor) -> list[int]:
    mean, variance = posterior.marginal(surrogate.latent, X.unsqueeze(0))
    score = (mean + variance.sqrt()).squeeze(0)
    found: list[int] = score.topk(min(SHORTLIST, len(X))).indices.sort().values.tolist()
    return found
