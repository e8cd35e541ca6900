"""Proposition 4: the four properties of r = η²/(η + a), and what it is the optimum of. [prop:filter_properties]"""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from kappasharp.correction import strength as correction_strength
from tests.paper import examples

EPS = torch.finfo(torch.float64).eps


def weight(eta, a):
    """r of one point."""
    return float(correction_strength.prior_weighted(torch.tensor(eta), torch.tensor([a])))


def wide():
    return examples.powers(-12.0, 12.0)


@given(wide(), wide())
def test_weight_is_the_exact_quotient_to_rounding(eta, a):
    exact = Fraction(eta) ** 2 / (Fraction(eta) + Fraction(a))
    assert abs(Fraction(weight(eta, a)) - exact) <= 3 * Fraction(EPS) * exact


@pytest.mark.parametrize(("eta", "a", "r"), [(1.0, 1.0, 0.5), (2.0, 2.0, 1.0), (3.0, 6.0, 1.0), (10.0, 90.0, 1.0)])
def test_weights_known_by_hand(eta, a, r):
    assert weight(eta, a) == r


@given(wide(), wide(), st.floats(1.0 + 1e-3, 1e6))
def test_a_stronger_prior_gets_less_correction(eta, a, factor):
    """Part (a), as an order and as the derivative −η²/(η + a)²."""
    more = weight(eta, a * factor)
    if a * factor >= 1e-12 * eta:
        assert more < weight(eta, a)
    else:
        assert more <= weight(eta, a)
    prior = torch.tensor([a], requires_grad=True)
    correction_strength.prior_weighted(torch.tensor(eta), prior).sum().backward()
    assert float(prior.grad) < 0.0
    assert float(prior.grad) == pytest.approx(-((eta / (eta + a)) ** 2), rel=1e-12, abs=0.0)


@given(wide(), wide())
def test_the_correction_is_positive_and_below_eta(eta, a):
    """Part (b); strictly, but where a vanishes beside η in double precision and r is η to its last place."""
    r = weight(eta, a)
    assert 0.0 < r <= eta * (1.0 + EPS)
    assert r < eta or a <= 4.0 * EPS * eta
    # η − r = ηa/(η + a), the harmonic sum that the proof bounds it by.
    assert eta - r == pytest.approx(eta * a / (eta + a), rel=1e-9, abs=4.0 * EPS * eta)


@given(wide(), wide())
def test_a_weak_prior_gets_the_full_correction(eta, a):
    """Part (c): 1 − r/η is at most a/η, so r → η as a → 0."""
    assert 1.0 - weight(eta, a) / eta <= a / eta + 4.0 * EPS
    assert weight(eta, eta * 1e-9) == pytest.approx(eta, rel=1.1e-9, abs=0.0)


@given(wide(), wide())
def test_a_dominant_prior_gets_no_correction(eta, a):
    """Part (d): r is at most η²/a, so r → 0 as a → ∞."""
    assert weight(eta, a) <= eta**2 / a * (1.0 + 4.0 * EPS)
    assert weight(eta, eta * 1e9) <= 1e-9 * eta


@given(wide(), wide(), st.floats(1.0 + 1e-3, 1e6))
def test_the_correction_grows_with_eta(eta, a, factor):
    """Part (ii) of the proof: ∂r/∂η = η(η + 2a)/(η + a)²."""
    assert weight(eta * factor, a) > weight(eta, a)
    strength = torch.tensor(eta, requires_grad=True)
    correction_strength.prior_weighted(strength, torch.tensor([a])).sum().backward()
    assert float(strength.grad) == pytest.approx(eta * (eta + 2.0 * a) / (eta + a) ** 2, rel=1e-12, abs=0.0)


@given(wide(), wide())
def test_a_numerical_optimiser_of_the_variational_form_finds_the_weight(eta, a):
    """q(r) = ½ a r² + ½ η (r − η)², minimised in units of η."""
    share = a / (a + eta)

    def q(u):
        return share * u**2 + (1.0 - share) * (u - 1.0) ** 2

    found = optimize.minimize_scalar(q, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    assert weight(eta, a) / eta == pytest.approx(found.x, abs=2e-6)


@given(wide(), wide(), st.floats(-2.0, 2.0).filter(lambda x: abs(x) > 1e-3))
def test_no_other_weight_is_better_in_the_variational_form(eta, a, offset):
    """In exact arithmetic, q at r is below q at any other point."""
    prior, strength = Fraction(a), Fraction(eta)

    def q(r):
        return prior * r**2 + strength * (r - strength) ** 2

    r = Fraction(weight(eta, a))
    assert q(r) < q(r * Fraction(1.0 + offset))


@given(wide(), st.lists(wide(), min_size=2, max_size=8))
def test_each_point_is_corrected_by_its_own_prior_precision_alone(eta, a):
    together = correction_strength.prior_weighted(torch.tensor(eta), torch.tensor(a))
    assert together.tolist() == [weight(eta, own) for own in a]
    order = np.argsort(a)
    assert np.all(np.diff(together.numpy()[order]) <= 0.0)


@given(st.lists(wide(), min_size=1, max_size=8))
def test_without_strength_there_is_no_correction(a):
    assert correction_strength.prior_weighted(torch.tensor(0.0), torch.tensor(a)).eq(0.0).all()
