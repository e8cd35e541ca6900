"""The evidence that there is a taste, as beliefs about outcomes have it and without them."""

import math

import pytest
import torch

from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.algorithm import voters
from kappasharp.inference import comparisons, features, fit_space, voter_evidence
from kappasharp.inference.comparisons import Answers
from kappasharp.kernels.priors import PeoplePriors
from kappasharp.settings import find_preset
from tests.algorithm.test_hints import D, answered
from tests.reference.lifts import Curved


def of(lift):
    return algorithm_fit.model_of(find_preset("modern"), D, lift)


def value(model, answers, theta):
    """log Z by the way that the search takes."""
    nothing = answers.X.new_zeros(answers.pairs.shape[:2])
    return float(fit_space.choose(model, answers).gather().evaluate(model, theta, nothing).value)


def parts(lift, answers):
    """What answers and beliefs together, beliefs alone and answers alone are made of."""
    plain = answers._replace(X=features.lifted(lift, answers.X))
    return algorithm_fit.lifted(answers, lift), algorithm_fit.beliefs(lift, plain.X), plain


def test_without_beliefs_it_is_the_evidence_of_the_fit():
    lift, answers = Curved(), answered(1)
    model = of(lift)
    fit = algorithm_fit.fit(model, answers, lift=lift)
    assert algorithm_fit.beliefs(lift, fit.posterior.features) is None
    expected = value(model, answers._replace(X=features.lifted(lift, answers.X)), fit.hyper.theta)
    assert float(voters.log_evidence(model, fit)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("leans", [(0, 1), (0, -1), (-1, 1)])
def test_beliefs_take_nothing_of_the_evidence_of_answers(leans):
    """Half of it is p(both)/p(beliefs), half p(answers), each by itself."""
    lift, answers = Curved(leans), answered(1, 8)
    model = of(lift)
    fit = algorithm_fit.fit(model, answers, lift=lift)
    both, beliefs, plain = (math.exp(value(model, one, fit.hyper.theta)) for one in parts(lift, answers))
    expected = math.log(0.5 * both / beliefs + 0.5 * plain)
    found = float(voters.log_evidence(model, fit))
    assert found == pytest.approx(expected, abs=1e-6)
    # What was compared with coins before: the beliefs themselves are no answers.
    assert found > math.log(both) + 0.4 * 3 * math.log(2.0) * sum(map(abs, leans))


def test_beliefs_that_are_wrong_make_no_coin_of_a_taste():
    """Consistent answers against a belief speak for a taste, though the belief has it that they are unlikely."""
    answers = answered(1, 8)
    found = {}
    for leans in ((0, 1), (0, -1)):
        lift = Curved(leans)
        found[leans] = float(voters.log_evidence(of(lift), algorithm_fit.fit(of(lift), answers, lift=lift)))
    assert found[0, 1] > found[0, -1] > -8 * math.log(2.0)


def test_beliefs_of_several_people_are_about_what_they_share():
    lift, answers = Curved((0, 1)), answered(1, 8)
    model, who = of(lift), torch.tensor([0, 1] * 4)
    fit = voters.fit(model, answers, who, lift=lift)
    joint, theta = model._replace(priors=PeoplePriors(model.priors, 2)), fit.people.hyper.theta

    def evidence(one, numbers):
        nothing = one.X.new_zeros(one.pairs.shape[:2])
        return math.exp(float(voter_evidence.gather(one, numbers, 2).evaluate(joint, theta, nothing).value))

    nobody = torch.full((1, 3), voter_evidence.NOBODY)
    numbers = torch.cat([who.unsqueeze(0), nobody], 1), nobody, who.unsqueeze(0)
    both, beliefs, plain = (evidence(*each) for each in zip(parts(lift, answers), numbers, strict=True))
    assert fit.people.rho < 1.0
    expected = math.log(0.5 * both / beliefs + 0.5 * plain)
    assert float(voters.log_evidence(model, fit)) == pytest.approx(expected, abs=1e-6)


def test_what_is_believed_is_the_end_of_what_is_fitted():
    lift, answers = Curved((-1, 1)), answered(1)
    whole, beliefs, plain = parts(lift, answers)
    n, m = plain.X.shape[1], plain.pairs.shape[1]
    assert torch.equal(whole.X[:, n:], beliefs.X) and torch.equal(whole.pairs[:, m:] - n, beliefs.pairs)
    rest = comparisons.some(Answers(whole.X, whole.pairs, None, whole.detail), torch.arange(m, whole.pairs.shape[1]))
    assert torch.equal(rest.detail.weight, beliefs.detail.weight) and not bool(beliefs.detail.noise.any())
