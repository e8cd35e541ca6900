"""The development set against numbers from outside: BoTorch's functions, the literature's optima, hand computation."""

import math

import botorch.test_functions as b
import pytest
import torch
from botorch.test_functions.multi_objective import ZDT2, WeldedBeam

from kappasharp.problems import gp_samples, multi_outcome, synthetic
from kappasharp.problems.registry import DEVELOPMENT, PROBLEMS, find_problem
from tests.reference.search import ascend

# BoTorch's function and our scale. They are made when a test runs: their constants take the precision of that moment.
TEXTBOOK = {
    "hartmann-3d": (lambda: b.Hartmann(dim=3), 1.0),
    "shekel-4d": (lambda: b.Shekel(m=10), 1.0),
    "michalewicz-5d": (lambda: b.Michalewicz(dim=5), 1.0),
    "cosine-8d": (b.Cosine8, -1.0),
    "powell-8d": (lambda: b.Powell(dim=8), 1e-3),
    "styblinskitang-10d": (lambda: b.StyblinskiTang(dim=10), 0.1),
    "dixonprice-12d": (lambda: b.DixonPrice(dim=12), 1e-4),
}
MOVED = {"rastrigin-6d": (lambda: b.Rastrigin(dim=6), 1.0), "griewank-10d": (lambda: b.Griewank(dim=10), 0.25)}
SEPARABLE = ("michalewicz-5d", "rastrigin-6d", "cosine-8d", "styblinskitang-10d")
# Inside the box, where the utility is smooth: the gradient must vanish.
INTERIOR = [
    name
    for name, row in DEVELOPMENT.items()
    if all(low < x < high for low, x, high in zip(row.low, row.maximum.point, row.high, strict=True))
]


def uniform_points(name, count=200, seed=0):
    row, generator = find_problem(name), torch.Generator().manual_seed(seed)
    return row.to_native(torch.rand(count, row.dimensions, generator=generator, dtype=torch.float64))


def same(found, wanted):
    scale = max(1.0, float(wanted.abs().max()))
    assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12 * scale)


def test_it_is_another_set_than_the_papers():
    assert not set(DEVELOPMENT) & set(PROBLEMS)
    assert not {row.evaluate for row in DEVELOPMENT.values()} & {row.evaluate for row in PROBLEMS.values()}
    dimensions = [row.dimensions for row in DEVELOPMENT.values()]
    assert dimensions == sorted(dimensions) == [3, 4, 4, 4, 5, 6, 6, 7, 8, 8, 10, 10, 10, 12, 12, 15, 16, 20]


@pytest.mark.parametrize("name", TEXTBOOK)
def test_a_textbook_function_is_botorchs_negated_and_scaled(name):
    make, scale = TEXTBOOK[name]
    function = make()
    assert find_problem(name).bounds.tolist() == function.bounds.tolist()
    X = uniform_points(name)
    same(find_problem(name).utility(X), -scale * function.evaluate_true(X))


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_function_is_botorchs_about_another_centre(name):
    (make, scale), row = MOVED[name], find_problem(name)
    function = make()
    assert row.bounds.tolist() == function.bounds.tolist()
    X = uniform_points(name)
    centre = torch.tensor(row.maximum.point)
    assert bool((centre != 0.0).all())
    same(row.utility(X), -scale * function._evaluate_true(X - centre))


def test_rosenbrock_is_botorchs_under_a_logarithm():
    X = uniform_points("rosenbrock-4d")
    same(find_problem("rosenbrock-4d").utility(X), -torch.log1p(b.Rosenbrock(dim=4)(X)))
    assert find_problem("rosenbrock-4d").bounds.tolist() == b.Rosenbrock(dim=4).bounds.tolist()


def test_branin_is_botorchs_in_two_of_twelve_coordinates():
    U = uniform_points("branin-12d-embedded")
    plane = torch.stack([15.0 * U[:, 2] - 5.0, 15.0 * U[:, 8]], -1)
    same(find_problem("branin-12d-embedded").utility(U), -b.Branin()(plane))


@pytest.mark.parametrize("plane", [(-math.pi, 12.275), (math.pi, 2.275), (3.0 * math.pi, 2.475)])
def test_branin_has_its_three_published_maxima(plane):
    u = torch.full((12,), 0.5)
    u[2], u[8] = (plane[0] + 5.0) / 15.0, plane[1] / 15.0
    assert float(find_problem("branin-12d-embedded").utility(u)) == pytest.approx(-0.397887, abs=5e-7)


