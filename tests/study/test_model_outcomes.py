"""Taste learnt on outcomes: computed, measured or missing; every kind of question, several voters, files, processes."""

import json
import math
import pickle

import pytest
import torch

import kappasharp as ks
from kappasharp.exchange.study_json import sealed
from kappasharp.findings import outcomes
from kappasharp.inference import posterior
from kappasharp.journal.history import Known
from kappasharp.model import fit, points
from kappasharp.model import outcomes as model_outcomes
from kappasharp.planning import next_question
from kappasharp.randomness import stream
from tests.study import simulators
from tests.study.simulators import SPACE, liked, simulate
from tests.study.test_outcomes import NAMES, answer, answered, closure, computed


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


def measured(url, count, **more):
    """A study whose outcomes are measured: of the first designs that were asked about, some have them."""
    study = ks.create_study(SPACE, storage=url, study_name="pid", seed=3, outcomes=list(NAMES), **more)
    for _ in range(count):
        pair = study.ask()
        for design in pair.designs:
            study.record(design, simulate(design))
        study.tell(pair, answer(study, pair))
    return study


class TestLift:
    """From points to scaled outcomes."""

    def test_it_is_the_function_scaled(self, url):
        study = computed(url)
        given = model_outcomes.given(study.definition, study.history)
        designs = [{"kp": 0.3, "ki": 0.1}, {"kp": 2.9, "ki": 1.9}]
        raw = torch.tensor([list(simulate(design).values()) for design in designs], dtype=torch.float64)
        X = points.points(study.space, designs)
        assert torch.allclose(given.raw(X), raw)
        lift = given.lift
        assert torch.allclose(lift(X), given.scaling(raw)) and lift.size == 2 and lift.budget >= 64
        assert torch.equal(lift(X.reshape(2, 1, 1, 2)), lift(X).reshape(2, 1, 1, 2))

    def test_an_outcome_as_good_as_chance_is_left_out_unless_somebody_hints_at_it(self, url):
        study = computed(url, simulators.half_chance)
        given = model_outcomes.given(study.definition, study.history)
        assert given.chancy == [False, True] and given.learnt_on == [True, False] and given.way == "computed"
        assert (given.lift(given.points)[:, 1] == 0.5).all()
        (said,) = [line for line in study.notes() if "chance" in line]
        assert "'settling' looks like chance" in said
        assert said.key == "note.chance" and said.values == {"name": "settling"}
        hinted = computed("sqlite://", simulators.half_chance, hints=[ks.Less("settling")])
        with_hint = model_outcomes.given(hinted.definition, hinted.history)
        assert with_hint.chancy == [False, False] and with_hint.shares[1] == 1.0
        # What is left out is doubted no more, and what somebody hints at is beyond doubt.
        assert given.doubt == with_hint.doubt == given.lift.doubt == 0.0

    def test_an_outcome_that_is_foreseen_in_part_is_doubted(self, url, monkeypatch):
        study = computed(url)
        monkeypatch.setattr(model_outcomes, "_foreseen", lambda *sample: (0.9, 0.8))
        given = model_outcomes.given(study.definition, study.history)
        assert given.chancy == [False, False] and abs(given.lift.doubt - 0.07) < 1e-12

    def test_the_sample_lies_between_0_and_1(self, url):
        given = model_outcomes.given(computed(url).definition, computed("sqlite://").history)
        scaled = given.lift(given.points)
        assert 0.85 <= float(((scaled >= 0.05) & (scaled <= 0.95)).double().mean()) <= 0.95

    def test_what_a_function_does_not_give_is_predicted(self, url):
        study = computed(url, simulators.raises_above)
        given = model_outcomes.given(study.definition, study.history)
        X = points.points(study.space, [{"kp": 1.45, "ki": 0.5}, {"kp": 1.55, "ki": 0.5}])
        assert given.computed(X)[1].isnan().all()
        assert torch.allclose(given.raw(X), study_values(X, study), atol=0.05)

    def test_what_was_measured_comes_before_what_is_computed(self, url):
        study = computed(url)
        design = {"kp": 1.0, "ki": 0.5}
        study.record(design, {"overshoot": 0.9})
        given = model_outcomes.given(study.definition, study.history)
        found = given.computed(points.points(study.space, [design]))[0].tolist()
        assert found == [0.9, simulate(design)["settling"]]

    def test_measured_outcomes_are_predicted_from_those_that_are_known(self, url):
        study = measured(url, 12)
        given = model_outcomes.given(study.definition, study.history)
        assert given.way == "predicted" and given.lift.budget == 0
        X = points.points(study.space, study.history.options)
        assert torch.allclose(given.raw(X), study_values(X, study), atol=0.03)

    @pytest.mark.parametrize("count", [0, 1])
    def test_too_few_are_no_ground_to_learn_on(self, url, count):
        study = measured(url, count)
        assert model_outcomes.given(study.definition, study.history).lift is None
        answered(study, 6 - count)
        assert f"outcomes are known of {2 * count} designs at most, and 3 are needed" in str(study.diagnostics())
        assert len(study.model().learnt.fit.hyper.theta[0]) == 3

    def test_an_outcome_that_nobody_measures_stops_none_of_the_others(self, url):
        """Three designs have overshoot, no design has settling: taste is learnt on overshoot, and all is told of it."""
        study = ks.create_study(
            SPACE, storage=url, seed=1, outcomes=["overshoot", "settling"], hints=[ks.Less("settling")]
        )
        for number in range(6):
            pair = study.ask()
            for design in pair.designs:
                study.record(design, {"overshoot": simulate(design)["overshoot"]})
            study.tell(pair, "a" if simulate(pair.a)["overshoot"] < simulate(pair.b)["overshoot"] else "b")
            if number == 3:
                study.record(pair.a, {"settling": 1.0}, repeat=True)
        given = model_outcomes.given(study.definition, study.history)
        assert given.way == "predicted" and given.learnt_on == [True, False] and given.lift.leaning == (0, 0)
        X = torch.rand(5, 2, generator=stream(0, "X"), dtype=torch.float64)
        lifted = torch.cat([given.lift(X), given.lift.sampled(X).flatten(0, 1)])
        assert bool(lifted.isfinite().all()) and bool((lifted[:, 1] == 0.5).all())
        assert [one.name for one in study.taste()] == ["overshoot"]
        assert next(iter(study.best.outcomes)) == "overshoot" and any(one.front for one in study.tradeoffs())
        said = str(study.diagnostics())
        assert "The outcome 'settling' is known of one design: the model learns on it from 3 on." in said
        assert "never varies" not in said

    def test_every_outcome_may_be_known_of_other_designs(self, url, tmp_path):
        study = ks.create_study(SPACE, storage=url, seed=1, outcomes=["overshoot", "settling"])
        designs = points.designs(study.space, 5, 0, 12)
        for number, design in enumerate(designs):
            name = ("overshoot", "settling")[number % 2]
            study.record(design, {name: simulate(design)[name]})
        answered(study, 6)
        given = model_outcomes.given(study.definition, study.history)
        assert given.known_of == [6, 6] and given.learnt_on == [True, True] and given.way == "predicted"
        assert len(study.model().learnt.fit.hyper.theta[0]) == 6
        # No design has both: there is no picture over the two, and no other trouble.
        assert "overshoot" in study.export(tmp_path / "report.html").read_text("utf-8")
        X = points.points(study.space, designs)
        assert bool(((given.raw(X) - study_values(X, study)).abs().amax(0) < study_values(X, study).std(0)).all())

    def test_the_last_record_of_each_outcome_counts(self, url):
        """Who weighs a chair today and sits on it tomorrow keeps both."""
        study, design = ks.create_study(SPACE, storage=url, outcomes=list(NAMES)), {"kp": 1.0, "ki": 0.5}
        study.record(design, {"overshoot": 0.1})
        study.record(design, {"settling": 2.0})
        assert study.outcomes(design) == {"overshoot": 0.1, "settling": 2.0}
        study.record(design, {"overshoot": 0.3}, repeat=True)
        assert study.outcomes(design) == {"overshoot": pytest.approx(0.2), "settling": 2.0}
        study.record(design, {"overshoot": 0.4})
        assert study.outcomes(design) == {"overshoot": 0.4, "settling": 2.0}
        study.record(design, None)
        assert study.outcomes(design) is None

    def test_what_was_computed_is_no_repetition(self, url):
        study = answered(computed(url, simulators.simulate), 1)
        design, name = study.ask().a, next(iter(study.definition.outcomes.names))
        for value, mean in ((70.0, 70.0), (72.0, 71.0)):
            study.record(design, {name: value}, repeat=True)
            assert study.outcomes(design)[name] == mean

    def test_outcomes_that_never_vary(self, url):
        study = answered(computed(url, simulators.constant), 6)
        assert "learns on the parameters alone: none of the outcomes varies" in str(study.diagnostics())
        assert study.taste() == [] and study.best.outcomes == simulators.constant({})
        one = answered(computed("sqlite://", simulators.half_constant), 6)
        assert "'settling' never varies" in str(one.diagnostics())
        assert [slice_.name for slice_ in one.taste()] == ["overshoot"]


