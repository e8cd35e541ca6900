"""Outcomes on the page's server: with every question, computed apart from it, and never by code that nobody allowed."""

import math
import re
import threading
from dataclasses import replace
from itertools import product

import pytest

from kappasharp.messages.message import Sentence
from kappasharp.results.outcomes import TradeOff
from kappasharp.space.outcomes import AtMost, Less, StudyOutcome
from kappasharp.study import collection
from kappasharp.views import charts, outcomes
from kappasharp.views.outcomes import Range
from kappasharp.web import responses, server
from tests.study import simulators
from tests.web.doubles import service
from tests.web.test_scripts import texts

SPACE = simulators.SPACE
HINTS = [Less("overshoot"), Less("settling")]


def with_outcomes(function, **options):
    """A service over a study with outcomes."""
    made = service(space=SPACE)
    study = collection.create_study(SPACE, storage=made.storage, study_name="seen", outcomes=function, **options)
    made.show(study, None)
    return made


@pytest.fixture
def patient(monkeypatch):
    """Outcomes come with their question, however busy the machine is."""
    monkeypatch.setattr(responses, "SOON", 120.0)
    monkeypatch.setattr(server, "PATIENCE", 120.0)


def with_another(function):
    """The same with a function that was not there when the study was made."""
    made = with_outcomes(simulators.simulate)
    made.show(collection.load_study("seen", storage=made.storage, outcomes=function), None)
    return made


def answered(browser, count):
    pair = browser.pair()
    for _ in range(count):
        liked = [simulators.liked(simulators.simulate(one["params"])) for one in pair["designs"]]
        pair = browser.answer(pair, "a" if liked[0] > liked[1] else "b").json()["pair"]
    return pair


def values(told):
    return {one["name"]: one["value"] for one in told["values"]}


def test_a_question_carries_its_outcomes_and_they_are_stored(opened, patient):
    browser = opened(with_outcomes(simulators.simulate, hints=HINTS))
    pair = browser.pair()
    # A worker takes a moment to start: what does not come with the question comes after it.
    later = browser.get(browser.at(f"outcomes/{pair['number']}")).json()
    assert [one["state"] for one in later["outcomes"]] == ["known", "known"]
    for one, told in zip(pair["designs"], later["outcomes"], strict=True):
        assert values(told) == simulators.simulate(one["params"])
    assert browser.pair()["a"]["outcomes"] == later["outcomes"][0]
    low, high = later["ranges"]["settling"]
    assert low == min(values(one)["settling"] for one in later["outcomes"]) < high
    following = browser.answer(pair, "a").json()["pair"]
    assert [one["outcomes"]["state"] for one in following["designs"]] == ["known", "known"]
    stored = collection.load_study("seen", storage=browser.service.storage)
    assert all(stored.history.outcomes(one["params"]).runs for one in following["designs"])
    study = browser.get("/api/studies").json()["study"]["outcomes"]
    assert study["missing"] is None and [one["better"] for one in study["table"]] == ["less", "less"]


def test_a_vote_does_not_wait_for_outcomes(opened, monkeypatch):
    """They stand still until the answer is stored: whoever waited for them would wait for ever."""
    going_on = threading.Event()

    def slow(design):
        assert going_on.wait(60)
        return simulators.simulate(design)

    browser = opened(with_another(slow))
    pair = browser.pair()
    assert [one["outcomes"]["state"] for one in pair["designs"]] == ["computing", "computing"]
    assert pair["a"]["outcomes"]["sentence"] == "Computing …"
    told = browser.answer(pair, "a").json()
    assert told["saved"]["answer"] == "a" and told["pair"]["number"] != pair["number"]
    going_on.set()
    monkeypatch.setattr(server, "PATIENCE", 120.0)
    later = browser.get(browser.at(f"outcomes/{pair['number']}")).json()["outcomes"]
    assert [one["state"] for one in later] == ["known", "known"]


