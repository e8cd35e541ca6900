"""Which pair comes next: a spread-out start, designs that can be told apart, no pair twice."""

import math
from itertools import combinations

import pytest
import torch

import kappasharp as ks
from kappasharp.algorithm import loop
from kappasharp.journal.events import Answered, Asked, Stored
from kappasharp.journal.history import History
from kappasharp.model import fit, open_questions, points
from kappasharp.planning import next_question, start
from kappasharp.planning.candidates import Seen
from kappasharp.study.creation import define
from tests.study import answered

TWO = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def worth(design):
    return -math.hypot(design["x"] - 0.7, design["y"] - 0.2)


def run(space, count, worth=worth, **options):
    return answered.optimize(space, lambda a, b: worth(a) > worth(b), count, **options)


def pairs(study):
    return [pair for pair, _ in study.history.asked.values()]


def test_the_start_is_spread_out():
    """Sixteen designs of a scrambled Sobol sequence: every half, quarter and eighth of every parameter alike."""
    study = ks.create_study(TWO | {"n": ks.Int(1, 4)}, storage="sqlite://", first_pairs=8)
    for _ in range(8):
        pair = study.ask()
        assert pair.origin == "start"
        study.tell(pair, "a")
    designs = study.history.options
    assert len(designs) == 16
    for name in ("x", "y"):
        assert sorted(int(design[name] * 8) for design in designs) == [i for i in range(8) for _ in range(2)]
    assert sorted(design["n"] for design in designs) == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert study.ask().origin == "model"


def test_sides_are_drawn_by_lot():
    study = run(TWO, 21)
    first = [event.memo["first"] for _, event in study.history.asked.values() if event.memo]
    assert len(first) == 16 and 3 <= first.count("a") <= 13


@pytest.mark.parametrize("jnd", [0.02, 0.1])
def test_no_two_designs_are_closer_than_can_be_told(jnd):
    study = run({"x": ks.Float(0.0, 1.0, jnd=jnd), "y": ks.Float(0.0, 1.0, jnd=jnd)}, 18)
    assert not any(study.space.same(one, other) for one, other in combinations(study.history.options, 2))
    assert len(study.history.options) < 36  # some proposals were moved to a design already seen


def test_snapping_links_the_graph():
    """A coarser person sees fewer designs, and so more of the answers hang together."""
    groups = {}
    for jnd in (0.0, 0.1):
        study = run({"x": ks.Float(0.0, 1.0, jnd=jnd), "y": ks.Float(0.0, 1.0, jnd=jnd)}, 16)
        groups[jnd] = len(study.diagnostics().groups)
    assert groups[0.1] < groups[0.0]


def test_no_pair_is_met_twice():
    study = run({"x": ks.Float(0.0, 1.0, jnd=0.1), "y": ks.Float(0.0, 1.0, jnd=0.1)}, 20)
    met = [frozenset(study.history.numbers(pair)) for pair in pairs(study)]
    assert len(set(met)) == len(met) and all(len(pair) == 2 for pair in met)


def test_a_skipped_pair_does_not_come_back():
    study = ks.create_study(TWO, storage="sqlite://")
    for i in range(14):
        pair = study.ask()
        study.tell(pair, "skip" if i % 2 else "a")
    met = [frozenset(study.history.numbers(pair)) for pair in pairs(study)]
    assert len(set(met)) == len(met)


def test_a_tiny_space_is_exhausted_and_then_goes_on():
    """Three designs have three pairs; the fourth question must repeat one, and never compares a design with itself."""
    study = run({"x": [1, 2, 3]}, 6, worth=lambda design: design["x"])
    met = [frozenset(study.history.numbers(pair)) for pair in pairs(study)]
    assert len(set(met)) == 3 and all(len(pair) == 2 for pair in met)
    assert study.best_params == {"x": 3}


def test_voters_at_once_are_asked_different_pairs():
    study = run(TWO, 10)
    asked = [study.ask(f"voter {i}") for i in range(6)]
    designs = [frozenset(study.history.numbers(pair)) for pair in asked]
    assert len(set(designs)) == 6
    points = [sorted([(pair.a["x"], pair.a["y"]), (pair.b["x"], pair.b["y"])]) for pair in asked]
    apart = [max(math.dist(p, q) for p, q in zip(one, other, strict=True)) for one, other in combinations(points, 2)]
    assert min(apart) > 0.005


