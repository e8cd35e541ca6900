"""Limits of a study, between parameters and of outcomes: no question ever breaks one that can be kept."""

import pytest
import torch

import kappasharp as ks
from kappasharp.study import allowing, cube, starting
from kappasharp.study.allowing import AllowedSequence
from kappasharp.study.declaring import define
from kappasharp.study.history import History
from tests.study import simulators
from tests.study.simulators import simulate
from tests.study.test_outcomes import SPACE, answer, answered, closure

MIXED = SPACE | {"n": ks.Int(1, 8), "mode": ["soft", "hard", "odd"]}
BETWEEN = ["kp + ki <= 2.5", "n >= 2 * ki", "not (mode == 'odd' and n > 4)"]


def keeps(design):
    return (
        design["kp"] + design["ki"] <= 2.5 + 1e-6
        and design["n"] >= 2 * design["ki"] - 1e-6
        and not (design["mode"] == "odd" and design["n"] > 4)
    )


def shown(question):
    return [question.at(i / 20) for i in range(21)] if question.kind == "slider" else question.designs


class TestNeverBroken:
    """Start and model, for hundreds of questions."""

    @pytest.mark.parametrize("question", ["pair", "choice:4", "slider", "auto"])
    def test_between_parameters(self, question):
        study = ks.create_study(MIXED, storage="sqlite://", limits=BETWEEN, question=question, first_pairs=20)
        for _ in range(24):
            asked = study.ask()
            assert all(keeps(design) for design in shown(asked)), asked
            study.tell(asked, answer(study, asked))

    def test_of_outcomes_in_many_asks(self):
        study = ks.create_study(
            SPACE, storage="sqlite://", outcomes=closure(), limits=[ks.AtMost("overshoot", 0.3), "kp + ki <= 2.8"],
            first_pairs=72, preset=ks.Preset(maximizer="quick"),
        )  # fmt: skip
        origins = set()
        for _ in range(80):
            asked = study.ask()
            origins.add(asked.origin)
            for design in asked.designs:
                assert simulate(design)["overshoot"] <= 0.3 + 1e-9 and design["kp"] + design["ki"] <= 2.8 + 1e-6
            study.tell(asked, answer(study, asked))
        assert origins == {"start", "model"}

    def test_several_voters_and_duels(self):
        study = ks.create_study(SPACE, storage="sqlite://", outcomes=closure(), limits=[ks.AtMost("overshoot", 0.3)])
        # Somebody's own comparison breaks the limit, and wins.
        study.add_comparison({"kp": 3.0, "ki": 0.0}, {"kp": 2.9, "ki": 2.0})
        answered(study, 6)
        study.settle(2)
        for voter in ("anna", "ben", "me", "anna", "ben"):
            asked = study.ask(voter)
            assert all(simulate(design)["overshoot"] <= 0.3 + 1e-9 for design in asked.designs)
            study.tell(asked, answer(study, asked))

    def test_a_queue_is_asked_as_it_is(self):
        study = ks.create_study(SPACE, storage="sqlite://", limits=["kp <= 1"])
        study.enqueue({"kp": 2.0, "ki": 0.0}, {"kp": 1.5, "ki": 0.0})
        assert study.ask().origin == "queue"


