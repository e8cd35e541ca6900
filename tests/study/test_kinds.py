"""Questions that carry more: what may be asked, what may be answered, and that the same events give the same."""

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import kappasharp as ks
from kappasharp.errors import InvalidTypeError, InvalidValueError, KappaSharpError, StalePairError
from kappasharp.exchange import study_json, study_toml
from kappasharp.findings import best, diagnosis
from kappasharp.inference import comparisons
from kappasharp.inference.evidence import model_from
from kappasharp.journal import events
from kappasharp.journal.history import History
from kappasharp.journal.question import Pair, StudyQuestion
from kappasharp.model import fit, open_questions
from kappasharp.planning import next_question, start
from kappasharp.questions import kind as questions_kind
from kappasharp.questions.comparisons import beside, best_of
from kappasharp.questions.kind import Form, Kind
from kappasharp.store.storage import Storage
from tests.study import answered

SPACE = {"x": (0.0, 1.0), "y": ks.Float(0.01, 10.0, log=True), "n": ks.Int(1, 5), "mode": ["soft", "hard"]}
TWO = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
FORMS = ["choice:3", "choice:4", "order:4", "slider:2", "slider:4", "rating"]


def like(design):
    wish = -((design["x"] - 0.6) ** 2) - (math.log10(float(design["y"]) + 1e-3) + 0.5) ** 2 / 9
    return wish - 0.3 * (design.get("mode") == "hard") - 0.1 * abs(design.get("n", 3) - 3)


def answer(question):
    """What a person of that taste says."""
    felt = [like(design) for design in question.designs]
    order = sorted(range(len(felt)), key=lambda i: -felt[i])
    match question.kind:
        case "pair":
            return "a" if felt[0] > felt[1] else "b"
        case "choice":
            return order[0]
        case "order":
            return [order[0], order[1:3], *order[3:]]
        case "slider":
            return max((i / 20 for i in range(21)), key=lambda place: like(question.at(place)))
    return round(max(-3, min(3, 5 * (felt[0] - felt[1]))))


def made(question="pair", count=8, space=SPACE, **more):
    study = ks.create_study(space, storage="sqlite://", question=question, **more)
    for _ in range(count):
        answered.answer(study, answer)
    return study


