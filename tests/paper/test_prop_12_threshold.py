"""Proposition 12: what the threshold means, and the gates it drives. [prop:margin_safe] [eq:sexp] [eq:ema]"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import optimize, stats

from kappasharp.algorithm import loop
from kappasharp.correction import activation
from kappasharp.settings import METHODS, Gate, Rule, find_preset
from tests.paper import dense, examples


def decisiveness(p):
    return float(activation.decisiveness(torch.tensor(p)))


@given(st.floats(0.5, 1.0 - 1e-9))
def test_decisiveness_is_one_minus_the_entropy_in_bits(p):
    assert decisiveness(p) == pytest.approx(1.0 - stats.entropy([p, 1.0 - p], base=2), abs=1e-14)


@pytest.mark.parametrize(("p", "s_exp"), [(0.5, 0.0), (0.75, 0.75 * math.log2(3.0) - 1.0), (1.0, 1.0)])
def test_scores_known_by_hand(p, s_exp):
    assert decisiveness(p) == pytest.approx(s_exp, abs=1e-15)


@given(st.floats(0.5, 1.0 - 2e-6), st.floats(1e-6, 0.5))
def test_decisiveness_is_strictly_increasing(p, step):
    higher = min(p + step, 1.0 - 1e-12)
    assert 0.0 <= decisiveness(p) < decisiveness(higher) < 1.0


def test_threshold_of_thirty_percent_is_a_probability_of_eighty_one_percent():
    p = optimize.brentq(lambda p: decisiveness(p) - 0.30, 0.5, 1.0 - 1e-12, xtol=1e-12)
    assert p == pytest.approx(0.8107, abs=1e-4)
    assert p >= 0.81


@given(st.floats(0.5, 1.0 - 1e-9), st.floats(0.05, 0.95))
def test_a_score_above_a_threshold_is_a_probability_above_its_own(p, tau):
    p_tau = optimize.brentq(lambda q: decisiveness(q) - tau, 0.5, 1.0 - 1e-12, xtol=1e-14)
    assume(abs(p - p_tau) > 1e-9)
    assert (decisiveness(p) >= tau) == (p >= p_tau)


@given(st.floats(-6.0, 6.0), st.floats(0.0, 10.0), st.floats(0.3, 3.0))
def test_agreement_is_the_probability_that_an_answer_follows_the_models_ranking(mean, variance, noise):
    p = float(activation.agreement(torch.tensor(mean), torch.tensor(variance), noise))
    assert p == pytest.approx(stats.norm.cdf(abs(mean) / math.sqrt(variance + 2.0 * noise**2)), rel=1e-13, abs=0.0)
    assert 0.5 <= p <= 1.0
    assert p == float(activation.agreement(torch.tensor(-mean), torch.tensor(variance), noise))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.floats(0.05, 1.0))
def test_moving_average_is_the_geometrically_weighted_sum_of_the_scores(scores, ema_rate):
    s_bar = torch.zeros(1)
    for s_exp in scores:
        s_bar = activation.moving_average(s_bar, torch.tensor([s_exp]), ema_rate)
    weights = ema_rate * (1.0 - ema_rate) ** np.arange(len(scores))[::-1]
    assert float(s_bar) == pytest.approx(float(weights @ np.array(scores)), abs=1e-14)
    assert 0.0 <= float(s_bar) <= max(scores) + 1e-15


@given(st.integers(1, 40))
def test_moving_average_of_certain_answers_rises_as_one_minus_a_power(steps):
    s_bar = torch.zeros(1)
    for _ in range(steps):
        s_bar = activation.moving_average(s_bar, torch.ones(1), Gate().ema_rate)
    assert float(s_bar) == pytest.approx(1.0 - 0.8**steps, rel=1e-13, abs=0.0)


def test_gate_of_the_paper_has_the_papers_numbers():
    gate = Gate(Rule.DECISIVE)
    assert (gate.threshold, gate.ema_rate, gate.first_step) == (0.30, 0.2, 8)


def gates():
    """Steps, averages and a gate of each rule, often exactly at its edges."""
    s_bar = st.lists(st.floats(0.0, 1.0) | st.just(0.30), min_size=1, max_size=6)
    return st.tuples(st.integers(1, 30), s_bar, st.integers(1, 20), st.floats(0.0, 1.0) | st.just(0.30))


@given(gates())
def test_each_gate_opens_by_its_own_rule(drawn):
    step, s_bar, first_step, threshold = drawn
    values = torch.tensor(s_bar)

    def is_open(rule):
        return activation.is_open(Gate(rule, first_step, threshold), step, values).tolist()

    assert is_open(Rule.NEVER) == [False] * len(s_bar)
    assert is_open(Rule.ALWAYS) == [step >= first_step] * len(s_bar)
    assert is_open(Rule.DECISIVE) == [step >= first_step and value >= threshold for value in s_bar]


def test_threshold_and_first_step_are_themselves_inside_the_open_gate():
    gate = Gate(Rule.DECISIVE)
    at = torch.tensor([0.30, math.nextafter(0.30, 0.0), math.nextafter(0.30, 1.0)])
    assert activation.is_open(gate, 8, at).tolist() == [True, False, True]
    assert activation.is_open(gate, 7, at).tolist() == [False, False, False]


@given(st.floats(0.31, 1.0))
def test_a_steady_score_opens_the_gate_at_the_step_the_average_predicts(s_exp):
    """s̄_t = s (1 − 0.8^t) reaches τ at t = log(1 − τ/s)/log 0.8, and the gate waits for the eighth step at least."""
    gate, s_bar = Gate(Rule.DECISIVE), torch.zeros(1)
    crossing = math.log(1.0 - 0.30 / s_exp) / math.log(0.8)
    assume(abs(crossing - round(crossing)) > 1e-9)
    for step in range(1, 40):
        s_bar = activation.moving_average(s_bar, torch.tensor([s_exp]), gate.ema_rate)
        assert bool(activation.is_open(gate, step, s_bar)) == (step >= max(8, math.ceil(crossing)))


@examples.fewer(4)
@given(examples.problems())
def test_score_of_a_question_is_that_of_the_last_answer_by_dense_algebra(problem):
    chosen = find_preset("paper")
    _, after, info = loop.ask(loop.init(problem.X, problem.pairs, preset=chosen))
    theta = np.log([*info.lengthscale[0].tolist(), float(info.outputscale)])
    smooth = dense.kernel(chosen.kernel, problem.X, problem.X, theta)
    K = smooth + math.exp(theta[-1]) * chosen.nugget * np.eye(problem.n)
    C, K_inverse = problem.dense_C, np.linalg.inv(K)
    f = dense.find_map(K, C, chosen.noise)
    weights = dense.omega(C @ f / math.sqrt(2.0)) / 2.0
    Sigma = np.linalg.inv(K_inverse + C.T @ np.diag(weights) @ C)
    k_difference = smooth @ C[-1]
    mean = k_difference @ K_inverse @ f
    variance = C[-1] @ smooth @ C[-1] - k_difference @ (K_inverse - K_inverse @ Sigma @ K_inverse) @ k_difference
    p = stats.norm.cdf(abs(mean) / math.sqrt(variance + 2.0))
    expected = 1.0 - stats.entropy([p, 1.0 - p], base=2)
    assert float(info.decisiveness) == pytest.approx(expected, abs=1e-6)
    # s̄₀ = 0, so the first average is α_ema times the first score.
    assert float(after.mean_decisiveness) == pytest.approx(0.2 * float(info.decisiveness), rel=1e-12, abs=0.0)


def test_correction_acts_in_a_run_just_where_step_and_average_allow_it():
    gate = Gate(Rule.DECISIVE, first_step=3, threshold=0.02, ema_rate=0.3)
    method = replace(METHODS["adaptive"], gate=gate)
    X = np.random.default_rng(0).random((3, 8, 2))
    state = loop.init(X, np.tile(np.arange(8).reshape(4, 2), (3, 1, 1)), method=method, preset="paper", seeds=[0, 1, 2])
    s_bar, acted = np.zeros(3), np.zeros((8, 3), dtype=bool)
    for step in range(1, 9):
        question, state, info = loop.ask(state)
        s_bar = 0.7 * s_bar + 0.3 * info.decisiveness.numpy()
        np.testing.assert_allclose(info.mean_decisiveness, s_bar, rtol=1e-12, atol=1e-15)
        acted[step - 1] = info.active
        np.testing.assert_array_equal(acted[step - 1], (s_bar >= 0.02) & (step >= 3))
        np.testing.assert_array_equal(info.strength.numpy() > 0.0, acted[step - 1])
        state = loop.tell(state, question, (-((question.points - 0.3) ** 2).sum(-1)).argmax(-1))
    assert acted.any()