class TestFinding:
    """Designs within limits, where they are few."""

    def test_the_sequence_is_the_studys_own_without_those_that_break_a_limit(self):
        definition = define(SPACE, limits=["kp <= 1"], seed=4)
        allowed = allowing.of(definition, History(""))
        drawn = AllowedSequence(definition, allowed).take(3, 20)
        expected = [one for one in starting.sobol(definition, 0, 512) if one["kp"] <= 1.0]
        assert drawn == expected[3:23]

    def test_a_sliver_is_found(self):
        definition = define(
            {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)}, limits=["abs(a - b) <= 0.0005", "c <= 0.01"]
        )
        allowed = allowing.of(definition, History(""))
        found = AllowedSequence(definition, allowed).take(0, 4)
        assert len(found) == 4 and all(abs(d["a"] - d["b"]) <= 0.0005 + 1e-6 and d["c"] <= 0.011 for d in found)

    def test_how_far_is_zero_inside_and_grows_outside(self):
        study = ks.create_study(SPACE, storage="sqlite://", outcomes=closure(), limits=[ks.AtMost("overshoot", 0.3)])
        allowed = allowing.of(study.definition, study.history)
        X = cube.points(study.space, [{"kp": kp, "ki": 0.0} for kp in (0.5, 1.6, 1.8, 2.5, 3.0)])
        broken = allowed(X.unsqueeze(0))[0]
        assert (broken[:2] == 0.0).all() and (broken[2:] > 0.0).all() and (broken.diff()[1:] > 0.0).all()

    def test_a_design_without_outcomes_breaks_their_limits(self):
        study = ks.create_study(
            SPACE, storage="sqlite://", outcomes=closure(simulators.raises_above), limits=[ks.AtMost("settling", 99.0)]
        )
        for _ in range(8):
            asked = study.ask()
            assert all(design["kp"] <= 1.5 for design in asked.designs)
            study.tell(asked, answer(study, asked))

    def test_limits_that_no_design_keeps_are_left_aside_with_a_sentence(self):
        study = ks.create_study(SPACE, storage="sqlite://", outcomes=closure(), limits=[ks.AtMost("settling", 0.1)])
        answered(study, 6)
        assert study.ask().origin == "model"
        (note,) = [line for line in study.notes() if "No design was found" in line]
        assert "keeps settling <= 0.1: the nearest has overshoot" in note and "goes on without these limits" in note

    def test_where_outcomes_are_predicted_the_chance_counts(self):
        study = ks.create_study(
            SPACE, storage="sqlite://", outcomes=["overshoot", "settling"], limits=[ks.AtMost("overshoot", 0.3)]
        )
        broken = []
        for i in range(8):
            asked = study.ask()
            for design in asked.designs:
                study.record(design, simulate(design))
            broken.append(sum(simulate(design)["overshoot"] > 0.3 for design in asked.designs) if i >= 6 else 0)
            study.tell(asked, answer(study, asked))
        assert sum(broken) <= 1, "at most a slip beside the edge"

    def test_a_line_is_cut_to_its_longest_stretch_within(self):
        space = define(SPACE).space
        ends = cube.points(space, [{"kp": 0.2, "ki": 1.0}, {"kp": 3.0, "ki": 1.0}])
        whole = starting.within(space, None, ends)
        assert [one["kp"] for one in whole] == [0.2, 3.0]
        hole = starting.within(space, lambda X: ((X[..., 0] - 0.3).abs() < 0.1).double(), ends)
        assert hole[0]["kp"] > 0.2 + 0.4 * 2.8 and hole[1]["kp"] == 3.0
        assert starting.within(space, lambda X: torch.ones(X.shape[:-1]), ends) is None

    def test_too_few_designs_are_a_sentence(self):
        study = ks.create_study({"n": ks.Int(1, 8)}, storage="sqlite://", limits=["n == 3"])
        with pytest.raises(ks.KappaSharpError, match="must show 2 designs that can be told apart, but only"):
            study.ask()


def test_predicted_limits_that_leave_too_few_designs_do_not_end_a_study():
    study = ks.create_study(
        {"x": (0.0, 1.0), "y": (0.0, 1.0)},
        storage="sqlite://",
        outcomes=["m", "k"],
        limits=[ks.AtMost("m", -1.0)],
        question="order",
    )
    for number in range(3):
        question = study.ask()
        for design in question.designs:
            study.record(design, {"m": 1e9 if number == 1 else design["x"], "k": design["y"]})
        study.tell(question, [0, 1, 2, 3])


def test_the_nearest_design_of_predicted_outcomes_that_keep_no_limit():
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://", outcomes=["m"], limits=[ks.AtMost("m", -9.0)])
    for x in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        study.record({"x": x}, {"m": x})
    (said,) = [note for note in study.notes() if "No design was found" in note]
    assert abs(float(said.split("nearest has m ")[1].split(". The")[0])) < 0.05