def test_a_function_that_fails_is_a_sentence_and_the_vote_goes_on(opened, patient):
    browser = opened(with_another("tests.study.simulators:raising"))
    pair = browser.pair()
    found = browser.get(browser.at(f"outcomes/{pair['number']}")).json()["outcomes"]
    assert {one["state"] for one in found} == {"failed"} and "ZeroDivisionError: the pole is at zero" in found[0][
        "sentence"
    ]
    assert browser.answer(pair, "b").status_code == 200


def test_a_database_runs_no_function_that_the_command_line_did_not_name(opened, patient):
    made = with_outcomes(simulators.simulate)
    made.show(collection.load_study("seen", storage=made.storage), None)
    browser = opened(made)
    pair = browser.pair()
    assert pair["a"]["outcomes"]["state"] == "none" and "not here" in pair["a"]["outcomes"]["sentence"]["words"]
    missing = browser.get("/api/studies").json()["study"]["outcomes"]["missing"]
    assert "--outcomes tests.study.simulators:simulate" in missing["words"] and missing["key"] == "note.missing"
    assert browser.answer(pair, "a").status_code == 200
    allowed = service(space=SPACE)
    allowed.functions = ("tests.study.simulators:simulate",)
    allowed.storage = made.storage
    other = opened(allowed)
    other.study = browser.study
    number = other.pair()["number"]
    found = other.get(other.at(f"outcomes/{number}")).json()["outcomes"]
    assert {one["state"] for one in found} == {"known"}


