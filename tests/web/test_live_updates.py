"""What happens in a study is told to every page, whichever process it happened in: streams, two servers."""

import asyncio
import json
import sys
import threading
from collections import Counter
from concurrent.futures import thread as pools
from contextlib import asynccontextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import httpx
import pytest
import uvicorn

from kappasharp.errors import StorageError
from kappasharp.study.collection import create_study, load_study
from kappasharp.web import connections, guard, live_updates, lookahead, server
from kappasharp.web.workers import WorkerError
from tests.waiting import wait_until
from tests.web.chromium import serving
from tests.web.crowd import client
from tests.web.doubles import TOKEN, WRITE, service

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
VOTERS, TURNS = 6, 4


@asynccontextmanager
async def heard(browser, study):
    """What a stream says, message by message: a function that waits for the next of a kind."""
    async with browser.stream("GET", "/api/news", params={"study": study}) as stream:
        assert stream.status_code == 200 and stream.headers["content-type"].startswith("text/event-stream")
        assert "no-transform" in stream.headers["cache-control"]
        lines = stream.aiter_lines()

        async def until(right):
            async for line in lines:
                if line.startswith("data: ") and right(found := json.loads(line.removeprefix("data: "))):
                    return found
                if line == "event: deleted":
                    return "deleted"
            return "ended"

        yield until


class Balanced:
    """A client whose requests go to two servers by turns, as through a proxy that does not care which."""

    def __init__(self, *browsers):
        self.browsers, self.count = browsers, 0

    def _next(self):
        self.count += 1
        return self.browsers[self.count % 2]

    async def get(self, path, **more):
        return await self._next().get(path, **more)

    async def post(self, path, data):
        return await self._next().post(path, json=data, headers=WRITE)


async def vote(balanced, at, voter):
    """Answers through both servers; each third one is sent to both at once, and must be one answer."""
    told = []
    pair = (await balanced.get(f"{at}/pair", params={"voter": voter})).json()["pair"]
    for turn in range(TURNS):
        data = {"pair": pair["number"], "answer": "ab"[turn % 2], "seconds": 1.0, "voter": voter}
        sent = [balanced.post(f"{at}/answer", data) for _ in range(2 if turn % 3 == 0 else 1)]
        found = [one.json() for one in await asyncio.gather(*sent)]
        assert len({one["saved"]["event"] for one in found}) == 1
        told.append((voter, pair["number"], found[0]["saved"]["event"]))
        # Whichever server is asked, the question that waits is the same.
        pair = (await balanced.get(f"{at}/pair", params={"voter": voter})).json()["pair"]
    return told


@pytest.fixture
def two_servers(postgres, tmp_path):
    """Two processes on one PostgreSQL, and their study."""
    url = postgres.replace("postgresql://", "postgresql+psycopg://", 1)
    study = create_study(SPACE, storage=url, study_name="both", first_pairs=3)
    words = ("both", "--storage", url, "--render", "tests.web.renderers:svg")
    with serving(tmp_path, *words) as one, serving(tmp_path, *words) as other:
        yield one, other, study
    if any(record.name == "both" for record in study.storage.studies()):
        study.storage.delete(study.stored)
    study.storage.close()


def test_two_servers_on_one_database_are_one_page(two_servers):
    one, other, study = two_servers
    # One key opens both: it hangs on the database.
    assert one.link.partition("?")[2] == other.link.partition("?")[2]
    at, uid = f"/api/studies/{study.stored.uid}", study.stored.uid

    async def all_of_it():
        async with client(one.link, httpx.AsyncClient) as first, client(other.link, httpx.AsyncClient) as second:
            balanced = Balanced(first, second)
            told = [
                row
                for rows in await asyncio.gather(*(vote(balanced, at, f"v{k}") for k in range(VOTERS)))
                for row in rows
            ]
            history = study.history
            assert sorted(told) == sorted((row.voter, row.pair, row.event) for row in history.comparisons.values())
            shown = Counter(frozenset(map(str, asked.designs)) for asked, _ in history.asked.values())
            assert max(shown.values()) == 1
            await across(first, second, at, uid)

    asyncio.run(all_of_it())


