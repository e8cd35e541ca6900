"""Nobody's work stalls another study: turns at the workers, budgets, searches outside locks, threads for everybody."""

import asyncio
import statistics
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from kappasharp.journal import changes
from kappasharp.questions import kind
from kappasharp.study import collection
from kappasharp.study.snapshot import copied
from kappasharp.web import budgets, server, workers
from kappasharp.web.budgets import BUDGETS, Budgets, Dear, TooOftenError
from kappasharp.web.open_study import MOST_THREADS, Session
from kappasharp.web.pictures import Cards
from kappasharp.web.workers import Job, Process, Turn, Workers, elsewhere, ready
from tests.web import guests
from tests.web.chromium import serving
from tests.web.doubles import SPACE, pass_time, run_by_clock

ORDER, CHOICE, SLIDER = FORMS = kind.parse("order", 4), kind.parse("choice", 3), kind.parse("slider", 2)
KINDS = ("order", "choice", "rating", "slider", "order", "choice")


class Jobs:
    """What workers were given, by name; a job ends when a test says so, or with its process."""

    def __init__(self, monkeypatch):
        self.begun, self.going = [], {}
        monkeypatch.setattr(Process, "is_warm", True)

        def submit(process, job, *given):
            return self._begin(process, job, *given)

        monkeypatch.setattr(Process, "submit", submit)
        monkeypatch.setattr(Process, "end", lambda process, **_: self._break(process))

    def _begin(self, process, job, *given):
        name = job if isinstance(job, Job) else given[0]
        self.begun.append(name if name is not Job.NEXT_PAIRS else str(given[2]))
        future = Future()
        future.set_running_or_notify_cancel()
        self.going[process] = future, job, given
        return future

    def _break(self, process):
        found = self.going.pop(process, None)
        if found is not None and not found[0].done():
            found[0].set_exception(BrokenProcessPool())

    def end_one(self):
        future, job, given = self.going.pop(next(iter(self.going)))
        future.set_result(job(*given) if isinstance(job, Job) else given[0])

    async def end_all(self):
        while self.going:
            self.end_one()
            await asyncio.sleep(0.01)


async def began(found, count):
    """Wait until so many jobs were begun."""
    while len(found.begun) < count:
        await asyncio.sleep(0.005)


