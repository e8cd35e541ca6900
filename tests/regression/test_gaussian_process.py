"""Regression of outcomes: a dense twin, finite differences, what is recovered, and values that are missing or wrong."""

import math

import numpy as np
import pytest
import torch
from torch.quasirandom import SobolEngine

from kappasharp.regression import gaussian_process
from kappasharp.regression.gaussian_process import (
    FLOOR,
    Measured,
    NegativeLogDensity,
    fit,
    gather,
    log_evidence,
    predict,
)


def sobol(n, d, seed=0):
    return SobolEngine(d, scramble=True, seed=seed).draw(n, dtype=torch.float64)


def normals(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def smooth(X):
    """Three outcomes of very different units."""
    x = X.T
    return torch.stack([torch.sin(4 * x[0]) + x[1] ** 2, 1e4 * (x[0] - 0.3) * x[1] - 7e5, 1e-6 * torch.exp(x[1])], -1)


def dense_kernel(A, B, lengthscale, s):
    """Matérn-5/2, written down."""
    r = np.sqrt((((A[:, None, :] - B[None, :, :]) / lengthscale) ** 2).sum(-1))
    return s * (1 + math.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-math.sqrt(5) * r)


def dense(X, y, theta, new):
    """Mean, deviation and log evidence by the textbook, with explicit inverses, for one outcome."""
    lengthscale, s, noise = np.exp(theta[:-2]), np.exp(theta[-2]), np.exp(theta[-1])
    K = dense_kernel(X, X, lengthscale, s) + noise * np.eye(len(X))
    k, inverse = dense_kernel(new, X, lengthscale, s), np.linalg.inv(K)
    variance = s - np.einsum("ij,jk,ik->i", k, inverse, k)
    evidence = -0.5 * y @ inverse @ y - 0.5 * np.linalg.slogdet(K)[1] - 0.5 * len(y) * math.log(2 * math.pi)
    return k @ inverse @ y, np.sqrt(variance), evidence


def with_gaps(Y, seed=3):
    holes = torch.rand(Y.shape, generator=torch.Generator().manual_seed(seed)) < 0.25
    return torch.where(holes, torch.nan, Y)


@pytest.mark.parametrize("gaps", [False, True])
def test_predictions_are_the_textbook_s(gaps):
    X, new = sobol(18, 2), sobol(9, 2, seed=5)
    Y = smooth(X) + normals(18, 3) * torch.tensor([0.05, 10.0, 1e-8])
    Y = with_gaps(Y) if gaps else Y
    found = fit(X, Y)
    mean, deviation = predict(found, new)
    for j in range(3):
        there = Y[:, j].isfinite()
        centre, spread = found.centre[j].item(), found.spread[j].item()
        y = (Y[there, j].numpy() - centre) / spread
        wanted, spread_wanted, _ = dense(X[there].numpy(), y, found.theta[j].numpy(), new.numpy())
        np.testing.assert_allclose(mean[:, j].numpy(), wanted * spread + centre, rtol=1e-7)
        np.testing.assert_allclose(deviation[:, j].numpy(), spread_wanted * spread, rtol=1e-6)
    assert bool(found.converged.all()) and bool((found.gradient_norm < 0.05).all())
    assert bool((found.kept == Y.isfinite()).all())


@pytest.mark.parametrize("seed", range(4))
def test_evidence_and_its_gradient(seed):
    """Against the dense formula, and against differences of itself; rows where values are missing among them."""
    X = sobol(12, 3, seed=seed)
    y, present = normals(2, 12, seed=seed), torch.ones(2, 12, dtype=torch.bool)
    present[1, [2, 5, 11]] = False
    data = Measured(X.expand(2, 12, 3), torch.where(present, y, 0.0), present, torch.zeros(2, 12))
    theta = normals(2, 5, seed=seed + 10) * 0.7 - torch.tensor([1.0, 1.0, 1.0, 0.0, 3.0])
    value, gradient = log_evidence(data, theta)
    for row in range(2):
        there = present[row].numpy()
        evidence = dense(X.numpy()[there], y[row].numpy()[there], theta[row].numpy(), X.numpy())[2]
        assert value[row].item() == pytest.approx(evidence, rel=1e-9)
    whole, slope = NegativeLogDensity(data)(theta)
    assert bool(whole.isfinite().all())
    for i in range(5):
        step = torch.zeros(5)
        step[i] = 1e-5
        difference = (log_evidence(data, theta + step)[0] - log_evidence(data, theta - step)[0]) / 2e-5
        torch.testing.assert_close(gradient[:, i], difference, rtol=1e-5, atol=1e-6)
        ends = [NegativeLogDensity(data)(theta + sign * step)[0] for sign in (1, -1)]
        torch.testing.assert_close(slope[:, i], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n", "d", "error"), [(12, 1, 0.03), (40, 2, 0.03), (80, 5, 0.12)])
def test_a_smooth_function_is_recovered(n, d, error):
    """To a few per cent of its own deviation, and with deviations that are neither boastful nor shy."""

    def outcomes(X):
        return torch.stack([torch.sin(3 * X).sum(-1), (X - 0.4).square().sum(-1)], -1)

    new = sobol(200, d, seed=9)
    found = fit(sobol(n, d), outcomes(sobol(n, d)))
    mean, deviation = predict(found, new)
    miss = mean - outcomes(new)
    assert bool((miss.square().mean(0).sqrt() < error * outcomes(new).std(0)).all())
    assert bool(((miss.abs() < 3 * deviation).double().mean(0) > 0.9).all())
    assert bool((found.noise < 0.03 * found.spread).all()) and bool(found.converged.all())


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.5])
def test_noise_is_recovered(noise):
    X = sobol(160, 2)
    Y = (smooth(X)[:, :1] + noise * normals(160, 6)) * 40.0
    found = fit(X, Y)
    assert (found.noise / 40.0).mean().item() == pytest.approx(noise, rel=0.1)
    mean, deviation = predict(found, X)
    z = (mean - 40.0 * smooth(X)[:, :1]) / deviation
    assert 0.5 < z.square().mean().sqrt().item() < 1.5


