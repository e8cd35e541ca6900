"""The line of several people's answers: whole voters, an equal count where they are few, the same in any order."""

import pytest
import torch

from kappasharp.inference import voters
from kappasharp.inference.comparisons import Answers


def in_turn(people, each, seed=0):
    """Answers of people in turn, each about two designs of its own."""
    m = people * each
    X = torch.rand(1, 2 * m, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Answers(X, torch.arange(2 * m).reshape(1, m, 2)), torch.arange(m) % people


def told(line, size, voter, people):
    """How many answers of each voter a share has."""
    return torch.bincount(voter[line.rows[line.share(size)]], minlength=people)


@pytest.mark.parametrize(("people", "each", "heard"), [(120, 36, 16), (120, 10, 60), (235, 10, 60), (61, 10, 60)])
def test_many_voters_are_heard_whole(people, each, heard):
    answers, voter = in_turn(people, each)
    counts = told(voters.line_up(answers, voter, people), 600, voter, people)
    assert set(counts.tolist()) == {0, each}
    assert int((counts > 0).sum()) == heard


@pytest.mark.parametrize(("people", "each", "most"), [(2, 600, 300), (4, 300, 150), (9, 400, 66)])
def test_of_few_voters_an_equal_count_is_heard(people, each, most):
    answers, voter = in_turn(people, each)
    line = voters.line_up(answers, voter, people)
    assert told(line, 600, voter, people).tolist() == [most] * people
    # Their answers are from everywhere in the study, not its first ones.
    rows = line.rows[line.share(600)]
    assert 0.45 < float(rows.double().mean()) / (people * each) < 0.55


def test_the_place_in_line_is_chance_and_all_stand_in_it_once():
    answers, voter = in_turn(120, 10)
    line = voters.line_up(answers, voter, 120)
    assert line.rows.sort().values.tolist() == list(range(1200))
    assert line.voters.sort().values.tolist() == list(range(120))
    # Who came late is not further back: a rank correlation beyond 0.3 has a chance of one in a thousand.
    ranks = torch.stack([line.voters.argsort().double(), torch.arange(120).double()])
    assert abs(float(torch.corrcoef(ranks)[0, 1])) < 0.3
    assert len(line.share(5000)) == 1200


def test_the_line_is_the_same_in_any_order_and_under_any_numbers():
    answers, voter = in_turn(7, 30)
    chance = torch.Generator().manual_seed(1)
    order, names = torch.randperm(210, generator=chance), torch.randperm(7, generator=chance)
    other = Answers(answers.X, answers.pairs[:, order])
    first = voters.line_up(answers, voter, 7)
    second = voters.line_up(other, names[voter[order]], 7)
    assert torch.equal(answers.pairs[:, first.rows], other.pairs[:, second.rows])
    assert torch.equal(names[first.voters], second.voters)
    assert torch.equal(first.rank, second.rank) and torch.equal(first.share(70), second.share(70))


def test_a_last_digit_does_not_move_an_answer_and_what_nobody_said_comes_first():
    answers, voter = in_turn(5, 40)
    voter[-3:] = -1
    first = voters.line_up(answers, voter, 5)
    assert first.rows[:3].sort().values.tolist() == [197, 198, 199]
    assert first.share(20)[:3].tolist() == [0, 1, 2] and len(first.share(20)) <= 20
    second = voters.line_up(answers._replace(X=answers.X * (1.0 + 2e-16)), voter, 5)
    assert torch.equal(first.rows, second.rows)


def test_somebody_who_gave_nearly_all_answers_does_not_fill_the_share():
    answers, voter = in_turn(20, 100)
    voter[200:] = 0
    counts = told(voters.line_up(answers, voter, 20), 600, voter, 20)
    assert int(counts.max()) == 60 and int((counts[1:] == 10).sum()) == 19
