"""What the page's server says: pairs, answers, voters, changes, views and files, over a study in memory."""

import csv
import io
import json
import time

import pytest

from kappasharp.study import collection
from tests.web.doubles import SPACE, service


def wish(params):
    return -((params["x"] - 0.7) ** 2) - (params["y"] - 0.2) ** 2


def answered(browser, count, voter="me", like=wish):
    pair = browser.pair(voter)
    for _ in range(count):
        better = "a" if like(pair["a"]["params"]) > like(pair["b"]["params"]) else "b"
        pair = browser.answer(pair, better, voter).json()["pair"]
    return pair


def test_a_pair_stays_until_it_is_answered_and_an_answer_is_stored_with_its_seconds(browser):
    pair = browser.pair()
    assert browser.pair() == pair and pair["can_undo"] is False
    told = browser.answer(pair, "b", seconds=3.25).json()
    assert told["saved"]["answer"] == "b" and told["pair"]["number"] != pair["number"]
    stored = browser.service.session(browser.study).study.rows("comparisons")
    assert [(row["pair"], row["answer"], row["seconds"], row["voter"]) for row in stored] == [(1, "b", 3.25, "me")]


def test_nothing_about_the_models_expectation_comes_with_a_pair(browser):
    pair = answered(browser, 7)
    about = {"number", "voter", "origin", "kind", "form", "designs", "a", "b"}
    assert set(pair) == about | {"answers", "since", "rests_on", "can_undo", "undoes_answer"}
    assert set(pair["a"]) == {"option", "params", "card"} and pair["origin"] == "model"


def test_a_second_answer_to_a_taken_pair_gets_409_and_the_current_pair(browser):
    pair = browser.pair()
    following = browser.answer(pair, "a").json()["pair"]
    refused = browser.answer(pair, "b")
    assert refused.status_code == 409 and "answered" in refused.json()["error"]
    assert refused.json()["pair"]["number"] == following["number"]
    assert len(browser.service.session(browser.study).study.rows("comparisons")) == 1


def test_the_same_answer_again_is_acknowledged_as_before(browser):
    """Its acknowledgement may have been lost on the way: whoever retries must not read that it was refused."""
    pair = browser.pair()
    first = browser.answer(pair, "a", seconds=2.0)
    again = browser.answer(pair, "a", seconds=9.0)
    assert again.status_code == 200 and again.json() == first.json()
    assert len(browser.service.session(browser.study).study.rows("comparisons")) == 1
    assert browser.answer(pair, "a", voter="you").status_code == 409


def test_each_voter_has_a_pair_of_their_own_and_nobody_answers_for_another(browser):
    mine, theirs = browser.pair(), browser.pair("bench-2")
    assert mine["number"] != theirs["number"] and mine["a"]["params"] != theirs["a"]["params"]
    refused = browser.answer(theirs, "a", voter="me")
    assert refused.status_code == 409 and refused.json()["pair"]["number"] == mine["number"]
    assert browser.answer(theirs, "a", voter="bench-2").status_code == 200
    assert browser.pair()["number"] == mine["number"]


def test_undo_opens_the_same_pair_again(browser):
    pair = browser.pair()
    browser.answer(pair, "skip")
    back = browser.post(browser.at("undo"), {"voter": "me"}).json()["pair"]
    assert back["number"] == pair["number"] and back["answers"] == 0
    nothing = browser.post(browser.at("undo"), {"voter": "me"})
    assert nothing.status_code == 400 and "nothing to undo" in nothing.json()["error"]