class TestNames:
    def test_a_name_gives_a_form(self):
        assert questions_kind.parse("pair") == Form() and questions_kind.parse("order") == Form(Kind.ORDER, 4)
        assert questions_kind.parse("choice:9") == Form(Kind.CHOICE, 9) == questions_kind.parse("choice", 9)
        assert questions_kind.parse("slider") == Form(Kind.SLIDER, 4) and questions_kind.parse("slider", 2) == Form(
            Kind.SLIDER
        )
        assert [str(questions_kind.parse(name)) for name in ("pair", "slider:2", "slider", "rating", "order:4")] == [
            "pair", "slider:2", "slider:4", "rating", "order:4",
        ]  # fmt: skip

    @pytest.mark.parametrize("wrong", ["oder", "order:x", "order:", "pair:2", "rating:2", "", "order:-4", "order: 4"])
    def test_another_is_refused_with_the_list(self, wrong):
        with pytest.raises(InvalidValueError, match="'pair', 'choice', 'order', 'slider' or 'rating'"):
            questions_kind.parse(wrong)
        with pytest.raises(InvalidValueError, match="`question`"):
            ks.create_study(SPACE, storage="sqlite://", question=wrong)

    @pytest.mark.parametrize("wrong", [None, 4, ["order"], True])
    def test_what_is_no_text(self, wrong):
        with pytest.raises(InvalidTypeError, match="'slider'"):
            questions_kind.parse(wrong)

    @pytest.mark.parametrize("wrong", ["choice:2", "order:10", "order:99999999999999999999", "choice:0"])
    def test_too_few_and_too_many_designs(self, wrong):
        with pytest.raises(InvalidValueError, match="3 to 9 designs"):
            questions_kind.parse(wrong)

    def test_what_a_study_cannot_ask(self):
        study = made(count=0)
        for wish, words in (
            ({"kind": "order", "designs": 2}, "3 to 9"),
            ({"kind": "order:4", "designs": 5}, "must be 4"),
            ({"kind": "slider", "designs": 7}, "2 to 6"),
            ({"kind": "slider:4", "designs": 3}, "must be 4"),
            ({"kind": "rating", "designs": 3}, "must be 2"),
            ({"designs": 3}, "must be 2"),
            ({"kind": "order", "designs": True}, "whole number"),
            ({"kind": "guess"}, "`kind` must be"),
        ):
            with pytest.raises(KappaSharpError, match=words):
                study.ask(**wish)
        assert study.history.number == 0

    def test_how_many_designs_a_line_goes_through(self):
        study = made(count=0)
        for count in (2, 3, 6):
            asked = study.ask(kind="slider", designs=count)
            assert asked.form == Form(Kind.SLIDER, count) and len(asked.designs) == count
            assert [asked.at(number / (count - 1)) for number in range(count)] == asked.designs
            again = study.ask(kind=f"slider:{count}")
            assert again.number == asked.number
            study.tell(asked, 0.4)
            assert study.history.counted()[-1].form == asked.form
        with pytest.raises(InvalidValueError, match="2 to 6 designs, but got 1"):
            study.ask(kind="slider", designs=1)
        own = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://")
        own.enqueue({"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 0.0}, {"x": 1.0, "y": 1.0}, kind="slider")
        asked = own.ask()
        assert asked.at(0.25) == {"x": 0.5, "y": 0.0} and asked.at(0.75) == {"x": 1.0, "y": 0.5}

    @pytest.mark.parametrize("form", ["slider:2", "slider:4"])
    def test_a_line_that_was_skipped_is_not_asked_again(self, form):
        study = made(form, 6)
        seen = []
        for voter in ("me", "me", "anna"):
            seen.append(study.ask(voter).designs)
            study.tell(study.ask(voter), "skip")
        assert seen[0] != seen[1] != seen[2] != seen[0]

    def test_a_space_without_a_line_and_one_with_too_few_designs(self):
        small = {"n": ks.Int(1, 2), "mode": ["soft", "hard"]}
        with pytest.raises(InvalidValueError, match="continuous"):
            ks.create_study(small, storage="sqlite://", question="slider")
        with pytest.raises(InvalidValueError, match="has only 4"):
            ks.create_study(small, storage="sqlite://", question="choice:5")
        study = ks.create_study(small, storage="sqlite://", question="choice:4")
        assert len({json.dumps(design) for design in study.ask().designs}) == 4
        with pytest.raises(InvalidValueError, match="continuous"):
            study.ask(kind="slider")
        coarse = ks.create_study({"x": ks.Float(0, 1, jnd=0.4)}, storage="sqlite://", question="order:9")
        with pytest.raises(InvalidValueError, match="told apart"):
            coarse.ask()
        assert coarse.history.number == 0

    def test_a_method_that_corrects_asks_pairs_alone(self):
        with pytest.raises(InvalidValueError, match=r"need the method 'baseline'"):
            ks.create_study(SPACE, storage="sqlite://", question="order", method="static")
        with pytest.raises(InvalidValueError, match=r"need the method 'baseline'"):
            made(count=0, method="static").ask(kind="slider")

    @pytest.mark.parametrize("method", ["choice_4", "best_of_3", "timed", "people", "outcomes"])
    def test_what_is_asked_and_counts_is_said_beside_the_method(self, method):
        with pytest.raises(InvalidValueError, match=rf"asks pairs, but got '{method}'.*`tell_apart` and `outcomes`"):
            ks.create_study(SPACE, storage="sqlite://", method=method)


class TestAnswers:
    @pytest.mark.parametrize(
        ("form", "given", "stored"),
        [
            ("order:4", (2, (3, 0), 1), [2, [0, 3], 1]),
            ("order:4", [[2], 0], [2, 0]),
            ("order:4", [np.int64(1)], [1]),
            ("slider", 1, 1.0),
            ("slider", np.float32(0.5), 0.5),
            ("choice:3", np.int64(2), 2),
            ("rating", -3, -3),
        ],
    )
    def test_are_stored_as_plain_data(self, form, given, stored):
        found = questions_kind.answer(questions_kind.parse(form), given)
        assert found == stored and json.loads(json.dumps(found)) == stored and type(found) is type(stored)

    @pytest.mark.parametrize(
        ("form", "wrong"),
        [
            *(("pair", one) for one in ("c", 0, 0.5, None, ["a"], [True])),
            *(("choice:4", one) for one in ("a", 4, -1, 1.0, True, None, [1], math.nan)),
            *(("order:4", one) for one in ([], [0, 0], [0, [1, 0]], [0, 4], [[]], 2, [0, "a"], [True], "tie", [0.0])),
            *(("slider", one) for one in (-0.1, 1.1, "a", True, [0.5], None, math.nan, math.inf)),
            *(("rating", one) for one in (4, -4, 0.5, "a", True, None, math.nan)),
        ],
    )
    def test_of_another_kind_store_nothing(self, form, wrong):
        study = made(form, 0)
        asked = study.ask()
        with pytest.raises(InvalidValueError, match="`answer`"):
            study.tell(asked, wrong)
        assert study.history.number == 1 and study.ask() == asked

    def test_the_same_again_is_acknowledged_and_another_refused(self):
        study = made("order:4", 0)
        asked = study.ask()
        first = study.tell(asked, [2, [3, 0]])
        assert study.tell(asked, (2, (0, 3))) == first and study.history.number == 2
        with pytest.raises(StalePairError, match="answered"):
            study.tell(asked, [0])

    def test_verdicts_are_all_that_an_order_says(self):
        order = questions_kind.parse("order:5")
        found = questions_kind.judgements(order, [2, [0, 3]])
        assert [tuple(one) for one in found if one.tie] == [(0, 3, True)]
        assert {(one.better, one.other) for one in found if not one.tie} == {
            (2, 0), (2, 3), (2, 1), (2, 4), (0, 1), (0, 4), (3, 1), (3, 4),
        }  # fmt: skip
        said = questions_kind.said(order, [2, [0, 3]])
        assert set(said.pairs) <= {(one.better, one.other) for one in found}
        assert (
            questions_kind.judgements(order, "skip") == [] and questions_kind.judgements(Form(Kind.SLIDER), 0.5) == []
        )


ORDERS = st.integers(3, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=n, max_size=n)))


