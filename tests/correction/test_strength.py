"""The correction's weights and its calibration against the paper's literal search with dense eigenvalues."""

from functools import cache

import numpy as np
import pytest
import torch

from kappasharp.correction import strength
from kappasharp.native import launch
from kappasharp.numerics import eigenvalues
from kappasharp.settings import Weights
from tests.reference import calibration, dense
from tests.reference.data import answered

# κ(H + R(η*)) meets its target to 3e-8; where κ falls slowly in η that is worth more in η itself.
KAPPA_ACCURACY = 1e-7


@pytest.fixture(autouse=True, params=["1", "0"], ids=["compiled", "torch"])
def either_way(request, monkeypatch):
    monkeypatch.setenv(launch.SWITCH, request.param)


@cache
def problem(seed, n=12, m=14, nugget=1e-4, noise=1.0, clustered=False):
    """H and a = diag K⁻¹ at the MAP of a small data set."""
    data = answered(seed, n, m, 3)
    X = data.X
    if clustered:
        rng = np.random.default_rng(seed)
        X = X[rng.integers(3, size=n)] + 0.01 * rng.standard_normal((n, 3))
    K = dense.prior_covariance("rbf", X, np.full(3, 0.5), 2.0, nugget)
    twin = dense.Problem(K, dense.incidence(data.pairs, n), noise * np.sqrt(2.0))
    H = dense.hessian(twin, dense.find_map(twin))
    return 0.5 * (H + H.T), np.diag(np.linalg.inv(K)).copy(), twin


CASES = {
    "scattered": {},
    "strong signal": {"noise": 0.1},
    "clustered": {"clustered": True},
    "clustered, nugget 1e-6": {"clustered": True, "nugget": 1e-6},
    "nugget 0.1": {"nugget": 0.1},
    "more points than answers": {"n": 20, "m": 5},
}


def ours(H, a, target_exponent=0.1):
    return strength.calibrate(torch.as_tensor(H), torch.as_tensor(a), target_exponent)


