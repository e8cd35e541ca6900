"""A page whose database file is gone or another says so, acknowledges nothing, and goes on when it is back."""

import signal
from types import SimpleNamespace

import pytest

from kappasharp.store.storage import Storage
from kappasharp.study.collection import create_study, load_study
from kappasharp.web.live_updates import BEAT
from kappasharp.web.service import Service
from tests.study.test_lost_file import BREAKS, answers, moved, settle
from tests.web import chromium
from tests.web.chromium import WIDE, Server
from tests.web.crowd import client, study_of
from tests.web.doubles import SPACE, WRITE, AtOnce


@pytest.fixture
def file(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "page.db"


@pytest.fixture
def study(file):
    found = create_study(SPACE, storage=f"sqlite:///{file}", study_name="s", first_pairs=50)
    answers(found, 3)
    found.storage.back_up(file.with_name("old.db"))
    answers(found, 3)
    found.storage.close()
    return found


def over(file):
    """A service over that database."""
    made = Service(Storage(f"sqlite:///{file}"))
    made.computing, made.drawing = AtOnce(1), AtOnce(1)
    made.folder = SimpleNamespace(cleanup=lambda: None)
    made.show(load_study("s", storage=made.storage))
    return made


@pytest.mark.parametrize("how", BREAKS)
def test_an_answer_is_refused_told_once_in_the_log_and_taken_when_the_file_is_back(study, file, how, opened):
    service = over(file)
    browser = opened(service)
    pair, said = browser.pair(), []
    settle(service.storage)
    service.storage.alarmed = said.append
    put_back = BREAKS[how][0](file)
    for _ in range(4):
        told = browser.answer(pair, "a")
        assert told.status_code == 503 and told.json()["said"]["key"].startswith("fault.")
        assert told.json()["said"]["values"]["name"] in ("page.db", "s")
    assert said == [told.json()["error"]]
    put_back()
    told = browser.answer(pair, "a").json()
    stored = load_study("s", storage=f"sqlite:///{file}").history.comparisons
    assert stored[told["saved"]["event"]].answer == "a" and len(stored) == 7


def test_guests_do_not_learn_where_the_file_is(study, file, opened):
    service = over(file)
    browser = opened(service)
    guest = browser.came_by("voter", "Ann")
    moved(file)
    for path in (guest.at("pair"), "/api/studies"):
        told = guest.get(path)
        assert told.status_code == 503 and told.json()["said"]["key"] == "fault.gone"
        assert "page.db is gone" in told.text and str(file.parent) not in told.text


def test_the_page_itself_comes_to_guests_too(study, file, opened):
    """Its words say what is wrong; who is let in nowhere gets no more than that page."""
    guest = opened(over(file)).came_by("viewer")
    put_back = moved(file)
    for path in ("/", "/static/app.js"):
        told = guest.get(path)
        assert told.status_code == 200 and "page.db" not in told.text
    for path in (guest.at("pair"), guest.at("history"), "/api/news"):
        assert guest.get(path).status_code == 503
    assert guest.client.cookies and guest.post("/", {}).status_code == 405
    put_back()
    assert guest.get(guest.at("history")).status_code == 200


def test_a_guests_page_says_what_happened_and_goes_on_by_itself(study, file):
    """One that listens hears again; one that is opened meanwhile comes up when the file is back."""
    server = Server(file.parent, "s")
    try:
        with client(server.link) as host:
            at = f"/api/studies/{study_of(server.link)}/invites"
            link = host.post(at, json={"role": "voter"}, headers=WRITE).json()["link"]
        with chromium.launched() as browser, chromium.contexts(browser, **WIDE) as context:
            page = context().new_page()
            page.goto(link)
            page.get_by_role("textbox").fill("Ann")
            page.keyboard.press("Enter")
            chromium.settle(page)
            put_back = moved(file)
            with page.expect_response(lambda told: told.url.endswith("/answer")):
                page.keyboard.press("ArrowLeft")
            chromium.says(page, "The database file page.db is gone")
            # Who is let in is asked for at every beat of the stream.
            page.wait_for_timeout(1e3 * (BEAT + 1))
            page.reload()
            page.locator(".problem", has_text="The database file page.db is gone").wait_for()
            put_back()
            chromium.settle(page)
    finally:
        server.close()
    assert "Traceback" not in (file.parent / "errors.txt").read_text()


def test_a_server_says_it_once_and_ends_when_it_is_told_to(study, file):
    server = Server(file.parent, "s")
    try:
        with client(server.link) as browser:
            at = f"/api/studies/{browser.get('/api/studies').json()['study']['id']}"
            pair = browser.get(f"{at}/pair", params={"voter": "me"}).json()["pair"]["number"]
            data = {"pair": pair, "answer": "a", "seconds": 1.0, "voter": "me"}
            put_back = moved(file)
            for _ in range(5):
                assert browser.post(f"{at}/answer", json=data, headers=WRITE).status_code == 503
                assert browser.get("/api/studies").status_code == 503
            put_back()
            assert browser.post(f"{at}/answer", json=data, headers=WRITE).status_code == 200
            moved(file)
            assert browser.post(f"{at}/answer", json=data, headers=WRITE).status_code == 503
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
    finally:
        server.close()
    said = (file.parent / "errors.txt").read_text()
    assert said.count("is gone") == 2 and said.count("this goes on.\n") == 1 and "Traceback" not in said
