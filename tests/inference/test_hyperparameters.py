"""The search on shares of the answers against one search over all, and the pieces that long studies alone use."""

import pytest
import torch

from kappasharp.algorithm import fit
from kappasharp.inference import comparison_space, comparisons, fit_space, hyperparameters, laplace
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Probit
from kappasharp.kernels import stationary
from kappasharp.kernels.priors import PRIORS
from tests.reference.data import answered

MODEL = Model("rbf", 1e-6, Probit(), PRIORS["botorch_0_18"], "averaged")


def runs(n, m, d, seeds=(0,), threshold=0.0):
    parts = [answered(seed, n, m, d, threshold=threshold) for seed in seeds]
    X, pairs, ties = (torch.stack([torch.as_tensor(one[i]) for one in parts]) for i in range(3))
    return Answers(X, pairs, ties if threshold else None)


def model_of(data):
    return MODEL if data.ties is None else MODEL._replace(likelihood=Probit(1.0, 0.3))


@pytest.fixture
def early(monkeypatch):
    """Stages of 30, 60 and 120 answers out of 240, so that the dense search beside them is quick."""
    monkeypatch.setattr(hyperparameters, "ALL_AT_ONCE", 100)
    monkeypatch.setattr(hyperparameters, "FEWEST", 30)


def search(data, *, theta=None, z=None):
    model = model_of(data)
    runs_, answers = data.pairs.shape[:2]
    start = model.priors.start(data.X.shape[-1]).expand(runs_, -1)
    z = torch.zeros(runs_, answers) if z is None else z
    space = fit_space.choose(model, data)
    return hyperparameters.search(model, space, [start] if theta is None else [theta, start], z, warm=theta is not None)


def whole(data):
    """One search over all answers, in double precision."""
    model = model_of(data)
    gathered = comparison_space.gather(*data)
    start = model.priors.start(data.X.shape[-1]).expand(len(data.X), -1)
    return hyperparameters.search_at_once(model, gathered, [start], torch.zeros(data.pairs.shape[:-1])).hyper


def value(data, theta):
    model = model_of(data)
    found = comparison_space.gather(*data).evaluate(model, theta, torch.zeros(data.pairs.shape[:-1]))
    return found.value + model.priors.log_density(theta)


@pytest.mark.parametrize(
    ("n", "m", "wanted"),
    [
        (1200, 600, []),
        (1000, 2000, [250, 500, 1000]),
        (4000, 2000, [250, 500, 1000]),
        (400, 2000, [200, 400]),
        (250, 2000, []),
        (1500, 4000, [375, 750, 1500]),
    ],
)
def test_the_stages_double_up_to_the_size_that_sets_the_cost(n, m, wanted):
    answers = Answers(torch.zeros(1, n, 2), torch.zeros(1, m, 2, dtype=torch.long))
    assert hyperparameters.sizes(fit_space.choose(MODEL, answers)) == wanted


@pytest.mark.parametrize(("n", "threshold"), [(480, 0.0), (480, 0.3), (60, 0.0)])
def test_the_evidence_reached_is_that_of_one_search_over_all_answers(early, monkeypatch, n, threshold):
    monkeypatch.setattr(fit_space, "FEWEST_ANSWERS", 100)
    data = runs(n, 240, 3, (0, 1), threshold)
    found = search(data).hyper
    assert bool(found.converged.all())
    assert found.searched_on.tolist() == [30, 30]
    parameters = data.X.shape[-1] + 1
    lost = whole(data).value - value(data, found.theta)
    assert float(lost.max()) <= 2.0 * hyperparameters.GAIN_LEFT_PER_PARAMETER * parameters
    assert torch.allclose(found.value, value(data, found.theta), atol=1e-2)


def test_the_differences_that_come_along_are_those_of_the_map(early):
    data = runs(480, 240, 3)
    found = search(data)
    exact = comparison_space.gather(*data).evaluate(MODEL, found.hyper.theta, torch.zeros(1, 240))
    assert torch.allclose(found.z, exact.z, atol=2e-2)


def test_a_search_from_the_last_ones_end_stays_there(early):
    data = runs(480, 240, 3)
    best = whole(data).theta
    again = search(data, theta=best).hyper
    assert int(again.rounds) == 0
    assert torch.allclose(again.theta, best, atol=1e-6)


def test_a_bad_warm_start_gives_way_to_the_priors_mode(early):
    data = runs(480, 240, 3)
    far = torch.full((1, 4), 6.0)
    lost = whole(data).value - value(data, search(data, theta=far).hyper.theta)
    assert float(lost) <= 0.5


def test_a_run_does_not_depend_on_its_company(early):
    data = runs(480, 240, 3, (0, 1))
    both = search(data).hyper
    for run in (0, 1):
        # Single precision rounds a batch and a run alone differently: the paths part, the evidence reached does not.
        alone = search(Answers(data.X[run : run + 1], data.pairs[run : run + 1], None)).hyper
        assert float(alone.value) == pytest.approx(
            float(both.value[run]), abs=4 * hyperparameters.GAIN_LEFT_PER_PARAMETER
        )


@pytest.mark.parametrize("n", [480, 60])
def test_a_long_fit_has_the_numbers_of_a_short_one_at_its_hyperparameters(early, monkeypatch, n):
    monkeypatch.setattr(fit_space, "FEWEST_ANSWERS", 100)
    data = runs(n, 240, 3)
    long = fit.fit(MODEL, Answers(*data))
    C = comparisons.incidence(data.pairs, n)
    plain = laplace.find_map(long.K, C, MODEL.likelihood)
    assert torch.allclose(long.map.f, plain.f, atol=1e-6)
    assert torch.allclose(long.hyper.value, value(data, long.hyper.theta), atol=1e-6)
    weights = comparison_space.posterior_weights(MODEL, long.K, C, plain.dual.z, None)
    root = comparison_space.information_root(long.K, C, weights)
    cov, wanted = (long.K @ part for part in (long.posterior.root, root))
    assert torch.allclose(cov @ cov.mT, wanted @ wanted.mT, rtol=1e-4, atol=1e-5 * float(long.K.max()))


@pytest.mark.parametrize("spread", [0.1, 5.0])
def test_many_answers_have_their_averaged_curvature_by_an_inverse(monkeypatch, spread):
    data = runs(60, 90, 3, (0, 1))
    K = stationary.covariance("rbf", data.X, torch.tensor([[0.5, 0.5, 0.5, 20.0]]).log().expand(2, -1), 1e-6)
    A = comparisons.congruence(comparisons.incidence(data.pairs, 60), K)
    z = spread * torch.randn(2, 90, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_solving = comparison_space.averaged_omega(A, z, 0.0)
    monkeypatch.setattr(comparison_space, "SMALL", 0)
    by_inverse = comparison_space.averaged_omega(A, z, 0.0)
    # A weight of 1e-26 keeps three digits of single precision.
    assert torch.allclose(by_inverse, by_solving, rtol=3e-3, atol=1e-9)
    # What counts as faint is each run's own: without company, and without a batch, nothing changes.
    for run in (0, 1):
        assert torch.equal(comparison_space.averaged_omega(A[run : run + 1], z[run : run + 1], 0.0)[0], by_inverse[run])
        assert torch.equal(comparison_space.averaged_omega(A[run], z[run], 0.0), by_inverse[run])
