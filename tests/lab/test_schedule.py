"""An experiment, a folder and an engine: what is missing is run, what is finished stays, claims are given back.

Batches within a limit: nothing is lost or run twice, no batch is too large, and the longest go first. The estimate of a
run's memory stands against the true peak of a process that does nothing else.
"""

import errno
import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kappasharp.errors import InvalidValueError
from kappasharp.lab import schedule
from kappasharp.lab.run import error_rows
from kappasharp.lab.schedule import AS_THEY_ARE, Limit, Outcome, cut, jobs, length, plan, run_missing
from kappasharp.lab.store import StoreError
from kappasharp.settings import PRESETS
from tests.lab import tiny

BLOCKS = tiny.blocks(problems=["hartmann-6d", "robotpush-14d", "levy-20d"], seeds=7)
ROOT = Path(__file__).parents[2]
RUNS = 80


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
    for step in run_missing(todo, instant):
        done |= set(step.block.keys)
        assert (step.runs, step.error) == (2, None) and todo.store.done() == done
    assert claims_in(todo) == [] and (make().n_runs, make().n_left) == (8, 0)
    assert list(run_missing(make(), instant)) == []
    assert [path.stem for path in todo.store.experiments()] == ["tiny"]


def test_blocks_may_go_in_batches(make):
    taken = []

    def watched(jobs):
        for outcome in instant(jobs):
            taken.append(len(outcome.job))
            yield outcome

    steps = list(run_missing(make(), watched, limit=Limit(100)))
    assert taken == [2, 2] and [step.runs for step in steps] == [2, 2, 2, 2]
    assert make().n_left == 0 and len(list(make().store.blocks.glob("*.parquet"))) == 4


@pytest.mark.parametrize("size", [1, 60])
def test_another_block_size_finds_the_same_runs(make, tmp_path, size):
    list(run_missing(make(), instant))
    other = tmp_path / "other.toml"
    other.write_text(f"{tiny.TOML}block_size = {size}\n".replace("seeds = 2", "seeds = 3"))
    todo = plan(other, tmp_path / "results")
    assert (todo.n_runs, todo.n_left) == (12, 4) and {block.seeds for block in todo.left} == {(2,)}


def test_a_run_that_is_left_goes_on_where_it_was(make):
    todo = make()
    steps = run_missing(todo, instant)
    first = next(steps)
    steps.close()
    assert claims_in(todo) == [] and make().left == todo.wanted[1:] and first.block == todo.wanted[0]
    assert len(list(run_missing(make(), instant))) == 3 and make().n_left == 0


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, RuntimeError])
def test_claims_are_given_back_when_the_engine_stops(make, trouble):
    def stops(jobs):
        yield next(instant(jobs))
        next(jobs), next(jobs)
        raise trouble

    todo = make()
    with pytest.raises(trouble):
        list(run_missing(todo, stops))
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
        list(run_missing(todo, instant))
    assert claims_in(todo) == [] and [path.suffix for path in todo.store.blocks.iterdir()] == [".parquet"]
    monkeypatch.undo()
    assert make().n_left == 6 and len(list(run_missing(make(), instant))) == 3 and make().n_left == 0


def test_a_block_in_another_runners_hands_is_left_to_it(make):
    todo = make()
    held = todo.wanted[1]
    (todo.store.folder / "claims").mkdir()
    claim = todo.store.folder / "claims" / held.key
    claim.write_text(json.dumps({"host": "elsewhere", "process": 1}))
    assert [step.block for step in run_missing(todo, instant)] == [todo.wanted[0], *todo.wanted[2:]]
    assert claims_in(todo) == [held.key] and make().left == [held]
    claim.unlink()
    assert [step.block for step in run_missing(make(), instant)] == [held]


def test_a_block_that_another_runner_has_finished_meanwhile_is_not_run_again(make):
    late = make()
    list(run_missing(make(), instant))
    assert list(run_missing(late, instant)) == [] and claims_in(late) == []


def test_a_block_that_fails_is_kept_in_words_and_run_again(make):
    todo = make()
    steps = {step.block.problem: step.error for step in run_missing(todo, broken_on_vehicles)}
    assert steps == {"hartmann-6d": None, "vehicle-5d": "RuntimeError: no"}
    rows = todo.store.read(["problem", "error"]).to_pylist()
    assert {(row["problem"], row["status"], row["error"]) for row in rows} == {
        ("hartmann-6d", "ok", None),
        ("vehicle-5d", "error", "RuntimeError: no"),
    }
    again = make()
    assert again.n_left == 4 and {block.problem for block in again.left} == {"vehicle-5d"}
    list(run_missing(again, instant))
    table = make().store.read(["key"])
    assert make().n_left == 0 and table["status"].to_pylist() == ["ok"] * 8


def test_a_broken_file_is_run_again(make):
    todo = make()
    list(run_missing(todo, instant))
    path = todo.store.blocks / f"{todo.wanted[2].key}.parquet"
    path.write_bytes(path.read_bytes()[:100])
    again = make()
    assert again.left == [todo.wanted[2]] and len(again.store.broken) == 1
    assert len(list(run_missing(again, instant))) == 1 and make().n_left == 0


