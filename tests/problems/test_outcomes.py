"""Problems with outcomes: the utility is a function of them, warped copies keep them, known values are met."""

import re
from dataclasses import replace

import botorch.test_functions.multi_objective as b
import pytest
import torch

import kappasharp as ks
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.problems import multi_outcome, pid, step_response, warped
from kappasharp.problems.registry import DEVELOPMENT, OUTCOMES, PROBLEMS, VARIANTS, find_problem

ALL = PROBLEMS | VARIANTS | DEVELOPMENT
WITH = {name: row for name, row in ALL.items() if row.visible}
NOISE = {name: row for name, row in WITH.items() if name.endswith("-noise")}
TELLING = {name: row for name, row in WITH.items() if name not in NOISE}
EXPECTED = {
    "dtlz2-5d": 4, "dtlz2-8d": 4, "dtlz2-16d": 4, "dtlz2-20d": 4, "vehicle-5d": 3, "carcab-7d": 9, "plasma-16d": 4,
    "zdt2-20d": 2, "osy-6d": 8, "pid-3d": 4, "weldedbeam-4d": 5, "speedreducer-7d": 5,
}  # fmt: skip
# The bends of vehicle-5d-warped.
PINNED_POWER = [0.7738137608558873, 0.8749649917097457, 1.2591795120267533, 0.7119220426951044, 0.4000117150735439]
PINNED_FLIPS = [False, True, True, True, True]

every_problem = pytest.mark.parametrize("row", WITH.values(), ids=WITH.keys())
every_telling_problem = pytest.mark.parametrize("row", TELLING.values(), ids=TELLING.keys())