def test_history_flags_contradictions_and_takes_changes_as_events(browser):
    pair = browser.pair()
    browser.answer(pair, "a")
    assert browser.post(browser.at("again"), {"pair": pair["number"], "voter": "me"}).status_code == 200
    assert browser.get(browser.at("history")).json()["queue"] == 1
    browser.answer(browser.pair(), "tie")
    again = browser.pair()
    assert again["origin"] == "again"
    same_side = again["a"]["option"] == pair["a"]["option"]
    browser.answer(again, "b" if same_side else "a")
    latest, middle, first = browser.get(browser.at("history")).json()["rows"]
    # Answers are counted as people count them; events, questions among them, are not.
    assert [one["number"] for one in (first, middle, latest)] == [1, 2, 3]
    assert latest["contradicts"] == [1] and first["contradicts"] == [3]
    before = browser.service.session(browser.study).study.history.number
    turned = {"event": first["event"], "answer": "b", "voter": "me"}
    assert browser.post(browser.at("amend"), turned).status_code == 200
    assert (
        browser.post(browser.at("amend"), {"event": middle["event"], "answer": None, "voter": "me"}).status_code == 200
    )
    rows = browser.get(browser.at("history")).json()["rows"]
    assert [(row["answer"], row["amended"], row["contradicts"]) for row in rows][-1] == ("b", True, [])
    assert len(rows) == 2 and browser.service.session(browser.study).study.history.number == before + 2
    # Both can be taken back: the answer that was taken out stands where it stood.
    (gone,) = browser.get(browser.at("history")).json()["removed"]
    for event, answer in ((gone["event"], gone["answer"]), (first["event"], first["answer"])):
        assert browser.post(browser.at("amend"), {"event": event, "answer": answer, "voter": "me"}).status_code == 200
    back = browser.get(browser.at("history")).json()
    assert back["removed"] == [] and [(row["number"], row["answer"], row["amended"]) for row in back["rows"]] == [
        (row["number"], row["answer"], False) for row in (latest, middle, first)
    ]


def test_best_has_two_figures_a_sentence_and_slices(browser):
    nothing = {"since": 0, "best": None, "notes": [], "slices": [], "order": []}
    assert browser.get(browser.at("best")).json() == nothing
    answered(browser, 8)
    found = browser.get(browser.at("best")).json()
    study = browser.service.session(browser.study).study
    assert found["best"]["params"] == study.best_params
    assert found["best"]["beats_random"] == pytest.approx(study.best.beats_random, abs=1e-9)
    advice = found["best"]["advice"]["sentence"]
    assert advice["key"].startswith("advice.") and advice["words"] and isinstance(advice["values"], dict)
    assert [one["caption"][0]["words"] for one in found["slices"]] == ["x", "y"]
    why = browser.get(browser.at("why")).json()
    met = [one for one in study.history.counted() if study.best.option in one.options]
    said = [(one["beat"], one["lost_to"]) for one in why["meetings"]]
    assert said == [
        ([one.ordered[1]], []) if one.ordered[0] == study.best.option else ([], [one.ordered[0]]) for one in met
    ]
    assert [one["number"] for one in why["meetings"]] == [
        list(study.history.comparisons).index(one.event) + 1 for one in met
    ]
    wins = sum(len(one["beat"]) for one in why["meetings"])
    assert f"{wins} win" in why["sentences"][0]["words"] and "comes nearest" in why["sentences"][1]["words"]
    last = f"8 answers: beats a random design {study.best.beats_random:.0%}".replace("%", " %")
    assert why["course"]["readings"][-1]["words"]["words"].startswith(last) and len(why["course"]["readings"]) == 8


def test_numbers_to_choose_from_are_choices_and_no_curve(opened):
    browser = opened(service(space={"x": (0.0, 1.0), "size": [10, 1, 200]}))
    answered(browser, 3, like=lambda params: params["x"])
    numbers, choices = browser.get(browser.at("best")).json()["slices"]
    kinds = [[one["kind"] for one in chart["marks"]] for chart in (numbers, choices)]
    assert "band" in kinds[0] and "whisker" not in kinds[0]
    assert "band" not in kinds[1] and kinds[1].count("whisker") == 3
    names = {one["words"]: one["at"]["x"] for one in choices["marks"] if one["tag"] == "text"}
    assert list(names) == ["10", "1", "200"] and list(names.values()) == sorted(set(names.values()))


