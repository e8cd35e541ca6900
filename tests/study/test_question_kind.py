"""What the model asks: as Algorithm 1 has it, more quickly where many wait; of which kind, at the study's own pace."""

import math

import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import maximize
from kappasharp.errors import InvalidValueError
from kappasharp.model import fit
from kappasharp.planning import question_kind
from kappasharp.questions.kind import Form, Kind
from kappasharp.settings import MAXIMIZERS

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0.0, 1.0)}
CHOICE = Form(Kind.CHOICE, 4)


def nearer(pair):
    worth = [-sum((value - 0.4) ** 2 for value in design.values()) for design in (pair.a, pair.b)]
    return "a" if worth[0] > worth[1] else "b"


def crowd(voters, answers, **more):
    study = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://", **more)
    for turn in range(answers):
        pair = study.ask(f"voter {turn % voters}")
        study.tell(pair, nearer(pair))
    return study


@pytest.mark.parametrize(("voters", "quick"), [(1, False), (4, False), (5, True)])
def test_only_where_many_answer_is_a_pair_searched_for_quickly(voters, quick, monkeypatch):
    study, used, search = crowd(voters, 20), [], maximize.propose
    monkeypatch.setattr(maximize, "propose", lambda *given: (used.append(given[1]), search(*given))[1])
    study.ask("voter 0")
    assert used == [MAXIMIZERS["quick" if quick else "default"]]


def test_a_quick_search_finds_nearly_the_same_eubo():
    study = crowd(5, 24)
    model = study.model()
    quick, usual = (way(model.state, model.learnt) for way in (question_kind.quickly, question_kind.usually))
    base = float(model.surrogate.utility.max())
    assert float(quick.acquisition) - base > 0.95 * (float(usual.acquisition) - base)
    assert quick.status == usual.status == "ok" and quick.hints.shape == usual.hints.shape


def test_what_holds_a_design_is_searched_for_as_usual():
    study = crowd(5, 10, method="ep_ei")
    model = study.model()
    one, other = (way(model.state, model.learnt) for way in (question_kind.quickly, question_kind.usually))
    assert torch.equal(one.question.points, other.question.points) and bool((one.question.known[:, 1] >= 0).all())


def test_many_voters_start_from_the_priors_mode_once_in_a_while():
    study = crowd(5, 20)
    history = study.history
    at = {n: fit._is_cold(history, {"answers": n - 5}, n) for n in (20, 63, 64, 66, 70, 130)}
    assert at == {20: False, 63: False, 64: True, 66: True, 70: False, 130: True}
    # One alone: at every answer of the first hundred, then whenever there are two in a hundred more.
    alone = crowd(1, 6).history
    assert [fit._is_cold(alone, {"answers": n - 1}, n) for n in (63, 64, 150, 151)] == [True, True, True, False]


def test_the_same_events_give_many_voters_the_same_pairs(tmp_path):
    """Whether the study was there all the time or was read again."""
    study = crowd(6, 30)
    for voter in range(3):
        study.ask(f"voter {voter}")
    study.export(tmp_path / "s.json")
    again = ks.import_json(tmp_path / "s.json", storage="sqlite://")
    assert study.propose() == again.propose()


def worth(design):
    return -sum((value - 0.3) ** 2 for value in design.values())


def answer(question):
    """A consistent person's answer to a question of any kind."""
    if question.kind == "slider":
        return max((i / 20 for i in range(21)), key=lambda place: worth(question.at(place)))
    best = max(range(len(question.designs)), key=lambda i: worth(question.designs[i]))
    return "ab"[best] if question.kind == "pair" else best


def answered(questions, seconds, **options):
    study = ks.create_study(SPACE, storage="sqlite://", seed=1, **options)
    for _ in range(questions):
        question = study.ask()
        study.tell(question, answer(question), seconds=seconds.get(question.kind))
    return study


def test_the_pace_begins_with_what_is_usual_and_follows_the_answers():
    study = answered(6, {"choice": 30.0}, question="choice:4")
    slower = math.log(30.0 / 6.0)
    all_forms = 6 * slower / 9
    assert question_kind.seconds(study.history, CHOICE) == pytest.approx(
        6.0 * math.exp((3 * all_forms + 6 * slower) / 9)
    )
    # Somebody who is slow with galleries is expected to be slow with pairs.
    assert question_kind.seconds(study.history, Form()) == pytest.approx(4.0 * math.exp(all_forms))
    nobody = ks.create_study(SPACE, storage="sqlite://").history
    assert question_kind.seconds(nobody, Form()) == pytest.approx(4.0)