def begun_by_one_process(monkeypatch, *turns):
    """The order in which one process begins jobs that are all there while it does another."""
    found = Jobs(monkeypatch)

    async def all_of_them():
        made = Workers(1)
        waiting = [asyncio.create_task(made.run(ready, "first", limit=60.0, turn=Turn(study="loud", visitor="v")))]
        await began(found, 1)
        for name, turn in turns:
            waiting.append(asyncio.create_task(made.run(ready, name, limit=60.0, turn=turn)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        await found.end_all()
        await asyncio.wait_for(asyncio.gather(*waiting), 60)

    asyncio.run(all_of_them())
    return found.begun[1:]


def test_studies_take_turns_and_within_a_study_its_visitors(monkeypatch):
    loud = [(f"loud {k}", Turn(study="loud", visitor="v")) for k in range(3)]
    other = ("loud, another", Turn(study="loud", visitor="w"))
    quiet = [(f"quiet {k}", Turn(study="quiet")) for k in range(2)]
    begun = begun_by_one_process(monkeypatch, *loud, other, *quiet)
    assert begun == ["quiet 0", "loud, another", "quiet 1", "loud 0", "loud 1", "loud 2"]


def test_what_is_done_ahead_waits_for_what_somebody_waits_for_in_any_study(monkeypatch):
    ahead = ("ahead", Turn(ahead=True, study="quiet"))
    loud = [(f"loud {k}", Turn(study="loud", visitor="v")) for k in range(2)]
    assert begun_by_one_process(monkeypatch, ahead, *loud) == ["loud 0", "loud 1", "ahead"]


def test_a_study_leaves_a_process_free_for_one_that_had_a_turn_lately(monkeypatch):
    """Whoever answers there next need not wait for what takes long here; after a while all are free again."""
    found = Jobs(monkeypatch)

    async def three():
        made = Workers(2)
        waiting = [asyncio.create_task(made.run(ready, "quiet", limit=600.0, turn=Turn(study="quiet")))]
        await began(found, 1)
        await found.end_all()
        for name in ("loud", "louder"):
            waiting.append(asyncio.create_task(made.run(ready, name, limit=600.0, turn=Turn(study="loud"))))
        await began(found, 2)
        await asyncio.sleep(0.05)
        first = list(found.begun)
        pass_time(workers.RECENT)
        made.hurry(Turn(), 1)
        await began(found, 3)
        await found.end_all()
        await asyncio.gather(*waiting)
        return first

    assert run_by_clock(three()) == ["quiet", "loud"] and found.begun[-1] == "louder"


def test_what_a_slow_study_does_ahead_in_its_own_share_ends_for_its_own_questions_alone(monkeypatch):
    found = Jobs(monkeypatch)

    async def four():
        made = Workers(2)
        made._seconds["quiet"] = 10.0
        given = [("loud", Turn(study="loud")), ("ahead", Turn(ahead=True, study="quiet"))]
        given += [("louder", Turn(study="loud")), ("asked", Turn(study="quiet"))]
        waiting = []
        for name, turn in given:
            waiting.append(asyncio.create_task(made.run(ready, name, limit=60.0, turn=turn)))
            await asyncio.sleep(0.05)
        await asyncio.wait_for(began(found, 3), 60)
        first = list(found.begun)
        ending = asyncio.gather(*waiting, return_exceptions=True)
        while not ending.done():
            await found.end_all()
            await asyncio.sleep(0.01)
        return first, [type(one) for one in await ending]

    first, ends = asyncio.run(four())
    assert first == ["loud", "ahead", "asked"] and ends == [str, workers.GaveWayError, str, str]


def test_a_study_with_all_processes_gives_one_up_to_another_and_its_job_is_begun_again(monkeypatch):
    monkeypatch.setattr(workers, "GRACE", 0.02)
    found = Jobs(monkeypatch)

    async def three():
        made = Workers(2)
        loud = [elsewhere(made, ready, name, turn=Turn(study="loud"), limit=60.0) for name in ("long", "longer")]
        waiting = [asyncio.create_task(one) for one in loud]
        await began(found, 2)
        quiet = elsewhere(made, ready, "asked", turn=Turn(study="quiet"), limit=60.0)
        waiting.append(asyncio.create_task(quiet))
        await asyncio.wait_for(began(found, 3), 60)
        # It keeps the one that it has had for longest.
        assert sorted(given[0] for _, _, given in found.going.values()) == ["asked", "long"]
        ending = asyncio.gather(*waiting)
        while not ending.done():
            await found.end_all()
            await asyncio.sleep(0.01)
        return await ending

    assert asyncio.run(three()) == ["long", "longer", "asked"]
    assert found.begun == ["long", "longer", "asked", "longer"]


def test_of_the_kinds_that_a_voter_asks_for_in_turn_the_last_alone_is_computed(monkeypatch):
    """Those that have not begun are of no use any more; all who asked get the same question."""
    study = collection.create_study(SPACE, storage="sqlite://", first_pairs=50)
    found = Jobs(monkeypatch)

    async def three():
        made = Workers(1)
        session = Session(study, None, made, Cards(made))
        other = asyncio.create_task(made.run(ready, "another study's", limit=60.0, turn=Turn(study="b")))
        await began(found, 1)
        asking = [asyncio.create_task(session.pair("Anna", ORDER))]
        while not made._waiting:
            await asyncio.sleep(0.005)
        for form in (CHOICE, SLIDER):
            asking.append(asyncio.create_task(session.pair("Anna", form)))
            while session._wishes.last("Anna") != form:
                await asyncio.sleep(0.005)
        ending = asyncio.gather(other, *asking)
        while not ending.done():
            await found.end_all()
            await asyncio.sleep(0.01)
        session.close()
        return (await ending)[1:]

    told = asyncio.run(three())
    assert {one.number for one in told} == {told[0].number} and told[0].form == SLIDER
    assert [name for name in found.begun if name in map(str, FORMS)] == [str(SLIDER)]


def test_budgets_are_of_a_visitor_and_of_a_study_and_come_back(monkeypatch):
    now = [0.0]
    found = Budgets(clock=lambda: now[0])
    own, together = BUDGETS[Dear.CHANGE]
    for _ in range(own.times):
        found.spend(Dear.CHANGE, "a", "Olga")
    with pytest.raises(TooOftenError, match=f"{own.times} times in a row") as refused:
        found.spend(Dear.CHANGE, "a", "Olga")
    assert refused.value.seconds == own.seconds and refused.value.sentence.key == "refused.often"
    found.spend(Dear.CHANGE, "a", "Otto")
    found.spend(Dear.CHANGE, "b", "Olga")
    now[0] += refused.value.seconds
    found.spend(Dear.CHANGE, "a", "Olga")
    with pytest.raises(TooOftenError):
        found.spend(Dear.CHANGE, "a", "Olga")
    for number in range(together.times - own.times - 2 + int(own.seconds / together.seconds)):
        found.spend(Dear.CHANGE, "a", f"owner {number}")
    for who in ("one more", None):
        with pytest.raises(TooOftenError, match="together"):
            found.spend(Dear.CHANGE, "a", who)
    monkeypatch.setattr(budgets, "MOST", 1)
    now[0] += 1000.0
    found.spend(Dear.CHANGE, "b", "Olga")
    assert len(found._whole) == 2


def test_the_limits_are_told_where_the_page_is_described():
    text = (Path(__file__).parents[2] / "docs" / "page.md").read_text("utf-8")
    told = (f"{one.times}, then one in {one.seconds:g} s" for pair in BUDGETS.values() for one in pair)
    rows = [f"| {dear.value} | {own} | {all_} |" for dear, own, all_ in zip(Dear, *[told] * 2, strict=True)]
    assert len(rows) == len(BUDGETS) and all(one in text for one in rows)


@pytest.mark.parametrize("what", [Dear.KIND, Dear.REPORT, Dear.FILE, Dear.AGREEMENT])
def test_a_team_of_two_hundred_meets_no_limit(what):
    """All of them twice within a minute."""
    now = [0.0]
    found = Budgets(clock=lambda: now[0])
    for _ in range(2):
        for voter in range(200):
            found.spend(what, "a", f"voter {voter}")
            now[0] += 60.0 / 400


@pytest.mark.parametrize(
    ("role", "what", "ask"),
    [
        (
            "owner",
            Dear.CHANGE,
            lambda one, _: one.post(one.at("parameters"), {"name": "x", "change": "narrow", "low": 9}),
        ),
        ("voter", Dear.KIND, lambda one, k: one.get(one.at("pair"), params={"kind": KINDS[k]})),
        ("viewer", Dear.REPORT, lambda one, _: one.get(one.at("export/html"))),
        ("viewer", Dear.AGREEMENT, lambda one, _: one.get(one.at("team"))),
    ],
)
def test_a_guest_in_a_loop_is_told_to_wait_and_others_are_not(browser, monkeypatch, role, what, ask):
    monkeypatch.setattr(server, "PAUSE_OF_REFUSED", 0.0)
    monkeypatch.setitem(BUDGETS, what, (BUDGETS[what][0]._replace(times=4), BUDGETS[what][1]))
    browser.answer(browser.pair(), "a")
    guest = browser.came_by(role, "loop")
    if role == "voter":
        guest.get(guest.at("pair"))
    told = [ask(guest, turn) for turn in range(6)]
    assert [one.status_code == 429 for one in told] == [False] * 4 + [True] * 2
    assert 0 < int(told[-1].headers["retry-after"]) <= BUDGETS[what][0].seconds
    assert told[-1].json()["said"]["key"] == "refused.often" and "4 times" in told[-1].json()["error"]
    assert ask(browser.came_by(role, "another"), 1).status_code != 429
    assert browser.answer(browser.pair(), "b").status_code == 200


def test_what_takes_long_is_done_by_the_workers_behind_questions_and_a_report_once(browser, monkeypatch):
    """The server itself searches, fits and draws nothing."""
    done, of = [], browser.service.figures
    run = of.run

    async def noted(job, *given, limit, turn):
        done.append(job)
        assert turn.study == browser.study
        return await run(job, *given, limit=limit)

    monkeypatch.setattr(of, "run", noted)
    browser.answer(browser.pair(), "a")
    first, again = (browser.get(browser.at("export/html")) for _ in range(2))
    assert first.status_code == 200 and first.content == again.content and done == [Job.EXPORTED]
    browser.post(browser.at("note"), {"option": 0, "text": "thin", "voter": "me"})
    assert browser.get(browser.at("export/html")).status_code == 200 and done == [Job.EXPORTED] * 2
    done.clear()
    changed = browser.post(browser.at("parameters"), {"name": "x", "change": "narrow", "high": 0.5})
    assert changed.status_code == 200 and done == [Job.CHANGED, Job.STANDING]
    refused = browser.post(browser.at("parameters"), {"name": "x", "change": "narrow", "high": 0.75})
    assert refused.status_code == 400 and "`widen` opens more" in refused.json()["error"]
    done.clear()
    for path in ("export/options", "export/json", "team", "best", "model", "history"):
        assert browser.get(browser.at(path)).status_code == 200
    assert done[:4] == [Job.EXPORTED, Job.EXPORTED, Job.TEAM, Job.BEST] and len(done) == 6


def test_a_study_goes_to_a_worker_as_it_is():
    study = collection.create_study(SPACE, storage="sqlite://", study_name="it’s", first_pairs=3)
    for answer in ("a", "b", "a", "tie"):
        study.tell(study.ask("Anna"), answer, seconds=1.5)
    study.lock("x", 0.5)
    found = copied(study).opened()
    assert found.plain() == study.plain() and found.best == study.best


def test_others_answer_while_it_is_looked_for_what_a_change_leaves(monkeypatch):
    """In another thread and over another connection; a change that was overtaken by another is looked at again."""
    study = collection.create_study(SPACE, storage="sqlite://", first_pairs=50)
    looking, goes_on, seen, narrowed = threading.Event(), threading.Event(), [], changes.narrowed

    def slow(now, *given):
        found = narrowed(now, *given)
        seen.append(now.space.bounds.keys())
        looking.set()
        assert goes_on.wait(60)
        return found

    monkeypatch.setattr(changes, "narrowed", slow)
    pair = study.ask("Anna")
    with ThreadPoolExecutor(2) as threads:
        narrowing = threads.submit(study.narrow, "x", 0.5, voter="Olga")
        assert looking.wait(60)
        try:
            told = threads.submit(study.tell, pair, "a").result(30)
            threads.submit(study.lock, "y", 0.25).result(30)
        finally:
            goes_on.set()
        narrowing.result(60)
    assert told.answer == "a" and [list(one) for one in seen] == [[], ["y"]]
    assert study.space.open_to("x").low == 0.5 and study.space.open_to("y").is_locked


def test_an_answer_does_not_have_a_change_looked_at_again(monkeypatch):
    study = collection.create_study(SPACE, storage="sqlite://", first_pairs=50)
    now = study.latest()
    found = changes.narrowed(now, "x", 0.5, None, None)
    study.tell(study.ask(), "a")
    assert study.change(found, now) and study.space.open_to("x").low == 0.5
    assert not study.change(found, now)


def test_a_study_that_stands_still_leaves_threads_to_others(opened):
    """Its lock is held by somebody, and more wait for it than there are threads."""
    browser = opened()
    other = collection.create_study(SPACE, storage=browser.service.storage, study_name="quiet").stored.uid
    stuck = browser.service.session(browser.study).study
    held, goes_on = threading.Event(), threading.Event()

    def hold():
        with stuck._lock:
            held.set()
            assert goes_on.wait(120)

    async def meanwhile():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(server.THREADS))
        many = [browser.client.get(browser.at("pair"), params={"voter": f"v{k}"}) for k in range(2 * server.THREADS)]
        waiting = [asyncio.create_task(one) for one in many]
        await asyncio.sleep(0.3)
        try:
            return await asyncio.wait_for(browser.client.get(f"/api/studies/{other}/pair?voter=Anna"), 30)
        finally:
            goes_on.set()
            await asyncio.gather(*waiting)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(hold)
        assert held.wait(60)
        try:
            answer = browser.run(meanwhile())
        finally:
            goes_on.set()
        holding.result(60)
    assert answer.status_code == 200 and MOST_THREADS < server.THREADS


def test_guests_who_do_all_they_may_in_a_loop_hold_up_no_voter_of_another_study(tmp_path):
    """A real server, whose own process imports no torch: it computes nothing of all that."""
    codes, uids = guests.studies(f"sqlite:///{tmp_path}/page.db", answers=6)
    with serving(tmp_path, "quiet") as running:
        address = running.link.split("/?")[0]
        alone, beside, told, heard = asyncio.run(guests.both(address, codes, uids, count=8, pause=0.1))
        maps = Path(f"/proc/{running.process.pid}/maps")
        libraries = maps.read_text() if sys.platform == "linux" else ""
    assert told == {200: 16} and {role for role, _ in heard} == set(guests.LOOPS)
    assert {status for _, status in heard} <= {"asked", 200, 400, 429}
    assert statistics.median(beside) <= max(guests.TIMES * max(alone), guests.FLOOR)
    assert "libtorch" not in libraries