@given(ORDERS)
def test_judgements_are_those_of_the_ranks(given_ranks):
    """Designs with a rank each; those of the last rank are not named."""
    n, ranks = given_ranks
    form = Form(Kind.ORDER, n)
    groups = [[i for i in range(n) if ranks[i] == rank] for rank in sorted(set(ranks) - {n})]
    if not groups:
        return
    stored = questions_kind.answer(form, groups)
    found = {frozenset((one.better, one.other)): one for one in questions_kind.judgements(form, stored)}
    for i in range(n):
        for j in range(i):
            one = found.get(frozenset((i, j)))
            if ranks[i] == ranks[j]:
                assert one is None if ranks[i] == n else one.tie
            else:
                assert not one.tie and ranks[one.better] < ranks[one.other]
    said = questions_kind.said(form, stored)
    assert len(said.pairs) == n - 1
    assert all(found[frozenset(pair)].tie == tie for pair, tie in zip(said.pairs, said.ties, strict=True))
    assert all(tie or found[frozenset(pair)][:2] == pair for pair, tie in zip(said.pairs, said.ties, strict=True))


class TestQuestions:
    def test_a_pair_is_what_it_was(self):
        study = made(count=7)
        pair = study.ask()
        assert type(pair) is Pair and isinstance(pair, StudyQuestion) and pair.kind == "pair"
        assert pair.designs == [pair.a, pair.b]
        body = study.plain()["events"][-1]["body"]
        assert list(body) == ["a", "b", "origin", "after", "memo"]
        assert "question" not in study.definition.plain() and study.plain()["version"] == 2

    @pytest.mark.parametrize("form", FORMS)
    def test_the_same_events_give_the_same_question(self, form):
        study, again = made(form, 6), made(form, 0)
        for question, _ in study.history.asked.values():
            asked = again.ask()
            assert asked.designs == question.designs
            again.tell(asked, answer(asked))
        assert study.propose() == again.propose()
        past = History(study.stored.uid, space=study.space)
        for one in study.storage.read(study.stored):
            if one.event.kind == "asked":
                assert next_question.next_question(study.definition, past) == one.event
            past.apply(one)

    @pytest.mark.parametrize("form", FORMS)
    def test_designs_can_be_told_apart_and_lie_in_the_space(self, form):
        study = made(form, 7)
        for question, _ in study.history.asked.values():
            assert str(question.form) == form
            assert all(study.space.check(design) == design for design in question.designs)
            found = question.designs
            if form == "slider:4":  # a line may come near to where it was before
                assert len({json.dumps(one) for one in found}) == 4 and not study.space.same(found[0], found[1])
                continue
            assert not any(study.space.same(a, b) for i, a in enumerate(found) for b in found[:i])
        origins = [event.origin for _, event in study.history.asked.values()]
        assert origins.count("start") == study.definition.first_pairs < len(origins)

    def test_a_line_is_straight_in_the_cube_and_goes_in_steps_through_numbers_and_choices(self):
        study = made("slider", 6)
        parts = []
        for count, (question, _) in enumerate(study.history.asked.values(), 1):
            assert [question.at(number / 3) for number in range(4)] == question.designs
            share, part = count / 7, count % 3
            first, second = question.designs[part : part + 2]
            between, expected = question.at((part + share) / 3), study.space.between(first, second, share)
            assert all(between[name] == pytest.approx(expected[name]) for name in ("x", "y"))
            parts.append(torch.tensor(question.points).diff(dim=0))
        cosines = [torch.nn.functional.cosine_similarity(one[0], one[1], dim=0) for one in parts]
        assert max(cosines) < 0.99, "it bends"
        study = made("slider:2", 6)
        for question, _ in study.history.asked.values():
            first, second = question.designs
            middle = question.at(0.5)
            assert middle["x"] == pytest.approx((first["x"] + second["x"]) / 2)
            assert middle["y"] == pytest.approx(math.sqrt(first["y"] * second["y"]))
            assert (question.at(0), question.at(1.0)) == (first, second)
            assert min(first["n"], second["n"]) <= middle["n"] <= max(first["n"], second["n"])
            assert middle["mode"] in (first["mode"], second["mode"])
            assert question.at(0.2)["mode"] == first["mode"] and question.at(0.8)["mode"] == second["mode"]
        with pytest.raises(InvalidValueError, match="from 0 to 1"):
            question.at(1.5)
        with pytest.raises(InvalidValueError, match="slider"):
            study.ask(kind="pair").at(0.5)
        with pytest.raises(InvalidValueError, match="is an order of 4"):
            study.ask(kind="order").at(0.5)

    def test_a_space_with_no_more_designs_than_a_gallery(self):
        study = made(
            "order:4", 6, {"n": ks.Int(1, 2), "mode": ["soft", "hard"], "x": ks.Fixed(0.5), "y": ks.Fixed(1.0)}
        )
        assert all(len({json.dumps(one) for one in asked.designs}) == 4 for asked, _ in study.history.asked.values())
        assert len(study.history.options) == 4 and study.best_params["mode"] == "soft"
        assert len({study.ask(voter).number for voter in ("anna", "ben")}) == 2

    @pytest.mark.parametrize("form", ["choice:4", "order:4", "rating"])
    def test_a_favourite_that_never_won_is_asked_about_at_once(self, form, monkeypatch):
        study = made(form, 6)
        options = range(len(study.history.options))
        apart = ((i, j) for i in options for j in options if {i, j} not in study.history.met() and i < j)
        doubted = next(pair for pair in apart if not study.space.same(*(study.history.options[i] for i in pair)))
        for module in (next_question, best):
            monkeypatch.setattr(module, "unproven_best", lambda model: doubted)
        assert "The next question asks about it" in str(study.best.advice)
        assert set(doubted) <= set(study.history.numbers(study.ask()))

    def test_another_kind_once_withdraws_what_is_open(self):
        study = made(count=6)
        pair = study.ask()
        order = study.ask(kind="order", designs=3)
        assert order.kind == "order" and len(order.designs) == 3
        assert study.ask() == order == study.ask(kind="order:3")
        with pytest.raises(StalePairError, match="withdrawn"):
            study.tell(pair, "a")
        study.tell(order, [1])
        assert study.ask().kind == "pair"

    def test_a_queue_waits_for_the_usual_kind(self):
        study = made("choice:3", 4)
        asked = study.ask()
        study.tell(asked, 1)
        study.ask_again(asked)
        assert study.ask(kind="slider").kind == "slider"
        study.tell(study.ask(), "skip")
        repeated = study.ask()
        assert repeated.origin == "again" and repeated.designs == asked.designs and repeated.form == asked.form
        study.tell(repeated, 1)
        assert study.ask().origin == "model"

    @pytest.mark.parametrize("how", ["another kind", "undo"])
    def test_what_gives_way_goes_on_waiting(self, how):
        """A question from the queue, or a duel, that its voter never answered: withdrawn, and asked later."""

        def give_way(study):
            if how == "undo":
                study.undo()
                study.tell(study.ask(), "a")
            else:
                study.tell(study.ask(kind="slider"), "skip")

        study = made(count=6, space=TWO)
        a, b = (dict.fromkeys(TWO, value) for value in (0.25, 0.75))
        study.enqueue(a, b)
        first = study.ask()
        assert first.origin == "queue"
        give_way(study)
        again = study.ask()
        assert again.origin == "queue" and again.designs == first.designs and again.number != first.number
        study.tell(again, "a")
        assert not study.history.queue and study.ask().origin == "model"
        study.tell(study.ask(), "a")
        study.settle(2)
        assert study.ask().origin == "settle" and study.history.settling == 1
        give_way(study)
        for left in (1, 0):
            duel = study.ask()
            assert (duel.origin, study.history.settling) == ("settle", left)
            study.tell(duel, "a")
        assert study.ask().origin == "model"

    def test_duels_that_were_ended_do_not_come_back(self):
        study = made(count=6, space=TWO)
        study.settle(2)
        study.ask()
        study.settle(0)
        study.tell(study.ask(kind="slider"), "skip")
        assert study.history.settling == 0 and study.ask().origin == "model"

    def test_a_favourite_that_gave_way_is_asked_about_later(self):
        favourite = dict.fromkeys(TWO, 0.125)
        study = ks.create_study(TWO, storage="sqlite://", favourites=[favourite])
        assert favourite in study.ask().designs
        study.tell(study.ask(kind="slider"), "skip")
        assert favourite in study.ask().designs

    def test_a_slider_has_one_zero(self):
        assert str(questions_kind.answer(Form(Kind.SLIDER), -0.0)) == str(questions_kind.place(-0.0)) == "0.0"

    def test_answers_without_end_are_told_in_a_sentence(self):
        study = made(count=1, space=TWO)
        order, deep = study.ask(kind="order", designs=3), 0
        for _ in range(100_000):
            deep = [deep]
        for endless in (deep, 10**5000, [[10**5000], 1]):
            with pytest.raises(InvalidValueError, match="must be a list of numbers from 0 to 2"):
                study.tell(order, endless)
        slider = study.ask(kind="slider")
        with pytest.raises(InvalidValueError, match="a whole number of 16610 bits"):
            slider.at(10**5000)

    def test_duels_stay_pairs_between_designs_that_were_seen(self):
        study = made("slider", 6)
        study.settle(3)
        chosen = set(range(len(study.history.options)))
        for _ in range(3):
            duel = study.ask()
            assert (duel.kind, duel.origin) == ("pair", "settle")
            assert set(study.history.numbers(duel)) <= chosen
            study.tell(duel, answer(duel))
        assert study.ask().kind == "slider"

    def test_duels_are_between_options_while_others_have_sliders_open(self):
        study = made("slider", 6, TWO)
        for voter in ("anna", "ben"):
            study.ask(voter)
        study.settle(2)
        duel = study.ask()
        assert duel.origin == "settle" and set(study.history.numbers(duel)) <= set(study.model().options)

    @pytest.mark.parametrize("form", FORMS)
    def test_two_voters_are_not_asked_the_same(self, form):
        study = made(form, 6)
        asked = [study.ask(voter) for voter in ("anna", "ben", "cleo")]
        sets = [frozenset(json.dumps(design) for design in one.designs) for one in asked]
        assert len(set(sets)) == 3
        for one in asked:
            study.tell(one, answer(one))
        assert set(study.diagnostics().voters) == {"me", "anna", "ben", "cleo"}