def test_a_duel_is_asked_after_the_open_pair(browser):
    open_pair = answered(browser, 4)
    told = browser.post(browser.at("challenge"), {"params": {"x": 0.5, "y": 0.5}, "voter": "me"})
    assert told.status_code == 200
    duel = browser.answer(open_pair, "a").json()["pair"]
    assert duel["origin"] == "queue" and {"x": 0.5, "y": 0.5} in (duel["a"]["params"], duel["b"]["params"])
    outside = browser.post(browser.at("challenge"), {"params": {"x": 5, "y": 0.5}, "voter": "me"})
    assert outside.status_code == 400 and "from 0 to 1" in outside.json()["error"]


def test_settling_puts_the_best_against_designs_seen(browser):
    early = browser.post(browser.at("settle"), {"voter": "me"})
    assert early.status_code == 400 and "nothing to settle" in early.json()["error"]
    pair = answered(browser, 6)
    assert browser.post(browser.at("settle"), {"voter": "me"}).status_code == 200
    seen = len(browser.service.session(browser.study).study.history.options)
    for _ in range(2):
        pair = browser.answer(pair, "a").json()["pair"]
        assert pair["origin"] == "settle"
    assert len(browser.service.session(browser.study).study.history.options) == seen


def test_nobody_answers_in_a_programs_name(browser):
    pair = answered(browser, 1)
    study = browser.service.session(browser.study).study
    study.join_as_program("judge", "a script")
    waiting = study.ask(voter="judge")
    asked = browser.get(browser.at("pair?voter=judge"))
    told = browser.post(browser.at("answer"), {"voter": "judge", "pair": waiting.number, "answer": "a"})
    for refused in (asked, told):
        assert refused.status_code == 403 and "“judge” is a program" in refused.json()["error"]
    assert browser.answer(pair, "a").status_code == 200 and study.history.open_pair("judge") == waiting


def test_settling_by_galleries(browser):
    pair = answered(browser, 6)
    for wrong in ({"question": "slider"}, {"question": 9}, {"question": "choice:9", "duels": -1}, {"duels": "two"}):
        assert browser.post(browser.at("settle"), {"voter": "me"} | wrong).status_code == 400
    wish = {"voter": "me", "question": "choice:9", "duels": 1}
    assert browser.post(browser.at("settle"), wish).status_code == 200
    gallery = browser.answer(pair, "a").json()["pair"]
    assert (gallery["origin"], gallery["kind"], len(gallery["designs"])) == ("settle", "choice", 9)


def test_the_model_view_shows_groups_rank_and_kappa_with_and_without(browser):
    answered(browser, 9)
    found = browser.get(browser.at("model")).json()
    study = browser.service.session(browser.study).study
    diagnosis = study.diagnostics()
    assert found["diagnosis"]["rank"] == diagnosis.rank and len(found["edges"]) == 9
    assert len({node["group"] for node in found["nodes"]}) == len(diagnosis.groups)
    last = found["moments"][-1]
    assert last["answers"] == 9 and last["condition"] == pytest.approx(diagnosis.condition_number, rel=0.05)
    # The calibration's whole purpose: κ(H + R) ≤ κ(H)^0.9.
    assert all(row["corrected"] <= row["condition"] ** 0.9 * 1.001 for row in found["moments"] if row["strength"])
    assert found["has_correction"] is False and found["sentences"]
    for which, words in (("plain", "without"), ("corrected", "with")):
        chart = found["graphs"][which]
        kinds = [one["kind"].split()[0] for one in chart["marks"]]
        assert chart["label"]["words"].startswith(f"Comparison graph {words} the correction")
        assert [kinds.count(kind) for kind in ("edge", "node")] == [9, len(found["nodes"])]
    assert [one["words"]["words"] for one in found["conditions"]["caption"]] == [
        "without correction",
        "with correction",
    ]