def study_values(X, study):
    designs = [study.space.decode(row) for row in X.tolist()]
    return torch.tensor([list(simulate(design).values()) for design in designs], dtype=torch.float64)


class TestQuestions:
    """The loop with outcomes in it."""

    def test_it_learns_faster_than_on_parameters(self):
        """Ten dimensions, of which outcomes say all: after twelve answers two thirds of the regret over eight seeds."""
        space = {f"x{i}": (0.0, 1.0) for i in range(10)}

        def outcomes(design):
            values = list(design.values())
            return {"low": sum(values[:5]), "high": sum(values[5:])}

        def like(design):
            found = outcomes(design)
            return -abs(found["low"] - 1.0) - abs(found["high"] - 4.0)

        def reached(seed, given):
            study = ks.create_study(space, storage="sqlite://", seed=seed, outcomes=given)
            for _ in range(12):
                pair = study.ask()
                study.tell(pair, "a" if like(pair.a) > like(pair.b) else "b")
            return like(study.best_params)

        plain, lifted = ([reached(seed, given) for seed in range(8)] for given in (None, outcomes))
        assert min(lifted) > -1.0 and sum(lifted) > sum(plain) * 2 / 3

    def test_what_the_search_computed_is_stored_with_the_question(self, url, monkeypatch):
        """In one step with it, and in the order that it had: the question, then the outcomes of its designs."""
        study = answered(computed(url), 8)
        monkeypatch.setattr(study, "complete", lambda _: None)
        steps = []
        monkeypatch.setattr(study.storage, "told", steps.append)
        before = study.history.number
        pair = study.ask()
        assert len(steps) == 1
        stored = study.storage.read(study.stored, before)
        assert stored[0].event.kind == "asked" and stored[0].number == pair.number
        assert [one.event.design for one in stored[1:]] == list(pair.designs)
        assert [study.outcomes(design) for design in pair.designs] == [simulate(design) for design in pair.designs]

    @pytest.mark.parametrize("question", ["choice:3", "order:3", "slider", "rating", "auto"])
    def test_every_kind(self, url, question):
        study = answered(computed(url, question=question, first_pairs=3), 6)
        assert study.model().state.lift is not None
        assert study.best.outcomes == pytest.approx(simulate(study.best_params))
        again = ks.load_study("pid", storage=url, outcomes=closure())
        assert again.ask().designs == study.ask().designs

    def test_several_voters(self, url):
        study = answered(computed(url), 6)
        questions_ = [study.ask(voter) for voter in ("anna", "ben", "me")]
        assert len({json.dumps(one.designs) for one in questions_}) == 3
        for one in reversed(questions_):
            study.tell(one, answer(study, one))
        assert study.diagnostics().voters == {"me": 7, "ben": 1, "anna": 1}
        study.undo("anna")
        assert study.ask("anna") == questions_[0]

    def test_settling_and_predicting(self, url):
        study = answered(computed(url), 7)
        study.settle(1)
        assert study.ask().origin == "settle"
        best = study.best_params
        assert study.predict(best, {"kp": 3.0, "ki": 2.0}) > 0.5

    def test_another_process_proposes_the_same(self, url):
        """What the page's workers get: definition and history as bytes, the function by its name."""
        study = ks.create_study(SPACE, storage=url, study_name="pid", outcomes=simulators.simulate)
        answered(study, 6)
        definition, history = pickle.loads(study.packed()[1])
        assert definition.simulator is study.definition.simulator
        assert next_question.next_question(definition, history) == study.propose()

    def test_without_its_function_it_goes_on_with_what_is_stored(self, url):
        answered(computed(url), 6)
        study = ks.load_study("pid", storage=url)
        assert study.model().state.lift is not None
        said = str(study.diagnostics())
        assert "The function of the outcomes is not here; `load_study(..., outcomes=…)` gives it" in said
        assert "predicted from the 12 designs" in said or "predicted from the 11 designs" in said
        pair = study.ask()
        assert study.history.outcomes(pair.a) is None or study.history.outcomes(pair.b) is None
        study.tell(pair, "a")
        assert "seen have no outcomes of their own" in str(study.diagnostics())

    def test_measured_to_the_end(self, url):
        study = measured(url, 10)
        assert study.model().state.lift is not None and study.best.outcomes is not None
        before = study.model()
        study.record({"kp": 0.2, "ki": 0.0}, simulate({"kp": 0.2, "ki": 0.0}))
        assert study.model() is not before, "the model is of all that is known"

    def test_dear_ones_are_predicted(self, url):
        study = computed(url, simulators.slow)
        assert not model_outcomes.given(study.definition, study.history).is_cheap
        answered(study, 6)
        assert study.definition.simulator.computed <= 8 + 12, "only designs shown, and those tried when it was made"
        assert len(study.history.known) >= 11 and study.model().state.lift is not None