async def across(first, second, at, uid):
    """What is done through one server is seen by pages of the other, within a second where nothing is computed."""
    voter, count = {"voter": "v0"}, VOTERS * TURNS
    async with heard(second, uid) as until, asyncio.timeout(120):
        await until(lambda found: found["answers"] == count and found["standing"] is not None)
        pair = (await first.get(f"{at}/pair", params=voter)).json()["pair"]
        for card in (pair["a"]["card"], pair["b"]["card"]):
            # The other server never drew it.
            assert (await second.get(f"{at}/picture/{card['key']}")).status_code == 200

        await first.post(f"{at}/answer", json={"pair": pair["number"], "answer": "a"} | voter, headers=WRITE)
        await until(lambda found: found["answers"] == count + 1)
        await first.post(f"{at}/undo", json=voter, headers=WRITE)
        assert await until(lambda found: found["answers"] == count)
        assert (await second.get(f"{at}/pair", params=voter)).json()["pair"]["number"] == pair["number"]
        await first.post(f"{at}/rename", json=voter | {"name": "all"}, headers=WRITE)
        await until(lambda found: found["name"] == "all")
        # The first server's own pages hear of what the second does just so, the end included.
        async with heard(first, uid) as mine:
            await second.post(f"{at}/delete", json=voter | {"name": "all"}, headers=WRITE)
            assert await until(lambda _: False) == await mine(lambda _: False) == "deleted"
        assert (await first.get(f"{at}/pair", params=voter)).status_code == 404


def test_what_was_computed_ahead_is_given_up_when_another_process_writes():
    async def two_processes():
        of = service()
        of.news.start()
        session = of.session(of.current)
        topic = of.news.topic(session)
        await session.pair("ann")
        await session.looking
        before = session.speculation._ahead["ann"].number
        elsewhere = load_study("taste", storage=of.storage.url)
        elsewhere.tell(elsewhere.ask("shell"), "a")
        while session.speculation._ahead.get("ann") is None or session.speculation._ahead["ann"].number == before:
            await asyncio.sleep(0.02)
        now = session.speculation._ahead["ann"].number
        assert now == elsewhere.history.number > before and json.loads(topic.message[6:])["answers"] == 1
        elsewhere.storage.close()
        of.close()
        of.storage.close()
        of.folder.cleanup()

    asyncio.run(asyncio.wait_for(two_processes(), 120))


def test_whoever_is_shut_out_hears_nothing_after_the_next_beat(monkeypatch):
    """Also who came between two beats of the clock that all streams share."""
    monkeypatch.setattr(live_updates, "BEAT", 0.6)

    async def ended():
        of = service()
        topic, loop, allowed = of.news.topic(of.session(of.current)), asyncio.get_running_loop(), {"is": True}

        async def listen(is_still_in):
            async for _ in topic.messages(is_still_in):
                pass
            return loop.time()

        async def anybody():
            return allowed["is"]

        first = asyncio.create_task(listen(anybody))
        await asyncio.sleep(0.3)
        late = asyncio.create_task(listen(anybody))
        await asyncio.sleep(0.1)
        allowed["is"], since = False, loop.time()
        found = [at - since for at in await asyncio.gather(first, late)]
        of.close()
        of.storage.close()
        of.folder.cleanup()
        return found

    assert max(asyncio.run(ended())) < 0.6


def test_many_voters_get_questions_in_stock_that_say_how_old_they_are(browser):
    study = browser.service.session(browser.study).study
    for turn in range(study.definition.first_pairs):
        study.tell(study.ask("before"), "ab"[turn % 2])
    voters = [f"v{k}" for k in range(12)]
    pairs = {voter: browser.pair(voter) for voter in voters}
    session = browser.service.session(browser.study)
    assert session.is_crowded
    for turn in range(3):
        for voter in voters:
            pairs[voter] = browser.answer(pairs[voter], "ab"[turn % 2], voter).json()["pair"]
    assert all(pair["rests_on"] <= pair["answers"] for pair in pairs.values())
    assert any(pair["rests_on"] < pair["answers"] - 1 for pair in pairs.values())
    shown = Counter(frozenset(map(str, asked.designs)) for asked, _ in study.history.asked.values())
    assert max(shown.values()) == 1
    # A wish of somebody's comes before what is in stock.
    study.enqueue({"x": 0.11, "y": 0.12}, {"x": 0.21, "y": 0.22})
    assert browser.answer(pairs["v0"], "a", "v0").json()["pair"]["origin"] == "queue"
    study.narrow("x", 0.0, 0.5)
    following = browser.answer(pairs["v1"], "a", "v1").json()
    if "pair" in following:
        assert max(side["params"]["x"] for side in following["pair"]["designs"]) <= 0.5


