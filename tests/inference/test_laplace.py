"""The MAP against dense Newton and closed forms, and a certificate that never lies."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from kappasharp.correction import newton_steps
from kappasharp.inference import comparisons, laplace, likelihood
from kappasharp.inference.likelihood import Probit, Sites
from kappasharp.native import launch
from tests.reference import dense
from tests.reference.data import answered

# The certificate allows an error of √ε in the dual weights, usually undercut by far: the last Newton step squares it.
TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3}
# (n, m, d, noise): more points than answers, and fewer; weak and strong signal.
SHAPES = [(12, 5, 2, 1.0), (6, 25, 2, 1.0), (9, 9, 1, 0.1), (15, 40, 4, 0.3)]


def case(n, m, d, noise, *, seed=0, threshold=0.0, lengthscale=0.4, outputscale=2.0, nugget=1e-4):
    """K, C and the likelihood, ours and the dense twin's."""
    data = answered(seed + n + m, n, m, d, threshold=threshold)
    probit = Probit(noise, threshold)
    K = dense.prior_covariance("rbf", data.X, np.full(d, lengthscale), outputscale, nugget)
    is_tie = data.is_tie if threshold else None
    twin = dense.Problem(K, dense.incidence(data.pairs, n), probit.scale, probit.margin, is_tie)
    C = comparisons.incidence(torch.as_tensor(data.pairs), n)
    return torch.as_tensor(K), C, probit, twin


def ties_of(twin):
    return None if twin.is_tie is None else torch.as_tensor(twin.is_tie)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
