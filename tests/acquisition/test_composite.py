"""EUBO through outcomes that are computed, and within limits."""

import pytest
import torch

from kappasharp.acquisition import batch_eubo, composite, discrete, eubo, line, maximize
from kappasharp.acquisition.discrete import Group, Lattice
from kappasharp.acquisition.maximize import Request, Search
from kappasharp.algorithm import fit
from kappasharp.inference.comparisons import Answers
from kappasharp.randomness import stream
from kappasharp.settings import MAXIMIZERS, find_preset
from tests.reference.lifts import Curved

RUNS, N, D, M = 3, 14, 4, 10


def posterior_of(lift, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = 0.3 * torch.rand(RUNS, N, D, generator=generator, dtype=torch.float64)
    pairs = torch.stack(
        [torch.stack([torch.randperm(N, generator=generator)[:2] for _ in range(M)]) for _ in range(RUNS)]
    )
    return fit.fit(fit.model_of(find_preset("modern"), D, lift), Answers(X, pairs), lift=lift).posterior


def request(**given):
    return Request([stream(seed, "through") for seed in range(RUNS)], **given)


def few(X):
    """At most one unit in all: a limit between parameters."""
    return (X.sum(-1) - 1.3).clamp(min=0.0)


@pytest.mark.parametrize("given", [{}, {"allowed": few}])
@pytest.mark.parametrize("lift", [Curved(), None])
def test_the_gradient_is_that_of_differences(given, lift):
    fitted = posterior_of(lift)
    objective = Search(fitted, eubo.prepare(fitted), request(**given)).objective(5)
    x = torch.rand(RUNS * 5, 2 * D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    value, gradient = objective(x)
    if isinstance(objective, composite.Through):
        assert torch.allclose(value, objective.value(x))
    for j in range(2 * D):
        step = torch.zeros_like(x)
        step[:, j] = 1e-5
        slope = (objective(x + step)[0] - objective(x - step)[0]) / 2e-5
        # A thousandth of the cube apart: the outcomes' own bend shows.
        assert torch.allclose(gradient[:, j], slope, rtol=1e-2, atol=1e-2)


def test_what_is_found_is_above_every_random_pair():
    fitted = posterior_of(Curved())
    found = maximize.propose(fitted, MAXIMIZERS["default"], request())
    pairs = torch.rand(RUNS, 20_000, 2, D, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    assert bool((found.value > eubo.value(fitted, pairs[:, :, 0], pairs[:, :, 1]).amax(-1)).all())
    assert torch.allclose(found.value, eubo.value(fitted, *found.pair.split(1, 1)).squeeze(-1), rtol=1e-6)


ON = Lattice((Group((1,), torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)),))


@pytest.mark.parametrize("on", [None, ON])
@pytest.mark.parametrize("lift", [Curved(), None])
def test_limits_are_kept_and_cost_little(lift, on):
    fitted = posterior_of(lift)
    fitted = fitted if on is None else fitted._replace(X=discrete.nearest(on, fitted.X))
    found = maximize.propose(fitted, MAXIMIZERS["default"], request(allowed=few, lattice=on))
    assert bool((few(found.pair) == 0.0).all())
    pairs = torch.rand(RUNS, 20_000, 2, D, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    pairs = pairs if on is None else discrete.nearest(on, pairs)
    value = eubo.value(fitted, pairs[:, :, 0], pairs[:, :, 1])
    kept = value.masked_fill((few(pairs) > 0.0).any(-1), -torch.inf).amax(-1)
    assert bool((found.value >= kept - 0.02 * kept.abs()).all())
    if on is not None:
        assert torch.equal(discrete.nearest(on, found.pair), found.pair)


@pytest.mark.parametrize("designs", [2, 4])
@pytest.mark.parametrize("lift", [Curved(), None])
def test_galleries_and_lines_keep_limits_too(lift, designs):
    fitted = posterior_of(lift)
    wanted = request(allowed=few)
    pair = maximize.propose(fitted, MAXIMIZERS["default"], wanted)
    more = batch_eubo.extend(fitted, pair, 4, MAXIMIZERS["default"], wanted)
    assert bool((few(more.pair) == 0.0).all())
    ends = line.propose(fitted, pair, designs, MAXIMIZERS["default"], wanted).pair
    places = torch.linspace(0.0, 1.0, 301, dtype=torch.float64).expand(RUNS, -1)
    assert bool((few(line.at(ends, places)) < 1e-9).all())


@pytest.mark.parametrize("budget", [64, 400, 2000])
def test_a_budget_is_kept(budget):
    """A simulator that takes its time computes as many designs as its budget says, for each run of the batch."""
    lift = Curved(budget=budget)
    fitted = posterior_of(lift)
    lift.seen.clear()
    found = maximize.propose(fitted, MAXIMIZERS["default"], request())
    assert len(lift.seen) <= 1.5 * RUNS * max(budget, 64)
    lift.seen.clear()
    line.propose(fitted, found, line.STRAIGHT, MAXIMIZERS["default"], request())
    batch_eubo.extend(fitted, found, 4, MAXIMIZERS["default"], request())
    assert len(lift.seen) <= 6.0 * RUNS * max(budget, 64)


class Doubtful(Curved):
    """Outcomes that may be these or those."""

    def sampled(self, X):
        return torch.stack([Shifted(by)(X) for by in (-0.1, 0.1)])


class Shifted(Curved):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def __call__(self, X):
        return super().__call__(X) + self.by


def test_uncertain_outcomes_are_averaged_over():
    fitted = posterior_of(Doubtful())
    prepared = eubo.prepare(fitted)
    x = torch.rand(RUNS, 2 * D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    whole = Search(fitted, prepared, request()).objective(1)
    assert isinstance(whole, composite.Through)
    parts = [Search(fitted._replace(lift=Shifted(by)), prepared, request()).objective(1) for by in (-0.1, 0.1)]
    (value, gradient), found = whole(x), [part(x) for part in parts]
    assert torch.allclose(value, torch.stack([one[0] for one in found]).mean(0))
    assert torch.allclose(gradient, torch.stack([one[1] for one in found]).mean(0))


def test_a_design_outside_is_pulled_to_the_limit():
    inside = torch.full((1, D), 0.1, dtype=torch.float64)
    far = torch.full((2, D), 0.9, dtype=torch.float64)
    far[1] = 0.2
    kept = composite.pulled(few, far, inside)
    assert bool((few(kept) == 0.0).all()) and torch.equal(kept[1], far[1])
    assert few(inside + 1.02 * (kept[0] - inside)) > 0.0
