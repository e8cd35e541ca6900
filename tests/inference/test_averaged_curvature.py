"""The averaged curvature: a fixed point, the plain one where the posterior is narrow, alive where it saturates."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from kappasharp.inference import comparison_space, laplace, likelihood


def exact_mean(z, variance):
    """E ω(y) for y ~ N(z, variance), by adaptive quadrature."""

    def integrand(y):
        omega = float(likelihood.curvature(torch.tensor([y])).omega)
        return omega * stats.norm.pdf(y, z, np.sqrt(variance))

    reach = 12 * np.sqrt(variance)
    return integrate.quad(integrand, z - reach, z + reach, points=[0.0, z], limit=400)[0]


@pytest.mark.parametrize(("prior", "z"), [(0.5, 0.3), (4.0, 1.0), (4.0, 4.0), (50.0, 9.0), (50.0, 14.0)])
def test_one_answer_reaches_the_fixed_point_of_its_equation(prior, z):
    A = torch.tensor([[[prior]]])
    omega = float(comparison_space.averaged_omega(A, torch.tensor([[z]]), 0.0))
    variance = prior / (1.0 + prior * omega)
    # 24 nodes see the step of ω at zero only coarsely when it lies two deviations out.
    assert omega == pytest.approx(exact_mean(z, variance), rel=0.15 if z > 10 else 0.03)


def test_a_narrow_posterior_gives_the_curvature_at_the_map():
    A = 1e-8 * torch.eye(3).expand(1, 3, 3)
    z = torch.tensor([[-1.0, 0.0, 2.0]])
    assert torch.allclose(comparison_space.averaged_omega(A, z, 0.0), likelihood.sites(z).omega, rtol=1e-6)


def test_an_expected_answer_still_informs_where_the_posterior_reaches_across():
    A, z = torch.tensor([[[72.0]]]), torch.tensor([[14.0]])
    plain = float(likelihood.sites(z).omega)
    assert plain < 1e-30
    assert float(comparison_space.averaged_omega(A, z, 0.0)) > 1e-3


def test_ties_and_batches_are_averaged_like_single_answers():
    A = torch.diag_embed(torch.tensor([[3.0, 8.0], [20.0, 1.0]]))
    z = torch.tensor([[0.5, 2.0], [6.0, -1.0]])
    ties = torch.tensor([[True, False], [False, True]])
    together = comparison_space.averaged_omega(A, z, 0.7, ties)
    for run in range(2):
        for place in range(2):
            alone = comparison_space.averaged_omega(
                A[run, place, place].reshape(1, 1, 1), z[run, place].reshape(1, 1), 0.7, ties[run, place].reshape(1, 1)
            )
            assert float(alone) == pytest.approx(float(together[run, place]), rel=1e-9)
    assert bool((together > 0).all())


@pytest.mark.parametrize("scale", [2.0, 30.0, 300.0])
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_with_many_answers_two_rounds_less_end_nearer_to_the_fixed_point(monkeypatch, scale, spread):
    """Answers that share a few directions, each with some of its own beside them, and some ties."""
    generator = torch.Generator().manual_seed(0)
    F = torch.randn(2, 80, 12, generator=generator, dtype=torch.float64)
    A = scale * (F @ F.mT / 12 + 0.05 * torch.eye(80))
    z = spread * torch.randn(2, 80, generator=generator, dtype=torch.float64)
    ties = torch.arange(80).expand(2, -1) % 9 == 0
    few = comparison_space.averaged_omega(A, z, 0.4, ties)
    with monkeypatch.context() as change:
        change.setattr(laplace, "AVERAGING_ROUNDS", 60)
        fixed = comparison_space.averaged_omega(A, z, 0.4, ties)
    monkeypatch.setattr(laplace, "MANY", 0)
    many = comparison_space.averaged_omega(A, z, 0.4, ties)
    gaps = [(found / fixed).log().abs() for found in (few, many)]
    assert laplace.LONG_ROUNDS == laplace.AVERAGING_ROUNDS - 2
    assert float(gaps[1].max()) < 0.03 and float(gaps[1].mean()) < min(0.001, 0.1 * float(gaps[0].mean()))


def test_the_secant_has_a_derivative_where_an_answer_moved_nothing(monkeypatch):
    monkeypatch.setattr(laplace, "MANY", 0)
    A = torch.diag_embed(torch.tensor([[3.0, 1e-9, 0.0]], dtype=torch.float64))
    z = torch.tensor([[0.5, 2.0, 40.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(comparison_space.averaged_omega(A, z, 0.4).sum(), z)
    assert bool(slope.isfinite().all())
