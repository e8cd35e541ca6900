"""Proposition 5: η*, the smallest η whose condition number meets its target, exists and is found. [prop:calibration]"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kappasharp.correction import strength
from kappasharp.inference import comparisons
from kappasharp.kernels import stationary
from tests.paper import dense, examples

EXPONENTS = (0.05, 0.1, 0.2)
SIZES = st.integers(2, 60)


@st.composite
def hessians(draw, sizes=SIZES):
    """H and a = diag K⁻¹ of kernels from smooth to rough, with nuggets, clusters and answers of every strength."""
    n, d = draw(sizes), draw(st.integers(1, 4))
    X = draw(examples.clouds(n, d))
    theta = np.log([*(draw(examples.powers(-1.3, 0.5)) for _ in range(d)), draw(examples.powers(-2.0, 2.0))])
    nugget = draw(examples.powers(-6.0, -2.0))
    K = stationary.covariance(draw(st.sampled_from(examples.FAMILIES)), torch.tensor(X), torch.tensor(theta), nugget)
    rng = np.random.default_rng(draw(examples.seeds()))
    pairs = torch.tensor(np.array([rng.choice(n, 2, replace=False) for _ in range(int(rng.integers(1, n + 5)))]))
    omega = torch.tensor(rng.uniform(0.02, 0.5, len(pairs)) * draw(examples.powers(-2.0, 0.0)))
    H, a, usable = strength.precision(K, comparisons.laplacian(comparisons.incidence(pairs, n), omega))
    assert bool(usable)
    return H, a


def condition_number(H, a, eta):
    """κ(H + R(η)) by numpy, with the package's own weights."""
    r = strength.prior_weighted(torch.tensor(float(eta)), a)
    return dense.condition_number((H + torch.diag(r)).numpy())


def tolerance(H, a, eta):
    """1e-6, and more where κ hardly depends on η: there a relative error of κ is a larger one of η."""
    above, below = condition_number(H, a, eta * 1.001), condition_number(H, a, eta * 0.999)
    steepness = abs(math.log(above / below)) / 0.002
    return 1e-6 * max(1.0, 1.0 / steepness)


@given(hessians(), st.sampled_from(EXPONENTS))
def test_strength_is_that_of_the_papers_grid_and_bisections(drawn, target_exponent):
    H, a = drawn
    found = strength.calibrate(H, a, target_exponent)
    expected = dense.calibrate(H.numpy(), a.numpy(), target_exponent)
    assert expected is not None
    assert bool(found.found)
    assert float(found.eta) == pytest.approx(expected, rel=tolerance(H, a, expected), abs=0.0)


@examples.fewer(2)
@given(hessians(), st.sampled_from(EXPONENTS))
def test_a_strength_exists_and_brings_the_condition_number_to_its_target(drawn, target_exponent):
    H, a = drawn
    found = strength.calibrate(H, a, target_exponent)
    before = dense.condition_number(H.numpy())
    assert bool(found.found)
    assert float(found.kappa_before) == pytest.approx(before, rel=2e-6, abs=0.0)
    assert float(found.kappa_after) == pytest.approx(before ** (1.0 - target_exponent), rel=2e-6, abs=0.0)
    assert condition_number(H, a, found.eta) == pytest.approx(before ** (1.0 - target_exponent), rel=2e-6, abs=0.0)


@examples.fewer(2)
@given(hessians(), st.sampled_from(EXPONENTS))
def test_no_earlier_point_of_the_grid_meets_the_target(drawn, target_exponent):
    H, a = drawn
    eta = float(strength.calibrate(H, a, target_exponent).eta)
    assert math.isfinite(eta)
    target = dense.condition_number(H.numpy()) ** (1.0 - target_exponent)
    earlier = [point for point in np.logspace(-6, 8, 60) if point < eta * (1.0 - 1e-4)]
    assert all(condition_number(H, a, point) > target for point in earlier)


