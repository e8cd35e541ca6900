"""Runs that learn taste on outcomes: what they see, that they differ from runs on parameters, and who is refused."""

import math
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import outcomes as figures
from kappasharp.errors import InvalidValueError
from kappasharp.inference.features import Lift, lifted
from kappasharp.lab import grid, outcomes, run
from kappasharp.problems.problem import Visible
from kappasharp.problems.registry import VARIANTS, find_problem
from kappasharp.problems.warped import Waves
from tests.lab import tiny

PLAN = {"problems": ["vehicle-5d-warped"], "initializations": ["from_zero"], "seeds": [3, 4], "queries": 8}


def blocks(**changes):
    return tiny.blocks(**(PLAN | changes))


@pytest.fixture(scope="module")
def rows():
    """By method, two runs of eight questions, of which five are the same Sobol pairs."""
    return {block.method: run.run_together([block])[0] for block in blocks(methods=["baseline", "outcomes"])}


def test_the_lift_is_the_problems_outcomes_scaled_after_a_sample():
    problem, lift = find_problem("vehicle-5d"), outcomes.lift("vehicle-5d")
    assert isinstance(lift, Lift) and not isinstance(lift, tuple)
    assert (lift.size, lift.budget) == (3, 0) and outcomes.lift("plasma-16d").budget > 0
    X = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(lift(X), lift.scaling(problem.unit_outcomes(X)))
    assert lifted(lift, X).shape == (2, 3, 8)
    # The 5 % and 95 % quantiles of the sample are 0.05 and 0.95.
    scaled = lift(outcomes.sample("vehicle-5d").designs)
    ends = scaled.quantile(torch.tensor([0.05, 0.95]), 0)
    assert torch.allclose(ends, torch.tensor([[0.05], [0.95]]).expand(2, 3), atol=1e-9)