def test_the_rotated_hartmann_is_botorchs_of_three_mixtures():
    X = uniform_points("hartmann-15d-rotated")
    Q = torch.tensor([[math.cos(math.pi * k * (j - 0.5) / 15) for j in range(1, 16)] for k in (1, 2, 3)])
    Q = Q * math.sqrt(2 / 15)
    assert torch.allclose(Q @ Q.T, torch.eye(3), rtol=0.0, atol=1e-14)
    assert torch.allclose(synthetic.directions(X), Q, rtol=0.0, atol=1e-15)
    same(find_problem("hartmann-15d-rotated").utility(X), -b.Hartmann(dim=3)._evaluate_true(0.5 + (X - 0.5) @ Q.T))


def test_the_beams_outcomes_are_botorchs():
    X = uniform_points("weldedbeam-4d")
    found = multi_outcome.beam_outcomes(X)
    assert find_problem("weldedbeam-4d").bounds.tolist() == WeldedBeam().bounds.tolist()
    same(found[:, :2], WeldedBeam().evaluate_true(X))
    slack = b.WeldedBeamSO().evaluate_slack_true(X)
    same(13600.0 - found[:, 2], slack[:, 0])
    same(30000.0 - found[:, 3], slack[:, 1])
    # BoTorch multiplies the buckling load by six where the literature divides by it.
    same(6000.0 / found[:, 4], (slack[:, 5] + 6000.0) / 36.0)


def test_the_beam_of_the_literature():
    """The cheapest beam, 1.7249, strains three limits at once: both stresses and the buckling load."""
    x = [0.20572964, 3.47048867, 9.03662391, 0.20572964]
    deflection = 2.1952 / (x[2] ** 3 * x[3])
    found = multi_outcome.beam_outcomes(torch.tensor(x))
    assert found.tolist() == pytest.approx([1.724852, deflection, 13600.0, 30000.0, 1.0], rel=1e-6)
    strained = 0.5 * math.log1p((1.724852 / 5) ** 2) + 0.15 * math.log1p((100 * deflection) ** 2) + 0.6 * math.log(2)
    assert float(find_problem("weldedbeam-4d").utility(x)) == pytest.approx(-strained, abs=1e-6)


def test_the_reducers_outcomes_are_botorchs():
    X = uniform_points("speedreducer-7d")
    found = multi_outcome.reducer_outcomes(X)
    same(found[:, 0], b.SpeedReducer()._evaluate_true(X))
    slack = b.SpeedReducer()._evaluate_slack_true(X)
    same(1.0 - found[:, 1:3], slack[:, :2])
    same(torch.tensor([1100.0, 850.0]) * (1.0 - found[:, 3:]), slack[:, 4:6])
    # Its box is smaller: the second shaft begins at 7.8 there, and the optimum of the literature lies at 7.715.
    differ = find_problem("speedreducer-7d").bounds != b.SpeedReducer().bounds
    assert differ.nonzero().tolist() == [[0, 4]]


def test_the_reducer_of_the_literature():
    """The lightest one, 2994.47, strains both of its shafts. Its utility, by hand: one line for each outcome."""
    x = torch.tensor([3.5, 0.7, 17.0, 7.3, 7.71532, 3.350215, 5.286655])
    weight, bending, contact, first, second = multi_outcome.reducer_outcomes(x).tolist()
    assert weight == pytest.approx(2994.47, abs=0.01)
    assert (first, second) == pytest.approx((1.0, 1.0), abs=1e-5)
    scaled = (5500 - weight) / 3000, (1.2 - bending) / 0.9, (1.2 - contact) / 0.9, (1.5 - first), (1.2 - second) / 0.4
    lines = ((15, 9, 0.6), (12, 1.2, 0.5), (12, 1, 0.5), (18, 1.5, 0.6), (18, 1.2, 0.5))
    by_hand = sum(min(c * y, s * y - (s - c) * t) for y, (s, c, t) in zip(scaled, lines, strict=True))
    assert float(find_problem("speedreducer-7d").utility(x)) == pytest.approx(by_hand, abs=1e-9)


def test_zdt2_outcomes_are_botorchs_and_the_wish_is_on_their_front():
    X = uniform_points("zdt2-20d")
    same(multi_outcome.zdt2_outcomes(X), ZDT2(dim=20).evaluate_true(X))
    assert multi_outcome.ZDT2_WISH[1] == pytest.approx(1.0 - multi_outcome.ZDT2_WISH[0] ** 2)
    # By hand: x = 1/2 gives g = 5.5 and y₂ = 5.5 − 0.25/5.5.
    by_hand = -4 * 0.01 - 0.5 * (5.5 - 0.25 / 5.5 - 0.64) ** 2
    assert float(find_problem("zdt2-20d").utility([0.5] * 20)) == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "digits"),
    [
        ("hartmann-3d", 3.86278, 5e-6),
        ("shekel-4d", 10.5364, 5e-5),
        ("michalewicz-5d", 4.687658, 5e-7),
        ("cosine-8d", 0.8, 1e-12),
        ("styblinskitang-10d", 39.166166, 5e-7),
        ("branin-12d-embedded", -0.397887, 5e-7),
    ],
)
def test_published_maxima(name, value, digits):
    assert find_problem(name).maximum.value == pytest.approx(value, rel=0.0, abs=digits)


