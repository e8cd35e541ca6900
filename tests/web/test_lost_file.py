"""A page whose database file is gone or another says so, acknowledges nothing, and goes on when it is back."""

import signal
from types import SimpleNamespace

import pytest

from kappasharp.store.storage import Storage
from kappasharp.study.collection import create_study, load_study
from kappasharp.web.service import Service
from tests.study.test_lost_file import BREAKS, answers, moved, settle
from tests.web.chromium import Server
from tests.web.crowd import client
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
