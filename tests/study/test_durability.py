"""What was acknowledged is there: after kills without warning, and with sixteen voters at once."""

import json

import pytest
from sqlalchemy import select

import kappasharp as ks
from kappasharp.store.schema import EVENTS
from kappasharp.store.storage import Storage
from tests.study.voters import NAME, books, run

KILLS, VOTERS, ANSWERS = 25, 16, 6  # `make faults` kills 150


@pytest.fixture
def shared(url):
    # So long a start that every pair comes from it: the test is of the storage, not of the model.
    return ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage=url, study_name=NAME, first_pairs=10_000)


def test_kills_lose_no_acknowledged_answer(shared, url, tmp_path):
    run("kill", url, tmp_path, KILLS)
    acknowledged = books(tmp_path)
    study = ks.load_study(NAME, storage=url)
    stored = {(one.voter, one.pair, one.event) for one in study.history.comparisons.values()}
    assert len(acknowledged) > KILLS and set(acknowledged) <= stored
    # A kill may fall between an answer's commit and its line in the book; never more than once each.
    assert len(stored) - len(acknowledged) <= KILLS
    whole(url)
    study.tell(study.ask(), "a")  # and the study goes on


def test_sixteen_voters_at_once_lose_and_double_nothing(shared, url, tmp_path):
    run("together", url, tmp_path, VOTERS, ANSWERS)
    acknowledged = books(tmp_path)
    study = ks.load_study(NAME, storage=url)
    stored = [(one.voter, one.pair, one.event) for one in study.history.comparisons.values()]
    assert sorted(stored) == sorted(acknowledged) and len(stored) == VOTERS * ANSWERS
    pairs = [pair for _, pair, _ in stored]
    assert len(set(pairs)) == len(pairs)
    met = [frozenset(study.history.numbers(pair)) for pair, _ in study.history.asked.values()]
    assert len(set(met)) == len(met)  # nobody was asked another's pair
    whole(url)


def whole(url):
    """Every row is a whole event, numbered without a gap."""
    storage = Storage(url)
    with storage._engine.begin() as connection:
        rows = connection.execute(select(EVENTS).order_by(EVENTS.c.number)).all()
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert all(isinstance(json.loads(row.body), dict) for row in rows)
    assert len(storage.read(storage.find(NAME))) == len(rows)


def test_two_processes_that_ask_for_one_voter_get_one_pair(shared, url):
    others = [ks.load_study(NAME, storage=url) for _ in range(3)]
    assert len({study.ask("me").number for study in (shared, *others)}) == 1


def test_threads_share_a_database_in_memory():
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    storage = Storage("sqlite://")
    studies = [
        ks.create_study({"x": (0.0, 1.0)}, storage=storage, study_name=f"s{i}", first_pairs=99) for i in range(4)
    ]

    def vote(study):
        for _ in range(20):
            study.tell(study.ask(), "a")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(vote, studies))
    assert [len(study.history.counted()) for study in studies] == [20] * 4


def test_threads_share_a_study(shared):
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    def vote(voter):
        for _ in range(5):
            shared.tell(shared.ask(voter), "a")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(vote, [f"thread {i}" for i in range(8)]))
    assert len(shared.history.counted()) == 40
