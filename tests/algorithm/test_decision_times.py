"""Seconds as a signal: the likelihood of choice and time together, and when times are believed."""

import math

import pytest
import torch

import kappasharp as ks
from kappasharp.algorithm import answers, loop
from kappasharp.errors import InvalidValueError
from kappasharp.inference import comparison_space, comparisons, likelihood
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.likelihood import DRIFT, Probit
from kappasharp.problems import simulated_voters

CELLS = [("hartmann-6d", seed) for seed in range(4000)]


def decided(z):
    """Simulated decision times for one difference, in units of an indifferent decision's mean."""
    who = simulated_voters.Person(tempo=1.0)
    utility = torch.tensor([[z * who.noise * math.sqrt(2.0), 0.0]], dtype=torch.float64).expand(len(CELLS), 2)
    return simulated_voters.seconds(who, CELLS, utility, 3) - simulated_voters.BEFORE


@pytest.mark.parametrize("z", [0.0, 0.7, 2.0])
def test_simulated_decisions_take_as_long_as_a_diffusion(z):
    x = DRIFT * z
    assert float(decided(z).mean()) == pytest.approx(math.tanh(x) / x if z else 1.0, rel=0.08)


@pytest.mark.parametrize("z", [0.4, 1.0])
def test_the_likelihood_of_choice_and_time_sums_to_one(z):
    """Under an indifferent diffusion the likelihood ratio of any other drift has mean one: both ends, all times."""
    time = decided(0.0)
    ends = [likelihood._timed(torch.full_like(time, sign * z), time) + math.log(2.0) for sign in (1.0, -1.0)]
    assert float((0.5 * (ends[0].exp() + ends[1].exp())).mean()) == pytest.approx(1.0, abs=0.05)


def marks(time):
    answers = Answers(
        torch.zeros(1, 2, 1), torch.tensor([[[0, 1]]]), None,
        comparisons.none_of((1,), 1, torch.zeros(1))._replace(time=torch.tensor([[time]])),
    )  # fmt: skip
    return comparison_space.bounded(Probit(), answers).ties


def test_its_derivatives_are_those_of_its_logarithm():
    z, ties, step = torch.tensor([[0.3]], dtype=torch.float64), marks(0.6), 1e-4
    low, here, high = (likelihood.log_probability(z + k * step, 0.0, ties) for k in (-1, 0, 1))
    sites, curvature = likelihood.sites(z, 0.0, ties), likelihood.curvature(z, 0.0, ties)
    assert torch.allclose(sites.slope, (high - low) / (2.0 * step))
    assert torch.allclose(sites.omega, (2.0 * here - high - low) / step**2, rtol=1e-5)
    assert torch.equal(curvature.omega, sites.omega)
    assert float(curvature.log_slope) == 0.0


def test_an_answer_without_a_time_is_as_ever():
    assert marks(0.0) is None


def test_times_that_fall_with_the_difference_are_used_and_others_are_not():
    generator = torch.Generator().manual_seed(0)
    strength = torch.rand(1, 24, generator=generator, dtype=torch.float64) * 3.0
    telling = 6.0 - 1.5 * strength
    used = answers.decision_times(telling, strength)
    assert bool((used > 0.0).all())
    # The clearest answers have the shortest times.
    assert int(used.argmin()) == int(strength.argmax())
    chance = torch.rand(200, 24, generator=generator, dtype=torch.float64)
    believed = answers.decision_times(chance + 1.0, strength.expand(200, -1)).any(-1)
    assert float(believed.double().mean()) < 0.1
    assert not bool(answers.decision_times(telling[:, :7], strength[:, :7]).any())


def test_a_break_for_coffee_says_nothing():
    strength = torch.linspace(0.0, 3.0, 20, dtype=torch.float64).unsqueeze(0)
    seconds = 6.0 - 1.5 * strength
    left = seconds.clone()
    left[0, 4] = 900.0
    used = answers.decision_times(left, strength)
    assert float(used[0, 4]) == 0.0
    others = torch.arange(20) != 4
    assert torch.allclose(used[0, others], answers.decision_times(seconds, strength)[0, others], rtol=0.2)


def start(method):
    X = torch.rand(1, 16, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return ks.init(X, [[[2 * i, 2 * i + 1] for i in range(8)]], method=method)


def test_seconds_are_kept_and_change_the_model_only_where_they_are_wanted():
    states = []
    for method in ("baseline", "timed"):
        state = start(method)
        for number in range(9):
            question, state, _ = ks.ask(state)
            state = ks.tell(state, question, 0, seconds=[3.0 + (number % 4)])
        assert state.seconds.shape == (1, 17)
        assert int(state.seconds.isfinite().sum()) == 9
        states.append(state)
    assert torch.equal(states[0].comparisons, states[1].comparisons)
    strength = loop.learn(states[0]).fit.map.dual.z.abs()
    telling = torch.where(states[0].seconds.isfinite(), 6.0 / (1.0 + strength), torch.nan)
    timed = loop.learn(loop.replace(states[1], seconds=telling))
    plain = loop.learn(loop.replace(states[1], seconds=None))
    assert not torch.allclose(timed.fit.map.f, plain.fit.map.f, atol=1e-3)
    assert bool(timed.fit.map.dual.converged.all())


def test_seconds_need_the_plain_method():
    with pytest.raises(InvalidValueError, match="the plain method"):
        ks.init([[0.1], [0.9]], [[0, 1]], method=loop.replace(ks.METHODS["static"], use_seconds=True))