def test_the_model_view_says_where_the_correction_was_active(opened):
    of = service(name="plain")
    made = collection.create_study(SPACE, storage=of.storage, study_name="corrected", method="static", first_pairs=2)
    of.show(made, None)
    browser = opened(of)
    answered(browser, 12)
    found = browser.get(browser.at("model")).json()
    assert found["has_correction"] is True
    active = [row["step"] for row in found["noted"] if row["active"]]
    assert active and min(active) == 8 and len(active) < len(found["noted"])
    assert sum(one["kind"] == "shaded" for one in found["conditions"]["marks"]) == len(active)


def test_agreement_of_voters(browser):
    pair = browser.pair("ann")
    browser.answer(pair, "a", "ann")
    browser.post(browser.at("again"), {"pair": pair["number"], "voter": "ann"})
    again = browser.pair("ben")
    browser.answer(again, "b" if again["a"]["option"] == pair["a"]["option"] else "a", "ben")
    assert browser.get(browser.at("team/before")).json() == {"before": None}
    found = browser.get(browser.at("team")).json()
    assert found["couples"] == [{"first": "ann", "second": "ben", "met": 1, "agreed": 0}]
    counted = [(one["name"], one["answers"], one["seconds"]) for one in found["counts"].values()]
    assert counted == [("ann", 1, 1.5), ("ben", 1, 1.5)]
    assert (
        found["answers"] == 2
        and found["found"]["status"] == "ok"
        and found["found"]["sentences"][0]["key"] == "team.few"
    )
    assert browser.get(browser.at("team/before")).json()["before"] == found
    assert browser.post(browser.at("weights"), {"weights": {"ann": 2}}).json() == {"weights": {"ann": 2.0}}
    for wrong, words in (
        ({"zoe": 1}, "No voter"),
        ({"ann": -1}, "from 0"),
        ({"ann": 0, "ben": 0}, "all of them"),
        (7, "table"),
    ):
        refused = browser.post(browser.at("weights"), {"weights": wrong})
        assert refused.status_code in (400, 404) and words in refused.json()["error"]
    # What was computed before the weights is there, as older, until somebody asks for what is true now.
    assert browser.get(browser.at("team/before")).json()["before"] == found
    weights = {one["voter"]: one["weight"] for one in browser.get(browser.at("team")).json()["found"]["voters"]}
    assert weights == {"ann": 2.0, "ben": 1.0}


def test_a_team_that_cannot_be_told_apart_says_so(opened):
    of = service()
    of.show(collection.create_study(SPACE, storage=of.storage, study_name="corrected", method="adaptive"))
    browser = opened(of)
    for voter in ("ann", "ben"):
        browser.answer(browser.pair(voter), "a", voter)
    found = browser.get(browser.at("team")).json()
    assert (
        "plain method" in found["refused"]["words"]
        and found["found"] is None
        and list(found["counts"]) == ["ann", "ben"]
    )


def test_studies_are_made_of_a_table_or_of_toml(browser):
    table = {"name": "new", "parameters": {"k": {"low": 0.1, "high": 2, "log": True}, "mode": ["soft", "hard"]}}
    made = browser.post("/api/studies", table)
    assert made.status_code == 201
    found = browser.get(f"/api/studies/{made.json()['id']}").json()
    assert [(one["name"], one["type"]) for one in found["parameters"]] == [("k", "float"), ("mode", "categorical")]
    twice = browser.post("/api/studies", table)
    assert twice.status_code == 409 and "already" in twice.json()["error"]
    text = 'name = "typed"\nfirst_pairs = 3\n[parameters]\nn = {type = "int", low = 1, high = 8}\n'
    assert browser.post("/api/studies", {"toml": text}).status_code == 201
    assert [one["name"] for one in browser.get("/api/studies").json()["studies"]] == ["taste", "new", "typed"]


