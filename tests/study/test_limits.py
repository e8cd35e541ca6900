"""Limits of a study, between parameters and of outcomes: no question ever breaks one that can be kept."""

import time

import pytest
import torch

import kappasharp as ks
from kappasharp.findings import best as findings_best
from kappasharp.journal.history import History
from kappasharp.model import feasibility, points
from kappasharp.model.feasibility import AllowedSequence
from kappasharp.planning import start
from kappasharp.study.creation import define
from tests.study import simulators
from tests.study.simulators import simulate
from tests.study.test_outcomes import SPACE, answer, answered, closure

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
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

    @pytest.mark.parametrize("question", ["pair", "choice:4", "slider:2", "slider:4", "auto"])
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
        allowed = feasibility.of(definition, History(""))
        drawn = AllowedSequence(definition, allowed).take(3, 20)
        expected = [one for one in start.sobol(definition, 0, 512) if one["kp"] <= 1.0]
        assert drawn == expected[3:23]

    def test_a_sliver_is_found(self):
        definition = define(
            {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)}, limits=["abs(a - b) <= 0.0005", "c <= 0.01"]
        )
        allowed = feasibility.of(definition, History(""))
        found = AllowedSequence(definition, allowed).take(0, 4)
        assert len(found) == 4 and all(abs(d["a"] - d["b"]) <= 0.0005 + 1e-6 and d["c"] <= 0.011 for d in found)

    def test_how_far_is_zero_inside_and_grows_outside(self):
        study = ks.create_study(SPACE, storage="sqlite://", outcomes=closure(), limits=[ks.AtMost("overshoot", 0.3)])
        allowed = feasibility.of(study.definition, study.history)
        X = points.points(study.space, [{"kp": kp, "ki": 0.0} for kp in (0.5, 1.6, 1.8, 2.5, 3.0)])
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
        ends = points.points(space, [{"kp": 0.2, "ki": 1.0}, {"kp": 3.0, "ki": 1.0}])
        whole = start.within(space, None, ends)
        assert [one["kp"] for one in whole] == [0.2, 3.0]
        hole = start.within(space, lambda X: ((X[..., 0] - 0.3).abs() < 0.1).double(), ends)
        assert hole[0]["kp"] > 0.2 + 0.4 * 2.8 and hole[1]["kp"] == 3.0
        assert start.within(space, lambda X: torch.ones(X.shape[:-1]), ends) is None

    def test_a_line_through_several_is_cut_to_a_straight_stretch_of_as_many(self):
        space = define(SPACE).space
        places = [(0.2, 1.0), (3.0, 1.0), (3.0, 2.0), (1.0, 1.8)]
        corners = points.points(space, [{"kp": kp, "ki": ki} for kp, ki in places])
        assert [(one["kp"], one["ki"]) for one in start.within(space, lambda X: X[..., 0] * 0.0, corners)] == places
        low, high = corners[1, 1].item(), corners[2, 1].item()
        cut = start.within(space, lambda X: (X[..., 1] > low + 0.5 * (high - low)).double(), corners)
        assert len(cut) == 4 and all(one["ki"] == 1.0 for one in cut)
        assert cut[1]["kp"] == pytest.approx(0.2 + 2.8 / 3) and (cut[0]["kp"], cut[3]["kp"]) == (0.2, 3.0)
        assert start.within(space, None, corners[:1].expand(4, -1)) is None
        # What cannot be told from a design before it is left out; the line has others on its way.
        twice = start.within(space, None, corners[[0, 1, 1, 3]])
        assert len(twice) == 4 and not any(space.same(a, b) for i, a in enumerate(twice) for b in twice[:i])
        assert (twice[0]["kp"], twice[-1]["kp"]) == (0.2, 1.0)

    @pytest.mark.parametrize("question", ["slider:2", "slider:4"])
    def test_a_first_line_from_somebodys_design_keeps_limits(self, question):
        mine = [{"x": 0.9, "y": 0.05}, {"x": 0.05, "y": 0.9}, {"x": 0.05, "y": 0.05}, {"x": 0.9, "y": 0.9}]
        study = ks.create_study(
            {"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://", question=question, favourites=mine,
            limits=["(x-0.5)*(x-0.5)+(y-0.5)*(y-0.5) >= 0.2"],
        )  # fmt: skip
        shown = set()
        for _ in range(4):
            asked = study.ask()
            along = [asked.at(i / 100) for i in range(101)]
            assert all((one["x"] - 0.5) ** 2 + (one["y"] - 0.5) ** 2 >= 0.2 for one in along)
            shown |= {mine.index(one) for one in asked.designs if one in mine}
            study.tell(asked, 0.5)
        # Of four designs of a line that breaks a limit one is asked about, and two first questions are all.
        assert 0 in shown and (question == "slider:4" or shown == {0, 1, 2, 3})

    def test_a_line_through_four_needs_no_more_room_than_a_straight_one(self):
        study = ks.create_study({"x": ks.Float(0, 1, jnd=0.9)}, storage="sqlite://", question="slider")
        asked = study.ask()
        assert len(asked.designs) == 4 and not study.space.same(asked.designs[0], asked.designs[-1])

    def test_too_few_designs_are_a_sentence(self):
        study = ks.create_study({"n": ks.Int(1, 8)}, storage="sqlite://", limits=["n >= 6"], question="choice:4")
        said = r"must show 4 designs that can be told apart, but only 3 were found within 'n >= 6'; ask about fewer"
        with pytest.raises(ks.KappaSharpError, match=said):
            study.ask()

    @pytest.mark.parametrize(
        ("space", "limit"),
        [({"n": ks.Int(1, 8)}, "n == 3"), (SQUARE, "x + y <= 0"), ({"n": ["a", "b", "c"]}, "n == 'a'")],
    )
    def test_limits_between_parameters_that_leave_one_design_are_refused(self, space, limit):
        with pytest.raises(ks.KappaSharpError, match="must leave two designs that can be told apart, but within"):
            ks.create_study(space, storage="sqlite://", limits=[limit])

    def test_narrowing_leaves_two_designs(self):
        study = ks.create_study({"n": ks.Int(1, 8), "m": ks.Int(1, 8)}, storage="sqlite://", limits=["n + m >= 14"])
        with pytest.raises(ks.KappaSharpError, match="must leave two designs that can be told apart"):
            study.narrow("n", 1, 6)

    def test_a_line_that_no_limits_leave_room_for_is_a_sentence(self):
        study = ks.create_study(SQUARE, storage="sqlite://", limits=["x <= 0 or x >= 1", "y <= 0 or y >= 1"])
        with pytest.raises(ks.KappaSharpError, match=r"none was found within .*; ask for a pair"):
            study.ask(kind="slider")


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


def away(design):
    return {"away": sum((design[name] - 0.3) ** 2 for name in "abcd") ** 0.5}


def test_a_small_region_is_found_beside_limits_of_parameters():
    space = {name: (0.0, 1.0) for name in "abcd"}
    limits = ["a + b + c + d <= 1.3", ks.AtMost("away", 0.05)]
    study = ks.create_study(space, storage="sqlite://", outcomes=away, limits=limits)
    assert not study.notes()
    assert all(sum(one.values()) <= 1.3 and away(one)["away"] <= 0.05 for one in study.ask().designs)


def test_the_nearest_design_keeps_the_limits_of_parameters_and_what_is_opened_again_is_found():
    limits = ["x + y <= 1", ks.AtLeast("f", 0.9)]
    study = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://", outcomes=total, limits=limits)
    study.narrow("x", 0.0, 0.4)
    study.narrow("y", 0.0, 0.4)
    (said,) = study.notes()
    assert float(said.split("nearest has f ")[1].split(". The")[0]) > 0.79
    assert "kept again where more of a parameter is open" in said
    study.widen("y")
    assert not study.notes() and all(total(one)["f"] >= 0.9 for one in study.ask().designs)


@pytest.mark.parametrize("again", [lambda study: study.undo(), lambda study: study.widen("x")])
def test_what_was_asked_while_limits_were_left_aside_is_withdrawn_where_more_is_open(again):
    study = ks.create_study(SQUARE, storage="sqlite://", outcomes=total, limits=[ks.AtLeast("f", 1.2)])
    study.tell(study.ask(), "a")
    study.narrow("x", 0.0, 0.1)
    asked, wished = study.ask(), ({"x": 0.05, "y": 0.1}, {"x": 0.05, "y": 0.9})
    study.enqueue(*wished)
    hers = study.ask("ann")
    assert study.notes() and all(total(one)["f"] < 1.2 for one in asked.designs)
    again(study)
    with pytest.raises(ks.KappaSharpError, match="because a parameter was changed"):
        study.tell(asked, "a")
    assert all(total(one)["f"] >= 1.2 for one in study.ask().designs)
    # What somebody wished to ask is nobody's to withdraw.
    assert study.ask("ann") == hers and hers.designs == list(wished)


def test_an_answer_is_corrected_by_undo_also_where_limits_are_left_aside_or_known_to_be_broken():
    aside = ks.create_study(SQUARE, storage="sqlite://", outcomes=total, limits=[ks.AtLeast("f", 9.0)])
    measured = ks.create_study(
        SQUARE, storage="sqlite://", study_name="b", outcomes=["f"], limits=[ks.AtMost("f", 1.0)]
    )
    for study in (aside, measured):
        asked = study.ask()
        study.tell(asked, "a")
        if study is measured:
            study.record(asked.a, {"f": 5.0})
        assert study.undo() == asked
        study.tell(asked, "b")


def total(design):
    return {"f": design["x"] + design["y"]}


def played(study, count, record=None):
    """Answers of somebody who wants as much of everything as there is; the designs shown."""
    found = []
    for _ in range(count):
        asked = study.ask()
        found.append(asked.designs)
        for design in asked.designs if record is not None else ():
            study.record(design, record(design))
        study.tell(asked, "a" if sum(asked.a.values()) > sum(asked.b.values()) else "b")
    return found


def limited(outcomes, most=1.0, **more):
    return ks.create_study(SQUARE, storage="sqlite://", outcomes=outcomes, limits=[ks.AtMost("f", most)], **more)


class TestTold:
    """What is told to be best keeps the limits, as far as anybody knows."""

    def test_of_measured_outcomes(self):
        study = limited(["f"])
        played(study, 6, total)
        broken = [number for number, one in enumerate(study.history.options) if total(one)["f"] > 1.0]
        best = study.best
        assert broken and best.outcomes["f"] <= 1.0 and best.breaks == ()
        assert best.better_breaking in broken
        (note,) = [one for one in best.notes if one.key == "limit.better"]
        assert note.startswith(f"Option {best.better_breaking} seems better still, but it breaks a limit")
        assert best.advice.link is None or not set(best.advice.link) & set(broken)
        assert "but it breaks a limit" in " ".join(
            findings_best.sentences(study.definition, study.history, study.model(), best.option)
        )

    @pytest.mark.parametrize("limits", [[ks.AtMost("f", 1.0)], ["x + y <= 1"]])
    def test_a_comparison_of_ones_own_that_breaks_it(self, limits):
        study = ks.create_study(SQUARE, storage="sqlite://", outcomes=closure(total), limits=limits)
        played(study, 4)
        study.add_comparison(winner={"x": 1.0, "y": 1.0}, loser={"x": 0.5, "y": 0.4})
        best = study.best
        assert total(best.params)["f"] <= 1.0 + 1e-6
        assert study.history.options[best.better_breaking] == {"x": 1.0, "y": 1.0}
        assert best.advice.link is None or best.better_breaking not in best.advice.link

    def test_where_every_design_seen_breaks_one(self):
        study = ks.create_study(SQUARE, storage="sqlite://", limits=["x + y <= 1"])
        study.add_comparison(winner={"x": 1.0, "y": 1.0}, loser={"x": 0.9, "y": 0.9})
        best = study.best
        assert best.params == {"x": 1.0, "y": 1.0} and best.breaks == ("'x + y <= 1'",)
        assert "This design breaks 'x + y <= 1'" in best.notes[0] and best.better_breaking is None


class TestWithoutLearning:
    """Limits are kept also where the model learns nothing from the outcomes."""

    def test_an_outcome_that_looks_like_chance(self):
        def chance(design):
            return {"f": (design["x"] * 977.31 + design["y"] * 311.7) % 1.0}

        study = limited(chance, 0.5)
        shown = [one for designs in played(study, 8) for one in designs]
        assert all(chance(one)["f"] <= 0.5 for one in shown) and chance(study.best.params)["f"] <= 0.5

    def test_a_search_that_computes_for_limits_alone_has_a_budget(self):
        def chance(design):
            time.sleep(0.005)
            return {"f": (design["x"] * 977.31 + design["y"] * 311.7) % 1.0}

        study = limited(chance, 0.5, first_pairs=2)
        played(study, 3)
        assert study.definition.simulator.computed < 1000

    def test_a_constant_that_breaks_its_limit(self):
        study = limited(lambda _: {"f": 3.0})
        assert any("No design was found that keeps f <= 1: the nearest has f 3." in line for line in study.notes())
        played(study, 3)
        assert study.best.breaks == ("f <= 1",)

    def test_records_alone(self):
        study = limited(["f"])
        (note,) = [line for line in study.notes() if "left aside" in line]
        assert note.key == "note.limits_unknown" and note.values["why"].values == {"least": 3}
        assert note.startswith("f <= 1 is kept by designs whose outcomes are known, and left aside for all others")
        asked = study.ask()
        study.record(asked.a, {"f": 5.0})
        study.record(asked.b, {"f": 6.0})
        study.tell(asked, "a")
        shown = played(study, 6)
        study.settle(2)
        shown += played(study, 2)
        assert not any(one in asked.designs for designs in shown for one in designs)

    def test_an_outcome_without_limits_need_not_be_measured(self):
        study = ks.create_study(SQUARE, storage="sqlite://", outcomes=["f", "g"], limits=[ks.AtMost("f", 1.0)])
        shown = played(study, 8, total)
        assert sum(total(one)["f"] > 1.05 for designs in shown[4:] for one in designs) <= 1
        assert len({frozenset(tuple(one.values()) for one in designs) for designs in shown}) == len(shown)


class TestTooFew:
    """The study goes on where too few designs keep the limits of outcomes."""

    def test_one_design(self):
        study = limited(closure(total), 0.0)
        (note,) = study.notes()
        assert note.startswith("Only one design was found that keeps f <= 0: x=0.0, y=0.0. A question needs two.")
        assert "goes on without these limits" in note
        played(study, 6)

    def test_one_choice(self):
        study = ks.create_study(
            {"n": ["a", "bb", "ccc"]}, storage="sqlite://", outcomes=lambda one: {"f": len(one["n"])},
            limits=[ks.AtMost("f", 1)],
        )  # fmt: skip
        assert "Only one design was found that keeps f <= 1: n='a'." in study.notes()[0]
        assert len(study.ask().designs) == 2

    def test_an_exact_value_is_worth_a_note(self):
        study = ks.create_study(
            SQUARE, storage="sqlite://", outcomes=closure(total), limits=[ks.AtMost("f", 1.0), ks.AtLeast("f", 1.0)]
        )
        assert any("designs were found that keep 1 <= f <= 1" in line for line in study.notes())

    def test_another_scale_between_sessions(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'studies.db'}"
        first = ks.create_study(
            SQUARE, storage=url, study_name="s", outcomes=closure(total), limits=[ks.AtMost("f", 1.5)]
        )
        played(first, 7)
        later = ks.load_study("s", storage=url, outcomes=lambda one: {"f": 1000.0 * (one["x"] + one["y"]) + 1.5})
        played(later, 1)
        assert "goes on without these limits" in " ".join(later.notes())


class TestLost:
    """A function that works no more in an open process."""

    @staticmethod
    def flaky():
        """A study whose function raises as long as there is something in the list."""
        gone = []

        def total_or_nothing(design):
            if gone:
                raise OSError("licence gone")
            return total(design)

        return limited(total_or_nothing, 0.5), gone

    @pytest.mark.parametrize("dies", [0, 3, 7])
    def test_it_is_noticed_and_the_study_goes_on(self, dies):
        study, gone = self.flaky()
        shown = played(study, dies)
        gone.append(True)
        shown += played(study, 5)
        assert "The function of the outcomes no longer works" in " ".join(study.notes())
        assert len({frozenset(tuple(one.values()) for one in designs) for designs in shown}) == len(shown)

    @pytest.mark.parametrize("dies", [3, 7])
    def test_it_is_noticed_at_the_next_question(self, dies):
        study, gone = self.flaky()
        played(study, dies)
        gone.append(True)
        study.ask()
        assert "The function of the outcomes no longer works" in " ".join(study.notes())

    def test_it_may_come_back(self):
        study, gone = self.flaky()
        played(study, 3)
        gone.append(True)
        played(study, 2)
        gone.clear()
        played(study, 1)
        assert "no longer works" not in " ".join(study.notes())

    def test_one_that_fails_in_places_works(self):
        study = ks.create_study(
            SPACE, storage="sqlite://", outcomes=closure(simulators.raises_above), limits=[ks.AtMost("settling", 99.0)]
        )
        assert "no longer works" not in " ".join(study.notes())


@pytest.mark.parametrize(("kind", "tight", "loose"), [(ks.AtMost, 0.5, 1.0), (ks.AtLeast, 1.0, 0.5)])
def test_of_two_limits_the_tighter_counts(kind, tight, loose):
    for values in ((tight, loose), (loose, tight)):
        (one,) = define(SQUARE, outcomes=["f"], limits=[kind("f", value) for value in values]).outcomes.table
        assert (one.at_most if kind is ks.AtMost else one.at_least) == tight


class TestFavourites:
    """A favourite that breaks the limit of an outcome is told of."""

    def test_it_is_refused_where_outcomes_are_computed(self):
        with pytest.raises(ks.KappaSharpError, match=r"`favourites\[1\]` must keep every limit, but it breaks f <= 1"):
            limited(closure(total), favourites=[{"x": 0.2, "y": 0.2}, {"x": 0.8, "y": 0.8}])

    def test_it_is_noted_where_that_becomes_known_later(self):
        favourite = {"x": 0.8, "y": 0.8}
        study = limited(["f"], favourites=[favourite])
        assert "favourite" not in " ".join(study.notes())
        study.record(favourite, {"f": 1.6})
        (note,) = [line for line in study.notes() if "favourite" in line]
        assert f"The favourite {favourite} is not asked about: it breaks f <= 1;" in note
        assert favourite not in study.ask().designs
