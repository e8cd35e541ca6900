"""The ascent of EUBO through outcomes, straight piece by straight piece: by torch, compiled, and by a device's twin."""

from dataclasses import replace

import pytest
import torch

from kappasharp.acquisition import composite, discrete, eubo, maximize
from kappasharp.acquisition.composite import Looked, StraightEubo
from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.acquisition.maximize import Request, Search
from kappasharp.inference import posterior
from kappasharp.kernels.stationary import Sum
from kappasharp.native import compiler, launch
from kappasharp.native.linearised_eubo import Way
from kappasharp.numerics import quasi_newton
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS
from kappasharp.tensors import take
from tests.acquisition.test_composite import RUNS, D, posterior_of, request
from tests.reference import twin
from tests.reference.both_ways import MAY_PART, compiled, moved, on_device
from tests.reference.lifts import Curved

TOLERANCES = quasi_newton.Tolerances(gradient=2e-7, decrease=2e-5, max_rounds=200, longest_step=0.25)
STARTS = 4


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def task(starts=STARTS, family="rbf", variant="expected_max"):
    """The objective of some starts, where they are, and a box about them."""
    fitted = posterior_of(Curved())
    prepared = eubo.prepare(fitted)
    prepared = prepared._replace(family=Sum(family, prepared.family.sizes))
    objective = Search(fitted, prepared, request(variant=variant)).objective(starts)
    points = rand(RUNS * starts, 2, D, seed=3)
    at, here = points.flatten(-2), objective.look(points)
    here = here._replace(B=rand(*here.B.shape, seed=4) - 0.5)
    return objective, here, ((at - 0.15).clamp(min=0.0), (at + 0.3).clamp(max=1.0))


def between(objective, inner=None, tolerances=TOLERANCES):
    return composite.Between(inner or objective.inner, D, tolerances, bends=not objective.learns)


def on_the_way(objective, here, box):
    """Rows in the middle of their way, and what they found: some gained and some did not, some had ended before."""
    rows = len(here.points)
    low, high = (end.unflatten(-1, (2, D)) for end in box)
    trial = (here.points + 0.2 * rand(*here.points.shape, seed=6) - 0.05).clamp(low, high)
    ended = (torch.arange(rows) % 7 == 5).int()
    trial = torch.where(ended[:, None, None] > 0, here.points, trial)
    value = objective.inner(torch.cat([here.points, here.outcomes], -1).flatten(-2))[0]
    way = composite.begun(here)._replace(
        trial=trial, value=value, radius=0.02 + 0.3 * rand(rows, 1, seed=7), ended=ended,
        promised=torch.where(ended > 0, 0.0, 0.05 * rand(rows, seed=8)), rounds=1 + torch.arange(rows).int(),
    )  # fmt: skip
    return way, objective.look(trial)._replace(points=trial)


