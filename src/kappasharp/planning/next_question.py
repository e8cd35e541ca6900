"""The next question, as a function of a study's definition and history alone: the same events give the same question.

What somebody queued comes first, then a scrambled Sobol start, then Algorithm 1; duels between designs seen where
somebody wants it settled. A design that the model holds to be best but that never won is asked about at once. What is
proposed is moved to a design already seen where the two cannot be told apart, and designs that were met together before
give way to the next best.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kappasharp import settings
from kappasharp.acquisition import batch_eubo, eubo, incumbent
from kappasharp.algorithm.question import NEW
from kappasharp.algorithm.state import Question, State
from kappasharp.errors import InvalidValueError
from kappasharp.inference import comparisons, posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Asked, Origin
from kappasharp.journal.history import History, design_key
from kappasharp.model import points
from kappasharp.model.feasibility import Allowed
from kappasharp.model.fit import StudyModel, leading, learn, many, unproven_best
from kappasharp.model.open_questions import with_open_questions
from kappasharp.planning import question_kind, start
from kappasharp.planning.candidates import Seen
from kappasharp.planning.question_kind import Chosen
from kappasharp.questions.kind import ONE_PAIR, PAIR, Form, Kind
from kappasharp.randomness import stream, uniform
from kappasharp.settings import Query, Variant
from kappasharp.space.space import Design, Space
from kappasharp.tensors import one_thread

# Where the first choice will not do: how many promising designs are paired with one another, of how many of those seen
# with the highest mean and how many drawn beside them. (The variances of thousands would take seconds.)
SHORTLIST, LONG_LIST, POOL = 40, 256, 128
# How many duels settle which of the designs seen is best, unless somebody says otherwise.
DUELS = settings.DUELS


def rests_on_model(
    definition: Definition, history: History, form: Form | None = None, voter: str | None = None
) -> bool:
    """Whether the next question is the model's to choose."""
    queued = history.programs.may_take(voter, history.queue) and form is None
    return not queued and len(history.counted()) >= definition.first_pairs


@one_thread()
def next_question(
    definition: Definition,
    history: History,
    model: StudyModel | None = None,
    *,
    form: Form | None = None,
    leaving: str | None = None,
) -> Asked:
    """The question to ask, whoever asks for it.

    Args:
        definition: the study's.
        history: what happened in it.
        model: the history's own, where it is at hand.
        form: what somebody wants to be asked, instead of the study's usual; queue and duels wait meanwhile.
        leaving: the voter who wants it, whose open question will be withdrawn; a program is not asked all that waits.
    """
    if form is None and (queue := history.programs.may_take(leaving, history.queue)):
        number, queued = next(iter(queue.items()))
        origin: Origin = "queue" if queued.again is None else "again"
        return Asked(queued.a, queued.b, origin, number, question=queued.question, more=queued.more)
    if len(history.counted()) >= definition.first_pairs:
        return _from_model(definition, history, model or learn(definition, history), form, leaving)
    form = form or (definition.form if not definition.is_auto else _first_form(definition, history))
    return shown(definition, history, start.first(definition, history, form), form, "start")


def _first_form(definition: Definition, history: History) -> Form:
    """A gallery, where so many designs can be told apart; else a pair."""
    try:
        start.first(definition, history, definition.form)
    except InvalidValueError:
        return ONE_PAIR
    return definition.form


def _from_model(
    definition: Definition, history: History, model: StudyModel, form: Form | None, leaving: str | None
) -> Asked:
    own, model = model, with_open_questions(definition, history, model, leaving)
    seen = Seen(definition.space, history, model.state.allowed)
    origin: Origin = "settle" if history.settling and form is None else "model"
    wants_auto = definition.is_auto and form is None and origin == "model"
    form = _settled_by(history, seen, model) if origin == "settle" else form or definition.form
    state = _anchored(history, model)
    query = Query.SETTLING if origin == "settle" else state.method.query
    state = replace(state, method=replace(state.method, query=query, kind=form.kind, designs=form.designs))
    if wants_auto:
        forms = [one for one in question_kind.CANDIDATES if definition.can_ask(one)]
        form, chosen, _ = question_kind.most_promising(state, model.learnt, history, forms)
    else:
        chosen = (question_kind.quickly if many(history) else question_kind.usually)(state, model.learnt)
    question = chosen.question
    if origin == "settle" and model.state.points.shape[1] > len(model.options):
        question = _among_options(model, own, question)
    if form.kind is Kind.SLIDER:
        designs = _line(definition, history, model.state.allowed, question.points[0])
    else:
        designs = [_design(seen, model, question, side) for side in range(form.designs)]
        if origin == "settle" and form.designs > PAIR:
            designs = _gallery(seen, designs)
            form = replace(form, designs=len(designs)) if len(designs) > PAIR else ONE_PAIR
        unproven = unproven_best(own) if origin == "model" else None
        if unproven is not None and seen.allows(*(doubted := [history.options[number] for number in unproven])):
            designs = [*doubted, *designs][: form.designs]
        if not seen.allows(*designs):
            form, designs = (ONE_PAIR, designs[:PAIR]) if wants_auto else (form, designs)
            designs = _within(definition, seen, model, designs)
    memo = {"answers": len(history.counted())} | _memo(model, chosen)
    return shown(definition, history, designs, form, origin, memo)


