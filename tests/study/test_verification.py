"""A study that is settled, and a best design that has always won something."""

import math
import random

import pytest

import kappasharp as ks
from kappasharp.errors import InvalidTypeError, InvalidValueError
from kappasharp.findings import best
from kappasharp.model import fit
from tests.study import answered

SPACES = (
    {"kp": (0.2, 3.0), "ki": ks.Float(1e-3, 2.0, log=True), "mode": ["soft", "hard"]},
    {f"x{i}": (0.0, 1.0) for i in range(4)},
    {f"x{i}": (0.0, 1.0) for i in range(4)} | {"n": ks.Int(1, 9), "c": ["a", "b", "c"]},
)


def person(space, seed):
    """A consistent person with a favourite design."""
    chance = random.Random(seed)
    favourite = space.encode(space.draw([chance.random() for _ in space.tuned]))
    weights = [chance.uniform(0.2, 1.0) for _ in favourite]

    def worth(design):
        rows = zip(weights, space.encode(design), favourite, strict=True)
        return -sum(weight * (x - y) ** 2 for weight, x, y in rows)

    return worth


def answer(study, worth):
    pair = study.ask()
    study.tell(pair, "a" if worth(pair.a) > worth(pair.b) else "b")
    return pair


@pytest.mark.parametrize("space", SPACES, ids=["readme", "four", "mixed"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_consistent_person_is_never_given_up(space, seed):
    """`python -m benchmarks.from_zero people` does it with two hundred."""
    study = ks.create_study(space, storage="sqlite://", seed=seed)
    worth, before = person(study.space, seed), None
    for number in range(14):
        answer(study, worth)
        if number < 4:
            continue
        best = study.best
        assert best.option in {one.ordered[0] for one in study.history.counted()}
        assert before is None or best.beats_random > before - 0.2
        before = best.beats_random


def test_readmes_example_ends_near_its_taste():
    for seed in range(3):
        study = ks.create_study(SPACES[0], storage="sqlite://", seed=seed)
        for _ in range(12):
            answer(study, lambda design: -abs(design["kp"] - 1.2))
        assert abs(study.best.params["kp"] - 1.2) < 0.25
        assert study.best_params == study.best.params


def test_the_quickstarts_example_ends_near_its_taste():
    space = {"gain": (0.1, 10.0), "integral": (0.0, 2.0), "filter": ["none", "fast", "slow"]}
    for seed in range(2):
        study = ks.create_study(space, storage="sqlite://", seed=seed)
        for _ in range(15):
            answer(study, lambda design: -abs(design["gain"] - 6.0) - 3.0 * (design["filter"] != "none"))
        assert abs(study.best.params["gain"] - 6.0) < 1.0 and study.best.params["filter"] == "none"


def settled(count=8, **options):
    study = ks.create_study(SPACES[1], **({"storage": "sqlite://"} | options))
    worth = person(study.space, 3)
    for _ in range(count):
        answered.answer(study, lambda pair: "a" if worth(pair.a) > worth(pair.b) else "b")
    return study, worth


def test_settling_asks_duels_between_designs_seen_and_then_goes_on():
    study, worth = settled()
    study.settle(2)
    seen = len(study.history.options)
    for left in (1, 0):
        told = study.best.params
        pair = answer(study, worth)
        assert pair.origin == "settle" and told in (pair.a, pair.b)
        assert study.history.settling == left
    assert len(study.history.options) == seen
    assert study.ask().origin == "model"


def test_the_advice_says_that_it_is_settled_until_the_next_answer():
    study, worth = settled(6)
    study.settle(2)
    told = []
    for _ in range(3):
        told.append(str(study.best.advice))
        answer(study, worth)
    assert all(one.startswith("Go on: ") for one in told[:2])
    assert told[2].startswith("Settled among the designs that you have seen: ") and " of the way up is left." in told[2]
    assert study.best.advice.sentence.startswith("Go on: ")


def test_what_was_not_answered_or_ended_early_is_not_settled():
    study, worth = settled(6)
    study.settle(1)
    study.tell(study.ask(), "skip")
    assert study.best.advice.sentence.startswith("Go on: ")
    study.settle(2)
    answer(study, worth)
    study.ask()
    assert study.best.advice.sentence.startswith("Go on: ")
    study.settle(0)
    assert study.best.advice.sentence.startswith("Go on: ")


def test_a_duel_that_nobody_answered_has_settled_nothing():
    study, worth = settled(6)
    study.settle(2)
    study.ask()
    study.settle(0)
    assert "would settle it" in best._to_settle(study.history)
    study.settle(1)
    answer(study, worth)  # the duel that is open still
    answer(study, worth)
    assert "was settled" in best._to_settle(study.history)


def best_first(question, worth):
    """A consistent person's answer to a question of any of these kinds."""
    felt = [worth(design) for design in question.designs]
    order = sorted(range(len(felt)), key=lambda i: -felt[i])
    return {"pair": "abcdefghi"[order[0]], "choice": order[0], "order": order}[question.kind]


@pytest.mark.parametrize("form", ["choice:9", "order:4"])
def test_galleries_of_designs_seen_settle_it_too(form):
    """Every one shows the design told, others each time, and afterwards the best of all that were seen is told."""
    study, worth = settled()
    seen, shown = len(study.history.options), []
    study.settle(2, question=form)
    for left in (1, 0):
        told = study.best.params
        question = study.ask()
        assert (question.origin, f"{question.kind}:{len(question.designs)}") == ("settle", form)
        assert told in question.designs and study.history.settling == left
        shown.append({study.history.option(design) for design in question.designs})
        study.tell(question, best_first(question, worth))
    assert len(shown[0] & shown[1]) < len(shown[0])
    assert len(study.history.options) == seen and study.ask().origin == "model"
    assert study.best.params == max((study.history.options[i] for i in set.union(*shown)), key=worth)


def test_a_gallery_is_no_larger_than_what_was_seen_and_none_comes_twice():
    study, worth = settled(2, first_pairs=2)
    study.settle(2, question="choice:9")
    shown = []
    for _ in range(2):
        question = study.ask()
        shown.append({study.history.option(design) for design in question.designs})
        study.tell(question, best_first(question, worth))
    assert shown[0] == {0, 1, 2, 3} and len(shown[1]) == 3
    assert len(study.history.options) == 4


def test_a_gallery_shows_what_is_open_alone():
    study, _ = settled()
    study.narrow("x0", high=0.6)
    study.settle(1, question="choice:9")
    question = study.ask()
    assert question.origin == "settle" and all(design["x0"] <= 0.6 for design in question.designs)


def test_a_gallery_survives_a_restart_an_export_and_undo(tmp_path):
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    study, _ = settled(study_name="kept", storage=url)
    study.settle(3, question="choice:6")
    again = ks.load_study("kept", storage=url)
    question = again.ask()
    assert question.kind == "choice" and len(question.designs) == 6
    copy = ks.import_json(again.export(tmp_path / "study.json"), storage="sqlite://", study_name="copy")
    assert copy.ask().designs == question.designs
    copy.tell(copy.ask(), 0)
    copy.undo()
    assert (copy.ask().designs, copy.history.settling) == (question.designs, 2)


def test_a_duel_is_the_same_after_a_restart_and_survives_export(tmp_path):
    study, _ = settled()
    study.settle()
    pair = study.ask()
    copy = ks.import_json(study.export(tmp_path / "study.json"), storage="sqlite://", study_name="copy")
    assert (copy.ask().a, copy.ask().b, copy.ask().origin) == (pair.a, pair.b, "settle")
    assert copy.history.settling == study.history.settling == 4


def test_none_ends_it():
    study, _ = settled()
    study.settle(3)
    study.settle(0)
    assert study.ask().origin == "model"


def test_what_cannot_be_settled_is_refused():
    study = ks.create_study(SPACES[1], storage="sqlite://")
    with pytest.raises(InvalidValueError, match="nothing to settle"):
        study.settle()
    for wrong, error in (
        (-1, InvalidValueError),
        (101, InvalidValueError),
        (2.5, InvalidTypeError),
        (True, InvalidTypeError),
    ):
        with pytest.raises(error, match="duels"):
            study.settle(wrong)
    for wrong, error, words in (
        ("slider", InvalidValueError, "to settle"),
        ("rating", InvalidValueError, "to settle"),
        ("choice:10", InvalidValueError, "3 to 9 designs"),
        ("podium", InvalidValueError, "must be 'pair'"),
        (9, InvalidTypeError, "must be 'pair'"),
    ):
        with pytest.raises(error, match=words):
            study.settle(question=wrong)
    corrected = ks.create_study(SPACES[1], storage="sqlite://", method="adaptive")
    with pytest.raises(InvalidValueError, match="need the method 'baseline'"):
        corrected.settle(question="choice:9")


def test_a_best_that_never_won_is_asked_about_next(monkeypatch):
    study, _ = settled()
    model = study.model()
    losers = {one.ordered[1] for one in study.history.counted()} - {one.ordered[0] for one in study.history.counted()}
    place = model.options.index(min(losers))
    utility = model.surrogate.utility.clone()
    utility[place] = math.inf
    monkeypatch.setattr(type(model.surrogate), "utility", property(lambda _: utility))
    doubted, told = fit.unproven_best(model)
    assert doubted == min(losers) and study.best.option == told
    for chance, words in ((0.49, "with a chance of 51%), but it has won no comparison yet"), (0.5, "comes nearest")):
        monkeypatch.setattr(best, "predicted", lambda *_, chance=chance: chance)
        why = best.sentences(study.definition, study.history, model, told)[-2]
        assert f"design {doubted} " in why and words in why
    if frozenset((doubted, told)) not in study.history.met():
        assert f"option {doubted} to be better still" in study.best.advice.sentence
        pair = study.ask()
        assert {study.history.option(pair.a), study.history.option(pair.b)} == {doubted, told}
