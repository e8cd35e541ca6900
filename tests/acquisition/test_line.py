"""Which line a slider asks about."""

import pytest
import torch

from kappasharp.acquisition import eubo, line, maximize
from kappasharp.acquisition.maximize import MAXIMIZERS, Request
from kappasharp.batches import take
from kappasharp.core.comparisons import Answers
from kappasharp.methods import fitting
from kappasharp.methods.registry import find_preset
from kappasharp.streams import stream
from tests.reference.data import answered

RUNS, D = 3, 4


@pytest.fixture(scope="module")
def fitted():
    parts = [answered(seed, 16, 12, D) for seed in range(RUNS)]
    X, pairs = (torch.stack([torch.as_tensor(getattr(p, name)) for p in parts]) for name in ("X", "pairs"))
    return fitting.fit(find_preset("modern").model, Answers(X, pairs)).posterior


def request(**changes):
    return Request([stream(seed, "lines") for seed in range(RUNS)], **changes)


def proposed(fitted, **changes):
    wanted = request(**changes)
    pair = maximize.propose(fitted, MAXIMIZERS["default"], wanted)
    return pair, line.propose(fitted, pair, MAXIMIZERS["default"], wanted)


def test_the_expected_best_of_a_line_is_near_its_integral(fitted):
    ends = torch.rand(5, RUNS, 2, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    places = torch.linspace(0.0, 1.0, line.PLACES, dtype=torch.float64).expand(5, RUNS, -1)
    normals = eubo.sobol_normals(line.PLACES, 2**13, 0, ends)
    exact = eubo.expected_max(fitted, line.at(ends, places), normals)
    scale = fitted.theta[..., -1].exp().sqrt()
    assert float(((line.expected_best(fitted, ends) - exact) / scale).abs().max()) < 0.08


def test_the_line_found_promises_more_than_the_pair_and_than_its_line(fitted):
    pair, found = proposed(fitted)
    assert bool((found.value >= line.expected_best(fitted, line.lengthened(pair.pair))).all())
    assert bool((found.value >= pair.value - 1e-9).all())
    assert torch.allclose(found.value, line.expected_best(fitted, found.pair))


def test_lines_stay_in_the_cube_and_in_a_box(fitted):
    _, found = proposed(fitted)
    assert bool(((found.pair >= 0.0) & (found.pair <= 1.0)).all())
    low, high = torch.full((RUNS, D), 0.3, dtype=torch.float64), torch.full((RUNS, D), 0.6, dtype=torch.float64)
    _, inside = proposed(fitted, box=(low, high))
    assert bool(((inside.pair >= 0.3) & (inside.pair <= 0.6)).all())


def test_a_run_is_asked_the_same_alone_and_in_company(fitted):
    _, together = proposed(fitted)
    alone = take(fitted, torch.tensor([1]))
    wanted = Request([stream(1, "lines")])
    pair = maximize.propose(alone, MAXIMIZERS["default"], wanted)
    found = line.propose(alone, pair, MAXIMIZERS["default"], wanted)
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
