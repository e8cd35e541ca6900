"""Wins and ties: probabilities that sum to one, and three derivatives against differences, mpmath and log-concavity."""

import numpy as np
import pytest
import torch

from kappasharp.inference import likelihood
from tests.reference import dense, exact

MARGINS = [0.0, 1e-6, 0.05, 0.5, 2.0]
PRECISIONS = [torch.float64, torch.float32]


def all_ties(z):
    return torch.ones_like(z, dtype=torch.bool)


@pytest.mark.parametrize("margin", [1e-6, 0.05, 0.5, 2.0, 5.0])
def test_win_tie_and_loss_sum_to_one(margin):
    z = torch.linspace(-9.0, 9.0, 73)
    win, loss = likelihood.log_probability(z, margin).exp(), likelihood.log_probability(-z, margin).exp()
    tie = likelihood.log_probability(z, margin, all_ties(z)).exp()
    assert torch.allclose(win + tie + loss, torch.ones_like(z), rtol=0.0, atol=3e-15)


def test_without_a_margin_win_and_loss_sum_to_one():
    z = torch.linspace(-9.0, 9.0, 73)
    total = likelihood.log_probability(z).exp() + likelihood.log_probability(-z).exp()
    assert torch.allclose(total, torch.ones_like(z), rtol=0.0, atol=3e-15)


def test_the_scales_are_those_of_the_paper():
    probit = likelihood.Probit(noise=0.1, threshold=0.05)
    assert probit.scale == pytest.approx(0.1 * np.sqrt(2.0), rel=1e-15)
    assert probit.margin == pytest.approx(0.05 / (0.1 * np.sqrt(2.0)), rel=1e-15)


@pytest.mark.parametrize("margin", MARGINS)
def test_values_and_derivatives_are_the_dense_twins(margin):
    z = np.linspace(-6.0, 6.0, 49)
    is_tie = (np.arange(49) % 3 == 0) & (margin > 1e-3)
    expected = dense.answers(z, margin, is_tie)
    ours = torch.as_tensor(z), margin, torch.as_tensor(is_tie)
    sites = likelihood.sites(*ours)
    assert np.allclose(likelihood.log_probability(*ours).numpy(), expected.log_p, rtol=1e-11, atol=1e-13)
    assert np.allclose(sites.slope.numpy(), expected.slope, rtol=1e-10, atol=1e-12)
    assert np.allclose(sites.omega.numpy(), expected.omega, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("step", [1e-2, 1e-3])
@pytest.mark.parametrize("margin", MARGINS)
def test_derivatives_are_limits_of_differences(margin, step, ties):
    """Central differences are wrong by h²/6 of the next derivative but one, below 1 here, and by rounding, ε/h."""
    z = torch.linspace(-9.0, 9.0, 41)
    mask = all_ties(z) if ties and margin else None
    low, high = z - step, z + step

    def difference(values):
        return (values(high) - values(low)) / (2.0 * step)

    found, curve = likelihood.sites(z, margin, mask), likelihood.curvature(z, margin, mask)
    allowed = 0.5 * step**2 + 1e-12 / step
    by_value = difference(lambda t: likelihood.log_probability(t, margin, mask))
    by_slope = difference(lambda t: likelihood.sites(t, margin, mask).slope)
    by_omega = difference(lambda t: likelihood.curvature(t, margin, mask).omega)
    assert float((found.slope - by_value).abs().max()) <= allowed
    assert float((found.omega + by_slope).abs().max()) <= allowed
    assert float((curve.omega * curve.log_slope - by_omega).abs().max()) <= allowed


@pytest.mark.parametrize("ties", [False, True])
def test_both_forms_of_omega_agree(ties):
    z = torch.linspace(-30.0, 9.0, 79)
    mask = all_ties(z) if ties else None
    assert torch.allclose(
        likelihood.sites(z, 0.4, mask).omega, likelihood.curvature(z, 0.4, mask).omega, rtol=3e-13, atol=0.0
    )


@pytest.mark.parametrize("margin", [1e-6, 0.01, 0.3, 2.0])
def test_a_tie_agrees_with_mpmath_far_out(margin):
    """|z| up to 30, so |z| · margin reaches the 60 that the quadrature is made for. Third derivative: absolute."""
    z = torch.tensor([-30.0, -12.0, -3.0, -0.25, 0.0, 0.25, 3.0, 12.0, 30.0])
    truth = [exact.tie(float(value), margin) for value in z]
    sites, curve = likelihood.sites(z, margin, all_ties(z)), likelihood.curvature(z, margin, all_ties(z))
    ours = {
        "log_p": likelihood.log_probability(z, margin, all_ties(z)),
        "slope": sites.slope,
        "omega": sites.omega,
        "third": -curve.omega * curve.log_slope,
    }
    for name, rtol, atol in (
        ("log_p", 1e-13, 0.0),
        ("slope", 1e-13, 1e-14),
        ("omega", 1e-12, 0.0),
        ("third", 1e-10, 1e-14),
    ):
        expected = torch.tensor([row[name] for row in truth])
        assert torch.allclose(ours[name], expected, rtol=rtol, atol=atol), name


@pytest.mark.parametrize("margin", [0.0, 0.5, 4.0])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 2e-12), (torch.float32, 1e-3)])
def test_a_win_agrees_with_mpmath_far_out(margin, dtype, rtol):
    """What a Newton step uses, ψ(ψ + z), loses digits like z²ε in the lower tail: at −40 float32 keeps three."""
    z = torch.tensor([-36.0, -20.0, -8.0, -1.0, 0.0, 2.0, 8.0], dtype=dtype)
    truth = [exact.normal(float(value - margin)) for value in z]
    sites = likelihood.sites(z, margin)
    for ours, name in (
        (likelihood.log_probability(z, margin), "log_cdf"),
        (sites.slope, "psi"),
        (sites.omega, "curvature"),
    ):
        expected = torch.tensor([row[name] for row in truth], dtype=dtype)
        assert torch.allclose(ours, expected, rtol=rtol, atol=0.0), name