def cube(row, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(
        min(count, 6) if row.name == "plasma-16d" else count, row.dimensions, generator=generator, dtype=torch.float64
    )


def test_which_problems_have_outcomes():
    assert {name: len(row.outcome_names) for name, row in ALL.items() if name in EXPECTED} == EXPECTED
    assert {f"{row.name}-{kind}" for row in OUTCOMES for kind in ("warped", "noise")} <= set(WITH)
    assert len(OUTCOMES) == len(NOISE) == 5


@every_problem
def test_outcomes_are_checked_and_shaped_like_utilities(row):
    U = cube(row, 6).reshape(2, 1, 3, -1)
    found, k = row.unit_outcomes(U), len(row.outcome_names)
    assert len(set(row.outcome_names)) == k and all(row.outcome_names)
    assert found.shape == (2, 1, 3, k) and found.dtype == torch.float64 and bool(found.isfinite().all())
    assert torch.equal(found, row.outcomes(row.to_native(U)))
    assert torch.equal(found, row.unit_outcomes(U))
    alone = torch.stack([row.unit_outcomes(u) for u in U.reshape(6, -1)]).reshape(found.shape)
    assert torch.allclose(found, alone, rtol=1e-12, atol=1e-12)
    # Every outcome varies.
    assert bool((found.reshape(6, k).std(0) > 0).all())
    assert row.outcomes(torch.empty(0, row.dimensions)).shape == (0, k)
    corners = torch.tensor([[0.0], [1.0]]).expand(2, row.dimensions)
    assert bool(row.unit_outcomes(corners).isfinite().all())
    with pytest.raises(InvalidValueError, match="`U` must lie in the unit cube"):
        row.unit_outcomes(U + 1.0)
    with pytest.raises(InvalidValueError, match="inside the bounds of " + row.name):
        row.outcomes(row.bounds[1] + 1.0)
    with pytest.raises(InvalidTypeError, match="`X` must be an array of numbers"):
        row.outcomes("all")


@every_telling_problem
def test_the_utility_is_a_function_of_the_outcomes(row):
    X = row.to_native(cube(row, 200))
    assert torch.equal(row.utility(X), row.visible.worth(row.outcomes(X)))


def test_designs_with_equal_outcomes_have_equal_utility():
    """DTLZ2 sees its last coordinates by their distance from the middle, ZDT2 by their mean."""
    for name in ("dtlz2-8d", "dtlz2-16d", "dtlz2-20d", "dtlz2-5d"):
        row = find_problem(name)
        X = cube(row, 50)
        twin = torch.cat([X[:, :3], 1.0 - X[:, 3:].flip(-1)], -1)
        assert float((X - twin).abs().max()) > 0.3
        assert torch.allclose(row.outcomes(X), row.outcomes(twin), rtol=0.0, atol=1e-12)
        assert torch.allclose(row.utility(X), row.utility(twin), rtol=0.0, atol=1e-12)
    row = find_problem("zdt2-20d")
    X = cube(row, 50)
    twin = torch.cat([X[:, :1], X[:, 1:].flip(-1)], -1)
    assert torch.allclose(row.outcomes(X), row.outcomes(twin), rtol=0.0, atol=1e-12)


def test_a_problem_without_outcomes_says_so():
    words = r"`outcomes` needs a problem whose utility is computed from outcomes, but hartmann-6d has none"
    for door in (ks.problem("hartmann-6d").outcomes, ks.problem("hartmann-6d").unit_outcomes):
        with pytest.raises(InvalidValueError, match=words):
            door([0.5] * 6)
    assert ks.problem("hartmann-6d").outcome_names == ()


@pytest.mark.parametrize("row", OUTCOMES, ids=lambda row: row.name)
def test_a_warped_copy_is_its_original_elsewhere(row):
    copy = find_problem(f"{row.name}-warped")
    bend = warped.Bend(copy.name, row.dimensions)
    U = cube(row, 300)
    V = bend.to(U)
    assert torch.equal(copy.unit_outcomes(U), row.outcomes(row.to_native(bend.to(row.to_unit(row.to_native(U))))))
    assert torch.allclose(copy.unit_utility(U), row.unit_utility(V.clamp(0.0, 1.0)), rtol=1e-9, atol=1e-9)
    assert torch.allclose(bend.back(V), U, rtol=0.0, atol=1e-9)
    # Each coordinate by itself, monotone, onto the whole unit interval, with exponents that were drawn.
    ends = bend.to(torch.tensor([[0.0], [1.0]]).expand(2, row.dimensions))
    assert torch.allclose(ends.sort(0).values, torch.tensor([[0.0], [1.0]]).expand_as(ends), atol=1e-12)
    assert torch.equal(ends[0] > 0.5, bend.flipped)
    assert bool((bend.power >= 0.4).all()) and bool((bend.power <= 2.5).all())
    half = torch.full((row.dimensions,), 0.5)
    straight = torch.where(bend.flipped, 1.0 - 0.5**bend.power, 0.5**bend.power)
    assert float((bend.to(half) - straight).abs().max()) < 0.02  # nearly a plain power
    assert copy.maximum.value == row.maximum.value and copy.maximum.point != row.maximum.point
    U = torch.zeros(1, row.dimensions, requires_grad=True)
    (slope,) = torch.autograd.grad(copy.unit_utility(U).sum(), U)
    assert bool(slope.isfinite().all())  # on the faces too


def test_the_bends_are_drawn_for_ever():
    bend = warped.Bend("vehicle-5d-warped", 5)
    assert torch.allclose(bend.power, torch.tensor(PINNED_POWER), rtol=0.0, atol=1e-12)
    assert bend.flipped.tolist() == PINNED_FLIPS


@pytest.mark.parametrize("row", NOISE.values(), ids=NOISE.keys())
def test_noise_says_nothing_about_the_utility(row):
    U = cube(row, 4000)
    Y, u = row.unit_outcomes(U), row.unit_utility(U)
    assert torch.equal(u, find_problem(row.name.replace("noise", "warped")).unit_utility(U))
    design = torch.cat([torch.ones(4000, 1), Y, Y.square(), Y[:, :1] * Y[:, 1:]], 1)
    left = u - design @ torch.linalg.lstsq(design, u.unsqueeze(1)).solution.squeeze(1)
    # A quadratic of the outcomes explains little; what it does explain is that both are smooth functions of the design.
    assert float(left.var() / u.var()) > 0.7
    near = row.unit_outcomes((U + 1e-4).clamp(max=1.0))
    assert float((near - Y).abs().max()) < 0.05  # smooth
    assert bool(row.visible.worth(Y).isnan().all())


def test_osy_is_botorchs_negated():
    row, theirs = find_problem("osy-6d"), b.OSY()
    X = row.to_native(cube(row, 100))
    assert row.bounds.tolist() == theirs.bounds.tolist()
    wanted = torch.cat([-theirs.evaluate_true(X), theirs.evaluate_slack_true(X)], -1)
    assert torch.allclose(row.outcomes(X), wanted.to(X), rtol=1e-12, atol=1e-9)
    # Broken limits cost 10 for each unit, kept ones give 0.1.
    Y = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, -1.0, 2.0, 0.0, 0.0, 0.0, 0.0]])
    found = multi_outcome.osy_piecewise(Y)
    assert float(found[1] - found[0]) == pytest.approx(-10.0 + 0.2, abs=1e-12)