def test_known_noise_is_believed():
    X = sobol(30, 1)
    Y = torch.sin(5 * X) + 0.3 * normals(30, 1)
    known, sharp = fit(X, Y, noise=torch.tensor([0.3])), fit(X, Y, noise=torch.zeros(30, 1))
    assert known.theta[0, -1].item() == pytest.approx(math.log(FLOOR))
    grid = sobol(200, 1, seed=4)
    error = [(predict(each, grid)[0] - torch.sin(5 * grid)).square().mean().sqrt().item() for each in (known, sharp)]
    assert error[0] < 0.2 < error[1]
    # Standardised, the known variance stands where a learnt one would.
    theta = known.theta[0].clone()
    theta[-1] = (0.3 / known.spread[0]).square().add(FLOOR).log()
    y = (Y[:, 0] - known.centre) / known.spread
    mean, deviation, _ = dense(X.numpy(), y.numpy(), theta.numpy(), grid.numpy())
    torch.testing.assert_close(predict(known, grid)[0][:, 0], torch.tensor(mean) * known.spread + known.centre)
    torch.testing.assert_close(predict(known, grid)[1][:, 0], torch.tensor(deviation) * known.spread)


@pytest.mark.parametrize(("slip", "noise"), [(30.0, 0.0), (1e3, 0.1), (-1e9, 0.02)])
def test_a_slip_of_the_measurement_is_left_out(slip, noise):
    X, new = sobol(30, 2), sobol(100, 2, seed=8)
    Y = smooth(X)[:, :2] / torch.tensor([1.0, 1e4]) + noise * normals(30, 2)
    Y[7, 0] = slip
    found = fit(X, Y)
    left_out = (~found.kept).nonzero().tolist()
    assert left_out == [[7, 0]]
    truth = smooth(new)[:, :2] / torch.tensor([1.0, 1e4])
    assert bool(((predict(found, new)[0] - truth).square().mean(0).sqrt() < 0.1).all())


def test_steep_outcomes_have_no_slips():
    """Far from the median, and foreseen by their neighbours: the way this outcome is."""
    X = sobol(40, 1)
    Y = torch.cat([torch.exp(8 * X), 1 / (0.002 + (X - 0.5).square())], -1)
    assert bool(
        (((Y - Y.median(0).values) / gaussian_process.standard(Y)[1]).abs().amax(0) > gaussian_process.FAR).all()
    )
    assert bool(fit(X, Y).kept.all())


def test_a_few_values_are_all_kept():
    X = sobol(6, 1)
    Y = torch.tensor([[0.0], [0.1], [0.2], [0.1], [1e6], [0.0]])
    assert bool(fit(X, Y).kept.all())


def test_an_outcome_that_never_varies():
    X = sobol(10, 2)
    Y = torch.stack([torch.full((10,), 0.1), X[:, 0], torch.zeros(10)], -1)
    mean, deviation = predict(fit(X, Y), sobol(5, 2, seed=3))
    assert mean[:, 0].tolist() == [0.1] * 5 and mean[:, 2].tolist() == [0.0] * 5
    assert deviation[:, [0, 2]].tolist() == [[0.0, 0.0]] * 5 and bool((deviation[:, 1] > 0).all())


