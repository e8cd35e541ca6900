"""The decisiveness score against its formula and quadrature, the moving average, and every gate."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import entropy, norm

from kappasharp.correction import activation
from kappasharp.settings import Gate, Rule


@pytest.mark.parametrize(("difference", "variance", "noise"), [(0.7, 0.4, 1.0), (-2.0, 3.0, 0.1), (0.0, 1.0, 0.5)])
def test_agreement_is_the_chance_that_a_noisy_answer_follows_the_models_ranking(difference, variance, noise):
    """∫ Φ(d/(σ√2)) over d ~ N(|μ|, σ²_diff): how likely the next answer ranks the pair as the model does."""
    found = activation.agreement(torch.tensor([difference]), torch.tensor([variance]), noise)
    spread = math.sqrt(variance)
    expected = quad(
        lambda d: norm.cdf(d / (noise * math.sqrt(2.0))) * norm.pdf(d, abs(difference), spread),
        abs(difference) - 10 * spread,
        abs(difference) + 10 * spread,
        epsabs=1e-12,
        points=[0.0],
    )[0]
    assert float(found) == pytest.approx(expected, abs=1e-9)
    assert 0.5 <= float(found) < 1.0


def test_agreement_does_not_depend_on_who_is_named_first():
    d, v = torch.linspace(-3.0, 3.0, 13), torch.linspace(0.1, 2.0, 13)
    assert torch.equal(activation.agreement(d, v, 0.3), activation.agreement(-d, v, 0.3))


def test_decisiveness_is_one_minus_the_binary_entropy():
    p = torch.tensor([0.5, 0.6, 0.75, 0.9, 0.999, 1.0 - 1e-12])
    expected = [1.0 - entropy([value, 1.0 - value], base=2) for value in p.tolist()]
    assert np.allclose(activation.decisiveness(p).numpy(), expected, rtol=0.0, atol=1e-13)


def test_a_coin_flip_scores_zero_and_certainty_one():
    found = activation.decisiveness(torch.tensor([0.5, 1.0, 0.0]))
    assert torch.allclose(found, torch.tensor([0.0, 1.0, 1.0]), rtol=0.0, atol=1e-15)


def test_decisiveness_rises_from_a_half_to_one():
    assert bool((activation.decisiveness(torch.linspace(0.5, 1.0, 100)).diff() > 0).all())


def test_the_moving_average_of_a_constant_closes_in_geometrically():
    s_bar, s = torch.zeros(2), torch.tensor([0.5, 1.0])
    for step in range(1, 11):
        s_bar = activation.moving_average(s_bar, s, 0.2)
        assert torch.allclose(s_bar, s * (1.0 - 0.8**step), rtol=1e-13, atol=0.0)


def test_the_moving_average_is_the_weighted_sum_of_all_scores():
    scores = np.random.default_rng(0).uniform(size=12)
    s_bar = torch.zeros(1)
    for score in scores:
        s_bar = activation.moving_average(s_bar, torch.tensor([score]), 0.3)
    weights = 0.3 * 0.7 ** np.arange(11, -1, -1)
    assert float(s_bar) == pytest.approx(float(weights @ scores), rel=1e-13)


S_BAR = torch.tensor([0.0, 0.2999999, 0.3, 0.9])


@pytest.mark.parametrize(
    ("rule", "step", "expected"),
    [
        (Rule.NEVER, 7, [False] * 4),
        (Rule.NEVER, 100, [False] * 4),
        (Rule.ALWAYS, 7, [False] * 4),
        (Rule.ALWAYS, 8, [True] * 4),
        (Rule.DECISIVE, 7, [False] * 4),
        (Rule.DECISIVE, 8, [False, False, True, True]),
        (Rule.DECISIVE, 50, [False, False, True, True]),
    ],
)
def test_a_gate_opens_when_its_rule_says_so(rule, step, expected):
    assert activation.is_open(Gate(rule, first_step=8, threshold=0.3), step, S_BAR).tolist() == expected


def test_the_numbers_of_the_paper_are_the_defaults():
    gate = Gate()
    assert (gate.rule, gate.first_step, gate.threshold, gate.ema_rate) == (Rule.NEVER, 8, 0.30, 0.2)
