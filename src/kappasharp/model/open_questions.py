"""The model as if open questions had been answered as it expects itself, so that two voters are not asked the same.

Open pairs move the posterior alone; where other kinds are open the imagined answers join the real ones.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kappasharp.acquisition import line
from kappasharp.algorithm import correction
from kappasharp.algorithm.fit import infer, model_of, refit
from kappasharp.algorithm.loop import Learnt
from kappasharp.algorithm.state import State
from kappasharp.algorithm.surrogate import surrogate_of
from kappasharp.inference import comparison_space, comparisons, features, laplace, likelihood, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.posterior import Posterior
from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History
from kappasharp.journal.question import StudyQuestion
from kappasharp.kernels import stationary
from kappasharp.model import points
from kappasharp.model.fit import Part, StudyModel, assembled, eligible, part_of, seen_by
from kappasharp.questions import kind
from kappasharp.questions.comparisons import best_of, order_of
from kappasharp.questions.kind import Kind
from kappasharp.space.space import Space
from kappasharp.tensors import apply, released

# Places of a line among which the model looks for the one where it expects an open slider to be left.
PLACES = 21


def with_open_questions(
    definition: Definition, history: History, model: StudyModel, leaving: str | None = None
) -> StudyModel:
    """The model as if open questions had been answered the way it expects, so that two voters are not asked the same.

    Args:
        definition: the study's.
        history: the one that the model was learnt from.
        model: its own.
        leaving: a voter whose open question is about to be withdrawn; of people told apart, as whom all is seen.
    """
    waiting = [history.asked[number][0] for voter, number in history.open.items() if voter != leaving]
    model, are_pairs = seen_by(history, model, leaving), _all_pairs(model, waiting)
    # Of people told apart nothing is imagined but answers to pairs; `questions` does not put the same to two anyhow.
    if not waiting or (model.learnt.fit.people is not None and not are_pairs):
        return model
    if are_pairs:
        return _with_open_pairs(definition, history, model, waiting)
    parts = [part_of(definition.space, history, one) for one in history.counted()]
    found = assembled(
        definition, history, parts + [_expected(definition.space, history, model, one) for one in waiting]
    )
    X, pairs, ties, detail = found.answers
    anchor = torch.tensor([found.options.index(model.options[int(model.state.anchor)])])
    ties = ties if isinstance(ties, Tensor) else None
    state = replace(model.state, points=X, comparisons=pairs, ties=ties, detail=detail, anchor=anchor)
    state = replace(state, eligible=eligible(definition.space, state.allowed, X, len(found.options)))
    learnt = released(_imagined(state, model.learnt))
    return StudyModel(found.options, state, learnt, surrogate_of(state, learnt))


def _all_pairs(model: StudyModel, waiting: Sequence[StudyQuestion]) -> bool:
    return model.state.detail is None and all(one.form.is_pair for one in waiting)


def _with_open_pairs(
    definition: Definition, history: History, model: StudyModel, waiting: Sequence[StudyQuestion]
) -> StudyModel:
    """The same where all is about pairs: the posterior of the real answers is the prior of the imagined ones."""
    numbers = [history.numbers(one) for one in waiting]
    fresh = sorted({number for pair in numbers for number in pair}.difference(model.options))
    options = model.options + fresh
    place = {number: i for i, number in enumerate(options)}
    X = torch.cat(
        [model.state.points, points.points(definition.space, [history.options[n] for n in fresh]).unsqueeze(0)], 1
    )
    sides = torch.tensor([[place[number] for number in pair] for pair in numbers])
    mean = posterior.mean(model.surrogate.latent, X[:, sides.flatten()]).reshape(sides.shape)
    believed = sides.gather(1, mean.argsort(dim=1, descending=True, stable=True)).unsqueeze(0)
    state = model.state
    ties = None if state.ties is None else torch.nn.functional.pad(state.ties, (0, len(waiting)))
    state = replace(state, points=X, comparisons=torch.cat([state.comparisons, believed], 1), ties=ties)
    state = replace(state, eligible=eligible(definition.space, state.allowed, X, len(options)))
    learnt = released(_imagined_pairs(state, model.learnt, believed))
    return StudyModel(options, state, learnt, surrogate_of(state, learnt))


@torch.inference_mode()
def _imagined_pairs(state: State, real: Learnt, believed: Tensor) -> Learnt:
    """As `_imagined`, for pairs, with matrices over the open ones alone."""
    model, X = model_of(state.preset, state.points.shape[-1], state.lift), state.points
    found = answered(model, real.corrected.posterior, X, believed)
    C = comparisons.incidence(state.comparisons, X.shape[1])
    K = stationary.covariance(model.family, found.features[:, : X.shape[1]], found.theta, model.nugget)
    fit = real.fit._replace(X=X, C=C, ties=state.ties, K=K, posterior=found, gram=None)
    return real._replace(fit=fit, corrected=real.corrected._replace(posterior=found))


def _expected(space: Space, history: History, model: StudyModel, question: StudyQuestion) -> Part:
    """The answer that the model expects: designs in the order of their means, a slider left where it is highest."""
    latent, form = model.surrogate.latent, question.form
    if form.kind is Kind.SLIDER:
        ends, places = points.points(space, question.designs), torch.linspace(0.0, 1.0, PLACES, dtype=torch.float64)
        place = places[int(posterior.mean(latent, line.at(ends, places, points.lattice(space)).unsqueeze(0)).argmax())]
        chosen = torch.cat([place.unsqueeze(0), comparisons.other_places(place, form.designs)])
        return Part(kind.said(form, float(place)), (), line.at(ends, chosen, points.lattice(space)))
    X = points.points(space, question.designs).unsqueeze(0)
    order = posterior.mean(latent, X).squeeze(0).argsort(descending=True, stable=True).tolist()
    if form.kind is Kind.CHOICE:
        return Part(best_of(form.designs, order[0]), history.numbers(question))
    return Part(order_of(form.designs, order), history.numbers(question))


@torch.inference_mode()
def _imagined(state: State, real: Learnt) -> Learnt:
    """What a step knows once answers are added that nobody gave: only the utilities follow them.

    They are the model's own expectations, so they say nothing of its hyperparameters nor of whether the correction
    should act: both stay as the real answers have them, and no search is made.
    """
    method, model = state.method, model_of(state.preset, state.points.shape[-1], state.lift)
    answers = Answers(state.points, state.comparisons, state.ties, state.detail)
    fit = refit(model, answers, real.fit.hyper, real.fit.map.dual.z, state.lift)
    inferred = infer(method.inference, model, fit, state.seeds, state.step + 1)
    fit = fit._replace(posterior=inferred.posterior)
    corrected = correction.correct(model, fit, method.correction, real.active)
    return real._replace(fit=fit, inferred=inferred, corrected=corrected)


# Answers that nobody gave: the posterior as if open pairs had been answered the way it expects itself.
#
# Notation
#     X      (1, n, d)  the points of the posterior, and after them those that only open pairs hold
#     G      (1, n, k)  the posterior covariance of f(x) with the open pairs' differences is k(x, X) G
#     A      (1, k, k)  the posterior covariance of those differences, standardised by σ√2
#     u      (1, k)     how far they move: with their old means z₀ the new ones are z₀ + u, and u = A α
#
# The posterior of the real answers is the prior of the imagined ones, so that nothing is solved for again that the real
# ones decided: with k pairs open the matrices are k × k, however many answers there are.


def answered(model: Model, fitted: Posterior, X: Tensor, pairs: Tensor) -> Posterior:
    """The posterior with these wins (1, k, 2) in it, indices into X, which begins with the posterior's own points."""
    wider = _with_points(fitted, X)
    beta, root = wider.beta, wider.root
    scale, margin = model.likelihood.scale, model.likelihood.margin
    C = comparisons.incidence(pairs, beta.shape[1])
    ends, at = pairs.flatten().unique(return_inverse=True)
    near = posterior.cross(wider, X[:, ends])
    sides = at.reshape(-1, 2)
    apart = near[:, sides[:, 0]] - near[:, sides[:, 1]]
    G = comparisons.transpose_rows(C, torch.eye(C.pairs.shape[1], dtype=X.dtype).unsqueeze(0))
    G = G - root @ (apart @ root).mT
    gram = apart @ G
    gram = 0.5 * (gram + gram.mT)
    A = gram / scale**2
    alpha, z = _solve(A, apply(apart, beta) / scale, margin)
    omega = likelihood.curvature(z, margin).omega
    if model.curvature == "averaged":
        omega = comparison_space.averaged_omega(A, z, margin)
    weight = (omega / scale**2).sqrt()
    L = laplace.factor(gram, weight)
    half = torch.linalg.solve_triangular(L, weight.unsqueeze(-1) * G.mT, upper=False)
    return wider._replace(beta=beta + apply(G, alpha) / scale, root=torch.cat([root, half.mT], -1))