def test_outcomes_as_good_as_chance_are_not_learnt_on(monkeypatch):
    problem = find_problem("dtlz2-20d-noise")
    waves, worth = Waves("a test", problem.dimensions), problem.visible.worth
    mixed = Visible(("sum", "chance"), lambda X: torch.stack([X.sum(-1), waves(X)[..., 0]], -1), worth)
    for name, visible in (("some", mixed), ("none", Visible(problem.visible.names, waves, worth))):
        monkeypatch.setitem(VARIANTS, name, replace(problem, name=name, visible=visible))
    lift = outcomes.lift("some")
    X = torch.rand(9, problem.dimensions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert (lift(X)[:, 1] == 0.5).all() and lift(X)[:, 0].std() > 0.01
    assert outcomes.lift("none") is None


def test_runs_on_outcomes_see_them_from_the_first_question(rows):
    (block,) = blocks(methods=["outcomes"])
    steps, lift = list(run.play([block])), outcomes.lift("vehicle-5d-warped")
    assert len(steps) == 3
    for step in steps:
        for state in (step.before, step.after):
            assert torch.equal(state.lift(state.points), lift(state.points))
        assert step.after.points.shape[-1] == 5  # designs stay designs
    assert all(row["status"] == "ok" for some in rows.values() for row in some)


def test_both_start_alike_and_then_ask_otherwise(rows):
    for plain, ours in zip(rows["baseline"], rows["outcomes"], strict=True):
        assert plain["best_utility"][:5] == ours["best_utility"][:5]
        assert plain["key"] != ours["key"]
        assert plain["acquisition"] != ours["acquisition"]


def test_a_batch_has_the_outcomes_of_one_problem():
    several = blocks(problems=["vehicle-5d", "vehicle-5d-warped", "vehicle-5d-noise"], methods=["baseline", "outcomes"])
    jobs = grid.together(several, 1000)
    assert sorted(len(job) for job in jobs) == [1, 1, 1, 3]
    assert [{block.method for block in job} for job in jobs if len(job) == 3] == [{"baseline"}]


def test_a_problem_without_outcomes_is_refused_before_the_run():
    words = "`problems` must have outcomes for the method outcomes, but hartmann-6d has none; leave one of the two out"
    with pytest.raises(InvalidValueError, match=words):
        blocks(problems=["vehicle-5d", "hartmann-6d"], methods=["baseline", "outcomes"])
    assert blocks(problems=["vehicle-5d", "hartmann-6d"], methods=["baseline"])


@pytest.mark.parametrize("method", ["order_3", "slider"])
def test_other_kinds_of_question_see_outcomes_too(method):
    variant = {"seen": {"method": method, "use_outcomes": True, "first": 4}}
    (block,) = blocks(methods=[], variants=variant, queries=6, seeds=[3])
    (row,) = run.run_together([block])[0]
    assert row["status"] == "ok" and all(map(math.isfinite, row["best_utility"])) and len(row["best_utility"]) == 6


def course(start, end, questions=40):
    """A run whose best utility rises evenly."""
    return {"seen": torch.linspace(start, end, questions).tolist(), "status": "ok"}


def made_up():
    """Outcomes reach the level of parameters' forty questions at question 21 and win; noise costs a tenth."""
    found = {figures.PLAIN: {}, figures.OURS: {}, figures.BOPE: {}}
    for at, problem in enumerate((*figures.EIGHT, "vehicle-5d-noise")):
        for seed in range(6):
            extra = 0.01 * ((seed * 7 + at) % 5)
            top = 0.9 if problem.endswith("-noise") else 2.0
            for name, end in ((figures.PLAIN, 1.0), (figures.OURS, top + extra), (figures.BOPE, 3.0)):
                found[name].setdefault(problem, {})[seed] = course(0.0, end)
    return found


def test_the_summary_says_what_the_runs_say(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(figures, "FILE", tmp_path / "outcomes.json")
    monkeypatch.setattr(figures.paired, "read", lambda sources: made_up())
    monkeypatch.setattr(sys, "argv", ["outcomes", "summary", "x.parquet"])
    figures.main()
    values = figures.json.loads((tmp_path / "outcomes.json").read_text())
    assert set(values["level_reached"]) == set(figures.EIGHT) and values["level_reached_elsewhere"] == {}
    # Ours is 2 (and a little) after forty questions, so it has 1 half way: at question 20 or 21.
    assert set(values["level_reached"].values()) <= {20, 21}
    assert (values["wins"], values["losses"]) == (8, 0) and (values["bope_wins"], values["bope_losses"]) == (0, 8)
    # Between the fifth question and the fortieth parameters gain 35/39, noise 0.9 of it and a little.
    assert values["noise_cost"] == pytest.approx((1.0 - 0.92) / (35 / 39), abs=0.02)
    assert values["bope_seeds"] == dict.fromkeys(figures.EIGHT, 6)
    assert "wins" in capsys.readouterr().out


def test_a_level_that_is_never_reached_is_one_question_too_late():
    found = made_up()
    assert set(figures.level_reached(found[figures.PLAIN], found[figures.BOPE]).values()) == {41}


def test_the_benchmark_stops_goes_on_and_packs(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(figures, "EXPERIMENTS", tmp_path)
    (tmp_path / "one.toml").write_text(
        'problems = ["vehicle-5d"]\ninitializations = ["from_zero"]\nmethods = ["baseline"]\npresets = ["modern"]\n'
        "seeds = 3\nqueries = 7\nblock_size = 1\n"
    )
    words = [
        "outcomes",
        "run",
        str(tmp_path / "runs"),
        "--only",
        "one",
        "--seeds",
        "2",
        "--workers",
        "1",
        "--batch",
        "1",
    ]
    for more, said in ((["--seconds", "0.001"], "stopped after"), ([], "2 runs, 1 to do"), ([], "2 runs, 0 to do")):
        monkeypatch.setattr(sys, "argv", words + more)
        figures.main()
        assert said in capsys.readouterr().out
    packed = tmp_path / "runs.parquet"
    monkeypatch.setattr(sys, "argv", ["outcomes", "pack", str(tmp_path / "runs"), "--out", str(packed)])
    figures.main()
    (problems,) = figures.paired.read([packed]).values()
    assert sorted(problems["vehicle-5d"]) == [0, 1] and len(problems["vehicle-5d"][0]["seen"]) == 7