def test_a_break_counts_once_and_not_whole():
    seconds = iter([6.0] * 5 + [7200.0])
    study = ks.create_study(SPACE, storage="sqlite://", question="choice:4")
    for _ in range(6):
        question = study.ask()
        study.tell(question, answer(question), seconds=next(seconds))
    assert question_kind.seconds(study.history, CHOICE) < 11.0


def test_without_seconds_the_moments_count():
    study = ks.create_study(SPACE, storage="sqlite://")
    study.tell(study.ask(), "a")
    (one,) = study.history.counted()
    assert one.seconds is None
    assert 0.0 < one.took < 60.0


def test_more_designs_take_longer():
    assert question_kind.usual(Form(Kind.CHOICE, 8)) == 2.0 * question_kind.usual(CHOICE)
    assert question_kind.usual(Form(Kind.ORDER, 4)) > question_kind.usual(CHOICE) > question_kind.usual(Form())


def test_auto_begins_with_galleries_and_asks_what_is_quick_for_its_gain():
    study = answered(5, {"choice": 5.0}, question="auto")
    assert {one.form for one in study.history.counted()[:4]} == {CHOICE}
    quick = answered(12, {"choice": 45.0, "slider": 75.0, "pair": 0.6}, question="auto")
    assert quick.ask().kind == "pair"
    slow_pairs = answered(12, {"choice": 1.0, "slider": 75.0, "pair": 30.0}, question="auto")
    assert slow_pairs.ask().kind == "choice"


def test_the_same_events_give_the_same_kind():
    one, other = (answered(8, {"choice": 5.0, "pair": 4.0, "slider": 9.0}, question="auto") for _ in range(2))
    assert [str(c.form) for c in one.history.counted()] == [str(c.form) for c in other.history.counted()]
    assert one.ask().designs == other.ask().designs


def test_auto_survives_a_reopening_and_an_export(tmp_path):
    url = f"sqlite:///{tmp_path / 'auto.db'}"
    study = ks.create_study(SPACE, study_name="auto", storage=url, question="auto")
    study.tell(study.ask(), 1)
    again = ks.load_study("auto", storage=url)
    assert again.definition.is_auto
    assert again.definition.question == "auto"
    assert again.ask().kind == "choice"


def test_auto_in_a_space_without_lines_or_galleries():
    study = ks.create_study({"c": ["a", "b", "c"]}, storage="sqlite://", question="auto")
    assert study.ask().kind == "pair"
    lattice = ks.create_study({"n": ks.Int(1, 40), "c": ["a", "b", "c"]}, storage="sqlite://", question="auto")
    for _ in range(6):
        question = lattice.ask()
        assert question.kind in ("pair", "choice")
        lattice.tell(question, "a" if question.kind == "pair" else 0)


def test_auto_asks_pairs_where_no_gallery_can_be_told_apart():
    study = ks.create_study({"x": ks.Float(0.0, 1.0, jnd=0.5)}, storage="sqlite://", question="auto")
    assert study.ask().kind == "pair"


def test_a_method_of_another_kind_is_not_a_studys():
    for method in ("slider", "rating", "order_4", "timed"):
        with pytest.raises(InvalidValueError, match="`question`"):
            ks.create_study(SPACE, storage="sqlite://", method=method)


def test_auto_is_for_the_plain_method_and_named_where_kinds_are():
    with pytest.raises(InvalidValueError, match="need the method 'baseline'"):
        ks.create_study(SPACE, storage="sqlite://", method="static", question="auto")
    with pytest.raises(InvalidValueError, match="'auto'"):
        ks.create_study(SPACE, storage="sqlite://", question="triple")


def test_seconds_are_a_studys_choice_and_each_voters_own():
    study = ks.create_study(SPACE, storage="sqlite://", use_seconds=True)
    for number in range(14):
        question = study.ask(voter="ann" if number % 2 else "bob")
        clear = abs(worth(question.a) - worth(question.b))
        study.tell(question, answer(question), seconds=2.0 / (0.2 + clear) if number % 2 else 5.0)
    assert study.definition.method.use_seconds
    state = study.model().state
    assert state.seconds.shape == (1, 14) and bool(state.seconds.isfinite().all())
    assert state.voters.tolist() == [0, 1] * 7
    with pytest.raises(InvalidValueError, match="needs the method 'baseline'"):
        ks.create_study(SPACE, storage="sqlite://", method="static", use_seconds=True)