class TestHints:
    """Soft knowledge: it speaks first, and answers have the last word."""

    def slope(self, study, name):
        found = next(one for one in study.taste() if one.name == name)
        return found.mean[-1] - found.mean[0]

    def test_before_answers_say_anything_the_hint_does(self):
        for given, sign in (((), 0.0), ((ks.Less("overshoot"),), -1.0), ((ks.More("overshoot"),), 1.0)):
            study = computed("sqlite://", hints=given)
            study.tell(study.ask(), "tie")
            slope = self.slope(study, "overshoot")
            assert abs(slope) < 0.2 if sign == 0.0 else sign * slope > 0.2

    def test_answers_overrule_it(self):
        study = computed("sqlite://", hints=[ks.More("overshoot")])
        for _ in range(12):
            pair = study.ask()
            study.tell(pair, "a" if simulate(pair.a)["overshoot"] < simulate(pair.b)["overshoot"] else "b")
        assert study.predict({"kp": 0.5, "ki": 0.1}, {"kp": 2.5, "ki": 1.5}) > 0.9
        assert simulate(study.best_params)["overshoot"] < 0.1

    def test_measured_outcomes_have_them_too(self):
        study = measured("sqlite://", 5, hints=[ks.Less("overshoot")])
        assert study.model().state.lift.leaning == (-1, 0)
        assert study.directions()["overshoot"] == "less" and study.ask().origin == "model"