def alone(objective, way, there, box, tolerances=TOLERANCES, **options):
    """A round by torch, every row by itself."""
    inner = objective.inner
    starts, found = inner.starts, []
    for row in range(len(way.points)):
        only = torch.tensor([row])
        one = eubo.NegativeEubo(take(inner.prepared, only // starts), 1, inner.variant)
        ends = tuple(end[row : row + 1] for end in box)
        found.append(between(objective, one, tolerances).by_torch(take(way, only), take(there, only), ends, **options))
    return Way(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def copied(way):
    """A launch writes to what it is given."""
    return Way(*(part.clone() for part in way))


def assert_as_far(got, expected, tolerance):
    """All of it; a row may part where rounding decides on a trial within, and go up another hill."""
    parted = (got.trial - expected.trial).flatten(1).abs().amax(-1) > tolerance
    assert int(parted.sum()) <= MAY_PART
    for name, ours, theirs in zip(Way._fields, got, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, name
        assert torch.allclose(ours[~parted], theirs[~parted], rtol=0.0, atol=tolerance, equal_nan=True), name


def test_slopes_are_differences_and_along_what_is_held_there_are_none():
    fitted = posterior_of(Curved())
    on = Lattice((Group((1,), torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)),))
    objective = Search(fitted, eubo.prepare(fitted), request(lattice=on)).objective(2)
    points = 0.2 + 0.6 * rand(RUNS * 2, 2, D)
    here = objective.look(points)
    assert torch.allclose(here.outcomes, Curved()(points))
    for j in range(D):
        step = torch.zeros(D, dtype=torch.float64)
        step[j] = 1e-5
        slope = (Curved()(points + step) - Curved()(points - step)) / 2e-5
        assert torch.allclose(here.J[..., j, :], torch.zeros_like(slope) if j == 1 else slope, atol=5e-3)


@pytest.mark.parametrize("family", ["rbf", "matern52"])
def test_the_gradient_with_straight_outcomes(family):
    objective, here, _ = task(family=family)
    lines, x = StraightEubo(objective.inner, here), rand(RUNS * STARTS, 2 * D, seed=5)
    gradient = lines(x)[1]
    for j in range(2 * D):
        step = torch.zeros_like(x)
        step[:, j] = 1e-6
        assert torch.allclose(gradient[:, j], (lines(x + step)[0] - lines(x - step)[0]) / 2e-6, atol=1e-6)


@compiled
@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("variant", ["expected_max", "improvement"])
@pytest.mark.parametrize("family", ["rbf", "matern52"])
def test_a_launch_does_what_torch_does(family, variant, moves):
    objective, here, box = task(family=family, variant=variant)
    way, there = on_the_way(objective, here, box)
    if not moves:
        way, there = composite.begun(here), here
    expected = alone(objective, way, there, box, moves=moves)
    if moves:
        gained = (expected.points != way.points).flatten(1).any(-1)
        assert bool(gained.any()) and not bool(gained.all())
        change = (expected.radius / way.radius)[way.ended == 0]
        assert bool((change == composite.LONGER).any()) and bool((change < 1.0).any())
    for execute in (twin.Twin(), twin.Twin(4), compiler.execute):
        got = between(objective).advanced(copied(way), there, box, moves=moves, execute=execute)
        assert_as_far(got, expected, 1e-7)


@compiled
@pytest.mark.parametrize("bends", [True, False])
def test_a_launch_of_one_step_is_torchs_to_the_last_digits(bends):
    """One round of the ascent within, from the same state; slopes that are learnt hold for both places."""
    objective, here, box = task()
    way, there = on_the_way(objective, here, box)
    # Where outcomes are no numbers nothing moves, and the box shrinks.
    there.outcomes[1], there.J[1] = torch.nan, 0.0
    rounds = TOLERANCES._replace(max_rounds=1)
    ours = composite.Between(objective.inner, D, rounds, bends=bends)
    for solves in (True, False):
        expected = ours.by_torch(way, there, box, moves=True, solves=solves)
        assert torch.equal(expected.J, there.J) != bends
        for execute in (twin.Twin(), compiler.execute):
            got = ours.advanced(copied(way), there, box, moves=True, solves=solves, execute=execute)
            assert_as_far(got, expected, 1e-9)


@compiled
def test_a_launch_in_shares():
    """More starts than a block has room for are shared out among several."""
    objective, here, box = task(starts=26)
    way, there = on_the_way(objective, here, box)
    got = between(objective).advanced(copied(way), there, box, moves=True, execute=twin.Twin())
    assert_as_far(got, alone(objective, way, there, box, moves=True), 1e-7)


@on_device
@pytest.mark.parametrize("starts", [STARTS, 26])
@pytest.mark.parametrize("family", ["rbf", "matern52"])
def test_on_a_device(family, starts, monkeypatch):
    """One launch there does what torch does here, and the switch turns it off."""
    objective, here, box = task(starts=starts, family=family)
    way, seen = on_the_way(objective, here, box)
    expected = alone(objective, way, seen, box, moves=True)
    inner = eubo.NegativeEubo(moved(objective.inner.prepared, "cuda"), starts, "expected_max")
    way, seen, box = (moved(part, "cuda") for part in (way, seen, box))
    monkeypatch.setattr(launch, "taken", launch.Counter())
    got = between(objective, inner).advanced(Way(*map(torch.clone, way)), seen, box, moves=True)
    assert launch.taken == {("straight", "kernel"): 1}
    assert_as_far(moved(got, "cpu"), expected, 1e-7)
    monkeypatch.setenv(launch.SWITCH, "0")
    by_torch = between(objective, inner, TOLERANCES._replace(group=starts)).advanced(way, seen, box, moves=True)
    assert set(launch.taken) == {("straight", "kernel"), ("straight", f"{launch.SWITCH}=0")}
    parted = (by_torch.promised.cpu() - expected.promised).abs() > TOLERANCES.decrease
    assert int(parted.sum()) <= MAY_PART


@on_device
def test_the_way_up_on_a_device(monkeypatch):
    """Straight piece after straight piece, with outcomes that are computed there."""
    objective, here, _ = task()
    x = here.points.flatten(-2).unflatten(0, (RUNS, STARTS))
    together = TOLERANCES._replace(group=STARTS)
    expected = composite.ascend(objective, x, (torch.zeros_like(x), torch.ones_like(x)), together)
    fitted = moved(posterior_of(Curved())._replace(lift=None), "cuda")._replace(lift=Curved())
    prepared = eubo.prepare(fitted)._replace(family=objective.inner.prepared.family)
    there, x = Search(fitted, prepared, request()).objective(STARTS), x.cuda()
    monkeypatch.setattr(launch, "taken", launch.Counter())
    got = composite.ascend(there, x, (torch.zeros_like(x), torch.ones_like(x)), together)
    assert set(launch.taken) == {("straight", "kernel")}
    assert torch.allclose(got.value.cpu(), expected.value, atol=1e-6) and bool(got.converged.all())


def test_other_sums_have_no_launch():
    objective, _, _ = task()
    for family in ("rbf", Sum("rbf", (D, 1, 1))):
        inner = eubo.NegativeEubo(objective.inner.prepared._replace(family=family), STARTS, "expected_max")
        assert composite.arranged(inner, D) is None


@pytest.mark.parametrize("switch", ["0", "1"])
def test_the_way_up_ends_where_no_gradient_goes_on(switch, monkeypatch):
    """By torch and by the kernel: no lower than where it began, and nothing left to gain by differences."""
    monkeypatch.setenv(launch.SWITCH, switch)
    objective, here, _ = task()
    x = here.points.flatten(-2).unflatten(0, (RUNS, STARTS))
    together = TOLERANCES._replace(group=STARTS)
    found = composite.ascend(objective, x, (torch.zeros_like(x), torch.ones_like(x)), together)
    assert torch.allclose(found.value, objective.value(found.x), atol=1e-10)
    assert bool((found.value <= objective.value(here.points.flatten(-2))).all()) and bool(found.converged.all())
    whole = torch.zeros_like(found.x), torch.ones_like(found.x)
    further = quasi_newton.minimize(objective, found.x, *whole, together)
    assert float((found.value - further.value).max()) < 1e-3


def test_bends_are_what_two_looks_differ_by():
    """Exact where an outcome is a sum of squares; as before along a coordinate that hardly moved."""
    objective, _, _ = task(starts=1)
    here = objective.look(0.2 + 0.2 * rand(RUNS, 2, D))
    moved_by = torch.full((D,), 0.1, dtype=torch.float64)
    moved_by[1] = 1e-4
    way = composite.begun(here)
    B = composite._bends(way, objective.look(here.points + moved_by))
    bowl = B[..., 0]
    assert torch.allclose(bowl[..., [0, 2, 3]], torch.full_like(bowl[..., :3], 2.0 / D), atol=1e-6)
    assert bool((B[..., 1, :] == 0.0).all())
    torn = objective.look(here.points + moved_by)._replace(outcomes=torch.full_like(here.outcomes, torch.nan))
    assert bool((composite._bends(way, torn) == here.B).all())


@pytest.mark.parametrize("switch", ["0", "1"])
def test_the_best_of_every_run_go_on(switch, monkeypatch):
    monkeypatch.setenv(launch.SWITCH, switch)
    objective, here, _ = task(starts=6)
    x = here.points.flatten(-2).unflatten(0, (RUNS, 6))
    box = torch.zeros_like(x), torch.ones_like(x)
    tolerances = TOLERANCES._replace(group=6, max_rounds=40)
    all_of_them = composite.ascend(objective, x, box, tolerances).value.reshape(RUNS, 6)
    found = composite.ascend(objective, x, box, tolerances, (3, 2))
    assert found.x.shape == (RUNS * 2, 2 * D) and bool(found.converged.all())
    assert torch.allclose(found.value, objective.of_starts(2).value(found.x), atol=1e-10)
    assert float((found.value.reshape(RUNS, 2).amin(-1) - all_of_them.amin(-1)).max()) < 1e-3


def test_starts_cost_as_much_in_any_dimension():
    usual, quick = MAXIMIZERS["default"], MAXIMIZERS["quick"]
    counts = [maximize.straightened(usual, d).starts for d in (1, 5, 8, 16, 40)]
    assert counts == sorted(counts, reverse=True) and (counts[0], counts[-1]) == (24, 8)
    assert maximize.straightened(usual, 5).finalists == 2 and maximize.straightened(quick, 5) == quick
    assert maximize.straightened(replace(usual, raw=15), 5).starts == 15


class Torn(Curved):
    """Outcomes that are no numbers where the first parameter is large."""

    def __call__(self, X):
        return torch.where(X[..., :1] > 0.5, torch.nan, super().__call__(X))


def test_where_outcomes_are_no_numbers_the_way_goes_round():
    fitted = posterior_of(Curved())
    objective = Search(fitted._replace(lift=Torn()), eubo.prepare(fitted), request()).objective(STARTS)
    x = 0.5 * rand(RUNS, STARTS, 2 * D, seed=3)
    before = objective.value(x.reshape(-1, 2 * D))
    found = composite.ascend(
        objective, x, (torch.zeros_like(x), torch.ones_like(x)), TOLERANCES._replace(group=STARTS, max_rounds=50)
    )
    assert bool(found.value.isfinite().all()) and float((before - found.value).min()) > 0.0


def test_where_all_end_at_once_what_is_no_number_does_not_go_on():
    fitted = posterior_of(Curved())
    objective = Search(fitted._replace(lift=Torn()), eubo.prepare(fitted), request()).objective(STARTS)
    x = 0.5 * rand(RUNS, STARTS, 2 * D, seed=3)
    box = torch.zeros_like(x), torch.full_like(x, 0.5)
    tolerances = TOLERANCES._replace(group=STARTS, max_rounds=50)
    x = composite.ascend(objective, x, box, tolerances).x.reshape(x.shape)
    x[:, 1, 0] = 0.9
    found = composite.ascend(objective, x, (box[0], torch.ones_like(x)), tolerances, (50, 2))
    assert found.value.shape == (2 * RUNS,) and bool(found.value.isfinite().all())


@pytest.mark.parametrize("switch", ["0", "1"])
@pytest.mark.parametrize("maximizer", ["default", "thorough", "quick"])
def test_a_question_is_found_beside_what_is_no_number(maximizer, switch, monkeypatch):
    monkeypatch.setenv(launch.SWITCH, switch)
    fitted = posterior_of(Curved())._replace(lift=Torn())
    found = maximize.propose(fitted, MAXIMIZERS[maximizer], request())
    assert bool(found.value.isfinite().all()) and bool((found.pair[..., 0] <= 0.5).all())


def test_what_is_found_is_no_worse_than_by_gradients(monkeypatch):
    fitted = posterior_of(Curved(), seed=1)
    found = maximize.propose(fitted, MAXIMIZERS["default"], request())
    monkeypatch.setattr(composite, "applies", lambda objective: False)
    other = maximize.propose(fitted, MAXIMIZERS["default"], request())
    best = posterior.own_mean(fitted).amax(-1)
    assert bool(((found.value - best) >= 0.98 * (other.value - best)).all())


def test_runs_do_not_know_of_each_other():
    fitted = posterior_of(Curved())
    together = maximize.propose(fitted, MAXIMIZERS["default"], request())
    for run in range(RUNS):
        one = take(fitted._replace(lift=None), torch.tensor([run]))._replace(lift=Curved())
        found = maximize.propose(one, MAXIMIZERS["default"], Request([stream(run, "through")]))
        assert torch.allclose(found.pair[0], together.pair[run], atol=1e-6)


def test_a_box_and_a_lattice_are_kept():
    fitted = posterior_of(Curved())
    box = torch.full((RUNS, D), 0.2, dtype=torch.float64), torch.full((RUNS, D), 0.4, dtype=torch.float64)
    found = maximize.propose(fitted, MAXIMIZERS["default"], request(box=box))
    assert bool(((found.pair >= 0.2) & (found.pair <= 0.4)).all())
    on = Lattice((Group((1,), torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)),))
    found = maximize.propose(fitted, MAXIMIZERS["default"], request(lattice=on))
    assert torch.equal(discrete.nearest(on, found.pair), found.pair)


def test_it_applies_to_known_outcomes_alone():
    objective, _, _ = task()
    assert composite.applies(objective)
    fitted = posterior_of(Curved(budget=64))
    prepared = eubo.prepare(fitted)
    assert composite.applies(Search(fitted, prepared, request()).objective(2))
    limited = Search(posterior_of(Curved()), prepared, request(allowed=lambda X: X.sum(-1))).objective(2)
    assert not composite.applies(limited)
    assert isinstance(objective.look(rand(RUNS * STARTS, 2, D)), Looked)
