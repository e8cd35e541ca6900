"""Numbers from outside: each definition against values recomputed from its public source, and its statistics."""

import math
import re
from pathlib import Path

import pytest
import torch

from kappasharp.problems import multi_outcome, robot_push
from kappasharp.problems.registry import find_problem
from tests.reference.search import polish

ROOT = Path(__file__).parents[2]
PLACES = ("docs/problems.md", "Makefile", "constraints.txt")
GROUP = 106  # the designs that a run of the paper's grid has seen at its end


def near(found, wanted, tolerance=1e-9):
    assert torch.allclose(found, torch.tensor(wanted), rtol=0.0, atol=tolerance), found


def uniform_points(name, count, seed=0):
    row, generator = find_problem(name), torch.Generator().manual_seed(seed)
    return row.to_native(torch.rand(count, row.dimensions, generator=generator, dtype=torch.float64))


EIGHT = [i / 10 for i in range(1, 9)]
SIXTEEN, TWENTY = ([0.05 + 0.9 * i / (d - 1) for i in range(d)] for d in (16, 20))


def test_dtlz2_outcomes():
    near(multi_outcome.dtlz2_outcomes(torch.tensor(EIGHT)), [0.9625093944, 0.4904230318, 0.3509943547, 0.1798996348])
    near(multi_outcome.dtlz2_outcomes(torch.tensor(SIXTEEN)), [1.6676606944, 0.4562203404, 0.301748116, 0.138127238])


@pytest.mark.parametrize("d", [8, 16, 20])
def test_dtlz2_outcomes_at_the_centre_are_the_wish(d):
    wish = [0.3535533906, 0.3535533906, 0.5, 0.7071067812]
    near(multi_outcome.dtlz2_outcomes(torch.full((d,), 0.5)), wish)
    near(torch.tensor(multi_outcome.DTLZ2_WISH), wish)


@pytest.mark.parametrize(
    ("name", "x", "utility"),
    [
        ("dtlz2-8d", EIGHT, -1.4220384366),
        ("dtlz2-16d", SIXTEEN, -2.1840056808),
        ("dtlz2-20d", TWENTY, -2.4045515616),
        ("dtlz2-8d-piecewise", EIGHT, -2.7968049829),
        ("ackley-8d", [0.5] * 8, -4.2536540266),
        ("ackley-8d", [1.0] * 8, -3.6253849384),
        ("levy-10d", [0.0] * 10, -1.4426009871),
        ("levy-20d", [0.0] * 20, -2.3510465282),
        ("vehicle-5d", [1.2, 1.6, 2.0, 2.4, 2.8], 0.0498813096),
        ("carcab-7d", [1.0, 0.9, 1.0, 1.0, 1.75, 0.8, 0.8], -4.6857936756),
    ],
)
def test_utilities(name, x, utility):
    near(find_problem(name).utility(x), utility)


@pytest.mark.parametrize(
    ("name", "value", "tolerance"),
    [
        ("dtlz2-8d-piecewise", 1.175, 5e-10),
        ("dtlz2-16d-piecewise", 2.324, 5e-4),
        ("dtlz2-20d-piecewise", 2.875, 5e-4),
        ("hartmann-6d", 3.32237, 5e-6),
        ("vehicle-5d", 4.1267, 5e-5),
        ("vehicle-5d-fitted", -5038.845, 5e-4),
        ("carcab-7d", -1.8101, 5e-5),
    ],
)
def test_published_maxima(name, value, tolerance):
    assert find_problem(name).maximum.value == pytest.approx(value, rel=0.0, abs=tolerance)


@pytest.mark.parametrize(
    ("name", "x", "value", "tolerance"),
    [
        ("hartmann-6d", (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573), 3.32237, 5e-6),
        ("vehicle-5d", (1.0, 3.0, 1.0, 1.0, 1.7391), 4.1267, 5e-5),
        ("vehicle-5d-fitted", (1.0, 1.0, 1.0, 1.0, 1.0), -5038.845, 5e-4),
        ("carcab-7d", (0.775, 1.35, 0.5, 1.153, 2.625, 1.2, 0.4), -1.8101, 1e-3),
    ],
)
def test_published_maxima_at_their_published_points(name, x, value, tolerance):
    near(find_problem(name).utility(x), value, tolerance)


def test_vehicle_outcomes():
    x = torch.tensor([1.2, 1.6, 2.0, 2.4, 2.8])
    near(multi_outcome.vehicle_outcomes(x), [1686.97198644, 10.352528, 0.0905])
    near(multi_outcome.vehicle_scaled(multi_outcome.vehicle_outcomes(x)), [0.4044658803, 0.2467006407, 0.7825932131])
    near(multi_outcome.vehicle_outcomes(torch.ones(5)), [1661.7078225, 8.3046, 0.0708])