class TestMemo:
    """Where the next fit starts."""

    def test_as_many_hyperparameters_as_length_scales_and_output_scales(self, url, tmp_path):
        study = answered(computed(url), 6)
        study.ask()
        memo = list(study.history.asked.values())[-1][1].memo
        assert len(memo["theta"]) == 2 + 2 + 2
        data = study.plain()
        path = tmp_path / "study.json"
        for count, fits in ((6, True), (3, True), (5, False), (4, False)):
            asked = [row for row in data["events"] if row["body"].get("memo")][-1]
            asked["body"]["memo"]["theta"] = [0.1] * count
            path.write_text(json.dumps(sealed(data)))
            if fits:
                ks.import_json(path, storage="sqlite://")
            else:
                with pytest.raises(ks.KappaSharpError, match="must have 3 numbers"):
                    ks.import_json(path, storage="sqlite://")

    def test_one_on_parameters_does_not_start_one_on_outcomes(self, url):
        study = ks.create_study(SPACE, storage=url, study_name="pid", outcomes=list(NAMES), first_pairs=2)
        answered(study, 4)
        assert len(list(study.history.asked.values())[-1][1].memo["theta"]) == 3
        for design in study.history.options:
            study.record(design, simulate(design))
        assert fit.learn(study.definition, study.history).learnt.fit.hyper.theta.shape == (1, 6)
        answered(study, 2)
        assert len(list(study.history.asked.values())[-1][1].memo["theta"]) == 6


