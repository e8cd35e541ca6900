"""Which line a slider asks about."""

from itertools import permutations

import pytest
import torch

from kappasharp.acquisition import batch_eubo, eubo, line, maximize
from kappasharp.acquisition.maximize import Request
from kappasharp.algorithm import fit
from kappasharp.inference import posterior
from kappasharp.inference.comparisons import Answers
from kappasharp.inference.evidence import model_from
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS, find_preset
from kappasharp.tensors import take
from tests.reference.data import answered

RUNS, D = 3, 4


@pytest.fixture(scope="module")
def fitted():
    parts = [answered(seed, 16, 12, D) for seed in range(RUNS)]
    X, pairs = (torch.stack([torch.as_tensor(getattr(p, name)) for p in parts]) for name in ("X", "pairs"))
    return fit.fit(model_from(find_preset("modern")), Answers(X, pairs)).posterior


def request(**changes):
    return Request([stream(seed, "lines") for seed in range(RUNS)], **changes)


def proposed(fitted, designs=line.STRAIGHT, **changes):
    wanted = request(**changes)
    pair = maximize.propose(fitted, MAXIMIZERS["default"], wanted)
    return pair, line.propose(fitted, pair, designs, MAXIMIZERS["default"], wanted)


def test_a_straight_line_is_what_lies_between_its_ends():
    ends, places = torch.rand(2, 3, dtype=torch.float64), torch.linspace(0.0, 1.0, 22, dtype=torch.float64)
    share = places.unsqueeze(-1)
    assert torch.equal(line.at(ends, places), ends[:1] * (1.0 - share) + ends[1:] * share)


@pytest.mark.parametrize("designs", [3, 4, 6])
def test_a_line_goes_straight_from_corner_to_corner_and_gives_each_part_as_much(designs):
    corners = torch.rand(5, designs, 3, dtype=torch.float64)
    last = designs - 1
    places = torch.arange(designs, dtype=torch.float64) / last
    assert torch.allclose(line.at(corners, places.expand(5, -1)), corners, atol=1e-12)
    for part in range(last):
        share = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
        of_part = line.at(corners[:, part : part + 2], share.expand(5, -1))
        assert torch.allclose(line.at(corners, ((part + share) / last).expand(5, -1)), of_part, atol=1e-12)


@pytest.mark.parametrize("designs", [2, 4])
def test_the_expected_best_of_a_line_is_near_its_integral(fitted, designs):
    corners = torch.rand(5, RUNS, designs, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    count = {2: 8, 4: 13}[designs]
    places = torch.linspace(0.0, 1.0, count, dtype=torch.float64).expand(5, RUNS, -1)
    normals = eubo.sobol_normals(count, 2**13, 0, corners)
    exact = eubo.expected_max(fitted, line.at(corners, places), normals)
    scale = fitted.theta[..., -1].exp().sqrt()
    # Clark's approximation is a little too hopeful, and more so of more places.
    assert float(((line.expected_best(fitted, corners) - exact) / scale).abs().max()) < {2: 0.08, 4: 0.12}[designs]


def test_the_line_found_promises_more_than_the_pair_and_than_its_line(fitted):
    pair, found = proposed(fitted)
    assert bool((found.value >= line.expected_best(fitted, line.lengthened(pair.pair))).all())
    assert bool((found.value >= pair.value - 1e-9).all())
    assert torch.allclose(found.value, line.expected_best(fitted, found.pair))


def test_a_line_that_may_bend_promises_more_than_one_through_a_gallery_in_any_order(fitted):
    pair, found = proposed(fitted, 4)
    assert found.pair.shape == (RUNS, 4, D)
    assert torch.allclose(found.value, line.expected_best(fitted, found.pair))
    gallery = batch_eubo.extend(fitted, pair, 4, MAXIMIZERS["default"], request()).pair
    slack = 0.02 * fitted.theta[..., -1].exp().sqrt()  # the gallery's search draws numbers of its own
    for order in permutations(range(4)):
        assert bool((found.value >= line.expected_best(fitted, gallery[:, list(order)]) - slack).all())
    # And than any of these designs.
    assert bool((found.value >= posterior.mean(fitted, gallery).amax(-1)).all())


def test_it_bends(fitted):
    _, found = proposed(fitted, 4)
    first, second = (found.pair[:, k + 1] - found.pair[:, k] for k in range(2))
    assert float(torch.nn.functional.cosine_similarity(first, second, dim=-1).min()) < 0.9


@pytest.mark.parametrize("designs", [2, 4])
def test_lines_stay_in_the_cube_and_in_a_box(fitted, designs):
    _, found = proposed(fitted, designs)
    assert bool(((found.pair >= 0.0) & (found.pair <= 1.0)).all())
    low, high = torch.full((RUNS, D), 0.3, dtype=torch.float64), torch.full((RUNS, D), 0.6, dtype=torch.float64)
    _, inside = proposed(fitted, designs, box=(low, high))
    assert bool(((inside.pair >= 0.3) & (inside.pair <= 0.6)).all())


@pytest.mark.parametrize("designs", [2, 4])
def test_a_run_is_asked_the_same_alone_and_in_company(fitted, designs):
    _, together = proposed(fitted, designs)
    alone = take(fitted, torch.tensor([1]))
    wanted = Request([stream(1, "lines")])
    pair = maximize.propose(alone, MAXIMIZERS["default"], wanted)
    found = line.propose(alone, pair, designs, MAXIMIZERS["default"], wanted)
    assert torch.allclose(found.pair[0], together.pair[1], atol=1e-6)


def test_a_line_is_lengthened_by_its_own_length_as_far_as_the_cube():
    ends = torch.tensor([[0.4, 0.5], [0.5, 0.5]], dtype=torch.float64)
    assert torch.allclose(line.lengthened(ends), torch.tensor([[0.3, 0.5], [0.6, 0.5]], dtype=torch.float64))
    near_the_edge = torch.tensor([[0.4, 0.5], [0.8, 0.9]], dtype=torch.float64)
    expected = torch.tensor([[0.0, 0.1], [0.9, 1.0]], dtype=torch.float64)
    assert torch.allclose(line.lengthened(near_the_edge), expected)
    point = torch.tensor([[0.4, 0.5], [0.4, 0.5]], dtype=torch.float64)
    assert torch.equal(line.lengthened(point), point)
    # Rounding takes no end past the cube: whoever is told of such a point refuses it.
    many = line.lengthened(torch.rand(20_000, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    assert bool(((many >= 0.0) & (many <= 1.0)).all())
