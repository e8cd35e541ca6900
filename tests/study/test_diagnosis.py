"""What a study says of itself: numbers against the model's own, hand-made contradictions, words for each."""

import math
from dataclasses import replace

import pytest

import kappasharp as ks
from kappasharp.algorithm import loop
from kappasharp.inference import hyperparameters
from kappasharp.journal.question import Comparison, cycle, opposite
from kappasharp.model import fit

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def compare(*pairs):
    """Comparisons from (winner, loser), or (one, other, "tie")."""
    return [
        Comparison(i + 1, "me", "", pair[:2], "tie" if len(pair) == 3 else "a", None, None)
        for i, pair in enumerate(pairs)
    ]


def run(count, **options):
    return ks.optimize(SPACE, lambda a, b: math.hypot(a["x"], a["y"]) < math.hypot(b["x"], b["y"]), count, **options)


def test_the_numbers_are_the_models_own():
    study = run(14, method="static")
    found, own = study.diagnostics(), study.model().surrogate.diagnostics()
    assert found.rank == int(own.rank) == found.n_options - len(found.groups)
    assert found.condition_number == float(own.condition_before) > found.condition_number_corrected > 1.0
    assert found.strength == float(own.strength) > 0.0 and found.gate_open
    assert sorted(number for group in found.groups for number in group) == study.model().options
    assert found.status == "ok" and found.voters == {"me": 14}


@pytest.mark.parametrize(
    ("method", "count", "is_open", "words"),
    [
        ("baseline", 8, False, "this method has no correction"),
        ("static", 8, False, "step 4 comes before the correction's first, 8"),
        ("static", 13, True, "this method corrects from step 8 on"),
        ("adaptive", 13, None, "mean decisiveness of"),
    ],
)
def test_the_gate_says_why(method, count, is_open, words):
    found = run(count, method=method).diagnostics()
    assert words in found.gate_reason and words in str(found)
    assert is_open is None or found.gate_open is is_open
    assert ("The correction is on" in str(found)) is found.gate_open


@pytest.mark.parametrize(("turned", "words"), [(True, "better"), (False, "no better")])
def test_the_validating_gate_speaks_of_predictions(turned, words):
    """It keeps the correction where left-out answers are predicted better; how decisive they are is not its reason."""
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://", method="auto")
    ladder = [{"x": i / 10} for i in range(11)]
    pairs = [pair for gap in (1, 3) for pair in zip(ladder[gap:], ladder, strict=False)]
    for i, pair in enumerate(pairs):
        study.add_comparison(*(pair[::-1] if turned and i % 3 == 2 else pair))
    found = study.diagnostics()
    assert found.gate_open is turned
    assert found.gate_reason == f"with it the model predicts left-out answers {words} than without"
    assert f"The correction is {'on' if turned else 'off'}: {found.gate_reason}" in str(found)


def test_the_opposite_answer_is_found():
    assert opposite(compare((0, 1), (2, 3), (1, 0))) == [(1, 3)]
    assert opposite(compare((0, 1), (0, 1), (0, 1, "tie"), (1, 0, "tie"))) == []


def test_a_circle_is_found_in_its_order():
    ring = cycle(compare((0, 1), (1, 2), (2, 3), (3, 1), (4, 0)))
    won = {(0, 1), (1, 2), (2, 3), (3, 1), (4, 0)}
    assert sorted(ring) == [1, 2, 3]
    assert all(pair in won for pair in zip(ring, [*ring[1:], ring[0]], strict=True))
    assert cycle(compare((0, 1), (1, 2), (0, 2))) == []
    assert cycle(compare((0, 1), (1, 2), (2, 0, "tie"))) == []


def test_contradictions_are_said_in_words():
    study = ks.create_study(SPACE, storage="sqlite://")
    a, b, c = ({"x": x, "y": 0.5} for x in (0.1, 0.5, 0.9))
    study.add_comparison(a, b)
    study.add_comparison(b, c)
    study.add_comparison(c, a)
    assert "go in a circle: option" in str(study.diagnostics())
    study.add_comparison(b, a)
    assert "Answer 4 contradicts answer 1" in str(study.diagnostics())


def test_a_slip_among_many_answers_is_a_surprise():
    study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
    ladder = [{"x": i / 10} for i in range(11)]
    for gap in (1, 3, 5):
        for low, high in zip(ladder, ladder[gap:], strict=False):
            study.add_comparison(high, low)
    slip = study.add_comparison(ladder[0], ladder[10])
    found = study.diagnostics()
    assert found.surprises == [slip.event] and f"would not have expected answer {slip.event}" in str(found)


def test_ties_skips_and_voters_are_counted():
    study = ks.create_study(SPACE, storage="sqlite://")
    for voter, answer in (("me", "a"), ("you", "tie"), ("me", "skip"), ("me", "b")):
        study.tell(study.ask(voter), answer)
    found = study.diagnostics()
    assert (found.n_comparisons, found.n_ties, found.n_skips) == (3, 1, 1)
    assert found.voters == {"me": 2, "you": 1} and found.tie_threshold > 0.0
    assert "3 answers (1 of them ties, 1 more skipped) by 2 voters" in str(found)


def test_a_long_study_keeps_its_hyperparameters_for_a_few_answers_and_says_so(monkeypatch):
    monkeypatch.setattr(fit, "ALWAYS_SEARCHED", 6)
    monkeypatch.setattr(fit, "SEARCH_SHARE", 0.4)
    monkeypatch.setattr(fit, "_is_cold", lambda *_: False)
    study = run(12)
    memos = {event.memo["answers"]: event.memo for _, event in study.history.asked.values() if event.memo is not None}
    searched = {answers: memo["searched_on"] for answers, memo in memos.items()}
    # A search at every third answer, then at every fourth.
    assert [searched[n] for n in (6, 7, 8, 9, 10, 11)] == [6, 0, 0, 9, 0, 0]
    assert memos[6]["theta"] == memos[8]["theta"] != memos[9]["theta"] == memos[11]["theta"]
    # At twelve it is due again; what is told of eleven is the evidence of all eleven, no more than a search reaches.
    assert study.diagnostics().searched_on == 12 and "a few answers ago" not in str(study.diagnostics())
    earlier = ks.load_study(study.name, storage=study.storage, through=study.history.number - 1)
    kept = fit.learn(earlier.definition, earlier.history)
    state = replace(kept.state, keep=False)
    hyper, best = kept.learnt.fit.hyper, loop.learn(state).fit.hyper
    assert bool(hyper.converged) and int(hyper.rounds) == 0 and float(hyper.value) == memos[11]["evidence"]
    at_theta = loop.learn(replace(state, preset=replace(state.preset, cold_fit=False))).fit.hyper
    assert float(best.value) - 1.0 < float(hyper.value) <= float(at_theta.value)
    assert "are those of a few answers ago" in str(earlier.diagnostics())


def test_a_long_study_says_how_its_hyperparameters_were_searched_for(monkeypatch):
    short = run(12).diagnostics()
    assert short.searched_on == 12 and "The study is long" not in str(short)
    monkeypatch.setattr(hyperparameters, "ALL_AT_ONCE", 8)
    monkeypatch.setattr(hyperparameters, "FEWEST", 3)
    study = run(12)
    found = study.diagnostics()
    assert found.searched_on == 3 and found.status == "ok"
    assert "searched for on 3 answers first, then on twice as many, and so on to all 12" in str(found)
    asked = [event.memo for _, event in study.history.asked.values() if event.memo is not None]
    # The last pair rests on eleven answers: stages of 2 are too few, so 5 and then all.
    assert asked[-1]["searched_on"] == 5