def test_the_tutorials_dtlz2():
    row, theirs = find_problem("dtlz2-5d"), b.DTLZ2(dim=5, num_objectives=4)
    X = row.to_native(cube(row, 100))
    Y = theirs.evaluate_true(X)
    assert torch.allclose(row.outcomes(X), Y, rtol=1e-12, atol=1e-12)
    assert torch.allclose(row.utility(X), -(Y - 0.5).abs().sum(-1), rtol=1e-12, atol=1e-12)


def plainly(proportional, integral, derivative):
    """One response, number by number."""
    dt = 12.0 / 600
    position = speed = force = total = 0.0
    positions, forces = [], []
    for _ in range(600):
        error = 1.0 - position
        total = min(max(total + error * dt, -5.0), 5.0)
        command = min(max(proportional * error + integral * total - derivative * speed, -8.0), 8.0)
        force += dt / 0.15 * (command - force)
        speed += dt * (force - 0.6 * speed - position)
        position += dt * speed
        positions.append(position)
        forces.append(force)
    return positions, forces


def test_a_response_is_that_of_a_plain_loop():
    gains = 10.0 ** pid.PID_3D.to_native(cube(pid.PID_3D, 12))
    found = step_response.simulate(gains.numpy())
    for row, position, force in zip(gains.tolist(), found.positions, found.forces, strict=True):
        assert (position.tolist(), force.tolist()) == plainly(*row)
        alone = step_response.simulate(row)
        assert (alone.positions[0].tolist(), alone.forces[0].tolist()) == plainly(*row)


def test_what_is_read_off_a_response():
    """To a sample's time what a plain search finds; and of responses that never rise, or never settle."""
    gains = 10.0 ** pid.PID_3D.to_native(cube(pid.PID_3D, 40))
    dt, kinds = 0.02, set()
    for (over, rise, settled, strongest), row in zip(
        step_response.measures(gains.numpy()), gains.tolist(), strict=True
    ):
        positions, forces = plainly(*row)
        first = next((i for i, value in enumerate(positions) if value >= 0.9), None)
        late = [i for i, value in enumerate(positions) if abs(value - 1.0) > 0.05]
        assert over == max(max(positions) - 1.0, 0.0) and strongest == max(map(abs, forces))
        assert rise == 12.0 if first is None else (first - 1) * dt < rise <= first * dt + 1e-12
        assert settled == 12.0 if late[-1] == 599 else late[-1] * dt <= settled < (late[-1] + 1) * dt + 1e-12
        kinds |= {("rise", first is None), ("settle", late[-1] == 599)}
    assert len(kinds) == 4
    still = step_response.np.ones((1, 600))
    assert step_response.rise_time(still) == step_response.settling_time(still) == 0.0


def test_a_satisfaction_is_half_where_an_outcome_is_just_bearable():
    Y = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.1, 1.0, 3.0, 3.0]])
    assert pid.worth(Y).tolist() == pytest.approx([0.0, -2.4 * 0.6931471805599453])


def test_names_are_words():
    for row in WITH.values():
        assert all(re.fullmatch(r"[\w ,\[\]/]+", name) for name in row.outcome_names)


def test_a_problem_first_seen_in_inference_mode_has_gradients_still():
    problem = replace(find_problem("dtlz2-8d-warped"))
    with torch.inference_mode():
        problem.unit_utility(torch.full((1, 8), 0.3, dtype=torch.float64))
    X = torch.full((1, 8), 0.3, dtype=torch.float64, requires_grad=True)
    problem.unit_utility(X).sum().backward()
    assert X.grad is not None and bool(X.grad.isfinite().all())
