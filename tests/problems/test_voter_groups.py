"""Juries: what their members feel, whose turn it is, and what a design is worth to all."""

import pytest
import torch

from kappasharp.errors import InvalidValueError, UnknownNameError
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.registry import PROBLEMS, find_problem

KINDS = list(simulated_voters.KINDS)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def points(count, dimensions, seed=3):
    return torch.rand(count, dimensions, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", ["hartmann-6d", "vehicle-5d", "drawn-11-01"])
def test_a_design_is_worth_what_the_careful_ones_feel_on_average(kind, base):
    jury, problem = find_problem(f"jury-4-{kind}-{base}"), find_problem(base)
    U = points(5, jury.dimensions)
    felt = torch.stack([jury.unit_felt(U, turn) for turn in range(4)], -1)
    careful = [0, 2, 3] if kind == simulated_voters.CARELESS else [0, 1, 2, 3]
    close(jury.unit_utility(U), felt[:, careful].mean(-1))
    # The first of a cluster, and every careful member of a jury of one taste, feel the problem's own utility.
    if kind != simulated_voters.INDEPENDENT:
        close(felt[:, 0], problem.unit_utility(U))
        close(felt[:, 2], felt[:, 3])
        assert not torch.allclose(felt[:, 1], felt[:, 0])
    assert float(jury.maximum.value) >= float(jury.unit_utility(points(2000, jury.dimensions, 9)).max())
    close(
        jury.unit_utility(torch.tensor(jury.maximum.point, dtype=torch.float64)),
        torch.tensor(jury.maximum.value, dtype=torch.float64),
    )


def test_a_taste_is_the_utility_about_another_place_and_reflected_at_the_ends():
    """Moved by at most 0.4 of every range; found back by trying what the move could have been."""
    jury, problem = find_problem("jury-3-independent-hartmann-6d"), PROBLEMS["hartmann-6d"]
    moves = simulated_voters._moves(jury.name, simulated_voters.INDEPENDENT, 3, 6)
    assert float(moves.abs().max()) <= simulated_voters.MOST
    U = points(50, 6)
    for turn, move in enumerate(moves):
        inside = [[abs(x) if x <= 1.0 else 2.0 - x for x in row] for row in (U + move).tolist()]
        close(jury.unit_felt(U, turn), problem.unit_utility(torch.tensor(inside, dtype=torch.float64)))


def test_people_take_turns():
    jury = find_problem("jury-3-independent-hartmann-6d")
    U = points(7, 6)
    each = torch.stack([jury.unit_felt(U, turn) for turn in range(3)])
    close(jury.unit_felt(U, 5), each[2])
    close(jury.unit_felt(U, torch.arange(7)), each[torch.arange(7) % 3, torch.arange(7)])
    assert [jury.voter(turn) for turn in range(4)] == [0, 1, 2, 0]
    alone = PROBLEMS["hartmann-6d"]
    assert alone.voter(4) is None
    close(alone.unit_felt(U, 4), alone.unit_utility(U))


def test_who_answers_by_lot_feels_the_same_about_all_designs():
    jury = find_problem("jury-3-careless-levy-10d")
    assert not jury.unit_felt(points(6, 10), 1).any()


def test_the_first_answers_are_the_members_own():
    """Exact people: each of the first pairs is won by what its own member feels to be better."""
    jury = find_problem("jury-3-independent-hartmann-6d")
    start = initial_designs.start(jury, "from_zero", [4, 5, 6], "exact", 9)
    close(start.utility, jury.unit_utility(start.points))
    against = 0
    for run in range(3):
        for turn, pair in enumerate(start.comparisons[run]):
            felt = jury.unit_felt(start.points[run, pair], turn)
            assert felt[0] >= felt[1]
            against += int(start.utility[run, pair[0]] < start.utility[run, pair[1]])
    assert against > 0  # and not by what counts in the end


def test_a_jury_of_one_taste_answers_as_one_person():
    jury, alone = find_problem("jury-3-clustered-hartmann-6d"), PROBLEMS["hartmann-6d"]
    U, chance = points(2, 6), simulated_voters.draws("any", 1, simulated_voters.ANSWERS, 1)[0]
    paper = simulated_voters.person("paper")
    assert simulated_voters.answer(paper, jury.unit_felt(U, 0), chance) == simulated_voters.answer(
        paper, alone.unit_utility(U), chance
    )


def test_the_same_name_is_the_same_jury():
    first = find_problem("jury-5-independent-vehicle-5d")
    assert find_problem("jury-5-independent-vehicle-5d") is first
    again = simulated_voters.of(PROBLEMS["vehicle-5d"], 5, "independent")
    U = points(3, 5)
    assert torch.equal(again.unit_utility(U), first.unit_utility(U))
    assert not torch.equal(find_problem("jury-6-independent-vehicle-5d").unit_felt(U, 0), first.unit_felt(U, 0))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jury-3", "A jury is called `jury-PEOPLE-TASTES-PROBLEM`"),
        ("jury-1-careless-hartmann-6d", "of 2 to 100 people"),
        ("jury-x-careless-hartmann-6d", "but got 'jury-x-careless-hartmann-6d'"),
        ("jury-3-careless-robotpush-14d", "a formula of continuous parameters, but robotpush-14d is not"),
        ("jury-3-careless-drawn-11-06", "but drawn-11-06 is not"),
    ],
)
def test_what_is_no_jury_is_said(name, words):
    with pytest.raises(InvalidValueError, match=words):
        find_problem(name)


def test_unknown_parts_of_a_name_are_named():
    with pytest.raises(UnknownNameError, match="clustered"):
        find_problem("jury-3-clusterd-hartmann-6d")
    with pytest.raises(UnknownNameError, match="hartmann-6d"):
        find_problem("jury-3-clustered-hartman-6d")
