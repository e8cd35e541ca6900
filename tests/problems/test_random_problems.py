"""Problems drawn from numbered sets: the same for ever, of every family, without a favoured place."""

import pytest
import torch

from kappasharp.errors import KappaSharpError
from kappasharp.problems import random_problems
from kappasharp.problems.registry import find_problem

SET = random_problems.names(1, 2 * len(random_problems.FAMILIES))


def random_designs(problem, count=500):
    shares = torch.rand(count, problem.dimensions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return problem.draw(shares)


@pytest.mark.parametrize("name", SET)
def test_a_drawn_problem(name):
    problem = find_problem(name)
    X = random_designs(problem)
    utility = problem.unit_utility(X)
    assert problem.name == name and utility.isfinite().all()
    # Its scale is the one that was drawn, and nothing at random beats what is held to be its maximum.
    assert 0.15 < float(utility.std()) < 4.5
    assert float(utility.max()) <= problem.maximum.value
    top = torch.tensor(problem.maximum.point, dtype=torch.float64)
    assert float(problem.unit_utility(top)) == pytest.approx(problem.maximum.value, abs=1e-9)
    assert torch.equal(problem.nearest(top), top)
    # The same draw again, from nothing.
    random_problems.draw.cache_clear()
    assert torch.equal(find_problem(name).unit_utility(X), utility)


def test_sets_differ_and_no_place_is_favoured():
    ones, twos = (random_problems.names(number, 11) for number in (1, 2))
    assert all(find_problem(a).maximum.point != find_problem(b).maximum.point for a, b in zip(ones, twos, strict=True))
    tops = [
        value
        for name in random_problems.names(1, 40)
        for value, step in zip(
            find_problem(name).maximum.point,
            find_problem(name).steps or (0,) * find_problem(name).dimensions,
            strict=True,
        )
        if not step and not find_problem(name).choices
    ]
    assert 0.4 < sum(tops) / len(tops) < 0.6
    assert sum(abs(top - 0.5) < 0.1 for top in tops) / len(tops) < 0.25


def test_whole_numbers_and_choices_stay_what_they_are():
    whole = next(find_problem(name) for name in SET if find_problem(name).steps)
    X = random_designs(whole)
    for j, count in enumerate(whole.steps):
        if count:
            values = X[:, j].unique()
            assert torch.allclose(values, torch.linspace(0.0, 1.0, count, dtype=torch.float64))
    choice = next(find_problem(name) for name in SET if find_problem(name).choices)
    for group in choice.choices:
        assert torch.equal(random_designs(choice)[:, list(group)].sum(-1), torch.ones(500, dtype=torch.float64))
    noise = 0.4 * torch.rand(500, choice.dimensions, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    X = random_designs(choice)
    at = [j for group in choice.choices for j in group]
    assert torch.equal(choice.nearest(X + noise)[:, at], X[:, at])


@pytest.mark.parametrize("name", ["drawn-1", "drawn-x-1", "drawn-1-2-3", "drawn--1"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(KappaSharpError, match="drawn-SET-NUMBER"):
        find_problem(name)
