"""What every registered problem promises; a new row of the registry is tested by being there."""

import math
import re
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import kappasharp as ks
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.problems.problem import Provenance
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, VARIANTS, find_problem
from tests.reference.search import climb, polish, wander

ALL = PROBLEMS | VARIANTS | DEVELOPMENT
# Those that run a simulation: no gradient, and milliseconds per point. Every other one must be differentiable.
SIMULATED = {"pid-3d", "plasma-16d", "robotpush-14d", "robotpush-14d-noisy"}
# Those in which every design has a noise of its own: a search always finds a luckier one beside the best.
NOISY = {"robotpush-14d-noisy"}
# Those on whose many hills ascents get lost. They are sums of functions of one coordinate each, and `test_development`
# searches one coordinate at a time instead.
RUGGED = {"michalewicz-5d", "rastrigin-6d"}
# Copies with meaningless outcomes have the utilities of the warped ones, which `test_outcomes` compares.
ANALYTIC = [name for name in ALL if name not in SIMULATED and not name.endswith("-noise")]
NAMES = (
    "dtlz2-8d dtlz2-16d dtlz2-20d plasma-16d ackley-8d hartmann-6d levy-10d levy-20d vehicle-5d carcab-7d robotpush-14d"
)

every_problem = pytest.mark.parametrize("row", ALL.values(), ids=ALL.keys())
every_analytic_problem = pytest.mark.parametrize("row", [ALL[name] for name in ANALYTIC], ids=ANALYTIC)
every_simulation = pytest.mark.parametrize("row", [ALL[name] for name in sorted(SIMULATED)], ids=sorted(SIMULATED))


def cube(row, *shape, seed=0):
    return torch.rand(*shape, row.dimensions, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def few(row, count):
    """As many points as the problem's price allows."""
    return cube(row, min(count, 5) if row.name in SIMULATED else count)


def slack(row):
    return 1e-6 * max(1.0, abs(row.maximum.value))


def test_the_papers_eleven_and_their_variants():
    assert list(PROBLEMS) == NAMES.split()
    assert list(ks.PROBLEMS) == NAMES.split()
    assert len(ALL) == len(PROBLEMS) + len(VARIANTS) + len(DEVELOPMENT)
    assert {name for name, row in ALL.items() if row.is_simulated} == SIMULATED >= NOISY


@every_problem
def test_it_is_what_it_says(row):
    """Its name, its words, its box, the unit cube on it, and the value of its best design."""
    assert find_problem(row.name) is row and ks.problem(row.name) is row
    assert [name for name, found in ALL.items() if found is row] == [row.name]
    # Names are written into results: lower case, words, the dimension.
    assert re.fullmatch(rf"[a-z0-9]+-{row.dimensions}d(-[a-z]+)?", row.name)

    assert isinstance(row.provenance, Provenance)
    assert row.provenance in ("sourced", "reconstructed", "fitted")
    assert row.version >= 1
    for text in (row.formula, row.origin, row.maximum.source):
        assert len(text.split()) >= 2, text
    assert len(row.parameters) in (0, row.dimensions)
    assert len(set(row.parameters)) == len(row.parameters)

    assert row.bounds.shape == (2, row.dimensions) and row.bounds.dtype == torch.float64
    low, high = row.bounds
    assert bool(row.bounds.isfinite().all()) and bool((low < high).all())
    assert low.tolist() == list(row.low) and high.tolist() == list(row.high)

    corners = torch.tensor([[0.0], [1.0]]).expand(2, row.dimensions)
    assert torch.equal(row.to_native(corners), row.bounds)
    assert torch.equal(row.to_unit(row.bounds), corners)
    U = few(row, 20)
    X = row.to_native(U)
    assert torch.allclose(row.to_unit(X), U, rtol=0.0, atol=1e-15 * 40)
    assert torch.equal(row.unit_utility(U), row.utility(X))

    point = torch.tensor(row.maximum.point)
    assert point.shape == (row.dimensions,)
    assert float(row.utility(point)) == pytest.approx(row.maximum.value, rel=1e-6, abs=1e-9)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"No problem is called 'hartman-6d'\. Did you mean 'hartmann-6d'\?"):
        ks.problem("hartman-6d")


@cache
def found(name):
    """The best of thirty ascents from uniform points, and of thirty from around the maximum; climbed all at once."""
    row = ALL[name]
    low, high = row.bounds
    around = torch.tensor(row.maximum.point) + 0.2 * (high - low) * (cube(row, 30, seed=1) - 0.5)
    starts = torch.cat([row.to_native(cube(row, 30, seed=2)), around.clamp(low, high)])
    parts = climb(row.evaluate, low, high, starts).split(30)
    return [polish(row.evaluate, low, high, part[row.evaluate(part).topk(2).indices]) for part in parts]


