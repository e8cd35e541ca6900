"""The Team view in a real browser: a jury of two tastes, a program, somebody without answers; on a phone; axe."""

import random

import pytest

from kappasharp.app.examples import cabin
from kappasharp.study.collection import create_study, storage_of
from tests.web import chromium
from tests.web.chromium import PHONE, WIDE, complaints, opened, says, serving, study_of, visit

NAME, WIDE_NAME = "Jury", "thirty parameters"
LIKES = {"anna": 15.0, "ben": 50.0, "cleo": 15.0, "dirk": 50.0, "eve": 15.0}
THIRTY = {f"parameter {i}": (0.0, 1.0) for i in range(30)}
TURNS = 14


def jury(storage):
    """Five people of two tastes in the roof's pitch, a program with few answers, and a guest without any."""
    study, chance = create_study(cabin.SPACE, storage=storage, study_name=NAME, seed=1), random.Random(1)
    draw = study.space.draw
    for _ in range(TURNS):
        for voter, pitch in LIKES.items():
            pair = [draw([chance.random() for _ in study.space.tuned]) for _ in "ab"]
            off = [abs(one["roof pitch"] - pitch) for one in pair]
            better = off.index(min(off))
            study.add_comparison(pair[better], pair[1 - better], voter=voter)
    study.join_as_program("judge", "a script")
    for _ in range(2):
        study.tell(study.ask(voter="judge"), "a")
    study.ask(voter="fred")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    storage = storage_of(f"sqlite:///{folder / 'page.db'}")
    jury(storage)
    alone = create_study(THIRTY, storage=storage, study_name=WIDE_NAME)
    for _ in range(4):
        asked = alone.ask()
        alone.tell(asked, "a" if asked.a["parameter 7"] > asked.b["parameter 7"] else "b")
    storage.close()
    with serving(folder, NAME, "--render", "kappasharp.app.examples.cabin:render") as found:
        yield found


@pytest.fixture
def context(chrome):
    with chromium.contexts(chrome, **WIDE, bypass_csp=True, reduced_motion="reduce") as make:
        yield make


def test_a_jury_of_two_tastes(context, server):
    page = opened(context, server, "me", "#best")
    page.get_by_role("link", name="What the voters have in common").click()
    page.locator(".voters li").first.wait_for()
    assert page.locator("nav a", has_text="Team").get_attribute("aria-current") == "page"
    assert page.locator(".map svg circle.node").count() == 6 and page.locator(".map svg rect.node").count() == 1
    assert page.locator(".map svg .group-0.node").count() == 3 and page.locator(".map svg .group-1.node").count() == 2
    assert page.locator(".groups p").all_inner_texts() == ["anna, cleo, eve", "ben, dirk", "judge, fred"]
    assert page.locator(".splits li b").first.inner_text() == "roof pitch"
    flags = {name: page.locator(f"[data-voter='{name}'] .flag").all_inner_texts() for name in ("anna", "judge", "fred")}
    assert flags == {"anna": [], "judge": ["program"], "fred": ["no answers yet: predicted"]}
    assert "14 answers" in page.locator("[data-voter='anna']").inner_text()
    assert page.locator(".suits img").count() == 2
    page.locator("[data-voter='dirk']").scroll_into_view_if_needed()
    page.locator("[data-voter='dirk'] img").wait_for()
    for fold in page.locator("details.panel > summary").all():
        fold.click()
    assert page.locator("tbody tr").count() == 7 and complaints(page) == []


def test_weights_move_the_best_for_all_and_what_is_older_is_said_to_be(context, server):
    page = opened(context, server, "me", "#team")
    page.locator(".weights summary").click()
    before = page.locator(".suits.best .option-number").inner_text()
    for name in ("anna", "cleo", "eve", "judge"):
        page.locator(".weights").get_by_label(name, exact=True).fill("0")
    page.get_by_role("button", name="Save weights").click()
    says(page, "The weights are saved.")
    assert page.locator(".suits.best .option-number").inner_text() != before
    assert page.locator("[data-voter='eve'] .flag").all_inner_texts() == ["counts 0"]
    # The best design of the other views is that of these weights, and says so.
    weighed = page.locator(".suits.best .option-number").inner_text()
    visit(page, "best")
    page.get_by_text(
        "It is the best by the weights that are set: anna 0, cleo 0, eve 0, judge 0; the others"
    ).wait_for()
    study = study_of(server, NAME)
    assert f"#{study.best.option}" == weighed
    visit(page, "team")
    assert study.history.weights == {"anna": 0, "ben": 1, "cleo": 0, "dirk": 1, "eve": 0, "judge": 0, "fred": 1}
    study.storage.close()
    page.locator(".weights summary").click()
    page.get_by_role("button", name="Count all alike").click()
    page.locator(f".suits.best .option-number:text-is('{before}')").wait_for()

    # What was computed last is shown with its age while the newest is computed.
    held = []
    page.route("**/team", lambda route: held.append(route))  # noqa: PLW0108 - Playwright marks what it is given
    study = study_of(server, NAME)
    study.tell(study.ask(voter="judge"), "b")
    study.storage.close()
    page.goto(f"{page.url.split('#')[0]}#history")
    page.locator("table.history tbody tr", has_text="judge").first.locator(".flag", has_text="program").wait_for()
    page.goto(f"{page.url.split('#')[0]}#team")
    page.locator(".team [role='status']", has_text="This rests on 72 answers").wait_for()
    assert page.locator(".voters li").count() == 7
    page.unroute("**/team")  # which lets go of what was held
    page.locator("[data-voter='judge']", has_text="3 answers").wait_for()
    assert page.locator(".team [role='status']").inner_text() == ""


def test_a_team_on_a_phone_and_no_team_of_one(context, server):
    phone = opened(context, server, "me", "#team", **PHONE)
    phone.locator(".voters li").first.wait_for()
    # In another language nothing of it stays English.
    phone.get_by_label("Language").select_option("de")
    phone.get_by_text("Am meisten trennt sie roof pitch").wait_for()
    assert phone.locator(".team [lang], .map text:text-matches('voters|alike')").count() == 0
    phone.get_by_label("Sprache").select_option("en")
    phone.get_by_text("of all voters it suits").wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") == 390 and complaints(phone) == []
    assert phone.locator("nav").evaluate("one => one.scrollWidth <= one.clientWidth")  # every tab is in sight
    page = context().new_page()
    page.goto(f"{server.link}&study={WIDE_NAME.replace(' ', '+')}#best")
    page.locator(".slices .chart").first.wait_for()
    assert page.locator("nav a", has_text="Team").count() == 0
    # Of thirty parameters those come first that matter; the rest is folded.
    assert page.locator(".panel > .parameters dt, .panel > div > .parameters dt").count() == 8
    assert page.locator("summary", has_text="22 more parameters, which matter less").count() == 3
    assert page.locator(".slices .chart:visible").count() == 8
    assert complaints(page) == []
    # A second voter brings the tab with the next question.
    study = study_of(server, WIDE_NAME)
    study.ask(voter="zoe")
    study.storage.close()
    visit(page, "compare")
    page.locator("nav a", has_text="Team").wait_for()
    # On a card as many as it has room for, and the fold below them.
    for one in page.locator(".card").all():
        card, fold = one.bounding_box(), one.locator(".fold summary").bounding_box()
        assert fold["y"] + fold["height"] < card["y"] + card["height"]