@pytest.mark.parametrize("question", ["pair", "order:3", "slider"])
def test_somebody_slow_gets_a_question_beside_somebody_who_answers_at_once(tmp_path, monkeypatch, question):
    """Whenever the slow one is about to be asked, the quick one has answered and got the very question."""
    url = f"sqlite:///{tmp_path / 'both.db'}"
    quick = ks.create_study(TWO, storage=url, study_name="both", first_pairs=2, question=question)
    answer = {"pair": "a", "order:3": [1, 0, 2], "slider": 0.3}[question]
    for _ in range(6):
        quick.tell(quick.ask("quick"), answer)
    slow, put, turns = ks.load_study("both", storage=url), ks.Study._put, []

    def overtaken(study, *given):
        if study is slow and len(turns) < 20:
            turns.append(quick.ask("quick"))
            quick.tell(turns[-1], answer)
        put(study, *given)

    monkeypatch.setattr(ks.Study, "_put", overtaken)
    found = slow.ask("slow")
    assert len(turns) <= 4 and found.voter == "slow"
    assert all(found.designs != one.designs for one in turns)


def test_believed_answers_are_never_stored():
    study = run(TWO, 10)
    before = study.model().state.comparisons
    study.ask("one")
    study.ask("other")
    assert torch.equal(study.model().state.comparisons, before) and len(study.history.counted()) == 10


@pytest.mark.parametrize("method", ["baseline", "static", "ep"])
def test_believed_answers_move_the_utilities_and_nothing_else(method, monkeypatch):
    """What is searched for and what the gate saw come from real answers; open pairs are less in doubt than before."""
    study = run(TWO, 12, method=method)
    model = study.model()
    waiting = [study.ask(f"voter {i}") for i in range(4)]
    monkeypatch.setattr(loop, "learn", None)  # no second search
    found = open_questions.with_open_questions(study.definition, study.history, model)
    assert all(map(torch.equal, found.learnt.fit.hyper, model.learnt.fit.hyper))
    assert torch.equal(found.learnt.active, model.learnt.active)
    assert torch.equal(found.learnt.mean_decisiveness, model.learnt.mean_decisiveness)
    assert bool(found.learnt.fit.map.dual.converged) and found.state.comparisons.shape[1] == 16
    sides = [points.points(study.space, [getattr(pair, side) for pair in waiting]) for side in ("a", "b")]
    before, after = model.surrogate.contrast(*sides), found.surrogate.contrast(*sides)
    assert bool((after.variance < before.variance).all())
    winner, loser = (found.state.points[0, found.state.comparisons[0, -4:, i]] for i in (0, 1))
    assert bool((model.surrogate.contrast(winner, loser).mean >= 0.0).all())  # answered as the real model expects


def test_sixteen_voters_with_many_answers_are_asked_sixteen_pairs_that_are_open_once():
    study = run(TWO, 60)
    asked = [study.ask(f"voter {i}") for i in range(16)]
    met = [frozenset(study.history.numbers(pair)) for pair in pairs(study)]
    assert len(set(met)) == len(met) == 60 + len(asked)
    memos = [event.memo for _, event in study.history.asked.values()][-16:]
    # One and the same model stands behind them all.
    assert len({str(memo["theta"]) for memo in memos}) == 1 == len({memo["evidence"] for memo in memos})


def test_connected_querying_holds_on_to_the_last_new_design():
    study = ks.create_study(TWO, storage="sqlite://", method="connected")
    for _ in range(10):
        pair = study.ask()
        study.tell(pair, "a" if worth(pair.a) > worth(pair.b) else "b")
    shared = [
        bool({str(one.a), str(one.b)} & {str(other.a), str(other.b)})
        for one, other in zip(pairs(study)[5:], pairs(study)[6:], strict=False)
    ]
    assert all(shared)


def test_expected_improvement_asks_against_a_design_already_seen():
    study = run(TWO, 9, method="ep_ei")
    seen = set(range(10))
    for pair in pairs(study)[5:]:
        numbers = set(study.history.numbers(pair))
        assert numbers & seen
        seen |= numbers