def steps(row, count):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(count, row.dimensions, generator=generator, dtype=torch.float64)


@every_analytic_problem
def test_its_maximum_is_not_exceeded(row):
    low, high = row.bounds
    for best, where in found(row.name):
        assert best <= row.maximum.value + slack(row), where
    point = torch.tensor(row.maximum.point)
    assert wander(row.utility, low, high, point, steps(row, 3_000)) <= row.maximum.value + slack(row)
    assert float(row.unit_utility(cube(row, 20_000)).max()) <= row.maximum.value + slack(row)


@pytest.mark.parametrize("row", [ALL[name] for name in sorted(SIMULATED - NOISY)], ids=sorted(SIMULATED - NOISY))
def test_its_maximum_is_not_exceeded_by_a_short_search(row):
    low, high = row.bounds
    point = torch.tensor(row.maximum.point)
    assert wander(row.utility, low, high, point, steps(row, 80)) <= row.maximum.value + slack(row)
    assert float(row.unit_utility(cube(row, 40)).max()) <= row.maximum.value + slack(row)


@every_analytic_problem
def test_the_search_bites(row):
    """Without a hint it comes near every maximum, so a larger one would not have escaped it so easily."""
    ordinary = float(row.unit_utility(cube(row, 1000)).median())
    near = 0.2 if row.name in RUGGED else 0.1
    assert row.maximum.value - found(row.name)[0][0] < near * (row.maximum.value - ordinary)
    centre = row.to_native(cube(row, 1, seed=7)[0])
    assert wander(row.utility, *row.bounds, centre, steps(row, 200)) > float(row.utility(centre))


def any_point(row):
    """Points of the unit cube, many of their coordinates on its faces."""
    coordinate = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
    return st.lists(coordinate, min_size=row.dimensions, max_size=row.dimensions)


@every_problem
def test_it_is_finite_on_the_whole_box(row):
    @settings(max_examples=20 if row.name in SIMULATED else settings().max_examples)
    @given(st.lists(any_point(row), min_size=1, max_size=1 if row.name in SIMULATED else 4))
    def check(points):
        found = row.unit_utility(points)
        assert found.shape == (len(points),) and bool(found.isfinite().all())

    check()
    # Its corners are the likeliest to fail.
    d = row.dimensions
    low, high = torch.zeros(1, d), torch.ones(1, d)
    alone = torch.cat([low, high, torch.eye(d), 1.0 - torch.eye(d)])
    random = cube(row, 10 if row.name in SIMULATED else 2000, seed=4).round()
    assert bool(row.unit_utility(torch.cat([alone, random])).isfinite().all())


@every_problem
def test_a_batch_is_its_points_one_by_one_in_any_order_and_shape(row):
    U = few(row, 30)
    together = row.unit_utility(U)
    assert len(together.unique()) > 1
    alone = torch.stack([row.unit_utility(u) for u in U])
    assert torch.allclose(together, alone, rtol=1e-13, atol=1e-13)
    assert torch.allclose(row.unit_utility(U.flip(0)).flip(0), together, rtol=1e-13, atol=1e-13)
    assert torch.equal(row.unit_utility(U), together)  # and again: nothing is drawn

    U = cube(row, 2, 1, 3)
    flat = row.unit_utility(U.reshape(6, -1))
    assert torch.allclose(row.unit_utility(U), flat.reshape(2, 1, 3), rtol=1e-13, atol=1e-13)
    assert torch.allclose(row.unit_utility(U.mT.contiguous().mT), flat.reshape(2, 1, 3), rtol=1e-13, atol=1e-13)
    assert row.unit_utility(U[0, 0, 0]).shape == ()
    assert row.utility(torch.empty(0, row.dimensions)).shape == (0,)


@every_problem
def test_lists_arrays_and_single_precision_come_in_as_they_are(row):
    X = row.to_native(cube(row, 2))
    wanted = row.utility(X)
    assert torch.equal(row.utility(X.tolist()), wanted)
    assert torch.equal(row.utility(X.numpy()), wanted)
    before = X.clone()
    row.utility(X)
    assert torch.equal(X, before)

    X = row.to_native(few(row, 50).float())
    found, wanted = row.utility(X), row.utility(X.double().clamp(*row.bounds))
    assert found.dtype == torch.float32
    # Relative to how much the utility varies: Vehicle's fitted one is a small difference of numbers near 5000.
    scale = float(wanted.abs().max())
    assert float((found - wanted).abs().max()) <= 2e-5 * max(1.0, scale)

    for corner in row.bounds.float():
        assert math.isfinite(float(row.utility(corner)))
    assert bool(row.unit_utility(torch.tensor([[0.0], [1.0]]).expand(2, row.dimensions).float()).isfinite().all())


