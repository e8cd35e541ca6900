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

from kappasharp.acquisition import eubo
from kappasharp.acquisition.eubo import Variant
from kappasharp.batches import released
from kappasharp.core import comparisons, kernel, posterior
from kappasharp.core.comparisons import Answers
from kappasharp.core.posterior import Posterior
from kappasharp.methods import loop
from kappasharp.methods.asking import NEW
from kappasharp.methods.fitting import with_threshold
from kappasharp.methods.loop import Learnt, State
from kappasharp.methods.method import Query
from kappasharp.methods.surrogate import Surrogate, surrogate_of
from kappasharp.streams import stream, uniform
from kappasharp.study import choosing, imagining, validation
from kappasharp.study.choosing import Chosen
from kappasharp.study.definition import Definition
from kappasharp.study.events import Asked, Origin
from kappasharp.study.history import History, design_key, noted_after
from kappasharp.study.space import Design, Space

# Where the first choice will not do: how many promising designs are paired with one another, and how many are drawn
# beside those that there are.
SHORTLIST, POOL = 40, 128
# The fit starts from the last one's end, and at every second answer from the prior's mode too, which takes as long
# again and seldom ends higher: `make bench` counts how seldom (`study_fit_not_worse`).
COLD_EVERY = 2
# Many people at once wait for each other: more than FEW_VOTERS among those who gave the last LATELY answers. Then the
# fit starts from the prior's mode once in so many answers only.
FEW_VOTERS, LATELY, COLD_EVERY_OF_MANY = 4, 16, 64
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

    def nearest(self, *designs: Design) -> list[Design]:
        """Each design itself, or the nearest of those already seen that cannot be told from it."""
        found = list(designs)
        fresh = [i for i, design in enumerate(designs) if self.history.option(design) is None]
        if not fresh or not len(self.points):
            return found
        apart = (self.points - self.space.points(designs[i] for i in fresh).unsqueeze(1)).abs()
        alike = (apart <= self.space.tolerance).all(-1)
        distance, option = apart.square().sum(-1).masked_fill(~alike, torch.inf).min(-1)
        for i, far, number in zip(fresh, distance.tolist(), option.tolist(), strict=True):
            found[i] = found[i] if math.isinf(far) else self.history.options[number]
        return found

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
    X, pairs, ties = found.answers
    memo = _last_memo(definition, history, pairs.shape[1])
    theta = None if memo is None else torch.tensor([memo["theta"]], dtype=torch.float64)
    preset = with_threshold(definition.preset, found.answers, theta)
    preset = replace(preset, cold_fit=preset.cold_fit and _is_cold(history, memo, pairs.shape[1]))
    state = loop.init(X, pairs, method=definition.method, preset=preset, seeds=definition.seed, ties=ties)
    state = replace(
        state, step=max(pairs.shape[1] - definition.first_pairs, 0), lattice=definition.space.lattice, theta=theta
    )
    if memo is None:
        return state
    mean = torch.full_like(state.mean_decisiveness, memo["mean_decisiveness"])
    return replace(state, mean_decisiveness=mean, hints=torch.tensor([memo["hints"]], dtype=torch.float64))


def _is_cold(history: History, memo: dict[str, Any] | None, n_answers: int) -> bool:
    """Whether the fit starts from the prior's mode too."""
    if memo is None or not _many(history):
        return n_answers % COLD_EVERY == 0
    return n_answers // COLD_EVERY_OF_MANY > (noted_after(memo) or 0) // COLD_EVERY_OF_MANY


def _many(history: History) -> bool:
    """Whether many people answer at once."""
    return len({one.voter for one in history.counted()[-LATELY:]}) > FEW_VOTERS


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
    chosen = (choosing.quickly if _many(history) else choosing.usually)(state, model.learnt)
    first, second = (_design(seen, model, chosen.question, side) for side in (0, 1))
    unproven = unproven_best(own)
    if unproven is not None and origin == "model":
        doubted = [history.options[number] for number in unproven]
        first, second = doubted if seen.allows(*doubted) else (first, second)
    if not seen.allows(first, second):
        first, second = _instead(definition, seen, model, (first, second))
    memo = {"answers": n_answers} | _memo(model, chosen)
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
    return seen.nearest(seen.space.decode(question.points[0, side].tolist()))[0]


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
    fresh = sorted({number for pair in waiting for number in pair}.difference(model.options))
    options = model.options + fresh
    place = {number: i for i, number in enumerate(options)}
    X = torch.cat([model.state.points, definition.space.points(history.options[n] for n in fresh).unsqueeze(0)], 1)
    sides = torch.tensor([[place[number] for number in pair] for pair in waiting])
    mean = posterior.mean(model.surrogate.latent, X[:, sides.flatten()]).reshape(sides.shape)
    believed = sides.gather(1, mean.argsort(dim=1, descending=True, stable=True)).unsqueeze(0)
    state = model.state
    ties = state.ties
    if ties is not None:
        ties = torch.nn.functional.pad(ties, (0, len(waiting)))
    state = replace(state, points=X, comparisons=torch.cat([state.comparisons, believed], 1), ties=ties)
    learnt = released(_imagined(state, model.learnt, believed))
    return StudyModel(options, state, learnt, surrogate_of(state, learnt))


