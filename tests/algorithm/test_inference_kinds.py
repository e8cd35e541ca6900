"""The methods that are not Laplace: EP and Gibbs with expected improvement, through the front door. [app:ep_gibbs]"""

from dataclasses import replace
from functools import partial

import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import incumbent
from kappasharp.algorithm import fit as algorithm_fit
from kappasharp.errors import InvalidValueError
from kappasharp.inference import ep, posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.settings import Acquisition, Inference, Query
from tests.algorithm.test_loop import drive, one, start, utility

METHODS = ["ep_ei", "gibbs_ei"]


def inferred(state):
    """The posterior that the first question of this state is chosen by."""
    model = model_from(state.preset)
    fit = algorithm_fit.fit(model, Answers(state.points, state.comparisons, state.ties))
    return algorithm_fit.infer(state.method.inference, model, fit, state.seeds, 1).posterior


@pytest.mark.parametrize("method", METHODS)
def test_a_block_is_its_runs_one_by_one(method):
    """Three questions in a block and in blocks of one, with the same streams.

    A chain amplifies the last digits in which the hyperparameters differ, so Gibbs' later values agree to their noise.
    """
    first, later, apart = (2e-2, 2e-2, 0.02) if method == "ep_ei" else (2e-2, 0.15, 0.05)
    runs = 3 if method == "ep_ei" else 2
    state = start(runs, method, "paper")
    together, infos = drive(state, 3)
    assert together.points.shape[1] == 6 + 3
    for run in range(runs):
        alone, alone_infos = drive(one(state, run), 3)
        assert alone.comparisons.tolist() == together.comparisons[run : run + 1].tolist()
        assert torch.allclose(alone.points, together.points[run : run + 1], atol=apart)
        for count, (mine, other) in enumerate(zip(alone_infos, infos, strict=True)):
            assert mine.status[0] == other.status[run] == "ok"
            close = later if count else first
            assert torch.allclose(mine.acquisition, other.acquisition[run : run + 1], rtol=close)


@pytest.mark.parametrize("method", METHODS)
def test_the_question_holds_a_new_design_and_the_incumbent(method):
    state = start(3, method, "paper")
    fitted = inferred(state)
    best = posterior.mean(fitted, state.points).argmax(-1)
    assert incumbent.find(fitted).tolist() == best.tolist()
    question, asked, _ = ks.ask(state)
    assert question.known.tolist() == [[-1, index] for index in best.tolist()]
    assert torch.equal(question.points[:, 1], state.points[torch.arange(3), best])
    after = ks.tell(asked, question, [0, 1, 0])
    assert after.comparisons[:, -1].tolist() == [[6, int(best[0])], [int(best[1]), 6], [6, int(best[2])]]
    assert torch.equal(after.points[:, 6], question.points[:, 0])


@pytest.mark.parametrize("method", METHODS)
def test_the_value_is_the_expected_improvement(method):
    """Against the mean of max(f(x) − f(x⁺), 0) over a million draws, and no random point promises more."""
    state = start(2, method, "paper")
    question, _, info = ks.ask(state)
    fitted = inferred(state)
    mean, cov = posterior.joint(fitted, question.points)
    normals = torch.randn(1_000_000, 2, generator=torch.Generator().manual_seed(0))
    for run in range(2):
        f = mean[run] + normals @ torch.linalg.cholesky(cov[run]).mT
        gain = (f[:, 0] - f[:, 1]).clamp(min=0.0)
        assert float(info.acquisition[run]) == pytest.approx(float(gain.mean()), rel=1e-2)
    others = torch.rand(2, 4000, 2, generator=torch.Generator().manual_seed(1))
    contrast = posterior.contrast(fitted, others, question.points[:, 1:].expand_as(others))
    ratio = contrast.mean / contrast.variance.sqrt()
    value = (
        contrast.mean * torch.special.ndtr(ratio) + contrast.variance.sqrt() * (-0.5 * ratio**2).exp() / 2.506628274631
    )
    assert bool((value.amax(-1) <= info.acquisition * (1.0 + 1e-3)).all())