@pytest.mark.parametrize(("n", "seed"), [(6, 285), (8, 156), (10, 138), (12, 12), (16, 111)])
def test_strength_is_found_where_the_lowest_eigenvalues_crowd(n, seed):
    """Fresh pairs of nearly independent points: the two weakest directions are almost equally weak."""
    X = torch.tensor(np.random.default_rng(seed).random((n, 2)))
    K = stationary.covariance("rbf", X, torch.tensor([0.1, 0.1, 1.0]).log(), 1e-4)
    C = comparisons.incidence(torch.arange(n).reshape(-1, 2), n)
    H, a, _ = strength.precision(K, comparisons.laplacian(C, torch.full((n // 2,), 0.3)))
    found = strength.calibrate(H, a, 0.1)
    assert bool(found.found)
    assert float(found.eta) == pytest.approx(dense.calibrate(H.numpy(), a.numpy(), 0.1), rel=1e-6, abs=0.0)


@given(hessians(), examples.powers(-2.0, 3.0), st.sampled_from(EXPONENTS))
def test_with_equal_prior_precisions_the_strength_has_a_closed_form(drawn, a, target_exponent):
    """R is then r I, so (λ_max + r)/(λ_min + r) is the target and η² = r (η + a)."""
    H, _ = drawn
    values = np.linalg.eigvalsh(H.numpy())
    target = (values[-1] / values[0]) ** (1.0 - target_exponent)
    r = (values[-1] - target * values[0]) / (target - 1.0)
    expected = 0.5 * (r + math.sqrt(r * r + 4.0 * r * a))
    found = strength.calibrate(H, torch.full_like(H[0], a), target_exponent)
    assert bool(found.found)
    assert float(found.eta) == pytest.approx(expected, rel=tolerance(H, torch.full_like(H[0], a), expected), abs=0.0)


@given(st.floats(20.0, 100.0), examples.powers(5.0, 7.0), examples.powers(-3.0, 3.0))
def test_of_several_crossings_the_first_is_taken(high, stiff, scale):
    """κ dips below the target, rises above it again and falls for good; the first time is (high + η)/(1 + η) = target.

    The weakest direction has a soft prior, the second weakest a stiff one that hardly lets it be corrected.
    """
    target = high**0.95
    expected = (high - target) / (target - 1.0)
    H = scale * torch.diag(torch.tensor([1.0, 1.2 * (1.0 + expected), high]))
    a = scale * torch.tensor([1e-9, stiff, 1e-9])
    assert condition_number(H, a, 1.1 * scale * expected) < target
    assert condition_number(H, a, high * scale) > target
    assert condition_number(H, a, 100.0 * stiff * scale) < target
    assert float(strength.calibrate(H, a, 0.05).eta) == pytest.approx(scale * expected, rel=1e-6, abs=0.0)


@given(st.floats(2.0, 50.0), examples.powers(2.0, 4.0), st.sampled_from(EXPONENTS))
def test_a_condition_number_that_rises_before_it_falls_is_followed_to_its_crossing(high, stiff, target_exponent):
    """The weak direction has the stiff prior, so a little correction makes κ worse."""
    H, a = torch.diag(torch.tensor([1.0, high])), torch.tensor([stiff, 1e-6])
    assert condition_number(H, a, 0.1) > high
    found = strength.calibrate(H, a, target_exponent)
    expected = dense.calibrate(H.numpy(), a.numpy(), target_exponent)
    assert bool(found.found)
    assert float(found.eta) == pytest.approx(expected, rel=tolerance(H, a, expected), abs=0.0)


@given(hessians(), examples.powers(-6.0, 7.0), st.floats(1.0 + 1e-3, 100.0))
def test_correction_grows_with_its_strength_in_the_loewner_order(drawn, eta, factor):
    _, a = drawn
    r = strength.prior_weighted(torch.tensor(eta), a)
    more = strength.prior_weighted(torch.tensor(eta * factor), a)
    assert bool((r >= 0.0).all())
    assert bool((more > r).all())


@given(hessians(), examples.powers(-6.0, 8.0))
def test_condition_number_obeys_the_bound_by_weyls_inequalities(drawn, eta):
    H, a = drawn
    values = np.linalg.eigvalsh(H.numpy())
    weakest = eta * (1.0 - float(a.max()) / (eta + float(a.max())))
    assert condition_number(H, a, eta) <= (values[-1] + eta) / (values[0] + weakest) * (1.0 + 1e-6)


@given(hessians())
def test_condition_number_tends_to_one(drawn):
    H, a = drawn
    # λ_max(H) ≤ the trace; both ends lie within λ_max(H) + a_max of η.
    largest = float(torch.trace(H) + a.max())
    for excess in (1e-2, 1e-4, 1e-6):
        assert 1.0 <= condition_number(H, a, largest / excess) <= 1.0 + 2.0 * excess


@given(examples.powers(-4.0, 6.0), st.integers(1, 12), st.sampled_from(EXPONENTS), st.data())
def test_a_perfectly_conditioned_hessian_needs_no_correction(scale, n, target_exponent, data):
    a = torch.tensor([data.draw(examples.powers(-3.0, 3.0)) for _ in range(n)])
    found = strength.calibrate(scale * torch.eye(n), a, target_exponent)
    assert bool(found.found)
    assert float(found.eta) == 0.0
    assert float(found.kappa_after) == pytest.approx(1.0, rel=1e-14, abs=0.0)


@examples.fewer(3)
@given(st.floats(1.5, 100.0), st.sampled_from(EXPONENTS))
def test_beyond_the_papers_grid_there_is_no_strength(high, target_exponent):
    H, a = 1e12 * torch.diag(torch.tensor([1.0, high])), torch.ones(2)
    assert dense.calibrate(H.numpy(), a.numpy(), target_exponent) is None
    found = strength.calibrate(H, a, target_exponent)
    assert not bool(found.found)
    assert math.isnan(float(found.eta))


@examples.fewer(3)
@given(st.integers(2, 40), st.integers(2, 5), st.sampled_from(EXPONENTS), st.data())
def test_a_batch_is_calibrated_as_its_runs_one_by_one(n, runs, target_exponent, data):
    drawn = [data.draw(hessians(st.just(n))) for _ in range(runs)]
    H, a = (torch.stack(parts) for parts in zip(*drawn, strict=True))
    together = strength.calibrate(H, a, target_exponent)
    for run, (own_H, own_a) in enumerate(drawn):
        alone = strength.calibrate(own_H, own_a, target_exponent)
        assert bool(together.found[run]) and bool(alone.found)
        assert float(together.eta[run]) == pytest.approx(
            float(alone.eta), rel=tolerance(own_H, own_a, alone.eta), abs=0.0
        )
        assert float(together.kappa_before[run]) == pytest.approx(float(alone.kappa_before), rel=2e-6, abs=0.0)


@examples.fewer(3)
@given(hessians(st.integers(2, 30)))
def test_a_lower_target_takes_a_stronger_correction(drawn):
    H, a = drawn
    strengths = [float(strength.calibrate(H, a, exponent).eta) for exponent in EXPONENTS]
    assert strengths[0] < strengths[1] < strengths[2]
