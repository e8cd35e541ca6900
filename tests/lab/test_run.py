"""Runs: in one batch or one by one they are the same; a row holds what happened; everybody meets the same person."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from kappasharp.algorithm import loop
from kappasharp.algorithm.state import Question
from kappasharp.lab import run
from kappasharp.lab.grid import missing, together
from kappasharp.lab.run import error_rows, judge, run_together
from kappasharp.lab.store import SCHEMA
from kappasharp.problems import initial_designs, simulated_voters
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import PROBLEMS, find_problem
from tests.lab import tiny

# The correction acts from the second step on, so that few steps suffice.
EARLY = {
    "static_early": {"method": "static", "gate": {"first_step": 2}},
    "adaptive_early": {"method": "adaptive", "gate": {"first_step": 2, "threshold": 0.05}},
}
QUERIES = 4
NUMBERS = ("best_utility", *(name for name in (*run.TRACES, *run.FURTHER) if name not in ("active", "n_components")))


def same(rows, others):
    for row, other in zip(rows, others, strict=True):
        assert row["key"] == other["key"]
        for name in ("active", "n_components", "step_status", "status", "failed_steps"):
            assert row[name] == other[name], name
        for name in NUMBERS:
            assert row[name] == pytest.approx(other[name], rel=1e-6, abs=1e-6, nan_ok=True), name
        assert row["final_best"] == pytest.approx(other["final_best"], rel=1e-6, abs=1e-6)


@pytest.fixture(scope="module")
def alone():
    """Blocks of three methods, and their rows when every block runs by itself."""
    torch.set_default_dtype(torch.float64)
    blocks = tiny.blocks(methods=["baseline"], variants=EARLY, queries=QUERIES)
    return blocks, [run_together([block])[0] for block in blocks]


def test_blocks_run_together_are_the_blocks_one_by_one(alone):
    blocks, rows = alone
    (job,) = together(blocks, 100)
    for ours, theirs in zip(run_together(job), rows, strict=True):
        same(ours, theirs)
    active = {block.method: [row["active"] for row in part] for block, part in zip(blocks, rows, strict=True)}
    assert active["baseline"] == [[False] * 4] * 2 and active["static_early"] == [[False, True, True, True]] * 2
    assert any(flag for row in active["adaptive_early"] for flag in row)


def test_what_is_left_of_a_block_is_what_it_would_have_been(alone):
    blocks, rows = alone
    (half,) = missing(blocks[:1], {blocks[0].keys[0]})
    same(run_together([half])[0], rows[0][1:])


def test_problems_of_one_dimension_run_together():
    blocks = tiny.blocks(problems=["ackley-8d", "dtlz2-8d"], methods=["baseline"])
    (job,) = together(blocks, 100)
    for block, rows in zip(blocks, run_together(job), strict=True):
        same(rows, run_together([block])[0])


def test_a_run_is_the_same_again(alone):
    blocks, rows = alone
    again = run_together(blocks[1:2])[0]
    assert [tiny.fingerprint(row) for row in again] == [tiny.fingerprint(row) for row in rows[1]]


def test_a_row_holds_every_step(alone):
    blocks, parts = alone
    start = initial_designs.start(PROBLEMS["hartmann-6d"], "pool_n6_k15", (0, 1))
    for block, rows in zip(blocks, parts, strict=True):
        assert [(row["seed"], row["key"]) for row in rows] == list(zip(block.seeds, block.keys, strict=True))
        for row, first in zip(rows, start.utility.amax(1).tolist(), strict=True):
            best = row["best_utility"]
            assert len(best) == QUERIES + 1 and best == sorted(best)
            assert row["n_points"] == [6 + 2 * count for count in range(QUERIES + 1)]
            assert best[0] == row["initial_best"] == first and best[-1] == row["final_best"]
            assert best[-1] <= PROBLEMS["hartmann-6d"].maximum.value
            assert all(len(row[name]) == QUERIES for name in (*run.TRACES, *run.FURTHER, "step_status"))
            assert row["step_status"] == ["ok"] * QUERIES and (row["status"], row["failed_steps"]) == ("ok", 0)
            assert row["error"] is None and row["seconds"] > 0.0 and row["block_runs"] == 2


def test_a_row_says_what_the_correction_did(alone):
    blocks, parts = alone
    for block, rows in zip(blocks, parts, strict=True):
        for row in rows:
            steps = zip(row["active"], row["strength"], row["condition_before"], row["condition_after"], strict=True)
            for flag, eta, before, after in steps:
                # κ is brought down to κ^(1 − α), α = 0.1; where nothing acts it is not computed.
                acts = eta > 0.0 and 1.0 < after <= before**0.9 * (1 + 1e-6)
                assert acts if flag else eta == 0.0 and math.isnan(before)
            averages = [0.0, *row["mean_decisiveness"]]
            for before, after, score in zip(averages, averages[1:], row["decisiveness"], strict=False):
                assert after == pytest.approx(0.8 * before + 0.2 * score) and 0.0 <= score <= 1.0
        assert block.method != "baseline" or not any(flag for row in rows for flag in row["active"])


def test_a_row_carries_its_provenance_and_fits_the_schema(alone):
    row = alone[1][2][0]
    assert set(row) == set(SCHEMA.names)
    assert (row["problem"], row["initialization"]) == ("hartmann-6d", "pool_n6_k15")
    assert (row["method"], row["preset"], row["queries"]) == ("adaptive_early", "modern", QUERIES)
    assert (row["torch"], row["device"]) == (torch.__version__, "cpu")
    assert json.loads(row["method_values"])["gate"] == {
        "rule": "decisive", "first_step": 2, "threshold": 0.05, "ema_rate": 0.2, "noise": 0.0,
    }  # fmt: skip
    assert json.loads(row["preset_values"])["nugget"] == 1e-6 and json.loads(row["person"])["noise"] == 0.1
    assert row["commit"] and row["kappasharp"] and row["python"].startswith("3.")


@pytest.mark.parametrize(("initialization", "first"), [("pool_n6_k15", 1), ("pure_k3", 3)])
def test_components_grow_with_fresh_pairs_and_not_with_connected_ones(initialization, first):
    fresh, connected = (
        run_together([block])[0]
        for block in tiny.blocks(methods=["baseline", "connected"], initializations=[initialization], queries=3)
    )
    assert [row["n_components"] for row in fresh] == [[first, first + 1, first + 2]] * 2
    assert [row["n_components"] for row in connected] == [[first] * 3] * 2


@pytest.fixture
def witness(monkeypatch):
    """What was evaluated, and the chance in every answer."""
    seen = {"points": [], "chance": []}
    evaluate, answer = Problem.unit_utility, simulated_voters.answer

    def watched_utility(self, points):
        seen["points"].append(points.clone())
        return evaluate(self, points)

    def watched_answer(who, utility, chance):
        seen["chance"].append(chance.clone())
        return answer(who, utility, chance)

    monkeypatch.setattr(Problem, "unit_utility", watched_utility)
    monkeypatch.setattr(simulated_voters, "answer", watched_answer)
    return seen


def test_every_method_meets_the_same_start_and_the_same_moods(witness):
    found = {}
    for block in tiny.blocks(methods=["baseline", "static", "connected"], seeds=[5, 9]):
        witness["points"].clear(), witness["chance"].clear()
        run_together([block])
        found[block.method] = (witness["points"][0], *witness["chance"])
    for method in ("static", "connected"):
        for ours, theirs in zip(found["baseline"], found[method], strict=True):
            assert torch.equal(ours, theirs)
    draws = [simulated_voters.draws("hartmann-6d", seed, "oracle noise", 2) for seed in (5, 9)]
    assert torch.equal(torch.stack(found["baseline"][2:], 1), torch.stack(draws))


def test_a_longer_run_begins_with_the_shorter_one():
    short, long = (run_together(tiny.blocks(methods=["baseline"], queries=count))[0] for count in (1, 2))
    for ours, theirs in zip(short, long, strict=True):
        assert ours["key"] != theirs["key"]
        assert ours["best_utility"] == pytest.approx(theirs["best_utility"][:2], rel=1e-9)


@pytest.mark.parametrize(("method", "new"), [("baseline", 2), ("connected", 1)])
def test_a_known_design_is_not_evaluated_again(witness, method, new):
    run_together(tiny.blocks(methods=[method]))
    sizes = [points.shape[-2] for points in witness["points"]]
    assert sizes == [6, new, new]
    for one in torch.cat(witness["points"], 1):
        assert len(one.unique(dim=0)) == len(one)


def test_judge_takes_known_utilities_from_what_was_seen():
    row = PROBLEMS["hartmann-6d"]
    points = torch.rand(2, 2, 6, generator=torch.Generator().manual_seed(0))
    seen = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    utility, made = judge([(row, 2)], Question(points, torch.tensor([[-1, 2], [-1, 0]])), seen)
    new = row.unit_utility(points[:, 0])
    assert torch.equal(utility, torch.stack([new, torch.tensor([0.3, 0.4])], 1))
    assert torch.equal(made, new.unsqueeze(1))


def test_a_hesitant_person_needs_a_model_with_ties():
    block = tiny.blocks(methods=["baseline"], person="hesitant")[0]
    with pytest.raises(ValueError, match="A tie needs a preset with a threshold above 0"):
        run_together([block])
    rows = run_together([replace(block, preset_values=replace(block.preset_values, threshold=0.1))])[0]
    assert all(math.isfinite(row["final_best"]) for row in rows)


def test_rows_of_a_block_that_could_not_run():
    block = tiny.blocks()[0]
    rows = error_rows(block, "RuntimeError: out of memory")
    assert [(row["seed"], row["key"]) for row in rows] == list(zip(block.seeds, block.keys, strict=True))
    for row in rows:
        assert set(row) == set(SCHEMA.names)
        assert (row["status"], row["error"]) == ("error", "RuntimeError: out of memory")
        assert row["final_best"] is None and row["best_utility"] == [] and row["method"] == "baseline"


# Six are enough for runs that bridge to differ in how many designs they have made.
@pytest.mark.parametrize(("method", "queries"), [("bridging", 6), ("best_of_3", 2)])
def test_other_kinds_of_question_run_in_blocks_as_one_by_one(method, queries):
    wanted = {"problems": ["vehicle-5d"], "methods": [method], "queries": queries}
    together_rows = run_together(tiny.blocks(**wanted, seeds=3))[0]
    assert len({row["n_components"][-1] for row in together_rows}) == (3 if method == "bridging" else 1)
    one_by_one = [run_together(tiny.blocks(**wanted, seeds=[row["seed"]]))[0][0] for row in together_rows]
    same(together_rows, one_by_one)
    assert all(row["best_utility"] == sorted(row["best_utility"]) for row in together_rows)
    for row in together_rows:
        made = {after - before for before, after in pairwise(row["n_points"])}
        assert made <= {"bridging": {1, 2}, "best_of_3": {3}}[method] and len(row["n_points"]) == queries + 1


@pytest.mark.parametrize("method", ["choice_4", "order_4", "slider", "slider_4", "rating", "timed"])
def test_a_run_of_every_kind_of_question_is_a_row_of_plain_numbers(method):
    block = tiny.blocks(methods=[method], initializations=["from_zero"], queries=7, person="timed")[0]
    for row in run_together([block])[0]:
        assert len(row["best_utility"]) == 7
        assert all(isinstance(value, float) for value in row["chance"])
        assert row["status"] == "ok"


@pytest.mark.parametrize(("method", "initialization", "first"), [("people", "from_zero", 5), ("slider", "pure_k3", 3)])
def test_a_jurys_answers_are_its_members_own(method, initialization, first):
    """By exact people; and the state knows who answered, in the start and after it."""
    jury = find_problem("jury-3-independent-hartmann-6d")
    block = tiny.blocks(
        problems=[jury.name], methods=[method], initializations=[initialization], queries=first + 4, person="exact"
    )[0]
    steps = list(run.play([block]))
    for number, step in enumerate(steps, start=block.queries - len(steps)):
        if method == "people":
            felt = jury.unit_felt(step.question.points.double(), number)
            assert torch.equal(step.answers, (felt[:, 1] > felt[:, 0]).long())
    who = steps[-1].after.voters
    assert int(who.max()) == 2 and len(who) == steps[-1].after.comparisons.shape[1]
    assert who[:first].tolist() == [0, 1, 2, 0, 1][:first]
    if method == "people":
        assert who.tolist() == [turn % 3 for turn in range(block.queries)]
        assert loop.learn(steps[-1].after).fit.people is not None


def test_juries_run_in_blocks_as_one_by_one():
    problems = ["jury-3-careless-hartmann-6d", "jury-3-clustered-hartmann-6d"]
    whole = tiny.blocks(problems=problems, methods=["people"], initializations=["from_zero"], queries=9, seeds=2)
    both = run_together(whole)
    same(both[0], run_together(whole[:1])[0])
    same(both[1], run_together(whole[1:])[0])
    more = [replace(block, problem=block.problem.replace("3", "4")) for block in whole]
    assert len(together([*whole, *more], 4096)) == 2


def test_one_person_told_apart_is_the_plain_method():
    plain, apart = (
        run_together(tiny.blocks(methods=[name], initializations=["from_zero"], queries=8))[0]
        for name in ("baseline", "people")
    )
    assert [row["best_utility"] for row in plain] == [row["best_utility"] for row in apart]
