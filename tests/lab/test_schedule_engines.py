"""One contract for all engines: every job comes back once, as the serial engine has it, whatever fails or dies."""

import logging
import multiprocessing
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import dask
import pytest
import torch
from dask.distributed import LocalCluster

from kappasharp.errors import InvalidValueError, MissingLibraryError
from kappasharp.lab import schedule
from kappasharp.lab.grid import together
from tests.lab import tiny
from tests.waiting import wait_until

JOBS = [
    (block,) for block in tiny.blocks(problems=["vehicle-5d", "hartmann-6d"], seeds=[4, 2], queries=1, block_size=1)
]
ROOT = Path(__file__).parents[2]
# How many jobs an engine may have taken beyond those that came back.
ROOM = {"serial": 1, "processes": 2, "dask": 4}


@pytest.fixture(scope="module")
def cluster():
    """A real one: two worker processes of one thread each."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as running:
        yield running


@pytest.fixture(params=ROOM)
def name(request):
    return request.param


@pytest.fixture
def engine(name, request):
    if name == "dask":
        address = request.getfixturevalue("cluster").scheduler_address.removeprefix("tcp://")
        return schedule.engine(f"dask://{address}")
    return schedule.engine(name, workers=2)


@pytest.fixture(scope="module")
def expected():
    torch.set_default_dtype(torch.float64)
    return rows_by_key(schedule.serial(JOBS))


def rows_by_key(outcomes):
    rows = [row for outcome in outcomes for part in outcome.rows for row in part]
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: tiny.fingerprint(row) for row in rows}


def counted(jobs, taken):
    for job in jobs:
        taken.append(job)
        yield job


def test_every_job_comes_back_once_also_when_some_fail(name, engine, expected):
    taken, outcomes = [], []
    for outcome in engine(counted(JOBS, taken), work=partial(tiny.fails_for, "vehicle-5d")):
        outcomes.append(outcome)
        assert len(taken) - len(outcomes) < ROOM[name]
    assert sorted(outcome.job[0].key for outcome in outcomes) == sorted(job[0].key for job in JOBS)
    failed, done = ([o for o in outcomes if (o.job[0].problem == "vehicle-5d") is kind] for kind in (True, False))
    assert [(o.rows, o.error) for o in failed] == [(None, "LocalError: the simulator is on fire")] * 4
    assert [o.error for o in done] == [None] * 4
    found = rows_by_key(done)
    assert found == {key: expected[key] for key in found} and len(found) == 4


@pytest.mark.parametrize("name", ["processes", "dask"], indirect=True)
def test_a_worker_killed_in_the_middle_costs_nothing(engine, expected, tmp_path):
    outcomes = list(engine(JOBS, work=partial(tiny.dies_once, tmp_path)))
    assert (tmp_path / "died").exists()
    assert rows_by_key(outcomes) == expected


@contextmanager
def workers_of(address, count):
    """Workers as a user starts them, without a nanny that would start them again."""
    command = [sys.executable, "-m", "dask", "worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)) for _ in range(count)
        ]
        try:
            yield started
        finally:
            for process in started:
                process.terminate()


@pytest.fixture
def scheduler():
    """The address of a scheduler that has no worker yet."""
    with LocalCluster(n_workers=0, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL) as running:
        yield running.scheduler_address


def test_workers_come_late_join_and_leave_during_a_run(scheduler, expected, tmp_path, monkeypatch):
    """None is there, and the first job waits in the queue; one comes; two join while it is busy, and get work; one is
    killed for good, and the others do its job."""
    monkeypatch.setattr(schedule, "MIN_UNDER_WAY", 1)
    with ExitStack() as stack:
        workers = []
        late = threading.Timer(1.0, lambda: workers.extend(stack.enter_context(workers_of(scheduler, 1))))

        def supply():
            late.start()
            for at, job in enumerate(JOBS):
                workers.extend(stack.enter_context(workers_of(scheduler, 2)) if at == 1 else [])
                yield job

        work = partial(tiny.meets_and_loses_one, tmp_path, 3)
        outcomes = list(schedule.engine(f"dask://{scheduler.removeprefix('tcp://')}")(supply(), work=work))
        late.join()
        assert len(list(tmp_path.glob("worker-*"))) == 3
        wait_until(lambda: sorted(worker.poll() is None for worker in workers) == [False, True, True])
    assert rows_by_key(outcomes) == expected


@pytest.mark.parametrize("name", ["serial", "dask"], indirect=True)
def test_a_batch_comes_back_block_by_block(engine):
    blocks = [job[0] for job in JOBS[4:]]
    (job,) = together(blocks, 100)
    (outcome,) = engine([job])
    assert [[row["key"] for row in part] for part in outcome.rows] == [list(block.keys) for block in job]
    assert list(engine([])) == []


def test_a_job_that_always_kills_its_worker_is_given_up_and_the_others_are_not_blamed(expected, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "MOST_DEATHS", 2)
    jobs = [JOBS[0], JOBS[4], JOBS[5]]
    outcomes = list(schedule.processes(jobs, workers=2, work=partial(tiny.kills, tmp_path, "vehicle-5d")))
    (given_up,) = [outcome for outcome in outcomes if outcome.error]
    assert given_up.job == JOBS[0] and given_up.rows is None
    assert given_up.error == "WorkerDiedError: 2 workers died while they ran this"
    assert len(list(tmp_path.iterdir())) == 2
    found = rows_by_key(outcome for outcome in outcomes if not outcome.error)
    assert found == {key: expected[key] for job in JOBS[4:6] for key in job[0].keys}


def test_a_killed_worker_costs_its_own_job_and_no_other(expected, tmp_path):
    """The job beside the one whose worker dies is begun once: it is neither run again nor blamed."""
    jobs = [JOBS[0], JOBS[4]]
    outcomes = list(schedule.processes(jobs, workers=2, work=partial(tiny.outlives, tmp_path, "vehicle-5d")))
    assert rows_by_key(outcomes) == {key: expected[key] for job in jobs for key in job[0].keys}
    begun = sorted(path.name.partition(" ")[0] for path in tmp_path.iterdir())
    assert begun == sorted([JOBS[0][0].problem, JOBS[4][0].problem, JOBS[4][0].problem])


def own_workers():
    """Those of the engine; a cluster that lost one of its own may be starting another."""
    return {one for one in multiprocessing.active_children() if "Dask" not in one.name}


def test_an_engine_that_is_left_ends_its_workers():
    before = own_workers()
    outcomes = schedule.processes(JOBS, workers=1)
    assert next(outcomes).error is None
    workers = own_workers() - before
    assert len(workers) == 1
    outcomes.close()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()


def test_unknown_engines_and_devices_are_refused():
    with pytest.raises(
        InvalidValueError, match="`engine` must be serial, processes or dask://host:port, but got 'ray'"
    ):
        schedule.engine("ray")
    with pytest.raises(InvalidValueError, match="`device` must be one that this machine has, but got 'warp'"):
        schedule.engine("serial", device="warp")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_gpu_that_is_not_there_is_refused_before_anything_runs():
    with pytest.raises(InvalidValueError, match="`device` must be one that this machine has, but got 'cuda'"):
        schedule.engine("processes", device="cuda")


def test_a_missing_dask_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(MissingLibraryError, match=r"The engine dask://host:1 needs .*pip install '.*\[lab\]'"):
        list(schedule.engine("dask://host:1")(JOBS))


def test_a_scheduler_that_does_not_answer_is_said():
    with dask.config.set({"distributed.comm.timeouts.connect": "100ms"}):
        with pytest.raises(InvalidValueError, match=r"No Dask scheduler answers at '127\.0\.0\.1:1'"):
            list(schedule.engine("dask://127.0.0.1:1")(JOBS))
        with pytest.raises(InvalidValueError, match="No Dask scheduler answers at ''"):
            list(schedule.engine("dask://")(JOBS))
