"""Algorithm 1, line by line: `init`, `ask` and `tell` over a batch of runs, pure and in lockstep. [alg:adaptive_ks]

A person's study is a batch of one; the lab drives many. All runs of a batch have the same shapes, so nothing is padded.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kappasharp.acquisition.maximize import Proposal, Request
from kappasharp.algorithm import answers as algorithm_answers
from kappasharp.algorithm import checks, correction, question, voters
from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm.correction import Corrected
from kappasharp.algorithm.fit import Fit, Inferred, infer
from kappasharp.algorithm.question import NEW
from kappasharp.algorithm.state import Question, State
from kappasharp.correction import activation
from kappasharp.correction.activation import Gates
from kappasharp.errors import InvalidValueError
from kappasharp.inference import comparisons, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.kernels import stationary
from kappasharp.questions.kind import Kind
from kappasharp.randomness import stream
from kappasharp.settings import Gate, Method, Preset, Query, Rule, find_method, find_preset
from kappasharp.tensors import apply, released


class Info(NamedTuple):
    """What happened in one `ask`, run by run; nothing the next step needs.

    `leader` is the index of the design that is told to be best before the answer, `expected` the chance that the model
    gives to the question's first design against its second.
    """

    method: Method
    preset: Preset
    step: int
    strength: Tensor
    condition_before: Tensor
    condition_after: Tensor
    decisiveness: Tensor
    mean_decisiveness: Tensor
    active: Tensor
    n_components: Tensor
    lengthscale: Tensor
    outputscale: Tensor
    evidence: Tensor
    fit_converged: Tensor
    fit_rounds: Tensor
    fit_searched_on: Tensor
    map_converged: Tensor
    map_iterations: Tensor
    map_gradient: Tensor
    inference_converged: Tensor
    inference_rounds: Tensor
    leader: Tensor
    expected: Tensor
    acquisition: Tensor
    acquisition_converged: Tensor
    acquisition_rounds: Tensor
    calibration_fallbacks: Tensor
    status: tuple[str, ...]


def init(
    points: Any,
    comparisons: Any,
    *,
    method: str | Method = "baseline",
    preset: str | Preset = "modern",
    seeds: int | Sequence[int] = 0,
    ties: Any = None,
) -> State:
    """The state before the first question. Line 1: s̄₀ = 0.

    Args:
        points: Designs seen (runs, n, d) in the unit cube; one run may come without its leading dimension.
        comparisons: Answers (runs, m, 2) as indices into the points, winner first; [] for none.
        method: A name out of `METHODS`, or a `Method`: how questions are chosen.
        preset: A name out of `PRESETS`, or a `Preset`: priors, kernel, noise and the like.
        seeds: One number for all runs, or one for each: equal seeds draw equal numbers.
        ties: Which answers were ties (runs, m); then the preset needs a threshold above 0.
    """
    chosen_method, chosen_preset = find_method(method), find_preset(preset)
    X = checks.points(points)
    P = checks.pairs(comparisons, X)
    T = checks.ties(ties, P, chosen_preset.threshold)
    n, d = X.shape[-2:]
    X = X.reshape(-1, n, d).clone()  # the state is its own, whatever the caller does with the tensor
    P = P.reshape(len(X), P.shape[-2], 2)
    T = None if T is None else T.reshape(P.shape[:-1])
    if chosen_method.query is Query.BRIDGING and len(X) > 1:
        raise InvalidValueError(
            f"`points` must hold one run where `Method.query` is BRIDGING, but got {len(X)}: a run makes a design or "
            "two as it sees fit, and the runs of a batch must grow alike."
        )
    # Connected querying's first anchor: the winner of the last initial answer (the first point if there is none).
    anchor = P[:, -1, 0] if P.shape[1] else torch.zeros(len(X), dtype=torch.long, device=X.device)
    return State(
        chosen_method, chosen_preset, checks.seeds(seeds, len(X)), X, P, T, 0, X.new_zeros(len(X)), anchor
    )  # fmt: skip


def ask(state: State) -> tuple[Question, State, Info]:
    """The next question of every run: lines 3 to 14 of Algorithm 1 for t = step + 1.

    Returns the question, the state to `tell` its answer to, and what happened on the way, with every certificate.
    """
    checks.state(state)
    if state.asked:
        raise InvalidValueError(
            "`ask(state)` must not be given a state whose question is still open, but got the one that `ask` returned; "
            "`tell` the answer first, or ask the state before again: the question will be the same."
        )
    return released(question_from(state, learn(state)))


class Learnt(NamedTuple):
    """Lines 3 to 13: all that a step knows before it chooses its question."""

    fit: Fit
    inferred: Inferred
    decisiveness: Tensor
    mean_decisiveness: Tensor
    active: Tensor
    corrected: Corrected


@torch.no_grad()
def learn(state: State) -> Learnt:
    """Lines 3 to 13 of Algorithm 1 for t = step + 1: the model of all answers, corrected where the gate is open.

    Not in inference mode: a study keeps what is learnt, and would have to copy its matrices.
    """
    method, preset, lift = state.method, state.preset, state.lift
    model = algorithm_fit.model_of(preset, state.points.shape[-1], lift)
    t = state.step + 1
    # line 3
    answers = Answers(state.points, state.comparisons, state.ties, state.detail)
    if method.kind is Kind.RATING:
        model, answers = algorithm_fit.with_widths(preset, answers, state.theta, lift)
    z = _padded(state.z, state.comparisons)
    several = state.voters if method.tell_apart and algorithm_answers.are_several(state.voters) else None
    if several is None:
        fit = algorithm_fit.fit(
            model, answers, theta=state.theta, z=z, cold=preset.cold_fit, keep=state.keep, lift=lift
        )
    else:
        fit = voters.fit(
            model, answers, several, theta=state.theta, tastes=state.tastes, z=z, cold=preset.cold_fit, lift=lift
        )
    if method.use_seconds and state.seconds is not None:
        time = algorithm_answers.decision_times(state.seconds, fit.map.dual.z.abs(), state.voters)
        fit = _timed(model, answers, fit, time, several)
    inferred = infer(method.inference, model, fit, state.seeds, t)
    fit = fit._replace(posterior=inferred.posterior)
    # line 4
    gate = method.gate if state.gates is None else state.gates
    s_exp = decisiveness(model, fit, gate)
    # line 5
    s_bar = activation.moving_average(state.mean_decisiveness, s_exp, gate.ema_rate)
    # line 6
    active = activation.is_open(gate, t, s_bar)
    # lines 7 to 13
    validated = gate.rule is Rule.VALIDATED
    corrected = correction.correct(model, fit, method.correction, active, validated=validated)
    return Learnt(fit, inferred, s_exp, s_bar, corrected.active, corrected)


def _timed(model: Model, answers: Answers, fit: Fit, time: Tensor, several: Tensor | None) -> Fit:
    """The fit with decision times, where there are any; a run without keeps its own numbers."""
    if not bool(time.any()):
        return fit
    detail = answers.detail
    detail = comparisons.none_of(time.shape[:-1], time.shape[-1], answers.X) if detail is None else detail
    answers = answers._replace(detail=detail._replace(time=time))
    lift, z = fit.posterior.lift, fit.map.dual.z
    if several is not None and fit.people is not None:
        tastes = _tastes(fit)
        return voters.fit(model, answers, several, theta=fit.hyper.theta, tastes=tastes, z=z, cold=False, lift=lift)
    return algorithm_fit.fit(model, answers, theta=fit.hyper.theta, z=z, cold=False, lift=lift)


def _tastes(fit: Fit) -> Tensor | None:
    """logit ρ and every voter's log c, where people were told apart."""
    return None if fit.people is None else fit.people.hyper.theta[:, fit.people.alone.shape[1] :]


