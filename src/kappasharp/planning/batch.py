"""Many pairs from one fit, for many voters who answer faster than anybody could fit: each as if those before were open.

The first is the one that a single voter would be asked. The others are chosen among promising designs at hand: the pair
with the largest EUBO, again and again, where every choice takes away what its answer would tell.

Notation
    mean  (p,)    posterior mean at the promising designs
    cov   (p, p)  their posterior covariance, less what the pairs chosen so far would tell
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kappasharp import tensors
from kappasharp.acquisition import eubo
from kappasharp.algorithm.fit import model_of
from kappasharp.inference import likelihood, posterior
from kappasharp.inference.posterior import Posterior
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Asked, Stored
from kappasharp.journal.history import History, design_key
from kappasharp.model import open_questions, points
from kappasharp.model.fit import StudyModel
from kappasharp.planning import next_question, start
from kappasharp.planning.candidates import Seen
from kappasharp.randomness import stream
from kappasharp.space.space import Design

# Designs seen with the highest means, those about the first few of them, and those drawn: what is looked at. And how
# many of all these are paired with one another.
SEEN, ABOUT, NEIGHBOURS, DRAWN, SHORTLIST = 48, 8, 12, 192, 128
# First pairs at a time: each looks at all before it.
MOST_FIRST = 64
# How far neighbours lie, as a share of the cube's sides.
NEAR = 0.15
# No design is in more pairs than this many times the average: EUBO alone would pair the best with every other first,
# long after that tells anything.
OFTEN, LEAST = 1.5, 3


@tensors.one_thread()
def pairs(definition: Definition, history: History, model: StudyModel | None, count: int) -> list[Asked]:
    """So many pairs, or as many as there are; nothing where somebody wished for other questions first.

    `model` is the history's own, or None while the first pairs are asked. The history is moved on by the latter.
    """
    if history.queue or history.settling:
        return []
    if model is None:
        return _first(definition, history, count)
    first = next_question.next_question(definition, history, model)
    return [first, *_others(definition, history, model, first, count - 1)]


def _first(definition: Definition, history: History, count: int) -> list[Asked]:
    found, number = [], history.number
    for nth in range(min(count, MOST_FIRST)):
        asked = next_question.next_question(definition, history)
        history.apply(Stored(history.number + 1, f"{nth}", "", asked))
        found.append(replace(asked, after=number))
    return found


@torch.no_grad()
def _others(definition: Definition, history: History, model: StudyModel, first: Asked, count: int) -> list[Asked]:
    own, model = model, open_questions.with_open_questions(definition, history, model)
    seen = Seen(definition.space, history, model.state.allowed)
    fitted = model.learnt.corrected.posterior
    designs = _promising(definition, seen, fitted, own, first.designs)
    chosen = _chosen(definition, seen, model, fitted, designs, count)
    assert first.memo is not None
    memo = {name: value for name, value in first.memo.items() if name != "first"}
    return [
        next_question.shown(
            definition, history, [designs[i], designs[j]], definition.form, "model", memo | {"acquisition": gain},
            nth=nth + 1,
        )
        for nth, (i, j, gain) in enumerate(chosen)
    ]  # fmt: skip


def _promising(
    definition: Definition, seen: Seen, fitted: Posterior, own: StudyModel, first: Sequence[Design]
) -> list[Design]:
    """Designs to be paired with one another, which can be told apart; those of the first question before all."""
    history, space = seen.history, definition.space
    best = own.surrogate.utility[: len(own.options)].topk(min(SEEN, len(own.options))).indices.tolist()
    known = [history.options[own.options[place]] for place in best]
    chance = stream(definition.seed, "neighbours", str(history.number))
    about = points.points(space, known[:ABOUT]).repeat(NEIGHBOURS, 1)
    moved = (about + NEAR * torch.randn(about.shape, generator=chance, dtype=about.dtype)).clamp(0.0, 1.0)
    drawn = start.drawing(definition, seen.allowed)(2 * len(history.asked), DRAWN)
    pool = seen.keeping([*known, *space.decode_all(moved.tolist()), *drawn])
    pool = list({design_key(one): one for one in seen.nearest(*first, *pool)}.values())
    X = points.points(space, pool)
    mean, variance = (part.squeeze(0) for part in posterior.marginal(fitted, X.unsqueeze(0)))
    order = (mean + variance.sqrt()).argsort(descending=True, stable=True).tolist()
    kept: list[int] = []
    for place in [0, 1, *order]:
        if len(kept) < SHORTLIST and not bool(((X[kept] - X[place]).abs() <= points.tolerance(space)).all(-1).any()):
            kept.append(place)
    return [pool[place] for place in kept]


def _chosen(
    definition: Definition, seen: Seen, model: StudyModel, fitted: Posterior, designs: list[Design], count: int
) -> list[tuple[int, int, float]]:
    """Pairs by their places among the designs and what each promises, one after the other; not the first two."""
    mean, cov = (
        part.squeeze(0) for part in posterior.joint(fitted, points.points(definition.space, designs).unsqueeze(0))
    )
    preset = model.state.preset
    fit = model_of(preset, definition.space.dimensions, model.state.lift)
    first, second = torch.combinations(torch.arange(len(designs))).T
    higher = mean[first] >= mean[second]
    first, second = torch.where(higher, first, second), torch.where(higher, second, first)
    delta, floor = mean[first] - mean[second], eubo.VARIANCE_FLOOR[cov.dtype] * float(posterior.variance(fitted))
    scale = fit.likelihood.scale
    # What an answer as the model expects it would weigh.
    weight = likelihood.curvature(delta / scale, fit.likelihood.margin).omega / scale**2
    level = 0.0 if preset.eubo == "improvement" else mean[second]
    is_left = torch.tensor(
        [not seen.has_met([designs[i], designs[j]]) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    )
    found, uses = [], torch.zeros(len(designs))
    most = max(math.ceil(OFTEN * 2 * count / len(designs)), LEAST)
    place = int(((first + second) == 1).nonzero()[0])
    for nth in range(count + 1):
        spread = (cov[first, first] + cov[second, second] - 2.0 * cov[first, second]).clamp(min=floor)
        if nth:
            gain = (eubo.closed_form(delta, spread.sqrt()) + level).masked_fill(~is_left, -torch.inf)
            place = int(gain.argmax())
            if not bool(is_left[place]):
                break
            found.append((int(first[place]), int(second[place]), float(gain[place])))
        is_left[place] = False
        uses[first[place]] += 1
        uses[second[place]] += 1
        is_left &= (uses[first] < most) & (uses[second] < most)
        cov = _told(cov, int(first[place]), int(second[place]), float(weight[place]))
    return found


def _told(cov: Tensor, i: int, j: int, weight: float) -> Tensor:
    """The covariance once the difference of two designs was judged with that weight."""
    c = cov[i] - cov[j]
    return cov - torch.outer(c, c) * (weight / (1.0 + weight * float(c[i] - c[j])))