def _with_points(fitted: Posterior, X: Tensor) -> Posterior:
    """The same posterior with points that say nothing behind its own designs."""
    n, fresh = fitted.X.shape[1], X[:, fitted.X.shape[1] :]
    nothing = fitted.root.new_zeros(1, fresh.shape[1], fitted.root.shape[-1])
    return fitted._replace(
        X=X,
        beta=torch.cat([fitted.beta[:, :n], fitted.beta.new_zeros(1, fresh.shape[1]), fitted.beta[:, n:]], 1),
        root=torch.cat([fitted.root[:, :n], nothing, fitted.root[:, n:]], 1),
        lifted=None
        if fitted.lift is None
        else torch.cat([fitted.features[:, :n], features.lifted(fitted.lift, fresh), fitted.features[:, n:]], 1),
    )


def _solve(A: Tensor, before: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """α and the differences at the MAP, by Newton steps from the differences before.

    A win's slope is convex in the difference, so the steps come from one side and need no damping.
    """
    u = torch.zeros_like(before)
    for _ in range(laplace.PLAIN_ITERATIONS):
        alpha = laplace.newton_target(A, u, likelihood.sites(before + u, margin))
        u = apply(A, alpha)
        if bool((alpha - likelihood.sites(before + u, margin).slope).abs().amax() <= laplace.tolerance(A.dtype)):
            break
    return alpha, before + u