@torch.inference_mode()
def _imagined(state: State, real: Learnt, believed: Tensor) -> Learnt:
    """What a step knows once answers are added that nobody gave: only the utilities follow them.

    They are the model's own expectations, so they say nothing of its hyperparameters nor of whether the correction
    should act: both stay as the real answers have them, and no search is made.
    """
    model, X = state.preset.model, state.points
    found = imagining.answered(model, real.corrected.posterior, X, believed)
    C = comparisons.incidence(state.comparisons, X.shape[1])
    K = kernel.covariance(model.family, X, found.theta, model.nugget)
    fit = real.fit._replace(X=X, C=C, ties=state.ties, K=K, posterior=found)
    return real._replace(fit=fit, corrected=real.corrected._replace(posterior=found))


def _memo(model: StudyModel, chosen: Chosen) -> dict[str, Any]:
    """What the next step starts from, and what this one found, as plain data."""
    learnt, calibration = model.learnt, model.learnt.corrected.calibration
    numbers = {
        "mean_decisiveness": learnt.mean_decisiveness,
        "decisiveness": learnt.decisiveness,
        "strength": torch.where(learnt.active, calibration.eta, 0.0),
        "condition_before": calibration.kappa_before,
        "condition_after": calibration.kappa_after,
        "evidence": learnt.fit.hyper.value,
        "acquisition": chosen.acquisition,
    }
    C, hyper = learnt.fit.C, learnt.fit.hyper
    return (
        {"step": model.state.step + 1, "status": chosen.status}
        | {name: _finite(float(value)) for name, value in numbers.items()}
        | {"active": bool(learnt.active), "components": int(comparisons.count_components(C.pairs, C.n_points))}
        | {"threshold": model.state.preset.threshold, "searched_on": int(hyper.searched_on)}
        | {"theta": hyper.theta[0].tolist(), "hints": chosen.hints[0].tolist()}
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
        first, second = seen.nearest(*sobol(definition, 2 * count, 2))
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
    space, fitted = definition.space, model.surrogate.latent
    pool = [seen.history.options[number] for number in model.options] + seen.nearest(*pair, *sobol(definition, 0, POOL))
    designs = list({design_key(design): design for design in pool}.values())
    X = space.points(designs)
    short = _promising(fitted, X)
    designs, X = [designs[i] for i in short], X[short]
    first, second = torch.combinations(torch.arange(len(X))).T
    apart = ((X[first] - X[second]).abs() > space.tolerance).any(-1)
    first, second = first[apart], second[apart]
    order = _eubo(fitted, X, model.state.preset.eubo)[first, second].argsort(descending=True, stable=True)
    ranked = [(designs[i], designs[j]) for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)]
    return next((one for one in ranked if seen.allows(*one)), ranked[0])


def _promising(fitted: Posterior, X: Tensor) -> list[int]:
    mean, variance = posterior.marginal(fitted, X.unsqueeze(0))
    score = (mean + variance.sqrt()).squeeze(0)
    found: list[int] = score.topk(min(SHORTLIST, len(X))).indices.sort().values.tolist()
    return found


def _eubo(fitted: Posterior, X: Tensor, variant: Variant) -> Tensor:
    """EUBO of every point with every other: the points are few beside their pairs."""
    mean, covariance = (part.squeeze(0) for part in posterior.joint(fitted, X.unsqueeze(0)))
    own = covariance.diagonal()
    floor = eubo.VARIANCE_FLOOR[X.dtype] * float(fitted.theta[0, -1].exp())
    spread = (own.unsqueeze(-1) + own - 2.0 * covariance).clamp(min=floor).sqrt()
    gain = eubo.closed_form(mean.unsqueeze(-1) - mean, spread)
    return gain if variant == "improvement" else gain + mean