def lowest(outcome):
    """The smallest value of one of Vehicle's outcomes, searched from every corner of its box."""
    corners = torch.cartesian_prod(*[torch.tensor([1.0, 3.0])] * 5)
    highest, _ = polish(
        lambda x: -multi_outcome.vehicle_outcomes(x)[..., outcome], *find_problem("vehicle-5d").bounds, corners
    )
    return -highest


def test_vehicle_minima():
    assert lowest(0) == pytest.approx(1661.7078225, abs=1e-9)
    assert lowest(1) == pytest.approx(6.1428, abs=1e-9)
    # 0.0424862, often given as the smallest intrusion, is a local minimum; a corner of the box has less.
    assert lowest(2) == pytest.approx(0.0394, abs=1e-9)
    near(multi_outcome.vehicle_outcomes(torch.tensor([1.0, 1.0, 3.0, 3.0, 3.0]))[2], 0.0394)
    near(multi_outcome.vehicle_outcomes(torch.tensor([3.0, 3.0, 1.0, 2.5596, 3.0]))[2], 0.0424862, 5e-8)
    near(multi_outcome.vehicle_outcomes(torch.tensor([1.0, 3.0, 3.0, 1.0, 1.0]))[1], 6.1428)


def test_carcab_at_the_centre_of_its_box():
    x = find_problem("carcab-7d").bounds.mean(0)
    near(
        multi_outcome.carcab_outcomes(x),
        [29.119508, 0.82547, 0.25821, 0.2179743, 0.37487, 32.9089, 4.049, 9.9734, 14.8786],
        5e-8,
    )
    wanted = [0.5001954642, 0.4567123038, 0.5066561474, 0.3870593613, 0.3418931584, 0.3756471008]
    near(
        multi_outcome.carcab_scaled(multi_outcome.carcab_outcomes(x)), [*wanted, 0.472866242, 0.2449172411, 0.212346886]
    )
    near(multi_outcome.carcab(multi_outcome.carcab_outcomes(x)), -4.6857936756)
    near(multi_outcome.carcab_linear(multi_outcome.carcab_outcomes(x)), 4.8393102746)


def test_carcabs_linear_utility_has_its_published_maximum():
    linear = multi_outcome.CARCAB._replace(worth=multi_outcome.carcab_linear)
    highest, _ = polish(linear.utility, *find_problem("carcab-7d").bounds, uniform_points("carcab-7d", 20))
    assert highest == pytest.approx(6.1140, abs=5e-5)


# Mean and standard deviation, published with three digits, of the utility of one uniform design.
SINGLE = {
    "dtlz2-8d": (-1.348, 0.385),
    "dtlz2-16d": (-2.130, 0.462),
    "dtlz2-20d": (-2.569, 0.524),
    "dtlz2-8d-piecewise": (-4.69, 1.77),
    "dtlz2-16d-piecewise": (-3.51, 2.25),
    "dtlz2-20d-piecewise": (-3.05, 2.38),
}
# The same of the best of 106 uniform designs, from 60 groups.
BEST = {
    "dtlz2-8d": (-0.493, 0.096),
    "dtlz2-16d": (-1.081, 0.151),
    "dtlz2-20d": (-1.382, 0.166),
    "dtlz2-8d-piecewise": (-0.82, 0.44),
    "dtlz2-16d-piecewise": (0.90, 0.29),
    "dtlz2-20d-piecewise": (1.26, 0.22),
    "ackley-8d": (-2.63, 0.28),
    "hartmann-6d": (2.10, 0.43),
    "levy-10d": (-29.5, 8.0),
    "levy-20d": (-100.0, 17.6),
    "carcab-7d": (-2.49, 0.17),
}


@pytest.mark.parametrize("name", SINGLE)
def test_one_random_design(name):
    mean, spread = SINGLE[name]
    found = find_problem(name).utility(uniform_points(name, 40_000))
    # Four standard errors of ours, and as much of theirs from at least 106 designs a group, 60 groups.
    assert float(found.mean()) == pytest.approx(mean, abs=8.0 * spread / math.sqrt(60 * GROUP) + 5e-3)
    assert float(found.std()) == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("name", BEST)
def test_the_best_of_106_random_designs(name):
    mean, spread = BEST[name]
    best = find_problem(name).utility(uniform_points(name, 600 * GROUP).reshape(600, GROUP, -1)).amax(-1)
    assert float(best.mean()) == pytest.approx(mean, abs=4.0 * spread / math.sqrt(60))
    assert float(best.std()) == pytest.approx(spread, rel=0.35)