def test_most_values_alike():
    """The middle half has no width, and the outcome varies all the same."""
    X = sobol(20, 1)
    Y = (X - 0.8).clamp(min=0.0)
    found = fit(X, Y)
    assert found.spread.item() == pytest.approx(Y.std(correction=0).item())
    assert predict(found, torch.tensor([[0.97]]))[0].item() == pytest.approx(0.17, abs=0.03)


def test_the_same_design_again():
    """Many measurements of few designs: the means are kept, and the noise between them is learnt."""
    X = sobol(5, 2).repeat(12, 1)
    Y = X[:, :1] * 3 + 0.2 * normals(60, 1)
    found = fit(X, Y)
    mean, deviation = predict(found, X[:5])
    own = Y.reshape(12, 5).mean(0)
    assert found.noise.item() == pytest.approx(0.2, rel=0.25) and bool(found.converged.all())
    torch.testing.assert_close(mean[:, 0], own, rtol=0, atol=0.06)
    assert bool((deviation < 0.2 / math.sqrt(12) * 1.2).all())
    exact = fit(X, X[:, :1] * 3)
    assert bool(exact.converged.all()) and bool(predict(exact, X)[1].isfinite().all())


def test_a_batch_is_its_outcomes_one_by_one(monkeypatch):
    X = sobol(24, 2)
    Y = with_gaps(smooth(X))
    whole = fit(X, Y)
    monkeypatch.setattr(gaussian_process, "ELEMENTS", 2000)
    new = sobol(7, 2, seed=2)
    alone = [predict(fit(X, Y[:, j : j + 1]), new) for j in range(3)]
    for both, parts in zip(predict(whole, new), zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(both, torch.cat(parts, -1), rtol=1e-6, atol=1e-9)


def test_the_order_of_designs_does_not_matter():
    X, new = sobol(20, 2), sobol(7, 2, seed=2)
    Y = with_gaps(smooth(X))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(4))
    one, other = predict(fit(X, Y), new), predict(fit(X[order], Y[order]), new)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-9)


def test_units_do_not_matter():
    X, new = sobol(20, 2), sobol(7, 2, seed=2)
    Y = smooth(X)[:, :1]
    one, other = predict(fit(X, Y), new), predict(fit(X, Y * -1e5 + 3e4), new)
    torch.testing.assert_close(other[0], one[0] * -1e5 + 3e4, rtol=1e-5, atol=1.0)
    torch.testing.assert_close(other[1], one[1] * 1e5, rtol=1e-4, atol=1.0)


def test_two_designs_one_and_none():
    X = sobol(3, 4)
    nan = math.nan
    found = fit(X, torch.tensor([[1.0, 5.0, nan, 1.0], [2.0, nan, nan, math.inf], [nan, nan, nan, 3.0]]))
    assert found.converged.tolist() == [True, False, False, True]
    mean, deviation = predict(found, X)
    assert mean[:2, 0].tolist() == pytest.approx([1.0, 2.0], abs=0.1)
    assert mean[:, 1].tolist() == [5.0] * 3 and bool(mean[:, 2].isnan().all())
    assert found.kept.sum(0).tolist() == [2, 1, 0, 2] and bool((deviation[:, [0, 3]] > 0).all())


def test_leading_dimensions_and_blocks(monkeypatch):
    found = fit(sobol(10, 2), smooth(sobol(10, 2)))
    new = sobol(24, 2, seed=2)
    flat = predict(found, new)
    monkeypatch.setattr(gaussian_process, "ELEMENTS", 100)
    for got, wanted in zip(predict(found, new.reshape(2, 3, 4, 2)), flat, strict=True):
        assert got.shape == (2, 3, 4, 3)
        torch.testing.assert_close(got.reshape(-1, 3), wanted)
    assert predict(found, new[:0])[0].shape == (0, 3)


def test_many_values_are_searched_in_part_and_predicted_from_whole(monkeypatch):
    monkeypatch.setattr(gaussian_process, "SEARCHED", 20)
    X = sobol(60, 2)
    Y = smooth(X)
    Y[1:20:2, 1] = torch.nan
    found = fit(X, Y)
    assert found.searched_on.tolist() == [20] * 3
    part = gather(Measured(X.expand(3, 60, 2), Y.T.nan_to_num(), Y.T.isfinite(), torch.zeros(3, 60)), 20)
    assert bool(part.present.all()) and part.X[0].tolist() == X[::3].tolist()
    mean = predict(found, X)[0]
    there = Y.isfinite()
    torch.testing.assert_close(((mean - Y) / found.spread)[there], torch.zeros(int(there.sum())), rtol=0, atol=0.02)