@pytest.mark.parametrize(("n", "m", "d", "noise"), SHAPES)
def test_the_map_is_that_of_dense_newton(n, m, d, noise, threshold, corrected):
    K, C, probit, twin = case(n, m, d, noise, threshold=threshold)
    r = np.random.default_rng(n).uniform(0.0, 3.0, n) * (np.arange(n) % 3 > 0) if corrected else 0.0
    twin = twin._replace(r=r)
    fit = laplace.find_map(K, C, probit, r=torch.as_tensor(r) if corrected else None, ties=ties_of(twin))
    assert bool(fit.dual.converged)
    f = dense.find_map(twin)
    assert np.allclose(fit.f.numpy(), f, rtol=0.0, atol=1e-7)
    assert np.allclose(fit.beta.numpy(), np.linalg.solve(twin.K, f), rtol=1e-6, atol=1e-5)
    assert np.allclose(fit.dual.z.numpy(), twin.C @ f / twin.scale, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(("n", "m", "d", "noise"), SHAPES)
def test_the_gradient_vanishes_at_the_map(n, m, d, noise, corrected):
    """∇J = (K⁻¹ + R) f − Cᵀ slope/(σ√2), written out densely; and J rises in every direction from there."""
    K, C, probit, twin = case(n, m, d, noise)
    r = np.full(n, 0.7) if corrected else np.zeros(n)
    f = laplace.find_map(K, C, probit, r=torch.as_tensor(r)).f.numpy()
    precision = np.linalg.inv(twin.K) + np.diag(r)
    slope = dense.wins(twin.C @ f / twin.scale).slope
    assert np.abs(precision @ f - twin.C.T @ slope / twin.scale).max() <= 1e-6 / twin.scale
    lowest = dense.objective(twin, f, precision)
    for direction in np.random.default_rng(0).standard_normal((5, n)):
        assert dense.objective(twin, f + 1e-3 * twin.K @ direction, precision) > lowest


def test_without_correction_r_is_zero():
    K, C, probit, _ = case(9, 9, 1, 0.1)
    plain, zero = laplace.find_map(K, C, probit), laplace.find_map(K, C, probit, r=torch.zeros(9))
    assert torch.allclose(plain.f, zero.f, rtol=0.0, atol=1e-12)
    assert torch.allclose(plain.beta, zero.beta, rtol=1e-9, atol=1e-9)


def with_duplicates(n, m):
    """Every point stands twice: K is singular exactly, nugget 0."""
    data = answered(5, n, m, 2)
    X = np.concatenate([data.X, data.X])
    pairs = data.pairs.copy()
    pairs[::2, 0] += n
    pairs[::3, 1] += n
    return X, pairs, data


@pytest.mark.parametrize("strength", [0.0, 0.8])
def test_a_singular_covariance_has_its_map_all_the_same(strength):
    """Without a nugget, twins of a point share one utility: the MAP is that of the merged points, found without K⁻¹."""
    X, pairs, data = with_duplicates(7, 12)
    lengthscale = np.full(2, 0.4)
    K = torch.as_tensor(dense.kernel("rbf", X, X, lengthscale, 2.0))
    assert np.linalg.matrix_rank(K.numpy()) == 7
    fit = laplace.find_map(
        K, comparisons.incidence(torch.as_tensor(pairs), 14), Probit(), r=torch.full((14,), strength)
    )
    # Two copies carry r each, so the merged point carries 2r.
    small = dense.Problem(
        dense.kernel("rbf", data.X, data.X, lengthscale, 2.0), dense.incidence(data.pairs, 7), r=2.0 * strength
    )
    f = dense.find_map(small)
    assert bool(fit.dual.converged)
    assert np.allclose(fit.f.numpy(), np.concatenate([f, f]), rtol=0.0, atol=1e-7)
    whole = dense.Problem(K.numpy(), dense.incidence(pairs, 14), r=strength)
    assert np.allclose(fit.f.numpy(), dense.find_map_of_singular(whole), rtol=0.0, atol=1e-6)
    # β is not unique then, but K β must be f.
    assert torch.allclose(K @ fit.beta, fit.f, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("repeats", [1, 30])
def test_contradictory_cycles_are_settled(repeats):
    """a over b, b over c, c over a, again and again: all equal, as K and the answers are symmetric in them."""
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    K = torch.as_tensor(dense.prior_covariance("rbf", X, np.full(2, 0.5), 50.0, 1e-6))
    pairs = torch.tensor([[0, 1], [1, 2], [2, 0]]).repeat(repeats, 1)
    fit = laplace.find_map(K, comparisons.incidence(pairs, 3), Probit(0.1))
    assert bool(fit.dual.converged)
    assert torch.allclose(fit.f, torch.zeros(3), rtol=0.0, atol=1e-7)


def test_a_broken_cycle_is_the_dense_twins():
    data = answered(3, 5, 8, 2)
    pairs = np.concatenate([data.pairs, data.pairs[:6, ::-1], [[0, 1], [1, 2], [2, 0], [0, 1]]])
    K = dense.prior_covariance("rbf", data.X, np.full(2, 0.3), 30.0, 1e-6)
    fit = laplace.find_map(torch.as_tensor(K), comparisons.incidence(torch.as_tensor(pairs), 5), Probit(0.2))
    expected = dense.find_map(dense.Problem(K, dense.incidence(pairs, 5), 0.2 * np.sqrt(2.0)))
    assert bool(fit.dual.converged)
    assert np.allclose(fit.f.numpy(), expected, rtol=0.0, atol=1e-7)


def test_a_warm_start_changes_nothing_but_the_path():
    K, C, probit, _ = case(15, 40, 4, 0.3)
    cold = laplace.find_map(K, C, probit)
    warm = laplace.find_map(K, C, probit, start=cold.dual.z)
    far = laplace.find_map(K, C, probit, start=torch.linspace(-6.0, 6.0, 40))
    assert int(warm.dual.iterations) < int(cold.dual.iterations)
    for other in (warm, far):
        assert torch.allclose(other.f, cold.f, rtol=0.0, atol=1e-7)


def test_newton_converges_quadratically(monkeypatch):
    """Each error is at most a constant times the square of the one before, until rounding; digits double."""
    K, C, probit, _ = case(15, 40, 4, 0.3)
    A = comparisons.congruence(C, K) / probit.scale**2
    visited = []
    sites = likelihood.sites

    def recorded(z, *rest):
        visited.append(z)
        return sites(z, *rest)

    monkeypatch.setattr(likelihood, "sites", recorded)
    final = laplace.solve(A, 0.0, torch.zeros(40)).z
    for _ in range(3):
        final = laplace.solve(A, 0.0, final).z
    errors = [float((z - final).abs().max()) for z in visited]
    # Below 1e-6 the square is lost in rounding.
    ratios = [after / before**2 for before, after in pairwise(errors) if 1e-6 < before < 1.0]
    assert len(ratios) >= 2
    assert max(ratios) <= 2.0


@pytest.mark.parametrize("plain", [1, 2])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_damped_path_ends_at_the_same_map(monkeypatch, shape, threshold, plain):
    K, C, probit, twin = case(*shape, threshold=threshold)
    usual = laplace.find_map(K, C, probit, ties=ties_of(twin))
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", plain)
    damped = laplace.find_map(K, C, probit, ties=ties_of(twin))
    assert int(damped.dual.iterations) > plain, "the damped path was not taken"
    assert bool(damped.dual.converged)
    assert torch.allclose(damped.f, usual.f, rtol=0.0, atol=1e-7)


def test_steps_are_halved_where_a_full_one_climbs(monkeypatch):
    """log p = −log cosh(z − 3) is nearly straight away from 3, so full Newton steps swing ever further out."""

    def sites(z, margin=0.0, ties=None):
        return Sites(-(z - 3.0).tanh(), (z - 3.0).cosh().pow(-2))

    def log_probability(z, margin=0.0, ties=None):
        return math.log(2.0) - torch.logaddexp(z - 3.0, 3.0 - z)

    monkeypatch.setattr(likelihood, "sites", sites)
    monkeypatch.setattr(likelihood, "log_probability", log_probability)
    fit = laplace.solve(torch.tensor([[1e4]]), 0.0, torch.zeros(1))
    assert int(fit.iterations) > laplace.PLAIN_ITERATIONS, "plain Newton was expected to fail here"
    assert bool(fit.converged)
    # α = −tanh(Aα − 3) has its root just below z = 3.
    assert float(fit.z) == pytest.approx(3.0, abs=1e-3)
    assert float(fit.alpha) == pytest.approx(-math.tanh(float(fit.z) - 3.0), abs=1e-7)


def test_with_gaussian_sites_the_map_is_the_closed_form(monkeypatch):
    """Were every answer a Gaussian observation y of z, f = K Cᵀ(C K Cᵀ + 2σ² I)⁻¹ σ√2 y, in one step."""
    K, C, probit, twin = case(9, 14, 2, 0.5)
    y = torch.as_tensor(np.random.default_rng(2).standard_normal(14))
    monkeypatch.setattr(likelihood, "sites", lambda z, margin=0.0, ties=None: Sites(y - z, torch.ones_like(z)))
    monkeypatch.setenv(launch.SWITCH, "0")  # kernels know no such answers
    for r in (np.zeros(9), np.linspace(0.0, 4.0, 9)):
        fit = laplace.find_map(K, C, probit, r=torch.as_tensor(r))
        K_r = np.linalg.inv(np.linalg.inv(twin.K) + np.diag(r))
        gain = K_r @ twin.C.T @ np.linalg.inv(twin.C @ K_r @ twin.C.T + twin.scale**2 * np.eye(14))
        assert int(fit.dual.iterations) == 1
        assert np.allclose(fit.f.numpy(), gain @ (twin.scale * y.numpy()), rtol=0.0, atol=1e-10)
    bent = newton_steps.find_map(K, C, probit, metric_r=torch.full((9,), 0.1))
    plain = laplace.find_map(K, C, probit)
    assert bool(bent.dual.converged)
    assert torch.allclose(bent.f, plain.f, rtol=0.0, atol=1e-6)


def test_a_run_with_nan_is_never_called_converged_and_stops_no_other():
    cases = [case(8, 10, 2, 0.5, seed=seed) for seed in (1, 2, 3)]
    A = torch.stack([comparisons.congruence(C, K) / probit.scale**2 for K, C, probit, _ in cases])
    alone = [laplace.solve(part, 0.0, torch.zeros(10)) for part in A]
    A[1, 4, 4] = torch.nan
    together = laplace.solve(A, 0.0, torch.zeros(3, 10))
    assert together.converged.tolist() == [True, False, True]
    for run in (0, 2):
        assert torch.allclose(together.z[run], alone[run].z, rtol=0.0, atol=1e-7)
        assert torch.allclose(together.alpha[run], alone[run].alpha, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf])
def test_an_infinite_covariance_is_never_called_converged(bad):
    A = torch.eye(4).repeat(2, 1, 1)
    A[0, 0, 0] = bad
    assert laplace.solve(A, 0.0, torch.zeros(2, 4)).converged.tolist() == [False, True]


def test_a_search_cut_short_says_so(monkeypatch):
    K, C, probit, twin = case(15, 40, 4, 0.1, outputscale=50.0)
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 1)
    monkeypatch.setattr(laplace, "DAMPED_ITERATIONS", 1)
    fit = laplace.find_map(K, C, probit)
    assert not bool(fit.dual.converged)
    assert float(fit.dual.gradient_norm) > laplace.tolerance(torch.float64)
    monkeypatch.setattr(newton_steps, "METRIC_ITERATIONS", 2)
    bent = newton_steps.find_map(K, C, probit, metric_r=torch.ones(15))
    assert not bool(bent.dual.converged)
    expected = dense.find_map(twin)
    assert np.abs(bent.f.numpy() - expected).max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("n", "m", "d", "noise"), SHAPES)
