"""How good the best design is, how sure that is, what to do next, and why it is the best.

The chance of being the very best says nothing (near-duplicates share it, and pairs that nothing links leave it at the
prior's width), and the level of all utilities is informed by the prior alone. So both figures compare designs. What
comes out is in `results/best.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kappasharp.acquisition import composite
from kappasharp.acquisition.eubo import closed_form, sobol_normals
from kappasharp.algorithm import voters
from kappasharp.algorithm.fit import model_of
from kappasharp.algorithm.surrogate import Surrogate
from kappasharp.inference import comparisons, evidence, laplace, likelihood
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History
from kappasharp.messages.message import Sentence, counted, said
from kappasharp.model import feasibility, outcomes, points
from kappasharp.model import voters as model_voters
from kappasharp.model.fit import StudyModel, leading, learn, spread, unproven_best, why_not_told
from kappasharp.planning.next_question import DUELS
from kappasharp.planning.start import sobol
from kappasharp.questions.kind import ONE_PAIR, Form, Kind
from kappasharp.randomness import stream
from kappasharp.results.best import Advice, Best, Checkpoint, Figures, Meeting, Slice
from kappasharp.simulators import records
from kappasharp.space import space as space_space
from kappasharp.space.parameters import Categorical, Float, Int, Tuned, Value
from kappasharp.space.space import Design
from kappasharp.tensors import one_thread

# Designs drawn for "preferred to x %", and how many of a larger draw are looked at for the best there is.
RANDOM, POOL, PROMISING, SAMPLES = 256, 1024, 160, 256
# Of how many designs seen, those with the highest means, it is asked whether they may be better.
MOST_SEEN = 512
# On the diagonal of a covariance that is drawn from, in prior variances: it moves a draw by 1e-4 deviations.
DRAW_JITTER = 1e-8
# Closer than this in the cube is the design itself.
ITSELF = 1e-9
# Values of one parameter that a slice looks at, and the width of its band.
STEPS, DEVIATIONS = 41, 1.0
# The points that stand for the last few spaces.
_KEPT: dict[tuple[str, int, int], Tensor] = {}
MOST_KEPT = 8
# When the advice changes its mind.
ENOUGH_PREFERRED, ENOUGH_ROOM = 0.95, 0.1
LEAST_PREFERRED, LEAST_ANSWERS = 0.6, 3
# Of people who tune something, this many have a taste for each who tosses a coin; and what a coin prefers. Of three,
# consistent people would hear 7 points too little after ten answers. (docs/results/outcomes.md#certainty-with-hints)
TASTES, EVEN = 9.0, 0.5
# How much surer an answer is than the model says, on the scale of Φ⁻¹: the likeliest value for 56,000 answers of
# simulated people about generated problems (set 1), predicted before they came; on set 2 and the paper's problems it
# leaves 3 points in no tenth (docs/results/from-zero.md#reliability). For the default method and preset. Whether one
# design is preferred to another is such a chance too.
SHARPNESS = 1.575
FIGURES = "you would prefer this design to about {share:.0%} of all, and about {room_share:.0%} of the way up is left"
SETTLED = (
    "Settled among the designs that you have seen: this one was compared with those that might be better. Go on for "
    "new ones alone"
)
UNCLEAR = (
    "Not enough signal: after {answers} answers the best design is preferred to only {share:.0%} of all. Go on; if it "
    "stays so, the designs hardly differ to you, or the answers contradict each other (`diagnostics`)."
)
# Linking two groups comes first where this share of the room left lies in a design that is already there.
IN_A_RIVAL = 0.5


@one_thread()
def best(definition: Definition, history: History, model: StudyModel, place: int | None = None) -> Best:
    """The best design seen, by a model of all answers; or the one at that place, where another rule chose it."""
    chosen, place = place is not None, leading(model) if place is None else place
    option = model.options[place]
    found = figures(definition, model, place)
    space, at_all = definition.space, leading(model._replace(state=replace(model.state, eligible=None)))
    better = None if chosen or at_all == place else model.options[at_all]
    is_broken = better is not None and not space.outside(history.options[better])
    return Best(
        history.options[option],
        option,
        found.preferred,
        found.room,
        advise(history, model, place, found, definition.form),
        len(history.counted()),
        model.surrogate.status[0],
        records.values(definition, history, history.options[option]),
        outside=tuple(space.outside(history.options[option])),
        better_outside=None if is_broken else better,
        edges=tuple(space_space.edges(space, history.options[option])),
        breaks=tuple(feasibility.broken(definition, history, history.options[option])),
        better_breaking=better if is_broken else None,
    )


def figures(definition: Definition, model: StudyModel, place: int) -> Figures:
    """How the design at a place stands in the space, the chance that there is no taste behind the answers included."""
    X, surrogate = model.state.points[0, : len(model.options)], model.surrogate
    pool = _pool(definition, model)
    # The design itself is no rival: in a space of three it would take a third of the figure.
    others = pool[:RANDOM][(pool[:RANDOM] - X[place]).abs().amax(-1) > ITSELF]
    if not len(others):
        return Figures(1.0, 0.0, 0.0)
    ordinary = surrogate.contrast(X[place].expand_as(others), others)
    kept = ~feasibility.breaking(model.state.allowed, X)
    kept[place] = True
    gap = _gap(surrogate, X, place, pool, stream(definition.seed, "certainty").initial_seed() % 2**31, kept)
    chance = without_taste(model)
    preferred = (1.0 - chance) * float(_above(ordinary.mean, ordinary.variance).mean()) + chance * EVEN
    return Figures(preferred, max(float(ordinary.mean.mean()), 0.0), gap, chance)


@one_thread()
def beats_random(definition: Definition, model: StudyModel, places: Sequence[int]) -> list[float]:
    """The same share of designs, for several places by one look at the model."""
    X, pool = model.state.points[0, list(places)], _pool(definition, model)[:RANDOM]
    mean, cov = model.surrogate.posterior(torch.cat([X, pool]))
    count, chance = len(places), without_taste(model)
    variance = cov.diagonal()[:count, None] + cov.diagonal()[count:] - 2.0 * cov[:count, count:]
    above = _above(mean[:count, None] - mean[count:], variance)
    rivals = torch.cdist(X, pool, p=torch.inf) > ITSELF
    return [
        (1.0 - chance) * float(row[others].mean()) + chance * EVEN if bool(others.any()) else 1.0
        for row, others in zip(above, rivals, strict=True)
    ]


def recalibrated(chance: Tensor, sharpness: float = SHARPNESS) -> Tensor:
    """The chance of an answer as it turns out, Φ(c Φ⁻¹(p)), where the model says p: by itself it is too modest."""
    return torch.special.ndtr(sharpness * torch.special.ndtri(chance))


@one_thread()
def predicted(definition: Definition, model: StudyModel, a: Design, b: Design) -> float:
    """The chance that design a is preferred to design b in the next answer, recalibrated."""
    X = points.points(definition.space, [a, b])
    return float(recalibrated(model.surrogate.contrast(X[:1], X[1:]).preferred))


def without_taste(model: StudyModel) -> float:
    """The chance that every answer was a coin that was tossed: the evidence of that against the model's."""
    fit, state = model.learnt.fit, model.state
    chosen = model_of(state.preset, state.points.shape[-1], state.lift)
    with_taste = voters.log_evidence(chosen, fit)
    probit, nothing = chosen.likelihood, torch.zeros_like(fit.map.dual.z)
    if fit.C.detail is None:
        even = likelihood.log_probability(nothing, probit.margin, fit.ties).sum(-1)
    else:
        # What the comparisons of one answer share is no taste: their noise alone, K = 0.
        A = fit.C.detail.noise.to(nothing)
        dual = laplace.solve(A, probit.margin, nothing, fit.ties)
        root = likelihood.curvature(dual.z, probit.margin, fit.ties).omega.sqrt()
        even = evidence.value_at(probit, dual, laplace.factor(A, root), fit.ties)
    return float(torch.sigmoid(even - with_taste - math.log(TASTES)))