def seen_by(learnt: Learnt, voter: int | None = None) -> Learnt:
    """What a step knows as one voter sees it, or as what all share; the same where people are not told apart."""
    fit = voters.seen_by(learnt.fit, voter)
    if fit.people is None:
        return learnt
    inferred = learnt.inferred._replace(posterior=fit.posterior)
    corrected = learnt.corrected._replace(posterior=fit.posterior, map=fit.map)
    return learnt._replace(fit=fit, inferred=inferred, corrected=corrected)


@torch.inference_mode()
def question_from(state: State, learnt: Learnt) -> tuple[Question, State, Info]:
    """Line 14: the question, and what the next step needs of this one."""
    generators = [stream(seed, "acquisition restarts", str(state.step + 1)) for seed in state.seeds]
    box = None
    if state.box is not None:
        low, high = (end.to(state.points).expand(len(state.points), -1) for end in state.box)
        box = low, high
    chance = Request(generators, hints=state.hints, lattice=state.lattice, allowed=state.allowed, box=box)
    fitted = learnt.corrected.posterior
    if state.method.query is Query.SETTLING:
        told = leader(state, learnt)
        found = question.settle(fitted, told, state.comparisons, state.eligible, state.method.designs)
    else:
        found = question.question(state.method, state.preset, fitted, chance, state.anchor)
    proposal = found.proposal
    after = replace(
        state,
        mean_decisiveness=learnt.mean_decisiveness,
        theta=learnt.fit.hyper.theta,
        tastes=_tastes(learnt.fit),
        z=learnt.fit.map.dual.z,
        hints=proposal.pair.reshape(len(state.points), -1, state.points.shape[-1]),
        asked=True,
    )
    return Question(proposal.pair, found.known), after, _info(state, learnt, proposal)


