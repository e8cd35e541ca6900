"""An experiment, a folder and an engine: what is missing is run, what is finished stays, claims are given back."""

import errno
import json

import pyarrow.parquet as pq
import pytest

from kappasharp.lab.engines import Outcome
from kappasharp.lab.execution import conduct, plan
from kappasharp.lab.jobs import Limit
from kappasharp.lab.run import error_rows
from kappasharp.lab.store import StoreError
from tests.lab import tiny


def rows_of(block):
    return [row | {"status": "ok", "error": None, "final_best": 1.0} for row in error_rows(block, "")]


def instant(jobs):
    """An engine that knows every answer."""
    for job in jobs:
        yield Outcome(job, [rows_of(block) for block in job])


def broken_on_vehicles(jobs):
    for job in jobs:
        fails = job[0].problem == "vehicle-5d"
        yield Outcome(job, None, "RuntimeError: no") if fails else Outcome(job, [rows_of(block) for block in job])


@pytest.fixture
def make(tmp_path):
    """The plan of the tiny experiment, anew each time: four blocks of two runs."""
    path = tmp_path / "tiny.toml"
    path.write_text(tiny.TOML)
    return lambda: plan(path, tmp_path / "results")


def claims_in(todo):
    return [path.name for path in (todo.store.folder / "claims").iterdir()]


def test_what_is_missing_is_run_and_stored_at_once(make):
    todo = make()
    assert (todo.n_runs, todo.n_left, len(todo.wanted)) == (8, 8, 4)
    done = set()
    for step in conduct(todo, instant):
        done |= set(step.block.keys)
        assert (step.runs, step.error) == (2, None) and todo.store.done() == done
    assert claims_in(todo) == [] and (make().n_runs, make().n_left) == (8, 0)
    assert list(conduct(make(), instant)) == []
    assert [path.stem for path in todo.store.experiments()] == ["tiny"]


def test_blocks_may_go_in_batches(make):
    taken = []

    def watched(jobs):
        for outcome in instant(jobs):
            taken.append(len(outcome.job))
            yield outcome

    steps = list(conduct(make(), watched, limit=Limit(100)))
    assert taken == [2, 2] and [step.runs for step in steps] == [2, 2, 2, 2]
    assert make().n_left == 0 and len(list(make().store.blocks.glob("*.parquet"))) == 4


@pytest.mark.parametrize("size", [1, 60])
def test_another_block_size_finds_the_same_runs(make, tmp_path, size):
    list(conduct(make(), instant))
    other = tmp_path / "other.toml"
    other.write_text(f"{tiny.TOML}block_size = {size}\n".replace("seeds = 2", "seeds = 3"))
    todo = plan(other, tmp_path / "results")
    assert (todo.n_runs, todo.n_left) == (12, 4) and {block.seeds for block in todo.left} == {(2,)}


def test_a_run_that_is_left_goes_on_where_it_was(make):
    todo = make()
    steps = conduct(todo, instant)
    first = next(steps)
    steps.close()
    assert claims_in(todo) == [] and make().left == todo.wanted[1:] and first.block == todo.wanted[0]
    assert len(list(conduct(make(), instant))) == 3 and make().n_left == 0


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, RuntimeError])
def test_claims_are_given_back_when_the_engine_stops(make, trouble):
    def stops(jobs):
        yield next(instant(jobs))
        next(jobs), next(jobs)
        raise trouble

    todo = make()
    with pytest.raises(trouble):
        list(conduct(todo, stops))
    assert claims_in(todo) == [] and make().n_left == 6


def test_a_full_disk_stops_the_runner_and_spoils_nothing(make, monkeypatch):
    todo, whole = make(), pq.write_table

    def full(table, path, **options):
        if list(todo.store.blocks.glob("*.parquet")):
            path.write_bytes(b"PAR1 and then")
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(table, path, **options)

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(
        StoreError, match=r"could not be written .*No space left on device.*the runs before it are stored"
    ):
        list(conduct(todo, instant))
    assert claims_in(todo) == [] and [path.suffix for path in todo.store.blocks.iterdir()] == [".parquet"]
    monkeypatch.undo()
    assert make().n_left == 6 and len(list(conduct(make(), instant))) == 3 and make().n_left == 0


def test_a_block_in_another_runners_hands_is_left_to_it(make):
    todo = make()
    held = todo.wanted[1]
    (todo.store.folder / "claims").mkdir()
    claim = todo.store.folder / "claims" / held.key
    claim.write_text(json.dumps({"host": "elsewhere", "process": 1}))
    assert [step.block for step in conduct(todo, instant)] == [todo.wanted[0], *todo.wanted[2:]]
    assert claims_in(todo) == [held.key] and make().left == [held]
    claim.unlink()
    assert [step.block for step in conduct(make(), instant)] == [held]


def test_a_block_that_another_runner_has_finished_meanwhile_is_not_run_again(make):
    late = make()
    list(conduct(make(), instant))
    assert list(conduct(late, instant)) == [] and claims_in(late) == []


def test_a_block_that_fails_is_kept_in_words_and_run_again(make):
    todo = make()
    steps = {step.block.problem: step.error for step in conduct(todo, broken_on_vehicles)}
    assert steps == {"hartmann-6d": None, "vehicle-5d": "RuntimeError: no"}
    rows = todo.store.read(["problem", "error"]).to_pylist()
    assert {(row["problem"], row["status"], row["error"]) for row in rows} == {
        ("hartmann-6d", "ok", None),
        ("vehicle-5d", "error", "RuntimeError: no"),
    }
    again = make()
    assert again.n_left == 4 and {block.problem for block in again.left} == {"vehicle-5d"}
    list(conduct(again, instant))
    table = make().store.read(["key"])
    assert make().n_left == 0 and table["status"].to_pylist() == ["ok"] * 8


def test_a_broken_file_is_run_again(make):
    todo = make()
    list(conduct(todo, instant))
    path = todo.store.blocks / f"{todo.wanted[2].key}.parquet"
    path.write_bytes(path.read_bytes()[:100])
    again = make()
    assert again.left == [todo.wanted[2]] and len(again.store.broken) == 1
    assert len(list(conduct(again, instant))) == 1 and make().n_left == 0


def test_a_peer_under_two_presets_runs_once(make, tmp_path):
    path = tmp_path / "peers.toml"
    path.write_text(
        tiny.TOML.replace('"baseline", "static"', '"botorch_0_18"').replace('"modern"', '"paper", "modern"')
    )
    todo = plan(path, tmp_path / "peers")
    assert (len(todo.wanted), todo.n_runs, todo.n_left) == (4, 4, 4)
    assert len(list(conduct(todo, instant))) == 2 and plan(path, tmp_path / "peers").n_left == 0