def test_robot_push_known_reward():
    assert robot_push.KNOWN_REWARD == 6.292547934243
    assert robot_push.reward(robot_push.KNOWN_POINT) == pytest.approx(6.292547934243, rel=0.0, abs=1e-9)
    near(find_problem("robotpush-14d").utility(robot_push.KNOWN_POINT), 6.292547934243)


def test_robot_push_upper_bound():
    assert robot_push.HIGHEST == pytest.approx(11.0727371270, rel=0.0, abs=5e-11)


@pytest.fixture(scope="module")
def pushed():
    """Random designs of RobotPush and their rewards."""
    X = uniform_points("robotpush-14d", 120, seed=3)
    return X, find_problem("robotpush-14d").utility(X)


def test_robot_push_statistics(pushed):
    """Published: −0.235 ± 1.420, and 38 % of all random designs touch nothing."""
    _, rewards = pushed
    assert float(rewards.mean()) == pytest.approx(-0.235, abs=4.0 * 1.42 / math.sqrt(120))
    assert float((rewards == 0.0).double().mean()) == pytest.approx(0.38, abs=4.0 * math.sqrt(0.38 * 0.62 / 120))
    assert float(rewards.max()) < robot_push.HIGHEST


def test_robot_push_is_bit_identical_when_repeated(pushed):
    X, rewards = pushed
    backwards = find_problem("robotpush-14d").utility(X[:25].flip(0)).flip(0)
    assert torch.equal(backwards, rewards[:25])


def test_robot_push_may_stop_when_every_body_sleeps(pushed, monkeypatch):
    """The same rewards, to the last bit, as when every step up to the end is simulated."""
    X = pushed[0][:25].tolist()
    steps = [0]
    one_step = robot_push.World.step

    def counted(world):
        steps[0] += 1
        one_step(world)

    def simulate(point):
        steps[0] = 0
        return robot_push.reward(point), steps[0]

    monkeypatch.setattr(robot_push.World, "step", counted)
    stopped = [simulate(point) for point in X]
    monkeypatch.setattr(robot_push.World, "is_at_rest", lambda _: False)
    full = [simulate(point) for point in X]
    assert [reward for reward, _ in stopped] == [reward for reward, _ in full]
    assert [count for _, count in full] == [int(10 * max(x[4], x[10])) + 100 for x in X]
    saved = [b - a for (_, a), (_, b) in zip(stopped, full, strict=True)]
    assert min(saved) >= 0 and sum(count > 0 for count in saved) > 3


def test_velocity_noise_moves_the_reward_a_little_and_hangs_on_the_design():
    """Published: by about 0.005 to 0.012 at the known point. A design that is met again gets the same noise."""
    still = robot_push.reward(robot_push.KNOWN_POINT)
    moved = [robot_push.reward(robot_push.KNOWN_POINT, velocity_noise=0.01, seed=seed) for seed in range(8)]
    assert len({still, *moved}) == 9
    assert 0.001 < sum(abs(reward - still) for reward in moved) / 8 < 0.1
    noisy = find_problem("robotpush-14d-noisy").utility(robot_push.KNOWN_POINT)
    assert float(noisy) == moved[0] == float(find_problem("robotpush-14d-noisy").utility(robot_push.KNOWN_POINT))


def test_an_engine_that_rounds_differently_is_reported(monkeypatch):
    assert robot_push.engine_complaint() is None
    # Fused multiply-add on ARM moves the known reward by 4.1e-9.
    monkeypatch.setattr(robot_push, "KNOWN_REWARD", robot_push.KNOWN_REWARD + 4.1e-9)
    robot_push.check_engine.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match=r"off by 4.1e-09.*; build it in the activated environment") as caught:
            find_problem("robotpush-14d").utility(robot_push.KNOWN_POINT)
    finally:
        robot_push.check_engine.cache_clear()
    assert all(command in str(caught[0].message) for command in robot_push.BUILD)


def test_what_builds_the_engine_is_named_alike_everywhere():
    """In the warning, in the documentation, and in `make setup`, whose versions are the constraints'."""
    page, makefile, constraints = ((ROOT / name).read_text("utf-8") for name in PLACES)
    assert "\n".join(("```bash", *robot_push.BUILD, "```")) in page
    versions = set(re.findall(r"[\w-]+==[\d.]+", " ".join(robot_push.BUILD)))
    assert len(versions) == 4 and versions <= set(constraints.split())
    options = set(re.findall(r"(?<= )(?:--no-\S+|C\w*FLAGS=\S+)", " " + " ".join(robot_push.BUILD)))
    assert len(options) == 5 and [option for option in options if option not in makefile] == []