@pytest.mark.parametrize("target_exponent", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", list(CASES))
def test_eta_is_the_papers_and_kappa_meets_its_target(name, target_exponent):
    for seed in range(3):
        H, a, _ = problem(seed, **CASES[name])
        found = ours(H, a, target_exponent)
        kappa = calibration.condition_number(H)
        eta = calibration.calibrate(H, a, target_exponent)
        assert bool(found.found)
        assert float(found.kappa_before) == pytest.approx(kappa, rel=2e-6)
        # The paper's own bisection ends 2⁻³⁰ of an interval away; the largest eigenvalue is known to 1e-6.
        assert float(found.eta) == pytest.approx(eta, rel=1e-5)
        after = calibration.condition_number(calibration.corrected(H, a, float(found.eta)))
        assert float(found.kappa_after) == pytest.approx(after, rel=3e-6)
        assert after == pytest.approx(kappa ** (1.0 - target_exponent), rel=3e-6)


def test_a_batch_equals_its_runs_one_by_one():
    parts = [problem(seed, clustered=seed % 2 == 0)[:2] for seed in range(6)]
    H, a = (torch.as_tensor(np.stack(part)) for part in zip(*parts, strict=True))
    together = strength.calibrate(H.reshape(2, 3, 12, 12), a.reshape(2, 3, 12), 0.1)
    for run in range(6):
        alone = strength.calibrate(H[run], a[run], 0.1)
        assert float(together.eta.reshape(-1)[run]) == pytest.approx(float(alone.eta), rel=1e-6)
        assert float(together.kappa_after.reshape(-1)[run]) == pytest.approx(
            float(alone.kappa_after), rel=KAPPA_ACCURACY
        )


def test_the_first_crossing_is_taken_where_kappa_is_not_monotone():
    """κ(η) dips below its target, rises and falls again: three crossings, of which the paper's grid meets the first.

    The first and the third point have weak priors, so η lifts both: first the lowest eigenvalue, which helps, then the
    third one over the top, which does not; the other two follow only at the very end.
    """
    H = np.diag([1.0, 50.0, 90.0, 100.0])
    a = np.array([1e-4, 1e9, 1e-4, 1e9])
    target_exponent = 0.17
    target = calibration.condition_number(H) ** (1.0 - target_exponent)
    meets = [calibration.condition_number(calibration.corrected(H, a, eta)) <= target for eta in np.logspace(-6, 8, 60)]
    found = ours(H, a, target_exponent)
    assert np.abs(np.diff(np.array(meets, dtype=int))).sum() == 3, "below, above and below the target again"
    assert float(found.eta) == pytest.approx(calibration.calibrate(H, a, target_exponent), rel=1e-5)


@pytest.mark.parametrize(
    ("spectrum", "prior", "target_exponent", "first"),
    [
        ([-1.3, -0.7, 0.9], [4.8, 7.3, 4.0], 0.2, 78.95),
        ([0.9, 1.3, 1.1, 1.4], [1.4, -5.0, 7.9, 3.7], 0.1, 8.534),
    ],
)
def test_a_later_crossing_is_not_taken_for_the_first(spectrum, prior, target_exponent, first):
    """Powers of ten for which the search's own steps end at a crossing thousands of times further out."""
    H, a = np.diag(10.0 ** np.array(spectrum)), 10.0 ** np.array(prior)
    expected = calibration.calibrate(H, a, target_exponent)
    assert expected == pytest.approx(first, rel=1e-3)
    found = ours(H, a, target_exponent)
    assert float(found.eta) == pytest.approx(expected, rel=1e-5)
    assert float(found.kappa_after) == pytest.approx(
        calibration.condition_number(H) ** (1.0 - target_exponent), rel=3e-6
    )


@pytest.mark.parametrize("seed", range(40))
def test_diagonal_hessians_with_arbitrary_priors_are_calibrated_as_the_paper_says(seed):
    """Eigenvalues and priors drawn apart from each other: κ(η) may rise before it falls, or never meet its target."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    H, a = np.diag(10.0 ** rng.uniform(-2, 3, n)), 10.0 ** rng.uniform(-4, 10, n)
    target_exponent = float(rng.uniform(0.02, 0.6))
    expected, found = calibration.calibrate(H, a, target_exponent), ours(H, a, target_exponent)
    assert bool(found.found) == bool(np.isfinite(expected))
    if np.isfinite(expected):
        assert float(found.eta) == pytest.approx(expected, rel=1e-4)


def test_no_crossing_on_the_grid_is_reported():
    """Priors so strong that even η = 1e8 adds only 1e-4 to a spectrum from 100 to 1e12."""
    H, a = np.diag([1e2, 1e12]), np.full(2, 1e20)
    assert np.isnan(calibration.calibrate(H, a, 0.1))
    found = ours(H, a)
    assert not bool(found.found)
    assert bool(found.eta.isnan())


def test_a_perfect_spectrum_needs_no_correction():
    found = ours(np.eye(5) * 3.0, np.ones(5))
    assert bool(found.found)
    assert float(found.eta) == pytest.approx(calibration.calibrate(np.eye(5) * 3.0, np.ones(5), 0.1), abs=2e-6)
    assert float(found.kappa_before) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_smallest_problems_are_calibrated(n):
    H, a, _ = problem(n, n=max(n, 2), m=3)
    H, a = H[:n, :n], a[:n]
    found = ours(H, a)
    assert bool(found.found)
    target = calibration.condition_number(H) ** 0.9
    assert calibration.condition_number(calibration.corrected(H, a, float(found.eta))) == pytest.approx(
        target, rel=3e-6
    )


def test_single_precision_input_is_calibrated_in_double():
    H, a, _ = problem(1)
    single = strength.calibrate(torch.as_tensor(H).float(), torch.as_tensor(a).float(), 0.1)
    exact = ours(torch.as_tensor(H).float().double(), torch.as_tensor(a).float().double())
    assert single.eta.dtype is torch.float32
    assert float(single.eta) == pytest.approx(float(exact.eta), rel=1e-6)
    assert float(single.kappa_after) == pytest.approx(float(exact.kappa_after), rel=1e-6)


def test_an_indefinite_hessian_is_never_called_calibrated():
    """A negative eigenvalue leaves no condition number, so no η* may be reported as found; its neighbour has one."""
    good = np.diag([1.0, 10.0, 100.0])
    H = torch.as_tensor(np.stack([np.diag([-1e-3, 1.0, 100.0]), good]))
    found = strength.calibrate(H, torch.ones(2, 3), 0.1)
    assert float(found.eta[1]) == pytest.approx(calibration.calibrate(good, np.ones(3), 0.1), rel=1e-5)
    assert found.found.tolist() == [False, True]


def test_a_hessian_with_nan_is_never_called_calibrated_and_stops_no_other():
    good = np.diag([1.0, 10.0, 100.0])
    H = torch.as_tensor(np.stack([good, good]))
    H[0, 1, 1] = torch.nan
    found = strength.calibrate(H, torch.ones(2, 3), 0.1)
    assert found.found.tolist() == [False, True]
    assert float(found.eta[1]) == pytest.approx(calibration.calibrate(good, np.ones(3), 0.1), rel=1e-5)


def test_failed_certificates_fall_back_to_dense_eigenvalues_and_are_counted(monkeypatch):
    H, a, _ = problem(0)
    monkeypatch.setenv(launch.SWITCH, "0")
    usual = ours(H, a)
    assert int(usual.fallbacks) == 0
    monkeypatch.setattr(eigenvalues, "certify_low", lambda M, low, high: torch.zeros_like(low, dtype=torch.bool))
    refused = ours(H, a)
    assert int(refused.fallbacks) >= 1
    assert float(refused.eta) == pytest.approx(float(usual.eta), rel=1e-5)


def test_an_unproved_first_crossing_is_done_by_definition(monkeypatch):
    H, a, _ = problem(0)
    monkeypatch.setenv(launch.SWITCH, "0")
    monkeypatch.setattr(strength._Search, "_is_first", lambda self, eta: torch.zeros_like(eta, dtype=torch.bool))
    found = ours(H, a)
    assert int(found.fallbacks) == 1
    assert float(found.eta) == pytest.approx(calibration.calibrate(H, a, 0.1), rel=1e-6)


def test_prior_weighted_is_the_formula():
    eta, a = torch.tensor([0.5, 2.0]), torch.tensor([[1.0, 3.0, 0.0], [1.0, 10.0, 1e6]])
    expected = [[0.25 / 1.5, 0.25 / 3.5, 0.5], [4.0 / 3.0, 4.0 / 12.0, 4.0 / (2.0 + 1e6)]]
    assert torch.allclose(strength.prior_weighted(eta, a), torch.tensor(expected), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("weights", [row for row in Weights if row not in (Weights.SPECTRAL, Weights.ALIGNED)])
def test_each_spread_is_its_formula(weights):
    eta, a = torch.tensor([0.5, 2.0]), torch.tensor([[1.0, 3.0, 0.0], [1.0, 10.0, 1e6]])
    paper = strength.prior_weighted(eta, a)
    expected = {
        Weights.NONE: torch.zeros(2, 3),
        Weights.PRIOR_WEIGHTED: paper,
        Weights.UNIFORM: torch.tensor([[0.5] * 3, [2.0] * 3]),
        Weights.TRACE_MATCHED: paper.sum(-1, keepdim=True) / 3.0 * torch.ones(3),
    }[weights]
    r = strength.spread(weights, eta, a)
    assert torch.allclose(r, expected, rtol=1e-14, atol=0.0)


def test_the_matched_trace_is_the_papers_trace():
    H, a, _ = problem(3)
    eta = ours(H, a).eta
    paper = strength.spread(Weights.PRIOR_WEIGHTED, eta, torch.as_tensor(a))
    matched = strength.spread(Weights.TRACE_MATCHED, eta, torch.as_tensor(a))
    assert float(matched.sum()) == pytest.approx(float(paper.sum()), rel=1e-13)
    assert float(matched.max() - matched.min()) == 0.0


def test_zero_strength_is_no_correction_for_any_weights():
    for weights in Weights:
        assert torch.equal(strength.spread(weights, torch.zeros(2), torch.ones(2, 3)), torch.zeros(2, 3))


def test_the_precision_is_the_dense_one():
    H, a, twin = problem(2)
    H_lik = H - np.linalg.inv(twin.K)
    ours_H, ours_a, usable = strength.precision(torch.as_tensor(twin.K), torch.as_tensor(H_lik))
    assert bool(usable)
    assert np.allclose(ours_H.numpy(), H, rtol=1e-9, atol=1e-9)
    assert np.allclose(ours_a.numpy(), a, rtol=1e-9, atol=0.0)


def test_a_covariance_that_is_not_positive_definite_is_marked_and_its_neighbours_are_not():
    good = dense.prior_covariance("rbf", answered(0, 4, 1, 2).X, np.full(2, 0.4), 1.0, 1e-3)
    indefinite = np.eye(4)
    indefinite[0, 1] = indefinite[1, 0] = 2.0
    K = torch.as_tensor(np.stack([good, np.ones((4, 4)), indefinite, good]))
    H, a, usable = strength.precision(K, torch.zeros(4, 4, 4))
    assert usable.tolist() == [True, False, False, True]
    assert bool(H.isfinite().all())
    assert np.allclose(H[3].numpy(), np.linalg.inv(good), rtol=1e-9, atol=1e-9)
    assert torch.equal(a[0], H[0].diagonal())