def test_the_certificate_is_the_gradient_itself(n, m, d, noise, dtype):
    """The norm reported is the largest entry of α − slope, which a dense evaluation in double precision confirms."""
    K, C, probit, _ = case(n, m, d, noise)
    dual = laplace.find_map(K.to(dtype), C, probit).dual
    slope = dense.wins(dual.z.double().numpy()).slope
    norm = np.abs(dual.alpha.double().numpy() - slope).max()
    assert float(dual.gradient_norm) == pytest.approx(norm, abs=100 * torch.finfo(dtype).eps)
    assert bool(dual.converged) == (float(dual.gradient_norm) <= laplace.tolerance(dtype))


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(("n", "m", "d", "noise"), SHAPES)
def test_single_precision_finds_the_same_map(n, m, d, noise, corrected):
    K, C, probit, twin = case(n, m, d, noise)
    r = np.full(n, 0.5) if corrected else np.zeros(n)
    fit = laplace.find_map(K.float(), C, probit, r=torch.as_tensor(r).float())
    assert fit.f.dtype is torch.float32
    assert bool(fit.dual.converged)
    assert np.allclose(fit.f.numpy(), dense.find_map(twin._replace(r=r)), rtol=0.0, atol=TOLERANCE[torch.float32])


def test_a_batch_equals_its_runs_one_by_one():
    cases = [case(9, 12, 2, 0.3, seed=seed, threshold=0.4) for seed in (10, 20, 30, 40)]
    K = torch.stack([part[0] for part in cases]).reshape(2, 2, 9, 9)
    pairs = torch.stack([part[1].pairs for part in cases]).reshape(2, 2, 12, 2)
    ties = torch.stack([ties_of(part[3]) for part in cases]).reshape(2, 2, 12)
    r = torch.linspace(0.0, 2.0, 36).reshape(2, 2, 9)
    probit = cases[0][2]
    together = laplace.find_map(K, comparisons.incidence(pairs, 9), probit, r=r, ties=ties)
    for i in range(2):
        for j in range(2):
            C = comparisons.incidence(pairs[i, j], 9)
            alone = laplace.find_map(K[i, j], C, probit, r=r[i, j], ties=ties[i, j])
            assert torch.allclose(together.f[i, j], alone.f, rtol=0.0, atol=1e-7)
            assert torch.allclose(together.beta[i, j], alone.beta, rtol=1e-6, atol=1e-6)


