"""Algorithm 1 as init, ask and tell: pure, deterministic, the same in a batch as alone. [alg:adaptive_ks]"""

from dataclasses import replace

import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import eubo, incumbent
from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.algorithm import correction, fit, loop
from kappasharp.algorithm.question import NEW
from kappasharp.correction import activation, spectral
from kappasharp.errors import InvalidValueError
from kappasharp.inference import comparisons, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.questions.comparisons import beside
from kappasharp.questions.kind import Kind
from kappasharp.settings import Gate, Rule
from kappasharp.tensors import released


def utility(points):
    return -(points - 0.35).square().sum(-1)


def start(runs, method, preset="modern", d=2):
    X = torch.rand(runs, 6, d, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    values = utility(X)
    pairs = [[[i, j] if v[i] > v[j] else [j, i] for i in range(6) for j in range(i)] for v in values]
    return ks.init(X, torch.tensor(pairs), method=method, preset=preset, seeds=range(runs))


def drive(state, steps):
    infos = []
    for _ in range(steps):
        question, state, info = ks.ask(state)
        state = ks.tell(state, question, answer(state.method.kind, question.points))
        infos.append(info)
    return state, infos


def answer(kind, points):
    """What a person with this utility answers to a question of that kind."""
    felt = utility(points)
    if kind is Kind.ORDER:
        return felt.argsort(-1, descending=True)
    return (felt[:, 1] > felt[:, 0]).double() if kind is Kind.SLIDER else felt.argmax(-1)


def one(state, run):
    part = {
        name: getattr(state, name)[run : run + 1] for name in ("points", "comparisons", "mean_decisiveness", "anchor")
    }
    return replace(state, seeds=state.seeds[run : run + 1], **part)


@pytest.mark.parametrize("method", ks.METHODS)
def test_every_method_of_the_registry_runs_certified(method):
    steps = 4 if method == "gibbs_ei" else 8  # static corrections begin with the eighth
    # With seed 0 the sixth question's ascent goes 80 to 200 rounds along a ridge, by the last digits of the posterior.
    seeds = (2,) if method == "bridging" else (2, 3)
    state, infos = drive(replace(start(len(seeds), method, "paper"), seeds=seeds), steps)
    assert all(set(info.status) == {"ok"} for info in infos)
    assert all(bool(info.map_converged.all()) for info in infos)
    corrected = ks.METHODS[method].gate.rule is Rule.ALWAYS and ks.METHODS[method].gate.first_step <= steps
    if ks.METHODS[method].gate.rule is not Rule.VALIDATED:
        assert bool(infos[-1].active.all()) is corrected
        assert bool((infos[-1].strength > 0).all()) is corrected
    fresh = 1 if method in ("connected", "incumbent", "ep_ei", "gibbs_ei") else ks.METHODS[method].designs
    fresh = 1 + beside(fresh).others if method.startswith("slider") else fresh
    added = state.points.shape[1] - 6
    assert steps <= added <= 2 * steps if method == "bridging" else added == steps * fresh


@pytest.mark.parametrize("method", ["static", "connected"])
def test_a_batch_is_its_runs_one_by_one(method):
    together = replace(start(3, method, "paper"), step=9)
    question, _, info = ks.ask(together)
    for run in range(3):
        alone, _, alone_info = ks.ask(one(together, run))
        assert torch.allclose(alone_info.evidence, info.evidence[run : run + 1], atol=1e-4)
        assert torch.allclose(alone_info.strength, info.strength[run : run + 1], rtol=1e-2)
        assert torch.allclose(alone_info.acquisition, info.acquisition[run : run + 1], rtol=1e-3)
        assert torch.allclose(alone.points, question.points[run : run + 1], atol=0.05)


def test_the_same_state_asks_the_same_question_and_is_not_changed():
    state = start(2, "adaptive")
    before = state.points.clone()
    first, _, _ = ks.ask(state)
    second, _, _ = ks.ask(state)
    assert torch.equal(first.points, second.points)
    assert torch.equal(state.points, before)
    assert state.step == 0


def test_tell_puts_the_winner_first():
    question, state, _ = ks.ask(start(2, "baseline"))
    after = ks.tell(state, question, [0, 1])
    assert after.comparisons[:, -1].tolist() == [[6, 7], [7, 6]]
    assert torch.equal(after.points[:, 6:], question.points)
    assert after.step == 1


def test_connected_querying_compares_with_the_previous_design():
    state = start(2, "connected")
    assert state.anchor.tolist() == state.comparisons[:, -1, 0].tolist()
    for count in range(3):
        question, state, info = ks.ask(state)
        anchors = state.points[torch.arange(2), state.anchor]
        assert torch.equal(question.points[:, 1], anchors)
        assert question.known[:, 1].tolist() == state.anchor.tolist()
        state = ks.tell(state, question, [0, 1])
        # line 15: the anchor is the design just asked about, whoever won
        assert state.anchor.tolist() == [6 + count] * 2
        assert info.n_components.tolist() == [1, 1]


def test_fresh_pairs_add_one_component_each():
    _, infos = drive(start(1, "baseline"), 4)
    assert [int(info.n_components) for info in infos] == [1, 2, 3, 4]


def test_the_moving_average_follows_its_equation():
    _, infos = drive(start(2, "adaptive"), 4)
    expected = torch.zeros(2)
    for info in infos:
        expected = activation.moving_average(expected, info.decisiveness, 0.2)
        assert torch.allclose(info.mean_decisiveness, expected)


def test_an_open_gate_shifts_the_map_only_and_a_closed_one_nothing():
    state = replace(start(2, "static", "paper"), step=9)
    model = model_from(state.preset)
    answers = Answers(state.points, state.comparisons)
    plain = fit.fit(model, answers)
    choice = state.method.correction
    closed = correction.correct(model, plain, choice, torch.tensor([False, False]))
    half_open = correction.correct(model, plain, choice, torch.tensor([True, False]))
    assert torch.equal(closed.posterior.beta, plain.posterior.beta)
    assert torch.equal(half_open.posterior.beta[1], plain.posterior.beta[1])
    shift = (half_open.map.f - plain.map.f).abs().amax(-1)
    assert shift[0] > 1e-3
    assert shift[1] == 0
    assert half_open.calibration.kappa_after[0] <= half_open.calibration.kappa_before[0] ** 0.9 * (1 + 1e-6)


def test_metric_only_ends_at_the_plain_map():
    state = start(2, "metric_only", "paper")
    model, choice = model_from(state.preset), state.method.correction
    plain = fit.fit(model, Answers(state.points, state.comparisons))
    found = correction.correct(model, plain, choice, torch.tensor([True, True]))
    assert bool(found.map.dual.converged.all())
    assert torch.allclose(found.map.f, plain.map.f, atol=1e-5)


def test_cov_only_keeps_the_map_and_tightens_every_contrast():
    state = start(1, "cov_only", "paper")
    model, choice = model_from(state.preset), state.method.correction
    plain = fit.fit(model, Answers(state.points, state.comparisons))
    found = correction.correct(model, plain, choice, torch.tensor([True]))
    assert torch.equal(found.posterior.beta, plain.posterior.beta)
    X, Y = torch.rand(2, 1, 40, 2, generator=torch.Generator().manual_seed(0))
    tight, wide = (posterior.contrast(p, X, Y).variance for p in (found.posterior, plain.posterior))
    assert bool((tight <= wide + 1e-10).all())
    assert bool((tight < wide - 1e-4).any())


def test_jitter_and_diagonal_spread_the_calibrated_strength_evenly():
    state = replace(start(1, "static", "paper"), step=9)
    corrections = {}
    for name in ("static", "diagonal", "jitter"):
        model = model_from(state.preset)
        plain = fit.fit(model, Answers(state.points, state.comparisons))
        corrections[name] = correction.correct(model, plain, ks.METHODS[name].correction, torch.tensor([True]))
    r = corrections["static"].correction
    assert torch.allclose(corrections["jitter"].correction, r.mean().expand_as(r))
    eta = corrections["static"].calibration.eta
    assert torch.allclose(corrections["diagonal"].correction, eta.unsqueeze(-1).expand_as(r))


def test_ties_are_learnt_and_may_be_the_first_answer():
    preset = replace(ks.PRESETS["modern"], threshold=0.5)
    X = torch.rand(4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    question, state, _ = ks.ask(ks.init(X, [], preset=preset))
    state = ks.tell(state, question, 2)
    assert state.ties.tolist() == [[True]]
    question, state, info = ks.ask(state)
    state = ks.tell(state, question, 0)
    assert state.ties.tolist() == [[True, False]]
    assert info.status == ("ok",)
    pairs = torch.tensor([[0, 1]] * 6)
    tied = ks.fit(X, pairs, preset=preset, ties=[True] * 6).contrast(X[:1], X[1:2])
    won = ks.fit(X, pairs, preset=preset).contrast(X[:1], X[1:2])
    assert abs(float(tied.mean)) < 1e-6 < float(won.mean)


def test_results_do_not_depend_on_torchs_default_precision():
    state = replace(start(1, "static", "paper"), step=9)
    wide, _, _ = ks.ask(state)
    torch.set_default_dtype(torch.float32)
    narrow, _, _ = ks.ask(state)
    assert narrow.points.dtype == torch.float64
    assert torch.equal(wide.points, narrow.points)


def test_what_comes_out_can_be_changed_and_differentiated():
    question, state, info = ks.ask(start(1, "adaptive"))
    question.points.mul_(1.0)
    info.evidence.add_(1.0)
    (state.theta.requires_grad_() ** 2).sum().backward()
    assert state.theta.grad is not None


def test_a_tensor_that_stands_in_two_places_is_released_once():
    learnt = loop.learn(start(1, "baseline"))
    out = released(learnt)
    assert not out.fit.K.is_inference()
    assert out.fit.posterior.root is out.inferred.posterior.root is out.corrected.posterior.root


def test_a_gate_from_a_later_step_stays_shut_before_it():
    gate = Gate(Rule.ALWAYS, first_step=3)
    method = replace(ks.METHODS["static"], gate=gate)
    _, infos = drive(start(1, method, "paper"), 3)
    assert [bool(info.active) for info in infos] == [False, False, True]


def test_the_loop_finds_a_better_design_than_it_started_with():
    state, _ = drive(start(2, "adaptive"), 12)
    best = utility(state.points).amax(-1)
    assert bool((best > -0.01).all())


def test_a_validated_gate_opens_exactly_where_the_correction_predicts_answers_left_out_better():
    state, _ = drive(start(6, "auto", "paper"), 9)
    model, choice = model_from(state.preset), state.method.correction
    everywhere = torch.ones(6, dtype=torch.bool)
    with torch.inference_mode():
        plain = fit.fit(model, Answers(state.points, state.comparisons))
        always = correction.correct(model, plain, choice, everywhere)
        found = correction.correct(model, plain, choice, everywhere, validated=True)
        A = comparisons.congruence(plain.C, plain.K) / model.likelihood.scale**2
        divisor = (1.0 + always.calibration.eta)[:, None, None]
        gain = spectral.left_out(A / divisor, always.map.dual, 0.0) - spectral.left_out(A, plain.map.dual, 0.0)
    assert found.active.tolist() == (gain.sum(-1) > 0).tolist()
    for run in range(6):
        used = always if found.active[run] else plain
        assert torch.equal(found.map.f[run], used.map.f[run])
        assert torch.equal(found.posterior.beta[run], used.posterior.beta[run])


def test_questions_within_reach_lie_in_the_box_around_the_best_design_seen():
    preset = replace(ks.PRESETS["modern"], reach=0.1)
    state, _ = drive(start(3, "baseline", preset), 2)
    question, _, _ = ks.ask(state)
    learnt = loop.learn(state)
    low, high = incumbent.box_around(learnt.corrected.posterior, 0.1)
    assert bool(((question.points >= low.unsqueeze(1)) & (question.points <= high.unsqueeze(1))).all())
    assert bool(((high - low).log().mean(-1).exp() <= 0.2 + 1e-12).all())
    assert incumbent.box_around(learnt.corrected.posterior, 0.0) is None


def test_a_least_half_side_keeps_short_length_scales_from_shrinking_the_box():
    learnt = loop.learn(drive(start(3, "baseline"), 2)[0])
    fitted = learnt.corrected.posterior
    narrow, wide = (incumbent.box_around(fitted, 0.1, least) for least in (0.0, 0.1))
    centre = fitted.X.gather(1, incumbent.find(fitted)[:, None, None].expand(-1, 1, fitted.X.shape[-1])).squeeze(1)
    scale = fitted.theta[:, :-1]
    half = 0.1 * (scale - scale.mean(-1, keepdim=True)).exp().clamp(min=1.0)
    assert torch.equal(wide[0], (centre - half).clamp(min=0.0))
    assert torch.equal(wide[1], (centre + half).clamp(max=1.0))
    assert bool((wide[0] <= narrow[0]).all())
    assert bool((wide[1] >= narrow[1]).all())


def test_of_every_two_questions_one_is_confined():
    preset = replace(ks.PRESETS["modern"], reach=0.05, reach_every=2)
    state, confined = start(2, "baseline", preset), []
    for _ in range(4):
        low, high = incumbent.box_around(loop.learn(state).corrected.posterior, 0.05)
        n = state.points.shape[1]
        question, state, _ = ks.ask(state)
        inside = (question.points >= low.unsqueeze(1)) & (question.points <= high.unsqueeze(1))
        if n // 2 % 2 == 0:
            assert bool(inside.all())
        confined.append(bool(inside.all()))
        state = ks.tell(state, question, 0)
    assert confined.count(False) == 2


def test_exploration_multiplies_the_deviation_that_eubo_sees():
    state = start(1, "baseline")
    learnt = loop.learn(state)
    fitted = learnt.corrected.posterior
    pair = torch.tensor([[0.1, 0.2, 0.8, 0.7]], dtype=torch.float64)
    objective = eubo.NegativeEubo(eubo.explored(eubo.prepare(fitted), 1.7), 1, "improvement")
    contrast = posterior.contrast(fitted, pair[:, :2].unsqueeze(0), pair[:, 2:].unsqueeze(0))
    expected = eubo.closed_form(contrast.mean, 1.7 * contrast.variance.sqrt())
    value, gradient = objective(pair)
    assert float(-value) == pytest.approx(float(expected), rel=1e-9)
    for j in range(4):
        step = torch.zeros_like(pair)
        step[:, j] = 1e-6
        slope = (objective(pair + step)[0] - objective(pair - step)[0]) / 2e-6
        assert float(gradient[0, j]) == pytest.approx(float(slope), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("preset", ["local", replace(ks.PRESETS["modern"], reach=0.05)])
def test_a_fitted_model_proposes_within_the_presets_reach_too(preset):
    state = start(1, "baseline", preset)
    model = ks.fit(state.points[0], state.comparisons[0], preset=preset)
    best = state.points[0, model.utility.argmax()]
    reach = ks.PRESETS["local"].reach if preset == "local" else preset.reach
    scale = model.lengthscale / model.lengthscale.log().mean().exp()
    assert bool(((model.propose() - best).abs() <= reach * scale + 1e-12).all())


def test_a_fitted_model_proposes_against_the_best_design_where_the_method_does():
    state = start(1, "incumbent")
    model = ks.fit(state.points[0], state.comparisons[0], method="incumbent")
    assert torch.equal(model.propose()[1], state.points[0, model.utility.argmax()])


def test_free_coordinates_stay_within_reach_beside_a_lattice():
    state = start(2, "baseline", replace(ks.PRESETS["modern"], reach=0.1))
    levels = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.float64)
    state = replace(state, lattice=Lattice((Group((1,), levels),)))
    question, _, _ = ks.ask(state)
    low, high = incumbent.box_around(loop.learn(state).corrected.posterior, 0.1)
    free = question.points[..., 0]
    assert bool(((free >= low[:, :1]) & (free <= high[:, :1])).all())
    assert bool(torch.isin(question.points[..., 1], levels.squeeze(-1)).all())


@pytest.mark.parametrize("designs", [3, 4])
def test_the_best_of_several_beats_each_of_the_others(designs):
    state = start(3, f"best_of_{designs}")
    before = state.points.shape[1], state.comparisons.shape[1]
    question, state, _ = ks.ask(state)
    assert question.points.shape == (3, designs, 2)
    best = utility(question.points).argmax(-1)
    state = ks.tell(state, question, best)
    assert state.points.shape[1] == before[0] + designs and state.comparisons.shape[1] == before[1] + designs - 1
    new = state.comparisons[:, before[1] :]
    assert bool((new[..., 0] == (before[0] + best).unsqueeze(-1)).all())
    others = new[..., 1].sort(-1).values
    expected = [[before[0] + i for i in range(designs) if i != int(b)] for b in best]
    assert others.tolist() == expected
    _, state, info = ks.ask(state)
    assert info.status == ("ok",) * 3


def test_of_several_designs_none_is_a_tie_and_no_other_number_goes():
    question, state, _ = ks.ask(start(1, "best_of_3"))
    ks.tell(state, question, 2)
    with pytest.raises(InvalidValueError, match="0 to 2"):
        ks.tell(state, question, 3)


def test_bridging_asks_against_the_best_design_where_that_promises_more_for_its_cost():
    seen = set()
    for run in range(12):
        whole = start(12, "incumbent")
        state = ks.init(whole.points[run], whole.comparisons[run], method="bridging", seeds=run)
        learnt = loop.learn(state)
        fitted = learnt.corrected.posterior
        question, _, _ = loop.question_from(state, learnt)
        top, at = posterior.mean(fitted, fitted.X).max(-1)
        again = bool(question.known[0, 1] != NEW)
        assert question.known[0, 0] == NEW
        if again:
            assert question.known[0, 1] == at and torch.equal(question.points[0, 1], state.points[0, int(at)])
        both = [
            loop.question_from(replace(state, method=ks.METHODS[name]), learnt)[0] for name in ("baseline", "incumbent")
        ]
        fresh, against = (float(eubo.value(fitted, *one.points.split(1, 1)) - top) for one in both)
        # The second of its two searches has other random starts than `incumbent`: a close call may go either way.
        if abs(1.2 * against / fresh - 1) > 0.02:
            assert again is (1.2 * against >= fresh)
        # Two designs gain at most twice what one does: by designs alone the best one would always be asked about again.
        assert 2 * against >= 0.999 * fresh
        seen.add(again)
    assert seen == {True, False}


def test_the_more_a_design_costs_the_more_often_a_known_one_is_asked_about():
    state = start(1, "baseline")
    asked = []
    for cost in (0.0, 0.25, 1e9):
        bridging = replace(ks.METHODS["bridging"], design_cost=cost)
        question, _, _ = ks.ask(replace(state, method=bridging))
        asked.append(bool(question.known[0, 1] != NEW))
    assert asked[-1] and asked == sorted(asked)


def test_runs_that_bridge_go_one_by_one():
    whole = start(2, "baseline")
    with pytest.raises(InvalidValueError, match=r"one run where `Method.query` is BRIDGING, but got 2"):
        ks.init(whole.points, whole.comparisons, method="bridging")