@every_analytic_problem
def test_it_stays_on_the_device_of_its_points(row):
    """No constant is left behind on another: the device "meta" refuses every mixture, as a GPU does."""
    found = row.evaluate(torch.empty(3, row.dimensions, dtype=torch.float64, device="meta"))
    assert (found.shape, found.device.type, found.dtype) == ((3,), "meta", torch.float64)
    with pytest.raises(RuntimeError):
        _ = torch.empty(3, device="meta") + torch.ones(3)


@every_analytic_problem
def test_its_gradient_is_that_of_finite_differences(row):
    U = (0.05 + 0.9 * cube(row, 5, seed=6)).requires_grad_()
    (slope,) = torch.autograd.grad(row.unit_utility(U).sum(), U)
    h = 1e-6
    shifts = h * torch.eye(row.dimensions)
    with torch.no_grad():
        rise = row.unit_utility(U.unsqueeze(1) + shifts) - row.unit_utility(U.unsqueeze(1) - shifts)
    assert torch.allclose(slope, rise / (2.0 * h), rtol=1e-5, atol=1e-6 * max(1.0, float(slope.abs().max())))
    assert bool((slope != 0.0).any())


@every_simulation
def test_a_simulation_takes_points_that_want_a_gradient(row):
    U = cube(row, 1).requires_grad_()
    assert not row.unit_utility(U).requires_grad


@every_problem
def test_points_outside_are_refused_with_their_place(row):
    low, high = row.bounds
    on_the_edge = row.utility(high)
    assert torch.equal(row.utility(high + 1e-10 * (high - low)), on_the_edge)
    with pytest.raises(InvalidValueError, match="inside the bounds of " + row.name):
        row.utility(high + 1e-6 * (high - low))

    d = row.dimensions
    for side, value in ((low, low - 0.5), (high, high + 0.5)):
        X = row.to_native(cube(row, 3))
        X[1, d - 1] = value[-1]
        words = (
            rf"`X` must lie inside the bounds of {row.name}, from {row.low[-1]:g} to {row.high[-1]:g} "
            rf"in column {d - 1}, but got {float(value[-1])} at index \(1, {d - 1}\)"
        )
        with pytest.raises(InvalidValueError, match=words):
            row.utility(X)
        X[1, d - 1] = side[-1]
        assert bool(row.utility(X).isfinite().all())

    for value in (math.nan, math.inf, -math.inf):
        U = cube(row, 2)
        X = row.to_native(U)
        U[1, 0] = X[1, 0] = value
        with pytest.raises(InvalidValueError, match=rf"`X` must lie inside .* but got {value} at index \(1, 0\)"):
            row.utility(X)
        with pytest.raises(
            InvalidValueError, match=rf"`U` must lie in the unit cube, from 0 to 1 in column 0, but got {value}"
        ):
            row.unit_utility(U)

    for value in (-0.01, 1.01):
        U = cube(row, 1)
        U[0, -1] = value
        words = rf"`U` must lie in the unit cube, .* column {row.dimensions - 1}, but got {value} at index"
        with pytest.raises(InvalidValueError, match=words):
            row.unit_utility(U)


@every_problem
def test_what_is_no_array_of_points_is_refused(row):
    d = row.dimensions
    for shape in ((d + 1,), (4, d - 1), (d, 1), (2, 3, 0)):
        words = re.escape(f"must be a dense array of the shape (…, {d}) for {row.name}, but got {shape}.")
        for door, name in ((row.utility, "X"), (row.unit_utility, "U")):
            with pytest.raises(InvalidValueError, match=f"`{name}` {words}"):
                door(torch.zeros(shape))
    with pytest.raises(InvalidValueError, match=r"but got \(\)"):
        row.utility(0.5)

    for bad in (torch.zeros(d, dtype=torch.int64), torch.zeros(d).half(), torch.zeros(d) > 0, torch.zeros(d) + 0j):
        words = re.escape(f"`X` must hold float32 or float64 numbers, but got {bad.dtype}.")
        with pytest.raises(InvalidTypeError, match=words):
            row.utility(bad)
    for bad in ("high", None, ["a"] * d, [[0.5] * d, [0.5]], [1j] * d, np.array(["1"] * d), {"x": 1.0}):
        with pytest.raises(InvalidTypeError, match="`U` must be an array of numbers, but got"):
            row.unit_utility(bad)
        with pytest.raises(ks.KappaSharpError):
            row.utility(bad)
