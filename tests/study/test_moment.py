"""A moment of a study: it stays as it is whatever happens, nobody waits for it, and it goes to another process."""

import pickle
import threading
from copy import deepcopy
from functools import partial

import pytest

import kappasharp as ks
from kappasharp.findings.engine import TorchEngine
from kappasharp.journal import events
from kappasharp.space.space import Space
from kappasharp.views import report

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


ONE, OTHER = {"x": 0.1, "y": 0.2}, {"x": 0.3, "y": 0.2}
JUDGED = events.Judged(ONE, OTHER, "a", 0.9)


def everything(study):
    """All kinds of events as calls, one after the other."""
    first = study.tell(study.ask("anna"), "a").event
    return [
        lambda: study.ask("anna"),
        lambda: study.add_comparison(ONE, OTHER, voter="ben"),
        *(partial(study.amend, first, answer) for answer in ("b", None, "tie")),
        *(partial(study.note, ONE, text, voter="ben") for text in ("good", "better", None)),
        *(partial(study.record, ONE, {"cost": 2.0}, repeat=again) for again in (False, True)),
        lambda: study.enqueue({"x": 0.5, "y": 0.5}, {"x": 0.6, "y": 0.5}),
        lambda: study.ask("cleo"),
        lambda: study.ask("cleo", kind="rating"),
        lambda: study.narrow("x", 0.0, 0.55),
        lambda: study.widen("y", 0.0, 2.0),
        *(partial(study.undo, voter) for voter in ("me", "ben")),
        lambda: study.settle(2),
        lambda: study.join_as_program("robot", "a program"),
        lambda: study.keep_verdict("robot", JUDGED),
        lambda: study.weigh({"anna": 2.0}),
        lambda: study._write("me", lambda history: events.Restored(history.number + 3, history.number, "head")),
    ]


def test_a_history_stays_as_it_was_whatever_happens_to_the_study(monkeypatch):
    # A space never changes, and is equal to itself alone.
    monkeypatch.setattr(Space, "__deepcopy__", lambda self, _: self, raising=False)
    study = ks.create_study(SPACE, storage="sqlite://", outcomes=["cost"])
    kept = []
    for happens in everything(study):
        happens()
        kept.append((study.moment().history, deepcopy(study.history)))
    happened = {row["kind"] for row in study.plain()["events"]}
    assert happened == events.KINDS.keys(), "a kind of event that is not looked at here"
    for now, then in kept:
        assert now == then
    assert [now.number for now, _ in kept] == sorted({now.number for now, _ in kept})


@pytest.fixture
def study():
    found = ks.create_study(SPACE, storage="sqlite://")
    for voter, word in zip(["anna", "ben"] * 3, "abbaab", strict=True):
        found.tell(found.ask(voter), word)
    return found


def test_all_that_a_moment_tells_is_of_that_moment(study):
    now = study.moment()
    then = now.best, now.rows("options"), str(now.diagnostics()), now.agreement(), now.definition, report.html(now)
    for _ in range(3):
        study.tell(study.ask("anna"), "a")
    study.narrow("x", 0.2, 0.8)
    again = now.best, now.rows("options"), str(now.diagnostics()), now.agreement(), now.definition, report.html(now)
    assert then == again and (now.number, study.moment().number) == (12, 19)
    assert study.best.n_comparisons == 9 and study.space.open_to("x").low == 0.2


def test_what_a_study_tells_is_what_its_moment_tells(study):
    now = study.moment()
    assert (study.best, study.best_params, study.agreement()) == (now.best, now.best_params, now.agreement())
    assert study.diagnostics() == now.diagnostics() and study.rows("comparisons") == now.rows("comparisons")
    assert study.model() is now.model() is study.moment().model(), "fitted once for the same answers"
    assert repr(now) == "<Study 'study' at event 12: 6 answers>"


def test_a_moment_goes_to_another_process_and_makes_the_same_report_there(study):
    now = study.moment()
    now.model()
    packed = pickle.dumps(now)
    assert len(packed) < 20_000, "what was fitted stays here"
    assert report.html(pickle.loads(packed)) == report.html(now)


def test_nobody_who_answers_waits_for_what_somebody_looks_at(study, monkeypatch):
    """While the best design is computed from all answers so far, another thread adds one to the same study."""
    learn, added = TorchEngine.fit, []

    def add():
        study.add_comparison({"x": 0.1, "y": 0.2}, {"x": 0.3, "y": 0.2}, voter="cleo")
        added.append(True)

    def learn_while_somebody_answers(*given):
        thread = threading.Thread(target=add, daemon=True)
        thread.start()
        thread.join(20.0)
        assert added, "an answer waited for the best design"
        return learn(*given)

    monkeypatch.setattr(TorchEngine, "fit", staticmethod(learn_while_somebody_answers))
    assert study.best.n_comparisons == 6 and len(study.history.counted()) == 7


def test_an_answer_that_was_given_stays_as_it_was_told():
    study = ks.create_study(SPACE, storage="sqlite://")
    told = study.tell(study.ask(), "a")
    study.amend(told.event, "b")
    (now,) = study.history.comparisons.values()
    assert (told.answer, told.amended) == ("a", False) and (now.answer, now.original, now.amended) == ("b", "a", True)
