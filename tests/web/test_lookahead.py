"""Looking ahead changes nothing: the pair after an answer is the same whether somebody computed it before or not."""

import asyncio
from concurrent.futures import Future

import pytest

from kappasharp import jobs
from kappasharp.questions.kind import WORDS as ANSWERS
from kappasharp.study import collection
from kappasharp.study.snapshot import Snapshot, snapshot
from kappasharp.web.lookahead import Speculation
from kappasharp.web.open_study import MOST_VOTERS, Session
from kappasharp.web.pictures import Cards
from kappasharp.web.workers import Job, Workers
from tests.web.doubles import AtOnce

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0), "mode": ["soft", "hard", "wild"]}
SCRIPT = ["a", "b", "a", "tie", "a", "b", "skip", "b", "a", "a"]


def told(study, answers):
    for answer in answers:
        study.tell(study.ask(), answer)
    return study


def asked(study):
    """Every pair that was asked, as it is stored."""
    return [event for _, event in study.history.asked.values()]


@pytest.mark.parametrize("method", ["baseline", "adaptive", "connected"])
def test_the_pair_computed_ahead_is_the_pair_asked(method):
    study = told(collection.create_study(SPACE, storage="sqlite://", method=method, first_pairs=3), SCRIPT[:6])
    pair = study.ask()
    for answer in ANSWERS:
        # An undo is an event too; what rests on fewer events is looked at again.
        at = snapshot(study)
        ahead = jobs.next_pair_after(at, "me", pair.number, answer)
        study.tell(pair, answer, seconds=2.0)
        assert study.propose() == ahead
        study.undo()
        pair = study.ask()
        assert pair.number == at.opened()[1].open["me"]


def test_a_study_with_real_workers_asks_what_a_study_without_them_asks():
    """Two processes with a thread each, and every event stored just as `ask` and `tell` store it."""
    plain = told(collection.create_study(SPACE, storage="sqlite://", study_name="s", first_pairs=3), SCRIPT)
    plain.ask()
    ahead = collection.create_study(SPACE, storage="sqlite://", study_name="s", first_pairs=3)
    taken = []

    async def whole_study():
        workers = Workers(2)
        session = Session(ahead, None, workers, Cards(workers))
        take = session.speculation.take

        async def noted(*given):
            found = await take(*given)
            taken.append(found)
            return found

        session.speculation.take = noted
        try:
            pair = await session.pair("me")
            for answer in SCRIPT:
                await session.looking
                _, pair = await session.answer("me", pair.number, answer, 1.0)
        finally:
            session.close()
            workers.close()

    asyncio.run(whole_study())
    assert asked(ahead) == asked(plain)
    # Ties and skips are looked ahead for only after a while; the likely answers always.
    assert len(taken) == len(SCRIPT)
    assert all(found is not None for found, answer in zip(taken, SCRIPT, strict=True) if answer in ("a", "b"))


def test_an_answer_of_another_voter_makes_what_was_computed_stale():
    study = told(collection.create_study(SPACE, storage="sqlite://", first_pairs=3), SCRIPT[:5])
    mine, theirs = study.ask("me"), study.ask("you")
    at = snapshot(study)
    ahead = jobs.next_pair_after(at, "me", mine.number, "a")
    study.tell(theirs, "b")
    study.tell(mine, "a")
    again = study.propose()
    pair = study.ask("me", proposed=ahead)
    stored = study.history.asked[pair.number][1]
    assert stored == again and stored.after != ahead.after


def test_a_pair_in_the_queue_comes_first_whatever_was_computed():
    study = told(collection.create_study(SPACE, storage="sqlite://", first_pairs=3), SCRIPT[:5])
    mine = study.ask()
    ahead = jobs.next_pair_after(snapshot(study), "me", mine.number, "a")
    study.tell(mine, "a")
    study.enqueue(mine.a | {"x": 0.25}, mine.b | {"x": 0.75})
    assert study.ask(proposed=ahead).origin == "queue"


def test_voters_are_looked_ahead_for_together():
    async def two():
        study = collection.create_study(SPACE, storage="sqlite://", first_pairs=50)
        workers = AtOnce(1)
        session = Session(study, None, workers, Cards(workers))
        pairs = {voter: await session.pair(voter) for voter in ("ann", "ben")}
        for _ in range(4):
            for voter, pair in list(pairs.items()):
                _, pairs[voter] = await session.answer(voter, pair.number, "a", None)
                await session.looking
        numbers = {voter: session.speculation._ahead[voter].number for voter in pairs}
        session.close()
        return numbers, study.history.number

    numbers, last = asyncio.run(two())
    assert numbers == {"ann": last, "ben": last}


def test_among_many_voters_nothing_is_computed_that_the_next_answer_would_make_stale():
    async def crowd(count):
        study = collection.create_study(SPACE, storage="sqlite://", first_pairs=50)
        workers = AtOnce(1)
        session = Session(study, None, workers, Cards(workers))
        for k in range(count):
            await session.pair(f"v{k}")
        await session.looking
        begun = len(session.speculation._ahead)
        session.close()
        return begun

    assert [asyncio.run(crowd(count)) for count in (MOST_VOTERS, MOST_VOTERS + 1)] == [MOST_VOTERS, 0]


class Held(Workers):
    """Workers that finish nothing until they are let go."""

    is_warm = True

    def __init__(self):
        super().__init__(1)
        self.jobs = []

    async def run(self, job, *given, limit, turn=None):
        self.jobs.append((Future(), job, given))
        return await asyncio.wrap_future(self.jobs[-1][0])

    def let_go(self):
        for future, job, given in self.jobs:
            if future.set_running_or_notify_cancel():
                future.set_result(job(*given))


def test_what_an_answer_waits_for_is_not_given_up_with_the_rest():
    """An answer is stored when it takes what was computed for it; another voter's, at that moment, drops the others."""
    study = told(collection.create_study(SPACE, storage="sqlite://", first_pairs=50), SCRIPT[:2])
    pair, at = study.ask(), snapshot(study)

    async def overtaken():
        held = Held()
        speculation = Speculation(held, lambda asked: None)
        speculation.begin(at, pair)
        taking = asyncio.create_task(speculation.take("me", at.number, pair.number, "a"))
        await asyncio.sleep(0.01)
        speculation.drop("me")
        speculation.begin(Snapshot(at.number + 1, at.content), pair)
        held.let_go()
        found = await taking
        speculation.drop("me")
        return found

    assert asyncio.run(overtaken()) == jobs.next_pair_after(at, "me", pair.number, "a")


def test_every_job_is_there_by_its_name():
    assert all(callable(getattr(jobs, one.value)) for one in Job)
