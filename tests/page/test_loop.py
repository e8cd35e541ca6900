"""Nothing holds up the loop: while voters answer and models are fitted, the page's own files come at once."""

import asyncio
import threading
import time
from statistics import median

import pytest
from sqlalchemy import event

from kappasharp.app.web.responses import assets
from kappasharp.app.web.service import Service
from kappasharp.study import toml_file
from tests.page.crowd import Lateness, all_vote
from tests.page.doubles import service

VOTERS, TURNS = 16, 2
# In seconds. The median beside that of the idle server; the largest beside how late the machine meanwhile woke a
# process that only slept, for it may be busy with other things. On an idle one these are the page's bars themselves.
MOST_AT_MEDIAN, MOST_EVER = 0.05, 0.25


async def _file(browser):
    begun = time.perf_counter()
    answer = await browser.client.get("/static/app.js")
    assert answer.content == assets()["app.js"]
    return time.perf_counter() - begun


async def _files_during(browser, work):
    """Latencies of a file on the idle server, and while the work goes on."""
    idle = [await _file(browser) for _ in range(20)]
    task, busy = asyncio.create_task(work), []
    while not task.done():
        busy.append(await _file(browser))
        await asyncio.sleep(0.005)
    return idle, busy, await task


def _sixteen_vote(opened):
    """Latencies before and during the votes, and how late the machine itself was."""
    of = service()
    fresh = Service(of.storage)
    of.computing = fresh.computing
    browser = opened(of)
    browser.run(of.computing.run(len, (), limit=60.0))
    with Lateness() as machine:
        idle, busy, (told, _) = browser.run(
            _files_during(browser, all_vote(browser.client, browser.study, VOTERS, TURNS))
        )
    assert [one.status_code for one in told] == [200] * (VOTERS * TURNS)
    study = of.session(browser.study).study
    assert len({one.json()["saved"]["event"] for one in told}) == len(study.history.comparisons) == VOTERS * TURNS
    # So many answers at once are first pairs from the stock; the model's own come as soon as it is fitted.
    for _ in range(20):
        if any(event.origin == "model" for _, event in study.history.asked.values()):
            return idle, busy, machine.latest
        browser.run(all_vote(browser.client, browser.study, VOTERS, 1))
    return pytest.fail("the model asked nothing")


def test_sixteen_voters_are_all_acknowledged_and_files_come_at_once(opened):
    """With real workers, and the model on.

    A server that waits on a lock or a fit does so every time; this process, which holds all that other tests left, or
    its machine may pause once. So one of three goes must be quick throughout.
    """
    slow = []
    for _ in range(3):
        idle, busy, late = _sixteen_vote(opened)
        if median(busy) <= median(idle) + MOST_AT_MEDIAN and max(busy) <= late + MOST_EVER:
            return
        slow.append((median(idle), median(busy), max(busy), late))
    pytest.fail(f"a file waited each time (seconds idle and busy, at most, and the machine's own lateness): {slow}")


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
    threads, read = set(), toml_file.parse
    study = browser.service.session(browser.study).study
    study._lock = Watched(study._lock, threads)
    event.listen(browser.service.storage._engine, "begin", lambda _: threads.add(threading.get_ident()))
    # What a page describes may be large: reading it is work too.
    monkeypatch.setattr(toml_file, "parse", lambda *given: (threads.add(threading.get_ident()), read(*given))[1])
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