def test_a_run_that_needs_damping_leaves_the_others_alone(monkeypatch):
    """With one plain step allowed, the run that starts at its MAP is kept and the other one starts again, damped."""
    (K_a, C_a, probit, _), (K_b, C_b, _, twin_b) = (case(8, 10, 2, 0.3, seed=seed) for seed in (1, 2))
    easy = laplace.find_map(K_a, C_a, probit)
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 1)
    pairs = torch.stack([C_a.pairs, C_b.pairs])
    start = torch.stack([easy.dual.z, torch.full((10,), -5.0)])
    both = laplace.find_map(torch.stack([K_a, K_b]), comparisons.incidence(pairs, 8), probit, start=start)
    assert both.dual.converged.tolist() == [True, True]
    assert int(both.dual.iterations[0]) == 1
    assert int(both.dual.iterations[1]) > 1
    assert torch.allclose(both.f[0], easy.f, rtol=0.0, atol=1e-7)
    assert np.allclose(both.f[1].numpy(), dense.find_map(twin_b), rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("strength", [0.0, 0.02, 0.5, 5.0])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_the_metric_bends_the_path_not_the_goal(strength, threshold):
    K, C, probit, twin = case(9, 14, 2, 0.5, threshold=threshold)
    plain = laplace.find_map(K, C, probit, ties=ties_of(twin))
    bent = newton_steps.find_map(K, C, probit, metric_r=strength * torch.linspace(0.0, 1.0, 9), ties=ties_of(twin))
    assert bool(bent.dual.converged)
    assert torch.allclose(bent.f, plain.f, rtol=0.0, atol=1e-5)
    assert torch.allclose(K @ bent.beta, bent.f, rtol=0.0, atol=1e-9)


def test_the_metrics_certificate_holds_run_by_run(monkeypatch):
    """A metric that dwarfs the Hessian is still on its way when the iterations end, and only that run says so."""
    K, C, probit, _ = case(9, 14, 2, 0.5)
    monkeypatch.setattr(newton_steps, "METRIC_ITERATIONS", 100)
    both = newton_steps.find_map(
        K.repeat(2, 1, 1),
        comparisons.incidence(C.pairs.repeat(2, 1, 1), 9),
        probit,
        metric_r=torch.tensor([[0.01], [1e6]]).expand(2, 9),
    )
    plain = laplace.find_map(K, C, probit)
    assert both.dual.converged.tolist() == [True, False]
    assert torch.allclose(both.f[0], plain.f, rtol=0.0, atol=1e-6)
    assert float((both.f[1] - plain.f).abs().max()) > 1e-2


@pytest.mark.parametrize("pattern", ["zero", "some", "all", "huge"])
def test_shrinking_is_the_dense_inverse(pattern):
    r = {
        "zero": np.zeros(8),
        "some": np.array([0.0, 2.0, 0.0, 0.0, 0.3, 0.0, 1e-9, 0.0]),
        "all": np.linspace(0.1, 9.0, 8),
        "huge": np.full(8, 1e8),
    }[pattern]
    X = answered(1, 8, 1, 2).X
    K = dense.prior_covariance("rbf", X, np.full(2, 0.5), 2.0, 1e-3)
    K_r, Q = laplace.shrink(torch.as_tensor(K), torch.as_tensor(r))
    K_inverse = np.linalg.inv(K)
    expected = np.linalg.inv(K_inverse + np.diag(r))
    assert np.allclose(K_r.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert np.allclose(Q.numpy(), K_inverse - K_inverse @ expected @ K_inverse, rtol=1e-7, atol=1e-7)


def test_shrinking_needs_no_inverse_of_the_covariance():
    """For K of rank one, K = 11ᵀ: K_r = K/(1 + Σr), by hand."""
    r = torch.tensor([0.5, 0.0, 2.0])
    K_r, _ = laplace.shrink(torch.ones(3, 3), r)
    assert torch.allclose(K_r, torch.ones(3, 3) / 3.5, rtol=1e-14, atol=0.0)


def test_without_answers_the_map_is_the_prior_mean():
    fit = laplace.find_map(
        torch.eye(3).expand(2, 3, 3), comparisons.incidence(torch.empty(2, 0, 2).long(), 3), Probit()
    )
    assert fit.dual.converged.tolist() == [True, True]
    assert torch.equal(fit.f, torch.zeros(2, 3))


@pytest.mark.parametrize(("outputscale", "threshold"), [(2.0, 0.0), (2.0, 0.4), (1e4, 0.0), (1e4, 0.4), (1e6, 0.4)])
def test_of_many_answers_the_first_guess_is_two_steps_from_the_map(monkeypatch, threshold, outputscale):
    """And where single precision does not settle, or ends in NaN, as at the larger scales, it is found all the same."""
    K, C, probit, twin = case(30, 90, 3, 0.3, threshold=threshold, outputscale=outputscale)
    A, ties = comparisons.gram(C, K, probit.scale) / probit.scale**2, ties_of(twin)
    expected = laplace.solve(A, probit.margin, A.new_zeros(90), ties)
    monkeypatch.setattr(laplace, "MANY", 10)
    guess = laplace.first_guess(A, probit.margin, ties)
    found = laplace.solve(A, probit.margin, guess, ties)
    assert guess.dtype == A.dtype and bool(guess.isfinite().all()) and bool(found.converged)
    assert torch.allclose(found.alpha, expected.alpha, atol=1e-7)
    assert outputscale > 2.0 or int(found.iterations) <= 2 < int(expected.iterations)