def test_many_choices_take_no_longer_than_their_number(browser):
    """Thousands of them took seconds when each was compared with all before it; now that is refused at once."""

    def seconds(count, name):
        begun = time.process_time()
        choices = [str(i) for i in range(count)]
        made = browser.post("/api/studies", {"name": name, "parameters": {"x": choices}})
        assert made.status_code == 201
        return time.process_time() - begun

    seconds(10, "warm")
    few, many = seconds(100, "few"), seconds(1000, "many")
    assert many < 30 * few + 0.5
    twice = browser.post("/api/studies", {"name": "twice", "parameters": {"x": [*range(900), 4, True, 1.0]}})
    assert twice.status_code == 400 and "4 twice" in twice.json()["error"]
    begun = time.process_time()
    refused = browser.post("/api/studies", {"name": "many", "parameters": {"x": [str(i) for i in range(6000)]}})
    assert refused.status_code == 400 and "1000 choices" in refused.json()["error"]
    assert time.process_time() - begun < 1.0


def test_every_method_that_is_offered_makes_a_study(browser):
    methods = browser.get("/api/studies").json()["methods"]
    assert "bridging" in methods and "best_of_3" not in methods
    for method in methods:
        made = {
            "name": f"by {method}",
            "parameters": {"x": {"type": "float", "low": 0.0, "high": 1.0}},
            "method": method,
        }
        assert browser.post("/api/studies", made).status_code == 201


def test_the_page_runs_no_code_that_the_command_line_did_not_name(browser):
    text = 'render = "os:abort"\n[parameters]\nx = {low = 0, high = 1}\n'
    for data in ({"toml": text}, {"name": "n", "parameters": {"x": {"low": 0, "high": 1}}, "renderer": "os:abort"}):
        refused = browser.post("/api/studies", data)
        assert refused.status_code == 400 and "--render os:abort" in refused.json()["error"]


def test_a_rehearsal_leaves_the_study_alone(browser):
    before = browser.service.session(browser.study).study.history.number
    found = browser.post("/api/rehearsal", {"study": browser.study, "person": "exact", "questions": 12}).json()
    assert [row["answers"] for row in found["rows"]] == [5, 10, 12]
    assert found["rows"][-1]["truly_preferred"] > 0.8
    assert [one["words"]["words"] for one in found["chart"]["caption"]] == ["in truth", "what the model says"]
    assert browser.service.session(browser.study).study.history.number == before
    assert [one["name"] for one in browser.get("/api/studies").json()["studies"]] == ["taste"]


def test_exports(browser):
    answered(browser, 6)
    files = {kind: browser.get(browser.at(f"export/{kind}")) for kind in ("json", "csv", "options", "parquet", "html")}
    assert all(one.status_code == 200 and "attachment" in one.headers["content-disposition"] for one in files.values())
    assert json.loads(files["json"].text)["name"] == "taste"
    assert len(list(csv.DictReader(io.StringIO(files["csv"].text)))) == 6
    assert len(list(csv.DictReader(io.StringIO(files["options"].text)))) == 14
    assert files["parquet"].content[:4] == b"PAR1" and "<svg" in files["html"].text
    assert browser.get(browser.at("export/pdf")).status_code == 404


def test_the_exported_python_makes_the_same_study(browser):
    answered(browser, 8)
    code = browser.get(browser.at("export/python")).text
    namespace = {}
    exec(code.replace("print(", "result = ("), namespace)
    real = browser.service.session(browser.study).study.best
    assert namespace["result"].params == real.params
    assert namespace["result"].beats_random == pytest.approx(real.beats_random, abs=1e-3)


def test_an_unknown_study_is_a_sentence(browser):
    for uid in ("f" * 32, "nothing", "taste"):
        answer = browser.get(f"/api/studies/{uid}/pair")
        assert answer.status_code == 404 and "no such study" in answer.json()["error"]