def begin(
    runs: int,
    dimensions: int,
    *,
    method: str | Method = "baseline",
    preset: str | Preset = "modern",
    seeds: int | Sequence[int] = 0,
    device: str | torch.device = "cpu",
) -> State:
    """The state of runs that start from nothing: their first questions are the caller's own (`show`)."""
    chosen_method, chosen_preset = find_method(method), find_preset(preset)
    points = torch.empty(runs, 0, dimensions, dtype=torch.float64, device=device)
    nothing = torch.empty(runs, 0, 2, dtype=torch.long, device=device)
    anchor = torch.zeros(runs, dtype=torch.long, device=device)
    numbers = checks.seeds(seeds, runs)
    return State(
        chosen_method, chosen_preset, numbers, points, nothing, None, 0, points.new_zeros(runs), anchor
    )  # fmt: skip


def show(state: State, points: Tensor) -> tuple[Question, State]:
    """A question about designs (runs, q, d) of the caller's own, without a model; `tell` takes its answer."""
    return Question(points, torch.full(points.shape[:2], NEW, device=points.device)), replace(state, asked=True)


def tell(state: State, question: Question, answer: Any, seconds: Any = None, voter: int | None = None) -> State:
    """The state with the answers in it: line 15.

    Args:
        state: The state that `ask` returned with the question.
        question: That question.
        answer: For each run, or once for all, what its kind of question asks for. A pair: 0 or 1 for the better
            design, 2 for a tie. More designs: the number of the best. An order: their numbers, the best first, equals
            in a list, as [2, [0, 3], 1]; those that are not named come last. A list of lists alone is one for each
            run, so all equal in the only run is [[[0, 1, 2, 3]]]. A slider: a place in [0, 1] on the way from the
            first design to the last. A rating: −3 to 3, above 0 where the first is better.
        seconds: How long each run's answer took, or None; used where `Method.use_seconds` says so, of pairs alone.
        voter: Who answers, 0, 1, …, where there are several people.
    """
    checks.state(state)
    if not state.asked:
        raise InvalidValueError(
            "`tell(state, ...)` must be given the state that `ask` returned with the question, but got one without an "
            "open question: `question, state, info = ask(state)`, then `state = tell(state, question, answer)`."
        )
    wanted = (len(state.points), state.method.designs, state.points.shape[-1])
    if not isinstance(question, Question) or question.points.shape != wanted:
        raise InvalidValueError(f"`question` must be the one that came with the state, of {wanted} points.")
    checks.points(question.points, "question.points")
    said = algorithm_answers.told(state, question, answer)
    return replace(
        state,
        points=torch.cat([state.points, said.points], 1),
        comparisons=torch.cat([state.comparisons, said.pairs], 1),
        ties=algorithm_answers.joined_ties(state, said),
        detail=algorithm_answers.joined_detail(state, said),
        seconds=algorithm_answers.joined_seconds(state, said, seconds),
        voters=algorithm_answers.joined_voters(state, said, voter),
        step=state.step + 1,
        anchor=said.anchor,
        asked=False,
    )