class TestModel:
    def test_pairs_have_no_detail(self):
        assert fit.gather(made().definition, made().history).answers.detail is None

    def test_a_choice_is_one_answer_whose_comparisons_share_noise(self):
        study = made("choice:4", 5)
        found = fit.gather(study.definition, study.history).answers
        assert found.pairs.shape == (1, 15, 2) and found.ties is None
        expected = torch.block_diag(*[comparisons.shared(best_of(4, 0).pairs)[1]] * 5)
        assert torch.allclose(found.detail.noise[0], expected)

    def test_points_that_nobody_saw_are_never_told_shown_or_counted(self, tmp_path):
        study = made("slider", 6, TWO)
        history, model = study.history, study.model()
        assert len(history.options) == len(model.options) == 6 == study.diagnostics().n_options
        assert model.state.points.shape[1] == 6 * (1 + beside(4).others)
        assert fit.leading(model) < 6 > fit.favourite(model)
        assert study.best.option in range(6) and len(study.rows("options")) == 6
        assert all(row["wins"] == 1 and row["utility"] is not None for row in study.rows("options"))
        assert len(best.groups(model)) == 6 and study.diagnostics().rank == 0
        past = diagnosis.past_models(study.definition, history)[-1]
        assert past.options == model.options and len(past.utility) == 6 and math.isnan(past.condition)
        for voter in ("anna", "ben"):
            study.ask(voter)
        assert len(study.history.options) == 6
        imagined = open_questions.with_open_questions(study.definition, study.history, model)
        assert imagined.options == model.options and imagined.state.points.shape[1] == 8 * (1 + beside(4).others)

    def test_a_slider_chosen_design_is_that_of_its_place(self):
        study = made("slider", 1)
        asked = study.history.asked[1][0]
        (option,) = study.history.comparisons[2].options
        assert study.history.options[option] == asked.at(study.history.comparisons[2].answer)
        study.amend(2, 0.25)
        (other,) = study.history.comparisons[2].options
        assert study.history.options[other] == asked.at(0.25) and study.model().options == [other]
        study.amend(2, "skip")
        assert study.history.counted() == [] and study.history.comparisons[2].options == ()

    def test_ties_in_an_order_and_ratings_learn_a_threshold(self):
        assert made("order:4", 5).diagnostics().tie_threshold > 0.0
        assert made("rating", 6).diagnostics().tie_threshold > 0.0
        assert made("choice:4", 5).diagnostics().tie_threshold == 0.0

    def test_coins_are_told_from_taste_where_noise_is_shared(self):
        """By hand for one choice of three: without a taste each of the three has the same chance."""
        study = made("choice:3", 1, TWO, first_pairs=1)
        model = study.model()
        fit, preset = model.learnt.fit, model_from(model.state.preset)
        evidence = fit.hyper.value - preset.priors.log_density(fit.hyper.theta)
        by_hand = torch.sigmoid(-math.log(3.0) - evidence - math.log(best.TASTES))
        assert best.without_taste(model) == pytest.approx(float(by_hand), abs=0.01)
        assert best.without_taste(made("order:4", 12, TWO).model()) < 0.05

    @pytest.mark.parametrize("form", ["choice:4", "order:4", "slider", "rating"])
    def test_it_finds_what_is_liked(self, form):
        study = made(form, 10, TWO)
        everywhere = [like(one) for one in start.sobol(study.definition, 0, 512)]
        assert sum(like(study.best_params) > one for one in everywhere) > 0.85 * len(everywhere)
        assert study.best.status == "ok"

    def test_what_is_said_in_words(self):
        found = made("order:4", 6).diagnostics()
        assert found.condition_number is None and found.effective_dof is None
        assert "share noise" in str(found) and "None" not in str(found)