@pytest.mark.parametrize("address", ["/api/studies", "/api/rehearsal"])
def test_a_request_runs_no_function_that_the_command_line_did_not_name(browser, address, tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("from pathlib import Path\nPath('sprung').touch()\ndef f(d): return {'o': 1.0}\n")
    monkeypatch.chdir(tmp_path)
    text = 'name = "x"\noutcomes = "trap:f"\n[parameters]\nkp = {low = 0.0, high = 1.0}\n'
    refused = browser.post(address, {"toml": text, "questions": 2})
    assert refused.status_code == 400 and "kappasharp serve --outcomes trap:f" in refused.json()["error"]
    assert not (tmp_path / "sprung").exists()


def test_measured_outcomes_are_shown_once_they_are_given(opened):
    browser = opened(with_outcomes(["mass", "cost"]))
    pair = browser.pair()
    unmeasured = {"words": "Not measured yet.", "key": "outcome.unmeasured", "values": {}}
    assert pair["a"]["outcomes"] == {"state": "none", "values": [], "sentence": unmeasured}
    study = browser.service.session(browser.study).study
    study.record(pair["a"]["params"], {"mass": 12.5})
    again = browser.pair()
    assert values(again["a"]["outcomes"]) == {"mass": 12.5} and again["b"]["outcomes"]["state"] == "none"
    browser.answer(again, "a")
    past = browser.get(browser.at("history")).json()
    assert past["outcomes"] == {str(again["a"]["option"]): {"mass": "12.5"}}
    study.record(pair["a"]["params"], None)
    assert browser.get(browser.at("best")).json()["outcomes"]["state"] == "none"  # which is no failure


def test_a_slider_has_the_outcomes_of_its_place(opened):
    browser = opened(with_outcomes(simulators.simulate, question="slider"))
    pair = browser.pair()
    at = browser.get(browser.at(f"line/{pair['number']}"), params={"place": 0.35}).json()
    assert at["outcomes"]["state"] == "known" and values(at["outcomes"]) == simulators.simulate(at["params"])
    done = browser.answer(pair, 0.35).json()["saved"]["event"]
    session = browser.service.session(browser.study)
    browser.run(session.results.complete(done))
    chosen = session.study.history.comparisons[done].options[0]
    assert session.study.history.outcomes(session.study.history.options[chosen]).runs


def test_the_view_of_outcomes(opened):
    browser = opened(with_outcomes(simulators.simulate, hints=HINTS, first_pairs=3))
    empty = browser.get(browser.at("outcomes")).json()
    assert (
        empty["taste"] == []
        and empty["trades"] == []
        and empty["better"] == dict.fromkeys(("overshoot", "settling"), "less")
    )
    answered(browser, 5)
    found = browser.get(browser.at("outcomes")).json()
    assert [one["caption"][0]["words"] for one in found["taste"]] == ["overshoot", "settling"]
    assert len(found["fronts"]) == 1 and "on the front" in found["fronts"][0]["label"]["words"]
    kinds = [mark["kind"] for mark in found["fronts"][0]["marks"] if mark["tag"] == "circle"]
    assert len(kinds) == len(found["rows"]) and kinds.count("dot best") == 1
    assert kinds.count("dot front") == sum(row["front"] and not row["best"] for row in found["rows"])
    assert len(found["trades"]) == 2 and all(one["key"].startswith("trade.") for one in found["trades"])
    assert {row["source"]["key"] for row in found["rows"]} == {"outcome.simulated"}
    best = browser.get(browser.at("best")).json()
    assert values(best["outcomes"]) == pytest.approx(best["best"]["outcomes"])
    text = browser.get(browser.at("export/python")).text
    assert "'function': 'tests.study.simulators:simulate'" in text


def test_a_study_without_outcomes_says_nothing_of_them(browser):
    assert browser.get(browser.at("outcomes")).status_code == 400
    pair = browser.pair()
    assert "outcomes" not in pair["a"] and "ranges" not in pair
    assert browser.get("/api/studies").json()["study"]["outcomes"] is None


@pytest.mark.parametrize(
    ("value", "within", "words"),
    [
        (0.12345, (0.0, 0.8), "0.123"), (3.456, (0.5, 12.0), "3.5"), (1234.56, (0.0, 5000.0), "1235"),
        (-0.0001, (-0.5, 0.5), "0.00"), (2.0, (2.0, 2.0), "2"), (1.5e7, (0.0, 2e7), "1.5e+07"),
        (0.1234567, (0.1234566, 0.1234568), "0.1235"), (7.25, None, "7.25"), (40.0, (0.0, 1.0), "40.0"),
        (math.pi, (3.0, 3.2), "3.142"),
    ],
)  # fmt: skip
def test_values_are_rounded_by_how_far_they_vary(value, within, words):
    assert outcomes.rounded(value, None if within is None else Range(*within)) == words


def row(option, mass, cost, *, front=False, best=False):
    return TradeOff(option, {}, {"mass": mass, "cost": cost}, {}, "measured", front, best)


def test_what_was_traded_for_what():
    rows = [row(0, 10.0, 5.0, front=True, best=True), row(1, 20.0, 2.0, front=True), row(None, 9.0, 5.0)]
    better = {"mass": "less", "cost": "less"}
    assert outcomes.trades(rows, better) == [
        "A design that was recorded has less mass (9.0 instead of 10.0) and is worse in none of the others.",
        "Design 1 has less cost (2.00 instead of 5.00) at the price of more mass (20.0 instead of 10.0).",
    ]
    assert outcomes.trades(rows, {"mass": "more", "cost": None}) == [
        "Design 1 has more mass (20.0 instead of 10.0) and is worse in none of the others."
    ]
    assert outcomes.trades(rows[:2], {"mass": "less", "cost": None}) == [
        "No design has less mass than the best one: 10.0."
    ]
    assert outcomes.trades(rows[1:], better) == []
    alike = [rows[0], rows[1], row(3, 10.0 - 1e-6, 9.0)]
    assert outcomes.trades(alike, better)[0] == "No design has less mass than the best one: 10.0."


def test_a_few_designs_far_out_do_not_squeeze_the_rest():
    assert outcomes.usual([1.0, 2.0, 3.0, 4.0, 5.0, 1046.0]) == (1.0, 5.0)
    assert outcomes.usual([1.0, 1.0, 1.0, 1.0, 9.0]) == (1.0, 9.0)
    near = [1.0 + 0.1 * i for i in range(10)]
    assert outcomes.usual([*near, 70.0, 80.0]) == (1.0, near[-1])
    assert outcomes.usual([*near, 70.0, 80.0, 90.0]) == (1.0, 90.0)  # so many are no exception
    assert outcomes.usual([7.0]) == (7.0, 7.0)
    rows = [row(i, float(i), 10.0 - i, front=True, best=i == 2) for i in range(6)] + [row(6, 900.0, 9.0)]
    table = [StudyOutcome("mass", at_most=4.0), StudyOutcome("cost")]
    chart = outcomes.fronts(rows, table, {"mass": "less", "cost": "less"})[0]
    assert (
        "1 far out, drawn at the edge" in chart.label and "the best, design 2, has mass 2.00, cost 8.0" in chart.label
    )
    dots = {mark.title.partition(":")[0]: mark.at["cx"] for mark in chart.marks if mark.tag == "circle"}
    assert dots["design 6"] == dots["design 5"] == max(dots.values()) and len(set(dots.values())) == 6
    assert [mark.kind for mark in chart.marks if mark.kind in ("limit", "front-line")] == ["limit", "front-line"]


def spoken(one, texts):
    """What the page makes of a sentence, by texts of its language."""
    if not isinstance(one, Sentence):
        return str(one)
    forms = texts[f"said.{one.key}"]
    form = forms[0] if one.values.get("count") == 1 else forms[-1]
    return re.sub(r"{(\w+)}", lambda place: spoken(one.values[place[1]], texts), form)


def keys_of(one):
    """The keys of a sentence and of all that stand in it."""
    inner = (keys_of(value) for value in one.values.values() if isinstance(value, Sentence))
    return {f"said.{one.key}"}.union(*inner)


def words_of(chart):
    """Everything that a chart says."""
    drawn = [words for mark in chart.marks for words in (mark.words, mark.title)]
    return [chart.label, *drawn, *(one.words for one in chart.caption)]


def traded():
    """What the panel says of studies that have all kinds of designs."""
    rows = [row(i, float(i), 10.0 - i, front=True, best=i == 2) for i in range(6)]
    rows += [row(None, 0.5, 11.0), row(6, 900.0, 9.0)]
    off_front = [row(1234, 3.0, 3.0, best=True), row(None, 2.5, 2.0, front=True)]
    extreme = [row(0, 1.0, 2.0, front=True, best=True), row(1, 2.0, 1.0, front=True)]
    table = [StudyOutcome("mass"), StudyOutcome("cost")]
    found = [*outcomes.SOURCES.values()]
    dear = [replace(one, outcomes=one.outcomes | {"noise": 3.0 - i}) for i, one in enumerate(extreme)]
    found += outcomes.trades(dear[::-1], {"mass": "more", "cost": "less", "noise": "less"})
    found += outcomes.trades(dear, {"mass": "more", "cost": "more", "noise": "more"})
    for some, better in product((rows, off_front, extreme), product(("less", "more", None), repeat=2)):
        ways = dict(zip(("mass", "cost"), better, strict=True))
        found += outcomes.trades(some, ways)
        found += [words for one in outcomes.fronts(some, table, ways) for words in words_of(one)]
    return found


def test_all_that_was_traded_is_said_in_every_language():
    """Every sentence of the trades, the charts of the front and the sources: nothing is English alone but names."""
    found = traded()
    bare = {one for one in found if not isinstance(one, Sentence)}
    assert all(re.fullmatch(r"\d*|(↑ )?(mass|cost)( →)?", one) for one in bare)
    said = [one for one in found if isinstance(one, Sentence)]
    english, german, chinese = (texts(language) for language in ("en", "de", "zh"))
    assert [one for one in said if spoken(one, english) != one] == []
    assert [one for one in said if re.search("[a-z]{3}", re.sub("mass|cost|noise", "", spoken(one, chinese)))] == []
    assert [one for one in said if re.search("[a-z]{3}", one.lower()) and spoken(one, german) == one] == []
    own = re.compile(r"said\.(trade\..+|chart\.(front|dot|way|axis)\b.*|outcome\.(simulated|measured))")
    assert {key for key in english if own.fullmatch(key)} <= set().union(*map(keys_of, said))


def test_a_trade_in_german_and_chinese():
    rows = [row(0, 10.0, 5.0, front=True, best=True), row(1, 20.0, 2.0, front=True), row(None, 9.0, 5.0)]
    better = {"mass": "less", "cost": "less"}
    free, paid = outcomes.trades(rows, better)
    assert spoken(paid, texts("de")) == (
        "Variante 1 hat weniger cost (2.00 statt 5.00), dafür aber mehr mass (20.0 statt 10.0)."
    )
    assert spoken(paid, texts("zh")) == "方案 1：cost 更小（2.00 而非 5.00），代价是 mass 更大（20.0 而非 10.0）。"
    assert spoken(free, texts("de")).startswith("Eine erfasste Variante hat weniger mass")
    label = outcomes.fronts(rows, [StudyOutcome("mass"), StudyOutcome("cost")], better)[0].label
    assert spoken(label, texts("de")) == (
        "3 Varianten nach mass und cost; 2 auf der Front, markiert; die beste, Variante 0, hat mass 10.0, cost 5.00"
    )


def test_words_of_dots_cover_neither_each_other_nor_a_dot():
    rows = [row(i, 1.0 + 0.001 * i, 2.0, front=True, best=i == 3) for i in range(5)]
    rows += [row(i, i / 3.0, 1.0, front=True) for i in (6, 9)] + [row(7, 2.03, 1.02)]
    table = [StudyOutcome("mass"), StudyOutcome("cost")]
    chart = outcomes.fronts(rows, table, {"mass": "less", "cost": "less"})[0]
    words = [mark for mark in chart.marks if mark.tag == "text" and mark.kind in ("axis front", "axis best")]
    assert words[0].words == "best: 3" and {"6", "9"} < {mark.words for mark in words}
    rooms = []
    for mark in words:
        wide = charts.LETTER * len(mark.words)
        left = mark.at["x"] - (wide if mark.at["text-anchor"] == "end" else 0.0)
        rooms.append((left, mark.at["y"] - 8, left + wide, mark.at["y"]))
    for dot in (mark.at for mark in chart.marks if mark.tag == "circle"):
        rooms.append((dot["cx"] - 2, dot["cy"] - 2, dot["cx"] + 2, dot["cy"] + 2))
    for one, other in product(rooms[: len(words)], rooms):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert one == other or apart


def test_a_request_may_name_measured_outcomes_and_limits_but_no_function(browser):
    given = {"name": "chair", "parameters": {"width": {"low": 10, "high": 60}}, "limits": ["width <= 50"]}
    made = browser.post("/api/studies", given | {"outcomes": {"mass": {"better": "less"}}}).json()["id"]
    assert browser.get(f"/api/studies/{made}/outcomes").json()["names"] == ["mass"]
    refused = browser.post("/api/studies", given | {"name": "other", "outcomes": "os:system"})
    assert refused.status_code == 400 and "runs no code that the command line did not name" in refused.text


def test_what_is_noted_of_outcomes_and_limits_comes_with_its_keys(opened):
    """What a page needs to say it in its own language: key and values, the limits among them."""
    function = "tests.study.simulators:half_constant"
    browser = opened(with_outcomes(function, limits=["kp + ki <= 3", AtMost("overshoot", 0.5)]))
    study = browser.service.session(browser.study).study
    study.add_comparison({"kp": 3.0, "ki": 2.0}, {"kp": 1.0, "ki": 1.0}, voter="anna")
    study.add_comparison({"kp": 1.0, "ki": 1.0}, {"kp": 0.5, "ki": 1.0}, voter="ben")
    notes = browser.get(browser.at("outcomes")).json()["notes"]
    assert [(one["key"], one["values"].get("name")) for one in notes] == [("note.same", "settling")]
    (better,) = browser.get(browser.at("best")).json()["notes"]
    assert better["key"] == "limit.better" and better["values"] == {"option": 0}
    team = [one["key"] for one in browser.get(browser.at("team")).json()["found"]["sentences"]]
    assert team.index("limit.better") > team.index("team.best")
    why = browser.get(browser.at("why")).json()["sentences"]
    assert any(one["values"].get("reason", {}).get("key") == "why.breaks" for one in why)
