"""Worker processes of the page: whatever ends, hangs or is given up, none is lost and nobody waits for ever."""

import asyncio
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from kappasharp.web import workers
from kappasharp.web.pictures import Cards
from kappasharp.web.workers import (
    GaveWayError,
    NotStartedError,
    Process,
    TooLateError,
    Turn,
    WorkerError,
    Workers,
    ready,
)

HERE = "tests.web.renderers"


def running():
    """A job that a process has."""
    found = Future()
    found.set_running_or_notify_cancel()
    return found


@pytest.mark.parametrize("moments", range(4))
@pytest.mark.parametrize("drops", [False, True])
def test_a_job_given_up_while_another_ends_keeps_no_process(monkeypatch, moments, drops):
    """Whoever waits may be cancelled in the very step in which a process becomes free: the next job gets it."""
    jobs = [Future(), Future()]
    monkeypatch.setattr(Process, "is_warm", True)
    monkeypatch.setattr(Process, "submit", lambda *_: jobs[0] if not jobs[0].done() else jobs[1])

    async def given_up():
        workers, turn = Workers(1), Turn()
        first = asyncio.create_task(workers.run(ready, limit=60.0))
        while not jobs[0]._done_callbacks:  # it is waited for
            await asyncio.sleep(0)
        waiting = asyncio.create_task(workers.run(ready, limit=60.0, turn=turn))
        await asyncio.sleep(0)
        jobs[0].set_result("first")
        for _ in range(moments):
            await asyncio.sleep(0)
        waiting.cancel()
        if drops:
            workers.drop(turn)
        jobs[1].set_result("last")
        found = await asyncio.gather(first, waiting, return_exceptions=True)
        return *found, await asyncio.wait_for(workers.run(ready, limit=60.0), 10.0)

    first, waiting, last = asyncio.run(given_up())
    assert (first, type(waiting), last) == ("first", asyncio.CancelledError, "last")


@pytest.mark.parametrize(("renderer", "says"), [("quits", "SystemExit: no licence"), ("mute", "Mute")])
def test_a_renderer_that_ends_its_process_or_cannot_say_why_spoils_its_own_card_alone(renderer, says):
    async def three_cards():
        made = Workers(1, bare=True)
        try:
            cards = Cards(made)
            first = await cards.card(f"{HERE}:{renderer}", {"x": 0.0})
            return first, cards.peek(f"{HERE}:{renderer}", {"x": 0.0}), await cards.card(f"{HERE}:svg", {"x": 1.0})
        finally:
            made.close()

    first, again, other = asyncio.run(three_cards())
    assert first == again and first.kind == "failed" and first.sentence.endswith(says)
    assert other.kind == "image"


@pytest.mark.parametrize("error", [SystemExit("no"), KeyboardInterrupt()])
def test_a_job_that_ends_itself_does_not_end_the_server(monkeypatch, error):
    job = running()
    monkeypatch.setattr(Process, "is_warm", True)
    monkeypatch.setattr(Process, "submit", lambda *_: job)

    async def ended():
        made = Workers(1)
        asking = asyncio.create_task(made.run(ready, limit=60.0))
        await asyncio.sleep(0.01)
        job.set_exception(error)
        with pytest.raises(WorkerError, match=f"by {type(error).__name__}"):
            await asking
        return len(made._free)

    assert asyncio.run(ended()) == 1


def test_a_job_that_ends_just_at_its_limit_is_late_and_no_error_of_its_own(monkeypatch):
    class EndsJustThen(Future):
        def cancel(self):
            if not self.done():
                self.set_result("there")
            return False

    job = EndsJustThen()
    job.set_running_or_notify_cancel()
    monkeypatch.setattr(Process, "is_warm", True)
    monkeypatch.setattr(Process, "submit", lambda *_: job)
    with pytest.raises(TooLateError, match=r"longer than 0\.01 seconds"):
        asyncio.run(Workers(1).run(ready, limit=0.01))