@pytest.mark.parametrize("margin", [1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_tie_with_a_tiny_margin_is_an_observed_zero(margin, dtype):
    """As the margin goes to zero a tie says y = 0: slope −z, ω = 1, log p = log φ(z) + log(2 margin)."""
    z = torch.linspace(-6.0, 6.0, 25, dtype=dtype)
    allowed = margin + 100 * torch.finfo(dtype).eps
    sites = likelihood.sites(z, margin, all_ties(z))
    assert torch.allclose(sites.slope, -z, rtol=allowed, atol=allowed)
    assert torch.allclose(sites.omega, torch.ones_like(z), rtol=allowed, atol=0.0)
    limit = -0.5 * z.square() - 0.5 * np.log(2.0 * np.pi) + np.log(2.0 * margin)
    assert torch.allclose(
        likelihood.log_probability(z, margin, all_ties(z)), limit, rtol=1e-4 * margin + allowed, atol=20 * allowed
    )


def test_a_tie_is_symmetric_in_who_is_named_first():
    z = torch.linspace(0.0, 20.0, 41)
    left, right = (likelihood.sites(side, 0.7, all_ties(z)) for side in (z, -z))
    assert torch.allclose(left.slope, -right.slope, rtol=1e-13, atol=1e-15)
    assert torch.allclose(left.omega, right.omega, rtol=1e-13, atol=0.0)


def test_wins_and_ties_in_one_batch_do_not_touch_each_other():
    z = torch.linspace(-5.0, 5.0, 12)
    mask = torch.arange(12) % 2 == 0
    mixed = likelihood.sites(z, 0.3, mask)
    assert torch.equal(mixed.slope[~mask], likelihood.sites(z[~mask], 0.3).slope)
    assert torch.equal(mixed.omega[mask], likelihood.sites(z[mask], 0.3, all_ties(z[mask])).omega)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("margin", [0.01, 1.0, 4.0])
def test_every_answer_is_log_concave(margin, ties, dtype):
    z = torch.linspace(-40.0, 10.0, 401, dtype=dtype)
    mask = all_ties(z) if ties else None
    for omega in (likelihood.sites(z, margin, mask).omega, likelihood.curvature(z, margin, mask).omega):
        assert bool((omega >= 0).all())
        assert bool((omega <= 1 + 1e-3 * (dtype is torch.float32)).all())


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("margin", [6.0, 8.0, 9.0, 10.0, 12.0, 20.0])
def test_a_tie_with_a_wide_margin_is_still_log_concave_and_finite(margin, dtype):
    """noise 0.1 with a threshold of 1 is a margin of 7; ω then is nearly 0 in the middle, but never below it."""
    z = torch.linspace(-1.5 * margin, 1.5 * margin, 121, dtype=dtype)
    sites, curve = likelihood.sites(z, margin, all_ties(z)), likelihood.curvature(z, margin, all_ties(z))
    assert bool((sites.omega >= 0).all()), f"smallest ω {float(sites.omega.min()):.1e}"
    assert bool(curve.log_slope.isfinite().all())


@pytest.mark.parametrize("margin", [6.0, 10.0, 20.0])
def test_a_tie_with_a_wide_margin_agrees_with_mpmath(margin):
    """Double precision, absolute errors below 1e-9: log p and ω go to zero in the middle."""
    z = torch.linspace(-1.5 * margin, 1.5 * margin, 13)
    truth = [exact.tie(float(value), margin) for value in z]
    sites = likelihood.sites(z, margin, all_ties(z))
    for ours, name in (
        (likelihood.log_probability(z, margin, all_ties(z)), "log_p"),
        (sites.slope, "slope"),
        (sites.omega, "omega"),
    ):
        expected = torch.tensor([row[name] for row in truth])
        assert float((ours - expected).abs().max()) <= 1e-9, name


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_hopeless_answer_never_has_negative_curvature(dtype):
    """ψ + z rounds to the spacing of z itself, which float32 reaches near z = −3000; a Newton step takes ω^½."""
    z = -torch.logspace(1.0, 5.0, 200, dtype=dtype)
    assert bool((likelihood.curvature(z).omega >= 0).all())
    omega = likelihood.sites(z).omega
    assert bool((omega >= 0).all()), f"smallest ω {float(omega.min()):.1e}"