def test_a_peer_under_two_presets_runs_once(make, tmp_path):
    path = tmp_path / "peers.toml"
    path.write_text(
        tiny.TOML.replace('"baseline", "static"', '"botorch_0_18"').replace('"modern"', '"paper", "modern"')
    )
    todo = plan(path, tmp_path / "peers")
    assert (len(todo.wanted), todo.n_runs, todo.n_left) == (4, 4, 4)
    assert len(list(run_missing(todo, instant))) == 2 and plan(path, tmp_path / "peers").n_left == 0


def keys(batches):
    return sorted(key for batch in batches for block in batch for key in block.keys)


def sizes(batches):
    return [sum(len(block.seeds) for block in batch) for batch in batches]


@pytest.mark.parametrize("runs", [None, 1, 3, 7, 10, 14, 1000])
def test_nothing_is_lost_and_no_batch_is_too_large(runs):
    batches = jobs(BLOCKS, Limit(runs))
    assert keys(batches) == sorted(key for block in BLOCKS for key in block.keys)
    assert max(sizes(batches)) <= (runs or 7)


def test_blocks_stay_as_they_are_without_a_limit():
    assert sorted(jobs(BLOCKS, AS_THEY_ARE), key=str) == sorted([(block,) for block in BLOCKS], key=str)


def test_the_longest_go_first():
    batches = jobs(BLOCKS, AS_THEY_ARE)
    assert [batch[0].problem for batch in batches] == ["robotpush-14d"] * 2 + ["levy-20d"] * 2 + ["hartmann-6d"] * 2
    (peer,) = tiny.blocks(methods=["botorch_0_18"], seeds=7)
    assert length(peer) > max(length(block) for block in BLOCKS)


def test_a_block_is_cut_into_nearly_equal_parts():
    (block,) = tiny.blocks(methods=["baseline"], seeds=60)
    pieces = cut(block, 25)
    assert [len(piece.seeds) for piece in pieces] == [20, 20, 20]
    assert [seed for piece in pieces for seed in piece.seeds] == list(range(60))
    assert cut(block, 60) == [block]


def test_a_budget_cuts_what_would_need_more():
    (block,) = tiny.blocks(methods=["baseline"], seeds=60, queries=50)
    each = schedule.bytes_per_run(schedule.sizes(block), block.preset_values)
    for runs in (1, 10, 60):
        budget = schedule.IDLE + each * runs
        assert sizes(jobs([block], Limit(memory=budget))) == [runs] * (60 // runs)
    assert sizes(jobs([block, *BLOCKS[:1]], Limit(runs=4096, memory=schedule.IDLE + each * 30)))[:2] == [30, 30]


def test_the_sizes_are_those_of_the_last_question():
    (block,) = tiny.blocks(methods=["baseline"], queries=50)
    assert schedule.sizes(block) == schedule.Sizes(106, 65, 6)


MEASURED = list(product(["paper", "modern"], [(56, 40, 6), (106, 65, 20)]))


@pytest.fixture(scope="module")
def peaks():
    """Idle memory and peak of each, from processes that do nothing else."""
    asked = " -- ".join(" ".join(map(str, (preset, *size, RUNS))) for preset, size in MEASURED)
    words = [sys.executable, "-m", "tests.lab.peak", *asked.split()]
    said = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return dict(zip(MEASURED, [tuple(map(int, line.split())) for line in said], strict=True))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read there")
@pytest.mark.parametrize(("preset", "size"), MEASURED, ids=str)
def test_the_true_peak_is_within_a_factor_of_two(preset, size, peaks):
    idle, peak = peaks[preset, size]
    measured = peak / RUNS
    assert idle < schedule.IDLE
    assert 0.5 < schedule.bytes_per_run(schedule.Sizes(*size), PRESETS[preset]) / measured < 2.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GB", 4 * 10**9), ("512 MiB", 2**29), ("8e9", 8 * 10**9), ("1.5gb", 15 * 10**8), ("100", 100)],
)
def test_memory_in_words(text, expected):
    assert schedule.read_memory(text) == expected


@pytest.mark.parametrize("text", ["", "much", "4 parsecs", "GB", "1.2.3GB", "-4GB", "nan"])
def test_other_words_are_refused(text):
    with pytest.raises(InvalidValueError, match="`memory` must"):
        schedule.read_memory(text)


def test_a_budget_without_room_for_one_run_is_refused():
    (block,) = tiny.blocks(methods=["baseline"], queries=50)
    with pytest.raises(InvalidValueError, match=r"`memory` must hold a worker with one run, 35\d MB for hartmann-6d"):
        schedule.runs_within(block, 300 * 10**6)


def test_more_designs_a_question_are_more_points_and_more_answers():
    two, four = (tiny.blocks(methods=[name], queries=50)[0] for name in ("baseline", "best_of_4"))
    assert schedule.sizes(two) == (6 + 100, 15 + 50, 6) and schedule.sizes(four) == (6 + 200, 15 + 150, 6)
