"""Questions that carry more, on the page: what the server says of them, and what it takes for an answer."""

import pytest

from kappasharp.study import collection
from tests.web.doubles import events, service

ANSWERS = {"choice:4": 2, "order:4": [2, [0, 3], 1], "slider:2": 0.35, "slider:4": 0.35, "rating": -2}


def asked(opened, question, **more):
    of = service(**more)
    made = collection.create_study(more.get("space") or {"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage=of.storage,
                                study_name="more", question=question)  # fmt: skip
    of.show(made, more.get("renderer"))
    return opened(of)


@pytest.mark.parametrize("question", ANSWERS)
def test_a_study_of_each_kind_is_asked_answered_retried_undone_and_amended(opened, question):
    browser = asked(opened, question)
    for count in range(6):
        shown = browser.pair()
        assert shown["form"] == question and shown["kind"] == question.partition(":")[0]
        assert len(shown["designs"]) == int(question.partition(":")[2] or 2) and shown["answers"] == count
        assert ("a" in shown) == (question == "rating")
        told = browser.answer(shown, ANSWERS[question])
        assert told.status_code == 200 and told.json()["saved"]["answer"] == ANSWERS[question]
        assert browser.answer(shown, ANSWERS[question]).json()["saved"] == told.json()["saved"]
    assert browser.answer(shown, "skip").status_code == 409
    back = browser.post(browser.at("undo"), {"voter": "me"}).json()["pair"]
    assert back["number"] == shown["number"] and back["answers"] == 5
    browser.answer(back, "skip")
    row = browser.get(browser.at("history")).json()["rows"][0]
    assert row["answer"] == "skip" and row["form"] == question
    changed = browser.post(browser.at("amend"), {"voter": "me", "event": row["event"], "answer": ANSWERS[question]})
    assert changed.status_code == 200
    assert browser.get(browser.at("history")).json()["rows"][0]["answer"] == ANSWERS[question]
    for view in ("standing", "best", "model"):
        assert browser.get(browser.at(view)).status_code == 200
    for kind in ("json", "csv", "options", "html"):
        assert browser.get(browser.at(f"export/{kind}")).status_code == 200
    made = {}
    exec(browser.get(browser.at("export/python")).text, made)
    real = browser.service.session(browser.study).study
    assert [one.answer for one in made["study"].history.counted()] == [one.answer for one in real.history.counted()]
    assert made["study"].best.params == real.best.params and made["study"].definition.question == question


def test_options_are_numbered_but_the_designs_of_a_line_are_none(opened):
    assert [one["option"] for one in asked(opened, "choice:3").pair()["designs"]] == [0, 1, 2]
    for designs, count in ((2, 40), (4, 60)):
        shown = asked(opened, f"slider:{designs}").pair()
        assert [one["option"] for one in shown["designs"]] == [None] * designs
        stops = shown["line"]["stops"]
        assert len(stops) == count + 1 and (stops[0]["place"], stops[-1]["place"]) == (0.0, 1.0)
        corners = stops[:: count // (designs - 1)]
        assert [one["params"] for one in corners] == [one["params"] for one in shown["designs"]]


@pytest.mark.parametrize(("designs", "ahead", "stop"), [(2, 9, 14), (4, 7, 21)])
def test_the_card_at_a_place_of_a_slider(opened, designs, ahead, stop):
    browser = asked(opened, f"slider:{designs}", renderer="tests.web.renderers:svg")
    shown = browser.pair()
    drawn = [stop for stop in shown["line"]["stops"] if stop["card"] is not None]
    assert len(drawn) == ahead
    found = browser.get(browser.at(f"line/{shown['number']}?place=0.3512")).json()
    assert found["place"] == 0.35 and found["card"]["kind"] == "image"
    assert browser.get(browser.at(f"picture/{found['card']['key']}")).status_code == 200
    # A stop of the page is one of the places that are drawn.
    again = browser.get(browser.at(f"line/{shown['number']}?place=0.35")).json()
    assert again == found and again["params"] == shown["line"]["stops"][stop]["params"]
    for wrong in ("", "1.5", "-0.1", "nan", "inf", "x"):
        assert browser.get(browser.at(f"line/{shown['number']}?place={wrong}")).status_code == 400
    assert browser.get(browser.at("line/99?place=0.5")).status_code == 400


@pytest.mark.parametrize(
    ("question", "wrong"),
    [
        *(("choice:4", one) for one in ("a", 4, -1, 1.0, True, None, [1])),
        *(("order:4", one) for one in ([], [0, 0], [0, 4], [[]], 2, [0, [1, "a"]], [True], "a", [[0, 1], 1])),
        *(("slider", one) for one in (-0.1, 1.1, "a", True, [0.5], None)),
        *(("rating", one) for one in (4, -4, 0.5, "a", True, [1])),
    ],
)
def test_an_answer_of_another_kind_is_refused_and_nothing_is_stored(opened, question, wrong):
    browser = asked(opened, question)
    shown, before = browser.pair(), events(browser.service)
    refused = browser.answer(shown, wrong)
    assert refused.status_code == 400 and "must" in refused.json()["error"]
    assert events(browser.service) == before and browser.pair()["number"] == shown["number"]


def test_another_kind_for_one_question(opened, browser):
    first = browser.pair()
    other = browser.get(browser.at("pair?kind=order:3")).json()["pair"]
    assert other["form"] == "order:3" and other["number"] != first["number"]
    assert browser.pair() == other  # it waits, whatever the usual kind
    assert browser.answer(first, "a").status_code == 409
    told = browser.post(
        browser.at("answer"), {"voter": "me", "pair": other["number"], "answer": [1, 0], "kind": "slider"}
    ).json()
    assert told["pair"]["kind"] == "slider"
    assert browser.answer(told["pair"], 0.5).json()["pair"]["kind"] == "pair"
    refused = browser.get(browser.at("pair?kind=auto"))
    assert refused.status_code == 400 and "'slider'" in refused.json()["error"]
    lattice = opened(service(space={"n": [1, 2, 3]}, name="lattice"))
    told = lattice.get(lattice.at("pair?kind=slider"))
    assert told.status_code == 400 and "continuous" in told.json()["error"]
    assert lattice.get(lattice.at("")[:-1]).json()["kinds"] == ["pair", "choice", "order", "rating"]


def test_a_study_is_made_and_rehearsed_with_its_question(browser):
    given = {"name": "lines", "parameters": {"x": {"low": 0.0, "high": 1.0}}, "question": "slider"}
    made = browser.post("/api/studies", given).json()["id"]
    assert browser.get(f"/api/studies/{made}").json()["question"] == "slider:4"
    assert browser.get(f"/api/studies/{made}/pair").json()["pair"]["kind"] == "slider"
    rows = browser.post("/api/rehearsal", given | {"person": "exact", "questions": 5}).json()["rows"]
    assert [row["answers"] for row in rows] == [5]
    refused = browser.post("/api/studies", given | {"name": "more", "question": "triple"})
    assert refused.status_code == 400 and "`question`" in refused.json()["error"]
