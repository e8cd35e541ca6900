"""How good the best design is, and how sure that is: two figures on contrasts, and advice in words.

The chance of being the very best says nothing (near-duplicates share it, and pairs that nothing links leave it at the
prior's width), and the level of all utilities is informed by the prior alone. So both figures compare designs.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition.eubo import sobol_normals
from kappasharp.core import comparisons
from kappasharp.methods.fitted import Surrogate
from kappasharp.streams import stream
from kappasharp.study.definition import Definition
from kappasharp.study.history import History
from kappasharp.study.questions import Model, sobol
from kappasharp.study.space import Design

What = Literal["go_on", "could_stop", "not_enough_signal", "link_groups"]
# Designs drawn from the space for "preferred to x %", and how many of a larger draw are looked at for the best there is.
RANDOM, POOL, PROMISING, SAMPLES = 256, 1024, 160, 256
# On the diagonal of a covariance that is drawn from, in units of the prior variance: it moves a draw by 1e-4 deviations.
DRAW_JITTER = 1e-8
# When the advice changes its mind.
ENOUGH_PREFERRED, ENOUGH_ROOM = 0.95, 0.05
LEAST_PREFERRED, LEAST_ANSWERS = 0.6, 3
UNDECIDED = 0.75


@dataclass(frozen=True)
class Advice:
    """What to do next: one word, the sentence, and the two options that would link two groups."""

    what: What
    sentence: str
    link: tuple[int, int] | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Best:
    """The design seen that the model believes to be best; `option` is its number.

    `beats_random` is the share of the space's designs that it is preferred to, `room_left` how much of the way from an
    ordinary design to the best there is lies still ahead; both are what the model expects. `status` is its certificate.
    """

    params: Design
    option: int
    beats_random: float
    room_left: float
    advice: Advice
    n_comparisons: int
    status: str


def best(definition: Definition, history: History, model: Model) -> Best:
    """The best design seen, by the model of all answers."""
    utility = model.surrogate.utility
    place = int(utility.argmax())
    option = model.options[place]
    X = model.state.points[0]
    preferred, room = _figures(definition, model.surrogate, X, place)
    counted = len(history.counted())
    return Best(
        history.options[option],
        option,
        preferred,
        room,
        advise(model, place, preferred=preferred, room=room, answers=counted),
        counted,
        model.surrogate.status[0],
    )


def _figures(definition: Definition, surrogate: Surrogate, X: Tensor, place: int) -> tuple[float, float]:
    """The share of designs the best is preferred to, and the room left above it."""
    pool = torch.tensor([definition.space.encode(d) for d in sobol(definition, 0, POOL)], dtype=torch.float64)
    ordinary = surrogate.contrast(X[place].expand(RANDOM, -1), pool[:RANDOM])
    deviation = ordinary.variance.clamp(min=torch.finfo(torch.float64).tiny).sqrt()
    preferred = float(torch.special.ndtr(ordinary.mean / deviation).mean())
    gap = _gap(surrogate, X, place, pool, stream(definition.seed, "certainty").initial_seed() % 2**31)
    ahead = max(float(ordinary.mean.mean()), 0.0)
    room = gap / (gap + ahead) if gap + ahead > 0.0 else 1.0
    return preferred, room


def _gap(surrogate: Surrogate, X: Tensor, place: int, pool: Tensor, seed: int) -> float:
    """E max f(x) − f(best) over promising designs, drawn jointly."""
    everything = torch.cat([X[place].unsqueeze(0), X, pool])
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


class _Rival(NamedTuple):
    place: int
    preferred: float


def advise(model: Model, place: int, *, preferred: float, room: float, answers: int) -> Advice:
    """Go on, stop, or what stands in the way."""
    if answers < LEAST_ANSWERS or preferred < LEAST_PREFERRED:
        return Advice("not_enough_signal", _no_signal(answers, preferred))
    rival = _unlinked_rival(model, place)
    if rival is not None and room < 2 * ENOUGH_ROOM:
        pair = (model.options[place], model.options[rival.place])
        return Advice(
            "link_groups",
            f"Option {pair[0]} leads, but it was never compared, not even through others, with the group of option "
            f"{pair[1]}, which may be as good ({1 - rival.preferred:.0%}). One comparison of {pair[0]} with {pair[1]} "
            "would link the two groups.",
            pair,
        )
    if preferred >= ENOUGH_PREFERRED and room <= ENOUGH_ROOM:
        return Advice(
            "could_stop",
            f"You could stop: you would prefer this design to about {preferred:.0%} of all, and about {room:.0%} of "
            "the way up is left.",
        )
    return Advice(
        "go_on",
        f"Go on: you would prefer this design to about {preferred:.0%} of all, but about {room:.0%} of the way up is "
        "left.",
    )


def _no_signal(answers: int, preferred: float) -> str:
    if answers < LEAST_ANSWERS:
        return f"Not enough signal yet: {answers} answers say next to nothing. Go on."
    return (
        f"Not enough signal: after {answers} answers the best design is preferred to only {preferred:.0%} of all. Either "
        "the designs hardly differ to you, or the answers contradict each other; `diagnostics()` shows which."
    )


def _unlinked_rival(model: Model, place: int) -> _Rival | None:
    """The strongest design of another group that the best one does not clearly beat."""
    label = groups(model)
    X = model.state.points[0]
    others = [i for i in range(len(X)) if label[i] != label[place]]
    if not others:
        return None
    rival = max(others, key=lambda i: float(model.surrogate.utility[i]))
    sure = model.surrogate.contrast(X[place : place + 1], X[rival : rival + 1])
    share = float(torch.special.ndtr(sure.mean / sure.variance.clamp(min=torch.finfo(X.dtype).tiny).sqrt()))
    return _Rival(rival, share) if share < UNDECIDED else None


def groups(model: Model) -> list[int]:
    """The connected group of every place: designs that answers link, directly or through others."""
    state = model.state
    labels: list[int] = comparisons.components(state.comparisons, state.points.shape[1])[0].tolist()
    return labels
