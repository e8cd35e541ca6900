"""Every method on many answers about few designs: point space changes the cost, not the result."""

import pytest
import torch

import kappasharp as ks
from kappasharp.inference import fit_space, hyperparameters, posterior
from tests.reference.data import answered


@pytest.fixture
def few_designs(monkeypatch):
    """Ten designs, forty answers, computed on the larger matrices unless point space is told to begin early."""
    data = answered(0, 10, 40, 2)

    def fit(method, *, early):
        monkeypatch.setattr(fit_space, "FEWEST_ANSWERS", 20 if early else 1000)
        return ks.fit(data.X, data.pairs, method=method, preset="modern")

    return fit


@pytest.mark.parametrize("method", ["baseline", "static", "cov_only", "full_augmentation", "metric_only", "ep_ei"])
def test_point_space_gives_every_method_the_same_model(few_designs, method):
    wide, narrow = few_designs(method, early=False), few_designs(method, early=True)
    assert narrow.status == wide.status == ("ok",)
    X, Y = torch.rand(2, 1, 30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected, found = (posterior.contrast(one.latent, X, Y) for one in (wide, narrow))
    assert torch.allclose(found.mean, expected.mean, rtol=1e-3, atol=1e-3)
    assert torch.allclose(found.variance, expected.variance, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", ["baseline", "static", "cov_only"])
@pytest.mark.parametrize("count", [12, 80])
def test_a_long_run_is_asked_and_told_like_any_other(monkeypatch, method, count):
    monkeypatch.setattr(hyperparameters, "ALL_AT_ONCE", 20)
    monkeypatch.setattr(hyperparameters, "FEWEST", 5)
    monkeypatch.setattr(fit_space, "FEWEST_ANSWERS", 20)
    data = answered(0, count, 40, 2)
    state = ks.init(data.X, data.pairs, method=method)
    for _ in range(2):
        question, state, info = ks.ask(state)
        assert info.status == ("ok",)
        assert int(info.fit_searched_on) < state.comparisons.shape[1]
        state = ks.tell(state, question, 0)
    assert state.comparisons.shape[1] == 42
