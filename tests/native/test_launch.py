"""The kernels against the torch code, row by row: compiled for the CPU, and a device's, played by threads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from kappasharp.acquisition import eubo, maximize
from kappasharp.algorithm import fit
from kappasharp.inference import comparison_space, comparisons, hyperparameters, laplace
from kappasharp.inference.comparisons import Answers, Detail
from kappasharp.inference.evidence import Model
from kappasharp.inference.likelihood import Grades, Probit
from kappasharp.kernels import priors
from kappasharp.native import compiler, launch, nvrtc, sources
from kappasharp.native import eubo as native_eubo
from kappasharp.numerics import quasi_newton
from kappasharp.questions.comparisons import best_of, order_of
from tests.reference import twin
from tests.reference.both_ways import SERIAL, assert_same, compiled, data, each_alone, fused, moved, on_device

TOLERANCES = quasi_newton.Tolerances(
    gradient=1e-2 * maximize.GAIN_LEFT, decrease=maximize.GAIN_LEFT, max_rounds=200, longest_step=0.25
)


def search_task(runs, m, d, model, n=None):
    X, pairs = data(runs, max(n or 2 * m, 2), m, d)
    theta = model.priors.start(d).repeat(runs, 1)
    theta[1::2] += torch.linspace(-0.7, 0.7, d + 1)
    return model, comparison_space.gather(X, pairs), theta, torch.zeros(runs, m)


def posterior_task(runs, starts, m, d, family="rbf", anchored=False):
    model = Model(family, 1e-6, Probit(), priors.PRIORS["botorch_0_18"])
    X, pairs = data(runs, 2 * m, m, d)
    prepared = eubo.prepare(fit.fit(model, Answers(X, pairs)).posterior)
    start = torch.rand(runs, starts, d if anchored else 2 * d, generator=torch.Generator().manual_seed(m))
    return prepared, start, X[:, 0].contiguous() if anchored else None


def ascend(prepared, start, variant, anchor, box=None):
    objective = eubo.NegativeEubo(prepared, start.shape[1], variant, anchor)
    low, high = (torch.zeros_like(start), torch.ones_like(start)) if box is None else box
    flat = [part.flatten(0, 1) for part in (start, low, high)]
    return quasi_newton.minimize(objective, *flat, TOLERANCES._replace(group=start.shape[1]))


@compiled
@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("m", [1, 8, 33, 65])
@pytest.mark.parametrize(
    ("prior", "nugget"), [("botorch_0_18", 1e-6), ("dimension_scaled", 1e-4), ("shared_0_5", 1e-6)]
)
def test_search(m, d, prior, nugget):
    task = search_task(4, m, d, Model("rbf", nugget, Probit(), priors.PRIORS[prior]))
    expected = each_alone(*task)
    for execute in SERIAL:
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
def test_search_with_shared_points_margin_and_matern():
    model = Model("matern52", 1e-4, Probit(noise=0.5, threshold=0.1), priors.PRIORS["botorch_0_6"])
    task = search_task(4, 20, 3, model, n=7)
    expected = each_alone(*task)
    for execute in SERIAL:
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
def test_search_with_orders_and_choices():
    """Comparisons with weights, which share noise."""
    model = Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"])
    answers = [order_of(4, [2, 0, 3, 1]), best_of(4, 1), best_of(2, 0)] * 3
    rows = [(4 * q + a, 4 * q + b) for q, said in enumerate(answers) for a, b in said.pairs]
    X = torch.rand(3, 36, 3, generator=torch.Generator().manual_seed(1))
    detail = Detail(*(part.expand(3, *part.shape[1:]) for part in comparisons.detail(answers)))
    gathered = comparison_space.gather(X, torch.tensor(rows).expand(3, -1, 2), None, detail)
    theta = model.priors.start(3).repeat(3, 1) + torch.linspace(-0.4, 0.4, 3).unsqueeze(-1)
    task = model, gathered, theta, torch.zeros(3, len(rows))
    expected = each_alone(*task)
    for execute in (twin.Twin(1), twin.Twin(4), compiler.execute):
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
@pytest.mark.parametrize("own", [False, True])
def test_search_with_ties_ratings_and_times(own):
    """Answers of one margin, some of them ties; and answers with bounds of their own, some of them by their times."""
    model = Model("rbf", 1e-6, Probit(threshold=0.3), priors.PRIORS["botorch_0_18"])
    _, gathered, theta, z = search_task(3, 18, 3, model)
    between = torch.zeros_like(z, dtype=torch.bool)
    between[:, ::3] = True
    ties = between
    if own:
        centre = torch.linspace(0.0, 6.0, 18).expand_as(z) * between
        time = torch.zeros_like(z)
        time[:, 1::6] = 1.7
        ties = Grades(between, centre, torch.linspace(0.02, 2.0, 18).expand_as(z), time)
    task = model, gathered._replace(ties=ties), theta, z
    expected = each_alone(*task)
    assert bool(expected.converged.all())
    for execute in (twin.Twin(1), twin.Twin(4), compiler.execute):
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
def test_search_where_plain_steps_do_not_settle(monkeypatch):
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 2)
    task = search_task(4, 20, 3, Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"]))
    expected = each_alone(*task)
    for execute in SERIAL:
        assert_same(fused(task, execute), expected, 1e-8)


@compiled
def test_search_without_a_certificate_says_so(monkeypatch):
    monkeypatch.setattr(laplace, "PLAIN_ITERATIONS", 1)
    monkeypatch.setattr(laplace, "DAMPED_ITERATIONS", 1)
    task = search_task(2, 8, 3, Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"]))
    expected = each_alone(*task)
    for execute in SERIAL:
        got = fused(task, execute)
        assert torch.equal(got.rounds, expected.rounds) and torch.allclose(got.x, expected.x)
        assert bool(got.value.isposinf().all()) and not got.converged.any()


@compiled
@pytest.mark.parametrize("lanes", [1, 4])
def test_search_by_several_threads(lanes):
    """Missing barriers show as other numbers; a block of four warps, and one of two."""
    for m in (10, 35):
        task = search_task(2, m, 3, Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"]))
        got = fused(task, twin.Twin(lanes))
        assert_same(got, each_alone(*task), 1e-8)


@compiled
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("variant", ["expected_max", "improvement"])
@pytest.mark.parametrize("d", [1, 10])
def test_ascent(d, variant, anchored):
    for m in (1, 20, 60):
        prepared, start, anchor = posterior_task(3, 4, m, d, anchored=anchored)
        objective = eubo.NegativeEubo(prepared, 4, variant, anchor)
        expected = ascend(prepared, start, variant, anchor)
        for execute in (twin.Twin(), compiler.execute):
            assert_same(eubo.fused_ascent(objective, start, None, TOLERANCES, execute), expected, 1e-7)


@compiled
def test_ascent_by_several_threads_in_a_box_with_matern():
    prepared, start, _ = posterior_task(2, 5, 9, 3, "matern52")
    box = (start - 0.1).clamp(min=0.0), (start + 0.2).clamp(max=1.0)
    box[0][:, 0, 1] = box[1][:, 0, 1] = start[:, 0, 1]
    objective = eubo.NegativeEubo(prepared, 5, "expected_max", None)
    for execute in (twin.Twin(1), twin.Twin(4), compiler.execute):
        got = eubo.fused_ascent(objective, start, box, TOLERANCES, execute)
        assert_same(got, ascend(prepared, start, "expected_max", None, box), 1e-7)
        assert torch.equal(got.x.reshape(start.shape)[:, 0, 1], start[:, 0, 1])


@compiled
def test_ascent_in_shares():
    """More starts than a block has room for are shared out among several."""
    prepared, start, _ = posterior_task(2, 26, 5, 2)
    objective = eubo.NegativeEubo(prepared, 26, "expected_max", None)
    got = eubo.fused_ascent(objective, start, None, TOLERANCES, twin.Twin())
    assert_same(got, ascend(prepared, start, "expected_max", None), 1e-7)


@compiled
def test_a_large_table_is_torchs_and_a_single_start_the_kernels(monkeypatch):
    prepared, start, _ = posterior_task(2, 4, 9, 3)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    monkeypatch.setattr(native_eubo, "MOST_WEIGHTS", prepared.weights[0].numel() - 1)
    for starts in (4, 1):
        objective = eubo.NegativeEubo(prepared, starts, "expected_max", None)
        found = eubo.fused_ascent(objective, start[:, :starts], None, TOLERANCES)
        assert (found is None) == (starts > 1)
    assert launch.taken == {("eubo", native_eubo.READ_ONCE): 1, ("eubo", "kernel"): 1}


@pytest.fixture
def first_use(monkeypatch, tmp_path):
    """As in a process that has compiled nothing, on a machine that keeps nothing; what is taken is counted anew.

    Compiled in a hurry: what is tested is not how fast it runs.
    """
    flags = tuple("-O0" if one.startswith("-O") else one for one in compiler.FLAGS)
    monkeypatch.setattr(compiler, "FLAGS", flags)
    monkeypatch.setattr(launch, "taken", launch.Counter())
    monkeypatch.setenv(sources.CACHE, str(tmp_path))
    compiler._library.cache_clear()
    yield tmp_path
    compiler._library.cache_clear()


def searched():
    return hyperparameters.fused_search(
        *search_task(2, 3, 1, Model("rbf", 1e-6, Probit(), priors.PRIORS["botorch_0_18"]))
    )


@compiled
def test_compiled_once_and_kept(first_use, monkeypatch):
    assert searched() is not None and launch.taken == {("evidence", "kernel"): 1}
    (kept,) = first_use.glob("*.so")
    compiler._library.cache_clear()
    monkeypatch.setattr(compiler, "_compile", None)
    assert searched() is not None and list(first_use.glob("*.so")) == [kept]


def test_several_that_need_it_at_once_have_it_made_once(first_use):
    """Each of the processes of a busy machine used to compile it, and all waited for all."""
    made = []

    def make(target):
        made.append(target)
        time.sleep(0.2)
        target.write_text("made")

    with ThreadPoolExecutor(4) as threads:
        paths = list(threads.map(lambda _: sources.kept(("word",), ".so", make), range(4)))
    assert len(made) == 1 and len(set(paths)) == 1 and paths[0].read_text() == "made"


@compiled
def test_begun_ahead_it_is_there_when_it_is_needed(first_use, monkeypatch):
    launch.begin()
    assert searched() is not None and len(list(first_use.glob("*.so"))) == 1
    for thread in threading.enumerate():
        # On a busy machine it would come after this test, and the next one would find what it brings.
        if thread.name == "kernels":
            thread.join()
    compiler._library.cache_clear()
    monkeypatch.setenv(launch.SWITCH, "0")
    monkeypatch.setattr(compiler, "refusal", None)
    launch.begin()


def test_why_torch_does_the_work(first_use, monkeypatch):
    monkeypatch.setenv(launch.SWITCH, "0")
    assert searched() is None
    monkeypatch.delenv(launch.SWITCH)
    monkeypatch.setattr(compiler, "compiler", lambda: None)
    assert searched() is None
    assert launch.taken == {("evidence", f"{launch.SWITCH}=0"): 1, ("evidence", compiler.NO_COMPILER): 1}


@pytest.mark.parametrize("compiler", ["false", "false -pipe"])
def test_a_compiler_that_fails_is_told_once(compiler, first_use, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    said = f"could not be compiled by {compiler}: .* returned non-zero exit status 1[.] torch does their work"
    with pytest.warns(UserWarning, match=said):
        assert searched() is None
    assert searched() is None


@compiled
def test_a_folder_that_cannot_be_written_is_told(first_use, monkeypatch):
    (first_use / "file").write_text("")
    monkeypatch.setenv(sources.CACHE, str(first_use / "file"))
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert searched() is not None


@on_device
@pytest.mark.parametrize("with_ties", [False, True])
def test_on_a_device(monkeypatch, with_ties):
    """The contract there: one launch finds what torch finds here, and the switch turns it off."""
    model = Model("rbf", 1e-6, Probit(threshold=0.3 * with_ties), priors.PRIORS["botorch_0_18"])
    _, gathered, theta, z = search_task(8, 40, 3, model)
    if with_ties:
        gathered = gathered._replace(ties=(torch.arange(40) % 3 == 0).expand(8, -1))
    there = [moved(part, "cuda") for part in (gathered, theta, z)]
    monkeypatch.setattr(launch, "taken", launch.Counter())
    found, _ = hyperparameters.fused_search(model, *there)
    assert launch.taken == {("evidence", "kernel"): 1}
    assert_same(moved(found, "cpu"), each_alone(model, gathered, theta, z), 1e-7)
    monkeypatch.setenv(launch.SWITCH, "0")
    assert hyperparameters.fused_search(model, *there) is None


@on_device
def test_ascent_on_a_device():
    prepared, start, _ = posterior_task(3, 4, 20, 3)
    there = eubo.Prepared(prepared.family, *(part.cuda() for part in prepared[1:6]))
    got = eubo.fused_ascent(eubo.NegativeEubo(there, 4, "expected_max", None), start.cuda(), None, TOLERANCES)
    assert got is not None
    assert_same(
        quasi_newton.Descent(*(part.cpu() for part in got)), ascend(prepared, start, "expected_max", None), 1e-7
    )


def test_a_device_with_less_shared_memory_gets_fewer_warps_or_a_refusal(monkeypatch):
    """The size that is asked for and the size that is allowed are held against the same limit."""
    X, weights = torch.zeros(1, 106, 20), torch.zeros(1, 106, 66)
    runs = native_eubo.Runs(torch.ones(1, 1, 20), torch.ones(1, 1), X, weights, None)
    monkeypatch.setattr(nvrtc, "shared_limit", lambda device: 166_912)
    warps = native_eubo._warps(runs, False, 12)
    assert 1 < warps < 12
    assert native_eubo._shared_bytes(runs, False, warps) <= 166_912
    monkeypatch.setattr(nvrtc, "shared_limit", lambda device: 49_152)
    assert native_eubo._warps(runs, False, 12) == 1  # and `refusal` says that even one is too large
    assert native_eubo._shared_bytes(runs, False, 1) > 49_152