@pytest.mark.parametrize("name", INTERIOR)
def test_the_gradient_vanishes_at_a_maximum_inside_the_box(name):
    row = find_problem(name)
    point = row.to_unit(torch.tensor(row.maximum.point)).requires_grad_()
    (slope,) = torch.autograd.grad(row.unit_utility(point), point)
    assert float(slope.abs().max()) < 1e-6 * (row.maximum.value - float(row.utility(uniform_points(name)).median()))


def test_these_maxima_are_inside():
    assert set(DEVELOPMENT) - set(INTERIOR) == {
        "weldedbeam-4d", "gp-6d-smooth", "speedreducer-7d", "gp-10d-rough", "zdt2-20d",
    }  # fmt: skip


@pytest.mark.parametrize("name", SEPARABLE)
def test_a_sum_over_coordinates_is_searched_one_coordinate_at_a_time(name):
    """From any point: the best of a fine grid in each coordinate on its own is the maximum of the whole."""
    row = find_problem(name)
    grid = torch.linspace(0.0, 1.0, 20_001)
    best = row.to_unit(uniform_points(name, 1)[0])
    for axis in range(row.dimensions):
        line = best.expand(len(grid), -1).clone()
        line[:, axis] = grid
        best[axis] = grid[row.unit_utility(line).argmax()]
    assert torch.allclose(best, row.to_unit(torch.tensor(row.maximum.point)), rtol=0.0, atol=1e-4)
    found = float(row.unit_utility(best))
    assert row.maximum.value - 1e-4 * max(1.0, row.maximum.value) < found <= row.maximum.value + 1e-12


def test_a_sample_has_the_kernel_it_is_named_for():
    """Over the features, the mean of cos ω·(x − x′) is the kernel, within five standard errors."""
    X = uniform_points("gp-6d-smooth", 40)
    differences = X[:20] - X[20:]
    lengths = torch.logspace(math.log10(0.35), 0.0, 6)
    frequencies, _, _ = gp_samples.features("gp-6d-smooth", 6, (0.35, 1.0), 0)
    kernel = (-0.5 * (differences / lengths).square().sum(-1)).exp()
    assert float(((differences @ frequencies).cos().mean(-1) - kernel).abs().max()) < 5.0 / math.sqrt(2 * 256)
    X = uniform_points("gp-10d-rough", 40)
    differences = X[:20] - X[20:]
    lengths = torch.logspace(math.log10(0.4), math.log10(2.0), 10)
    frequencies, _, _ = gp_samples.features("gp-10d-rough", 10, (0.4, 2.0), 3)
    r = math.sqrt(3.0) * (differences / lengths).square().sum(-1).sqrt()
    kernel = (1.0 + r) * (-r).exp()
    assert float(((differences @ frequencies).cos().mean(-1) - kernel).abs().max()) < 5.0 / math.sqrt(2 * 256)


@pytest.mark.parametrize(
    ("name", "at_the_centre", "at_the_corner"),
    [
        ("gp-6d-smooth", -0.032214090001, 0.173626315844),
        ("gp-10d-rough", -0.436691716441, -0.922825657108),
        ("bumps-16d", 10.647143617734, 0.083272711550),
    ],
)
def test_what_was_drawn_once_stays(name, at_the_centre, at_the_corner):
    """Pinned: a library that draws other numbers would make another problem of it."""
    row = find_problem(name)
    d = row.dimensions
    assert float(row.utility([0.5] * d)) == pytest.approx(at_the_centre, abs=1e-9)
    assert float(row.utility([0.0] * d)) == pytest.approx(at_the_corner, abs=1e-9)


def test_bumps_by_hand():
    X = uniform_points("bumps-16d", 5)
    centres = gp_samples.bump_centres()
    by_hand = [
        sum(
            h * math.exp(-sum((a - c) ** 2 for a, c in zip(x, centre, strict=True)) / 0.5)
            for h, centre in zip((20, 18, 16, 14, 12, 10), centres.tolist(), strict=True)
        )
        for x in X.tolist()
    ]
    same(find_problem("bumps-16d").utility(X), torch.tensor(by_hand))


def test_bumps_have_several_tops():
    """From the centres of the two highest bumps ascents end on two tops."""
    row = find_problem("bumps-16d")
    tops = [ascend(row.evaluate, *row.bounds, c.expand(2, -1))[0] for c in gp_samples.bump_centres()[:2]]
    assert tops[0] == pytest.approx(row.maximum.value, abs=1e-6) and tops[1] < row.maximum.value - 0.3