def busy(before):
    """Threads that were not there before and do something: those of a pool that wait for work do not."""
    frames = sys._current_frames()
    doing = {one: frames.get(one.ident) for one in {*threading.enumerate()} - before}
    return [one for one, at in doing.items() if at is None or at.f_code.co_filename != pools.__file__]


def test_streams_do_not_hold_up_the_end_and_have_a_limit(monkeypatch):
    """A real uvicorn: a stream has no end of its own, and the server ends all the same."""
    of = service()
    app = server.application(of, token=TOKEN, hosts=guard.allowed_hosts("127.0.0.1"))
    config = connections.configured(app)
    config.lifespan = "off"
    running, listener = uvicorn.Server(config), connections.listen("127.0.0.1", 0)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: running.started)
    monkeypatch.setattr(live_updates, "MOST_STREAMS", 2)
    cookies = {f"kappasharp_{TOKEN[:6]}": TOKEN}
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    before = set(threading.enumerate())
    with httpx.Client(base_url=base, cookies=cookies, timeout=60) as one:
        with one.stream("GET", "/api/news") as first, one.stream("GET", f"/api/news?study={of.current}") as second:
            lines = [first.iter_lines(), second.iter_lines()]
            assert [next(each) for each in lines] == [": here", ": here"]
            assert one.get("/api/news").status_code == 503
            wait_until(lambda: not busy(before))  # some have read the study; none is kept by a stream
            running.should_exit = True
            thread.join(60)
            assert not thread.is_alive()
    listener.close()
    of.storage.close()
    of.folder.cleanup()


def test_without_the_key_nothing_is_heard(stranger):
    assert stranger.get("/api/news").status_code == 401


@pytest.mark.parametrize("error", [WorkerError("no"), RuntimeError("out of memory")])
def test_figures_that_cannot_be_computed_are_told(error):
    async def figured():
        async def view(*_):
            raise error

        session = Mock(view=view, study=SimpleNamespace(name="s"))
        topic = live_updates.Topic(session, Mock())
        topic.streams, topic._head = 1, {"since": 5}
        await topic._figure()
        return json.loads(topic.message.removeprefix(b"data: "))

    assert asyncio.run(figured())["failed"]


def test_a_stock_fails_as_a_sentence_and_not_as_a_lost_answer(browser, monkeypatch):
    """Where no fit can be had, voters wait for a question of their own as before."""
    voters = [f"v{k}" for k in range(6)]
    pairs = {voter: browser.pair(voter) for voter in voters}
    session = browser.service.session(browser.study)
    session.stock.close()

    async def never(*_):
        raise WorkerError("no")

    monkeypatch.setattr(lookahead, "computed", never)
    told = [browser.answer(pairs[voter], "a", voter) for voter in voters]
    assert [one.status_code for one in told] == [200] * len(voters)
    assert len({one.json()["saved"]["event"] for one in told}) == len(voters)


class Refusing:
    def __init__(self):
        self.looked = threading.Semaphore(0)

    def heads(self):
        self.looked.release()
        raise StorageError("The disk is away.")


@pytest.mark.parametrize(
    ("is_over", "words"), [(False, ["What others answer is not seen for now: The disk is away."]), (True, [])]
)
def test_trouble_is_said_once_and_not_at_the_exit_of_python(is_over, words, monkeypatch, caplog):
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    monkeypatch.setattr(live_updates, "main_thread", lambda: ended if is_over else threading.current_thread())
    monkeypatch.setattr(live_updates, "LOOKING", 0.01)
    storage = Refusing()
    watch = live_updates.Watch(storage, print)
    watch.start()
    for _ in range(3):
        assert storage.looked.acquire(timeout=60)
    watch.close()
    assert caplog.messages == words