def test_the_loop_is_algorithm_1():
    """A study without snapping asks what `init`, `ask` and `tell` ask from the same start."""
    exact = {name: ks.Float(0.0, 1.0, jnd=0) for name in ("x", "y")}
    study = ks.create_study(exact, storage="sqlite://", seed=4, method="static")
    for _ in range(5):
        pair = study.ask()
        study.tell(pair, "a" if worth(pair.a) > worth(pair.b) else "b")
    data = fit.gather(study.definition, study.history)
    state = ks.init(data.answers.X, data.answers.pairs, method="static", seeds=4)
    for count in range(10):
        question, state, info = ks.ask(state)
        pair = study.ask()
        memo = study.history.asked[pair.number][1].memo
        points = [[design["x"], design["y"]] for design in (pair.a, pair.b)]
        if memo["first"] == "b":
            points.reverse()
        # The loop goes on from the last MAP and the study starts it anew: last digits differ, and differences grow.
        assert count > 2 or torch.allclose(torch.tensor(points), question.points[0], atol=1e-2)
        assert memo["active"] == bool(info.active) == (count >= 7) and memo["step"] == info.step == count + 1
        assert count > 2 or math.isclose(memo["mean_decisiveness"], float(info.mean_decisiveness), abs_tol=1e-3)
        better = worth(pair.a) > worth(pair.b)
        study.tell(pair, "a" if better else "b")
        state = loop.tell(state, question, int(better == (memo["first"] == "b")))


class TestMemo:
    """What a step starts from."""

    def test_two_asks_between_two_answers_take_the_moving_average_on_once(self):
        study = run(TWO, 8, method="adaptive")
        one, other = study.ask("one"), study.ask("other")
        notes = [study.history.asked[pair.number][1].memo for pair in (one, other)]
        assert notes[0]["answers"] == notes[1]["answers"] == 8
        assert study.history.memo(8)["answers"] == 7
        study.tell(one, "a")
        assert study.history.memo(9) == notes[1]

    def test_it_is_plain_data(self):
        study = run(TWO, 8, method="static")
        memo = study.history.asked[study.ask().number][1].memo
        assert {"theta", "hints", "mean_decisiveness", "active", "status", "strength", "components"} <= set(memo)
        assert len(memo["theta"]) == 3 and memo["status"] == "ok"


def test_a_history_with_one_more_event_leaves_the_first_alone():
    history = History("s")
    history.apply(Stored(1, "me", "", Asked({"x": 1}, {"x": 2}, "start", 0)))
    after = history.after(Stored(2, "me", "", Answered(1, "b")))
    assert history.open_pair("me") is not None and history.comparisons == {}
    assert after.open_pair("me") is None and after.counted()[0].ordered == (1, 0)


def test_a_fold_of_parts_is_the_fold_of_the_whole():
    study = run(TWO, 8)
    study.undo()
    study.ask("you")
    stored = study.storage.read(study.stored)
    whole = History(study.stored.uid, space=study.space)
    whole.extend(stored)
    for cut in range(len(stored)):
        part = History(study.stored.uid, space=study.space)
        part.extend(stored[:cut])
        part.extend(stored[cut:])
        assert part == whole


def test_designs_drawn_are_those_of_a_longer_draw():
    definition = define(TWO, seed=1, method="baseline", preset="modern", first_pairs=5)
    assert start.sobol(definition, 0, 8) == start.sobol(definition, 0, 16)[:8]
    assert start.sobol(definition, 4, 4) == start.sobol(definition, 0, 8)[4:]


def test_one_and_true_are_two_choices():
    study = ks.create_study({"x": [1, True]}, storage="sqlite://")
    for _ in range(8):
        pair = study.ask()
        assert type(pair.a["x"]) is not type(pair.b["x"])
        study.tell(pair, "a" if pair.a["x"] is True else "b")
    assert study.best_params["x"] is True and len(study.history.options) == 2


def test_threads_are_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        study = run(TWO, 7)
        assert study.best.n_comparisons == 7 and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_of_many_designs_seen_the_leading_ones_stand_in(monkeypatch):
    """Where the model's own pair will not do, those of the highest mean that are open, in the order they were seen."""
    study = run(TWO, 14)
    study.narrow("x", high=0.8)
    model, seen = study.model(), Seen(study.space, study.history)
    mean = dict(zip(model.options, model.surrogate.utility.tolist(), strict=True))
    open_ones = [number for number in model.options if study.history.options[number]["x"] <= 0.8]
    assert len(open_ones) < len(model.options)
    assert next_question._leading(seen, model) == [study.history.options[number] for number in open_ones]
    monkeypatch.setattr(next_question, "LONG_LIST", 5)
    best = sorted(sorted(open_ones, key=mean.get)[-5:])
    assert next_question._leading(seen, model) == [study.history.options[number] for number in best]
