"""Nothing holds up the loop: while voters answer and models are fitted, the page's own files come at once."""

import asyncio
import gc
import threading
import time

import pytest
from sqlalchemy import event

from kappasharp.exchange import study_toml
from kappasharp.web.responses import assets
from kappasharp.web.service import Service
from tests.web.crowd import all_vote
from tests.web.doubles import service

VOTERS, TURNS = 16, 2
# Seconds of the processor that one step of the loop may take; all else waits for that long.
MOST_AT_ONCE = 0.05


@pytest.fixture
def steps(monkeypatch):
    """The processor time of each step of a loop, in seconds: a machine that is busy with other things adds nothing."""
    run, found = asyncio.Handle._run, []

    def timed(handle):
        begun = time.thread_time()
        run(handle)
        found.append(time.thread_time() - begun)

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    gc.freeze()  # what other tests left in this process is not looked through in the middle of a step
    yield found
    gc.unfreeze()


def test_sixteen_voters_are_all_acknowledged_and_no_step_of_the_loop_is_long(opened, steps):
    """With real workers, and the model on."""
    of = service()
    of.computing = Service(of.storage).computing
    browser = opened(of)
    browser.run(of.computing.run(len, (), limit=60.0))
    session = of.session(browser.study)
    steps.clear()
    told, _ = browser.run(all_vote(browser.client, browser.study, VOTERS, TURNS))
    assert [one.status_code for one in told] == [200] * (VOTERS * TURNS)
    stored = session.study.history.comparisons
    assert len({one.json()["saved"]["event"] for one in told}) == len(stored) == VOTERS * TURNS

    async def fitted():
        while session.stock.standing is None:
            await asyncio.sleep(0.02)

    # So many answers at once are first pairs from the stock; the model's own come as soon as it is fitted.
    browser.run(fitted())
    browser.run(all_vote(browser.client, browser.study, VOTERS, 1))
    assert any(asked.origin == "model" for _, asked in session.study.history.asked.values())
    assert max(steps) < MOST_AT_ONCE


def test_files_come_while_all_who_answer_wait_for_the_database(browser):
    """Threads wait for it, and as many as there are: no file needs one."""
    waiting, opens = [], threading.Event()

    def wait(_):
        waiting.append(threading.get_ident())
        assert opens.wait(120)

    async def files_meanwhile():
        votes = asyncio.create_task(all_vote(browser.client, browser.study, VOTERS, 1))
        while not waiting:
            await asyncio.sleep(0.01)
        for _ in range(20):
            answer = await asyncio.wait_for(browser.client.get("/static/app.js"), 60)
            assert answer.content == assets()["app.js"]
        assert not votes.done()
        opens.set()
        return await votes

    browser.service.session(browser.study)
    event.listen(browser.service.storage._engine, "begin", wait)
    told, _ = browser.run(files_meanwhile())
    assert [one.status_code for one in told] == [200] * VOTERS and threading.get_ident() not in waiting


READS = ["", "/pair?voter=me", "/pair?voter=new", "/standing", "/best", "/model", "/history", "/card/0"]
READS += ["/ahead?voter=me", "/export/json", "/export/csv", "/export/options", "/export/html", "/export/python"]
WRITES = [
    ("answer", {"pair": 1, "answer": "a", "voter": "me"}),
    ("answer", {"pair": 1, "answer": "b", "voter": "me"}),
    ("answer", {"pair": 3, "answer": "b", "voter": "me"}),
    ("undo", {"voter": "me"}),
    ("amend", {"event": 2, "answer": "b", "voter": "me"}),
    ("again", {"pair": 1, "voter": "me"}),
    ("challenge", {"option": 0, "voter": "me"}),
    ("settle", {"voter": "me"}),
]
PARAMETERS = {"x": {"low": 0, "high": 1}}
ELSEWHERE = [
    ("/api/studies", {"name": "new", "parameters": PARAMETERS}),
    ("/api/rehearsal", {"parameters": PARAMETERS, "person": "exact", "questions": 1}),
]


class Watched:
    """A lock that notes which threads take it."""

    def __init__(self, lock, threads):
        self.lock, self.threads = lock, threads

    def __enter__(self):
        self.threads.add(threading.get_ident())
        return self.lock.__enter__()

    def __exit__(self, *given):
        return self.lock.__exit__(*given)


def test_no_request_touches_a_study_or_its_database_on_the_loop(browser, monkeypatch):
    """Either may make it wait: the lock for another thread, the database for another program."""
    threads, read = set(), study_toml.parse
    study = browser.service.session(browser.study).study
    study._lock = Watched(study._lock, threads)
    event.listen(browser.service.storage._engine, "begin", lambda _: threads.add(threading.get_ident()))
    # What a page describes may be large: reading it is work too.
    monkeypatch.setattr(study_toml, "parse", lambda *given: (threads.add(threading.get_ident()), read(*given))[1])
    at, statuses = f"/api/studies/{browser.study}", []
    statuses.append(browser.answer(browser.pair(), "a").status_code)
    for end, data in WRITES:
        statuses.append(browser.post(f"{at}/{end}", data).status_code)
    for path, data in ELSEWHERE:
        statuses.append(browser.post(path, data).status_code)
    for path in (*(at + path for path in READS), "/api/studies", "/api/studies?study=new"):
        statuses.append(browser.get(path).status_code)

    async def after_looking_ahead():
        await browser.service.session(browser.study).looking

    browser.run(after_looking_ahead())
    assert set(statuses) == {200, 201, 409}, statuses
    assert threads and threading.get_ident() not in threads


@pytest.mark.parametrize("count", [4, 16])
def test_first_requests_at_the_same_time_open_one_session(browser, count):
    of, uid = browser.service, browser.study
    begin, found = threading.Barrier(count), []

    def first():
        begin.wait()
        found.append(of.session(uid))

    threads = [threading.Thread(target=first) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len({id(session) for session in found}) == 1