def _settled_by(history: History, seen: Seen, model: StudyModel) -> Form:
    """The question that settles, about no more designs than there are to be shown again."""
    form, at_hand = history.settled_by, int(seen.is_open[model.options].sum())
    count = min(form.designs, at_hand)
    return replace(form, designs=count) if count > PAIR else ONE_PAIR


def _gallery(seen: Seen, designs: Sequence[Design]) -> list[Design]:
    """Those that can be told apart and may be shown, less the last ones where all of them met before."""
    kept = list(seen.distinct(seen.keeping(designs)))
    while len(kept) > PAIR and seen.has_met(kept):
        kept.pop()
    return kept if len(kept) > PAIR else list(designs[:PAIR])


def _among_options(model: StudyModel, own: StudyModel, question: Question) -> Question:
    """The design told and its likeliest betters, where some points of the model are no options."""
    told = torch.tensor([model.options.index(own.options[leading(own)])])
    fitted, count = model.learnt.corrected.posterior, question.known.shape[-1] - 1
    rivals = incumbent.challengers(
        fitted, told, model.state.comparisons, model.state.eligible, count=count, among=len(model.options)
    )
    return question._replace(known=torch.cat([told.unsqueeze(-1), rivals], -1))


def _design(seen: Seen, model: StudyModel, question: Question, side: int) -> Design:
    """One design of the model's question."""
    known = int(question.known[0, side])
    if known != NEW:
        return seen.history.options[model.options[known]]
    return seen.nearest(seen.space.decode(question.points[0, side].tolist()))[0]


def _line(definition: Definition, history: History, allowed: Allowed | None, corners: Tensor) -> list[Design]:
    """The designs of a line, or of another one where nobody could tell them apart or it was asked about before."""
    found, count, further = start.within(definition.space, allowed, corners), len(corners), len(history.asked)
    if found is not None and not _was_asked(history, found):
        return found
    return start.widened(
        lambda limits: start.first_line(definition, history, limits, count, further if found else 0), allowed
    )


def _was_asked(history: History, line: Sequence[Design]) -> bool:
    """Whether a slider went through these designs before: whoever skipped it is not asked about it again."""
    keys = {design_key(design) for design in line}
    sliders = (question for question, _ in history.asked.values() if question.kind == Kind.SLIDER.value)
    return any(keys == {design_key(design) for design in question.designs} for question in sliders)


def _anchored(history: History, model: StudyModel) -> State:
    """Connected querying holds on to the first design of the last pair that the model chose and somebody answered."""
    for one in reversed(history.counted()):
        memo = None if one.pair is None else history.asked[one.pair][1].memo
        if isinstance(memo, dict) and "first" in memo:
            shown = one.options[0 if memo["first"] == "a" else 1]
            return replace(model.state, anchor=torch.tensor([model.options.index(shown)]))
    return model.state


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


def shown(
    definition: Definition,
    history: History,
    designs: Sequence[Design],
    form: Form,
    origin: Origin,
    memo: dict[str, Any] | None = None,
    *,
    nth: int = 0,
) -> Asked:
    """The question with its designs in an order drawn by lot: what the model puts first is not always A.

    A line keeps its order, and may be turned.

    `nth` is how many others that rest on the same history come before it.
    """
    chance = stream(definition.seed, "sides", str(len(history.asked) + nth))
    is_line = form.kind is Kind.SLIDER
    count = len(designs) if form.designs > PAIR and not is_line else 1
    lots = uniform((count,), chance, torch.empty(0, dtype=torch.float64))
    if count > 1:
        a, b, *more = (designs[i] for i in lots.argsort(stable=True).tolist())
        return Asked(a, b, origin, history.number, memo, question=form.kind.value, more=more)
    swapped = bool(lots[0] < 0.5)  # noqa: PLR2004
    a, b, *more = reversed(designs) if swapped else designs
    if memo is not None and not is_line:
        memo = memo | {"first": "b" if swapped else "a"}
    return Asked(a, b, origin, history.number, memo, question=form.kind.value, more=more)