class TestExchange:
    def mixed(self, usual="choice:4"):
        study = made(usual, 5)
        for kind in ("pair", "choice", "order", "slider", "rating"):
            asked = study.ask(voter="anna", kind=kind)
            study.tell(asked, answer(asked), seconds=2.5)
        study.undo("anna")
        study.tell(study.ask("anna"), "skip")
        slider = next(one.event for one in study.history.comparisons.values() if one.kind == "slider")
        study.amend(slider, 0.125)
        study.ask_again(next(number for number, (one, _) in study.history.asked.items() if one.kind == "order"))
        study.ask("anna", kind="slider")
        study.ask("anna", kind="order", designs=3)
        study.ask("ben")
        return study

    @pytest.mark.parametrize("form", ["mixed", *FORMS])
    def test_all_of_it_goes_out_and_comes_back(self, form, tmp_path):
        study = self.mixed("pair") if form == "mixed" else made(form, 6)
        again = ks.import_json(study.export(tmp_path / "s.json"), storage="sqlite://")
        assert again.plain()["events"] == study.plain()["events"]
        assert again.definition.plain() == study.definition.plain()
        assert again.plain()["version"] == 3
        assert again.best == study.best
        assert again.propose() == study.propose() and again.ask("anna").designs == study.ask("anna").designs

    def test_rows_are_flat(self, tmp_path):
        study = self.mixed()
        rows = study.rows("comparisons")
        assert all(list(row) == list(rows[0]) for row in rows)
        assert [row["kind"] for row in rows] == ["choice"] * 5 + ["pair", "choice", "order", "slider", "rating"]
        by_kind = {row["kind"]: row for row in rows}
        assert by_kind["order"]["answer"].count(">") == 2 and "=" in by_kind["order"]["answer"]
        slider = by_kind["slider"]
        assert (slider["answer"], slider["a"], slider["amended"]) == (0.125, None, True)
        assert slider["a_params_x"] is not None and slider["d_params_x"] is not None and slider["d"] is None
        assert by_kind["pair"]["c"] is None and by_kind["choice"]["first"] in range(99)
        path = study.export(tmp_path / "s.csv")
        with path.open(newline="") as file:
            read = list(csv.DictReader(file))
        assert [row["answer"] for row in read] == [str(row["answer"]) for row in rows]
        pandas = pytest.importorskip("pandas")
        table = pandas.read_parquet(study.export(tmp_path / "s.parquet"))
        assert list(table["answer"]) == [str(row["answer"]) for row in rows]
        assert len(study.comparisons_dataframe()) == len(rows)

    def test_pairs_have_the_columns_that_they_had(self):
        names = list(made(count=3, space={"x": (0.0, 1.0), "y": (1.0, 2.0)}).rows("comparisons")[0])
        assert names == [
            "event", "pair", "time", "voter", "answer", "seconds", "amended", "a", "b",
            "a_params_x", "a_params_y", "b_params_x", "b_params_y",
        ]  # fmt: skip

    CHANGES = {  # noqa: RUF012
        "a kind that there is not": lambda asked, told: asked.update(question="guess"),
        "a kind of another size": lambda asked, told: asked["more"].clear(),
        "a kind with its size": lambda asked, told: asked.update(question="order:4"),
        "no list of designs": lambda asked, told: asked.update(more={}),
        "a design twice": lambda asked, told: asked["more"].__setitem__(0, asked["a"]),
        "a design outside": lambda asked, told: asked["more"][0].update(x=7.0),
        "a design with a gap": lambda asked, told: asked["more"][0].pop("x"),
        "too many designs": lambda asked, told: asked["more"].extend(asked["more"] * 9),
        "an answer of a pair": lambda asked, told: told.update(answer="a"),
        "an answer out of range": lambda asked, told: told.update(answer=[4]),
        "an answer twice": lambda asked, told: told.update(answer=[1, [2, 1]]),
        "a truth": lambda asked, told: told.update(answer=True),
        "a slider put in order": lambda asked, told: asked.update(question="slider"),
    }

    @pytest.mark.parametrize("name", CHANGES)
    def test_what_no_study_could_have_stored_is_refused(self, name, tmp_path):
        data = made("order:4", 2).plain()
        self.CHANGES[name](data["events"][0]["body"], data["events"][1]["body"])
        (tmp_path / "s.json").write_text(json.dumps(study_json.sealed(data)))
        storage = Storage("sqlite://")
        with pytest.raises(KappaSharpError, match=r"cannot be read as a study.*Nothing was stored"):
            ks.import_json(tmp_path / "s.json", storage=storage)
        assert storage.studies() == []

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda asked, told: told.update(answer=1.5), "from 0 to 1"),
            (lambda asked, told: told.update(answer="tie"), "from 0 to 1"),
        ],
    )
    def test_a_place_off_the_line_is_refused(self, change, words, tmp_path):
        data = made("slider", 2).plain()
        change(data["events"][0]["body"], data["events"][1]["body"])
        (tmp_path / "s.json").write_text(json.dumps(study_json.sealed(data)))
        with pytest.raises(KappaSharpError, match=words):
            ks.import_json(tmp_path / "s.json", storage="sqlite://")

    def test_a_kind_of_a_later_version_is_told_as_such(self):
        study = made("order:4", 1)
        body = events.body(study.propose()) | {"question": "pie"}
        with pytest.raises(KeyError, match="pie"):
            events.read("asked", body)

    def test_a_stored_study_of_pairs_asks_other_kinds(self, storage):
        study = ks.create_study(TWO, storage=storage, study_name="old")
        for _ in range(6):
            pair = study.ask()
            study.tell(pair, answer(pair))
        again = ks.load_study("old", storage=storage)
        for kind in ("slider", "order"):
            asked = again.ask(kind=kind)
            again.tell(asked, answer(asked))
        third = ks.load_study("old", storage=storage)
        assert third.best == again.best and [one.kind for one in third.history.counted()][-2:] == ["slider", "order"]
        assert third.ask().kind == "pair"


def test_a_study_file_says_what_is_asked(tmp_path):
    path = Path(tmp_path / "tea.toml")
    path.write_text('question = "order:3"\n[parameters]\nx = {low = 0.0, high = 1.0}\n')
    given = study_toml.read(path)
    assert given.options == {"question": "order:3"}
    assert ks.create_study(given.space, storage="sqlite://", **given.options).ask().form == Form(Kind.ORDER, 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "space",
    [
        {"x": ks.Float(0.0, 1.0, jnd=0.16)},
        {"x": ks.Float(0.0, 1.0, jnd=0.5), "y": ks.Float(0.0, 1.0, jnd=0.45)},
        {"x": ks.Float(0.0, 1.0, jnd=0.9), "n": ks.Int(0, 2)},
    ],
)
def test_as_many_designs_are_found_as_can_be_told_apart(space, seed):
    """Six fit in, if none of them lies badly: a Sobol design in the middle may leave no room for the others."""
    study = ks.create_study(space, question="order:6", storage="sqlite://", seed=seed)
    question = study.ask()
    pairs = itertools.combinations(question.designs, 2)
    assert not any(study.definition.space.same(one, other) for one, other in pairs)
    assert len(question.designs) == 6