def leader(state: State, learnt: Learnt) -> Tensor:
    """The index of the design told to be best in every run: the highest mean among those that won a comparison.

    Where some designs are not eligible, one that is comes first, though it may not have won.
    """
    fitted = learnt.corrected.posterior
    # What is believed before any answer has weights of its own, behind those of the designs.
    K, believes = learnt.fit.K, fitted.beta.shape[-1] > learnt.fit.K.shape[-1]
    mean = posterior.own_mean(fitted) if believes else apply(K, fitted.beta)
    has_won = won(state)
    # Where nothing has won yet, as after ties alone, all may lead.
    may_lead = has_won | ~has_won.any(-1, keepdim=True)
    if state.eligible is not None:
        for better in (state.eligible, state.eligible & has_won):
            may_lead = torch.where(better.any(-1, keepdim=True), better, may_lead)
    return mean.masked_fill(~may_lead, -torch.inf).argmax(-1)


def won(state: State) -> Tensor:
    """Which designs (runs, n) have won a comparison."""
    winners = state.comparisons[..., 0]
    counts = torch.zeros(state.points.shape[:2], dtype=torch.long, device=winners.device)
    clear = torch.ones_like(winners) if state.ties is None else (~state.ties).long()
    return counts.scatter_add(1, winners, clear) > 0


def _expected(preset: Preset, learnt: Learnt, pair: Tensor) -> Tensor:
    """The chance that a person prefers the first design to the second."""
    found = posterior.contrast(learnt.corrected.posterior, pair[:, :1], pair[:, 1:2])
    spread = (found.variance + learnt.fit.answer_variance(preset.noise)).sqrt()
    return torch.special.ndtr(found.mean / spread).squeeze(-1)


def decisiveness(model: Model, fit: Fit, gate: Gate | Gates) -> Tensor:
    """s_exp of the most recent comparison; 0 where there is none. [eq:sexp]"""
    if fit.C.pairs.shape[1] == 0:
        return fit.X.new_zeros(len(fit.X))
    own = fit.posterior.features
    pair = own.gather(1, fit.C.pairs[:, -1].unsqueeze(-1).expand(-1, -1, own.shape[-1]))
    contrast = posterior.contrast_of(fit.posterior, pair[:, :1], pair[:, 1:])
    noise = activation.noise_of(gate, model.likelihood.noise)
    p = activation.agreement(contrast.mean.squeeze(-1), contrast.variance.squeeze(-1), noise)
    return activation.decisiveness(p)


def _padded(z: Tensor | None, pairs: Tensor) -> Tensor | None:
    """The last MAP's differences, zero for the answers that came since."""
    if z is None:
        return None
    return torch.nn.functional.pad(z, (0, pairs.shape[1] - z.shape[1]))


def _info(state: State, learnt: Learnt, proposal: Proposal) -> Info:
    fit, inferred, s_exp, s_bar, active, corrected = learnt
    calibration, found = corrected.calibration, corrected.map.dual
    family, theta = fit.posterior.family, fit.hyper.theta
    return Info(
        method=state.method,
        preset=state.preset,
        step=state.step + 1,
        strength=torch.where(active, calibration.eta, 0.0),
        condition_before=calibration.kappa_before,
        condition_after=calibration.kappa_after,
        decisiveness=s_exp,
        mean_decisiveness=s_bar,
        active=active,
        n_components=comparisons.count_components(fit.C.pairs, fit.C.n_points),
        lengthscale=stationary.lengthscales(family, theta),
        outputscale=stationary.variance(family, theta),
        evidence=fit.hyper.value,
        fit_converged=fit.hyper.converged,
        fit_rounds=fit.hyper.rounds,
        fit_searched_on=fit.hyper.searched_on,
        map_converged=found.converged & fit.map.dual.converged,
        map_iterations=found.iterations,
        map_gradient=found.gradient_norm,
        inference_converged=inferred.converged,
        inference_rounds=inferred.rounds,
        leader=leader(state, learnt),
        expected=_expected(state.preset, learnt, proposal.pair),
        acquisition=proposal.value,
        acquisition_converged=proposal.converged,
        acquisition_rounds=proposal.rounds,
        calibration_fallbacks=calibration.fallbacks,
        status=correction.status(fit, corrected, inferred.converged, proposal.converged),
    )
