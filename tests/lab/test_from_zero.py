"""Runs that start from nothing: every question counts, what is told is recorded, the last questions may settle it."""

import math
from dataclasses import replace

import pytest
import torch

from kappasharp.algorithm import loop
from kappasharp.errors import KappaSharpError
from kappasharp.lab import experiment, grid, run
from kappasharp.lab.external import methods
from kappasharp.lab.external.contract import Proposed
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.registry import find_problem
from kappasharp.settings import find_preset

PLAN = {
    "problems": ["hartmann-3d"], "initializations": ["from_zero"], "methods": ["baseline"], "seeds": 3, "queries": 12,
    "settling": 2, "block_size": 3, "preset_variants": {"three": {"preset": "modern", "first_pairs": 3}},
}  # fmt: skip


@pytest.fixture(scope="module")
def blocks():
    return grid.blocks(experiment.parse("tiny", PLAN))


@pytest.fixture(scope="module")
def rows(blocks):
    return run.run_together(blocks)[0]


@pytest.fixture(scope="module")
def steps(blocks):
    return list(run.play(blocks))


def test_every_question_has_its_place_in_the_course(rows):
    for row in rows:
        assert row["queries"] == 12 and row["settling"] == 2 and row["status"] == "ok"
        assert row["n_points"] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 20, 20]
        assert len(row["best_utility"]) == len(row["told_utility"]) == 12
        assert row["told_utility"][:2] == [None, None]  # before the third pair there is no model
        assert row["best_utility"] == sorted(row["best_utility"])
        told = row["told_utility"][2:]
        assert all(one <= best for one, best in zip(told, row["best_utility"][2:], strict=True))
        assert len(row["chance"]) == 9 and all(0.0 < one < 1.0 for one in row["chance"])


def test_what_is_told_is_the_models_best_winner(rows, steps):
    last = steps[-1]
    leader = loop.leader(last.after, loop.learn(last.after))
    told = last.seen.gather(1, leader.unsqueeze(-1)).squeeze(-1)
    assert [row["told_utility"][-1] for row in rows] == told.tolist()
    assert bool(loop.won(last.after).gather(1, leader.unsqueeze(-1)).all())


def test_the_chance_is_the_one_given_before_the_answer(rows, steps):
    for number, step in enumerate(steps):
        for i, row in enumerate(rows):
            expected = float(step.info.expected[i])
            given = expected if int(step.answers[i]) == simulated_voters.FIRST else 1.0 - expected
            assert row["chance"][number] == pytest.approx(given, rel=1e-12)


def test_settling_makes_nothing_and_asks_the_one_told(steps):
    for step in steps[-2:]:
        assert bool((step.question.known >= 0).all())
        assert torch.equal(step.question.known[:, 0], step.info.leader)


def test_longer_starts_begin_with_shorter_ones_and_meet_the_same_mood():
    problem = find_problem("hartmann-3d")
    short, long = (initial_designs.start(problem, "from_zero", [4, 5], "paper", count) for count in (3, 8))
    assert torch.equal(long.points[:, :6], short.points)
    assert torch.equal(long.comparisons[:, :3], short.comparisons)


def test_a_method_from_outside_has_the_same_start_and_as_many_questions():
    class Still:
        def begin(self, dimensions, seed, problem=""):
            self.told = 0

        def ask(self, voter=None):
            return Proposed(torch.full((2, 3), 0.5, dtype=torch.float64))

        def tell(self, pair, answer, voter=None):
            self.told += 1

        def best(self):
            return None

    problem, player = find_problem("hartmann-3d"), Still()
    person = simulated_voters.person("paper")
    record = methods.run(
        methods.PEERS["random_king"], player, problem, "from_zero", seed=0, queries=12, person=person, first_pairs=3
    )
    start = initial_designs.start(problem, "from_zero", [0], "paper", 3)
    assert player.told == 12 and record["told_utility"] == [None] * 12
    # The one new design of all its questions is made once.
    assert len(record["best_utility"]) == 12 and record["n_points"][:5] == [2, 4, 6, 7, 7]
    assert record["best_utility"][2] == float(start.utility.max())


def test_keys_know_first_pairs_and_settling():
    plan = experiment.parse("tiny", PLAN)
    keys = {
        grid.blocks(replace(plan, **change))[0].keys[0]
        for change in ({}, {"settling": 0}, {"presets": {"three": find_preset("modern")}})
    }
    assert len(keys) == 3


def test_lattices_are_kept():
    plan = experiment.parse("tiny", PLAN | {"problems": ["drawn-1-03", "drawn-1-06"], "seeds": 2, "queries": 8})
    for block in grid.blocks(plan):
        problem = find_problem(block.problem)
        last = list(run.play([block]))[-1]
        assert torch.allclose(problem.nearest(last.after.points), last.after.points)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queries": 5}, "leave questions to the model"),
        ({"settling": -1}, "settling"),
        ({"problems": {"set": 1, "size": 3}}, "generated set"),
        ({"seeds": {"first": "x", "count": 3}}, "seeds.first"),
        ({"problems": ["drawn-1"]}, "drawn-SET-NUMBER"),
    ],
)
def test_what_cannot_be_is_refused(change, words):
    with pytest.raises(KappaSharpError, match=words):
        experiment.parse("tiny", PLAN | change)


def test_an_answer_of_more_than_two_designs_has_no_chance():
    plan = experiment.parse("tiny", PLAN | {"methods": ["best_of_3"], "settling": 0, "queries": 5})
    row = run.run_together(grid.blocks(plan))[0][0]
    assert all(math.isnan(one) for one in row["chance"])


@pytest.mark.parametrize("method", ["rating", "slider", "slider_4", "order_4"])
def test_runs_of_every_kind_are_settled_by_duels(method):
    chosen = {"methods": [method], "presets": ["modern"], "preset_variants": {}, "queries": 8}
    rows = run.run_together(grid.blocks(experiment.parse("tiny", PLAN | chosen)))[0]
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["n_points"][-1] == row["n_points"][-3] for row in rows)