def test_a_start_that_stands_still_holds_up_neither_other_jobs_nor_the_loop(monkeypatch):
    """It holds the lock of its process, and the thread that starts them all."""
    go, opened, warm = threading.Event(), [], Future()
    warm.set_result(True)

    def first_stands_still(self):
        with self._lock:
            opened.append(self)
            if len(opened) == 1:
                go.wait(60)
            self._warm = warm
        return warm

    monkeypatch.setattr(workers, "STARTS_WITHIN", 0.2)
    monkeypatch.setattr(Process, "open", first_stands_still)
    monkeypatch.setattr(Process, "submit", lambda self, job: warm)

    async def two_jobs():
        made = Workers(1)
        with pytest.raises(NotStartedError, match="does not start"):
            await made.run(ready, limit=60.0)
        began = time.perf_counter()
        opened[0].end()
        assert time.perf_counter() - began < 10.0  # or it would wait for `go`
        return await made.run(ready, limit=60.0), made

    try:
        found, made = asyncio.run(two_jobs())
        assert found and opened[1] is not opened[0] and made._processes == [opened[1]]
    finally:
        go.set()


@pytest.mark.parametrize("error", [OSError("too many files"), RuntimeError("no")])
def test_a_start_that_fails_is_told_as_one(monkeypatch, error):
    def fails(self):
        raise error

    monkeypatch.setattr(Process, "open", fails)
    with pytest.raises(NotStartedError, match=str(error)):
        asyncio.run(Workers(1).run(ready, limit=60.0))


def test_what_is_to_give_way_before_its_process_has_started_does_not_begin(monkeypatch):
    begun, warm = [], Future()
    warm.set_result(True)

    def opened(self):
        self._pool, self._warm = SimpleNamespace(end=lambda **_: None), warm
        return warm

    def submitted(self, job, name):
        begun.append(name)
        return running() if name == "ahead" else warm

    monkeypatch.setattr(Process, "open", opened)
    monkeypatch.setattr(Process, "submit", submitted)

    async def both():
        made, free = Workers(1), threading.Event()
        made._seconds[""] = 10.0
        made._starter.submit(free.wait, 60)  # another start
        ahead = asyncio.create_task(made.run(ready, "ahead", limit=60.0, turn=Turn(True, 1)))
        while not made._doing:
            await asyncio.sleep(0)
        wanted = asyncio.create_task(made.run(ready, "wanted", limit=60.0, turn=Turn(False, 2)))
        while not made._ending:
            await asyncio.sleep(0)
        free.set()
        return await asyncio.gather(ahead, wanted, return_exceptions=True)

    ahead, wanted = asyncio.run(both())
    assert isinstance(ahead, GaveWayError) and wanted is True and begun == ["wanted"]


class Tried:
    """Workers whose jobs end in these ways, one after the other."""

    is_warm = True

    def __init__(self, *ends):
        self.ends, self.turns = list(ends), []

    async def run(self, job, *given, limit, turn):
        self.turns.append(turn)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        (["there"], "there"),
        ([WorkerError("died"), "there"], "there"),
        ([WorkerError("died"), WorkerError("died again")], "died again"),
        ([TooLateError("late"), "there"], "late"),
        ([NotStartedError("none")], "here"),
        ([WorkerError("died"), NotStartedError("none")], "here"),
    ],
)
def test_what_kills_or_outlasts_a_worker_is_not_done_in_the_server(ends, found):
    made = Tried(*ends)

    async def told():
        try:
            return await workers.computed(made, lambda: "here", turn=Turn(wish=1))
        except WorkerError as error:
            return str(error)

    assert asyncio.run(told()) == found
    assert all(turn.wish == 1 for turn in made.turns)


def test_who_waits_for_a_question_comes_before_who_waits_for_figures(monkeypatch):
    jobs = {name: running() for name in ("first", "figures", "question")}
    begun = []
    monkeypatch.setattr(Process, "is_warm", True)
    monkeypatch.setattr(Process, "submit", lambda self, job, name: begun.append(name) or jobs[name])

    async def three():
        made = Workers(1)
        asked = []
        for name, wish in (("first", 0), ("figures", 0), ("question", 1)):
            asked.append(asyncio.create_task(made.run(ready, name, limit=60.0, turn=Turn(wish=wish))))
            await asyncio.sleep(0.01)
        for job in jobs.values():
            job.set_result(True)
        await asyncio.gather(*asked)

    asyncio.run(three())
    assert begun == ["first", "question", "figures"]