def test_the_three_inferences_see_the_same_model():
    """Same hyperparameters; EP and Gibbs agree with one another better than Laplace does with either."""
    X, pairs = start(1, "baseline").points[0], start(1, "baseline").comparisons[0]
    fits = {name: ks.fit(X, pairs, method=name, preset="paper") for name in ("baseline", "ep_ei", "gibbs_ei")}
    assert all(torch.equal(fit.lengthscale, fits["baseline"].lengthscale) for fit in fits.values())
    assert all(fit.status == ("ok",) and bool(fit.converged) for fit in fits.values())
    plain, exact, drawn = (fit.utility for fit in fits.values())
    assert float((exact - drawn).abs().max()) < 0.5 * float((exact - plain).abs().max())
    assert plain.argsort().tolist() == exact.argsort().tolist() == drawn.argsort().tolist()
    assert torch.allclose(fits["ep_ei"].posterior(X).mean, exact, atol=1e-2)
    pair = fits["ep_ei"].propose()
    assert torch.equal(pair[1], X[exact.argmax()])


def test_an_approximation_without_certificate_has_a_word(monkeypatch):
    monkeypatch.setattr(ep, "solve", partial(ep.solve, max_iterations=1))
    _, _, info = ks.ask(start(2, "ep_ei"))
    assert info.status == ("inference_not_converged",) * 2
    assert info.inference_converged.tolist() == [False, False]
    assert bool(info.map_converged.all())
    found = ks.fit([[0.1], [0.9], [0.5]], [[0, 1], [0, 2]], method="ep_ei")
    assert found.status == ("inference_not_converged",) and not bool(found.converged)


def test_rounds_are_those_of_the_inference():
    for method, low, high in (("baseline", 1, 15), ("ep_ei", 3, 100), ("gibbs_ei", 120, 1240)):
        info = ks.ask(start(1, method, "paper"))[2]
        assert low <= int(info.inference_rounds) <= high
        assert bool(info.inference_converged)


@pytest.mark.parametrize("method", METHODS)
def test_ties_single_precision_and_no_answers(method):
    preset = replace(ks.PRESETS["modern"], threshold=0.5)
    X = torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
    pairs = torch.tensor([[0, 1]] * 4)
    tied = ks.fit(X, pairs, method=method, preset=preset, ties=[True] * 4).contrast(X[:1], X[1:2])
    won = ks.fit(X, pairs, method=method, preset=preset).contrast(X[:1], X[1:2])
    assert abs(float(tied.mean)) < 0.1
    assert float(won.mean) > 0.5
    narrow = ks.fit(X.float(), pairs, method=method, preset=preset).contrast(X[:1], X[1:2])
    assert narrow.mean.dtype == torch.float32
    assert float(narrow.mean) == pytest.approx(float(won.mean), rel=0.1)
    question, state, info = ks.ask(ks.init(X, [], method=method))
    assert info.status == ("ok",) and question.known.tolist() == [[-1, 0]]
    assert ks.tell(state, question, 0).comparisons.tolist() == [[[4, 0]]]


@pytest.mark.parametrize("choice", [Inference.EP, Inference.GIBBS])
def test_a_correction_without_a_map_is_refused(choice):
    with pytest.raises(
        InvalidValueError, match=f"`Method.correction` must be without weights .* {choice.name}, but got"
    ):
        ks.init([[0.1], [0.9]], [[0, 1]], method=replace(ks.METHODS["static"], inference=choice))
    with pytest.raises(InvalidValueError, match=r"`Method.query` must be FRESH_PAIR .* but got ANCHORED"):
        ks.fit([[0.1], [0.9]], [[0, 1]], method=replace(ks.METHODS["ep_ei"], query=Query.ANCHORED))


def test_inference_and_acquisition_combine_freely():
    for choice, query in ((Inference.EP, Query.FRESH_PAIR), (Inference.EP, Query.ANCHORED)):
        question, _, info = ks.ask(start(1, ks.Method(choice, query=query), "paper"))
        assert info.status == ("ok",)
        assert int((question.known == -1).sum()) == (2 if query is Query.FRESH_PAIR else 1)
    laplace = ks.Method(acquisition=Acquisition.EXPECTED_IMPROVEMENT)
    question, _, info = ks.ask(start(1, laplace, "paper"))
    assert info.status == ("ok",) and int(question.known[0, 1]) >= 0


def test_expected_improvement_finds_a_better_design_than_it_started_with():
    state = start(2, "ep_ei")
    before = utility(state.points).amax(-1)
    state, _ = drive(state, 12)
    assert bool((utility(state.points).amax(-1) > 0.3 * before).all())