def _within(definition: Definition, seen: Seen, model: StudyModel, designs: Sequence[Design]) -> list[Design]:
    """The same from `_instead`, which predicted limits may leave too little."""
    space, history = seen.space, seen.history
    return start.widened(
        lambda allowed: _instead(
            definition, seen if allowed is seen.allowed else Seen(space, history, allowed), model, designs
        ),
        seen.allowed,
    )


def _instead(definition: Definition, seen: Seen, model: StudyModel, designs: Sequence[Design]) -> list[Design]:
    """What promises most among the designs at hand that make a question; if none does, the best that differ."""
    drawn = start.drawing(definition, seen.allowed)(0, POOL)
    pool = [*_leading(seen, model), *seen.keeping(designs), *drawn]
    if len(designs) == PAIR:
        return list(_other_pair(seen, model, pool))
    kept, count = list(seen.distinct(seen.keeping(designs))), len(designs)
    # One that was met as a whole gives up its last design, as long as there is another.
    kept = kept[: count - 1]
    candidates = list(seen.distinct([*pool, *seen.keeping(list(start.every(definition.space)))], kept))
    while len(kept) < count and candidates:
        ranked = _by_gain(definition.space, model, kept, candidates)
        fresh = (one for one in ranked if len(kept) < count - 1 or not seen.has_met([*kept, one]))
        kept.append(next(fresh, ranked[0]))
        candidates = list(seen.distinct(candidates, kept))
    return start.enough(kept, count, seen.allowed)


@torch.no_grad()
def _leading(seen: Seen, model: StudyModel) -> list[Design]:
    """The designs seen that may be shown and have the highest means, in the order in which they were seen."""
    numbers = torch.tensor(model.options)
    mean = model.surrogate.utility[: len(numbers)]
    mean, numbers = (part[seen.is_open[numbers]] for part in (mean, numbers))
    best = mean.topk(min(LONG_LIST, len(mean))).indices.sort().values
    return [seen.history.options[number] for number in numbers[best].tolist()]


@torch.no_grad()
def _by_gain(space: Space, model: StudyModel, kept: Sequence[Design], candidates: Sequence[Design]) -> list[Design]:
    """Candidates, the one that adds most to the best of those kept first."""
    fitted, first, *others = (model.learnt.corrected.posterior, *points.points(space, kept)[:, None, None].unbind(0))
    best = batch_eubo.of_one(fitted, first)
    for other in others:
        best = batch_eubo.joined(fitted, best, other)
    gain = batch_eubo.gain(fitted, best, points.points(space, candidates).unsqueeze(0)).squeeze(0)
    return [candidates[i] for i in gain.argsort(descending=True, stable=True).tolist()]


def _other_pair(seen: Seen, model: StudyModel, pool: Sequence[Design]) -> tuple[Design, Design]:
    """The pair with the largest EUBO among promising designs that makes a question; if none does, the best distinct."""
    space, fitted = seen.space, model.surrogate.latent
    designs = list({design_key(design): design for design in seen.nearest(*pool)}.values())
    X = points.points(space, designs)
    short = _promising(fitted, X)
    designs, X = [designs[i] for i in short], X[short]
    first, second = torch.combinations(torch.arange(len(X))).T
    apart = ((X[first] - X[second]).abs() > points.tolerance(space)).any(-1)
    first, second = first[apart], second[apart]
    order = _eubo(fitted, X, model.state.preset.eubo)[first, second].argsort(descending=True, stable=True)
    ranked = [(designs[i], designs[j]) for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True)]
    start.enough([*ranked[0]] if ranked else designs[:1], PAIR, seen.allowed)
    return next((one for one in ranked if seen.allows(*one)), ranked[0])


def _promising(fitted: Posterior, X: Tensor) -> list[int]:
    mean, variance = (part.squeeze(0) for part in posterior.marginal(fitted, X.unsqueeze(0)))
    found: list[int] = (mean + variance.sqrt()).topk(min(SHORTLIST, len(X))).indices.sort().values.tolist()
    return found


def _eubo(fitted: Posterior, X: Tensor, variant: Variant) -> Tensor:
    """EUBO of every point with every other: the points are few beside their pairs."""
    mean, covariance = (part.squeeze(0) for part in posterior.joint(fitted, X.unsqueeze(0)))
    own = covariance.diagonal()
    floor = eubo.VARIANCE_FLOOR[X.dtype] * float(posterior.variance(fitted))
    spread = (own.unsqueeze(-1) + own - 2.0 * covariance).clamp(min=floor).sqrt()
    gain = eubo.closed_form(mean.unsqueeze(-1) - mean, spread)
    return gain if variant == "improvement" else gain + mean