def _pool(definition: Definition, model: StudyModel) -> Tensor:
    """Designs that stand for the whole space: those that keep its limits, and no more than may be computed."""
    lift, allowed = model.state.lift, model.state.allowed
    budget = composite.budget(lift, allowed)
    count = min(POOL, max(budget, outcomes.SAMPLE)) if budget else POOL
    if allowed is None:
        return _drawn(definition, count)
    drawn = feasibility.AllowedSequence(definition, allowed)
    return points.points(definition.space, drawn.take(0, count // 2, search=False) or drawn.take(0, 1))


def _drawn(definition: Definition, count: int) -> Tensor:
    """The points of a study's first designs, to be read alone; kept, for they take longer than a fit."""
    space = definition.space
    key = (f"{space.parameters!r} {space.bounds!r}", definition.seed, count)
    # Kept between calls, so it must not be tied to the mode it happens to be made in.
    with torch.inference_mode(mode=False):
        found = _KEPT.pop(key, None)
        _KEPT[key] = found = points.points(space, sobol(definition, 0, count)) if found is None else found
    for old in list(_KEPT)[:-MOST_KEPT]:
        _KEPT.pop(old, None)
    return found


def _above(mean: Tensor, variance: Tensor) -> Tensor:
    """The chance that a difference of utilities is above 0, recalibrated as the chance of an answer is."""
    return torch.special.ndtr(SHARPNESS * mean / variance.clamp(min=torch.finfo(torch.float64).tiny).sqrt())


def _gap(surrogate: Surrogate, X: Tensor, place: int, pool: Tensor, seed: int, kept: Tensor | None = None) -> float:
    """E max f(x) − f(best) over promising designs, drawn jointly; of those seen (n,) the ones that break no limit."""
    # Of thousands that were seen the best by their means: the others' variances would take seconds.
    utility, seen = surrogate.utility[: len(X)], X
    if kept is not None:
        utility, seen = utility[kept], X[kept]
    seen = seen if len(seen) <= MOST_SEEN else seen[utility.topk(MOST_SEEN).indices]
    everything = torch.cat([X[place].unsqueeze(0), seen, pool])
    contrast = surrogate.contrast(everything, X[place].expand_as(everything))
    score = contrast.mean + 2.0 * contrast.variance.clamp(min=0.0).sqrt()
    chosen = everything[score[1:].topk(min(PROMISING, len(everything) - 1)).indices + 1]
    mean, cov = surrogate.posterior(torch.cat([X[place].unsqueeze(0), chosen]))
    # Contrasts with the best: the level that nothing informs cancels before anything is drawn.
    mean = mean[1:] - mean[0]
    cov = cov[1:, 1:] - cov[1:, :1] - cov[:1, 1:] + cov[0, 0]
    jitter = DRAW_JITTER * float(surrogate.outputscale) * torch.eye(len(chosen), dtype=torch.float64)
    L, info = torch.linalg.cholesky_ex(cov + jitter)
    if int(info):
        # So close to singular that rounding shows: the same draws through the eigenvectors.
        values, vectors = torch.linalg.eigh(cov)
        L = vectors * values.clamp(min=0.0).sqrt()
    draws = mean + sobol_normals(len(chosen), SAMPLES, seed, mean) @ L.mT
    return float(draws.amax(-1).clamp(min=0.0).mean())


def advise(history: History, model: StudyModel, place: int, found: Figures, form: Form = ONE_PAIR) -> Advice:
    """Go on, stop, or what stands in the way; `form` is what the study usually asks."""
    answers = len(history.counted())
    if answers < LEAST_ANSWERS or found.preferred < LEAST_PREFERRED:
        return no_signal(answers, found.preferred)
    figures = {"share": found.preferred, "room_share": found.room}
    unproven = unproven_best(model)
    if unproven is not None and frozenset(unproven) not in history.met():
        hope = "Go on: the model expects option {option} to be better still, but it has won no comparison yet. {next}"
        return Advice("go_on", said("advice.unproven", hope, option=unproven[0], next=_asked_next(form)))
    if found.preferred >= ENOUGH_PREFERRED and found.room <= ENOUGH_ROOM:
        stop = f"You could stop: {FIGURES}. {{settle}}"
        return Advice("could_stop", said("advice.stop", stop, **figures, settle=_to_settle(history)))
    # Lines are linked to each other by nothing but the model, and yet they say where to go.
    has_lines = model.state.points.shape[1] > len(model.options)
    rival = None if has_lines else _unlinked_rival(model, place, found.gap)
    if rival is not None:
        a, b = model.options[place], model.options[rival]
        link = (
            "Option {a} leads, but nothing links it to the group of option {b}, which may be better. One comparison of "
            "{a} with {b} would link the two groups."
        )
        return Advice("link_groups", said("advice.link", link, a=a, b=b), (a, b))
    if _is_settled(history):
        return Advice("go_on", said("advice.seen", f"{SETTLED}: {FIGURES}.", **figures))
    return Advice("go_on", said("advice.go", f"Go on: {FIGURES}.", **figures))


def _is_settled(history: History) -> bool:
    """Whether all questions that were to settle it were put, and the last answer that counts is to one of them."""
    pair = next((one.pair for one in reversed(history.counted())), None)
    is_last = pair is not None and history.asked[pair][1].origin == "settle" and pair > history.settled_at
    waiting = (history.asked[number][1].origin == "settle" for number in history.open.values())
    return is_last and not history.settling and not any(waiting)


def _asked_next(form: Form) -> str:
    # A line need not pass through a design that was seen.
    asks = said("advice.pair", "The next pair asks about it.")
    if not form.is_pair:
        asks = said("advice.question", "The next question asks about it.")
    return "" if form.kind is Kind.SLIDER else asks


def _to_settle(history: History) -> Sentence:
    if history.settling:
        settling = "It is being settled: {} about designs that you have seen.".format
        one, more = settling("one more question"), settling("{count} more questions")
        return counted("advice.settling", one, more, history.settling)
    answered = {one.pair for one in history.counted()}
    if any(number in answered and event.origin == "settle" for number, (_, event) in history.asked.items()):
        return said("advice.settled", "It was settled: you have compared it with what might have been better.")
    return said("advice.duels", "{duels} duels with the designs that might be better would settle it.", duels=DUELS)


def no_signal(answers: int, preferred: float = 0.0) -> Advice:
    """The advice after so few answers, or such unclear ones, that the figures say nothing."""
    if not answers:
        words = said("advice.none", "Not enough signal yet: there are no answers of theirs. Go on.")
    elif answers < LEAST_ANSWERS:
        little = "Not enough signal yet: {} next to nothing. Go on.".format
        words = counted("advice.little", little("one answer says"), little("{count} answers say"), answers)
    else:
        words = said("advice.unclear", UNCLEAR, answers=answers, share=preferred)
    return Advice("not_enough_signal", words)


def _unlinked_rival(model: StudyModel, place: int, gap: float) -> int | None:
    """The place of a design in another group that holds most of what there is to gain."""
    label, broken = (
        groups(model),
        feasibility.breaking(model.state.allowed, model.state.points[0, : len(model.options)]),
    )
    others = [i for i, one in enumerate(label) if one != label[place] and not bool(broken[i])]
    if not others or gap <= 0.0:
        return None
    X = model.state.points[0]
    contrast = model.surrogate.contrast(X[others], X[place].expand(len(others), -1))
    spread = contrast.variance.clamp(min=torch.finfo(X.dtype).tiny).sqrt()
    gain, which = closed_form(contrast.mean, spread).max(-1)
    return others[int(which)] if float(gain) >= IN_A_RIVAL * gap else None


def groups(model: StudyModel) -> list[int]:
    """The connected group of every option's place: designs that answers link, directly or through others."""
    state = model.state
    labels: list[int] = comparisons.components(state.comparisons, state.points.shape[1])[0].tolist()
    return labels[: len(model.options)]


def slices(definition: Definition, model: StudyModel, design: Design) -> list[Slice]:
    """One for each tuned parameter, on contrasts: at the design itself everything is zero."""
    return [_slice(definition, model, design, name) for name in definition.space.tuned]


def along(part: Tuned, here: Value, steps: int = STEPS) -> list[Value]:
    """Values of a parameter from end to end; a long list of choices is thinned, but keeps the one that is here."""
    if part.values is not None and len(part.values) <= steps:
        return list(part.values)
    drawn = [part.draw(i / (steps - 1)) for i in range(steps)]
    return drawn if isinstance(part, Float | Int) or here in drawn else [here, *drawn]


def _slice(definition: Definition, model: StudyModel, design: Design, name: str) -> Slice:
    space, part = definition.space, definition.space.tuned[name]
    values = along(part, design[name])
    X = points.points(space, [design | {name: value} for value in values])
    here = points.points(space, [design]).expand_as(X)
    found = model.surrogate.contrast(X, here)
    band = DEVIATIONS * found.variance.clamp(min=0.0).sqrt()
    low, high = found.mean - band, found.mean + band
    ordered = not isinstance(part, Categorical)
    return Slice(name, design[name], values, found.mean.tolist(), low.tolist(), high.tolist(), ordered)


# The model is fitted again at this many points of the past, no more: certainty over time costs a fit each.
CHECKPOINTS = 16


def course(definition: Definition, history: History) -> list[Checkpoint]:
    """The certainty after up to CHECKPOINTS numbers of answers, from the answers as they stand now."""
    given, found = history.counted(), []
    for answers in spread(len(given), CHECKPOINTS):
        until = _until(history, given[answers - 1].event)
        model = model_voters.of_all(until, learn(definition, until))
        sure = figures(definition, model, leading(model))
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
    chance = predicted(definition, model, history.options[option], history.options[rival])
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