class TestTradeOffs:
    """What the page shows."""

    def test_the_front_by_its_definition(self):
        rows = [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, {"a": 0.5, "b": 0.5}, {"a": 9.0}]
        assert outcomes.front(rows, {"a": "less", "b": "less"}) == [False, False, False, True, False]
        assert outcomes.front(rows, {"a": "more", "b": "less"}) == [False, True, False, True, False]
        assert outcomes.front(rows, {"a": "more", "b": None}) == [False, False, False, False, True]
        assert outcomes.front(rows, {"a": None, "b": None}) == [False] * 5
        assert outcomes.front(rows[:1] * 2, {"a": "less"}) == [True, True], "equals do not beat each other"

    def test_rows(self, url):
        study = answered(computed(url, hints=[ks.Less("overshoot"), ks.Less("settling")]), 8)
        study.record({"kp": 1.0, "ki": 2.0}, {"overshoot": 9.0, "settling": 9.0})
        rows = study.tradeoffs()
        assert [row.option for row in rows] == [*range(len(study.history.options)), None]
        assert all(row.outcomes == simulate(row.params) for row in rows[:-1]) and rows[-1].source == "measured"
        (best,) = [row for row in rows if row.best]
        assert best.option == study.best.option and not rows[-1].front
        values = [tuple(row.outcomes.values()) for row in rows]
        beaten = [
            any(all(o <= v for o, v in zip(other, own, strict=True)) and other != own for other in values)
            for own in values
        ]
        assert [row.front for row in rows] == [not one for one in beaten]

    def test_taste_runs_as_the_person_likes_it(self, url):
        study = answered(computed(url), 16)
        slices = {one.name: one for one in study.taste()}
        best = study.best
        for name, found in slices.items():
            assert found.here == pytest.approx(best.outcomes[name])
            assert found.values == sorted(found.values) and found.values[0] <= found.here <= found.values[-1]
            assert all(low <= mean <= high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))
            # At the design itself there is nothing above it.
            near = min(range(len(found.values)), key=lambda i: abs(found.values[i] - found.here))
            assert abs(found.mean[near]) < 0.5
        overshoot = slices["overshoot"]
        assert overshoot.mean[-1] < overshoot.mean[0]
        assert study.directions()["overshoot"] == "less"

    def test_taste_is_the_models_own_posterior(self, url):
        """Where a design of the space has the outcomes that are asked for, the slice is a contrast of designs."""
        study = answered(computed(url), 8)
        model, definition = study.model(), study.definition
        given = model_outcomes.given(definition, study.history)
        here = model.state.points[0, fit.leading(model)]
        rows = given.raw(here.unsqueeze(0)).expand(3, -1)
        along = outcomes._Along(given.scaling(rows))
        fitted = model.learnt.corrected.posterior
        X = here.expand(1, 3, -1)
        by_design = posterior.joint(fitted, X)
        by_outcome = posterior.joint(fitted._replace(lift=along), X)
        for one, other in zip(by_design, by_outcome, strict=True):
            assert torch.allclose(one, other, atol=1e-9)

    def test_nothing_without_outcomes(self):
        study = answered(ks.create_study(SPACE, storage="sqlite://"), 2)
        assert study.tradeoffs() == [] and study.taste() == [] and study.directions() == {} and study.notes() == []
        assert computed("sqlite://").tradeoffs() == []


def test_repetitions_have_a_mean_and_a_spread():
    known = Known({}, 1, "measured", ({"a": 1.0, "b": 2.0}, {"a": 3.0}))
    assert known.values == {"a": 2.0, "b": 2.0} and known.spread == {"a": math.sqrt(2.0)}
    assert liked({"overshoot": 1.0, "settling": 1.0}) == -5.0


def test_a_function_that_fails_everywhere_after_all_is_said_to(tmp_path):
    url = f"sqlite:///{tmp_path / 'one.db'}"
    ks.create_study({"x": (0.0, 1.0)}, storage=url, study_name="one", outcomes=lambda design: {"m": design["x"]})
    study = ks.load_study("one", storage=url, outcomes=lambda design: {"m": design["gone"]})
    assert "gives outcomes of 0 of 128 designs spread over the space" in " ".join(study.notes())


def test_a_function_that_no_longer_works_gives_way_to_what_was_stored(url):
    study = computed(url)
    answered(study, 6)
    later = ks.load_study("pid", storage=url, outcomes=closure(simulators.raising))
    assert "no longer works: the model goes by those that were stored" in " ".join(later.notes())
    assert model_outcomes.given(later.definition, later.history).way == "predicted" and later.ask().origin == "model"


def test_what_was_measured_of_a_design_stands_beside_what_is_computed(url):
    study = computed(url)
    design = {"kp": 1.0, "ki": 0.5}
    study.record(design, {"overshoot": 9.0})
    assert study.outcomes(design) == simulate(design) | {"overshoot": 9.0}


def test_limits_that_cannot_be_computed_are_named(url):
    computed(url, limits=[ks.AtMost("overshoot", 0.3)])
    assert "their limits are kept as far as those tell" in " ".join(ks.load_study("pid", storage=url).notes())
